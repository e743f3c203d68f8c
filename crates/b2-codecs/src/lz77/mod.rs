//! Shared by the LZ77 codecs: detection of CPU instructions, wide copies for the inner loops of the decoders
//! (`lz4/wide.rs`, `blosclz/wide.rs`), and unchecked reads for the encoders.
//!
//! An LZ77 decoder spends its time on branch mispredictions rather than copies: a branch on a length or distance that
//! varies between sequences is often mispredicted, which costs as much as several sequences. So a match of any distance
//! and of up to `copier::Copier::WIDTH` bytes is copied without a branch: one load, one byte shuffle, which repeats the
//! period of a match that overlaps itself, and one store. Since that writes past the end of the match, these loops stop
//! before anything that is near the end of the input or the output, unusual, or malformed. The safe loops of
//! `lz4/decode.rs` and `blosclz/decode.rs` continue from there, and they alone report errors. Without these
//! instruction sets they do all of the work.

#[cfg(target_arch = "x86_64")]
#[allow(clippy::cast_possible_truncation, reason = "shuffle indices are below 64")]
pub(crate) mod copier;
pub(crate) mod raw;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

/// The progress of a decoder: the next token is at `ip` in the input, and `op` bytes have been output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) ip: usize,
    pub(crate) op: usize,
}

/// An instruction set that this CPU supports. Only [`Isa::best`] and [`Isa::available`] create values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(IsaKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsaKind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Generic,
}

#[cfg(fuzzing)]
thread_local! {
    /// The instruction set of this thread, selected by a fuzz target.
    pub(crate) static FORCED: std::cell::Cell<Option<Isa>> = const { std::cell::Cell::new(None) };
}

/// The environment variable that selects the instruction set, for the codecs and the filters.
const VARIABLE: &str = "B2KIT_SIMD";

impl Isa {
    /// Returns the best set of this CPU, or the one that [`VARIABLE`] names. It is chosen once.
    pub(crate) fn best() -> Self {
        #[cfg(fuzzing)]
        if let Some(isa) = FORCED.get() {
            return isa;
        }
        static BEST: LazyLock<Isa> = LazyLock::new(|| Isa::choose(std::env::var(VARIABLE).ok().as_deref()));
        *BEST
    }

    /// Returns the named set if this CPU supports it, otherwise the best.
    fn choose(name: Option<&str>) -> Self {
        let available = Self::available();
        available.iter().copied().find(|isa| Some(isa.name()) == name).unwrap_or(available[0])
    }

    /// Returns all sets that this CPU supports, best first. The last one is portable.
    pub(crate) fn available() -> Vec<Self> {
        let mut all = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi");
            all.extend((avx2 && avx512).then_some(Self(IsaKind::Avx512)));
            all.extend(avx2.then_some(Self(IsaKind::Avx2)));
        }
        all.push(Self(IsaKind::Generic));
        all
    }

    /// Returns the kind of this set. The CPU supports its instructions.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn kind(self) -> IsaKind {
        self.0
    }

    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => "avx2",
            IsaKind::Generic => "generic",
        }
    }
}

/// Decodes with `run`, one of these loops, then decodes the rest of the input, where `run` had to stop, from a copy that has
/// space after it. In short streams, the rest is most of the input. `ROOM` is the length of that copy: `2 * SLACK` plus the
/// input that `run` requires from a token on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn to_the_end<const ROOM: usize>(
    src: &[u8],
    end: usize,
    dst: &mut [u8],
    at: At,
    run: impl Fn(&[u8], usize, &mut [u8], At) -> At,
) -> At {
    const { assert!(ROOM > 2 * copier::SLACK) };
    let At { ip, op } = run(src, end, dst, at);
    let Some(rest) = src.get(ip..end).filter(|rest| (1..=copier::SLACK).contains(&rest.len())) else {
        return At { ip, op };
    };
    // More space does not help if the output is full, or if there is enough already.
    if dst.len() - op < copier::SLACK || src.len() - end >= ROOM - copier::SLACK {
        return At { ip, op };
    }
    let mut padded = [0; ROOM];
    padded[..rest.len()].copy_from_slice(rest);
    let after = run(&padded, rest.len(), dst, At { ip: 0, op });
    At { ip: ip + after.ip, op: after.op }
}

/// Stubs for machines without these loops.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn untouched(_isa: Isa, _src: &[u8], _end: usize, _dst: &mut [u8], at: At) -> At {
    at
}

/// Reads the rest of a length whose first byte is 255, at the start of `src`. Returns the sum and the number of bytes. Both
/// codecs encode lengths this way.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
pub(crate) fn length_bytes(src: &[u8]) -> Option<(usize, usize)> {
    // A length needs one input byte for every 255, so the sum fits 64 bits.
    let mut sum = 0;
    for (k, byte) in src.iter().enumerate() {
        sum += usize::from(*byte);
        if *byte != 255 {
            return Some((sum, k + 1));
        }
    }
    None
}

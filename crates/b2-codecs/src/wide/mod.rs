//! The decoders' inner loops for CPUs with byte shuffles: all `unsafe` code of this crate.
//!
//! What costs time in an LZ77 decoder is not the copying but the guessing: each branch on a length or a distance
//! that differs from sequence to sequence is mispredicted now and then, at a price of several sequences. So a match
//! of any distance and of up to `copier::Copier::WIDTH` bytes is copied here without a branch, by one load, one byte
//! shuffle, which repeats the period of a match that overlaps itself, and one store. That writes past the end of
//! the match, so these loops stop in front of whatever comes too close to the end of the input or the output, and
//! of anything unusual or malformed. The safe loops of `lz4` and `blosclz` go on from there, and they alone report
//! errors; without one of these instruction sets they do all of the work.

#[cfg(target_arch = "x86_64")]
mod blosclz;
#[cfg(target_arch = "x86_64")]
mod copier;
#[cfg(target_arch = "x86_64")]
mod lz4;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

/// How far a stream is decoded: `ip` bytes of input, up to a token, gave `op` bytes of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) ip: usize,
    pub(crate) op: usize,
}

/// A set of instructions that this CPU has. Values come from [`Isa::best`] and [`Isa::available`] only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Generic,
}

/// Environment variable that names the instruction set to use, as for the filters.
const VARIABLE: &str = "B2KIT_SIMD";

impl Isa {
    /// The best that this CPU has, or what [`VARIABLE`] names. Chosen once.
    pub(crate) fn best() -> Self {
        #[cfg(fuzzing)]
        if let Some(isa) = crate::fuzzing::forced() {
            return isa;
        }
        static BEST: LazyLock<Isa> = LazyLock::new(|| Isa::choose(std::env::var(VARIABLE).ok().as_deref()));
        *BEST
    }

    /// The one named, if this CPU has it, else the best.
    fn choose(name: Option<&str>) -> Self {
        let available = Self::available();
        available.iter().copied().find(|isa| Some(isa.name()) == name).unwrap_or(available[0])
    }

    /// All that this CPU has, best first. The last one is everywhere.
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
            all.extend((avx2 && avx512).then_some(Self(Set::Avx512)));
            all.extend(avx2.then_some(Self(Set::Avx2)));
        }
        all.push(Self(Set::Generic));
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            Set::Generic => "generic",
        }
    }

    /// Decodes LZ4 sequences as long as they are ordinary; returns where it stopped.
    #[inline]
    pub(crate) fn lz4_sequences(self, src: &[u8], dst: &mut [u8], at: At) -> At {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the CPU has these instructions.
            Set::Avx512 => unsafe { lz4::avx512(src, dst, at) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Set::Avx2 => unsafe { lz4::avx2(src, dst, at) },
            Set::Generic => untouched(src, dst, at),
        }
    }

    /// Decodes blosclz tokens as long as they are ordinary; returns where it stopped. Not for the first token.
    #[inline]
    pub(crate) fn blosclz_tokens(self, src: &[u8], dst: &mut [u8], at: At) -> At {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the CPU has these instructions.
            Set::Avx512 => unsafe { blosclz::avx512(src, dst, at) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Set::Avx2 => unsafe { blosclz::avx2(src, dst, at) },
            Set::Generic => untouched(src, dst, at),
        }
    }
}

/// What a set without a loop of its own does.
fn untouched(_src: &[u8], _dst: &mut [u8], at: At) -> At {
    at
}

/// The rest, at `at`, of a length whose first length byte is 255: what it adds, and where it ends. Both codecs write
/// lengths this way.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn length_bytes(src: &[u8], at: usize) -> Option<(usize, usize)> {
    // A length needs one input byte for every 255, so the sum fits on 64 bits.
    let mut sum = 0;
    for (k, byte) in src.get(at..)?.iter().enumerate() {
        sum += usize::from(*byte);
        if *byte != 255 {
            return Some((sum, at + k + 1));
        }
    }
    None
}

//! The environment variables `BLOSC_...`, which override parameters of programs.

use crate::abi::blosc2_cparams;

fn number(name: &str) -> Option<i32> {
    std::env::var(name).ok()?.trim().parse().ok()
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// An invalid codec id, for unknown names.
pub(crate) const NO_CODEC: u8 = 255;

/// The values of the variables.
pub(crate) struct Environment {
    pub(crate) clevel: Option<u8>,
    pub(crate) shuffle: Option<u8>,
    pub(crate) delta: Option<bool>,
    pub(crate) typesize: Option<i32>,
    pub(crate) compressor: Option<String>,
    pub(crate) blocksize: Option<i32>,
    pub(crate) nthreads: Option<i16>,
    pub(crate) splitmode: Option<i32>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        Self {
            clevel: number("BLOSC_CLEVEL").filter(|level| *level >= 0).map(|level| level.min(255) as u8),
            shuffle: text("BLOSC_SHUFFLE").and_then(|text| match &text[..] {
                "NOSHUFFLE" => Some(0),
                "SHUFFLE" => Some(1),
                "BITSHUFFLE" => Some(2),
                _ => None,
            }),
            delta: number("BLOSC_DELTA").filter(|on| matches!(on, 0 | 1)).map(|on| on == 1),
            typesize: number("BLOSC_TYPESIZE").filter(|size| *size > 0),
            compressor: text("BLOSC_COMPRESSOR"),
            blocksize: number("BLOSC_BLOCKSIZE").filter(|size| *size > 0),
            nthreads: nthreads(),
            splitmode: text("BLOSC_SPLITMODE").and_then(|text| match &text[..] {
                "ALWAYS" => Some(1),
                "NEVER" => Some(2),
                "AUTO" => Some(3),
                "FORWARD_COMPAT" => Some(4),
                _ => None,
            }),
        }
    }

    /// Changes parameters of a new context. `code_of` finds a codec by name; compressing with an unknown one fails.
    pub(crate) fn apply(&self, cparams: &mut blosc2_cparams, code_of: impl Fn(&str) -> Option<u8>) {
        if let Some(typesize) = self.typesize {
            cparams.typesize = typesize;
        }
        filters(self.shuffle.map(i32::from), self.delta.unwrap_or(false), cparams);
        if let Some(clevel) = self.clevel {
            cparams.clevel = clevel;
        }
        if let Some(name) = self.compressor.as_deref() {
            cparams.compcode = code_of(name).unwrap_or(NO_CODEC);
        }
        if let Some(blocksize) = self.blocksize {
            cparams.blocksize = blocksize;
        }
        if let Some(nthreads) = self.nthreads {
            cparams.nthreads = nthreads;
        }
        if let Some(splitmode) = self.splitmode {
            cparams.splitmode = splitmode;
        }
    }
}

/// Puts the filters of the Blosc 1 interface into their slots.
pub(crate) fn filters(shuffle: Option<i32>, delta: bool, cparams: &mut blosc2_cparams) {
    if let Some(shuffle) = shuffle {
        // Shuffling single bytes has no effect.
        if shuffle == 2 || shuffle == 1 && cparams.typesize > 1 {
            cparams.filters[5] = shuffle as u8;
        } else if shuffle == 0 {
            cparams.filters[5] = 0;
        }
    }
    if delta {
        cparams.filters[4] = 3;
    }
}

/// Returns whether the number of threads is invalid.
pub(crate) fn wrong_nthreads() -> bool {
    number("BLOSC_NTHREADS").is_some_and(|n| !(1..=i32::from(i16::MAX)).contains(&n))
}

pub(crate) fn nthreads() -> Option<i16> {
    number("BLOSC_NTHREADS").filter(|n| *n > 0).and_then(|n| i16::try_from(n).ok())
}

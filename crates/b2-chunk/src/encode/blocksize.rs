//! The automatic block size and the rule for splitting blocks (docs/format/writer-choices.md, sections 2 and 3).

use b2_filters::FilterProperties;

use crate::encode::blosc1;
use crate::{CParams, Compatibility, SplitMode};

const KIB: usize = 1024;

impl CParams {
    /// Returns the block size in bytes that a chunk of `nbytes` bytes gets.
    #[doc(hidden)]
    pub fn blocksize_for(&self, nbytes: usize) -> usize {
        blocksize(self, nbytes)
    }
}

/// Returns the block size in bytes for an input of `nbytes`: a multiple of the item size, or smaller than one item.
pub(crate) fn blocksize(cparams: &CParams, nbytes: usize) -> usize {
    let typesize = cparams.itemsize();
    if nbytes < typesize {
        // C-Blosc2 uses 1 here. A single block avoids the table of block starts.
        return nbytes.max(1);
    }
    let mut size = match cparams.blocksize() {
        0 if cparams.compatibility() == Compatibility::Blosc1 => {
            let (size, group) = (automatic(cparams, nbytes), blosc1::group(cparams));
            if size > group { size - size % group } else { size }
        }
        0 => automatic(cparams, nbytes),
        asked => asked,
    };
    size = size.min(nbytes);
    if size > typesize {
        size -= size % typesize;
    }
    size.max(1)
}

fn automatic(cparams: &CParams, nbytes: usize) -> usize {
    let clevel = cparams.level();
    let high_ratio = cparams.codec_properties().long_windows;
    let mut size = nbytes;
    if nbytes >= 32 * KIB {
        let base = if high_ratio { 64 * KIB } else { 32 * KIB };
        size = match clevel {
            0 => base / 4,
            1 => base / 2,
            2 => base,
            3 => base * 2,
            4 | 5 => base * 4,
            9 if high_ratio => base * 16,
            _ => base * 8,
        };
    }
    if clevel > 0 && is_split(cparams, cparams.itemsize(), nbytes) {
        let per_stream = match clevel {
            1..=3 => 32 * KIB,
            4..=6 => 64 * KIB,
            7 => 128 * KIB,
            8 => 256 * KIB,
            _ => 512 * KIB,
        };
        size = per_stream.saturating_mul(cparams.itemsize()).clamp(32 * KIB, 4 * KIB * KIB);
    }
    size
}

/// Returns whether blocks of `blocksize` bytes are split into `typesize` streams.
pub(crate) fn is_split(cparams: &CParams, typesize: usize, blocksize: usize) -> bool {
    match cparams.splitmode() {
        SplitMode::Always => true,
        SplitMode::Never => false,
        SplitMode::Auto | SplitMode::ForwardCompat => {
            let fast = cparams.level() <= cparams.codec_properties().splits_up_to;
            let byte_planes = |filter: FilterProperties| filter.planes.is_some_and(|planes| planes.rows == 1);
            fast && cparams.has_filter(byte_planes) && typesize <= 16 && blocksize / typesize >= 32
        }
    }
}

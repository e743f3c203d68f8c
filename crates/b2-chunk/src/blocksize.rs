//! The automatic block size and the split rule (docs/format/writer-choices.md, sections 2 and 3).

use b2_codecs::CodecId;
use b2_filters::FilterId;

use crate::{CParams, SplitMode};

const KIB: usize = 1024;

/// The block size for an input of `nbytes`, in bytes; a multiple of the item size when larger than it.
pub(crate) fn blocksize(cparams: &CParams, nbytes: usize) -> usize {
    let typesize = cparams.typesize();
    if nbytes < typesize {
        // C takes 1 here; one block spares the table.
        return nbytes.max(1);
    }
    let mut size = match cparams.blocksize() {
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
    let clevel = cparams.clevel();
    // Codecs that gain from long windows.
    let high_ratio = matches!(cparams.codec(), CodecId::LZ4HC | CodecId::ZLIB | CodecId::ZSTD);
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
    if clevel > 0 && is_split(cparams, cparams.typesize(), nbytes) {
        let per_stream = match clevel {
            1..=3 => 32 * KIB,
            4..=6 => 64 * KIB,
            7 => 128 * KIB,
            8 => 256 * KIB,
            _ => 512 * KIB,
        };
        size = per_stream.saturating_mul(cparams.typesize()).clamp(32 * KIB, 4 * KIB * KIB);
    }
    size
}

/// Whether blocks of `blocksize` bytes are split into `typesize` streams.
pub(crate) fn is_split(cparams: &CParams, typesize: usize, blocksize: usize) -> bool {
    match cparams.splitmode() {
        SplitMode::Always => true,
        SplitMode::Never => false,
        SplitMode::Auto | SplitMode::ForwardCompat => {
            let fast = match cparams.codec() {
                CodecId::BLOSCLZ | CodecId::LZ4 => true,
                CodecId::ZSTD => cparams.clevel() <= 5,
                _ => false,
            };
            fast && cparams.has_filter(FilterId::SHUFFLE) && typesize <= 16 && blocksize / typesize >= 32
        }
    }
}

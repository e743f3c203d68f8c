//! What differs in chunks for C-Blosc 1 (docs/format/writer-choices.md, section 11).

use b2_filters::{FilterId, FilterSlot};

use crate::model::header::flags;
use crate::{CParams, ChunkHeader};

/// Largest item that C-Blosc 1 splits, in bytes.
const MAX_SPLIT: usize = 16;
/// Shortest stream of a split block, in bytes.
const MIN_STREAM: usize = 128;

/// Removes bitshuffle if the input or the blocks end within an item: some versions lose the bytes after the last
/// whole one.
pub(crate) fn fit(header: &mut ChunkHeader) {
    let whole = |nbytes: usize| nbytes.is_multiple_of(header.itemsize());
    if !(whole(header.nbytes()) && whole(header.blocksize())) {
        header.filters.iter_mut().filter(|slot| slot.id == FilterId::BITSHUFFLE).for_each(|slot| {
            *slot = FilterSlot::EMPTY;
        });
    }
}

/// Returns the size that block sizes should be a multiple of, in bytes. C-Blosc 1 does not shuffle the bits of a block
/// whose number of items is not a multiple of 8.
pub(crate) fn group(cparams: &CParams) -> usize {
    let [.., last] = cparams.filters();
    if last.id == FilterId::BITSHUFFLE { 8 * cparams.itemsize() } else { 1 }
}

/// Returns the bits of the flags that name the filter.
pub(crate) fn filter_flags(filters: &[FilterSlot]) -> u8 {
    let has = |id| filters.iter().any(|slot| slot.id == id);
    if has(FilterId::SHUFFLE) {
        flags::SHUFFLE
    } else if has(FilterId::BITSHUFFLE) {
        flags::BITSHUFFLE
    } else {
        0
    }
}

/// Returns whether blocks must not be split: C-Blosc 1 before 1.14 would not expect it.
pub(crate) fn never_split(header: &ChunkHeader) -> bool {
    header.itemsize() > MAX_SPLIT || header.blocksize() / header.itemsize() < MIN_STREAM
}

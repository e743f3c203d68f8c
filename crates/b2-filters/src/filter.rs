//! The filter trait, the properties of filters, and checks of their arguments.

use std::fmt::Debug;
use std::ops::Range;

use b2_core::memory::zeroed;

use crate::error::Result;
use crate::{FilterError, FilterId, FilterSlot};

/// Parameters of the block that a filter is applied to.
///
/// ```
/// use b2_filters::FilterContext;
/// let cx = FilterContext::new(4).blockshape(&[8, 8]);
/// assert_eq!((cx.itemsize, cx.chunk_version), (4, 5));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FilterContext<'a> {
    /// Item size in the chunk header: 1 if the real size is above 255.
    pub itemsize: usize,
    /// Real item size in bytes, from the container. For chunks without container, `itemsize` if that is above 1.
    pub full_itemsize: Option<usize>,
    /// Version of the chunk format. bitshuffle differs in version 2.
    pub chunk_version: u8,
    /// Shape of a block in items, for N-dimensional filters. Empty if the data is not an array.
    pub blockshape: &'a [u32],
    /// The decoded block 0 of the chunk, as reference for delta; `None` if this is block 0.
    pub reference: Option<&'a [u8]>,
    /// Whether the destination of `backward` is part of something larger than the caches and not read soon. Shuffle and
    /// bitshuffle then write past the caches if they can. The result is the same.
    pub streaming: bool,
}

impl<'a> FilterContext<'a> {
    b2_core::setters! {
        full_itemsize: Option<usize>,
        chunk_version: u8,
        blockshape: &'a [u32],
        reference: Option<&'a [u8]>,
        streaming: bool,
    }

    /// Creates the context for block 0 of a chunk without container, in the current format version.
    pub fn new(itemsize: usize) -> Self {
        Self {
            itemsize,
            full_itemsize: None,
            chunk_version: 5,
            blockshape: &[],
            reference: None,
            streaming: false,
        }
    }
}

/// A length-preserving transform of blocks, identified by the filter id in the chunk header.
///
/// Directions are named as in C-Blosc2. `src` and `dst` must have the same length. All of `dst` is written, and its
/// previous content does not matter.
pub trait Filter: Debug + Send + Sync {
    /// Returns the id stored in chunk and frame headers.
    fn id(&self) -> FilterId;
    /// Returns the name for users, for example `shuffle`.
    fn name(&self) -> &str;
    /// Returns the properties that callers need before using the filter with this parameter byte. Of the context, only
    /// the item size is used.
    fn properties(&self, cx: &FilterContext<'_>, meta: u8) -> FilterProperties {
        let _ = (cx, meta);
        FilterProperties::UNKNOWN
    }
    /// Applies the filter before compression. `meta` is the parameter byte of the slot.
    ///
    /// # Errors
    /// [`FilterError::Length`] if `src` and `dst` differ in length; if the filter cannot be applied with these
    /// parameters, [`FilterError::Meta`] for the parameter byte, [`FilterError::ItemSize`] or
    /// [`FilterError::Container`] for a mismatch with the context, [`FilterError::ReadOnly`] if it is never applied;
    /// [`FilterError::OutOfMemory`].
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()>;
    /// Undoes the filter after decompression. `meta` is the parameter byte of the slot.
    ///
    /// # Errors
    /// [`FilterError::Length`] if `src` and `dst` differ in length; if the filter cannot be undone with these
    /// parameters, [`FilterError::Meta`] for the parameter byte, [`FilterError::ItemSize`] or
    /// [`FilterError::Container`] for a mismatch with the context; [`FilterError::OutOfMemory`].
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()>;
    /// Undoes the filter for part of a block: writes the bytes `range` of the unfiltered block to `dst`, which has the
    /// same length as `range`.
    ///
    /// The default implementation undoes the whole block.
    ///
    /// # Errors
    /// As [`backward`](Self::backward); [`FilterError::Part`] if `range` is not inside the block, or `src` is not in
    /// [`planes`](FilterProperties::planes) of the filter; [`FilterError::Length`] if `dst` has another length than
    /// `range`; [`FilterError::OutOfMemory`] if there is no memory for the whole block.
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: FilteredBlock<'_>,
        range: Range<usize>,
        dst: &mut [u8],
    ) -> Result<()> {
        let FilteredBlock::Block(src) = src else {
            return Err(FilterError::Part { filter: self.id(), what: "the filter does not work on planes" });
        };
        check_part(self.id(), src.len(), &range, dst)?;
        let mut block = zeroed(src.len())?;
        self.backward(cx, meta, src, &mut block)?;
        dst.copy_from_slice(&block[range]);
        Ok(())
    }
}

/// A filtered block, of which a part is to be undone.
#[derive(Clone, Copy, Debug)]
pub enum FilteredBlock<'a> {
    /// The whole block in one slice.
    Block(&'a [u8]),
    /// Its [`planes`](FilterProperties::planes) as separate slices. Their bytes after [`Planes::prefix`] are not read.
    Planes(&'a [&'a [u8]]),
}

/// Properties of a filter with a given parameter and item size.
///
/// The default, [`UNKNOWN`](Self::UNKNOWN), makes no promises. A filter overrides what it can promise:
///
/// ```
/// use b2_filters::FilterProperties;
/// let properties = FilterProperties::UNKNOWN.lossless(true).shapeless(true);
/// assert!(properties.planes.is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterProperties {
    /// Whether undoing the filter restores its input exactly.
    ///
    /// Input that repeats one item becomes a special chunk only if codec and filters are lossless and
    /// [`shapeless`](Self::shapeless). Otherwise it goes through the filters, which may change it.
    pub lossless: bool,
    /// Whether the filter works without [`FilterContext::blockshape`].
    pub shapeless: bool,
    /// The effect of the filter on the bytes, in both directions.
    pub effect: Effect,
    /// Whether floats stay floats, in place and with about the same value, so that a codec for floats may follow.
    pub keeps_floats: bool,
    /// Whether applying the filter is a plain copy, so that callers may skip it (shuffle of single bytes).
    pub forward_is_copy: bool,
    /// Whether undoing the filter is a plain copy, so that callers may skip it (trunc_prec, int_trunc).
    pub backward_is_copy: bool,
    /// Whether the time and memory of [`Filter::backward_part`] depend on the part only, not on the block.
    pub in_parts: bool,
    /// The planes that a filtered block consists of, if `backward_part` accepts them as separate slices.
    pub planes: Option<Planes>,
    /// How the filter uses [`FilterContext::reference`]. A pipeline has at most one filter that does, and none if
    /// blocks have variable lengths.
    pub reference: Reference,
    /// The filter is skipped for chunks whose length is not a multiple of this many bytes, 1 or more.
    pub chunk_multiple: usize,
    /// Whether parameter 0 means the item size, which is then written to the chunk header if it is at most 127.
    pub zero_is_itemsize: bool,
}

/// The effect of a filter on the bytes of a block. Each effect implies the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// No promise.
    Any,
    /// A block of zeros remains zeros.
    KeepsZeros,
    /// The bits are only reordered, which cannot fail for any length.
    Reorders,
}

/// The part of the decoded block 0 that a filter needs to undo other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reference {
    /// Nothing: blocks are independent.
    None,
    /// All of it.
    Block,
    /// The words of up to 8 bytes at the same positions. Block 0 itself is undone word by word from its start.
    Words,
}

/// The planes of a filtered block: slices of equal length, if the block is a multiple of [`unit`](Self::unit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Planes {
    /// Number of planes.
    pub count: usize,
    /// Number of rows of equal length per plane. Every item has a share in every row. It is 1 if plane `j` holds byte
    /// `j` of all items unchanged, and 8 if it holds the bits of those bytes.
    pub rows: usize,
}

impl Planes {
    /// Makes `count` planes of `rows` rows each.
    pub const fn new(count: usize, rows: usize) -> Self {
        Self { count, rows }
    }

    /// Returns the unit of block lengths, in bytes.
    pub fn unit(&self) -> usize {
        self.count.saturating_mul(self.rows)
    }

    /// Returns how many bytes from the start of each plane [`Filter::backward_part`] reads to produce the first `end`
    /// bytes of an unfiltered block of `nbytes`. Callers need not decode more.
    pub fn prefix(&self, nbytes: usize, end: usize) -> usize {
        let unit = self.unit().max(1);
        match end.min(nbytes) {
            0 => 0,
            end => (self.rows.max(1) - 1).saturating_mul(nbytes / unit).saturating_add(end.div_ceil(unit)),
        }
    }
}

impl FilterProperties {
    b2_core::setters! {
        lossless: bool,
        shapeless: bool,
        effect: Effect,
        keeps_floats: bool,
        forward_is_copy: bool,
        backward_is_copy: bool,
        in_parts: bool,
        planes: Option<Planes>,
        reference: Reference,
        chunk_multiple: usize,
        zero_is_itemsize: bool,
    }

    /// Assumptions about an unknown filter.
    pub const UNKNOWN: Self = Self {
        lossless: false,
        shapeless: false,
        effect: Effect::Any,
        keeps_floats: false,
        forward_is_copy: false,
        backward_is_copy: false,
        in_parts: false,
        planes: None,
        reference: Reference::None,
        chunk_multiple: 1,
        zero_is_itemsize: false,
    };
    /// Properties of an empty slot.
    pub const COPY: Self = Self {
        lossless: true,
        shapeless: true,
        effect: Effect::Reorders,
        keeps_floats: true,
        forward_is_copy: true,
        backward_is_copy: true,
        in_parts: true,
        ..Self::UNKNOWN
    };

    /// Returns the planes of a filtered block of `nbytes` bytes.
    pub fn planes_of(&self, nbytes: usize) -> Option<Planes> {
        self.planes.filter(|planes| planes.unit() > 0 && nbytes.is_multiple_of(planes.unit()))
    }
}

impl Default for FilterProperties {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// A slot with parameter 0.
impl<F: Filter> From<F> for FilterSlot {
    fn from(filter: F) -> Self {
        Self { id: filter.id(), meta: 0 }
    }
}

/// Refuses to apply a filter in the build for the page in a browser (`crates/apps/b2-wasm`), which only undoes filters.
///
/// # Errors
/// [`FilterError::ReadOnly`] in that build.
#[inline(always)]
pub(crate) fn may_apply(filter: FilterId) -> Result<()> {
    match cfg!(b2kit_decode_only) {
        true => Err(FilterError::ReadOnly { filter }),
        false => Ok(()),
    }
}

/// A request for part of a block, divided into the items that the filter moves and the trailing bytes that it copies.
pub(crate) struct SplitPart<'s, 'd> {
    /// The filtered items.
    pub(crate) whole: &'s [u8],
    /// The requested range of their bytes.
    pub(crate) range: Range<usize>,
    /// Destination of those bytes.
    pub(crate) dst: &'d mut [u8],
    /// The requested part of the trailing bytes.
    pub(crate) tail: &'s [u8],
    /// Destination of the trailing bytes.
    pub(crate) tail_dst: &'d mut [u8],
}

impl<'s, 'd> SplitPart<'s, 'd> {
    /// Splits a request at byte `at`. `range` must be inside `src` and as long as `dst`.
    pub(crate) fn split(at: usize, src: &'s [u8], range: Range<usize>, dst: &'d mut [u8]) -> Self {
        let moved = range.start.min(at)..range.end.min(at);
        let tail = &src[range.start.max(at)..range.end.max(at)];
        let (dst, tail_dst) = dst.split_at_mut(moved.len());
        Self { whole: &src[..at], range: moved, dst, tail, tail_dst }
    }
}

/// Checks that `range` is inside a block of `nbytes` and as long as `dst`.
pub(crate) fn check_part(filter: FilterId, nbytes: usize, range: &Range<usize>, dst: &[u8]) -> Result<()> {
    if range.start > range.end || range.end > nbytes {
        return Err(FilterError::Part { filter, what: "the requested range is not inside the block" });
    }
    if range.len() != dst.len() {
        return Err(FilterError::Length { filter, src: range.len(), dst: dst.len() });
    }
    Ok(())
}

/// Checks that there are `count` planes of equal length, and that `range` is inside their block.
pub(crate) fn check_planes(
    filter: FilterId,
    count: usize,
    planes: &[&[u8]],
    range: &Range<usize>,
    dst: &[u8],
) -> Result<()> {
    let Some(first) = planes.first().filter(|_| planes.len() == count) else {
        return Err(FilterError::Part { filter, what: "there must be one plane for each byte of an item" });
    };
    if planes.iter().any(|plane| plane.len() != first.len()) {
        return Err(FilterError::Part { filter, what: "planes must have equal lengths" });
    }
    check_part(filter, first.len() * count, range, dst)
}

/// Checks that source and destination have the same length, which every filter requires.
pub(crate) fn same_length(filter: FilterId, src: &[u8], dst: &[u8]) -> Result<()> {
    if src.len() != dst.len() {
        return Err(FilterError::Length { filter, src: src.len(), dst: dst.len() });
    }
    Ok(())
}

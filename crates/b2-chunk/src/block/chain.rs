//! The active filters of a chunk: the slots that are neither empty nor a copy.

use b2_filters::{
    Effect, Filter, FilterContext, FilterId, FilterProperties, FilterSlot, Planes, Reference, Shuffle,
};

use crate::{ChunkError, Plugins};

/// A filter with its parameter and those [`FilterProperties`] that every block needs. Kept small, because chains are
/// copied for every block.
#[derive(Clone, Copy)]
pub(crate) struct ActiveFilter<'a> {
    pub(crate) filter: &'a dyn Filter,
    pub(crate) meta: u8,
    pub(crate) effect: Effect,
    pub(crate) reference: Reference,
    pub(crate) in_parts: bool,
    /// Rows per plane; 0 if the filter makes no planes.
    rows: u8,
    count: u16,
}

impl<'a> ActiveFilter<'a> {
    const NONE: ActiveFilter<'static> = ActiveFilter {
        filter: &Shuffle,
        meta: 0,
        effect: Effect::Any,
        reference: Reference::None,
        in_parts: false,
        rows: 0,
        count: 0,
    };

    fn new(filter: &'a dyn Filter, meta: u8, properties: &FilterProperties) -> Self {
        let FilterProperties { effect, reference, in_parts, planes, .. } = *properties;
        let planes = planes.map(|planes| (u8::try_from(planes.rows), u16::try_from(planes.count)));
        let (rows, count) = match planes {
            Some((Ok(rows), Ok(count))) if count > 0 => (rows, count),
            _ => (0, 0),
        };
        Self { filter, meta, effect, reference, in_parts, rows, count }
    }

    /// Returns the same properties with another filter.
    fn with<'b>(&self, filter: &'b dyn Filter) -> ActiveFilter<'b> {
        let Self { meta, effect, reference, in_parts, rows, count, .. } = *self;
        ActiveFilter { filter, meta, effect, reference, in_parts, rows, count }
    }

    /// Returns the planes of filtered blocks whose length is a multiple of the planes' unit.
    fn planes(&self) -> Option<Planes> {
        (self.rows > 0).then_some(Planes::new(self.count.into(), self.rows.into()))
    }

    /// Returns the planes of a filtered block of `nbytes` bytes (1 or more).
    pub(crate) fn planes_of(&self, nbytes: usize) -> Option<Planes> {
        self.planes().filter(|planes| nbytes.is_multiple_of(planes.unit()))
    }

    /// Returns whether plane `j` of a filtered block holds byte `j` of all items, unchanged.
    pub(crate) fn has_byte_planes(&self) -> bool {
        self.rows == 1
    }
}

/// Blocks whose streams are known without running the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcut {
    None,
    /// Blocks of zeros, which stay zeros.
    Zeros,
    /// Also blocks that repeat one item: each stream is one byte of the item, so each becomes a run.
    Items,
}

/// The filters of a chain: their indices in the plugins, and the shared properties of their blocks.
pub(crate) type SavedChain = Vec<(usize, ActiveFilter<'static>)>;

/// Up to six filters, in the order in which they are applied or undone.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    slots: [ActiveFilter<'a>; 6],
    len: usize,
}

impl<'a> Chain<'a> {
    pub(crate) const EMPTY: Chain<'static> = Chain { slots: [ActiveFilter::NONE; 6], len: 0 };

    /// Collects the filters of `slots`, for items of `typesize` bytes, except those for which `is_copy` returns true.
    pub(crate) fn new<'s>(
        plugins: &'a Plugins,
        slots: impl Iterator<Item = &'s FilterSlot>,
        typesize: usize,
        is_copy: impl Fn(&FilterProperties) -> bool,
    ) -> Result<Self, ChunkError> {
        let mut chain: Chain<'a> = Chain::EMPTY;
        let cx = FilterContext::new(typesize);
        for slot in slots.filter(|slot| slot.id != FilterId::NONE) {
            let filter = &**plugins.filter(slot.id)?;
            let properties = filter.properties(&cx, slot.meta);
            if !is_copy(&properties) {
                chain.slots[chain.len] = ActiveFilter::new(filter, slot.meta, &properties);
                chain.len += 1;
            }
        }
        Ok(chain)
    }

    /// Returns a form from which [`restored`](Self::restored) recreates this chain without a lookup of filters.
    pub(crate) fn saved(&self, plugins: &Plugins) -> Option<SavedChain> {
        let saved = |active: &ActiveFilter<'_>| {
            let index = plugins.filter_index(active.filter.id())?;
            Some((index, active.with(&Shuffle)))
        };
        self.as_slice().iter().map(saved).collect()
    }

    /// Recreates a chain, with the same plugins.
    pub(crate) fn restored(plugins: &'a Plugins, saved: &SavedChain) -> Option<Self> {
        let mut chain: Chain<'a> = Chain::EMPTY;
        for (slot, (index, active)) in chain.slots.iter_mut().zip(saved) {
            *slot = active.with(plugins.filter_at(*index)?);
        }
        chain.len = saved.len();
        Some(chain)
    }

    /// Returns which blocks of items of `typesize` bytes need no filters.
    pub(crate) fn shortcut(&self, typesize: usize) -> Shortcut {
        let byte_planes = |filter: &ActiveFilter<'_>| {
            filter.has_byte_planes()
                && filter.planes_of(typesize).is_some_and(|planes| planes.count == typesize)
        };
        match self.as_slice() {
            [filter] if byte_planes(filter) => Shortcut::Items,
            filters if filters.iter().all(|filter| filter.effect >= Effect::KeepsZeros) => Shortcut::Zeros,
            _ => Shortcut::None,
        }
    }

    pub(crate) fn as_slice(&self) -> &[ActiveFilter<'a>] {
        &self.slots[..self.len]
    }
}

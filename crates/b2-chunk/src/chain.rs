//! The filters of a chunk that really do something.

use b2_filters::{Filter, FilterId, FilterSlot, Shuffle};

use crate::{ChunkError, Plugins};

/// A filter with its parameter.
pub(crate) type Active<'a> = (&'a dyn Filter, u8);

/// At most six filters, in the order in which they are applied or undone.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    slots: [Active<'a>; 6],
    len: usize,
}

impl<'a> Chain<'a> {
    pub(crate) const EMPTY: Chain<'static> = Chain { slots: [(&Shuffle, 0); 6], len: 0 };

    /// The used ones of `slots` for which `is_copy` says no.
    pub(crate) fn new<'s>(
        plugins: &'a Plugins,
        slots: impl Iterator<Item = &'s FilterSlot>,
        is_copy: impl Fn(Active<'a>) -> bool,
    ) -> Result<Self, ChunkError> {
        let mut chain: Chain<'a> = Chain::EMPTY;
        for slot in slots.filter(|slot| slot.id != FilterId::NONE) {
            let active: Active<'a> = (&**plugins.filter(slot.id)?, slot.meta);
            if !is_copy(active) {
                chain.slots[chain.len] = active;
                chain.len += 1;
            }
        }
        Ok(chain)
    }

    pub(crate) fn as_slice(&self) -> &[Active<'a>] {
        &self.slots[..self.len]
    }
}

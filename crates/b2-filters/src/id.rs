/// A filter id, as in chunk and frame headers. Any value is allowed, since files may contain unknown ids.
///
/// ```
/// # use b2_filters::FilterId;
/// assert_eq!(FilterId::from_name("delta"), Some(FilterId::DELTA));
/// assert_eq!(FilterId::from_name("filter:34"), Some(FilterId::BYTEDELTA_HISTORIC));
/// assert_eq!(format!("{} {:?}", FilterId::DELTA, FilterId(34)), "delta FilterId(filter:34)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FilterId(pub u8);

impl FilterId {
    /// Empty slot.
    pub const NONE: Self = Self(0);
    /// Byte shuffle.
    pub const SHUFFLE: Self = Self(1);
    /// Bit shuffle.
    pub const BITSHUFFLE: Self = Self(2);
    /// XOR against block 0.
    pub const DELTA: Self = Self(3);
    /// Truncate precision of floats (lossy).
    pub const TRUNC_PREC: Self = Self(4);
    /// N-dimensional cells.
    pub const NDCELL: Self = Self(32);
    /// Mean of N-dimensional cells (lossy).
    pub const NDMEAN: Self = Self(33);
    /// Byte delta as written before 2.7.1, with a defect; read only.
    pub const BYTEDELTA_HISTORIC: Self = Self(34);
    /// Byte delta.
    pub const BYTEDELTA: Self = Self(35);
    /// Truncate precision of integers (lossy).
    pub const INT_TRUNC: Self = Self(36);
}

b2_core::named_ids! {
    FilterId, "filter",
    SHUFFLE "shuffle"
    BITSHUFFLE "bitshuffle"
    DELTA "delta"
    TRUNC_PREC "trunc_prec"
    NDCELL "ndcell"
    NDMEAN "ndmean"
    BYTEDELTA "bytedelta"
    INT_TRUNC "int_trunc"
}

/// A filter slot of the pipeline: a filter and its parameter byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FilterSlot {
    /// Id of the filter; [`FilterId::NONE`] for an empty slot.
    pub id: FilterId,
    /// The parameter byte as stored.
    pub meta: u8,
}

impl FilterSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self { id: FilterId::NONE, meta: 0 };
    /// Byte shuffle, using the item size of the chunk.
    pub const SHUFFLE: Self = Self { id: FilterId::SHUFFLE, meta: 0 };
    /// Bit shuffle.
    pub const BITSHUFFLE: Self = Self { id: FilterId::BITSHUFFLE, meta: 0 };
    /// XOR against block 0.
    pub const DELTA: Self = Self { id: FilterId::DELTA, meta: 0 };

    /// Creates a slot for a filter with a parameter byte.
    pub fn new(id: FilterId, meta: u8) -> Self {
        Self { id, meta }
    }
}

/// A slot with parameter 0.
impl From<FilterId> for FilterSlot {
    fn from(id: FilterId) -> Self {
        Self { id, meta: 0 }
    }
}

impl From<&Self> for FilterSlot {
    fn from(slot: &Self) -> Self {
        *slot
    }
}

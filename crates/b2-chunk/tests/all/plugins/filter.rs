use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use b2_chunk::filters::{
    BitShuffle, Effect, Filter, FilterContext, FilterError, FilterProperties, FilteredBlock, Planes,
    Reference, Shuffle,
};
use b2_chunk::{FilterId, FilterSlot};

pub(crate) const ID: FilterId = FilterId(210);
pub(crate) const SLOT: FilterSlot = FilterSlot { id: ID, meta: 0 };

/// A filter that records its calls.
#[derive(Clone, Debug)]
pub(crate) struct TestFilter {
    pub(crate) kind: Kind,
    pub(crate) properties: FilterProperties,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Byte j of all items, for each j.
    Bytes,
    /// Their bits.
    Bits,
    /// All bits inverted: zeros do not stay zeros.
    Not,
    /// The last bit of each byte is cleared, which cannot be undone.
    Even,
    /// Bytes from the last to the first.
    Reversed,
    /// XOR with the word of block 0 at the same place; in block 0 with the word before.
    Words,
    /// XOR with the sum of all of block 0.
    Sum,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) forward: usize,
    pub(crate) backward: usize,
    pub(crate) parts: usize,
    pub(crate) planes: usize,
    pub(crate) references: usize,
    pub(crate) metas: HashSet<u8>,
    pub(crate) shapes: HashSet<Vec<u32>>,
}

impl TestFilter {
    /// Creates a filter that declares its true properties.
    pub(crate) fn new(kind: Kind) -> Self {
        let lossless = FilterProperties::UNKNOWN.lossless(true).shapeless(true);
        let planes = |rows| lossless.in_parts(true).planes(Some(Planes::new(4, rows)));
        let properties = match kind {
            Kind::Bytes => planes(1).effect(Effect::Reorders),
            Kind::Bits => planes(8).effect(Effect::Reorders),
            Kind::Not => lossless,
            Kind::Even => {
                lossless.lossless(false).keeps_floats(true).effect(Effect::KeepsZeros).backward_is_copy(true)
            }
            Kind::Reversed => lossless.effect(Effect::Reorders),
            Kind::Words => lossless.reference(Reference::Words).chunk_multiple(8),
            Kind::Sum => lossless.reference(Reference::Block),
        };
        Self { kind, properties, seen: Arc::default() }
    }

    fn note(&self, cx: &FilterContext<'_>, meta: u8, count: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().unwrap();
        count(&mut seen);
        seen.references += usize::from(cx.reference.is_some());
        seen.metas.insert(meta);
        seen.shapes.insert(cx.blockshape.to_vec());
    }
}

impl Filter for TestFilter {
    fn id(&self) -> FilterId {
        ID
    }
    fn name(&self) -> &str {
        "test"
    }
    fn properties(&self, _cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        self.properties
    }
    fn forward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        self.note(cx, meta, |seen| seen.forward += 1);
        dst.copy_from_slice(src);
        match (self.kind, cx.reference) {
            (Kind::Bytes, _) => Shuffle.forward(cx, 4, src, dst)?,
            (Kind::Bits, _) => BitShuffle.forward(cx, 0, src, dst)?,
            (Kind::Not, _) => dst.iter_mut().for_each(|byte| *byte = !*byte),
            (Kind::Even, _) => dst.iter_mut().for_each(|byte| *byte &= !1),
            (Kind::Reversed, _) => dst.reverse(),
            (Kind::Words, None) => {
                for i in (8..dst.len()).rev() {
                    dst[i] ^= dst[i - 8];
                }
            }
            (Kind::Words, Some(reference)) => dst.iter_mut().zip(reference).for_each(|(d, r)| *d ^= r),
            (Kind::Sum, None) => {}
            (Kind::Sum, Some(reference)) => {
                assert!(reference.len() >= dst.len());
                let sum = reference.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
                dst.iter_mut().for_each(|byte| *byte ^= sum);
            }
        }
        Ok(())
    }
    fn backward(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        self.note(cx, meta, |seen| seen.backward += 1);
        match (self.kind, cx.reference) {
            (Kind::Bytes, _) => Shuffle.backward(cx, 4, src, dst),
            (Kind::Bits, _) => BitShuffle.backward(cx, 0, src, dst),
            (Kind::Even, _) => panic!("undoing it is a copy"),
            (Kind::Words, None) => {
                dst.copy_from_slice(src);
                for i in 8..dst.len() {
                    dst[i] ^= dst[i - 8];
                }
                Ok(())
            }
            _ => self.forward(cx, meta, src, dst),
        }
    }
    fn backward_part(
        &self,
        cx: &FilterContext<'_>,
        meta: u8,
        src: FilteredBlock<'_>,
        range: std::ops::Range<usize>,
        dst: &mut [u8],
    ) -> Result<(), FilterError> {
        assert!(self.properties.in_parts, "a part was requested without in_parts");
        self.note(cx, meta, |seen| match src {
            FilteredBlock::Block(_) => seen.parts += 1,
            FilteredBlock::Planes(_) => seen.planes += 1,
        });
        match self.kind {
            Kind::Bytes => Shuffle.backward_part(cx, 4, src, range, dst),
            Kind::Bits => BitShuffle.backward_part(cx, 0, src, range, dst),
            _ => unreachable!("not in parts"),
        }
    }
}

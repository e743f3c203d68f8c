//! Texts of variable length. The texts of an array have a fixed length, so the longest one is measured first.

use b2_core::Control;
use b2nd::Dtype;

use super::data::{Data, Stores};
use crate::Hdf5Error;
use crate::boxes::product;

/// Number of references in one read.
const BATCH_REFERENCES: u64 = 64 << 10;

/// The items of a data set of texts.
#[derive(Clone, Copy)]
pub(crate) struct LongText<'a> {
    data: &'a Data,
}

impl LongText<'_> {
    /// Reads all texts, and returns the dtype that holds the longest: characters if all are UTF-8, otherwise bytes.
    pub(crate) fn dtype(self) -> Result<Dtype, Hdf5Error> {
        let (mut chars, mut bytes, mut is_utf8) = (1, 1, true);
        self.each_part(|text| {
            bytes = bytes.max(text.len());
            match std::str::from_utf8(text) {
                Ok(text) => chars = chars.max(text.chars().count()),
                Err(_) => is_utf8 = false,
            }
        })?;
        let dtype = if is_utf8 { format!("<U{chars}") } else { format!("|S{bytes}") };
        Dtype::parse(&dtype).map_err(Hdf5Error::array(&self.data.path))
    }

    /// Calls `each` with all texts, and once with that of items that were never written, since a damaged file may claim
    /// any number of them.
    fn each_part(self, mut each: impl FnMut(&[u8])) -> Result<(), Hdf5Error> {
        let data = self.data;
        let (shape, extent) = (&data.shape, &data.extent);
        if product(extent) == 0 {
            return Ok(());
        }
        let is_complete = match &data.place {
            Stores::Nothing => false,
            Stores::Memory(_) | Stores::Contiguous(_) => {
                self.rows(&mut each)?;
                true
            }
            Stores::Chunks { chunks, pipeline, .. } => {
                let wrong = |what| data.damaged(what);
                chunks.positions(wrong, |at| {
                    let lengths = at.iter().zip(&pipeline.chunk).zip(shape);
                    let (start, part): (Vec<u64>, Vec<u64>) = lengths
                        .map(|((&at, &length), &whole)| {
                            let start = at.saturating_mul(length);
                            (start, length.min(whole.saturating_sub(start)))
                        })
                        .unzip();
                    self.read(&start, &part, &mut each)
                })?;
                chunks.is_complete().map_err(|what| data.damaged(what))?
            }
        };
        if !is_complete || shape != extent {
            let mut unwritten = data.zeroed(data.items.stored as u64)?;
            data.fill_in(&mut unwritten);
            self.resolve(&unwritten, &mut each)?;
        }
        Ok(())
    }

    /// Calls `each` with the texts of contiguous items, some rows at a time.
    fn rows(self, each: &mut impl FnMut(&[u8])) -> Result<(), Hdf5Error> {
        let shape = &self.data.shape;
        let Some((&rows, inner)) = shape.split_first() else {
            return self.read(&[], &[], each);
        };
        let step = (BATCH_REFERENCES / product(inner).max(1)).max(1);
        let mut row = 0;
        while row < rows && product(inner) > 0 {
            let mut start = vec![0; shape.len()];
            let mut part = shape.clone();
            if let (Some(first), Some(length)) = (start.first_mut(), part.first_mut()) {
                (*first, *length) = (row, step.min(rows.saturating_sub(row)));
            }
            self.read(&start, &part, each)?;
            row = row.saturating_add(step);
        }
        Ok(())
    }

    fn read(self, start: &[u64], shape: &[u64], each: &mut impl FnMut(&[u8])) -> Result<(), Hdf5Error> {
        let size = self.data.items.stored;
        let mut references = self.data.zeroed(product(shape).saturating_mul(size as u64))?;
        self.data.read_extent(start, shape, &mut references, &Control::new().threads(1))?;
        self.resolve(&references, each)
    }

    /// Calls `each` with the texts that references refer to.
    fn resolve(self, references: &[u8], each: &mut impl FnMut(&[u8])) -> Result<(), Hdf5Error> {
        for reference in references.chunks_exact(self.data.items.stored.max(1)) {
            let found = self.data.below.sequence(reference, 1).map_err(|what| self.data.damaged(what))?;
            each(trimmed(&found.1));
        }
        Ok(())
    }

    /// Reads a box of texts as items of `dtype`.
    pub(crate) fn read_box(
        self,
        start: &[u64],
        shape: &[u64],
        dtype: &Dtype,
        dst: &mut [u8],
    ) -> Result<(), Hdf5Error> {
        dst.fill(0);
        let is_unicode = dtype.as_str().starts_with("<U");
        let mut items = dst.chunks_exact_mut(dtype.itemsize().max(1));
        let mut does_fit = true;
        self.read(start, shape, &mut |text| {
            let Some(item) = items.next() else { return };
            if !is_unicode {
                match item.get_mut(..text.len()) {
                    Some(place) => place.copy_from_slice(text),
                    None => does_fit = false,
                }
                return;
            }
            let Ok(text) = std::str::from_utf8(text) else {
                does_fit = false;
                return;
            };
            let (places, _) = item.as_chunks_mut::<4>();
            let mut places = places.iter_mut();
            for char in text.chars() {
                match places.next() {
                    Some(place) => *place = u32::from(char).to_le_bytes(),
                    None => does_fit = false,
                }
            }
        })?;
        match does_fit {
            true => Ok(()),
            false => Err(self.data.damaged("the texts have changed since they were measured")),
        }
    }
}

/// A text up to its first zero.
fn trimmed(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl Data {
    /// Returns the items if they are texts of variable length.
    pub(crate) fn long_text(&self) -> Option<LongText<'_>> {
        self.items.is_long_text.then_some(LongText { data: self })
    }
}

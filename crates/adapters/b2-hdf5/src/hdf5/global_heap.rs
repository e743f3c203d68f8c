//! Collections of a global heap: texts and sequences of variable length.

use bytes::Bytes;

use super::cursor::Cursor;

/// Objects that are stored together.
pub(super) struct Collection {
    bytes: Bytes,
    /// The numbers of the objects, and where they are, in the order of the numbers.
    objects: Vec<(u16, usize, usize)>,
}

impl Collection {
    /// Finds the objects after a head. Lengths have `width` bytes.
    pub(super) fn parse(bytes: Vec<u8>, head: usize, width: u8) -> Option<Self> {
        let mut cursor = Cursor::new(&bytes);
        cursor.skip(head)?;
        let mut objects = Vec::new();
        let mut next = || {
            let index = cursor.u16()?;
            cursor.skip(6)?;
            let len = usize::try_from(cursor.uint(width)?).ok()?;
            cursor.skip(usize::from(width).wrapping_neg() % 8)?;
            let at = bytes.len().checked_sub(cursor.rest().len())?;
            // Object 0 is the free space.
            if index == 0 {
                return None;
            }
            cursor.skip(len)?;
            let _ = cursor.skip(len.wrapping_neg() % 8);
            Some((index, at, len))
        };
        while let Some(object) = next() {
            objects.push(object);
        }
        objects.sort_unstable_by_key(|(index, ..)| *index);
        Some(Self { bytes: bytes.into(), objects })
    }

    /// Size in memory.
    pub(super) fn size(&self) -> usize {
        let objects = self.objects.len().saturating_mul(size_of::<(u16, usize, usize)>());
        self.bytes.len().saturating_add(objects)
    }

    /// Returns the object with this number.
    pub(super) fn get(&self, index: u32) -> Option<Bytes> {
        let index = u16::try_from(index).ok()?;
        // Most collections use all numbers from 1 on.
        let guess = usize::from(index).checked_sub(1).and_then(|n| self.objects.get(n));
        let found = match guess {
            Some((number, ..)) if *number == index => guess,
            _ => self.objects.get(self.objects.binary_search_by_key(&index, |(number, ..)| *number).ok()?),
        };
        let &(_, at, len) = found?;
        let end = at.checked_add(len).filter(|&end| end <= self.bytes.len())?;
        Some(self.bytes.slice(at..end))
    }
}

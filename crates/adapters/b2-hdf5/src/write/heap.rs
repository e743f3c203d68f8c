//! Global heaps, which hold values of variable length.

use super::bytes::Bytes;

/// Sizes of the head of a heap and of the head of an object, in bytes.
const HEAD: usize = 16;
/// The smallest heap.
const MIN_HEAP_LEN: usize = 4096;
/// Maximum size of a heap, unless an object is larger.
const MAX_HEAP_LEN: usize = 1 << 16;

/// The location of an object: the heap, and its number in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapLocation {
    pub(super) heap: usize,
    pub(super) index: u32,
}

/// The sizes of heaps and the positions of their objects.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// The lengths of the objects of each heap.
    heaps: Vec<Vec<usize>>,
    used: usize,
}

impl Heaps {
    /// Allocates an object of `len` bytes.
    pub(super) fn add(&mut self, len: usize) -> HeapLocation {
        let size = HEAD + len.next_multiple_of(8);
        if self.heaps.is_empty() || self.used + size > MAX_HEAP_LEN {
            self.heaps.push(Vec::new());
            self.used = HEAD;
        }
        self.used += size;
        let heap = self.heaps.len() - 1;
        let index = match self.heaps.last_mut() {
            Some(objects) => {
                objects.push(len);
                objects.len()
            }
            None => 0,
        };
        HeapLocation { heap, index: index as u32 }
    }

    /// The addresses of the heaps, the first of which is at `start`, and the end of the last one.
    pub(super) fn addresses(&self, start: u64) -> (Vec<u64>, u64) {
        let mut at = start;
        let addresses = self.heaps.iter().map(|objects| {
            let own = at;
            at += size(objects) as u64;
            own
        });
        let addresses = addresses.collect();
        (addresses, at)
    }

    /// The bytes of all heaps, for objects that are given in the order of [`add`](Self::add).
    pub(super) fn write(&self, objects: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut objects = objects.into_iter();
        let mut out = Bytes::default();
        for lengths in &self.heaps {
            let start = out.0.len();
            let end = start + size(lengths);
            out.put(b"GCOL").u8(1).fill(start + 8).u64((end - start) as u64);
            for (index, _) in (1..).zip(lengths) {
                let object = objects.next().unwrap_or_default();
                out.u16(index).u16(1).u32(0).u64(object.len() as u64).put(&object);
                out.fill(out.0.len().next_multiple_of(8));
            }
            // The free space is object 0.
            let left = end - out.0.len();
            if left >= HEAD {
                out.u64(0).u64(left as u64);
            }
            out.fill(end);
        }
        out.0
    }
}

fn size(objects: &[usize]) -> usize {
    let used = objects.iter().fold(HEAD, |used, len| used + HEAD + len.next_multiple_of(8));
    used.max(MIN_HEAP_LEN)
}

/// The reference to an object of a heap: its length in items, and its position.
pub(super) fn item(len: usize, address: u64, index: u32) -> Vec<u8> {
    let mut out = Bytes::default();
    out.u32(len as u32).u64(address).u32(index);
    out.0
}

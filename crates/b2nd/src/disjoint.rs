//! A buffer that several threads fill at once, each at places of its own. The one module of this crate with
//! `unsafe` code: cutting the buffer into safe slices would mean one for each row of each block.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::copy::Target;

/// A buffer to be filled through any number of [`Writer`]s.
pub(crate) struct Disjoint<'a> {
    start: *mut u8,
    len: usize,
    buffer: PhantomData<&'a mut [u8]>,
    #[cfg(debug_assertions)]
    owners: Owners,
}

// SAFETY: It stands for a `&mut [u8]`, which is `Send`; and `&Disjoint` only gives out places through writers,
// which do not overlap by the contract of `new`.
unsafe impl Send for Disjoint<'_> {}
// SAFETY: As above.
unsafe impl Sync for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    /// # Safety
    /// As long as there are two writers, no byte may be in places that both of them were asked for.
    pub(crate) unsafe fn new(buffer: &'a mut [u8]) -> Self {
        Self {
            start: buffer.as_mut_ptr(),
            len: buffer.len(),
            buffer: PhantomData,
            #[cfg(debug_assertions)]
            owners: Owners::new(buffer.len()),
        }
    }

    /// What one thread fills.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            buffer: self,
            #[cfg(debug_assertions)]
            owner: self.owners.next(),
        }
    }
}

/// Fills places of a [`Disjoint`] buffer that nobody else fills.
pub(crate) struct Writer<'a> {
    buffer: &'a Disjoint<'a>,
    #[cfg(debug_assertions)]
    owner: u32,
}

impl Target for Writer<'_> {
    #[inline]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        let buffer = self.buffer;
        assert!(at <= buffer.len && len <= buffer.len - at, "{len} bytes at {at} of {}", buffer.len);
        #[cfg(debug_assertions)]
        buffer.owners.claim(self.owner, at, len);
        // SAFETY: The range is inside the buffer, which is borrowed exclusively for the lifetime of `Disjoint`
        // and initialised. No other writer is asked for any of its bytes (the contract of `Disjoint::new`), and
        // this writer is borrowed as long as the slice is in use.
        unsafe { std::slice::from_raw_parts_mut(buffer.start.add(at), len) }
    }
}

/// Who has filled what: in debug builds each byte may belong to one writer only.
#[cfg(debug_assertions)]
struct Owners {
    writers: std::sync::atomic::AtomicU32,
    bytes: Vec<std::sync::atomic::AtomicU32>,
}

#[cfg(debug_assertions)]
impl Owners {
    /// Larger buffers are not watched.
    const MOST: usize = 1 << 20;

    fn new(len: usize) -> Self {
        let watched = if len <= Self::MOST { len } else { 0 };
        let mut bytes = Vec::new();
        // Without memory for it there is no watch.
        if bytes.try_reserve_exact(watched).is_ok() {
            bytes.extend((0..watched).map(|_| std::sync::atomic::AtomicU32::new(0)));
        }
        Self { writers: 0.into(), bytes }
    }

    fn next(&self) -> u32 {
        self.writers.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
    }

    fn claim(&self, owner: u32, at: usize, len: usize) {
        for byte in self.bytes.iter().skip(at).take(len) {
            let before = byte.swap(owner, std::sync::atomic::Ordering::Relaxed);
            assert!(before == 0 || before == owner, "two writers were asked for one byte");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_fill_their_places() {
        let mut shared = vec![0; 1000];
        // SAFETY: Each writer has a hundred bytes of its own.
        let buffer = unsafe { Disjoint::new(&mut shared) };
        std::thread::scope(|scope| {
            for k in 0..10 {
                let buffer = &buffer;
                scope.spawn(move || {
                    let mut writer = buffer.writer();
                    for i in 0..100 {
                        writer.place(k * 100 + i, 1)[0] = (k * 100 + i) as u8;
                    }
                    writer.place(k * 100, 0);
                });
            }
        });
        // The safe twin.
        let mut safe = vec![0; 1000];
        for i in 0..1000 {
            safe.as_mut_slice().place(i, 1)[0] = i as u8;
        }
        assert_eq!(shared, safe);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 3 of 4")]
    fn places_are_inside() {
        let mut bytes = [0; 4];
        // SAFETY: There is one writer.
        let buffer = unsafe { Disjoint::new(&mut bytes) };
        buffer.writer().place(3, 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two writers")]
    fn overlaps_are_noticed() {
        let mut bytes = [0; 4];
        // SAFETY: Both are used one after the other, by one thread, and no slice of them is kept.
        let buffer = unsafe { Disjoint::new(&mut bytes) };
        buffer.writer().place(0, 3);
        buffer.writer().place(2, 1);
    }
}

//! A buffer, possibly uninitialised, that several threads fill concurrently, each at its own positions. This module
//! holds the crate's `unsafe` code: splitting the buffer into safe slices would need one slice per row of each block.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::read::scatter_plan::{RowCopy, Target};

/// The memory that a selection is read into: of any layout, initialised or not. Offsets and strides
/// in it are those that the [`ScatterPlan`](crate::read::scatter_plan::ScatterPlan) were made with.
pub struct Destination<'a> {
    start: *mut u8,
    len: usize,
    initialised: bool,
    buffer: PhantomData<&'a mut [MaybeUninit<u8>]>,
}

impl std::fmt::Debug for Destination<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'a> From<&'a mut [u8]> for Destination<'a> {
    fn from(buffer: &'a mut [u8]) -> Self {
        let (start, len) = (buffer.as_mut_ptr(), buffer.len());
        Self { start, len, initialised: true, buffer: PhantomData }
    }
}

impl<'a> From<&'a mut [MaybeUninit<u8>]> for Destination<'a> {
    fn from(buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        let (start, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        Self { start, len, initialised: false, buffer: PhantomData }
    }
}

// SAFETY: It represents a `&mut [MaybeUninit<u8>]`, which is `Send`.
unsafe impl Send for Destination<'_> {}

impl<'a> Destination<'a> {
    /// Returns a destination without any bytes.
    pub fn empty() -> Self {
        Self::from(<&mut [u8]>::default())
    }

    /// Creates a destination from memory that is not borrowed, such as that of another language.
    ///
    /// # Safety
    /// For the lifetime `'a` the `len` bytes from `start` on must be valid for reads and writes, and must not be used
    /// elsewhere. With `initialised`, they must be initialised.
    pub unsafe fn from_raw(start: *mut u8, len: usize, initialised: bool) -> Self {
        Self { start, len, initialised, buffer: PhantomData }
    }

    /// Returns the size in bytes, including gaps.
    #[allow(clippy::len_without_is_empty, reason = "the size of memory, not of a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the memory is initialised.
    pub(crate) fn is_initialised(&self) -> bool {
        self.initialised
    }

    /// Returns the buffer as a slice, zeroing it first if it was not initialised.
    pub fn into_slice(self) -> &'a mut [u8] {
        if !self.initialised {
            // SAFETY: The range is that of the slice it was made of, which is borrowed exclusively, and any byte may
            // be written to a `MaybeUninit`.
            unsafe { self.start.write_bytes(0, self.len) };
        }
        // SAFETY: As above; all bytes are initialised now. Nothing writes uninitialised bytes to it later: the only
        // other way to write is through `DisjointBuffer`, which takes `self` too.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A buffer that several threads fill concurrently.
pub(crate) trait SharedBuffer: Sync {
    /// Writes to places that no other writer writes to.
    type Writer<'w>: Target
    where
        Self: 'w;

    /// Returns a writer for one thread.
    fn writer(&self) -> Self::Writer<'_>;
}

/// An initialised buffer that is filled through any number of [`Writer`]s.
pub(crate) struct DisjointBuffer<'a> {
    start: *mut u8,
    len: usize,
    buffer: PhantomData<&'a mut [u8]>,
    #[cfg(debug_assertions)]
    owners: Owners,
}

// SAFETY: It represents a `&mut [u8]`, which is `Send`, and `&DisjointBuffer` only hands out places
// through writers, which do not overlap by the contract of `new`.
unsafe impl Send for DisjointBuffer<'_> {}
// SAFETY: As above.
unsafe impl Sync for DisjointBuffer<'_> {}

impl<'a> DisjointBuffer<'a> {
    /// Creates the shared buffer, zeroing uninitialised memory. With `overlap`, a later writer may
    /// use places of an earlier one that no longer exists.
    ///
    /// # Safety
    /// While two writers exist, no byte may be in places that both of them return.
    pub(crate) unsafe fn new(buffer: Destination<'a>, overlap: bool) -> Self {
        let buffer = buffer.into_slice();
        Self::over(buffer.as_mut_ptr(), buffer.len(), overlap)
    }

    fn over(start: *mut u8, len: usize, overlap: bool) -> Self {
        #[cfg(not(debug_assertions))]
        let _ = overlap;
        Self {
            start,
            len,
            buffer: PhantomData,
            #[cfg(debug_assertions)]
            owners: Owners::new(if overlap { 0 } else { len }),
        }
    }

    /// Returns the buffer after all writers are gone.
    pub(crate) fn into_slice(self) -> &'a mut [u8] {
        // SAFETY: The buffer is initialised and borrowed exclusively, and writers borrow `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl SharedBuffer for DisjointBuffer<'_> {
    type Writer<'w>
        = Writer<'w>
    where
        Self: 'w;

    fn writer(&self) -> Writer<'_> {
        Writer {
            buffer: self,
            #[cfg(debug_assertions)]
            owner: self.owners.next(),
        }
    }
}

/// Writes to places of a [`DisjointBuffer`] that no other writer writes to.
pub(crate) struct Writer<'a> {
    buffer: &'a DisjointBuffer<'a>,
    #[cfg(debug_assertions)]
    owner: u32,
}

impl Writer<'_> {
    /// Checks a place, and returns a pointer to its start.
    #[inline]
    fn claim(&self, at: usize, len: usize) -> *mut u8 {
        let buffer = self.buffer;
        assert!(at <= buffer.len && len <= buffer.len - at, "{len} bytes at {at} of {}", buffer.len);
        #[cfg(debug_assertions)]
        buffer.owners.claim(self.owner, at, len);
        // SAFETY: The place is in bounds, so this is at most one past the end.
        unsafe { buffer.start.add(at) }
    }
}

impl Target for Writer<'_> {
    #[inline]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: The range is inside the buffer, which is initialised and borrowed exclusively for
        // the lifetime of `DisjointBuffer`. No other writer hands out any of its bytes (the contract of
        // `DisjointBuffer::new`), and this writer is borrowed as long as the slice is in use.
        unsafe { std::slice::from_raw_parts_mut(self.claim(at, len), len) }
    }

    #[allow(clippy::indexing_slicing, reason = "documented: rows out of bounds panic")]
    fn put_rows(&mut self, rows: RowCopy, src: &[u8]) {
        if !SHORT_ROW.contains(&rows.len) {
            rows.each(|from, to| {
                let row = &src[from..from + rows.len];
                // SAFETY: The row is inside the buffer, and no slice of its place exists; see `place`.
                unsafe { self.claim(to, row.len()).copy_from_nonoverlapping(row.as_ptr(), row.len()) }
            });
            return;
        }
        let (from_end, to_end) = (rows.end(rows.from, rows.from_step), rows.end(rows.to, rows.to_step));
        let DisjointBuffer { start, len, .. } = *self.buffer;
        assert!(
            from_end <= src.len() && to_end <= len,
            "rows up to {from_end} of {} to {to_end} of {len}",
            src.len()
        );
        #[cfg(debug_assertions)]
        rows.each(|_, to| self.buffer.owners.claim(self.owner, to, rows.len));
        // SAFETY: Both ends are in bounds, so all rows are. Nobody else uses the places of this writer; see `place`.
        unsafe {
            match rows.len {
                0..=32 => rows.copy::<16>(src.as_ptr(), start),
                33..=64 => rows.copy::<32>(src.as_ptr(), start),
                _ => rows.copy::<64>(src.as_ptr(), start),
            }
        }
    }
}

/// The shortest and the longest rows that are copied without a call of `memcpy`, in bytes.
const SHORT_ROW: std::ops::RangeInclusive<usize> = 16..=128;

impl RowCopy {
    /// Returns the end of the last row, of which the first starts at `first`, or the largest number instead of a larger
    /// one.
    fn end(&self, first: usize, step: usize) -> usize {
        step.saturating_mul(self.count.saturating_sub(1)).saturating_add(first).saturating_add(self.len)
    }

    /// Calls `visit` with the offsets of each row.
    fn each(&self, mut visit: impl FnMut(usize, usize)) {
        (0..self.count).for_each(|k| visit(self.from + k * self.from_step, self.to + k * self.to_step));
    }

    /// Copies all rows, each as its first `W` and its last `W` bytes.
    ///
    /// # Safety
    /// A row has `W` to `2 * W` bytes. All rows of the source can be read, all rows of the target can be written, and
    /// the two do not overlap.
    #[inline]
    unsafe fn copy<const W: usize>(&self, src: *const u8, dst: *mut u8) {
        let last = self.len - W;
        for k in 0..self.count {
            // SAFETY: As the caller promises. `first` and `last` may overlap, with the same bytes.
            unsafe {
                let (from, to) =
                    (src.add(self.from + k * self.from_step), dst.add(self.to + k * self.to_step));
                let first_bytes = from.cast::<[u8; W]>().read();
                let last_bytes = from.add(last).cast::<[u8; W]>().read();
                to.cast::<[u8; W]>().write(first_bytes);
                to.add(last).cast::<[u8; W]>().write(last_bytes);
            }
        }
    }
}

/// An uninitialised buffer that is to be filled completely through any number of [`Filler`]s.
pub(crate) struct UninitBuffer<'a> {
    /// The buffer, whose bytes are only reached through fillers.
    buffer: DisjointBuffer<'a>,
    filled: AtomicUsize,
}

impl<'a> UninitBuffer<'a> {
    /// # Safety
    /// No byte may be in places of two fillers or in two places of one filler, except for places
    /// that the filler had to [forget](Target::forget).
    pub(crate) unsafe fn new(buffer: Destination<'a>) -> Self {
        Self { buffer: DisjointBuffer::over(buffer.start, buffer.len, false), filled: AtomicUsize::new(0) }
    }

    /// Returns the buffer after all fillers are gone.
    ///
    /// # Panics
    /// If they have not filled all of it.
    pub(crate) fn into_slice(self) -> &'a mut [u8] {
        assert!(self.is_filled(), "the places of all selected bytes cover the destination");
        self.buffer.into_slice()
    }

    /// Returns whether every byte was filled. Places are in bounds and do not overlap, so counting
    /// bytes is enough.
    fn is_filled(&self) -> bool {
        self.filled.load(Relaxed) == self.buffer.len
    }
}

impl SharedBuffer for UninitBuffer<'_> {
    type Writer<'w>
        = Filler<'w>
    where
        Self: 'w;

    fn writer(&self) -> Filler<'_> {
        Filler { writer: self.buffer.writer(), filled: 0, total: &self.filled }
    }
}

/// Fills places of an [`UninitBuffer`] buffer that no other filler fills.
pub(crate) struct Filler<'a> {
    writer: Writer<'a>,
    /// Total size in bytes of all places so far.
    filled: usize,
    /// The total of all fillers, to which this one is added in the end.
    total: &'a AtomicUsize,
}

impl Filler<'_> {
    /// Registers a place and returns a pointer to its start.
    #[inline]
    fn claim(&mut self, at: usize, len: usize) -> *mut u8 {
        let start = self.writer.claim(at, len);
        self.filled += len;
        start
    }
}

impl Target for Filler<'_> {
    #[inline]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = self.claim(at, len);
        // SAFETY: The range is inside the buffer, which is borrowed exclusively for the lifetime of
        // `UninitBuffer`. No other filler hands out any of its bytes (the contract of `UninitBuffer::new`),
        // and this filler is borrowed as long as the slice is in use. The bytes are zeroed before a
        // slice is made of them, because its receiver, possibly a plugin, may read it. Writing them
        // twice is cheap, since they are in the cache by then.
        unsafe {
            start.write_bytes(0, len);
            std::slice::from_raw_parts_mut(start, len)
        }
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let start = self.claim(at, bytes.len());
        // SAFETY: As in `place`. `bytes` cannot overlap the buffer, since no slice of the buffer
        // exists.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    fn put_rows(&mut self, rows: RowCopy, src: &[u8]) {
        self.filled += rows.count * rows.len;
        self.writer.put_rows(rows, src);
    }

    #[inline]
    fn fill(&mut self, at: usize, len: usize, byte: u8) {
        let start = self.claim(at, len);
        // SAFETY: As in `place`.
        unsafe { start.write_bytes(byte, len) }
    }

    fn forget(&mut self, len: usize) {
        self.filled -= len;
    }
}

impl Drop for Filler<'_> {
    fn drop(&mut self) {
        self.total.fetch_add(self.filled, Relaxed);
    }
}

/// Debug check that each byte belongs to one writer only.
#[cfg(debug_assertions)]
struct Owners {
    writers: std::sync::atomic::AtomicU32,
    bytes: Vec<std::sync::atomic::AtomicU32>,
}

#[cfg(debug_assertions)]
impl Owners {
    /// Larger buffers are not checked, in bytes.
    const MAX_CHECKED_LEN: usize = 1 << 20;

    fn new(len: usize) -> Self {
        let watched = if len <= Self::MAX_CHECKED_LEN { len } else { 0 };
        let mut bytes = Vec::new();
        // Skip the check if there is not enough memory for it.
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

    /// Fills a buffer of 1000 bytes with ten threads.
    fn fill(shared: &impl SharedBuffer) {
        std::thread::scope(|scope| {
            for k in 0..10 {
                scope.spawn(move || twin(&mut shared.writer(), k));
            }
        });
    }

    /// Fills thread `k`'s share in every possible way. With a slice as target this is all safe
    /// code.
    fn twin(target: &mut (impl Target + ?Sized), k: usize) {
        for i in 0..50 {
            target.place(k * 100 + i, 1)[0] = (k * 100 + i) as u8;
        }
        target.place(k * 100 + 50, 0);
        target.place(k * 100 + 50, 20).fill(7);
        target.forget(20);
        target.put(k * 100 + 50, &[k as u8; 20]);
        target.fill(k * 100 + 70, 30, 9);
        target.forget(90);
        // Rows of all lengths that fit into the range twice, at two distances.
        let src: Vec<u8> = (0..200).map(|i| (i * 7 + k) as u8).collect();
        for len in 1..=45 {
            let rows = RowCopy {
                len,
                count: 2,
                from: len % 3,
                from_step: 90,
                to: k * 100 + 2,
                to_step: 45 + len % 2,
            };
            target.put_rows(rows, &src);
            target.forget(2 * len);
        }
        for len in [64, 65, 90] {
            let rows = RowCopy { len, count: 1, from: 5, from_step: 0, to: k * 100 + 10, to_step: 0 };
            target.put_rows(rows, &src);
            target.forget(len);
        }
        target.put_rows(
            RowCopy { len: 45, count: 2, from: 1, from_step: 60, to: k * 100 + 10, to_step: 45 },
            &src,
        );
    }

    fn expected() -> Vec<u8> {
        let mut safe = vec![0; 1000];
        (0..10).for_each(|k| twin(&mut safe[..], k));
        safe
    }

    #[test]
    fn writers_fill_their_places() {
        let mut shared = vec![0; 1000];
        // SAFETY: The range of each writer is its own.
        fill(&unsafe { DisjointBuffer::new(Destination::from(&mut shared[..]), false) });
        assert_eq!(shared, expected());
        // Writers that exist one after the other may use the same places.
        let mut shared = [0; 1000];
        // SAFETY: Only one writer exists at a time.
        let buffer = unsafe { DisjointBuffer::new(Destination::from(&mut shared[..]), true) };
        (0..2).for_each(|_| twin(&mut buffer.writer(), 0));
        drop(buffer);
        assert_eq!(shared[..100], expected()[..100]);
    }

    #[test]
    fn uninitialised_memory_is_filled() {
        let mut memory = vec![MaybeUninit::<u8>::uninit(); 1000];
        // SAFETY: Each filler has its own hundred bytes, and forgets the places that it fills
        // twice.
        let buffer = unsafe { UninitBuffer::new(Destination::from(&mut memory[..])) };
        assert!(!buffer.is_filled());
        fill(&buffer);
        assert!(buffer.is_filled());
        drop(buffer);
        // SAFETY: Every byte was filled.
        let filled: Vec<u8> = memory.iter().map(|byte| unsafe { byte.assume_init() }).collect();
        assert_eq!(filled, expected());
        // A buffer that is one byte too long is not filled completely.
        let mut memory = vec![MaybeUninit::<u8>::uninit(); 1001];
        // SAFETY: As above.
        let buffer = unsafe { UninitBuffer::new(Destination::from(&mut memory[..])) };
        fill(&buffer);
        assert!(!buffer.is_filled());
    }

    #[test]
    fn a_destination_becomes_a_slice() {
        let mut memory = [MaybeUninit::<u8>::uninit(); 9];
        assert_eq!(Destination::from(&mut memory[..]).into_slice(), [0; 9]);
        let mut memory = [1, 2];
        assert_eq!(Destination::from(&mut memory[..]).into_slice(), [1, 2]);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 3 of 4")]
    fn places_are_inside() {
        let mut bytes = [0; 4];
        // SAFETY: There is only one writer.
        let buffer = unsafe { DisjointBuffer::new(Destination::from(&mut bytes[..]), false) };
        buffer.writer().place(3, 2);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 3 of 4")]
    fn places_to_fill_are_inside() {
        let mut bytes = [MaybeUninit::uninit(); 4];
        // SAFETY: There is only one filler.
        let buffer = unsafe { UninitBuffer::new(Destination::from(&mut bytes[..])) };
        buffer.writer().put(3, &[1, 2]);
    }

    /// Rows that reach one byte beyond the buffer, or beyond what a `usize` can count.
    #[test]
    fn rows_outside_are_refused() {
        for (len, count, from_step, to_step) in
            [(20, 3, 0, 41), (20, 3, 50, 0), (20, usize::MAX, 3, 3), (200, 1, 0, 0)]
        {
            let mut bytes = [0; 101];
            let rows = RowCopy { len, count, from: 0, from_step, to: 0, to_step };
            let copy = std::panic::AssertUnwindSafe(|| {
                // SAFETY: There is only one writer.
                unsafe { DisjointBuffer::new(Destination::from(&mut bytes[..]), true) }
                    .writer()
                    .put_rows(rows, &[1; 119]);
            });
            assert!(std::panic::catch_unwind(copy).is_err(), "{rows:?}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two writers")]
    fn overlaps_are_noticed() {
        let mut bytes = [0; 4];
        // SAFETY: One thread uses the writers one after the other, and keeps no slice.
        let buffer = unsafe { DisjointBuffer::new(Destination::from(&mut bytes[..]), false) };
        buffer.writer().place(0, 3);
        buffer.writer().place(2, 1);
    }
}

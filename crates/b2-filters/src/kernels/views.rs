//! Places that a kernel visits over and over, checked once.
//!
//! A kernel touches many planes at one position, or many items at one distance. Checking each access would cost as
//! much as the work; here one check covers a whole view, and what is left of it costs one comparison per group.

use std::marker::PhantomData;

/// `P` planes of `n` bytes to read from.
pub(super) struct Planes<'a, const P: usize> {
    start: [*const u8; P],
    n: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, const P: usize> Planes<'a, P> {
    /// The first `n` bytes of each plane; where there are less than `P`, the last one stands in.
    #[inline(always)]
    pub(super) fn new(planes: &[&'a [u8]], n: usize) -> Self {
        let mut start = [std::ptr::null(); P];
        for (j, start) in start.iter_mut().enumerate() {
            *start = planes[j.min(planes.len() - 1)][..n].as_ptr();
        }
        Self { start, n, bytes: PhantomData }
    }

    /// `N` bytes of plane `j` from position `i` on.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&self, j: usize, i: usize) -> &'a [u8; N] {
        assert!(N <= self.n && i <= self.n - N);
        // SAFETY: `i + N <= n`, and `new` found `n` bytes at each start, borrowed for as long as the result.
        unsafe { &*self.start[j].add(i).cast() }
    }
}

/// `P` planes of `n` bytes to write to, `stride` bytes apart.
pub(super) struct PlanesMut<'a, const P: usize> {
    start: *mut u8,
    stride: usize,
    n: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a, const P: usize> PlanesMut<'a, P> {
    /// The first `n` bytes of each plane. Planes must not overlap.
    #[inline(always)]
    pub(super) fn new(planes: &'a mut [u8], stride: usize, n: usize) -> Self {
        let last = (P - 1).checked_mul(stride).and_then(|last| last.checked_add(n));
        assert!(n <= stride && last.is_some_and(|end| end <= planes.len()));
        Self { start: planes.as_mut_ptr(), stride, n, bytes: PhantomData }
    }

    /// `N` bytes of plane `j` from position `i` on.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&mut self, j: usize, i: usize) -> &mut [u8; N] {
        assert!(j < P && N <= self.n && i <= self.n - N);
        // SAFETY: `j <= P - 1` and `i + N <= n`, and `new` found that `(P - 1) * stride + n` bytes are there. They are
        // borrowed mutably, and the result borrows the view.
        unsafe { &mut *self.start.add(j * self.stride + i).cast() }
    }
}

/// `COUNT` places of `N` bytes to read from, `pitch` bytes apart.
pub(super) struct Places<'a, const N: usize, const COUNT: usize> {
    start: *const u8,
    pitch: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, const N: usize, const COUNT: usize> Places<'a, N, COUNT> {
    /// Places from the start of `bytes` on.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], pitch: usize) -> Self {
        assert!(reach(N, COUNT, pitch).is_some_and(|end| end <= bytes.len()));
        Self { start: bytes.as_ptr(), pitch, bytes: PhantomData }
    }

    /// Place number `k`.
    #[inline(always)]
    pub(super) fn get(&self, k: usize) -> &'a [u8; N] {
        assert!(k < COUNT);
        // SAFETY: `k * pitch + N` is at most `reach`, and `new` found so many bytes, borrowed for as long as the result.
        unsafe { &*self.start.add(k * self.pitch).cast() }
    }
}

/// `COUNT` places of `N` bytes to write to, `pitch` bytes apart; they may overlap.
pub(super) struct PlacesMut<'a, const N: usize, const COUNT: usize> {
    start: *mut u8,
    pitch: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a, const N: usize, const COUNT: usize> PlacesMut<'a, N, COUNT> {
    /// Places from the start of `bytes` on.
    #[inline(always)]
    pub(super) fn new(bytes: &'a mut [u8], pitch: usize) -> Self {
        assert!(reach(N, COUNT, pitch).is_some_and(|end| end <= bytes.len()));
        Self { start: bytes.as_mut_ptr(), pitch, bytes: PhantomData }
    }

    /// Place number `k`.
    #[inline(always)]
    pub(super) fn get(&mut self, k: usize) -> &mut [u8; N] {
        assert!(k < COUNT);
        // SAFETY: `k * pitch + N` is at most `reach`, and `new` found so many bytes. They are borrowed mutably, and the
        // result borrows the view, so that there is one at a time.
        unsafe { &mut *self.start.add(k * self.pitch).cast() }
    }
}

/// Where the last place ends, unless that is beyond all memory.
#[inline(always)]
const fn reach(n: usize, count: usize, pitch: usize) -> Option<usize> {
    match (count - 1).checked_mul(pitch) {
        Some(last) => last.checked_add(n),
        None => None,
    }
}

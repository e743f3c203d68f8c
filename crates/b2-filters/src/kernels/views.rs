//! Views of memory that a kernel accesses repeatedly, with bounds checked once.
//!
//! A kernel accesses many planes at one position, or many items at one distance. Checking each access would cost as
//! much as the work. Here one check covers a whole view, and one further comparison per group remains.

use std::iter::StepBy;
use std::marker::PhantomData;
use std::ops::Range;

/// `P` planes of `n` bytes for reading.
pub(super) struct Planes<'a, const P: usize> {
    start: [*const u8; P],
    n: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, const P: usize> Planes<'a, P> {
    /// Takes the first `n` bytes of each plane. If there are fewer than `P`, the last one fills the remaining places.
    #[inline(always)]
    pub(super) fn new(planes: &[&'a [u8]], n: usize) -> Self {
        let mut start = [std::ptr::null(); P];
        for (j, start) in start.iter_mut().enumerate() {
            *start = planes[j.min(planes.len() - 1)][..n].as_ptr();
        }
        Self { start, n, bytes: PhantomData }
    }

    /// Returns `N` bytes of plane `j` from position `i` on.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&self, j: usize, i: usize) -> &'a [u8; N] {
        assert!(N <= self.n && i <= self.n - N);
        // SAFETY: `i + N <= n`, and `new` found `n` bytes at each start, borrowed for as long as the result.
        unsafe { &*self.start[j].add(i).cast() }
    }
}

/// `P` planes of `n` bytes for writing, `stride` bytes apart.
pub(super) struct PlanesMut<'a, const P: usize> {
    start: *mut u8,
    stride: usize,
    n: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a, const P: usize> PlanesMut<'a, P> {
    /// Takes the first `n` bytes of each plane. Planes must not overlap.
    #[inline(always)]
    pub(super) fn new(planes: &'a mut [u8], stride: usize, n: usize) -> Self {
        let last = (P - 1).checked_mul(stride).and_then(|last| last.checked_add(n));
        assert!(n <= stride && last.is_some_and(|end| end <= planes.len()));
        Self { start: planes.as_mut_ptr(), stride, n, bytes: PhantomData }
    }

    /// Returns `N` bytes of plane `j` from position `i` on.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&mut self, j: usize, i: usize) -> &mut [u8; N] {
        assert!(j < P && N <= self.n && i <= self.n - N);
        // SAFETY: `j <= P - 1` and `i + N <= n`, and `new` found that `(P - 1) * stride + n` bytes are there. They are
        // borrowed mutably, and the result borrows the view.
        unsafe { &mut *self.start.add(j * self.stride + i).cast() }
    }
}

/// Items of `C` bytes for reading. `DENSE`: they are adjacent.
pub(super) struct Items<'a, const C: usize, const DENSE: bool> {
    start: *const u8,
    pitch: usize,
    n: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, const C: usize, const DENSE: bool> Items<'a, C, DENSE> {
    /// Takes the first `n` items, `pitch` bytes apart.
    #[inline(always)]
    pub(super) fn new(items: &'a [u8], pitch: usize, n: usize) -> Self {
        check_items::<C, DENSE>(items.len(), pitch, n);
        Self { start: items.as_ptr(), pitch, n, bytes: PhantomData }
    }

    /// Returns `count` places of `N` bytes: at item `i`, and each `step` items further.
    #[inline(always)]
    pub(super) fn places<const N: usize>(&self, i: usize, step: usize, count: usize) -> FixedSlices<'a, N> {
        check_places::<C, N, DENSE>(i, step, count, self.n);
        let pitch = if DENSE { C } else { self.pitch };
        // SAFETY: `check_places` found item `i` to be one of the `n` that `new` found.
        let start = unsafe { self.start.add(i * pitch) };
        FixedSlices { start, distance: step * pitch, count, bytes: PhantomData }
    }

    /// Returns the address of item `i`, which may be past the end.
    #[inline(always)]
    pub(super) fn address(&self, i: usize) -> *const u8 {
        self.start.wrapping_add(i * if DENSE { C } else { self.pitch })
    }
}

/// Items of `C` bytes for writing. `DENSE`: they are adjacent.
pub(super) struct ItemsMut<'a, const C: usize, const DENSE: bool> {
    start: *mut u8,
    pitch: usize,
    n: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a, const C: usize, const DENSE: bool> ItemsMut<'a, C, DENSE> {
    /// Takes the first `n` items, `pitch` bytes apart.
    #[inline(always)]
    pub(super) fn new(items: &'a mut [u8], pitch: usize, n: usize) -> Self {
        check_items::<C, DENSE>(items.len(), pitch, n);
        Self { start: items.as_mut_ptr(), pitch, n, bytes: PhantomData }
    }

    /// Returns `count` places of `N` bytes: at item `i`, and each `step` items further. They may overlap.
    #[inline(always)]
    pub(super) fn places<const N: usize>(
        &mut self,
        i: usize,
        step: usize,
        count: usize,
    ) -> FixedSlicesMut<'_, N> {
        check_places::<C, N, DENSE>(i, step, count, self.n);
        let pitch = if DENSE { C } else { self.pitch };
        // SAFETY: `check_places` found item `i` to be one of the `n` that `new` found.
        let start = unsafe { self.start.add(i * pitch) };
        FixedSlicesMut { start, distance: step * pitch, count, bytes: PhantomData }
    }
}

impl<const C: usize, const DENSE: bool> ItemsMut<'_, C, DENSE> {
    /// Returns the bytes from item `i` on. Items must be adjacent.
    pub(super) fn rest(&mut self, i: usize) -> &mut [u8] {
        assert!(DENSE && i <= self.n);
        // SAFETY: `new` found `n` items of `C` bytes without gaps. They are borrowed mutably, and the result borrows the
        // view.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * C), (self.n - i) * C) }
    }
}

/// Returns whether `len` bytes hold `n` items.
#[inline(always)]
fn check_items<const C: usize, const DENSE: bool>(len: usize, pitch: usize, n: usize) {
    let end = n.checked_sub(1).map_or(Some(0), |last| last.checked_mul(pitch)?.checked_add(C));
    assert!(if DENSE { pitch == C } else { pitch >= C } && end.is_some_and(|end| end <= len));
}

/// Returns whether the last place ends before the last of `n` items does. It is computed in items, so that the checks
/// of all views for a group are the same comparison.
#[inline(always)]
fn check_places<const C: usize, const N: usize, const DENSE: bool>(
    i: usize,
    step: usize,
    count: usize,
    n: usize,
) {
    // With gaps, a place is inside its item. Without gaps, it extends into the next items.
    assert!(DENSE || N <= C);
    let last = count.checked_sub(1).and_then(|last| last.checked_mul(step));
    let needed = last.and_then(|last| last.checked_add(N.div_ceil(C)));
    assert!(needed.is_some_and(|needed| needed <= n && i <= n - needed));
}

/// Places of `N` bytes for reading.
pub(super) struct FixedSlices<'a, const N: usize> {
    start: *const u8,
    distance: usize,
    count: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a, const N: usize> FixedSlices<'a, N> {
    /// Returns place `k`.
    #[inline(always)]
    pub(super) fn get(&self, k: usize) -> &'a [u8; N] {
        assert!(k < self.count);
        // SAFETY: `Items::places` checked all `count` places, and they are borrowed for as long as the result.
        unsafe { &*self.start.add(k * self.distance).cast() }
    }
}

/// Places of `N` bytes for writing.
pub(super) struct FixedSlicesMut<'a, const N: usize> {
    start: *mut u8,
    distance: usize,
    count: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<const N: usize> FixedSlicesMut<'_, N> {
    /// Returns place `k`.
    #[inline(always)]
    pub(super) fn get(&mut self, k: usize) -> &mut [u8; N] {
        assert!(k < self.count);
        // SAFETY: `ItemsMut::places` checked all `count` places. They are borrowed mutably, and the result borrows the
        // view, so that there is one at a time.
        unsafe { &mut *self.start.add(k * self.distance).cast() }
    }
}

/// Returns the starts of groups of `size` items; there must be at least `size` items. The last group may overlap the one
/// before. Two loops rather than one with a minimum, which would delay each iteration.
#[inline(always)]
pub(super) fn groups(n: usize, size: usize) -> [StepBy<Range<usize>>; 2] {
    let rest = n - n % size;
    let last = if rest < n { n - size } else { n };
    [(0..rest).step_by(size), (last..n).step_by(size)]
}

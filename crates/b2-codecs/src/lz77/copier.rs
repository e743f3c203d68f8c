//! Copies in wide pieces, for the inner loops of each instruction set.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Copies matches and literals with one instruction set.
///
/// `to` points into the output. All methods may write more than requested; each documents how much.
///
/// The methods must be inlined into a function that has the instructions enabled.
pub(crate) trait Copier {
    /// How many bytes [`start`](Self::start) writes.
    const WIDTH: usize;

    /// The bytes that [`start`](Self::start) has written, as a vector.
    type Start: Copy;

    /// Writes the first `WIDTH` bytes of a match at any distance, as if it were that long: the bytes at `from`, or, for
    /// a distance below `WIDTH`, repetitions of its first `distance` bytes.
    ///
    /// # Safety
    /// `distance` is not 0, and where it is below `WIDTH`, `from` is `to - distance`. There are `WIDTH` bytes to be
    /// read at `from`, and to be written at `to`.
    unsafe fn start(from: *const u8, to: *mut u8, distance: usize) -> Self::Start;

    /// Completes a match of `len` bytes at `to` after `start`. Writes less than [`SLACK`] bytes past its end.
    ///
    /// # Safety
    /// `start` is what [`start`](Self::start) gave for this match, with `from` being `to - distance`. From there to
    /// `to + len + SLACK` all is output.
    unsafe fn finish(to: *mut u8, distance: usize, len: usize, start: Self::Start);

    /// Copies `len` bytes between input and output. Reads and writes up to [`SLACK`] bytes more.
    ///
    /// # Safety
    /// `from .. from + len + SLACK` lies in the input, `to .. to + len + SLACK` in the output.
    unsafe fn literals(from: *const u8, to: *mut u8, len: usize);

    /// Copies 16 bytes.
    ///
    /// # Safety
    /// They lie in the input and in the output.
    #[inline(always)]
    unsafe fn piece16(from: *const u8, to: *mut u8) {
        // SAFETY: see above; SSE2 is part of x86-64.
        unsafe { _mm_storeu_si128(to.cast(), _mm_loadu_si128(from.cast())) }
    }
}

/// Copies 32 bytes (AVX).
///
/// # Safety
/// They can be read and written. Must be inlined into a function with the instructions enabled.
#[inline(always)]
pub(crate) unsafe fn piece32(from: *const u8, to: *mut u8) {
    // SAFETY: see above.
    unsafe { _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(from.cast())) }
}

/// Maximum number of bytes that copies may write past their end.
pub(crate) const SLACK: usize = 64;

/// `N` shuffles of `W` bytes. Row `d` repeats the first `d` bytes, starting at position `SKIP` of the repetition. It is
/// the identity if `d` is at least `W` and `SKIP` is a multiple of it.
#[repr(align(64))]
struct Periods<const W: usize, const N: usize, const SKIP: usize>([[u8; W]; N]);

impl<const W: usize, const N: usize, const SKIP: usize> Periods<W, N, SKIP> {
    const fn new() -> Self {
        let mut rows = [[0; W]; N];
        let mut d = 1;
        while d < N {
            let mut k = 0;
            while k < W {
                rows[d][k] = ((k + SKIP) % d) as u8;
                k += 1;
            }
            d += 1;
        }
        Self(rows)
    }

    /// Returns row `d`, which must exist.
    #[inline(always)]
    unsafe fn row(&self, d: usize) -> *const u8 {
        debug_assert!(d < N);
        // SAFETY: as the caller promises.
        unsafe { self.0.get_unchecked(d) }.as_ptr()
    }
}

/// For a pattern of `W` bytes, the largest step that keeps the phase: a multiple of `d` bytes.
const fn steps<const W: usize>() -> [u8; W] {
    let mut steps = [0; W];
    let mut d = 1;
    while d < W {
        steps[d] = (W - W % d) as u8;
        d += 1;
    }
    steps
}

/// Byte shuffles over 64 bytes (AVX-512 F, BW, VBMI).
pub(crate) struct Avx512;

static PERIODS_64: Periods<64, 65, 0> = Periods::new();
static STEPS_64: [u8; 64] = steps();

impl Copier for Avx512 {
    const WIDTH: usize = 64;
    type Start = __m512i;

    #[inline(always)]
    unsafe fn start(from: *const u8, to: *mut u8, distance: usize) -> __m512i {
        // SAFETY: the contract, and row 64 is the last one. The shuffle does not select bytes loaded from `to` on.
        unsafe {
            let period = _mm512_loadu_si512(from.cast());
            let row = _mm512_load_si512(PERIODS_64.row(distance.min(64)).cast());
            let pattern = _mm512_permutexvar_epi8(row, period);
            _mm512_storeu_si512(to.cast(), pattern);
            pattern
        }
    }

    #[inline(always)]
    unsafe fn finish(to: *mut u8, distance: usize, len: usize, start: __m512i) {
        // SAFETY: each piece starts before `len`, so it ends less than 64 bytes after it.
        unsafe {
            if distance >= 64 {
                let mut done = 64;
                while done < len {
                    let piece = _mm512_loadu_si512(to.add(done).sub(distance).cast());
                    _mm512_storeu_si512(to.add(done).cast(), piece);
                    done += 64;
                }
            } else {
                repeat(to, STEPS_64[distance], len, |to| _mm512_storeu_si512(to.cast(), start));
            }
        }
    }

    #[inline(always)]
    unsafe fn literals(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the contract covers 64 bytes and more.
        unsafe {
            copy(from, to, len, |from, to| _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast())));
        }
    }
}

/// Byte shuffles over 32 bytes (AVX-512 F, BW, VL, VBMI), for data in which most matches are short. Most pieces then
/// lie in one cache line.
pub(crate) struct Avx512Short;

static PERIODS_32: Periods<32, 33, 0> = Periods::new();
static STEPS_32: [u8; 32] = steps();

impl Copier for Avx512Short {
    const WIDTH: usize = 32;
    type Start = __m256i;

    #[inline(always)]
    unsafe fn start(from: *const u8, to: *mut u8, distance: usize) -> __m256i {
        // SAFETY: as in `Avx512`.
        unsafe {
            let period = _mm256_loadu_si256(from.cast());
            let row = _mm256_load_si256(PERIODS_32.row(distance.min(32)).cast());
            let pattern = _mm256_permutexvar_epi8(row, period);
            _mm256_storeu_si256(to.cast(), pattern);
            pattern
        }
    }

    #[inline(always)]
    unsafe fn finish(to: *mut u8, distance: usize, len: usize, start: __m256i) {
        // SAFETY: as in `Avx512`.
        unsafe {
            if distance >= 32 {
                further_pieces(to, distance, len);
            } else {
                repeat(to, STEPS_32[distance], len, |to| _mm256_storeu_si256(to.cast(), start));
            }
        }
    }

    #[inline(always)]
    unsafe fn literals(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the same contract.
        unsafe { Avx512::literals(from, to, len) }
    }
}

/// Byte shuffles over 16 bytes, two at a time (AVX2).
///
/// Both loads come before both stores: the CPU cannot forward a store to a load that also covers other bytes, so such a
/// load waits until the store has reached the cache.
pub(crate) struct Avx2;

static PERIODS_16: Periods<16, 17, 0> = Periods::new();
static STEPS_16: [u8; 16] = steps();
/// The bytes of the second half that are loaded from after the source of the first half.
static SECOND_LOADED: SecondHalf = SecondHalf::new(false);
/// The bytes of the second half that repeat the first half.
static SECOND_REPEATED: SecondHalf = SecondHalf::new(true);

/// Shuffles that give bytes 16 to 31 of a match, by distance up to 32. Bytes that the other table gives become 0.
#[repr(align(64))]
struct SecondHalf([[u8; 16]; 33]);

impl SecondHalf {
    const fn new(repeated: bool) -> Self {
        let mut rows = [[0x80; 16]; 33];
        let mut d: usize = 1;
        while d <= 32 {
            let loaded = d.saturating_sub(16);
            let mut k = 0;
            while k < 16 {
                if repeated && k >= loaded {
                    rows[d][k] = ((16 + k) % d) as u8;
                } else if !repeated && k < loaded {
                    rows[d][k] = k as u8;
                }
                k += 1;
            }
            d += 1;
        }
        Self(rows)
    }

    /// Returns row `d`, which must exist.
    #[inline(always)]
    unsafe fn row(&self, d: usize) -> *const u8 {
        debug_assert!(d <= 32);
        // SAFETY: as the caller promises.
        unsafe { self.0.get_unchecked(d) }.as_ptr()
    }
}

impl Copier for Avx2 {
    const WIDTH: usize = 32;
    type Start = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn start(from: *const u8, to: *mut u8, distance: usize) -> (__m128i, __m128i) {
        // SAFETY: the contract; rows 16 and 32 are the last ones. The shuffles do not select bytes loaded from `to` on.
        unsafe {
            let (first, second) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast()));
            let first = _mm_shuffle_epi8(first, _mm_load_si128(PERIODS_16.row(distance.min(16)).cast()));
            let row = distance.min(32);
            let second = _mm_or_si128(
                _mm_shuffle_epi8(second, _mm_load_si128(SECOND_LOADED.row(row).cast())),
                _mm_shuffle_epi8(first, _mm_load_si128(SECOND_REPEATED.row(row).cast())),
            );
            _mm_storeu_si128(to.cast(), first);
            _mm_storeu_si128(to.add(16).cast(), second);
            (first, second)
        }
    }

    #[inline(always)]
    unsafe fn finish(to: *mut u8, distance: usize, len: usize, (first, second): (__m128i, __m128i)) {
        // SAFETY: as in `Avx512`.
        unsafe {
            if distance >= 32 {
                further_pieces(to, distance, len);
            } else if distance >= 16 {
                further_pieces_16(to, distance, len, 32);
            } else {
                repeat(to, STEPS_32[distance], len, |to| {
                    _mm_storeu_si128(to.cast(), first);
                    _mm_storeu_si128(to.add(16).cast(), second);
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn literals(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the contract covers 64 bytes and more.
        unsafe {
            copy(from, to, len, |from, to| {
                let (first, second) =
                    (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast()));
                _mm256_storeu_si256(to.cast(), first);
                _mm256_storeu_si256(to.add(32).cast(), second);
            });
        }
    }
}

/// Byte shuffles over 16 bytes (AVX2), for data in which most matches are short.
pub(crate) struct Avx2Short;

impl Copier for Avx2Short {
    const WIDTH: usize = 16;
    type Start = __m128i;

    #[inline(always)]
    unsafe fn start(from: *const u8, to: *mut u8, distance: usize) -> __m128i {
        // SAFETY: as in `Avx2`.
        unsafe {
            let row = _mm_load_si128(PERIODS_16.row(distance.min(16)).cast());
            let pattern = _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), row);
            _mm_storeu_si128(to.cast(), pattern);
            pattern
        }
    }

    #[inline(always)]
    unsafe fn finish(to: *mut u8, distance: usize, len: usize, start: __m128i) {
        // SAFETY: as in `Avx512`.
        unsafe {
            if distance >= 16 {
                further_pieces_16(to, distance, len, 16);
            } else {
                repeat(to, STEPS_16[distance], len, |to| _mm_storeu_si128(to.cast(), start));
            }
        }
    }

    #[inline(always)]
    unsafe fn literals(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the same contract.
        unsafe { Avx2::literals(from, to, len) }
    }
}

/// Copies a match at a distance of 16 or more, from its byte `done` on.
///
/// # Safety
/// That of [`Copier::finish`].
#[inline(always)]
unsafe fn further_pieces_16(to: *mut u8, distance: usize, len: usize, mut done: usize) {
    while done < len {
        // SAFETY: each piece starts before `len`, so it ends less than 16 bytes after it.
        unsafe {
            let piece = _mm_loadu_si128(to.add(done).sub(distance).cast());
            _mm_storeu_si128(to.add(done).cast(), piece);
        }
        done += 16;
    }
}

/// Copies a match at a distance of 32 or more, from its byte 32 on.
///
/// # Safety
/// That of [`Copier::finish`].
#[inline(always)]
unsafe fn further_pieces(to: *mut u8, distance: usize, len: usize) {
    // SAFETY: each pair of pieces starts before `len`, so it ends less than 64 bytes after it.
    unsafe {
        let mut done = 32;
        while done < len {
            for at in [done, done + 32] {
                let piece = _mm256_loadu_si256(to.add(at).sub(distance).cast());
                _mm256_storeu_si256(to.add(at).cast(), piece);
            }
            done += 64;
        }
    }
}

/// Copies a match whose first bytes (at least `step`) are written by `store`, by repeating `store`.
///
/// # Safety
/// That of [`Copier::finish`].
#[inline(always)]
unsafe fn repeat(to: *mut u8, step: u8, len: usize, store: impl Fn(*mut u8)) {
    let step = usize::from(step);
    let mut done = step;
    while done < len {
        // SAFETY: `done` is within the match.
        store(unsafe { to.add(done) });
        done += step;
    }
}

/// Copies `len` bytes, of which `first` copies 64.
///
/// # Safety
/// That of [`Copier::literals`].
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize, first: impl Fn(*const u8, *mut u8)) {
    first(from, to);
    if len > 64 {
        // SAFETY: there are `len` bytes; input and output do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, len) };
    }
}

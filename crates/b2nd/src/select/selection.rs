//! Selections as callers write them, and the positions that integers and ranges select.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::NdError;

/// Selects positions along a dimension, or adds a new dimension.
///
/// Integers, ranges, lists and slices of integers, and masks convert into a `Selection`. Methods
/// that select take a tuple of up to 16 of these, in any mix; an array, slice or `Vec` of one kind;
/// or a single integer or range, which applies to the first dimension. Dimensions that are not
/// named are taken whole.
///
/// All selections have NumPy's meaning: negative positions count from the end, ranges are clipped
/// to the length of the dimension, and a negative step walks from `start` down to just before
/// `stop`. The only exception are selections made by the macro `s![]` of the crate `ndarray`
/// (feature `ndarray`), which keep the meaning of that crate: a range beyond the end is an error,
/// and a range with a negative step is cut out first and then walked from its end.
///
/// ```
/// use b2nd::{ArrayBuilder, NdArray, Selection, range};
/// # let items: Vec<u8> = (0..60).collect();
/// # let frame = ArrayBuilder::new::<u8>([3, 4, 5]).to_bytes(&items[..])?;
/// # let array = NdArray::from_bytes(frame)?;
/// assert_eq!(array.slice((2, 1..3))?.shape(), [2, 5]);
/// assert_eq!(array.slice(-1)?.shape(), [4, 5]);
/// assert_eq!(array.slice((0..2, 0..2, 0..=2))?.shape(), [2, 2, 3]);
/// // As a[..., numpy.newaxis, [4, 0]] in NumPy.
/// let part = array.slice((Selection::Ellipsis, Selection::NewAxis, [4, 0]))?;
/// assert_eq!(part.shape(), [3, 4, 1, 2]);
/// assert_eq!(part.read_bytes()?[..4], [4, 0, 9, 5]);
/// // Every second row of the last two planes, from the last row up.
/// let part = array.slice(([false, true, true], range(..).step(-2)))?;
/// assert_eq!(part.shape(), [2, 2, 5]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selection {
    /// One position. The dimension is removed from the result.
    Index(i64),
    /// Every `step`-th position from `start` to just before `stop`.
    Range {
        /// First position; `None` for the beginning (the end if the step is negative).
        start: Option<i64>,
        /// One past the last position; `None` for the end (the beginning if the step is negative).
        stop: Option<i64>,
        /// Distance between positions; must not be 0.
        step: i64,
    },
    /// A range with the meaning of the crate `ndarray`: takes the positions from `start` to just
    /// before `stop`, which must exist, then every `step`-th of them, starting from the last if the
    /// step is negative.
    Cut {
        /// First position of the cut.
        start: i64,
        /// One past the last position of the cut; `None` for the end.
        stop: Option<i64>,
        /// Distance between positions; must not be 0.
        step: i64,
    },
    /// These positions, in this order. They may repeat.
    List(Vec<i64>),
    /// The positions whose mark is set.
    Mask {
        /// Shape of the mask. A mask of several dimensions applies to all of them and gives a
        /// single dimension of the result.
        shape: Vec<u64>,
        /// The marks in C order.
        marks: Vec<bool>,
    },
    /// As many whole dimensions as the other selections leave. May occur once.
    Ellipsis,
    /// A new dimension of length 1.
    NewAxis,
}

impl Selection {
    /// A whole dimension, like `..`.
    pub const ALL: Self = Self::Range { start: None, stop: None, step: 1 };

    /// Creates a mask of one dimension. A mark is set if it is `true` or a byte other than 0; there
    /// must be one mark per position.
    pub fn mask<M: Mark>(marks: impl AsRef<[M]>) -> Self {
        let marks = marks.as_ref();
        Self::mask_of([marks.len() as u64], marks)
    }

    /// Creates a mask over several dimensions from its shape and its marks in C order.
    pub fn mask_of<M: Mark>(shape: impl Into<Vec<u64>>, marks: impl AsRef<[M]>) -> Self {
        let marks = marks.as_ref().iter().map(|mark| mark.is_set()).collect();
        Self::Mask { shape: shape.into(), marks }
    }

    /// Replaces the step of a range. Other selections are returned unchanged.
    #[must_use]
    pub fn step(self, step: i64) -> Self {
        match self {
            Self::Range { start, stop, .. } => Self::Range { start, stop, step },
            Self::Cut { start, stop, .. } => Self::Cut { start, stop, step },
            other => other,
        }
    }

    /// Returns the positions that an index or a range selects in a dimension of `length`: the first position, the step,
    /// and the number of positions.
    ///
    /// ```
    /// use b2nd::{Selection, range};
    /// assert_eq!(range(1..).step(3).positions(10)?, (1, 3, 3));
    /// assert_eq!(range(..).step(-4).positions(10)?, (9, -4, 3));
    /// assert_eq!(Selection::Index(-1).positions(10)?, (9, 1, 1));
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// [`NdError::Slice`] when an index or a cut is out of range, or a step is 0. Lists, masks, ellipses and new axes
    /// have no such positions.
    pub fn positions(&self, length: u64) -> Result<(u64, i64, u64), NdError> {
        let fail = |what: &str| NdError::Slice { dim: 0, what: what.into() };
        if i64::try_from(length).is_err() {
            return Err(fail("the length does not fit 63 bits"));
        }
        let positions = match self {
            Self::Index(index) => Positions::index(0, *index, length)?,
            Self::Range { start, stop, step } => Positions::range(0, (*start, *stop, *step), length)?,
            Self::Cut { start, stop, step } => Positions::cut(0, (*start, *stop, *step), length)?,
            _ => return Err(fail("neither an index nor a range")),
        };
        Ok((positions.start, positions.step, positions.len))
    }

    /// Returns the number of dimensions that the selection applies to.
    pub(crate) fn ndim(&self) -> usize {
        match self {
            Self::Ellipsis | Self::NewAxis => 0,
            Self::Mask { shape, .. } => shape.len(),
            _ => 1,
        }
    }
}

/// Converts a range to a selection, so that a step can be set: `range(1..).step(2)` selects the odd
/// positions.
///
/// ```
/// use b2nd::{Selection, range};
/// let odd = Selection::Range { start: Some(1), stop: None, step: 2 };
/// assert_eq!(range(1..).step(2), odd);
/// ```
pub fn range(range: impl Into<Selection>) -> Selection {
    range.into()
}

/// A mark of a mask: a `bool`, or a byte, which is set if it is not 0.
pub trait Mark: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn is_set(self) -> bool;
}

impl Mark for bool {
    #[inline]
    fn is_set(self) -> bool {
        self
    }
}

impl Mark for u8 {
    #[inline]
    fn is_set(self) -> bool {
        self != 0
    }
}

/// Arguments of methods that select; see [`Selection`]. Only this crate implements it; your own `Into<Selection>` types
/// may be used in tuples and lists.
pub trait IntoSelections {
    #[doc(hidden)]
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for u8 {}

    /// A type that other crates cannot name, so that they can neither implement nor call a method that takes it.
    #[derive(Debug)]
    pub struct SealToken;
}

/// Returns the selections of an argument.
pub(crate) fn selections(of: impl IntoSelections) -> Vec<Selection> {
    of.into_selections(sealed::SealToken)
}

impl<S: Clone + Into<Selection>, const N: usize> IntoSelections for [S; N] {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        self.map(Into::into).into()
    }
}
impl<S: Clone + Into<Selection>> IntoSelections for Vec<S> {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        self.into_iter().map(Into::into).collect()
    }
}
impl<S: Clone + Into<Selection>> IntoSelections for &[S] {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        self.iter().cloned().map(Into::into).collect()
    }
}
impl<S: Clone + Into<Selection>> IntoSelections for &Vec<S> {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        selections(&self[..])
    }
}
impl<S: Clone + Into<Selection>, const N: usize> IntoSelections for &[S; N] {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        selections(&self[..])
    }
}
impl IntoSelections for () {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        Vec::new()
    }
}
impl IntoSelections for Selection {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        vec![self]
    }
}

macro_rules! tuples {
    ($first:ident $($name:ident)*) => {
        impl<$first: Into<Selection>, $($name: Into<Selection>),*> IntoSelections for ($first, $($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of types")]
            fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
                let ($first, $($name,)*) = self;
                vec![$first.into(), $($name.into()),*]
            }
        }
        tuples! { $($name)* }
    };
    () => {};
}
tuples! { A B C D E F G H I J K L M N O P }

/// Returns the exclusive end of a range that ends with `last`; `None` after -1, the last position.
fn end_after(last: i64) -> Option<i64> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

macro_rules! from_integers {
    ($($int:ty)*) => {$(
        impl From<$int> for Selection {
            fn from(index: $int) -> Self {
                Self::Index(position(index))
            }
        }
        impl From<Vec<$int>> for Selection {
            fn from(list: Vec<$int>) -> Self {
                Self::from(&list[..])
            }
        }
        impl<const N: usize> From<[$int; N]> for Selection {
            fn from(list: [$int; N]) -> Self {
                Self::from(&list[..])
            }
        }
        impl From<&[$int]> for Selection {
            fn from(list: &[$int]) -> Self {
                Self::List(list.iter().map(|&index| position(index)).collect())
            }
        }
        impl IntoSelections for $int {
            fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
                vec![self.into()]
            }
        }
        from_integers! { @ranges $int: Range RangeFrom RangeTo RangeInclusive RangeToInclusive }
        impl From<Range<$int>> for Selection {
            fn from(Range { start, end }: Range<$int>) -> Self {
                Self::Range { start: Some(position(start)), stop: Some(position(end)), step: 1 }
            }
        }
        impl From<RangeFrom<$int>> for Selection {
            fn from(range: RangeFrom<$int>) -> Self {
                Self::Range { start: Some(position(range.start)), stop: None, step: 1 }
            }
        }
        impl From<RangeTo<$int>> for Selection {
            fn from(range: RangeTo<$int>) -> Self {
                Self::Range { start: None, stop: Some(position(range.end)), step: 1 }
            }
        }
        impl From<RangeInclusive<$int>> for Selection {
            fn from(range: RangeInclusive<$int>) -> Self {
                let (start, last) = range.into_inner();
                Self::Range { start: Some(position(start)), stop: end_after(position(last)), step: 1 }
            }
        }
        impl From<RangeToInclusive<$int>> for Selection {
            fn from(range: RangeToInclusive<$int>) -> Self {
                Self::Range { start: None, stop: end_after(position(range.end)), step: 1 }
            }
        }
    )*};
    (@ranges $int:ty: $($range:ident)*) => {$(
        impl IntoSelections for $range<$int> {
            fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
                vec![self.into()]
            }
        }
    )*};
}
from_integers! { i32 i64 isize u32 u64 usize }

/// Converts a position to `i64`. Lengths are below `i64::MAX`, so larger positions saturate without
/// a change of meaning.
fn position(index: impl TryInto<i64>) -> i64 {
    index.try_into().unwrap_or(i64::MAX)
}

impl From<RangeFull> for Selection {
    fn from(_: RangeFull) -> Self {
        Self::ALL
    }
}
impl IntoSelections for RangeFull {
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        vec![self.into()]
    }
}
impl From<Vec<bool>> for Selection {
    fn from(marks: Vec<bool>) -> Self {
        Self::Mask { shape: vec![marks.len() as u64], marks }
    }
}
impl From<&[bool]> for Selection {
    fn from(marks: &[bool]) -> Self {
        Self::mask(marks)
    }
}
impl<const N: usize> From<[bool; N]> for Selection {
    fn from(marks: [bool; N]) -> Self {
        Self::mask(marks)
    }
}

#[cfg(feature = "ndarray")]
impl From<ndarray::SliceInfoElem> for Selection {
    fn from(elem: ndarray::SliceInfoElem) -> Self {
        match elem {
            ndarray::SliceInfoElem::Slice { start, end, step } => {
                Self::Cut { start: start as i64, stop: end.map(|end| end as i64), step: step as i64 }
            }
            ndarray::SliceInfoElem::Index(index) => Self::Index(index as i64),
            ndarray::SliceInfoElem::NewAxis => Self::NewAxis,
        }
    }
}
#[cfg(feature = "ndarray")]
impl From<ndarray::NewAxis> for Selection {
    fn from(_: ndarray::NewAxis) -> Self {
        Self::NewAxis
    }
}
#[cfg(feature = "ndarray")]
impl<T: AsRef<[ndarray::SliceInfoElem]>, I: ndarray::Dimension, O: ndarray::Dimension> IntoSelections
    for ndarray::SliceInfo<T, I, O>
{
    fn into_selections(self, _: sealed::SealToken) -> Vec<Selection> {
        let elems: &[ndarray::SliceInfoElem] = self.as_ref();
        selections(elems)
    }
}

/// The positions `start + k * step` for `k` in `0..len`, all inside the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) start: u64,
    pub(crate) step: i64,
    pub(crate) len: u64,
    /// Whether the dimension is removed from the result.
    pub(crate) dropped: bool,
}

impl Positions {
    /// Resolves an index into a dimension of this length; negative indices count from the end.
    pub(crate) fn at(dim: usize, index: i64, length: u64) -> Result<u64, NdError> {
        // Lengths are below 2^63, so the cast does not wrap.
        let n = length as i64;
        let at = if index < 0 { index.saturating_add(n) } else { index };
        if at < 0 || at >= n {
            return Err(NdError::Slice {
                dim,
                what: format!("index {index} is out of range for length {n}"),
            });
        }
        Ok(at as u64)
    }

    /// Selects one position and removes the dimension.
    pub(crate) fn index(dim: usize, index: i64, length: u64) -> Result<Self, NdError> {
        Ok(Self { start: Self::at(dim, index, length)?, step: 1, len: 1, dropped: true })
    }

    /// Resolves a [`Selection::Range`].
    pub(crate) fn range(
        dim: usize,
        (start, stop, step): (Option<i64>, Option<i64>, i64),
        length: u64,
    ) -> Result<Self, NdError> {
        let n = length as i64;
        if step == 0 {
            return Err(NdError::Slice { dim, what: "the step is 0".into() });
        }
        // Like Python's `slice.indices`: clip to 0..n, or to -1..n-1 if the step is negative.
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clip = |position: i64| {
            (if position < 0 { position.saturating_add(n).max(low) } else { position.min(high) }).max(low)
        };
        let (from, to) = if step > 0 { (low, high) } else { (high, low) };
        let from = start.map_or(from, clip);
        let to = stop.map_or(to, clip);
        let span = if step > 0 { to.saturating_sub(from) } else { from.saturating_sub(to) };
        let len = if span <= 0 { 0 } else { (span as u64).div_ceil(step.unsigned_abs()) };
        Ok(Self { start: from.max(0) as u64, step, len, dropped: false })
    }

    /// Resolves a [`Selection::Cut`].
    pub(crate) fn cut(
        dim: usize,
        (start, stop, step): (i64, Option<i64>, i64),
        length: u64,
    ) -> Result<Self, NdError> {
        let n = length as i64;
        let inside = |position: i64| {
            let at = if position < 0 { position.saturating_add(n) } else { position };
            if at < 0 || at > n {
                let what = format!("{position} is out of range for length {n}");
                return Err(NdError::Slice { dim, what });
            }
            Ok(at)
        };
        let start = inside(start)?;
        let stop = stop.map_or(Ok(n), inside)?.max(start);
        match step {
            1.. => Self::range(dim, (Some(start), Some(stop), step), length),
            // Walk down to `start`; if that is position 0, the stop is `None`.
            _ if stop == start => Self::range(dim, (Some(start), Some(start), step), length),
            _ => Self::range(dim, (Some(stop - 1), start.checked_sub(1).filter(|&n| n >= 0), step), length),
        }
    }

    /// Returns the `k` whose positions lie in `low..high`.
    pub(crate) fn within(&self, low: u64, high: u64) -> Range<u64> {
        let step = self.step.unsigned_abs();
        // The first k whose position is at or past `edge`, walking up or down.
        let range = if self.step > 0 {
            let first = |edge: u64| edge.saturating_sub(self.start).div_ceil(step);
            first(low)..first(high)
        } else {
            // The condition is start - k * step < edge.
            let first = |edge: u64| if self.start < edge { 0 } else { (self.start - edge) / step + 1 };
            first(high)..first(low)
        };
        range.start.min(self.len)..range.end.min(self.len)
    }

    /// Returns the position for `k`, which must be below `len`.
    pub(crate) fn position(&self, k: u64) -> u64 {
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's meaning of a range, computed by walking.
    fn expected(start: Option<i64>, stop: Option<i64>, step: i64, n: i64) -> Vec<u64> {
        let fix = |p: i64, low: i64, high: i64| (if p < 0 { p + n } else { p }).clamp(low, high);
        let mut out = Vec::new();
        if step > 0 {
            let mut i = start.map_or(0, |s| fix(s, 0, n));
            let stop = stop.map_or(n, |s| fix(s, 0, n));
            while i < stop {
                out.push(i as u64);
                i += step;
            }
        } else {
            let mut i = start.map_or(n - 1, |s| fix(s, -1, n - 1));
            let stop = stop.map_or(-1, |s| fix(s, -1, n - 1));
            while i > stop {
                out.push(i as u64);
                i += step;
            }
        }
        out
    }

    #[test]
    fn ranges_mean_what_they_mean_in_python() {
        let edges =
            [None, Some(-9), Some(-5), Some(-2), Some(-1), Some(0), Some(1), Some(3), Some(5), Some(9)];
        for n in 0..=5 {
            for start in edges {
                for stop in edges {
                    for step in [-7, -3, -2, -1, 1, 2, 3, 7] {
                        let p = Positions::range(0, (start, stop, step), n).unwrap();
                        let got: Vec<u64> = (0..p.len).map(|k| p.position(k)).collect();
                        assert_eq!(
                            got,
                            expected(start, stop, step, n as i64),
                            "{start:?}:{stop:?}:{step} of {n}"
                        );
                        for low in 0..=n {
                            for high in low..=n {
                                let within: Vec<u64> = p.within(low, high).collect();
                                let by_hand: Vec<u64> =
                                    (0..p.len).filter(|&k| (low..high).contains(&p.position(k))).collect();
                                assert_eq!(within, by_hand);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        let n = i64::MAX as u64 - 1;
        for step in [i64::MIN, -1, 1, i64::MAX] {
            for start in [Some(i64::MIN), Some(i64::MAX), None] {
                let p = Positions::range(0, (start, None, step), n).unwrap();
                if p.len > 0 {
                    assert!(p.position(0) < n && p.position(p.len - 1) < n);
                }
            }
        }
        assert!(Positions::index(0, i64::MIN, n).is_err());
        assert!(Positions::index(0, 0, 0).is_err());
    }

    /// Compares with the meaning of the crate `ndarray`, computed by walking.
    #[test]
    fn cuts_are_walked_from_their_end() {
        for n in 0..=5i64 {
            for start in -6..=6 {
                for stop in (-6..=6).map(Some).chain([None]) {
                    for step in [-7i64, -2, -1, 1, 2, 7] {
                        let fix =
                            |p: i64| Some(if p < 0 { p + n } else { p }).filter(|p| (0..=n).contains(p));
                        let cut = fix(start).zip(stop.map_or(Some(n), fix));
                        let expected = cut.map(|(start, stop)| {
                            let mut all: Vec<u64> = (start..stop.max(start)).map(|at| at as u64).collect();
                            if step < 0 {
                                all.reverse();
                            }
                            all.into_iter().step_by(step.unsigned_abs() as usize).collect::<Vec<_>>()
                        });
                        let got = Positions::cut(0, (start, stop, step), n as u64)
                            .map(|p| (0..p.len).map(|k| p.position(k)).collect::<Vec<_>>());
                        assert_eq!(got.ok(), expected, "{start}..{stop:?};{step} of {n}");
                    }
                }
            }
        }
        assert!(Positions::cut(0, (0, None, 0), 5).is_err());
        assert!(Positions::cut(0, (i64::MIN, None, 1), 5).is_err());
    }

    #[test]
    fn everything_converts() {
        fn check(selections: impl IntoSelections, expected: &[Selection]) {
            assert_eq!(super::selections(selections), expected);
        }
        let span = |start, stop| Selection::Range { start, stop, step: 1 };
        check((0, 1..3, ..), &[Selection::Index(0), span(Some(1), Some(3)), Selection::ALL]);
        check((-1, 2usize, 3u64, 4u32), &[-1, 2, 3, 4].map(Selection::Index));
        check([0..=2, -5..=-1], &[span(Some(0), Some(3)), span(Some(-5), None)]);
        check(
            (..=1u64, ..2usize, 5isize.., ..=-1),
            &[span(None, Some(2)), span(None, Some(2)), span(Some(5), None), Selection::ALL],
        );
        check(u64::MAX, &[Selection::Index(i64::MAX)]);
        check(vec![1, 2], &[1, 2].map(Selection::Index));
        check(
            ([1, 2], vec![3u64], &[4i64][..]),
            &[Selection::List(vec![1, 2]), Selection::List(vec![3]), Selection::List(vec![4])],
        );
        let marks = Selection::Mask { shape: vec![2], marks: vec![true, false] };
        check(
            (vec![true, false], [true, false], Selection::mask([7u8, 0])),
            &[marks.clone(), marks.clone(), marks],
        );
        check((), &[]);
        check((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), &[const { Selection::Index(0) }; 16]);
        check(range(1..).step(2), &[Selection::Range { start: Some(1), stop: None, step: 2 }]);
        check(&[Selection::NewAxis], &[Selection::NewAxis]);
        #[cfg(feature = "ndarray")]
        check(
            ndarray::s![1..;-2, 3, ndarray::NewAxis],
            &[Selection::Cut { start: 1, stop: None, step: -2 }, Selection::Index(3), Selection::NewAxis],
        );
    }
}

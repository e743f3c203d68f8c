//! Selections: which items of an array.

use std::ops::{Bound, Range, RangeBounds};

use crate::NdError;

/// What is selected along one dimension.
///
/// Negative positions count from the end, as in NumPy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceDim {
    /// One position; the dimension disappears.
    Index(i64),
    /// Every `step`-th position from `start` to before `stop`. Ranges are clipped to the array.
    Range {
        /// First position; `None` for the beginning (the end for negative steps).
        start: Option<i64>,
        /// One past the last position; `None` for the end (the beginning for negative steps).
        stop: Option<i64>,
        /// Distance between positions, not 0.
        step: i64,
    },
}

impl SliceDim {
    /// The whole dimension.
    pub const ALL: Self = Self::Range { start: None, stop: None, step: 1 };

    /// The positions `range`.
    pub fn range(range: impl RangeBounds<i64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&n) => Some(n),
            Bound::Excluded(&n) => Some(n.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let stop = match range.end_bound() {
            // ..=-1 reaches the end.
            Bound::Included(&-1) | Bound::Unbounded => None,
            Bound::Included(&n) => Some(n.saturating_add(1)),
            Bound::Excluded(&n) => Some(n),
        };
        Self::Range { start, stop, step: 1 }
    }

    /// The same range with another step.
    pub fn step_by(self, step: i64) -> Self {
        match self {
            Self::Range { start, stop, .. } => Self::Range { start, stop, step },
            index => index,
        }
    }
}

impl From<i64> for SliceDim {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}
impl From<Range<i64>> for SliceDim {
    fn from(range: Range<i64>) -> Self {
        Self::range(range)
    }
}
impl From<std::ops::RangeFrom<i64>> for SliceDim {
    fn from(range: std::ops::RangeFrom<i64>) -> Self {
        Self::range(range)
    }
}
impl From<std::ops::RangeTo<i64>> for SliceDim {
    fn from(range: std::ops::RangeTo<i64>) -> Self {
        Self::range(range)
    }
}
impl From<std::ops::RangeFull> for SliceDim {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::ALL
    }
}

/// The positions `start + k * step` for `k` in `0..len`, all inside the dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) start: u64,
    pub(crate) step: i64,
    pub(crate) len: u64,
    /// Whether the dimension disappears from the result.
    pub(crate) dropped: bool,
}

impl Positions {
    pub(crate) fn new(dim: usize, selected: SliceDim, length: u64) -> Result<Self, NdError> {
        // Lengths are below 2^63.
        let n = length as i64;
        let fail = |what: String| Err(NdError::Slice { dim, what });
        match selected {
            SliceDim::Index(index) => {
                let at = if index < 0 { index.saturating_add(n) } else { index };
                if at < 0 || at >= n {
                    return fail(format!("index {index} is out of range for length {n}"));
                }
                Ok(Self { start: at as u64, step: 1, len: 1, dropped: true })
            }
            SliceDim::Range { step: 0, .. } => fail("the step is 0".into()),
            SliceDim::Range { start, stop, step } => {
                // As Python's slice.indices: clip to 0..n, or to -1..n-1 when going backward.
                let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
                let clip = |position: i64| {
                    (if position < 0 { position.saturating_add(n).max(low) } else { position.min(high) })
                        .max(low)
                };
                let (from, to) = if step > 0 { (low, high) } else { (high, low) };
                let from = start.map_or(from, clip);
                let to = stop.map_or(to, clip);
                let span = if step > 0 { to.saturating_sub(from) } else { from.saturating_sub(to) };
                let len = if span <= 0 { 0 } else { (span as u64).div_ceil(step.unsigned_abs()) };
                Ok(Self { start: from.max(0) as u64, step, len, dropped: false })
            }
        }
    }

    /// The `k` whose positions lie in `low..high`.
    pub(crate) fn within(&self, low: u64, high: u64) -> Range<u64> {
        let step = self.step.unsigned_abs();
        // First k at or past `edge`, walking up or down.
        let range = if self.step > 0 {
            let first = |edge: u64| edge.saturating_sub(self.start).div_ceil(step);
            first(low)..first(high)
        } else {
            // start - k * step < edge
            let first = |edge: u64| if self.start < edge { 0 } else { (self.start - edge) / step + 1 };
            first(high)..first(low)
        };
        range.start.min(self.len)..range.end.min(self.len)
    }

    /// The position of `k`, which must be below `len`.
    pub(crate) fn position(&self, k: u64) -> u64 {
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's meaning, by walking.
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
                        let p = Positions::new(0, SliceDim::Range { start, stop, step }, n).unwrap();
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
                let p = Positions::new(0, SliceDim::Range { start, stop: None, step }, n).unwrap();
                if p.len > 0 {
                    assert!(p.position(0) < n && p.position(p.len - 1) < n);
                }
            }
        }
        assert!(Positions::new(0, SliceDim::Index(i64::MIN), n).is_err());
        assert!(Positions::new(0, SliceDim::Index(0), 0).is_err());
    }
}

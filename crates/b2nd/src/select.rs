//! Selections with lists, masks, an ellipsis and new axes, resolved against a shape.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};
use std::sync::Arc;

use crate::slice::{Positions, SliceDim};
use crate::{MAX_DIM, NdError};

/// What is selected along a dimension, or a place among the dimensions.
///
/// Lists and masks are orthogonal: each applies to its own dimension, as `oindex` in Zarr or `numpy.ix_`. For
/// single items at given coordinates see [`NdArray::points`](crate::NdArray::points).
///
/// ```
/// use b2nd::{ArrayBuilder, Dtype, NdArray, Select, SliceDim};
/// # let items: Vec<u8> = (0..60).collect();
/// # let frame = ArrayBuilder::new([3, 4, 5], Dtype::parse("|u1")?).to_memory(&mut &items[..])?;
/// # let array = NdArray::from_bytes(frame)?;
/// // As a[..., numpy.newaxis, [4, 0]] in NumPy.
/// let part = array.slice([Select::Ellipsis, Select::NewAxis, Select::List(vec![4, 0])])?;
/// assert_eq!(part.shape(), [3, 4, 1, 2]);
/// assert_eq!(part.read()?[..4], [4, 0, 9, 5]);
/// // Every second row of the last two planes.
/// let part = array.slice([Select::mask([false, true, true]), SliceDim::ALL.step_by(2).into()])?;
/// assert_eq!(part.shape(), [2, 2, 5]);
/// # Ok::<(), b2nd::NdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Select {
    /// A position, or a range with a step.
    Dim(SliceDim),
    /// These positions, in any order, also repeatedly. Negative ones count from the end.
    List(Vec<i64>),
    /// The positions that are marked; there must be as many marks as positions.
    Mask(Vec<bool>),
    /// As many whole dimensions as the rest of the selection leaves over. At most one.
    Ellipsis,
    /// A new dimension of length 1.
    NewAxis,
}

impl Select {
    /// The positions that are marked.
    pub fn mask(marks: impl Into<Vec<bool>>) -> Self {
        Self::Mask(marks.into())
    }
}

impl From<Vec<i64>> for Select {
    fn from(list: Vec<i64>) -> Self {
        Self::List(list)
    }
}

macro_rules! from_dim {
    ($($type:ty)*) => {$(
        impl From<$type> for Select {
            fn from(dim: $type) -> Self {
                Self::Dim(dim.into())
            }
        }
    )*};
}
from_dim! { SliceDim i64 Range<i64> RangeFrom<i64> RangeTo<i64> RangeFull }

/// The positions chosen along one dimension of the array.
#[derive(Clone, Debug)]
pub(crate) enum Along {
    Steps(Positions),
    List(Listed),
}

/// Positions in any order.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    positions: Arc<[u64]>,
    /// Places in `positions`, in ascending order of position; equal ones in the order given.
    order: Arc<[usize]>,
}

/// Positions at equal distances whose places in the result are at equal distances too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) position: u64,
    pub(crate) step: i64,
    pub(crate) place: u64,
    pub(crate) place_step: i64,
    pub(crate) count: u64,
}

impl Along {
    pub(crate) fn whole(length: u64) -> Self {
        Self::Steps(Positions { start: 0, step: 1, len: length, dropped: false })
    }

    fn list(positions: Vec<u64>) -> Self {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        if !positions.is_sorted() {
            order.sort_by_key(|&place| positions[place]);
        }
        Self::List(Listed { positions: positions.into(), order: order.into() })
    }

    /// How many positions there are.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Steps(p) => p.len,
            Self::List(list) => list.positions.len() as u64,
        }
    }

    /// The position at a place of the result, which must be below the length.
    pub(crate) fn position(&self, place: u64) -> u64 {
        match self {
            Self::Steps(p) => p.position(place),
            Self::List(list) => list.positions[place as usize],
        }
    }

    /// The ranks whose positions lie in `low..high`. Ranks number the positions so that any such range of
    /// positions is a range of ranks.
    pub(crate) fn within(&self, low: u64, high: u64) -> Range<u64> {
        match self {
            Self::Steps(p) => p.within(low, high),
            Self::List(list) => {
                let first = |edge| list.order.partition_point(|&place| list.positions[place] < edge) as u64;
                first(low)..first(high)
            }
        }
    }

    /// The position with a rank.
    pub(crate) fn ranked(&self, rank: u64) -> u64 {
        match self {
            Self::Steps(p) => p.position(rank),
            Self::List(list) => list.positions[list.order[rank as usize]],
        }
    }

    /// Positions and places of a range of ranks.
    pub(crate) fn runs(&self, ranks: Range<u64>) -> Vec<Run> {
        let list = match self {
            Self::Steps(p) => {
                let count = ranks.end - ranks.start;
                let position = p.position(ranks.start);
                return vec![Run { position, step: p.step, place: ranks.start, place_step: 1, count }];
            }
            Self::List(list) => list,
        };
        let mut runs: Vec<Run> = Vec::new();
        for &place in &list.order[ranks.start as usize..ranks.end as usize] {
            let (position, place) = (list.positions[place], place as u64);
            if let Some(run) = runs.last_mut() {
                // Below 2^63 all of them.
                let last = run.count as i64 - 1;
                let step = position as i64 - (run.position as i64 + last * run.step);
                let place_step = place as i64 - (run.place as i64 + last * run.place_step);
                if run.count == 1 {
                    (run.step, run.place_step) = (step, place_step);
                }
                if (run.step, run.place_step) == (step, place_step) {
                    run.count += 1;
                    continue;
                }
            }
            runs.push(Run { position, step: 1, place, place_step: 1, count: 1 });
        }
        runs
    }

    /// Whether all of `low..high` is chosen.
    pub(crate) fn covers(&self, low: u64, high: u64) -> bool {
        let ranks = self.within(low, high);
        match self {
            Self::Steps(p) => {
                // One position, or all at distance 1.
                ranks.end - ranks.start == high - low && (p.step.unsigned_abs() == 1 || high - low <= 1)
            }
            Self::List(list) => {
                let order = &list.order[ranks.start as usize..ranks.end as usize];
                let mut next = low;
                for &place in order {
                    match list.positions[place] {
                        position if position == next => next += 1,
                        position if position > next => return false,
                        _ => {}
                    }
                }
                next == high
            }
        }
    }

    /// Chooses among the chosen positions.
    fn compose(&self, dim: usize, select: &Select) -> Result<Self, NdError> {
        let length = self.len();
        let fail = |what: String| Err(NdError::Slice { dim, what });
        match (select, self) {
            (Select::Dim(selected), Self::Steps(p)) => {
                let q = Positions::new(dim, *selected, length)?;
                if q.len == 0 {
                    return Ok(Self::Steps(q));
                }
                // A range of at most one position may have any step.
                let step = if q.len == 1 { 1 } else { p.step.wrapping_mul(q.step) };
                let start = p.position(q.start);
                Ok(Self::Steps(Positions { start, step, ..q }))
            }
            (Select::Dim(selected), Self::List(_)) => {
                let q = Positions::new(dim, *selected, length)?;
                if q.dropped {
                    return Ok(Self::Steps(Positions { start: self.position(q.start), ..q }));
                }
                Ok(Self::list((0..q.len).map(|k| self.position(q.position(k))).collect()))
            }
            (Select::List(list), _) => {
                let n = length as i64;
                let mut positions = Vec::with_capacity(list.len());
                for &index in list {
                    let at = if index < 0 { index.saturating_add(n) } else { index };
                    if at < 0 || at >= n {
                        return fail(format!("index {index} is out of range for length {n}"));
                    }
                    positions.push(self.position(at as u64));
                }
                Ok(Self::list(positions))
            }
            (Select::Mask(marks), _) => {
                if marks.len() as u64 != length {
                    return fail(format!("{} marks for length {length}", marks.len()));
                }
                let chosen = (0..length).zip(marks).filter(|(_, mark)| **mark);
                Ok(Self::list(chosen.map(|(place, _)| self.position(place)).collect()))
            }
            (Select::Ellipsis | Select::NewAxis, _) => fail("stands for no dimension".into()),
        }
    }
}

/// A dimension of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutDim {
    /// One of the array.
    Of(usize),
    /// One that the array does not have; its length is 0 or 1.
    New(u64),
}

/// Most dimensions a result may have: those of the largest array, and as many new ones.
const MAX_OUT: usize = 2 * MAX_DIM;

/// Applies a selection to a result of `along` and `out`.
pub(crate) fn select(
    along: &mut [Along],
    out: &[OutDim],
    selection: &[Select],
) -> Result<Vec<OutDim>, NdError> {
    let fail = |dim, what: String| Err(NdError::Slice { dim, what });
    let named = selection.iter().filter(|s| !matches!(s, Select::Ellipsis | Select::NewAxis)).count();
    if named > out.len() {
        return fail(out.len(), format!("the array has only {} dimensions", out.len()));
    }
    let mut new = Vec::with_capacity(out.len());
    let mut dims = out.iter().copied().enumerate();
    let mut ellipsis = false;
    for select in selection {
        match select {
            Select::Ellipsis if ellipsis => return fail(new.len(), "a second ellipsis".into()),
            Select::Ellipsis => {
                ellipsis = true;
                new.extend(dims.by_ref().take(out.len() - named).map(|(_, dim)| dim));
            }
            Select::NewAxis => new.push(OutDim::New(1)),
            select => match dims.next() {
                Some((dim, OutDim::Of(of))) => {
                    let chosen = along[of].compose(dim, select)?;
                    let dropped = matches!(chosen, Along::Steps(Positions { dropped: true, .. }));
                    along[of] = chosen;
                    if !dropped {
                        new.push(OutDim::Of(of));
                    }
                }
                Some((dim, OutDim::New(length))) => {
                    let chosen = Along::whole(length).compose(dim, select)?;
                    match chosen.len() {
                        _ if matches!(chosen, Along::Steps(Positions { dropped: true, .. })) => {}
                        length @ 0..=1 => new.push(OutDim::New(length)),
                        _ => return fail(dim, "a new axis cannot be repeated".into()),
                    }
                }
                // Counted above.
                None => return fail(out.len(), "too many dimensions".into()),
            },
        }
        if new.len() > MAX_OUT {
            return fail(new.len(), format!("more than {MAX_OUT} dimensions"));
        }
    }
    new.extend(dims.map(|(_, dim)| dim));
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_runs() {
        let along = Along::whole(20).compose(0, &Select::List(vec![5, 3, 4, -1, 5, 5, 0])).unwrap();
        // Sorted: 0@6, 3@1, 4@2, 5@0, 5@4, 5@5, 19@3.
        assert_eq!(along.within(3, 6), 1..6);
        let mut seen = Vec::new();
        for run in along.runs(0..7) {
            for k in 0..run.count as i64 {
                seen.push((run.position as i64 + k * run.step, run.place as i64 + k * run.place_step));
            }
        }
        assert_eq!(seen, [(0, 6), (3, 1), (4, 2), (5, 0), (5, 4), (5, 5), (19, 3)]);
        assert!(along.covers(3, 6) && !along.covers(2, 6) && !along.covers(3, 7));
        let steps = Along::whole(20);
        assert!(steps.covers(0, 20) && steps.covers(7, 8));
    }

    #[test]
    fn selections_compose() {
        let first = Along::whole(20).compose(0, &SliceDim::range(2..).step_by(3).into()).unwrap();
        let second = first.compose(0, &SliceDim::ALL.step_by(-2).into()).unwrap();
        let positions: Vec<u64> = (0..second.len()).map(|k| second.position(k)).collect();
        assert_eq!(positions, [17, 11, 5]);
        let third = second.compose(0, &Select::List(vec![-1, 0])).unwrap();
        assert_eq!([third.position(0), third.position(1)], [5, 17]);
        let last = third.compose(0, &SliceDim::Index(1).into()).unwrap();
        assert_eq!((last.len(), last.position(0)), (1, 17));
    }

    #[test]
    fn bad_selections_are_errors() {
        let check = |selection: &[Select]| {
            let mut along = [Along::whole(4), Along::whole(5)];
            select(&mut along, &[OutDim::Of(0), OutDim::Of(1)], selection)
        };
        assert!(check(&[Select::Ellipsis, Select::Ellipsis]).is_err());
        assert!(check(&[0.into(), 0.into(), 0.into()]).is_err());
        assert!(check(&[Select::List(vec![0, 4])]).is_err());
        assert!(check(&[Select::List(vec![i64::MIN])]).is_err());
        assert!(check(&[Select::mask([true; 3])]).is_err());
        assert!(check(&vec![Select::NewAxis; 40]).is_err());
        assert_eq!(
            check(&[Select::NewAxis, Select::Ellipsis, 0.into()]).unwrap(),
            [OutDim::New(1), OutDim::Of(0)]
        );
        assert_eq!(check(&[Select::Ellipsis, 0.into(), 0.into()]).unwrap(), []);
    }
}

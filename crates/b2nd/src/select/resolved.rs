//! The positions chosen along each dimension of an array, and how a selection narrows them.

use std::ops::Range;
use std::sync::Arc;

use b2_core::memory;

use crate::NdError;
use crate::model::geometry::{MAX_DIM, coords, dimensions, product};
use crate::select::selection::{Mark, Positions, Selection};

/// The positions chosen along one dimension of the array.
#[derive(Clone, Debug)]
pub(crate) enum AxisSelection {
    Steps(Positions),
    PointList(ListedPositions),
}

/// Positions in any order, possibly repeated.
#[derive(Clone, Debug)]
pub(crate) struct ListedPositions {
    positions: Arc<[u64]>,
    /// Indices into `positions`, sorted by position; equal positions keep their order.
    order: Arc<[usize]>,
}

/// Equally spaced positions whose places in the result are equally spaced too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionRun {
    pub(crate) position: u64,
    pub(crate) step: i64,
    pub(crate) place: u64,
    pub(crate) place_step: i64,
    pub(crate) count: u64,
}

impl AxisSelection {
    pub(crate) fn whole(length: u64) -> Self {
        Self::Steps(Positions { start: 0, step: 1, len: length, dropped: false })
    }

    fn list(positions: Vec<u64>) -> Self {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        if !positions.is_sorted() {
            order.sort_by_key(|&place| positions[place]);
        }
        Self::PointList(ListedPositions { positions: positions.into(), order: order.into() })
    }

    /// Returns the number of chosen positions.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Steps(p) => p.len,
            Self::PointList(list) => list.positions.len() as u64,
        }
    }

    /// Returns the position for an index into the result, which must be below the length.
    pub(crate) fn position(&self, place: u64) -> u64 {
        match self {
            Self::Steps(p) => p.position(place),
            Self::PointList(list) => list.positions[place as usize],
        }
    }

    /// Returns the ranks of the positions in `low..high`. Positions are ranked so that every such
    /// interval is a contiguous range of ranks.
    pub(crate) fn within(&self, low: u64, high: u64) -> Range<u64> {
        match self {
            Self::Steps(p) => p.within(low, high),
            Self::PointList(list) => {
                let first = |edge| list.order.partition_point(|&place| list.positions[place] < edge) as u64;
                first(low)..first(high)
            }
        }
    }

    /// Returns the position with this rank.
    pub(crate) fn ranked(&self, rank: u64) -> u64 {
        match self {
            Self::Steps(p) => p.position(rank),
            Self::PointList(list) => list.positions[list.order[rank as usize]],
        }
    }

    /// Returns the only run of a range of ranks, if the positions are equally spaced.
    pub(crate) fn only_run(&self, ranks: &Range<u64>) -> Option<PositionRun> {
        let Self::Steps(p) = self else { return None };
        let count = ranks.end - ranks.start;
        let position = p.position(ranks.start);
        Some(PositionRun { position, step: p.step, place: ranks.start, place_step: 1, count })
    }

    /// Groups a range of ranks into runs.
    pub(crate) fn runs(&self, ranks: Range<u64>) -> Vec<PositionRun> {
        let list = match self {
            Self::Steps(_) => return self.only_run(&ranks).into_iter().collect(),
            Self::PointList(list) => list,
        };
        let mut runs: Vec<PositionRun> = Vec::new();
        for &place in &list.order[ranks.start as usize..ranks.end as usize] {
            let (position, place) = (list.positions[place], place as u64);
            if let Some(run) = runs.last_mut() {
                // All of these are below 2^63, so the casts do not wrap.
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
            runs.push(PositionRun { position, step: 1, place, place_step: 1, count: 1 });
        }
        runs
    }

    /// Returns whether every position in `low..high` is chosen.
    pub(crate) fn covers(&self, low: u64, high: u64) -> bool {
        let ranks = self.within(low, high);
        match self {
            Self::Steps(p) => {
                // One position, or all of them at distance 1.
                ranks.end - ranks.start == high - low && (p.step.unsigned_abs() == 1 || high - low <= 1)
            }
            Self::PointList(list) => {
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

    /// Applies a selection to the positions already chosen.
    fn compose(&self, dim: usize, selection: &Selection) -> Result<Self, NdError> {
        let length = self.len();
        let fail = |what: String| Err(NdError::Slice { dim, what });
        let q = match selection {
            Selection::Index(index) => Positions::index(dim, *index, length)?,
            Selection::Range { start, stop, step } => Positions::range(dim, (*start, *stop, *step), length)?,
            Selection::Cut { start, stop, step } => Positions::cut(dim, (*start, *stop, *step), length)?,
            Selection::List(list) => {
                let at = |&index| Positions::at(dim, index, length).map(|at| self.position(at));
                return Ok(Self::list(list.iter().map(at).collect::<Result<_, _>>()?));
            }
            Selection::Mask { marks, .. } => {
                if marks.len() as u64 != length {
                    return fail(format!("{} marks for length {length}", marks.len()));
                }
                let chosen = (0..length).zip(marks).filter(|(_, mark)| **mark);
                return Ok(Self::list(chosen.map(|(place, _)| self.position(place)).collect()));
            }
            Selection::Ellipsis | Selection::NewAxis => return fail("does not represent a dimension".into()),
        };
        match self {
            Self::Steps(_) if q.len == 0 => Ok(Self::Steps(q)),
            Self::Steps(p) => {
                // With at most one position the step does not matter, so it may wrap.
                let step = if q.len == 1 { 1 } else { p.step.wrapping_mul(q.step) };
                Ok(Self::Steps(Positions { start: p.position(q.start), step, ..q }))
            }
            Self::PointList(_) if q.dropped => {
                Ok(Self::Steps(Positions { start: self.position(q.start), ..q }))
            }
            Self::PointList(_) => Ok(Self::list((0..q.len).map(|k| self.position(q.position(k))).collect())),
        }
    }

    fn is_dropped(&self) -> bool {
        matches!(self, Self::Steps(Positions { dropped: true, .. }))
    }
}

/// The origin of one dimension of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutDim {
    /// A dimension of the array.
    Of(usize),
    /// The dimension of the points.
    Points,
    /// A new axis, which the array does not have. Its length is 0 or 1.
    New(u64),
}

/// Single positions in some dimensions of the array. Together they form one dimension of the
/// result.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedPoints {
    /// The dimensions of the array that the points name, in ascending order.
    pub(crate) dims: Vec<usize>,
    /// The coordinates of all points in these dimensions, point after point.
    pub(crate) positions: Arc<Vec<u64>>,
    pub(crate) len: usize,
}

impl ResolvedPoints {
    /// Returns the coordinates of point `n`.
    pub(crate) fn point(&self, n: usize) -> &[u64] {
        &self.positions[n * self.dims.len()..(n + 1) * self.dims.len()]
    }
}

/// The chosen items of an array, and the dimensions of the result.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedSelection {
    /// The choice along each dimension of the array. Entries for the dimensions of `points` are
    /// unused.
    pub(crate) along: Vec<AxisSelection>,
    pub(crate) points: Option<ResolvedPoints>,
    pub(crate) out: Vec<OutDim>,
}

/// The largest number of dimensions of a result: those of the array, plus the same number of new
/// axes.
const MAX_OUT: usize = 2 * MAX_DIM;

impl ResolvedSelection {
    /// Chooses a whole array.
    pub(crate) fn whole(shape: &[u64]) -> Self {
        Self {
            along: shape.iter().map(|&length| AxisSelection::whole(length)).collect(),
            points: None,
            out: (0..shape.len()).map(OutDim::Of).collect(),
        }
    }

    /// Returns the length of a dimension of the result.
    pub(crate) fn length(&self, dim: OutDim) -> u64 {
        match dim {
            OutDim::Of(of) => self.along[of].len(),
            OutDim::Points => self.points.as_ref().map_or(1, |points| points.len as u64),
            OutDim::New(length) => length,
        }
    }

    /// Returns the shape of the result.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.out.iter().map(|&dim| self.length(dim)).collect()
    }

    /// Applies one selection per dimension to the chosen items, as
    /// [`NdArray::slice`](crate::NdArray::slice) does.
    pub(crate) fn select(&self, selections: &[Selection]) -> Result<Self, NdError> {
        let mut new = Self { out: Vec::with_capacity(self.out.len()), ..self.clone() };
        for Item { first, dims, selection } in self.items(selections)? {
            match (selection, dims) {
                (None, dims) => new.out.extend(dims),
                (Some(Selection::NewAxis), _) => new.out.push(OutDim::New(1)),
                (Some(Selection::Mask { shape, .. }), dims) if shape.len() > 1 => {
                    new.points(&[Item { first, dims, selection }], self)?;
                    new.out.push(OutDim::Points);
                }
                (Some(selection), &[dim]) => new.apply(first, dim, selection)?,
                // All other selections apply to one dimension, so this cannot happen.
                (Some(_), _) => {}
            }
            new.check_ndim()?;
        }
        Ok(new)
    }

    /// Like [`select`](Self::select), but lists, masks and indices together name points, as in
    /// NumPy.
    pub(crate) fn select_points(&self, selections: &[Selection]) -> Result<Self, NdError> {
        let items = self.items(selections)?;
        let listed = |s: &Selection| matches!(s, Selection::List(_) | Selection::Mask { .. });
        if !selections.iter().any(listed) {
            return self.select(selections);
        }
        let named =
            |item: &Item<'_>| item.selection.is_some_and(|s| listed(s) || matches!(s, Selection::Index(_)));
        // As in NumPy, the dimension of the points replaces the selections that name them if these
        // are adjacent, and comes first otherwise.
        let first = items.iter().position(named).unwrap_or_default();
        let together = items[first..].iter().skip_while(|item| named(item)).all(|item| !named(item));
        let place = if together { first } else { 0 };
        let mut new = Self { out: Vec::with_capacity(self.out.len()), ..self.clone() };
        let (points, _): (Vec<_>, Vec<_>) = items.iter().copied().partition(named);
        new.points(&points, self)?;
        for (n, item) in items.iter().enumerate() {
            if n == place {
                new.out.push(OutDim::Points);
            }
            match item.selection {
                _ if named(item) => {}
                None => new.out.extend(item.dims),
                Some(Selection::NewAxis) => new.out.push(OutDim::New(1)),
                Some(selection) => new.apply(item.first, item.dims[0], selection)?,
            }
            new.check_ndim()?;
        }
        Ok(new)
    }

    /// Assigns dimensions of the result to selections. Dimensions that no selection names get an
    /// item without a selection.
    fn items<'a>(&'a self, selections: &'a [Selection]) -> Result<Vec<Item<'a>>, NdError> {
        let ndim = self.out.len();
        let named: usize = selections.iter().map(Selection::ndim).sum();
        if named > ndim {
            return Err(slice_error(ndim, format!("the array has only {}", dimensions(ndim))));
        }
        let mut items = Vec::with_capacity(selections.len() + 1);
        let (mut first, mut ellipsis) = (0, false);
        for selection in selections {
            let (count, selection) = match selection {
                Selection::Ellipsis if ellipsis => return Err(slice_error(first, "a second ellipsis")),
                Selection::Ellipsis => {
                    ellipsis = true;
                    (ndim - named, None)
                }
                Selection::Mask { shape, .. } if shape.is_empty() => {
                    return Err(slice_error(first, "a mask without dimensions"));
                }
                selection => (selection.ndim(), Some(selection)),
            };
            items.push(Item { first, dims: &self.out[first..first + count], selection });
            first += count;
        }
        items.push(Item { first, dims: &self.out[first..], selection: None });
        Ok(items)
    }

    /// Applies a selection to the dimension `out` (number `dim`) of the old result and appends what
    /// remains of it.
    fn apply(&mut self, dim: usize, out: OutDim, selection: &Selection) -> Result<(), NdError> {
        match out {
            OutDim::Of(of) => {
                let chosen = self.along[of].compose(dim, selection)?;
                if !chosen.is_dropped() {
                    self.out.push(out);
                }
                self.along[of] = chosen;
            }
            OutDim::New(length) => {
                let chosen = AxisSelection::whole(length).compose(dim, selection)?;
                match chosen.len() {
                    _ if chosen.is_dropped() => {}
                    length @ 0..=1 => self.out.push(OutDim::New(length)),
                    _ => return Err(slice_error(dim, "a new axis cannot be repeated")),
                }
            }
            OutDim::Points => {
                let Some(points) = &self.points else { return Ok(()) };
                let chosen = AxisSelection::whole(points.len as u64).compose(dim, selection)?;
                if chosen.is_dropped() {
                    // A single point fixes one position along each of its dimensions.
                    for (&of, &start) in points.dims.iter().zip(points.point(chosen.position(0) as usize)) {
                        self.along[of] =
                            AxisSelection::Steps(Positions { start, step: 1, len: 1, dropped: true });
                    }
                    self.points = None;
                    return Ok(());
                }
                let len = usize::try_from(chosen.len()).unwrap_or(usize::MAX);
                let mut positions = memory::list(len.saturating_mul(points.dims.len()))?;
                for k in 0..chosen.len() {
                    positions.extend_from_slice(points.point(chosen.position(k) as usize));
                }
                self.points =
                    Some(ResolvedPoints { dims: points.dims.clone(), positions: positions.into(), len });
                self.out.push(OutDim::Points);
            }
        }
        Ok(())
    }

    /// Turns lists, masks and indices on dimensions of `old` into points.
    fn points(&mut self, items: &[Item<'_>], old: &Self) -> Result<(), NdError> {
        // One list for each named dimension; all have the same length or are a single index.
        let mut lists: Vec<(usize, OutDim, PointList<'_>)> = Vec::new();
        for &Item { first, dims, selection } in items {
            match selection {
                Some(Selection::Index(index)) => lists.push((first, dims[0], PointList::One(*index))),
                Some(Selection::List(list)) => {
                    let list = match &list[..] {
                        [index] => PointList::One(*index),
                        list => PointList::Many(list),
                    };
                    lists.push((first, dims[0], list));
                }
                Some(Selection::Mask { shape, marks }) => {
                    let lengths: Vec<u64> = dims.iter().map(|&dim| old.length(dim)).collect();
                    if *shape != lengths || product(lengths.iter().copied()) != marks.len() as u64 {
                        let what =
                            format!("{} marks of shape {shape:?} for lengths {lengths:?}", marks.len());
                        return Err(slice_error(first, what));
                    }
                    let marked = Arc::new(marked(&lengths, marks)?);
                    for (k, &dim) in dims.iter().enumerate() {
                        lists.push((first + k, dim, PointList::Marked(marked.clone(), k, dims.len())));
                    }
                }
                _ => {}
            }
        }
        let mut len = 1;
        for (dim, _, list) in &lists {
            match list.len() {
                None => {}
                Some(n) if len == 1 || n == len => len = n,
                Some(n) => {
                    return Err(slice_error(*dim, format!("{n} positions, other dimensions have {len}")));
                }
            }
        }
        let before = old.points.as_ref().filter(|_| lists.iter().any(|(_, out, _)| *out == OutDim::Points));
        if self.points.is_some() && before.is_none() {
            return Err(slice_error(
                items.first().map_or(0, |item| item.first),
                "there are points in other dimensions",
            ));
        }
        // Each dimension of the array, with the list that names it.
        let mut dims: Vec<(usize, usize)> = Vec::new();
        for (n, (_, out, _)) in lists.iter().enumerate() {
            match *out {
                OutDim::Of(of) => dims.push((of, n)),
                OutDim::Points => dims.extend(before.iter().flat_map(|b| &b.dims).map(|&of| (of, n))),
                OutDim::New(_) => {}
            }
        }
        dims.sort_unstable();
        let width = dims.len();
        let mut positions: Vec<u64> = memory::list(len.saturating_mul(width))?;
        positions.resize(len * width, 0);
        for (n, (dim, out, list)) in lists.iter().enumerate() {
            let length = old.length(*out);
            let at = |k| Positions::at(*dim, list.get(k), length);
            // The columns of `positions` that this list fills.
            let named = || dims.iter().enumerate().filter(|(_, (_, by))| *by == n);
            match (*out, before) {
                _ if named().next().is_none() => (0..len).try_for_each(|k| at(k).map(drop))?,
                (OutDim::Points, Some(before)) => {
                    let column = |of| before.dims.iter().position(|&dim| dim == of).unwrap_or_default();
                    let columns: Vec<_> = named().map(|(to, &(of, _))| (to, column(of))).collect();
                    for (k, point) in positions.chunks_mut(width).enumerate() {
                        let source = before.point(at(k)? as usize);
                        columns.iter().for_each(|&(to, from)| point[to] = source[from]);
                    }
                }
                _ => {
                    for (to, &(of, _)) in named() {
                        let along = &old.along[of];
                        for (k, point) in positions.chunks_mut(width).enumerate() {
                            point[to] = along.position(at(k)?);
                        }
                    }
                }
            }
        }
        if len == 0 {
            // Indices that apply to all points must be valid even if there are no points.
            for (dim, out, list) in &lists {
                if let PointList::One(index) = list {
                    Positions::at(*dim, *index, old.length(*out))?;
                }
            }
        }
        let dims: Vec<usize> = dims.into_iter().map(|(of, _)| of).collect();
        for &of in &dims {
            self.along[of] = AxisSelection::Steps(Positions { start: 0, step: 1, len: 1, dropped: true });
        }
        self.points = Some(ResolvedPoints { dims, positions: positions.into(), len });
        Ok(())
    }

    fn check_ndim(&self) -> Result<(), NdError> {
        if self.out.len() > MAX_OUT {
            return Err(slice_error(self.out.len(), format!("more than {MAX_OUT} dimensions")));
        }
        Ok(())
    }
}

/// A selection with the dimensions of the result that it applies to. The first of them is number
/// `first`.
#[derive(Clone, Copy)]
struct Item<'a> {
    first: usize,
    dims: &'a [OutDim],
    selection: Option<&'a Selection>,
}

/// The positions of points along one dimension.
enum PointList<'a> {
    /// One position for all points.
    One(i64),
    Many(&'a [i64]),
    /// A column of a table of coordinates: the table, the column and the number of columns.
    Marked(Arc<Vec<i64>>, usize, usize),
}

impl PointList<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Many(list) => Some(list.len()),
            Self::Marked(table, _, width) => Some(table.len() / width),
        }
    }

    fn get(&self, k: usize) -> i64 {
        match self {
            Self::One(index) => *index,
            Self::Many(list) => list[k],
            Self::Marked(table, column, width) => table[k * width + column],
        }
    }
}

/// Returns the coordinates of the set marks, in C order.
fn marked(shape: &[u64], marks: &[bool]) -> Result<Vec<i64>, NdError> {
    let mut table = memory::list(count_set(marks).saturating_mul(shape.len()))?;
    for n in set_marks(marks) {
        table.extend(coords(n, shape).into_iter().map(|at| at as i64));
    }
    Ok(table)
}

/// Returns how many marks are set.
pub(crate) fn count_set<M: Mark>(marks: &[M]) -> usize {
    // As many as a byte can count: vectors of bytes are added faster than words.
    const MARK_RUN_LEN: usize = 255;
    let count = |marks: &[M]| marks.iter().map(|mark| u8::from(mark.is_set())).sum::<u8>();
    marks.chunks(MARK_RUN_LEN).map(|marks| usize::from(count(marks))).sum()
}

/// Returns the positions of the set marks. Skips ranges without marks quickly.
pub(crate) fn set_marks<M: Mark>(marks: &[M]) -> impl Iterator<Item = u64> {
    const MARK_RUN_LEN: usize = 64;
    let stretches = marks.chunks(MARK_RUN_LEN).enumerate();
    let any = |marks: &[M]| marks.iter().fold(0, |any, mark| any | u8::from(mark.is_set())) != 0;
    stretches.filter(move |(_, marks)| any(marks)).flat_map(|(n, marks)| {
        let set = marks.iter().enumerate().filter(|(_, mark)| mark.is_set());
        set.map(move |(k, _)| (n * MARK_RUN_LEN + k) as u64)
    })
}

fn slice_error(dim: usize, what: impl Into<String>) -> NdError {
    NdError::Slice { dim, what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::selection::range;

    #[test]
    fn lists_become_runs() {
        let along = AxisSelection::whole(20).compose(0, &[5, 3, 4, -1, 5, 5, 0].into()).unwrap();
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
        let steps = AxisSelection::whole(20);
        assert!(steps.covers(0, 20) && steps.covers(7, 8));
    }

    #[test]
    fn selections_compose() {
        let first = AxisSelection::whole(20).compose(0, &range(2..).step(3)).unwrap();
        let second = first.compose(0, &range(..).step(-2)).unwrap();
        let positions: Vec<u64> = (0..second.len()).map(|k| second.position(k)).collect();
        assert_eq!(positions, [17, 11, 5]);
        let third = second.compose(0, &[-1, 0].into()).unwrap();
        assert_eq!([third.position(0), third.position(1)], [5, 17]);
        let last = third.compose(0, &1.into()).unwrap();
        assert_eq!((last.len(), last.position(0)), (1, 17));
    }

    #[test]
    fn bad_selections_are_errors() {
        let check = |selections: &[Selection]| {
            let whole = ResolvedSelection::whole(&[4, 5]);
            let points = whole.select_points(selections).map(|chosen| chosen.out).ok();
            let chosen = whole.select(selections).map(|chosen| chosen.out).ok();
            assert_eq!(points.is_some(), chosen.is_some());
            chosen
        };
        assert_eq!(check(&[Selection::Ellipsis, Selection::Ellipsis]), None);
        assert_eq!(check(&[0.into(), 0.into(), 0.into()]), None);
        assert_eq!(check(&[[0, 4].into()]), None);
        assert_eq!(check(&[[i64::MIN].into()]), None);
        assert_eq!(check(&[Selection::mask([true; 3])]), None);
        assert_eq!(check(&[Selection::mask_of([4, 4], [true; 16])]), None);
        assert_eq!(check(&[Selection::mask_of([4, 5], [true; 16])]), None);
        assert_eq!(check(&[Selection::mask_of([5, 4], [1u8; 20])]), None);
        assert_eq!(check(&vec![Selection::NewAxis; 40]), None);
        let out = check(&[Selection::NewAxis, Selection::Ellipsis, 0.into()]);
        assert_eq!(out, Some(vec![OutDim::New(1), OutDim::Of(0)]));
        assert_eq!(check(&[Selection::Ellipsis, 0.into(), 0.into()]), Some(vec![]));
        assert_eq!(check(&[Selection::mask_of([4, 5], [1u8; 20])]), Some(vec![OutDim::Points]));
    }

    #[test]
    fn points_stand_where_numpy_puts_them() {
        let whole = ResolvedSelection::whole(&[3, 4, 5, 6]);
        let l = Selection::from([0, 1]);
        let (i, all, new) = (Selection::Index(0), Selection::ALL, Selection::NewAxis);
        let m = Selection::mask_of([4, 5], [true; 20]);
        let shape = |selections: &[&Selection]| {
            let selections: Vec<Selection> = selections.iter().copied().cloned().collect();
            whole.select_points(&selections).ok().map(|chosen| chosen.shape())
        };
        let e = Selection::Ellipsis;
        // Expected shapes are those of NumPy 2.
        assert_eq!(shape(&[&l, &e, &l]), Some(vec![2, 4, 5]));
        assert_eq!(shape(&[&i, &all, &l]), Some(vec![2, 4, 6]));
        assert_eq!(shape(&[&all, &l, &i]), Some(vec![3, 2, 6]));
        assert_eq!(shape(&[&all, &i, &l]), Some(vec![3, 2, 6]));
        assert_eq!(shape(&[&l, &all, &i]), Some(vec![2, 4, 6]));
        assert_eq!(shape(&[&all, &l, &all, &l]), Some(vec![2, 3, 5]));
        assert_eq!(shape(&[&all, &l, &new, &l]), Some(vec![2, 3, 1, 6]));
        assert_eq!(shape(&[&new, &l]), Some(vec![1, 2, 4, 5, 6]));
        assert_eq!(shape(&[&all, &l, &[0].into()]), Some(vec![3, 2, 6]));
        assert_eq!(shape(&[&all, &l, &[0, 1, 2].into()]), None);
        assert_eq!(shape(&[&e, &i, &all, &l]), Some(vec![2, 3, 5]));
        assert_eq!(shape(&[&i, &e, &l]), Some(vec![2, 4, 5]));
        assert_eq!(shape(&[&all, &l, &l, &e, &l]), Some(vec![2, 3]));
        assert_eq!(shape(&[&all, &m, &i]), Some(vec![3, 20]));
        assert_eq!(shape(&[&all, &m, &all]), Some(vec![3, 20, 6]));
        assert_eq!(shape(&[&i, &m, &all]), Some(vec![20, 6]));
    }
}

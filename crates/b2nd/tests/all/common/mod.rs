//! A plain model of arrays: items as numbers in C order, every operation by walking.

use b2_testkit::Rng;
use b2nd::{NdArray, RegionSource, Selection};

/// An array of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) shape: Vec<usize>,
    pub(crate) items: Vec<u32>,
}

impl Model {
    pub(crate) fn new(shape: &[usize], item: impl FnMut(usize) -> u32) -> Self {
        Self { shape: shape.to_vec(), items: (0..shape.iter().product()).map(item).collect() }
    }

    /// All coordinates, in C order.
    pub(crate) fn walk(shape: &[usize]) -> Vec<Vec<usize>> {
        let mut all = vec![vec![]];
        for &n in shape {
            all = all.iter().flat_map(|at: &Vec<usize>| (0..n).map(|i| [&at[..], &[i]].concat())).collect();
        }
        all
    }

    pub(crate) fn place(&self, at: &[usize]) -> usize {
        at.iter().zip(&self.shape).fold(0, |n, (&i, &len)| n * len + i)
    }

    /// A model whose item at `at` is this one's item at `from(at)`.
    pub(crate) fn map(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let items = Self::walk(shape).iter().map(|at| self.items[self.place(&from(at))]).collect();
        Self { shape: shape.to_vec(), items }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.items.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    /// The positions that a selection takes from each dimension, and the shape of the result.
    pub(crate) fn resolve(&self, selection: &[Selection]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let named =
            selection.iter().filter(|s| !matches!(s, Selection::Ellipsis | Selection::NewAxis)).count();
        let (mut lists, mut shape) = (Vec::new(), Vec::new());
        let whole = |lists: &mut Vec<Vec<usize>>, shape: &mut Vec<usize>| {
            let n = self.shape[lists.len()];
            lists.push((0..n).collect());
            shape.push(n);
        };
        for select in selection {
            match select {
                Selection::NewAxis => shape.push(1),
                Selection::Ellipsis => {
                    for _ in named..self.shape.len() {
                        whole(&mut lists, &mut shape);
                    }
                }
                select => {
                    let list = positions(select, self.shape[lists.len()]);
                    if !matches!(select, Selection::Index(_)) {
                        shape.push(list.len());
                    }
                    lists.push(list);
                }
            }
        }
        while lists.len() < self.shape.len() {
            whole(&mut lists, &mut shape);
        }
        (lists, shape)
    }

    /// Places of the selected items, in the order of the result.
    pub(crate) fn chosen(&self, lists: &[Vec<usize>]) -> Vec<usize> {
        let lens: Vec<usize> = lists.iter().map(Vec::len).collect();
        let at = |k: &[usize]| -> Vec<usize> { k.iter().zip(lists).map(|(&k, list)| list[k]).collect() };
        Self::walk(&lens).iter().map(|k| self.place(&at(k))).collect()
    }

    pub(crate) fn select(&self, selection: &[Selection]) -> Self {
        let (lists, shape) = self.resolve(selection);
        Self { shape, items: self.chosen(&lists).iter().map(|&place| self.items[place]).collect() }
    }

    /// NumPy's result for lists, masks and indices combined with slices, by broadcasting and iterating.
    pub(crate) fn points(&self, selection: &[Selection]) -> Self {
        let listed = |s: &Selection| matches!(s, Selection::List(_) | Selection::Mask { .. });
        if !selection.iter().any(listed) {
            return self.select(selection);
        }
        let dims = |s: &Selection| match s {
            Selection::NewAxis | Selection::Ellipsis => 0,
            Selection::Mask { shape, .. } => shape.len(),
            _ => 1,
        };
        // Each dimension: its positions, and whether it is one of the points. New ones have no number.
        let mut parts: Vec<(Option<usize>, Vec<usize>, bool)> = Vec::new();
        let mut at = 0;
        // Positions of other selections in the list, including those without dimensions.
        let mut kinds: Vec<bool> = Vec::new();
        for select in selection {
            match select {
                Selection::NewAxis => {
                    parts.push((None, vec![0], false));
                    kinds.push(false);
                }
                Selection::Ellipsis => {
                    kinds.push(false);
                    for _ in 0..self.shape.len() - selection.iter().map(dims).sum::<usize>() {
                        parts.push((Some(at), (0..self.shape[at]).collect(), false));
                        at += 1;
                    }
                }
                Selection::Mask { shape, marks } => {
                    kinds.push(true);
                    let lens: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
                    let marked: Vec<Vec<usize>> = Self::walk(&lens)
                        .into_iter()
                        .zip(marks)
                        .filter(|(_, mark)| **mark)
                        .map(|(at, _)| at)
                        .collect();
                    for k in 0..shape.len() {
                        parts.push((Some(at), marked.iter().map(|at| at[k]).collect(), true));
                        at += 1;
                    }
                }
                select => {
                    let point = listed(select) || matches!(select, Selection::Index(_));
                    kinds.push(point);
                    parts.push((Some(at), positions(select, self.shape[at]), point));
                    at += 1;
                }
            }
        }
        while at < self.shape.len() {
            parts.push((Some(at), (0..self.shape[at]).collect(), false));
            at += 1;
        }
        let n = parts.iter().filter(|part| part.2).map(|part| part.1.len()).find(|&n| n != 1).unwrap_or(1);
        kinds.dedup();
        let together = kinds.iter().filter(|point| **point).count() == 1;
        let place = if together { parts.iter().position(|part| part.2).unwrap() } else { 0 };
        // Which part each dimension of the result is of; none for the points.
        let mut out: Vec<Option<usize>> = Vec::new();
        for (k, part) in parts.iter().enumerate() {
            if k == place {
                out.push(None);
            }
            if !part.2 {
                out.push(Some(k));
            }
        }
        let shape: Vec<usize> = out.iter().map(|k| k.map_or(n, |k| parts[k].1.len())).collect();
        let items = Self::walk(&shape).into_iter().map(|at| {
            let mut from = vec![0; self.shape.len()];
            for (k, (dim, list, point)) in parts.iter().enumerate() {
                let of = out.iter().position(|out| *out == if *point { None } else { Some(k) }).unwrap();
                let i = if *point && list.len() == 1 { 0 } else { at[of] };
                if let Some(dim) = dim {
                    from[*dim] = list[i];
                }
            }
            self.items[self.place(&from)]
        });
        Self { items: items.collect(), shape: shape.clone() }
    }

    pub(crate) fn transpose(&self) -> Self {
        self.permute(&(0..self.shape.len()).rev().collect::<Vec<_>>())
    }

    pub(crate) fn set(&mut self, selection: &[Selection], items: &[u32]) {
        let (lists, _) = self.resolve(selection);
        for (place, &item) in self.chosen(&lists).into_iter().zip(items) {
            self.items[place] = item;
        }
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        self.map(&shape, |at| {
            let mut from = vec![0; at.len()];
            for (&axis, &i) in axes.iter().zip(at) {
                from[axis] = i;
            }
            from
        })
    }

    /// Items outside the old shape are zeros.
    pub(crate) fn resize(&self, shape: &[usize]) -> Self {
        let items = Self::walk(shape).into_iter().map(|at| {
            let inside = at.iter().zip(&self.shape).all(|(&i, &n)| i < n);
            if inside { self.items[self.place(&at)] } else { 0 }
        });
        Self { shape: shape.to_vec(), items: items.collect() }
    }

    pub(crate) fn insert(&self, axis: usize, at: usize, other: &Self) -> Self {
        let (n, mut shape) = (other.shape[axis], self.shape.clone());
        shape[axis] += n;
        let items = Self::walk(&shape).into_iter().map(|mut from| {
            let i = from[axis];
            if (at..at + n).contains(&i) {
                from[axis] = i - at;
                return other.items[other.place(&from)];
            }
            from[axis] = if i < at { i } else { i - n };
            self.items[self.place(&from)]
        });
        Self { items: items.collect(), shape: shape.clone() }
    }

    pub(crate) fn delete(&self, axis: usize, range: std::ops::Range<usize>) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] -= range.len();
        self.map(&shape, |at| {
            let mut from = at.to_vec();
            from[axis] += if from[axis] < range.start { 0 } else { range.len() };
            from
        })
    }
}

fn positions(select: &Selection, len: usize) -> Vec<usize> {
    let n = len as i64;
    let fix = |i: i64| (if i < 0 { i + n } else { i }) as usize;
    match select {
        Selection::Index(i) => vec![fix(*i)],
        Selection::List(list) => list.iter().map(|&i| fix(i)).collect(),
        Selection::Mask { marks, .. } => (0..len).filter(|&i| marks[i]).collect(),
        Selection::Range { start, stop, step } => {
            let clip = |p: i64, low, high| (if p < 0 { p + n } else { p }).clamp(low, high);
            let (low, high) = if *step > 0 { (0, n) } else { (-1, n - 1) };
            let (from, to) = if *step > 0 { (low, high) } else { (high, low) };
            let mut at = start.map_or(from, |p| clip(p, low, high));
            let stop = stop.map_or(to, |p| clip(p, low, high));
            let mut out = Vec::new();
            while if *step > 0 { at < stop } else { at > stop } {
                out.push(at as usize);
                at += step;
            }
            out
        }
        _ => unreachable!("no dimension"),
    }
}

/// Small random numbers for choices that depend on earlier ones.
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    pub(crate) fn shape(&mut self, nd: usize, most: usize) -> Vec<usize> {
        (0..nd).map(|_| 1 + self.below(most)).collect()
    }

    /// A selection of a dimension. `repeat`: lists may repeat positions.
    pub(crate) fn select(&mut self, n: usize) -> Selection {
        let edge = |dice: &mut Self| match dice.below(3) {
            0 => None,
            _ => Some(dice.below(2 * n + 5) as i64 - n as i64 - 2),
        };
        match self.below(8) {
            0 if n > 0 => Selection::from(self.below(2 * n) as i64 - n as i64),
            1 if n > 0 => {
                let len = self.below(2 * n + 1);
                Selection::List((0..len).map(|_| self.below(2 * n) as i64 - n as i64).collect())
            }
            2 => Selection::mask((0..n).map(|_| self.below(2) == 0).collect::<Vec<_>>()),
            3 => Selection::from(..),
            _ => {
                let (start, stop) = (edge(self), edge(self));
                let step = [1, 1, 1, 2, 3, -1, -2, -7][self.below(8)];
                Selection::Range { start, stop, step }
            }
        }
    }

    /// A selection with lists and masks that name points together.
    pub(crate) fn points(&mut self, shape: &[usize]) -> Vec<Selection> {
        let len = self.below(12);
        let mut selection = Vec::new();
        let (mut dim, mut ellipsis) = (0, false);
        while dim < shape.len() {
            let n = shape[dim];
            match self.below(12) {
                0 => {
                    selection.push(Selection::NewAxis);
                    continue;
                }
                1 if !ellipsis => {
                    ellipsis = true;
                    selection.push(Selection::Ellipsis);
                    dim += self.below(shape.len() - dim + 1);
                    continue;
                }
                2 if !ellipsis => return selection,
                3 if n > 0 => selection.push(Selection::from(self.below(2 * n) as i64 - n as i64)),
                4 if n > 0 => selection.push(Selection::List(vec![self.below(n) as i64])),
                5..=8 if n > 0 => {
                    let list = (0..len).map(|_| self.below(2 * n) as i64 - n as i64).collect();
                    selection.push(Selection::List(list));
                }
                // As many marks as the lists have positions.
                9 => {
                    let count = 1 + self.below(shape.len() - dim);
                    let shape: Vec<u64> = shape[dim..dim + count].iter().map(|&n| n as u64).collect();
                    let mut marks = vec![false; shape.iter().product::<u64>() as usize];
                    if marks.len() < len {
                        selection.push(Selection::ALL);
                        dim += 1;
                        continue;
                    }
                    let mut left = len;
                    while left > 0 {
                        let at = self.below(marks.len());
                        left -= usize::from(!marks[at]);
                        marks[at] = true;
                    }
                    selection.push(Selection::Mask { shape, marks });
                    dim += count;
                    continue;
                }
                _ => {
                    let step = [1, 1, 2, -1, -3][self.below(5)];
                    let start = (self.below(2) == 0).then(|| self.below(n + 1) as i64);
                    selection.push(Selection::Range { start, stop: None, step });
                }
            }
            dim += 1;
        }
        selection
    }

    /// A selection, with new axes and an ellipsis if `rich`.
    pub(crate) fn selection(&mut self, shape: &[usize], rich: bool) -> Vec<Selection> {
        let mut selection = Vec::new();
        let mut dim = 0;
        let mut ellipsis = false;
        while dim < shape.len() {
            if rich && self.below(6) == 0 {
                selection.push(Selection::NewAxis);
            }
            if rich && !ellipsis && self.below(5) == 0 {
                ellipsis = true;
                selection.push(Selection::Ellipsis);
                dim += self.below(shape.len() - dim + 1);
                continue;
            }
            if !ellipsis && self.below(5) == 0 {
                return selection;
            }
            selection.push(self.select(shape[dim]));
            dim += 1;
        }
        selection
    }
}

#[track_caller]
pub(crate) fn check(array: &NdArray, model: &Model) {
    assert_eq!(array.shape(), model.shape.iter().map(|&n| n as u64).collect::<Vec<_>>());
    assert_eq!(array.all().read::<Vec<u32>>().unwrap(), model.items);
}

/// Zeros for some reads, then errors.
pub(crate) struct Failing(pub(crate) usize);

impl RegionSource for Failing {
    fn read_region(&mut self, _: &b2nd::Region<'_>, dst: &mut [u8]) -> std::io::Result<()> {
        dst.fill(0);
        self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("no more"))?;
        Ok(())
    }
}

/// Bytes that compress somewhat, different for each seed; `crash` uses it, too.
pub(crate) fn data(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * (seed + 3)) >> 4) as u8).collect()
}

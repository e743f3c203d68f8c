//! A plain model of arrays: items as numbers in C order, every operation by walking.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use b2nd::{NdArray, RegionSource, Select, SliceDim};

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
    pub(crate) fn resolve(&self, selection: &[Select]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let named = selection.iter().filter(|s| !matches!(s, Select::Ellipsis | Select::NewAxis)).count();
        let (mut lists, mut shape) = (Vec::new(), Vec::new());
        let whole = |lists: &mut Vec<Vec<usize>>, shape: &mut Vec<usize>| {
            let n = self.shape[lists.len()];
            lists.push((0..n).collect());
            shape.push(n);
        };
        for select in selection {
            match select {
                Select::NewAxis => shape.push(1),
                Select::Ellipsis => {
                    for _ in named..self.shape.len() {
                        whole(&mut lists, &mut shape);
                    }
                }
                select => {
                    let list = positions(select, self.shape[lists.len()]);
                    if !matches!(select, Select::Dim(SliceDim::Index(_))) {
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

    pub(crate) fn select(&self, selection: &[Select]) -> Self {
        let (lists, shape) = self.resolve(selection);
        Self { shape, items: self.chosen(&lists).iter().map(|&place| self.items[place]).collect() }
    }

    pub(crate) fn set(&mut self, selection: &[Select], items: &[u32]) {
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

fn positions(select: &Select, len: usize) -> Vec<usize> {
    let n = len as i64;
    let fix = |i: i64| (if i < 0 { i + n } else { i }) as usize;
    match select {
        Select::Dim(SliceDim::Index(i)) => vec![fix(*i)],
        Select::List(list) => list.iter().map(|&i| fix(i)).collect(),
        Select::Mask(marks) => (0..len).filter(|&i| marks[i]).collect(),
        Select::Dim(SliceDim::Range { start, stop, step }) => {
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
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n.max(1) as u64) as usize
    }

    pub(crate) fn shape(&mut self, nd: usize, most: usize) -> Vec<usize> {
        (0..nd).map(|_| 1 + self.below(most)).collect()
    }

    /// A selection of a dimension. `repeat`: lists may repeat positions.
    pub(crate) fn select(&mut self, n: usize) -> Select {
        let edge = |dice: &mut Self| match dice.below(3) {
            0 => None,
            _ => Some(dice.below(2 * n + 5) as i64 - n as i64 - 2),
        };
        match self.below(8) {
            0 if n > 0 => Select::from(self.below(2 * n) as i64 - n as i64),
            1 if n > 0 => {
                let len = self.below(2 * n + 1);
                Select::List((0..len).map(|_| self.below(2 * n) as i64 - n as i64).collect())
            }
            2 => Select::mask((0..n).map(|_| self.below(2) == 0).collect::<Vec<_>>()),
            3 => Select::from(..),
            _ => {
                let (start, stop) = (edge(self), edge(self));
                let step = [1, 1, 1, 2, 3, -1, -2, -7][self.below(8)];
                SliceDim::Range { start, stop, step }.into()
            }
        }
    }

    /// A selection, with new axes and an ellipsis if `rich`.
    pub(crate) fn selection(&mut self, shape: &[usize], rich: bool) -> Vec<Select> {
        let mut selection = Vec::new();
        let mut dim = 0;
        let mut ellipsis = false;
        while dim < shape.len() {
            if rich && self.below(6) == 0 {
                selection.push(Select::NewAxis);
            }
            if rich && !ellipsis && self.below(5) == 0 {
                ellipsis = true;
                selection.push(Select::Ellipsis);
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
    assert_eq!(array.all().to_vec::<u32>().unwrap(), model.items);
}

/// Zeros for so many reads, then errors.
pub(crate) struct Failing(pub(crate) usize);

impl RegionSource for Failing {
    fn read_region(
        &mut self,
        _: &b2nd::Geometry,
        _: &[u64],
        _: &[u64],
        dst: &mut [u8],
    ) -> std::io::Result<()> {
        dst.fill(0);
        self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("no more"))?;
        Ok(())
    }
}

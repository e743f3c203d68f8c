//! Pieces of a buffer, shared between the versions of its content.

use std::collections::BTreeSet;
use std::sync::Arc;

use b2_core::{OutOfMemory, memory};
use bytes::Bytes;

/// Maximum number of pieces in a group. After a clone, a change copies one group and the list of groups.
const GROUP: usize = 128;

/// Bytes that start at some offset.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) bytes: Bytes,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// Pieces at ascending offsets that do not overlap. Nothing changes the bytes of a piece, so clones of the list keep
/// their content.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// No group is empty.
    groups: Arc<Vec<Arc<Vec<Piece>>>>,
}

impl Pieces {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// Returns the end of the last piece, or 0 if there is none.
    pub(super) fn end(&self) -> u64 {
        self.groups.last().and_then(|group| group.last()).map_or(0, Piece::end)
    }

    /// Returns the first piece that ends after `at`.
    pub(super) fn find(&self, at: u64) -> Option<&Piece> {
        let ends = |group: &Arc<Vec<Piece>>| group.last().map_or(0, Piece::end);
        let group = self.groups.get(self.groups.partition_point(|group| ends(group) <= at))?;
        group.get(group.partition_point(|piece| piece.end() <= at))
    }

    /// Returns whether a piece starts at `at`.
    pub(super) fn contains(&self, at: u64) -> bool {
        self.find(at).is_some_and(|piece| piece.at == at)
    }

    /// Inserts a piece, which must not overlap another.
    pub(super) fn insert(&mut self, at: u64, bytes: Bytes) -> Result<(), OutOfMemory> {
        let starts = |group: &Arc<Vec<Piece>>| group.first().is_some_and(|piece| piece.at <= at);
        let ngroup = self.groups.partition_point(starts).saturating_sub(1);
        let groups = Arc::make_mut(&mut self.groups);
        if groups.is_empty() {
            return memory::push(groups, Arc::new(vec![Piece { at, bytes }]));
        }
        memory::reserve(groups, 1)?;
        let group = Arc::make_mut(&mut groups[ngroup]);
        let place = group.partition_point(|piece| piece.at < at);
        group.insert(place, Piece { at, bytes });
        if group.len() > GROUP {
            // Pieces mostly go to the end, so leave the earlier groups full.
            let half = if place + 1 == group.len() { GROUP } else { GROUP / 2 };
            let rest = group.split_off(half);
            groups.insert(ngroup + 1, Arc::new(rest));
        }
        Ok(())
    }

    /// Removes the pieces for whose offsets `keep` returns `false`.
    pub(super) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        if self.iter().all(|piece| keep(piece.at)) {
            return;
        }
        let groups = Arc::make_mut(&mut self.groups);
        for group in groups.iter_mut() {
            if !group.iter().all(|piece| keep(piece.at)) {
                Arc::make_mut(group).retain(|piece| keep(piece.at));
            }
        }
        groups.retain(|group| !group.is_empty());
    }
}

/// The gaps between pieces.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Length and offset of each.
    by_len: BTreeSet<(u64, u64)>,
}

impl Holes {
    /// Finds the gaps after `start`.
    pub(super) fn of(pieces: &Pieces, start: u64) -> Self {
        let mut by_len = BTreeSet::new();
        let mut at = start;
        for piece in pieces.iter() {
            if piece.at > at {
                by_len.insert((piece.at - at, at));
            }
            at = at.max(piece.end());
        }
        Self { by_len }
    }

    /// Takes space for `len` bytes from the smallest hole that has it.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let &(room, at) = self.by_len.range((len, 0)..).next()?;
        self.by_len.remove(&(room, at));
        if room > len {
            self.by_len.insert((room - len, at + len));
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use b2_testkit::Rng;

    use super::*;

    #[test]
    fn pieces_are_found_and_clones_keep_theirs() {
        let mut rng = Rng::new(4);
        let (mut pieces, mut model) = (Pieces::default(), BTreeMap::new());
        let mut clones = Vec::new();
        for round in 0..3000u64 {
            let at = 10 * rng.below(2000) as u64;
            if rng.below(5) == 0 {
                let keep = |at: u64| (at / 10) % 7 != round % 7;
                pieces.retain(keep);
                model.retain(|at, _| keep(*at));
            } else if let Entry::Vacant(free) = model.entry(at) {
                let bytes = Bytes::from(vec![round as u8; 1 + rng.below(10)]);
                pieces.insert(at, bytes.clone()).unwrap();
                free.insert(bytes);
            }
            if round % 100 == 0 {
                clones.push((pieces.clone(), model.clone()));
            }
        }
        clones.push((pieces, model));
        for (pieces, model) in &clones {
            let all: BTreeMap<u64, Bytes> = pieces.iter().map(|p| (p.at, p.bytes.clone())).collect();
            assert!(&all == model && pieces.iter().map(|p| p.at).is_sorted());
            assert_eq!(
                pieces.end(),
                model.iter().next_back().map_or(0, |(at, bytes)| at + bytes.len() as u64)
            );
            for at in 0..20_100 {
                let next = model.iter().find(|(start, bytes)| *start + bytes.len() as u64 > at);
                assert_eq!(pieces.find(at).map(|p| p.at), next.map(|(start, _)| *start));
                assert_eq!(pieces.contains(at), model.contains_key(&at));
            }
        }
    }

    #[test]
    fn holes_are_between_pieces() {
        let mut pieces = Pieces::default();
        for (at, len) in [(10, 5), (20, 10), (30, 1), (40, 2)] {
            pieces.insert(at, Bytes::from(vec![0; len])).unwrap();
        }
        // 5..10, 15..20, 31..40
        let mut holes = Holes::of(&pieces, 5);
        assert_eq!(holes.take(10), None);
        assert_eq!(holes.take(4), Some(5));
        assert_eq!(holes.take(6), Some(31));
        assert_eq!(holes.take(4), Some(15));
        assert_eq!(holes.take(3), Some(37));
        assert_eq!([holes.take(1), holes.take(1), holes.take(1)], [Some(9), Some(19), None]);
    }
}

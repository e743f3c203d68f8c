//! States after a power loss: unsynced data are there or not, in parts and in any order.
//!
//! A file consists of pieces: sectors of 512 bytes, cache lines of 64 or words of 8. Each piece
//! holds what it held at some time since the file was last synced, and the length is any length it
//! had since then. A directory has some of the changes to its names since it was synced. Files and
//! directories are independent of each other. Real disks and file systems do less harm.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::image::{Image, Node};
use crate::log::{CrashState, Log};
use crate::op::{Names, NodeId, Op, apply};
use b2_testkit::Rng;

/// Sizes of the pieces into which a write can be torn. Disks write whole sectors, persistent memory
/// only words, and caches write back lines, all of them in any order.
const TEAR_SIZES: [usize; 3] = [512, 64, 8];
const SECTOR: usize = TEAR_SIZES[0];
/// Longer files are torn only into sectors, as there would be too many smaller pieces.
const MAX_FINE_LEN: usize = 64 << 10;

/// A file counts at most this often where a moment is chosen.
const MAX_CHANCES: usize = 60;

/// The unsynced changes after some number of calls.
struct UnsyncedChanges {
    at: usize,
    /// For each file with unsynced changes, the numbers of calls after which its contents changed,
    /// the synced one first.
    files: BTreeMap<NodeId, Vec<usize>>,
    /// For each directory with unsynced changes, the number of synced calls, and the calls that
    /// changed it since then.
    directories: BTreeMap<NodeId, (usize, Vec<usize>)>,
}

/// Returns a file's contents, given when they changed.
type ContentsOf<'a> = dyn FnMut(NodeId, &[usize]) -> Arc<Vec<u8>> + 'a;

impl Log {
    /// Calls `each` with states that a power loss can leave, until it returns `false`: first
    /// systematic ones, then an endless series of random ones.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn power_losses<E>(
        &self,
        seed: u64,
        mut each: impl FnMut(CrashState) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut rng = Rng::case(seed ^ 0x5EED, 0);
        let pending: Vec<UnsyncedChanges> = (0..=self.ops().len()).map(|at| self.pending(at)).collect();
        for pending in &pending {
            for state in self.systematic(pending) {
                if !each(state)? {
                    return Ok(());
                }
            }
        }
        self.random_losses(&pending, &mut rng, each)
    }

    /// Like [`Log::power_losses`], but only random ones, after at least `from` calls.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn some_power_losses<E>(
        &self,
        seed: u64,
        from: usize,
        each: impl FnMut(CrashState) -> Result<bool, E>,
    ) -> Result<(), E> {
        let pending: Vec<UnsyncedChanges> = (from..=self.ops().len()).map(|at| self.pending(at)).collect();
        self.random_losses(&pending, &mut Rng::case(seed, 0), each)
    }

    fn random_losses<E>(
        &self,
        pending: &[UnsyncedChanges],
        rng: &mut Rng,
        mut each: impl FnMut(CrashState) -> Result<bool, E>,
    ) -> Result<(), E> {
        // Moments with more to lose are chosen more often.
        let tickets: Vec<&UnsyncedChanges> =
            pending.iter().flat_map(|p| std::iter::repeat_n(p, self.chances(p))).collect();
        if tickets.is_empty() {
            return Ok(());
        }
        while each(self.random(tickets[rng.below(tickets.len())], rng))? {}
        Ok(())
    }

    fn chances(&self, pending: &UnsyncedChanges) -> usize {
        let pieces = |(node, times): (&NodeId, &Vec<usize>)| {
            let smallest = if self.overwrites(*node, times) { TEAR_SIZES[2] } else { SECTOR };
            1 + self.pieces(*node, times, smallest).take(MAX_CHANCES).count()
        };
        let pieces: usize = pending.files.iter().map(pieces).sum();
        pieces.min(MAX_CHANCES)
            + pending.directories.values().map(|(_, changes)| changes.len()).sum::<usize>()
    }

    fn pending(&self, at: usize) -> UnsyncedChanges {
        let mut files: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut directories: BTreeMap<NodeId, (usize, Vec<usize>)> = BTreeMap::new();
        let mut safe: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (i, op) in self.ops()[..at].iter().enumerate() {
            match op {
                Op::Create { node, .. } => {
                    safe.insert(*node, i + 1);
                }
                Op::Sync { node } | Op::SyncDirectory { dir: node } => {
                    safe.insert(*node, i + 1);
                    files.remove(node);
                    directories.remove(node);
                }
                _ => {}
            }
            let safe_at = |node: &NodeId| safe.get(node).copied().unwrap_or(0);
            if let Some(node) = op.contents() {
                files.entry(node).or_insert_with(|| vec![safe_at(&node)]).push(i + 1);
            }
            for (dir, ..) in op.names() {
                let (_, changes) = directories.entry(dir).or_insert_with(|| (safe_at(&dir), Vec::new()));
                // A rename within a directory is one change.
                if changes.last() != Some(&i) {
                    changes.push(i);
                }
            }
        }
        UnsyncedChanges { at, files, directories }
    }

    /// Returns the systematic states: all lost, all kept, one thing lost or kept, one piece of a
    /// file's last change lost or kept.
    fn systematic(&self, pending: &UnsyncedChanges) -> Vec<CrashState> {
        let mut states = Vec::new();
        let at = pending.at;
        for kept in [false, true] {
            let mut push = |file: Option<(NodeId, Arc<Vec<u8>>)>, change: Option<usize>, how: String| {
                let image = self.compose(
                    pending,
                    &mut |node, times| match (&file, kept) {
                        (Some((of, contents)), _) if *of == node => contents.clone(),
                        (_, true) => self.whole(node, at),
                        (_, false) => self.whole(node, times[0]),
                    },
                    &mut |i| (change == Some(i)) != kept,
                );
                states.push(self.state(at, image, how));
            };
            let all = if kept { "all kept" } else { "all lost" };
            push(None, None, format!("power lost after {at} calls, {all}"));
            for (dir, (_, changes)) in &pending.directories {
                for i in changes {
                    push(None, Some(*i), format!("power lost after {at} calls, {all} but call {i} on {dir}"));
                }
            }
            for (node, times) in &pending.files {
                for time in times {
                    let how = format!("power lost after {at} calls, {all} but file {node} as after {time}");
                    push(Some((*node, self.whole(*node, *time))), None, how);
                }
                let [.., before, after] = times[..] else { continue };
                // New data follow the committed state, and are torn only into sectors.
                let fine = if self.overwrites(*node, &[before, after]) { TEAR_SIZES.len() } else { 1 };
                for size in TEAR_SIZES.into_iter().take(fine) {
                    for piece in self.pieces(*node, &[before, after], size).take(24) {
                        for (base, other) in [(before, after), (after, before)] {
                            let how = format!(
                                "power lost after {at} calls, {all} but file {node} as after {base} and piece \
                                 {piece} of {size} bytes as after {other}"
                            );
                            push(Some((*node, self.one_piece(*node, [base, other], size, piece))), None, how);
                        }
                    }
                }
            }
        }
        states
    }

    fn random(&self, pending: &UnsyncedChanges, rng: &mut Rng) -> CrashState {
        let UnsyncedChanges { at, .. } = *pending;
        let how = match rng.below(4) {
            0 => "in order",
            1 => "names in order, contents in pieces",
            2 => "names and contents in pieces",
            _ => "names and contents in pieces, with garbage",
        };
        let (in_order, garbage) = (how == "in order", how.ends_with("garbage"));
        let names_in_order = how.starts_with("in order") || how.starts_with("names in order");
        // One cut through all directories, or one for each.
        let cut = rng.below(at + 1);
        let same_cut = rng.chance(50);
        let keep = [10, 50, 90][rng.below(3)];
        // Garbage is what a sector held before, so it comes in whole sectors.
        let size = if garbage { SECTOR } else { TEAR_SIZES[rng.below(TEAR_SIZES.len())] };
        let mut chosen: BTreeMap<usize, bool> = BTreeMap::new();
        for (_, changes) in pending.directories.values() {
            let cut = if same_cut { cut } else { rng.below(at + 1) };
            chosen.extend(
                changes.iter().map(|i| (*i, if names_in_order { *i < cut } else { rng.chance(keep) })),
            );
        }
        let image = self.compose(
            pending,
            &mut |node, times| {
                if in_order {
                    let cut = if same_cut { cut } else { rng.below(at + 1) };
                    let time = times.iter().rev().find(|time| **time <= cut).unwrap_or(&times[0]);
                    return self.whole(node, *time);
                }
                // Often keep only the latest changes; otherwise the result would rarely be nearly
                // complete.
                let mut among = times.to_vec();
                match rng.below(4) {
                    0 => drop(among.drain(..times.len() - 2)),
                    1 => among.truncate(2),
                    _ => {}
                }
                if rng.chance(keep / 2) {
                    // Favour one end of the range.
                    let end = if rng.chance(50) { among[0] } else { among[among.len() - 1] };
                    among.extend(std::iter::repeat_n(end, among.len() * 3));
                }
                self.mixed(node, &among, size, rng, garbage.then_some(times[0]))
            },
            &mut |i| chosen.get(&i).copied().unwrap_or(true),
        );
        self.state(at, image, format!("power lost after {at} calls, {how}"))
    }

    fn compose(
        &self,
        pending: &UnsyncedChanges,
        file: &mut ContentsOf<'_>,
        kept: &mut dyn FnMut(usize) -> bool,
    ) -> Image {
        let mut image = self.image(pending.at).clone();
        for (node, times) in &pending.files {
            image.set(*node, Node::File(file(*node, times)));
        }
        for (dir, (safe, changes)) in &pending.directories {
            let mut names = match self.image(*safe).nodes().get(dir) {
                Some(Node::Directory(names)) => Names::clone(names),
                _ => Names::new(),
            };
            for i in changes.iter().filter(|i| kept(**i)) {
                let changes = self.ops()[*i].names().into_iter().filter(|change| change.0 == *dir);
                changes.for_each(|change| apply(&mut names, change));
            }
            image.set(*dir, Node::Directory(Arc::new(names)));
        }
        image
    }

    fn whole(&self, node: NodeId, time: usize) -> Arc<Vec<u8>> {
        match self.image(time).nodes().get(&node) {
            Some(Node::File(bytes)) => bytes.clone(),
            _ => Arc::default(),
        }
    }

    /// Returns the pieces in which a file differs between some times.
    fn pieces(&self, node: NodeId, times: &[usize], size: usize) -> impl Iterator<Item = usize> {
        let mut versions: Vec<_> = times.iter().map(|time| self.whole(node, *time)).collect();
        versions.dedup();
        let len = versions.iter().map(|bytes| bytes.len()).max().unwrap_or(0);
        (0..len.div_ceil(size))
            .filter(move |at| versions.windows(2).any(|pair| differs(&pair[0], &pair[1], *at, size)))
    }

    /// Returns whether the file has the same length at all these times, and is not too long.
    fn overwrites(&self, node: NodeId, times: &[usize]) -> bool {
        let mut lens = times.iter().map(|time| self.whole(node, *time).len());
        let first = lens.next().unwrap_or(0);
        first <= MAX_FINE_LEN && lens.all(|len| len == first)
    }

    /// Returns the contents after the first number of calls, but one piece as after the second.
    fn one_piece(&self, node: NodeId, times: [usize; 2], size: usize, piece: usize) -> Arc<Vec<u8>> {
        let [base, other] = times.map(|time| self.whole(node, time));
        let mut bytes = base.to_vec();
        // The piece counts whether or not its length does.
        let len = bytes.len().max((piece + 1) * size).min(bytes.len().max(other.len()));
        bytes.resize(len, 0);
        put(&mut bytes, piece, &part(&other, piece, size));
        Arc::new(bytes)
    }

    /// Returns contents of which each piece, and the length, is as after any of these numbers of calls. Pieces that the
    /// file did not have after `safe` calls may be garbage.
    fn mixed(
        &self,
        node: NodeId,
        among: &[usize],
        size: usize,
        rng: &mut Rng,
        safe: Option<usize>,
    ) -> Arc<Vec<u8>> {
        let pick = |rng: &mut Rng| self.whole(node, among[rng.below(among.len())]);
        let safe = safe.map(|time| self.whole(node, time).len());
        let mut bytes = pick(rng).to_vec();
        let size = if bytes.len() > MAX_FINE_LEN { SECTOR } else { size };
        for at in self.pieces(node, among, size) {
            let piece = match safe {
                Some(safe) if at * size >= safe && rng.chance(10) => rng.bytes(size),
                _ => part(&pick(rng), at, size),
            };
            put(&mut bytes, at, &piece);
        }
        Arc::new(bytes)
    }
}

/// Returns a piece of a file, with zeros beyond its end.
fn part(bytes: &[u8], at: usize, size: usize) -> Vec<u8> {
    let part = bytes.get(at * size..).unwrap_or_default();
    let mut piece = part[..part.len().min(size)].to_vec();
    piece.resize(size, 0);
    piece
}

/// Returns whether two versions of a file differ in a piece.
fn differs(a: &[u8], b: &[u8], at: usize, size: usize) -> bool {
    let both = at * size..(at + 1) * size;
    match (a.get(both.clone()), b.get(both)) {
        (Some(a), Some(b)) => a != b,
        _ => part(a, at, size) != part(b, at, size),
    }
}

/// Overwrites a piece of a file as far as it lies inside the file.
fn put(bytes: &mut [u8], at: usize, piece: &[u8]) {
    let there = bytes.get_mut(at * piece.len()..).unwrap_or_default();
    let n = there.len().min(piece.len());
    there[..n].copy_from_slice(&piece[..n]);
}

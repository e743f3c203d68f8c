use std::ffi::OsString;

use b2_frame::LockMode;
use bytes::Bytes;

use crate::image::{Image, Names, NodeId};

/// One call that changed something, or will matter after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are numbers of files and directories, names, and arguments")]
pub enum Op {
    /// A new file with a name.
    CreateFile { dir: u64, name: OsString, node: u64 },
    /// A new directory with a name.
    CreateDirectory { dir: u64, name: OsString, node: u64 },
    /// Another name for a file.
    Link { dir: u64, name: OsString, node: u64 },
    /// Bytes written to a file.
    Write { node: u64, offset: u64, data: Bytes },
    /// A file cut off or extended.
    SetLen { node: u64, len: u64 },
    /// A file's contents are safe.
    Sync { node: u64 },
    /// A sync that failed: the system may have given up what was written before it.
    SyncFailed { node: u64 },
    /// A name changed.
    Rename { from_dir: u64, from: OsString, to_dir: u64, to: OsString, node: u64 },
    /// A name taken away.
    Remove { dir: u64, name: OsString },
    /// A directory's names are safe.
    SyncDirectory { dir: u64 },
    /// A lock was had.
    Lock { node: u64, mode: LockMode },
    /// The program under test has said that everything before this is done.
    Mark(u64),
}

/// What an [`Op`] does to the names of one directory.
pub(crate) enum Change<'a> {
    Set(&'a OsString, NodeId),
    Clear(&'a OsString),
    Move(&'a OsString, &'a OsString, NodeId),
}

impl Change<'_> {
    /// Also without what came before it: a set of names has no order.
    pub(crate) fn apply(&self, names: &mut Names) {
        match *self {
            Self::Set(name, node) => {
                names.insert(name.clone(), node);
            }
            Self::Clear(name) => {
                names.remove(name);
            }
            Self::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), node);
            }
        }
    }
}

impl Op {
    /// The directories whose names it changes.
    pub(crate) fn names(&self) -> Vec<(NodeId, Change<'_>)> {
        match self {
            Self::CreateFile { dir, name, node }
            | Self::CreateDirectory { dir, name, node }
            | Self::Link { dir, name, node } => vec![(*dir, Change::Set(name, *node))],
            Self::Remove { dir, name } => vec![(*dir, Change::Clear(name))],
            Self::Rename { from_dir, from, to_dir, to, node } if from_dir == to_dir => {
                vec![(*from_dir, Change::Move(from, to, *node))]
            }
            Self::Rename { from_dir, from, to_dir, to, node } => {
                vec![(*from_dir, Change::Clear(from)), (*to_dir, Change::Set(to, *node))]
            }
            _ => Vec::new(),
        }
    }

    /// The file whose contents it changes.
    pub(crate) fn contents(&self) -> Option<NodeId> {
        match self {
            Self::Write { node, .. } | Self::SetLen { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// In a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Write { node, offset, data } => format!("write({node}, {offset}, {} bytes)", data.len()),
            other => format!("{other:?}"),
        }
    }
}

/// What happened to a file system since it was [restarted](crate::SimFs::restart).
#[derive(Clone, Debug)]
pub struct Log {
    ops: Vec<Op>,
    /// Before the first, and after each.
    images: Vec<Image>,
}

/// One way a disk may look after a crash.
#[derive(Clone, Debug)]
pub struct State {
    /// What is on it.
    pub image: Image,
    /// How many calls had ended.
    pub at: usize,
    /// The last mark before that; 0 without one.
    pub mark: u64,
    /// How it came about.
    pub how: String,
}

impl Log {
    pub(crate) fn new(start: &Image, ops: &[Op]) -> Self {
        let mut images = vec![start.clone()];
        for op in ops {
            let mut image = images[images.len() - 1].clone();
            image.apply(op);
            images.push(image);
        }
        Self { ops: ops.to_vec(), images }
    }

    /// The calls.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// What the process saw after the first `at` calls.
    pub fn image(&self, at: usize) -> &Image {
        &self.images[at]
    }

    /// The log as it would be if the system had given up, for good, all that was written to a file and not synced
    /// when a sync of it failed: later syncs do not bring it back. `None` if no sync has failed.
    ///
    /// Only what it says about power losses is meant: the process goes on to see what it wrote.
    pub fn given_up(&self) -> Option<Self> {
        let mut lost = vec![false; self.ops.len()];
        let mut any = false;
        for (i, op) in self.ops.iter().enumerate() {
            let Op::SyncFailed { node: failed } = op else { continue };
            any = true;
            let before = self.ops[..i].iter().enumerate().rev();
            for (k, op) in before.take_while(|(_, op)| **op != (Op::Sync { node: *failed })) {
                lost[k] |= op.contents() == Some(*failed);
            }
        }
        let kept = self.ops.iter().zip(lost).filter(|(_, lost)| !lost).map(|(op, _)| op.clone());
        any.then(|| Self::new(&self.images[0], &kept.collect::<Vec<_>>()))
    }

    /// Bytes written, all files together.
    pub fn bytes_written(&self) -> u64 {
        self.ops.iter().map(|op| if let Op::Write { data, .. } = op { data.len() as u64 } else { 0 }).sum()
    }

    /// How many calls asked for contents or names to be safe.
    pub fn syncs(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::Sync { .. } | Op::SyncDirectory { .. })).count()
    }

    /// The calls, a line for each.
    pub fn describe(&self) -> String {
        self.ops.iter().enumerate().map(|(i, op)| format!("{i:4} {}\n", op.describe())).collect()
    }

    pub(crate) fn mark(&self, at: usize) -> u64 {
        let marks = self.ops[..at].iter().rev();
        marks.filter_map(|op| if let Op::Mark(mark) = op { Some(*mark) } else { None }).next().unwrap_or(0)
    }

    pub(crate) fn state(&self, at: usize, image: Image, how: String) -> State {
        State { image, at, mark: self.mark(at), how }
    }
}

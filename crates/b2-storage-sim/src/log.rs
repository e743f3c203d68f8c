use std::ffi::OsString;

use b2_frame::LockMode;
use bytes::Bytes;

use crate::image::{Image, Names, NodeId};

/// A recorded call that changed something, or that matters after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are numbers of files and directories, names, and arguments")]
pub enum Op {
    /// A file was created.
    CreateFile { dir: u64, name: OsString, node: u64 },
    /// A directory was created.
    CreateDirectory { dir: u64, name: OsString, node: u64 },
    /// A file got another name.
    Link { dir: u64, name: OsString, node: u64 },
    /// Bytes were written to a file.
    Write { node: u64, offset: u64, data: Bytes },
    /// A file was truncated or extended.
    SetLen { node: u64, len: u64 },
    /// A file's contents were synced.
    Sync { node: u64 },
    /// A sync failed; the system may have dropped the data written before it.
    SyncFailed { node: u64 },
    /// A file or directory was renamed.
    Rename { from_dir: u64, from: OsString, to_dir: u64, to: OsString, node: u64 },
    /// A name was removed.
    Remove { dir: u64, name: OsString },
    /// A directory's names were synced.
    SyncDirectory { dir: u64 },
    /// A lock was taken.
    Lock { node: u64, mode: LockMode },
    /// The program under test has promised that everything before this is done.
    Mark(u64),
}

/// The change that an [`Op`] makes to the names of one directory.
pub(crate) enum Change<'a> {
    Set(&'a OsString, NodeId),
    Clear(&'a OsString),
    Move(&'a OsString, &'a OsString, NodeId),
}

impl Change<'_> {
    /// Applies the change, even if earlier changes are missing: names have no order.
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
    /// Returns the directories whose names the call changes, with the changes.
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

    /// Returns the file whose contents the call changes.
    pub(crate) fn contents(&self) -> Option<NodeId> {
        match self {
            Self::Write { node, .. } | Self::SetLen { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Describes the call in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Write { node, offset, data } => format!("write({node}, {offset}, {} bytes)", data.len()),
            other => format!("{other:?}"),
        }
    }
}

/// The record of a file system since it was [restarted](crate::SimFs::restart).
#[derive(Clone, Debug)]
pub struct Log {
    ops: Vec<Op>,
    /// The contents before the first call and after each call.
    images: Vec<Image>,
}

/// A state in which a crash can leave a disk.
#[derive(Clone, Debug)]
pub struct CrashState {
    /// The contents of the disk.
    pub image: Image,
    /// Number of calls that had ended.
    pub at: usize,
    /// The last mark before the crash; 0 if there is none.
    pub mark: u64,
    /// The cause of the state.
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

    /// Returns the calls.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the contents that the process saw after the first `at` calls.
    pub fn image(&self, at: usize) -> &Image {
        &self.images[at]
    }

    /// Returns the log of a system that, after a failed sync, has permanently dropped all unsynced
    /// data of that file, so that later syncs do not bring them back. Returns `None` if no sync has
    /// failed.
    ///
    /// Only its statements about power losses are meaningful, since the process continues to see
    /// what it wrote.
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

    /// Returns the number of bytes written to all files.
    pub fn bytes_written(&self) -> u64 {
        self.ops.iter().map(|op| if let Op::Write { data, .. } = op { data.len() as u64 } else { 0 }).sum()
    }

    /// Returns the number of syncs of files and directories.
    pub fn syncs(&self) -> usize {
        self.ops.iter().filter(|op| matches!(op, Op::Sync { .. } | Op::SyncDirectory { .. })).count()
    }

    /// Describes the calls, one per line.
    pub fn describe(&self) -> String {
        self.ops.iter().enumerate().map(|(i, op)| format!("{i:4} {}\n", op.describe())).collect()
    }

    pub(crate) fn mark(&self, at: usize) -> u64 {
        let marks = self.ops[..at].iter().rev();
        marks.filter_map(|op| if let Op::Mark(mark) = op { Some(*mark) } else { None }).next().unwrap_or(0)
    }

    pub(crate) fn state(&self, at: usize, image: Image, how: String) -> CrashState {
        CrashState { image, at, mark: self.mark(at), how }
    }
}

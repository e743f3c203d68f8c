use std::collections::BTreeMap;
use std::ffi::OsString;

use bytes::Bytes;

/// The number of a file or directory, like an inode number.
pub(crate) type NodeId = u64;

/// The names in a directory.
pub(crate) type Names = BTreeMap<OsString, NodeId>;

/// A recorded call that changed something, or that matters after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are numbers of files and directories, names, and arguments")]
pub enum Op {
    /// A file or directory was created.
    Create { dir: u64, name: OsString, node: u64, directory: bool },
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
    Lock { node: u64 },
    /// The program under test has promised that everything before this is done.
    Mark(u64),
}

/// The change that an [`Op`] makes to a name in a directory: the file or directory that it then refers to, or none.
pub(crate) type Change<'a> = (NodeId, &'a OsString, Option<NodeId>);

/// Applies a change, even if earlier changes are missing: names have no order.
pub(crate) fn apply(names: &mut Names, (_, name, node): Change<'_>) {
    match node {
        Some(node) => names.insert(name.clone(), node),
        None => names.remove(name),
    };
}

impl Op {
    /// Returns the changes that the call makes to names.
    pub(crate) fn names(&self) -> Vec<Change<'_>> {
        match self {
            Self::Create { dir, name, node, .. } | Self::Link { dir, name, node } => {
                vec![(*dir, name, Some(*node))]
            }
            Self::Remove { dir, name } => vec![(*dir, name, None)],
            Self::Rename { from_dir, from, to_dir, to, node } => {
                vec![(*from_dir, from, None), (*to_dir, to, Some(*node))]
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

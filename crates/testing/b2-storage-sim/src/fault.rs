use std::io;

/// A kind of call to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum Call {
    Kind,
    Open,
    OpenWrite,
    Create,
    CreateDirectory,
    Rename,
    Remove,
    List,
    SyncDirectory,
    Resolve,
    CopyAttributes,
    Len,
    Read,
    Identity,
    Write,
    SetLen,
    Sync,
    Lock,
}

/// The calls to which a fault applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All calls.
    Any,
    /// Calls that need space: creating a file or directory, renaming, writing, changing a length,
    /// syncing.
    Space,
    /// Calls of one kind.
    Only(Call),
}

impl Calls {
    pub(crate) fn contain(self, call: Call) -> bool {
        use Call::{Create, CreateDirectory, Rename, SetLen, Sync, SyncDirectory, Write};
        match self {
            Self::Any => true,
            Self::Space => {
                matches!(call, Create | CreateDirectory | Rename | Write | SetLen | Sync | SyncDirectory)
            }
            Self::Only(only) => only == call,
        }
    }
}

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The device fails.
    Io,
    /// The device is full.
    Full,
    /// The device is full after half of the bytes. Calls other than writes, and all later calls,
    /// fail as with `Full`.
    Short,
}

/// A fault to inject: which call fails, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls that count.
    pub calls: Calls,
    /// The number of these calls that succeed before one fails.
    pub after: u64,
    /// The way in which the call fails.
    pub trouble: Trouble,
    /// Whether all later ones of these calls fail too.
    pub lasting: bool,
}

impl Trouble {
    pub(crate) fn error(self) -> io::Error {
        match self {
            Self::Io => io::Error::other("simulated I/O error"),
            Self::Full | Self::Short => io::ErrorKind::StorageFull.into(),
        }
    }
}

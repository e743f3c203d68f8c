use std::io;

/// A kind of call.
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

/// Which calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// All.
    Any,
    /// Those that need space: a new file or directory, a rename, a write, a new length, a sync.
    Space,
    /// Those of one kind.
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

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The device fails.
    Io,
    /// The device is full.
    Full,
    /// The device is full after half of the bytes. Calls other than writes fail as with `Full`.
    Short,
}

/// A call that will fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which calls count.
    pub calls: Calls,
    /// How many of them succeed before.
    pub after: u64,
    /// What goes wrong.
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

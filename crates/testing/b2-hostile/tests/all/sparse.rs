//! Sparse frames whose directory has unexpected content.

use b2_testkit::Rng;

use super::base::{Base, BaseKind, INDEX};
use super::content::{Content, Node};
use super::expect::Expect::{self, Any, NotOk, Reject, Same};

/// A file to change, and what a change may need.
struct SparseTarget<'a> {
    base: &'a Base,
    name: &'a str,
    own: Vec<u8>,
    /// Another chunk file.
    second: Option<&'a String>,
    rng: &'a mut Rng,
}

/// A change to a file or to the directory.
type SparseChange = fn(&mut SparseTarget<'_>) -> Option<Content>;

/// Changes to a chunk file. A chunk may be followed by other bytes, and the superuser can read every file.
const CHUNK_FILE_CHANGES: &[(&str, SparseChange, Expect)] = &[
    ("missing", |t| t.without(), Reject),
    ("empty", |t| t.put(file("")), Reject),
    ("a FIFO", |t| t.put(Node::Fifo), Reject),
    ("a link to /dev/zero", |t| t.link("/dev/zero"), Reject),
    ("a link to itself", |t| t.link(t.name), Reject),
    ("a link to nothing", |t| t.link("nothing.chunk"), Reject),
    ("a link to another chunk", |t| t.link(t.second?), Reject),
    ("a link out of the directory", |t| t.link("../../../../../../../../../etc/passwd"), Reject),
    ("a link to the index", |t| t.link(INDEX), Reject),
    ("a directory", |t| t.put(Node::Folder), Reject),
    ("a socket", |t| t.put(Node::Socket), Reject),
    ("not readable", |t| t.put(Node::Locked(t.own.clone())), Any),
    ("a terabyte of nothing after it", |t| t.put(Node::Hole(t.own.clone(), 1 << 40)), Any),
    ("a terabyte of nothing", |t| t.put(Node::Hole(Vec::new(), 1 << 40)), Reject),
    ("another chunk's bytes", |t| t.put(file(t.base.content.bytes(t.second?)?)), NotOk(None)),
    ("the index's bytes", |t| t.put(file(t.base.bytes(0))), Reject),
    ("twice", |t| t.put(file(t.own.repeat(2))), Any),
    ("garbage", garbage, Reject),
    ("a link to a FIFO", |t| with(t.link("pipe")?, "pipe", Node::Fifo), Reject),
    ("in lower case", |t| renamed(t, &t.name.to_lowercase().replacen("0000000", "000000x", 1)), Reject),
    ("without leading zeros", |t| renamed(t, t.name.trim_start_matches('0')), Reject),
    ("a longer name", |t| renamed(t, &format!("0{}", t.name)), Reject),
];

/// Changes to the index file and to the directory.
const INDEX_CHANGES: &[(&str, SparseChange, Expect)] = &[
    ("no index", |t| t.without(), Reject),
    ("an empty index", |t| t.put(file("")), Reject),
    ("the index is a FIFO", |t| t.put(Node::Fifo), Reject),
    ("the index is a link to /dev/zero", |t| t.link("/dev/zero"), Reject),
    ("the index is a link to itself", |t| t.link(INDEX), Reject),
    ("the index is a directory", |t| t.put(Node::Folder), Reject),
    ("the index is a socket", |t| t.put(Node::Socket), Reject),
    ("the index is not readable", |t| t.put(Node::Locked(t.own.clone())), Any),
    ("a terabyte after the index", |t| t.put(Node::Hole(t.own.clone(), 1 << 40)), Any),
    ("a terabyte for an index", |t| t.put(Node::Hole(Vec::new(), 1 << 40)), Reject),
    ("the index is a chunk", |t| t.put(file(t.base.content.bytes(t.base.files.get(1)?)?)), Reject),
    ("the index claims to be contiguous", |t| typed(t, 0), Reject),
    ("the index has type 2", |t| typed(t, 2), Reject),
    ("chunk files nobody names", |t| t.sibling("FFFFFFFF.chunk", file(&t.own)), Same),
    ("a lock that is a link", |t| t.sibling(".b2lock", Node::Link(INDEX.into())), Same),
    ("a lock that is a FIFO", |t| t.sibling(".b2lock", Node::Fifo), Same),
    ("a lock that is a directory", |t| t.sibling(".b2lock", Node::Folder), Same),
    ("a lock with garbage", |t| noise(t, 33, ".b2lock"), Same),
    ("many other files", many, Same),
    ("a folder with a strange name", |t| t.sibling("\u{1b}[31m\n", Node::Folder), Same),
    ("the index is a link out of the directory", |t| t.link("../../../../../../../../etc/passwd"), Reject),
    ("a redo record", |t| t.put(file(t.own.repeat(2))), Any),
];

impl SparseTarget<'_> {
    /// Returns the base with another entry in place of the file.
    fn put(&self, node: Node) -> Option<Content> {
        self.sibling(self.name, node)
    }

    fn link(&self, target: &str) -> Option<Content> {
        self.put(Node::Link(target.to_owned()))
    }

    fn without(&self) -> Option<Content> {
        let mut content = self.base.content.clone();
        content.remove(self.name);
        Some(content)
    }

    /// Returns the base with another entry under this name.
    fn sibling(&self, name: &str, node: Node) -> Option<Content> {
        with(self.base.content.clone(), name, node)
    }
}

fn file(bytes: impl AsRef<[u8]>) -> Node {
    Node::File(bytes.as_ref().to_vec())
}

fn with(mut content: Content, name: &str, node: Node) -> Option<Content> {
    content.set(name, node);
    Some(content)
}

fn noise(target: &mut SparseTarget<'_>, len: usize, name: &str) -> Option<Content> {
    let bytes = target.rng.bytes(len);
    target.sibling(name, file(bytes))
}

fn garbage(target: &mut SparseTarget<'_>) -> Option<Content> {
    let (len, name) = (target.own.len(), target.name);
    noise(target, len, name)
}

fn renamed(target: &SparseTarget<'_>, name: &str) -> Option<Content> {
    with(target.without()?, name, file(&target.own))
}

/// Changes the type of the frame.
fn typed(target: &mut SparseTarget<'_>, kind: u8) -> Option<Content> {
    target.own[26] = kind;
    target.put(file(&target.own))
}

fn many(target: &mut SparseTarget<'_>) -> Option<Content> {
    let mut content = target.base.content.clone();
    for n in 0..300 {
        content.set(&format!("{:08X}.chunk", 1000 + n), Node::File(vec![n as u8; 40]));
    }
    Some(content)
}

/// Returns the number of changes.
pub(crate) fn count() -> u32 {
    // Each change to a chunk file is applied to the first one and to another one.
    (2 * CHUNK_FILE_CHANGES.len() + INDEX_CHANGES.len()) as u32
}

fn row(kind: u32) -> Option<&'static (&'static str, SparseChange, Expect)> {
    let kind = kind as usize;
    match kind.checked_sub(2 * CHUNK_FILE_CHANGES.len()) {
        Some(kind) => INDEX_CHANGES.get(kind),
        None => CHUNK_FILE_CHANGES.get(kind / 2),
    }
}

pub(crate) fn describe(kind: u32) -> &'static str {
    row(kind).map_or("", |(name, ..)| name)
}

pub(crate) fn change(base: &Base, kind: u32, rng: &mut Rng) -> Option<(Content, Expect)> {
    let (_, change, expect) = row(kind).filter(|_| base.kind == BaseKind::Sparse)?;
    let (index, files) = base.files.split_first()?;
    let (mut name, mut second) = (index, None);
    if (kind as usize) < 2 * CHUNK_FILE_CHANGES.len() {
        let at = if kind % 2 == 1 { rng.within(0..=files.len().max(1) - 1) } else { 0 };
        name = files.get(at)?;
        second = files.get((at + 1) % files.len()).filter(|second| *second != name);
    }
    let own = base.content.bytes(name)?.clone();
    let mut target = SparseTarget { base, name, own, second, rng };
    let content = change(&mut target)?;
    // The bytes of two chunks may be the same, and without checksums they may be exchanged.
    let is_seen = base.has_sums() && content.bytes(name) != base.content.bytes(name);
    Some((content, if *expect == NotOk(None) && !is_seen { Any } else { expect.clone() }))
}

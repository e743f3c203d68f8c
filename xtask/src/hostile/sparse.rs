//! Sparse frames whose directory has unexpected content.

use b2_testkit::Rng;

use super::base::{Base, INDEX, Kind};
use super::content::{Content, Node};
use super::mutate::Expect;

/// Changes to a chunk file.
const CHUNK: &[&str] = &[
    "missing",
    "empty",
    "a FIFO",
    "a link to /dev/zero",
    "a link to itself",
    "a link to nothing",
    "a link to another chunk",
    "a link out of the directory",
    "a link to the index",
    "a directory",
    "a socket",
    "not readable",
    "a terabyte of nothing behind it",
    "a terabyte of nothing",
    "another chunk's bytes",
    "the index's bytes",
    "twice",
    "garbage",
    "a link to a FIFO",
    "in lower case",
    "without leading zeros",
    "a longer name",
];

/// Changes to the index file and to the directory.
const INDEXES: &[&str] = &[
    "no index",
    "an empty index",
    "the index is a FIFO",
    "the index is a link to /dev/zero",
    "the index is a link to itself",
    "the index is a directory",
    "the index is a socket",
    "the index is not readable",
    "a terabyte behind the index",
    "a terabyte for an index",
    "the index is a chunk",
    "the index says it is contiguous",
    "the index says type 2",
    "chunk files nobody names",
    "a lock that is a link",
    "a lock that is a FIFO",
    "a lock that is a directory",
    "a lock with garbage",
    "many files beside",
    "a folder with a strange name",
    "the index is a link out of the directory",
    "a redo record",
];

/// Returns the number of changes.
pub(crate) fn count() -> u32 {
    // Each change to a chunk file is applied to the first one and to another one.
    (2 * CHUNK.len() + INDEXES.len()) as u32
}

pub(crate) fn describe(kind: u32) -> &'static str {
    let kind = kind as usize;
    match kind.checked_sub(2 * CHUNK.len()) {
        Some(kind) => INDEXES.get(kind).unwrap_or(&""),
        None => CHUNK[kind / 2],
    }
}

pub(crate) fn change(base: &Base, kind: u32, rng: &mut Rng) -> Option<(Content, Expect)> {
    if base.kind != Kind::Sparse {
        return None;
    }
    let what = describe(kind);
    match (kind as usize).checked_sub(2 * CHUNK.len()) {
        Some(_) => index(base, what, rng),
        None => chunk(base, what, kind % 2 == 1, rng),
    }
}

fn chunk(base: &Base, what: &str, other: bool, rng: &mut Rng) -> Option<(Content, Expect)> {
    let files = &base.files[1..];
    let at = if other { rng.within(0..=files.len().max(1) - 1) } else { 0 };
    let name = files.get(at)?;
    let second = files.get((at + 1) % files.len()).filter(|second| *second != name);
    let own = base.content.bytes(name)?.clone();
    let put = |node_: Node| Some(node(base, name, node_));
    let link = |target: &str| put(Node::Link(target.to_owned()));
    let content = match what {
        "missing" => {
            let mut content = base.content.clone();
            content.remove(name);
            Some(content)
        }
        "empty" => put(Node::File(Vec::new())),
        "a FIFO" => put(Node::Fifo),
        "a link to /dev/zero" => link("/dev/zero"),
        "a link to itself" => link(name),
        "a link to nothing" => link("nothing.chunk"),
        "a link to another chunk" => link(second?),
        "a link out of the directory" => link("../../../../../../../../../etc/passwd"),
        "a link to the index" => link(INDEX),
        "a directory" => put(Node::Folder),
        "a socket" => put(Node::Socket),
        "not readable" => put(Node::Locked(own.clone())),
        "a terabyte of nothing behind it" => put(Node::Hole(own.clone(), 1 << 40)),
        "a terabyte of nothing" => put(Node::Hole(Vec::new(), 1 << 40)),
        "another chunk's bytes" => put(Node::File(base.content.bytes(second?)?.clone())),
        "the index's bytes" => put(Node::File(base.bytes(0).to_vec())),
        "twice" => put(Node::File([own.clone(), own.clone()].concat())),
        "garbage" => put(Node::File(rng.bytes(own.len()))),
        "a link to a FIFO" => {
            let mut content = link("pipe")?;
            content.set("pipe", Node::Fifo);
            Some(content)
        }
        "in lower case" | "without leading zeros" | "a longer name" => {
            let mut content = base.content.clone();
            content.remove(name);
            let renamed = match what {
                "in lower case" => name.to_lowercase().replacen("0000000", "000000x", 1),
                "without leading zeros" => name.trim_start_matches('0').to_owned(),
                _ => format!("0{name}"),
            };
            content.set(&renamed, Node::File(own.clone()));
            Some(content)
        }
        _ => None,
    }?;
    let expect = match what {
        // The superuser can read it; bytes behind a chunk are ignored.
        "not readable" | "a terabyte of nothing behind it" | "twice" => Expect::Any,
        "another chunk's bytes" if base.has_sums() && base.content.bytes(second?)? != &own => {
            Expect::NotOk(None)
        }
        "another chunk's bytes" => Expect::Any,
        _ => Expect::Reject,
    };
    Some((content, expect))
}

fn index(base: &Base, what: &str, rng: &mut Rng) -> Option<(Content, Expect)> {
    let own = base.bytes(0).to_vec();
    let put = |node_: Node| node(base, INDEX, node_);
    let beside = |name: &str, node_: Node| node(base, name, node_);
    let changed = |at: usize, byte: u8| {
        let mut bytes = own.clone();
        bytes[at] = byte;
        put(Node::File(bytes))
    };
    Some(match what {
        "no index" => {
            let mut content = base.content.clone();
            content.remove(INDEX);
            (content, Expect::Reject)
        }
        "an empty index" => (put(Node::File(Vec::new())), Expect::Reject),
        "the index is a FIFO" => (put(Node::Fifo), Expect::Reject),
        "the index is a link to /dev/zero" => (put(Node::Link("/dev/zero".into())), Expect::Reject),
        "the index is a link to itself" => (put(Node::Link(INDEX.into())), Expect::Reject),
        "the index is a directory" => (put(Node::Folder), Expect::Reject),
        "the index is a socket" => (put(Node::Socket), Expect::Reject),
        "the index is not readable" => (put(Node::Locked(own)), Expect::Any),
        "a terabyte behind the index" => (put(Node::Hole(own, 1 << 40)), Expect::Any),
        "a terabyte for an index" => (put(Node::Hole(Vec::new(), 1 << 40)), Expect::Reject),
        "the index is a chunk" => {
            (put(Node::File(base.content.bytes(base.files.get(1)?)?.clone())), Expect::Reject)
        }
        "the index says it is contiguous" => (changed(26, 0), Expect::Reject),
        "the index says type 2" => (changed(26, 2), Expect::Reject),
        "chunk files nobody names" => (beside("FFFFFFFF.chunk", Node::File(own)), Expect::Same),
        "a lock that is a link" => (beside(".b2lock", Node::Link(INDEX.into())), Expect::Same),
        "a lock that is a FIFO" => (beside(".b2lock", Node::Fifo), Expect::Same),
        "a lock that is a directory" => (beside(".b2lock", Node::Folder), Expect::Same),
        "a lock with garbage" => (beside(".b2lock", Node::File(rng.bytes(33))), Expect::Same),
        "many files beside" => {
            let mut content = base.content.clone();
            for n in 0..300 {
                content.set(&format!("{:08X}.chunk", 1000 + n), Node::File(vec![n as u8; 40]));
            }
            (content, Expect::Same)
        }
        "a folder with a strange name" => (beside("\u{1b}[31m\n", Node::Folder), Expect::Same),
        "the index is a link out of the directory" => {
            (put(Node::Link("../../../../../../../../etc/passwd".into())), Expect::Reject)
        }
        _ => {
            let mut bytes = own.clone();
            bytes.extend_from_slice(&own);
            (put(Node::File(bytes)), Expect::Any)
        }
    })
}

/// Returns the base with another entry under this name.
fn node(base: &Base, name: &str, node: Node) -> Content {
    let mut content = base.content.clone();
    content.set(name, node);
    content
}

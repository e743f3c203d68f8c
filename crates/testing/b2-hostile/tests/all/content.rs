//! The content that a case creates on disk: a file, a folder, or something else such as a socket.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// One entry in the file system.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Vec<u8>),
    Folder,
    /// A symbolic link to this target.
    Link(String),
    Fifo,
    Socket,
    /// A file without read permission (the superuser can read it).
    Locked(Vec<u8>),
    /// A file with these bytes, then a hole up to this length.
    Hole(Vec<u8>, u64),
}

/// Entries by name, folders before their contents. The empty name is the case itself.
#[derive(Clone, Debug)]
pub(crate) struct Content(pub(crate) Vec<(String, Node)>);

impl Content {
    pub(crate) fn file(bytes: Vec<u8>) -> Self {
        Self(vec![(String::new(), Node::File(bytes))])
    }

    pub(crate) fn node(node: Node) -> Self {
        Self(vec![(String::new(), node)])
    }

    /// Creates a folder with these files and all folders between.
    pub(crate) fn folder(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut out = Self::node(Node::Folder);
        for (name, bytes) in files {
            let mut at = 0;
            while let Some(slash) = name.get(at..).and_then(|rest| rest.find('/')) {
                let folder = &name[..at + slash];
                if !out.0.iter().any(|(name, _)| name == folder) {
                    out.0.push((folder.to_owned(), Node::Folder));
                }
                at += slash + 1;
            }
            out.0.push((name, Node::File(bytes)));
        }
        out
    }

    /// Returns the bytes of a file.
    pub(crate) fn bytes(&self, name: &str) -> Option<&Vec<u8>> {
        self.0.iter().find_map(|(n, node)| match node {
            Node::File(bytes) if n == name => Some(bytes),
            _ => None,
        })
    }

    /// Returns the bytes of a file for changing.
    pub(crate) fn bytes_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.0.iter_mut().find_map(|(n, node)| match node {
            Node::File(bytes) if n == name => Some(bytes),
            _ => None,
        })
    }

    /// Replaces the entry with this name.
    pub(crate) fn set(&mut self, name: &str, node: Node) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = node,
            None => self.0.push((name.to_owned(), node)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }

    pub(crate) fn is_folder(&self) -> bool {
        matches!(self.0.first(), Some((_, Node::Folder)))
    }

    /// Returns the number of bytes in all files. If the case itself is a file with a hole, the hole counts as far as a
    /// chunk can reach into it; in other files holes do not count.
    pub(crate) fn len(&self) -> usize {
        if let [(name, Node::Hole(bytes, len))] = &self.0[..]
            && name.is_empty()
            && !bytes.is_empty()
        {
            return (*len).min(1 << 31) as usize;
        }
        let len = |node: &Node| match node {
            Node::File(bytes) | Node::Locked(bytes) | Node::Hole(bytes, _) => bytes.len(),
            _ => 0,
        };
        self.0.iter().map(|(_, node)| len(node)).sum()
    }

    /// Writes the content to a path that must not exist.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        for (name, node) in &self.0 {
            let at = if name.is_empty() { path.to_owned() } else { path.join(name) };
            write(&at, node).with_context(|| format!("writing {}", at.display()))?;
        }
        Ok(())
    }
}

fn write(path: &Path, node: &Node) -> io::Result<()> {
    match node {
        Node::File(bytes) => fs::write(path, bytes),
        Node::Folder => fs::create_dir(path),
        Node::Link(target) => symlink(target, path),
        Node::Fifo => Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?),
        // Nobody listens on the socket, but its name remains.
        Node::Socket => UnixListener::bind(path).map(drop),
        Node::Locked(bytes) => {
            fs::write(path, bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o0))
        }
        Node::Hole(bytes, len) => {
            fs::write(path, bytes)?;
            fs::File::options().write(true).open(path)?.set_len(*len)
        }
    }
}

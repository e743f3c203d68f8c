use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

use crate::op::{Names, NodeId, Op, apply};

pub(crate) const ROOT: NodeId = 1;

/// The contents of a disk: files and directories. Clones share equal parts.
#[derive(Clone, Debug)]
pub struct Image {
    /// All files and directories, including those without a name, which a process may still have
    /// open.
    nodes: BTreeMap<NodeId, Node>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Arc<Vec<u8>>),
    Directory(Arc<Names>),
}

impl Default for Image {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::Directory(Arc::default()))]) }
    }
}

impl Image {
    /// Returns the contents of the file at `path`.
    ///
    /// # Errors
    /// When the file does not exist.
    pub fn read(&self, path: &Path) -> io::Result<&[u8]> {
        self.file(self.lookup(path)?)
    }

    /// Returns the names in the directory at `path`, sorted.
    ///
    /// # Errors
    /// When the directory does not exist.
    pub fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        Ok(self.names(self.lookup(path)?)?.keys().cloned().collect())
    }

    /// Writes all files and directories to a directory of the real file system.
    ///
    /// # Errors
    /// When a file or directory cannot be written.
    pub fn dump(&self, target: &Path) -> io::Result<()> {
        self.dump_node(ROOT, target)
    }

    fn dump_node(&self, id: NodeId, target: &Path) -> io::Result<()> {
        match self.nodes.get(&id) {
            Some(Node::File(bytes)) => std::fs::write(target, &bytes[..]),
            Some(Node::Directory(names)) => {
                std::fs::create_dir_all(target)?;
                names.iter().try_for_each(|(name, id)| self.dump_node(*id, &target.join(name)))
            }
            None => Ok(()),
        }
    }

    /// Returns a hash of all names and contents.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_node(ROOT, &mut hasher);
        hasher.finish()
    }

    fn hash_node(&self, id: NodeId, hasher: &mut DefaultHasher) {
        match self.nodes.get(&id) {
            Some(Node::File(bytes)) => (0u8, bytes).hash(hasher),
            Some(Node::Directory(names)) => {
                (1u8, names.len()).hash(hasher);
                for (name, id) in names.iter() {
                    name.hash(hasher);
                    self.hash_node(*id, hasher);
                }
            }
            None => 2u8.hash(hasher),
        }
    }

    pub(crate) fn lookup(&self, path: &Path) -> io::Result<NodeId> {
        let mut id = ROOT;
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => {
                    id = *self.names(id)?.get(name).ok_or(io::ErrorKind::NotFound)?;
                }
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, "`..` in a simulated path"));
                }
            }
        }
        Ok(id)
    }

    /// Returns the directory that contains a path, and the name in it.
    pub(crate) fn place<'a>(&self, path: &'a Path) -> io::Result<(NodeId, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.lookup(path.parent().unwrap_or(Path::new("")))?;
        self.names(dir)?;
        Ok((dir, name))
    }

    pub(crate) fn is_directory(&self, id: NodeId) -> bool {
        matches!(self.nodes.get(&id), Some(Node::Directory(_)))
    }

    pub(crate) fn names(&self, id: NodeId) -> io::Result<&Names> {
        match self.nodes.get(&id) {
            Some(Node::Directory(names)) => Ok(names),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(crate) fn file(&self, id: NodeId) -> io::Result<&[u8]> {
        match self.nodes.get(&id) {
            Some(Node::File(bytes)) => Ok(bytes),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the number of names that a file has.
    pub(crate) fn links(&self, id: NodeId) -> u64 {
        let all = self.nodes.values().filter_map(|node| match node {
            Node::Directory(names) => Some(names.values().filter(|of| **of == id).count() as u64),
            Node::File(_) => None,
        });
        all.sum()
    }

    pub(crate) fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    pub(crate) fn set(&mut self, id: NodeId, node: Node) {
        self.nodes.insert(id, node);
    }

    pub(crate) fn free_id(&self) -> NodeId {
        self.nodes.keys().next_back().map_or(ROOT, |last| last + 1)
    }

    /// Applies a recorded call, which was checked when it was made.
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { node, directory: false, .. } => self.set(*node, Node::File(Arc::default())),
            Op::Create { node, directory: true, .. } => self.set(*node, Node::Directory(Arc::default())),
            Op::Write { node, offset, data } => self.edit(*node, |bytes| {
                let start = *offset as usize;
                let end = start + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
            }),
            Op::SetLen { node, len } => self.edit(*node, |bytes| bytes.resize(*len as usize, 0)),
            _ => {}
        }
        for change in op.names() {
            if let Some(Node::Directory(names)) = self.nodes.get_mut(&change.0) {
                apply(Arc::make_mut(names), change);
            }
        }
    }

    fn edit(&mut self, id: NodeId, edit: impl FnOnce(&mut Vec<u8>)) {
        if let Some(Node::File(bytes)) = self.nodes.get_mut(&id) {
            edit(Arc::make_mut(bytes));
        }
    }
}

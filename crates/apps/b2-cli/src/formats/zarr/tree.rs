//! Groups: the contents of a directory or URL.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2kit::Limits;
use b2kit::frame::{FileKind, Links, ReadFiles, RootedDir};
use b2kit::nd::Value;
use serde_json::Value as Json;

use super::array::ZarrArray;
use super::attributes;
use super::metadata::Metadata;

/// Maximum nesting of groups, more than any real store has.
const MAX_DEPTH: usize = 64;
/// Maximum number of groups and arrays, more than any real store has.
const MAX_NODES: usize = 1 << 20;

/// A group or an array, in a directory or at a URL.
pub(crate) struct Zarr {
    files: Arc<dyn ReadFiles>,
    /// `None` at a URL, where nothing can be listed.
    inside: Option<Arc<RootedDir>>,
    root: PathBuf,
    limits: Limits,
}

/// A group or an array.
pub(crate) struct Node {
    /// Its path from the root, with a slash at the start.
    pub(crate) path: String,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// A group with these attributes.
    Group(Vec<(String, Value)>),
    Array(Box<ZarrArray>),
    /// Something that cannot be read.
    Failed(anyhow::Error),
}

/// The metadata of a group or an array.
enum NodeMetadata {
    Version2 { array: Option<Json>, attributes: Option<Json> },
    Version3(Json),
}

impl Zarr {
    /// Opens a directory.
    pub(crate) fn in_directory(path: &Path, limits: &Limits) -> Result<Self> {
        let inside = Arc::new(RootedDir::new(path)?);
        let root = inside.path().to_owned();
        Ok(Self { files: inside.clone(), inside: Some(inside), root, limits: limits.clone() })
    }

    /// Opens a group or array at a URL.
    pub(crate) fn at_url(url: &Path, files: Arc<dyn ReadFiles>, limits: &Limits) -> Self {
        Self { files, inside: None, root: url.to_owned(), limits: limits.clone() }
    }

    /// Whether this is a group or an array.
    pub(crate) fn exists(&self) -> Result<bool> {
        Ok(self.stored(&self.root)?.is_some() || self.read(&self.root.join(".zmetadata"))?.is_some())
    }

    /// The group or array at a path, and everything below it, in order.
    ///
    /// # Errors
    /// Fails if there is no such node, or if a directory cannot be listed. Unreadable nodes are in the list.
    pub(crate) fn nodes(&self, path: &str) -> Result<Vec<Node>> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        ensure!(
            parts.iter().all(|part| !part.starts_with('.')),
            "{path}: not the path of a group or an array"
        );
        let dir = parts.iter().fold(self.root.clone(), |dir, part| dir.join(part));
        let path = format!("/{}", parts.join("/"));
        let mut nodes = Vec::new();
        if self.inside.is_some() {
            self.walk(&dir, &path, MAX_DEPTH, &mut nodes)?;
        } else {
            self.of_url(&dir, &path, &mut nodes)?;
        }
        ensure!(!nodes.is_empty(), "{path}: no such group or array");
        Ok(nodes)
    }

    /// Adds the contents of a directory.
    fn walk(&self, dir: &Path, path: &str, depth: usize, nodes: &mut Vec<Node>) -> Result<()> {
        let Some(stored) = self.stored(dir).transpose() else { return Ok(()) };
        let node = self.node(dir, path.to_owned(), stored);
        let is_group = matches!(node.content, Content::Group(_));
        nodes.push(node);
        let Some(inside) = self.inside.as_ref().filter(|_| is_group) else { return Ok(()) };
        ensure!(depth > 0 && nodes.len() < MAX_NODES, "{path}: too many groups in groups");
        let entries = inside.entries(dir).with_context(|| path.to_owned())?;
        let named = entries.into_iter().filter(|(_, kind)| *kind == FileKind::Directory);
        let mut names: Vec<String> = named.filter_map(|(name, _)| name.into_string().ok()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        for name in names {
            self.walk(&dir.join(&name), &format!("{}/{name}", path.trim_end_matches('/')), depth - 1, nodes)?;
        }
        Ok(())
    }

    /// Adds the nodes listed in consolidated metadata.
    fn of_url(&self, dir: &Path, path: &str, nodes: &mut Vec<Node>) -> Result<()> {
        let stored = match self.stored(dir)? {
            Some(stored) => stored,
            None => NodeMetadata::Version2 { array: None, attributes: None },
        };
        let listed = match &stored {
            NodeMetadata::Version2 { array: Some(_), .. } => None,
            NodeMetadata::Version2 { array: None, .. } => match self.read(&dir.join(".zmetadata"))? {
                Some(json) => Some(of_version_2(&json)),
                None if nodes.is_empty() && self.read(&dir.join(".zgroup"))?.is_none() => return Ok(()),
                None => Some(None),
            },
            NodeMetadata::Version3(json) => match json.get("node_type").and_then(Json::as_str) {
                Some("group") => Some(json.get("consolidated_metadata").and_then(of_version_3)),
                _ => None,
            },
        };
        nodes.push(self.node(dir, path.to_owned(), Ok(stored)));
        let Some(listed) = listed else { return Ok(()) };
        let mut listed = listed.with_context(|| {
            format!("{path}: a group without consolidated metadata, so its arrays are not known: name one")
        })?;
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, stored) in listed {
            if name.is_empty() {
                // The entry of the group itself.
                if let Some(node) = nodes.last_mut() {
                    *node = self.node(dir, path.to_owned(), Ok(stored));
                }
                continue;
            }
            ensure!(nodes.len() < MAX_NODES, "{path}: too many arrays");
            let is_path = name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
            ensure!(is_path, "consolidated metadata: {name} is not a path");
            let inner = name.split('/').fold(dir.to_owned(), |dir, part| dir.join(part));
            nodes.push(self.node(&inner, format!("{}/{name}", path.trim_end_matches('/')), Ok(stored)));
        }
        Ok(())
    }

    fn node(&self, dir: &Path, path: String, stored: Result<NodeMetadata>) -> Node {
        let array = |metadata: Metadata| {
            let array = ZarrArray::new(self.files.clone(), dir.to_owned(), metadata, self.limits.clone());
            Content::Array(Box::new(array))
        };
        let content = stored.and_then(|stored| match stored {
            NodeMetadata::Version2 { array: None, attributes } => {
                Ok(Content::Group(attributes::values(attributes.as_ref())))
            }
            NodeMetadata::Version2 { array: Some(json), attributes } => {
                Metadata::version_2(&json, attributes.as_ref(), &self.limits).map(array)
            }
            NodeMetadata::Version3(json) => match json.get("node_type").and_then(Json::as_str) {
                Some("group") => Ok(Content::Group(attributes::values(json.get("attributes")))),
                Some("array") => Metadata::version_3(&json, &self.limits).map(array),
                _ => Err(anyhow!("zarr.json: neither a group nor an array")),
            },
        });
        Node { path, content: content.unwrap_or_else(Content::Failed) }
    }

    /// The metadata in a directory; `None` if there are none.
    fn stored(&self, dir: &Path) -> Result<Option<NodeMetadata>> {
        if let Some(json) = self.read(&dir.join("zarr.json"))? {
            return Ok(Some(NodeMetadata::Version3(json)));
        }
        let array = self.read(&dir.join(".zarray"))?;
        if array.is_none() && self.read(&dir.join(".zgroup"))?.is_none() {
            return Ok(None);
        }
        let attributes = self.read(&dir.join(".zattrs"))?;
        Ok(Some(NodeMetadata::Version2 { array, attributes }))
    }

    /// Reads a file with JSON; `None` if there is none.
    fn read(&self, path: &Path) -> Result<Option<Json>> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = match self.files.open(path, Links::Refuse) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
            file => file.with_context(name)?,
        };
        let len = file.len()?;
        if len > self.limits.max_metadata {
            bail!("{}: {len} bytes are above the limit {} for metadata", name(), self.limits.max_metadata);
        }
        let bytes = file.read_at(0..len).with_context(name)?;
        let text = std::str::from_utf8(&bytes).with_context(name)?;
        attributes::parse(text).with_context(name).map(Some)
    }
}

/// The entries of `.zmetadata`, by path.
fn of_version_2(json: &Json) -> Option<Vec<(String, NodeMetadata)>> {
    let files = json.get("metadata")?.as_object()?;
    let path = |file: &str, name: &str| match file.strip_suffix(name)? {
        "" => Some(String::new()),
        path => path.strip_suffix('/').map(str::to_owned),
    };
    let mut listed = Vec::new();
    for (file, json) in files {
        let (array, path) = match (path(file, ".zarray"), path(file, ".zgroup")) {
            (Some(path), _) => (Some(json.clone()), path),
            (_, Some(path)) => (None, path),
            _ => continue,
        };
        let own = if path.is_empty() { ".zattrs".to_owned() } else { format!("{path}/.zattrs") };
        listed.push((path, NodeMetadata::Version2 { array, attributes: files.get(&own).cloned() }));
    }
    Some(listed)
}

/// The nodes of the consolidated metadata of version 3, by path.
fn of_version_3(json: &Json) -> Option<Vec<(String, NodeMetadata)>> {
    let nodes = json.get("metadata")?.as_object()?;
    Some(nodes.iter().map(|(path, json)| (path.clone(), NodeMetadata::Version3(json.clone()))).collect())
}

//! Lists the contents of files that only `convert` reads, for `info` and `ls`.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::is_nifti;
use super::nodes::{Content, Item, Node, SourceFile};
use crate::args::Global;
use crate::files::recognition;

/// The groups and arrays of a Zarr, `.npz` or NIfTI file.
pub(crate) struct Listing {
    /// The name of the format.
    pub(crate) format: &'static str,
    file: SourceFile,
    nodes: Vec<Node>,
    path: String,
}

impl Listing {
    /// Lists what is at and below `key` in a local file; `None` for other formats.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if there is nothing of this name.
    pub(crate) fn open(path: &Path, key: Option<&str>, global: Global) -> Result<Option<Self>> {
        let is_zarr = path.is_dir() && recognition::is_zarr(path);
        if !is_zarr && !recognition::is_npz(path) && !is_nifti(path) {
            return Ok(None);
        }
        let file = SourceFile::open(path, global)?;
        let format = match &file {
            SourceFile::Zarr(_) => "Zarr",
            SourceFile::Npz(_) => ".npz",
            SourceFile::Nifti(_) => "NIfTI",
            SourceFile::Hdf5(_) => "HDF5",
        };
        let path = key.unwrap_or("/").to_owned();
        Ok(Some(Self { format, nodes: file.nodes(&path)?, file, path }))
    }

    /// The arrays with their paths, or why they cannot be read.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (&str, Result<&Item, &str>)> {
        self.nodes.iter().filter_map(|Node { path, content }| match content {
            Content::Array(item) => Some((&**path, Ok(item))),
            Content::Failed(why) => Some((&**path, Err(&**why))),
            _ => None,
        })
    }

    /// The lines of `convert --list`.
    pub(crate) fn text(&self) -> Result<String> {
        self.file.list(&self.path, false)
    }

    /// The same as a JSON object.
    pub(crate) fn to_json(&self) -> Result<Value> {
        let lines = self.file.list(&self.path, true)?;
        let entries = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        Ok(json!({"path": self.path, "kind": "group", "format": self.format, "entries": entries}))
    }
}

//! The groups and arrays of a file that is converted, for all formats.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use b2_hdf5::{Content as Hdf5Content, DataSet, Entry, File, Hdf5Error};
use b2kit::Dtype;
use b2kit::base::Control;
use b2kit::frame::FileKind;
use b2kit::nd::Value;
use serde_json::json;

use super::glob::{group, is_glob, matches};
use crate::args::Global;
use crate::files::{recognition, urls};
use crate::formats::nifti::{NiftiImage, is_nifti};
use crate::formats::npz::{Npz, NpzArray};
use crate::formats::zarr::{self, Zarr, ZarrArray};
use crate::print::{joined, printable};
use crate::read::Hdf5;
use crate::read::hdf5::{as_json, described, listed, only};

/// An open file.
pub(super) enum SourceFile {
    Hdf5(Box<Hdf5>),
    Zarr(Zarr),
    Npz(Npz),
    Nifti(Box<NiftiImage>),
}

/// A group, an array, or something that is neither.
pub(super) struct Node {
    pub(super) path: String,
    pub(super) content: Content,
}

pub(super) enum Content {
    Group {
        attrs: Vec<(String, Value)>,
        left_out: Vec<String>,
    },
    Array(Item),
    /// A dimension without items.
    Dimension,
    /// Describes something that a store cannot hold.
    LeftOut(String),
    /// Why it cannot be converted.
    Failed(String),
}

/// An array, of any of the formats.
pub(crate) enum Item {
    Hdf5(Box<DataSet>),
    Zarr(Box<ZarrArray>),
    Npz(Box<NpzArray>),
    Nifti(Box<NiftiImage>),
}

impl Item {
    pub(crate) fn shape(&self) -> &[u64] {
        match self {
            Self::Hdf5(data) => data.shape(),
            Self::Zarr(array) => array.shape(),
            Self::Npz(array) => array.shape(),
            Self::Nifti(image) => image.shape(),
        }
    }

    pub(crate) fn dtype(&self) -> Result<&Dtype> {
        Ok(match self {
            Self::Hdf5(data) => data.dtype()?,
            Self::Zarr(array) => array.dtype(),
            Self::Npz(array) => array.dtype(),
            Self::Nifti(image) => image.dtype(),
        })
    }

    /// The shape of the pieces that are decoded as a whole.
    pub(super) fn chunkshape(&self) -> Option<&[u32]> {
        match self {
            Self::Hdf5(data) => data.chunkshape(),
            Self::Zarr(array) => array.chunkshape(),
            Self::Npz(_) | Self::Nifti(_) => None,
        }
    }

    pub(super) fn attrs(&self) -> &[(String, Value)] {
        match self {
            Self::Hdf5(data) => data.attrs(),
            Self::Zarr(array) => array.attributes(),
            Self::Npz(_) => &[],
            Self::Nifti(image) => image.attributes(),
        }
    }

    pub(super) fn attrs_left_out(&self) -> &[String] {
        match self {
            Self::Hdf5(data) => data.attrs_left_out(),
            Self::Nifti(image) => image.left_out(),
            _ => &[],
        }
    }

    /// Checks the limit for items that are not stored.
    pub(super) fn check_output(&self, nbytes: u64) -> Result<()> {
        match self {
            Self::Hdf5(data) => Ok(data.check_output(nbytes)?),
            // Counted where chunks are missing.
            Self::Zarr(_) | Self::Npz(_) | Self::Nifti(_) => Ok(()),
        }
    }

    pub(super) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        match self {
            Self::Hdf5(data) => Ok(data.read_box_with(&Control::new(), start, shape, dst)?),
            Self::Zarr(array) => array.read_box(start, shape, dst),
            Self::Npz(array) => array.read_box(start, shape, dst),
            Self::Nifti(image) => image.read_box(start, shape, dst),
        }
    }

    /// The array as `--list` shows it.
    fn described(&self) -> Result<String> {
        let shape = if self.shape().is_empty() { "one item".into() } else { joined(self.shape(), " x ") };
        let chunks = self.chunkshape().map(|chunks| format!(", chunks {}", joined(chunks, " x ")));
        Ok(format!("{} {shape}{}", self.dtype()?, chunks.unwrap_or_default()))
    }
}

impl SourceFile {
    /// Opens a file. `wanted` is a member that it is opened for.
    pub(super) fn open(input: &Path, global: Global) -> Result<Self> {
        if let Some(zarr) = open_zarr(input, global)? {
            return Ok(Self::Zarr(zarr));
        }
        if recognition::is_npz(input) {
            return Ok(Self::Npz(Npz::open(input, global)?));
        }
        if is_nifti(input) {
            return Ok(Self::Nifti(Box::new(NiftiImage::open(input, global)?)));
        }
        Hdf5::of(input, global).map(|file| Self::Hdf5(Box::new(file)))
    }

    fn hdf5(&self) -> Option<&File> {
        match self {
            Self::Hdf5(file) => Some(file.file()),
            _ => None,
        }
    }

    /// The word for an array in this format.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Self::Hdf5(file) if file.file().is_netcdf3() => "variable",
            Self::Hdf5(_) => "data set",
            Self::Zarr(_) | Self::Npz(_) => "array",
            Self::Nifti(_) => "image",
        }
    }

    /// Everything at and below a path, or what fits a pattern, in order.
    pub(super) fn nodes(&self, path: &str) -> Result<Vec<Node>> {
        match self.below(path) {
            Err(error) if is_glob(path) && is_missing(&error) => {
                let all = self.below(group(path))?;
                self.matching(path, all)
            }
            nodes => nodes,
        }
    }

    fn below(&self, path: &str) -> Result<Vec<Node>> {
        match self {
            Self::Hdf5(file) => {
                let file = file.file();
                file.tree_below(path)?.into_iter().map(|entry| of_hdf5(file, entry)).collect()
            }
            Self::Zarr(zarr) => Ok(zarr.nodes(path)?.into_iter().map(of_zarr).collect()),
            Self::Npz(npz) => of_npz(npz, path),
            Self::Nifti(image) => of_nifti(image, path),
        }
    }

    /// The array at a path, or the only one below it, or that fits a pattern.
    pub(super) fn one(&self, path: &str) -> Result<Node> {
        if let Some(file) = self.hdf5() {
            let data = match file.data_set(path) {
                Err(Hdf5Error::Group { .. }) => only(file.tree_below(path)?, path)?,
                Err(Hdf5Error::NoSuchPath { .. }) if is_glob(path) => {
                    return only_of(self.matching(path, self.below(group(path))?)?, path, self.noun());
                }
                data => data?,
            };
            return Ok(Node {
                path: data.path().to_owned(),
                content: Content::Array(Item::Hdf5(Box::new(data))),
            });
        }
        only_of(self.nodes(path)?, path, self.noun())
    }

    /// The arrays whose paths fit a pattern, and the groups that they are in.
    fn matching(&self, pattern: &str, nodes: Vec<Node>) -> Result<Vec<Node>> {
        let is_wanted = |node: &Node| {
            let is_array =
                matches!(node.content, Content::Array(_) | Content::Dimension | Content::Failed(_));
            is_array && matches(pattern, &node.path)
        };
        let found: Vec<String> =
            nodes.iter().filter(|node| is_wanted(node)).map(|n| n.path.clone()).collect();
        if found.is_empty() {
            bail!("{pattern}: matches no {} (--list shows all)", self.noun());
        }
        let holds = |group: &str| {
            let start = format!("{}/", group.trim_end_matches('/'));
            found.iter().any(|path| path.starts_with(&start))
        };
        let mut kept = nodes;
        kept.retain(|node| match node.content {
            Content::Group { .. } => holds(&node.path),
            _ => is_wanted(node),
        });
        Ok(kept)
    }

    /// What `--list` prints.
    pub(super) fn list(&self, path: &str, as_lines: bool) -> Result<String> {
        if let Some(file) = self.hdf5() {
            let entries = file.tree_below(path)?;
            return Ok(match as_lines {
                true => entries.iter().map(|entry| format!("{}\n", as_json(entry))).collect(),
                false => listed(&entries, 0),
            });
        }
        let nodes = self.nodes(path)?;
        let width = nodes.iter().map(|node| node.path.chars().count()).max().unwrap_or(0).min(40);
        let lines = nodes.iter().map(|Node { path, content }| {
            if as_lines {
                let object = match content {
                    Content::Array(item) => json!({
                        "path": path, "kind": "dataset", "shape": item.shape(), "dtype": item.dtype()?.as_str(),
                        "chunks": item.chunkshape(),
                    }),
                    Content::Failed(why) => json!({"path": path, "kind": "unsupported", "error": why}),
                    _ => json!({"path": path, "kind": "group"}),
                };
                return Ok(format!("{object}\n"));
            }
            let what = match content {
                Content::Array(item) => item.described()?,
                Content::Failed(why) => why.clone(),
                _ => "group".into(),
            };
            Ok(format!("{}\n", printable(&format!("{path:<width$}  {what}"))))
        });
        lines.collect()
    }
}

/// Whether there is nothing of a name.
fn is_missing(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Hdf5Error>() {
        Some(error) => matches!(error, Hdf5Error::NoSuchPath { .. }),
        None => error.to_string().contains(": no such "),
    }
}

/// The only array among nodes.
fn only_of(nodes: Vec<Node>, path: &str, noun: &str) -> Result<Node> {
    let mut failed = None;
    let mut found = Vec::new();
    for node in nodes {
        match &node.content {
            Content::Array(_) => found.push(node),
            Content::Failed(why) => failed = Some(format!("{}: {why}", node.path)),
            _ => {}
        }
    }
    match (found.len(), failed) {
        (1, None) => found.pop().context("no array"),
        (0, Some(why)) => bail!(why),
        (0, None) => bail!("there is no {noun} in {path}"),
        (n, _) => {
            let more = if n == 1 { "one, and others that cannot be read".into() } else { n.to_string() };
            bail!("{path} has several {noun}s ({more}): name one; --list shows them")
        }
    }
}

fn of_hdf5(file: &File, entry: Entry) -> Result<Node> {
    let why = described(&entry);
    let Entry { path, content, .. } = entry;
    let content = match content {
        Hdf5Content::Group => {
            let attrs = file.group_attrs(&path)?;
            Content::Group { attrs: attrs.values, left_out: attrs.left_out }
        }
        Hdf5Content::DataSet(data) if data.is_dimension_only() => Content::Dimension,
        Hdf5Content::DataSet(data) => Content::Array(Item::Hdf5(data)),
        Hdf5Content::Link(to) => Content::LeftOut(to),
        Hdf5Content::Type => Content::LeftOut("a named type".into()),
        Hdf5Content::Failed(_) => Content::Failed(why),
        _ => Content::LeftOut("something unknown".into()),
    };
    Ok(Node { path, content })
}

fn of_zarr(node: zarr::Node) -> Node {
    let content = match node.content {
        zarr::Content::Group(attrs) => Content::Group { attrs, left_out: Vec::new() },
        zarr::Content::Array(array) => Content::Array(Item::Zarr(array)),
        zarr::Content::Failed(error) => {
            Content::Failed(format!("cannot be converted: {}", crate::process::one_line(&error)))
        }
    };
    Node { path: node.path, content }
}

/// The arrays of an archive at and below a path.
fn of_npz(npz: &Npz, path: &str) -> Result<Vec<Node>> {
    let wanted = path.trim_matches('/');
    let below = format!("{wanted}/");
    let root = Node { path: "/".into(), content: Content::Group { attrs: Vec::new(), left_out: Vec::new() } };
    let mut nodes: Vec<Node> = Some(root).filter(|_| wanted.is_empty()).into_iter().collect();
    for member in npz.members() {
        let name = &member.name;
        if !wanted.is_empty() && name != wanted && !name.starts_with(&below) {
            continue;
        }
        let content = match npz.array(member) {
            Ok(array) => Content::Array(Item::Npz(Box::new(array))),
            Err(error) => {
                Content::Failed(format!("cannot be converted: {}", crate::process::one_line(&error)))
            }
        };
        nodes.push(Node { path: format!("/{name}"), content });
    }
    ensure!(!nodes.is_empty(), "{path}: no such array");
    Ok(nodes)
}

/// The image of a file, below the root.
fn of_nifti(image: &NiftiImage, path: &str) -> Result<Vec<Node>> {
    let wanted = path.trim_matches('/');
    ensure!(wanted.is_empty() || wanted == image.name, "{path}: no such image");
    let root = Node { path: "/".into(), content: Content::Group { attrs: Vec::new(), left_out: Vec::new() } };
    let mut nodes: Vec<Node> = Some(root).filter(|_| wanted.is_empty()).into_iter().collect();
    let content = Content::Array(Item::Nifti(Box::new(image.clone())));
    nodes.push(Node { path: format!("/{}", image.name), content });
    Ok(nodes)
}

/// Opens a store of Zarr; `None` if this is something else.
fn open_zarr(input: &Path, global: Global) -> Result<Option<Zarr>> {
    // The size of what is stored is not known: the limits are those of a large file.
    let limits = global.with_output_limit().limits(u64::MAX);
    if urls::is_url(input) {
        return match urls::kind(input) {
            Ok(FileKind::File) => Ok(None),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let zarr = Zarr::at_url(input, urls::file_system(input)?, &limits);
                if zarr.exists()? { Ok(Some(zarr)) } else { Err(error.into()) }
            }
            Err(error) => Err(error.into()),
        };
    }
    match input.is_dir() && recognition::is_zarr(input) {
        true => Zarr::in_directory(input, &limits).map(Some),
        false => Ok(None),
    }
}

//! Data sets of HDF5 and NetCDF files, for all commands that read.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Error, Result, bail};
use b2_hdf5::{Content, DataSet, Entry, File, Hdf5Error};
use b2kit::Dtype;
use b2kit::base::{Control, ErrorKind};
use b2kit::nd::Value;
use serde_json::{Map, Value as Json, json as object};

use super::external::{ExternalArray, NamedExternalArray};
use super::store;
use crate::args::Global;
use crate::files::recognition;
use crate::print::{Table, count, dims, from_to, joined, json, printable, ratio, short_size, size};

/// An open HDF5 or NetCDF file.
pub(crate) struct Hdf5 {
    file: File,
}

impl Hdf5 {
    /// Opens a file that failed with `error` to open as Blosc2.
    ///
    /// # Errors
    /// Returns `error` if the file is not HDF5 or NetCDF. Also fails if it cannot be read or is damaged.
    pub(crate) fn open_or(path: &Path, global: Global, error: Error) -> Result<Self> {
        if recognition::hdf5(path).is_some() { Self::of(path, global) } else { Err(error) }
    }

    /// Opens a file that must be HDF5 or NetCDF.
    pub(crate) fn of(path: &Path, global: Global) -> Result<Self> {
        let reader = recognition::open_regular(path)?;
        // A few bytes of a damaged file may request any number of fill values.
        let limits = global.with_output_limit().limits(reader.len()?);
        let file = File::from_reader(reader, path.display().to_string(), &limits)?;
        Ok(Self { file })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The name of the format.
    pub(crate) fn format(&self) -> &'static str {
        if self.file.is_netcdf3() { "NetCDF 3" } else { "HDF5" }
    }

    /// Opens a data set.
    ///
    /// # Errors
    /// Fails if there is no such data set, or if an array cannot hold it.
    pub(crate) fn member(&self, name: &str) -> Result<Hdf5Array> {
        let data = match self.file.data_set(name) {
            Err(error @ Hdf5Error::NoSuchPath { .. }) => {
                return Err(error).context("b2kit ls lists its data sets");
            }
            data => data?,
        };
        Hdf5Array::new(data, self)
    }

    /// Opens the data set with this name; without a name, the only one.
    pub(crate) fn pick(&self, name: Option<&str>) -> Result<Box<dyn ExternalArray>> {
        let array = match name {
            Some(name) => self.member(name)?,
            None => Hdf5Array::new(only(self.file.tree()?, "/")?, self)?,
        };
        Ok(Box::new(array))
    }

    /// The paths of the data sets in a group, in order.
    pub(crate) fn keys(&self, group: &str) -> Result<Vec<String>> {
        let is_array =
            |entry: &Entry| matches!(&entry.content, Content::DataSet(data) if !data.is_dimension_only());
        let entries = self.file.tree_below(group)?;
        Ok(entries.into_iter().filter(is_array).map(|entry| entry.path).collect())
    }

    /// Opens all data sets, or the one with this name, or those in the group with this name, with their paths. Those that cannot
    /// be opened have an error in their place.
    pub(crate) fn arrays(&self, name: Option<&str>) -> Result<Vec<NamedExternalArray>> {
        let mut arrays = Vec::new();
        let entries = match (self.file.tree_below(name.unwrap_or("/")), name) {
            (Err(error), Some(name)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(vec![(format!("/{}", name.trim_start_matches('/')), Err(error.into()))]);
            }
            (entries, _) => entries?,
        };
        for entry in entries {
            let array: Result<Box<dyn ExternalArray>> = match entry.content {
                Content::DataSet(data) if !data.is_dimension_only() => match Hdf5Array::new(*data, self) {
                    Ok(array) => Ok(Box::new(array)),
                    Err(error) => Err(error),
                },
                Content::Failed(error) => Err(error.into()),
                _ => continue,
            };
            arrays.push((entry.path, array));
        }
        Ok(arrays)
    }

    /// Whether a data set is unsupported rather than damaged.
    pub(crate) fn is_unsupported(error: &Error) -> bool {
        let kinds = error.chain().filter_map(|cause| Some(cause.downcast_ref::<Hdf5Error>()?.kind()));
        kinds.last() == Some(ErrorKind::Unsupported)
    }

    /// The text of `info`: the properties of a data set, or the contents of a file or group. `meta` adds the attributes.
    pub(crate) fn facts(&self, name: Option<&str>, meta: bool, as_tree: bool) -> Result<String> {
        let entries = self.file.tree_below(name.unwrap_or("/"))?;
        let mut text = match &entries[..] {
            [entry] if matches!(entry.content, Content::DataSet(_) | Content::Failed(_)) => {
                self.table(entry)?.render(2)
            }
            _ if as_tree => {
                let of = |key: &str| entries.iter().find(|entry| entry.path == key);
                let details =
                    |key: &str| of(key).map(described).filter(|text| text != "group").unwrap_or_default();
                store::tree(entries.iter().map(|entry| &*entry.path), |key| printable(&details(key)))
            }
            _ => {
                let mut table = Table::default();
                table.row(
                    "kind",
                    format!("{} {}", self.format(), if name.is_some() { "group" } else { "file" }),
                );
                let is_array = |entry: &&Entry| matches!(entry.content, Content::DataSet(_));
                table.row("data sets", entries.iter().filter(is_array).count().to_string());
                format!("{}{}", table.render(2), listed(&entries, 4))
            }
        };
        if !as_tree && let Some(entry) = entries.first() {
            let mut table = Table::default();
            let most = if meta { LONG } else { SHORT };
            for (name, value) in self.attributes(entry)? {
                table.row(&printable(&name), printable(&json::show_for_people(&value, most)));
            }
            let rows = table.render(4);
            if meta || !rows.is_empty() {
                text.push_str(&format!(
                    "  attributes{}\n{rows}",
                    if rows.is_empty() { "  none" } else { "" }
                ));
            }
        }
        Ok(text)
    }

    /// Like [`facts`](Self::facts), as a JSON object.
    pub(crate) fn facts_json(&self, name: Option<&str>) -> Result<Map<String, Json>> {
        let entries = self.file.tree_below(name.unwrap_or("/"))?;
        let Some(entry) = entries.first() else { return Ok(Map::new()) };
        let mut object = match as_json(entry) {
            Json::Object(object) => object,
            _ => Map::new(),
        };
        object.insert("format".into(), self.format().into());
        let mut attributes = Map::new();
        for (name, value) in self.attributes(entry)? {
            let shown = json::read_value(&value).map_or(Json::Null, |value| json::attribute(&value));
            attributes.insert(name, shown);
        }
        object.insert("attributes".into(), attributes.into());
        if matches!(entry.content, Content::Group) {
            let inner: Vec<Json> = entries.iter().skip(1).map(as_json).collect();
            object.insert("entries".into(), inner.into());
        }
        Ok(object)
    }

    /// The line of `info` for one of several files.
    pub(crate) fn one_line(&self, name: Option<&str>) -> Result<String> {
        let entries = self.file.tree_below(name.unwrap_or("/"))?;
        Ok(match &entries[..] {
            [entry] if !matches!(entry.content, Content::Group) => {
                format!("{} data set, {}", self.format(), described(entry))
            }
            _ => format!(
                "{}, {}",
                self.format(),
                count(self.keys(name.unwrap_or("/"))?.len() as u64, "data set")
            ),
        })
    }

    /// The attributes encoded as in vlmetalayers, each separately: names and values.
    fn attributes(&self, entry: &Entry) -> Result<Vec<(String, Vec<u8>)>> {
        let values = match &entry.content {
            Content::DataSet(data) => data.attrs().to_vec(),
            Content::Group => self.file.group_attrs(&entry.path)?.values,
            _ => Vec::new(),
        };
        let encoded = values.into_iter().map(|(name, value)| {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &value)?;
            Ok((name, bytes))
        });
        encoded.collect()
    }

    /// The facts about a data set.
    fn table(&self, entry: &Entry) -> Result<Table> {
        let mut table = Table::default();
        let data = match &entry.content {
            Content::DataSet(data) => data,
            Content::Failed(error) => return Err(error.clone().into()),
            _ => return Ok(table),
        };
        table.row("kind", format!("data set of {}", self.format()));
        table.row("shape", dims(data.shape()));
        if let Some(names) = dimensions(data) {
            table.row("dimensions", printable(&names.join(", ")));
        }
        table.row("dtype", printable(&data.kind()));
        match data.chunkshape() {
            Some(chunks) => table.row("chunks", dims(chunks)),
            None => table.row("chunks", "none"),
        }
        table.row("layout", data.layout());
        let stored = data.stored_nbytes();
        if let Some(nbytes) = data.nbytes() {
            table.row("uncompressed", size(nbytes));
            table.row("stored", size(stored));
            table.row("ratio", ratio(nbytes, stored));
        } else {
            table.row("stored", size(stored));
        }
        let names = filters(data);
        table.row("filters", if names.is_empty() { "none".into() } else { names.join(", ") });
        Ok(table)
    }
}

/// Maximum number of characters of an attribute to print, with `--meta` and without.
const LONG: usize = 1024;
const SHORT: usize = 100;

/// The only data set of a group.
pub(crate) fn only(entries: Vec<Entry>, path: &str) -> Result<DataSet> {
    let mut failed = None;
    let mut found = Vec::new();
    for entry in entries {
        match entry.content {
            Content::DataSet(data) if !data.is_dimension_only() => found.push(data),
            Content::Failed(error) => failed = Some(error),
            _ => {}
        }
    }
    match (found.len(), failed) {
        (1, None) => found.pop().map(|data| *data).context("no data set"),
        (0, Some(error)) => Err(error.into()),
        (0, None) => bail!("there is no data set in {path}"),
        (n, _) => {
            let more = if n == 1 { "one, and others that cannot be read".into() } else { n.to_string() };
            bail!(
                "{path} has several data sets ({more}): name one, as in FILE::/group/dataset; b2kit ls lists them"
            )
        }
    }
}

/// A data set.
pub(crate) struct Hdf5Array {
    data: DataSet,
    dtype: Dtype,
    format: &'static str,
}

impl Hdf5Array {
    fn new(data: DataSet, file: &Hdf5) -> Result<Self> {
        let dtype = data.dtype()?.clone();
        Ok(Self { data, dtype, format: file.format() })
    }
}

impl ExternalArray for Hdf5Array {
    fn what(&self) -> String {
        format!("a data set of {}", self.format)
    }

    fn shape(&self) -> &[u64] {
        self.data.shape()
    }

    fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    fn chunkshape(&self) -> Option<&[u32]> {
        self.data.chunkshape()
    }

    fn stored(&self) -> u64 {
        self.data.stored_nbytes()
    }

    fn attributes(&self) -> Option<&[(String, Value)]> {
        Some(self.data.attrs())
    }

    fn layers(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let layers = b2_hdf5::attribute_layers(self.data.attrs());
        layers.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect()
    }

    fn check_output(&self) -> Result<()> {
        Ok(self.data.check_output(self.data.nbytes().unwrap_or(u64::MAX))?)
    }

    fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        Ok(self.data.read_box_with(&Control::new(), start, shape, dst)?)
    }
}

/// Describes a node in a few words.
pub(crate) fn described(entry: &Entry) -> String {
    match &entry.content {
        Content::Group => "group".into(),
        Content::Type => "type".into(),
        Content::Link(to) => to.clone(),
        Content::Failed(error) => {
            let error = anyhow::Error::from(error.clone());
            let text = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
            let start = format!("{}: ", entry.path);
            format!("cannot be converted: {}", text.strip_prefix(&start).unwrap_or(&text))
        }
        Content::DataSet(data) if data.is_dimension_only() => {
            format!("dimension of {}", joined(data.shape(), " x "))
        }
        Content::DataSet(data) => {
            let shape = if data.shape().is_empty() { "one item".into() } else { joined(data.shape(), " x ") };
            let mut text = format!("{} {shape}", data.kind());
            if let Some(names) = dimensions(data) {
                text.push_str(&format!(" ({})", names.join(", ")));
            }
            if let Some(chunks) = data.chunkshape() {
                text.push_str(&format!(", chunks {}", joined(chunks, " x ")));
            }
            text.push_str(&format!(", {}", data.layout()));
            if !data.filters().is_empty() {
                text.push_str(&format!(", {}", filters(data).join("+")));
            }
            match data.nbytes() {
                Some(nbytes) if nbytes != data.stored_nbytes() => {
                    let stored = data.stored_nbytes();
                    text.push_str(&format!(", {} ({})", from_to(nbytes, stored), ratio(nbytes, stored)));
                }
                _ => text.push_str(&format!(", {}", short_size(data.stored_nbytes()))),
            }
            text
        }
        _ => String::new(),
    }
}

/// The names of the dimensions, if the file has them.
fn dimensions(data: &DataSet) -> Option<Vec<&str>> {
    let (_, names) = data.attrs().iter().find(|(name, _)| name == "_ARRAY_DIMENSIONS")?;
    names.as_array()?.iter().map(Value::as_str).collect()
}

/// The target of a link: a path, and the file if it is a different one.
fn target(link: &str) -> (&str, Option<&str>) {
    if let Some(path) = link.strip_prefix("a link to ") {
        return (path, None);
    }
    let outside =
        link.strip_prefix("an external link to ").and_then(|rest| rest.rsplit_once(" in the file "));
    outside.map_or((link, None), |(path, file)| (path, Some(file)))
}

/// The names of the filters, in order of application.
pub(crate) fn filters(data: &DataSet) -> Vec<String> {
    data.filters().iter().map(|filter| filter.name()).collect()
}

/// One line for each name.
pub(crate) fn listed(entries: &[Entry], indent: usize) -> String {
    let width = entries.iter().map(|entry| entry.path.chars().count()).max().unwrap_or(0).min(40);
    let lines = entries.iter().map(|entry| {
        let line = format!("{:indent$}{:<width$}  {}", "", entry.path, described(entry));
        format!("{}\n", printable(line.trim_end()))
    });
    lines.collect()
}

/// A name and its description.
pub(crate) fn as_json(entry: &Entry) -> serde_json::Value {
    let path = &entry.path;
    match &entry.content {
        Content::Group => object!({"path": path, "kind": "group"}),
        Content::Type => object!({"path": path, "kind": "type"}),
        Content::Link(link) => {
            let (to, file) = target(link);
            object!({"path": path, "kind": "link", "to": to, "in": file})
        }
        Content::Failed(_) => object!({"path": path, "kind": "unsupported", "error": described(entry)}),
        Content::DataSet(data) => {
            let filters = data
                .filters()
                .iter()
                .map(|filter| object!({"id": filter.id, "name": filter.name(), "params": filter.params}));
            object!({
                "path": path,
                "kind": if data.is_dimension_only() { "dimension" } else { "dataset" },
                "shape": data.shape(),
                "dimensions": dimensions(data),
                // Items of variable length have no dtype, only a description.
                "dtype": Dtype::parse(&data.kind()).is_ok().then(|| data.kind()),
                "type": data.kind(),
                "chunks": data.chunkshape(),
                "layout": data.layout(),
                "filters": filters.collect::<Vec<_>>(),
                "nbytes": data.nbytes(),
                "stored": data.stored_nbytes(),
            })
        }
        _ => object!({"path": path}),
    }
}

//! Open files and their entries.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use b2_core::Limits;
use b2_frame::{Disk, Links, ReadAt, ReadFiles};
use b2nd::Value;

use crate::data_set::DataSet;
use crate::hdf5::{self, Attrs, Group, Hdf5, NO_COORDINATE, Object};
use crate::{Hdf5Error, netcdf3};

/// Maximum number of names that are listed, and of nested groups.
const MAX_NAMES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;

/// An open HDF5 or NetCDF file.
///
/// ```no_run
/// use b2_hdf5::{Content, File};
/// let file = File::open("x.h5")?;
/// for entry in file.tree()? {
///     if let Content::DataSet(data) = entry.content {
///         println!("{} {:?} {}", entry.path, data.shape(), data.kind());
///     }
/// }
/// let data = file.data_set("/group/data")?;
/// data.builder()?.write("data.b2nd", data.source())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct File {
    name: String,
    format: Format,
}

enum Format {
    Hdf5(Box<Hdf5>),
    NetCdf3 { file: Arc<dyn ReadAt>, header: netcdf3::Header, limits: Limits },
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A name in a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The path from the root.
    pub path: String,
    /// The content of the entry.
    pub content: Content,
}

/// The content of an entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum Content {
    /// A group. Its entries follow.
    Group,
    /// A data set.
    DataSet(Box<DataSet>),
    /// A named type.
    Type,
    /// The target of a link to another name or file, which is not followed.
    Link(String),
    /// The reason why the entry cannot be read.
    Failed(Hdf5Error),
}

/// The attributes of a group.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GroupAttrs {
    /// Names and values.
    pub values: Vec<(String, Value)>,
    /// Attributes that msgpack cannot represent: their names and the reasons.
    pub left_out: Vec<String>,
}

impl File {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is neither HDF5 nor NetCDF.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Hdf5Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = Disk.open(path, Links::Follow).map_err(Hdf5Error::io(&name))?;
        Self::from_reader(file, name, &Limits::default())
    }

    /// Opens a file that is read through `file`. `name` is its name in errors.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open), and when a limit is exceeded.
    pub fn from_reader(
        file: Arc<dyn ReadAt>,
        name: impl Into<String>,
        limits: &Limits,
    ) -> Result<Self, Hdf5Error> {
        let name = name.into();
        let len = file.len().map_err(Hdf5Error::io(&name))?;
        let mut head = [0; 4];
        if len >= 4 {
            file.read_exact_at(0, &mut head).map_err(Hdf5Error::io(&name))?;
        }
        if netcdf3::is_netcdf3(&head) {
            let header = netcdf3::open(&*file, &name, limits)?;
            let format = Format::NetCdf3 { file, header, limits: limits.clone() };
            return Ok(Self { name, format });
        }
        let base = hdf5::find(&*file, len).map_err(Hdf5Error::io(&name))?.ok_or(Hdf5Error::NotHdf5)?;
        let format = Format::Hdf5(Box::new(Hdf5::open(file.clone(), base, len, &name, limits)?));
        Ok(Self { name, format })
    }

    /// Whether this is NetCDF 3, which has no groups, filters or chunks.
    pub fn is_netcdf3(&self) -> bool {
        matches!(self.format, Format::NetCdf3 { .. })
    }

    /// Returns the objects of the file as HDF5 stores them; `None` for NetCDF 3, which has none.
    pub fn objects(&self) -> Option<hdf5::Objects<'_>> {
        match &self.format {
            Format::Hdf5(hdf5) => Some(hdf5::Objects(hdf5)),
            Format::NetCdf3 { .. } => None,
        }
    }

    /// Returns all entries, each group followed by its own. Entries that cannot be read are listed with the
    /// reason.
    ///
    /// # Errors
    /// Fails if the root group cannot be read, or if there are too many names.
    pub fn tree(&self) -> Result<Vec<Entry>, Hdf5Error> {
        self.tree_below("/")
    }

    /// Like [`tree`](Self::tree), for a group or a single data set.
    ///
    /// # Errors
    /// Fails like [`tree`](Self::tree), and if the name does not exist.
    pub fn tree_below(&self, path: &str) -> Result<Vec<Entry>, Hdf5Error> {
        let path = absolute(path);
        let mut entries = Vec::new();
        match &self.format {
            Format::NetCdf3 { file, header, limits } => {
                let add = |variable: &Arc<netcdf3::Variable>| {
                    let path = format!("/{}", variable.name);
                    let data = DataSet::of_netcdf3(path.clone(), file.clone(), variable.clone(), limits);
                    Entry { path, content: Content::DataSet(Box::new(data)) }
                };
                if path == "/" {
                    entries.push(Entry { path: path.clone(), content: Content::Group });
                    entries.extend(header.variables.iter().map(add));
                } else {
                    let found =
                        header.variables.iter().find(|variable| path.get(1..) == Some(&*variable.name));
                    entries.push(add(found.ok_or_else(|| Hdf5Error::NoSuchPath { path: path.clone() })?));
                }
            }
            Format::Hdf5(hdf5) => match resolve(begun(hdf5), &path)? {
                Object::Group(group) => {
                    let mut walk = Walk { hdf5, entries: &mut entries, seen: HashMap::new() };
                    walk.group(&group, path, 0)?;
                }
                object => entries.push(Entry { content: content(&path, Ok(object)), path }),
            },
        }
        Ok(entries)
    }

    /// Opens a data set.
    ///
    /// # Errors
    /// Fails if there is no such data set, or if an array cannot hold it: the error states why.
    pub fn data_set(&self, path: &str) -> Result<DataSet, Hdf5Error> {
        let path = absolute(path);
        match &self.format {
            Format::NetCdf3 { .. } if path == "/" => Err(Hdf5Error::Group { path }),
            Format::NetCdf3 { .. } => match self.tree_below(&path)?.pop().map(|entry| entry.content) {
                Some(Content::DataSet(data)) => Ok(*data),
                _ => Err(Hdf5Error::NoSuchPath { path }),
            },
            Format::Hdf5(hdf5) => match resolve(begun(hdf5), &path)? {
                Object::DataSet(found) => Ok(DataSet::of_hdf5(path, *found)),
                Object::Group(_) => Err(Hdf5Error::Group { path }),
                Object::Type => Err(Hdf5Error::unsupported(&path, "a named type, not a data set")),
                Object::Link(what) => Err(Hdf5Error::unsupported(&path, what)),
            },
        }
    }

    /// Returns the attributes of a group.
    ///
    /// # Errors
    /// Fails if there is no such group, or if its attributes cannot be read.
    pub fn group_attrs(&self, path: &str) -> Result<GroupAttrs, Hdf5Error> {
        let path = absolute(path);
        let missing = || Hdf5Error::NoSuchPath { path: path.clone() };
        match &self.format {
            Format::NetCdf3 { header, .. } if path == "/" => {
                Ok(GroupAttrs { values: header.attrs.clone(), left_out: Vec::new() })
            }
            Format::NetCdf3 { .. } => Err(missing()),
            Format::Hdf5(hdf5) => match begun(hdf5).resolve(&path)? {
                Object::Group(group) => {
                    let Attrs { mut values, left_out } = hdf5.group_attrs(&group, &path)?;
                    // Internal attributes of netCDF.
                    values.retain(|(name, _)| name != "_NCProperties" && name != "_nc3_strict");
                    Ok(GroupAttrs { values, left_out })
                }
                _ => Err(missing()),
            },
        }
    }
}

/// Returns the file, for a new call.
fn begun(hdf5: &Hdf5) -> &Hdf5 {
    hdf5.begin();
    hdf5
}

/// Resolves a path as netCDF does. A variable with the name of a dimension whose coordinate it is not has another name in the
/// file, where the name belongs to the dimension.
fn resolve(hdf5: &Hdf5, path: &str) -> Result<Object, Hdf5Error> {
    let object = hdf5.resolve(path)?;
    match path.rsplit_once('/') {
        Some((group, name)) if is_dimension(&object) => {
            match hdf5.resolve(&format!("{group}/{NO_COORDINATE}{name}")) {
                Err(Hdf5Error::NoSuchPath { .. }) => Ok(object),
                variable => variable,
            }
        }
        _ => Ok(object),
    }
}

fn is_dimension(object: &Object) -> bool {
    matches!(object, Object::DataSet(data) if data.is_dimension_only)
}

/// A path from the root, without repeated slashes.
fn absolute(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

fn content(path: &str, object: Result<Object, Hdf5Error>) -> Content {
    match object {
        Ok(Object::Group(_)) => Content::Group,
        Ok(Object::DataSet(found)) => {
            let data = DataSet::of_hdf5(path.to_owned(), *found);
            match data.load() {
                Ok(()) => Content::DataSet(Box::new(data)),
                Err(error) => Content::Failed(error),
            }
        }
        Ok(Object::Type) => Content::Type,
        Ok(Object::Link(to)) => Content::Link(to),
        Err(error) => Content::Failed(error),
    }
}

/// Lists a group and its entries.
struct Walk<'a> {
    hdf5: &'a Hdf5,
    entries: &'a mut Vec<Entry>,
    /// The groups listed so far, so that none is listed twice.
    seen: HashMap<u64, String>,
}

impl Walk<'_> {
    fn group(&mut self, group: &Group, path: String, depth: usize) -> Result<(), Hdf5Error> {
        self.seen.insert(Hdf5::identity(group), path.clone());
        self.entries.push(Entry { path: path.clone(), content: Content::Group });
        let names = match self.hdf5.names(group, &path) {
            Ok(names) => names,
            // Only the names in the root are needed to list anything.
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                if let Some(last) = self.entries.last_mut() {
                    last.content = Content::Failed(error);
                }
                return Ok(());
            }
        };
        for (name, target) in &names.links {
            if self.entries.len() > MAX_NAMES {
                return Err(Hdf5Error::damaged(&path, format!("more than {MAX_NAMES} names")));
            }
            let inner = format!("{}/{name}", path.trim_end_matches('/'));
            let object =
                |name: &str| names.get(name).map(|target| self.hdf5.object(group, name, target, &inner));
            // See `resolve`.
            if let Some(Ok(dimension)) = name.strip_prefix(NO_COORDINATE).and_then(object)
                && is_dimension(&dimension)
            {
                continue;
            }
            let mut found = self.hdf5.object(group, name, target, &inner);
            if found.as_ref().is_ok_and(is_dimension)
                && let Some(variable) = object(&format!("{NO_COORDINATE}{name}"))
            {
                found = variable;
            }
            match found {
                Ok(Object::Group(found)) => {
                    if let Some(first) = self.seen.get(&Hdf5::identity(&found)) {
                        let to = format!("another name of {first}");
                        self.entries.push(Entry { path: inner, content: Content::Link(to) });
                    } else if depth >= MAX_DEPTH {
                        let error =
                            Hdf5Error::damaged(&inner, format!("more than {MAX_DEPTH} nested groups"));
                        self.entries.push(Entry { path: inner, content: Content::Failed(error) });
                    } else {
                        self.group(&found, inner, depth.saturating_add(1))?;
                    }
                }
                object => self.entries.push(Entry { content: content(&inner, object), path: inner }),
            }
        }
        Ok(())
    }
}

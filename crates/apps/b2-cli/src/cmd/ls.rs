//! `b2kit ls`

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};
use serde_json::{Value, json};

use super::convert;
use crate::args::Global;
use crate::files::{Output, members, stdio};
use crate::print::{joined, json, printable, printable_json, short_size};
use crate::process::{batch, one_line};
use crate::read::store::Table;
use crate::read::{Hdf5, Input, Store, find_cut_off};

const EXAMPLES: &str = "\
Examples:
  b2kit ls store.b2z
  b2kit ls -l store.b2d                  with dtype, shape, size and stored size
  b2kit ls --json *.b2z | jq .key
  b2kit cat store.b2z --key /group/array --npy -o array.npy
  b2kit ls ocean.nc

Stores are those of python-blosc2: EmbedStore (.b2e), DictStore and TreeStore
(.b2d directories and .b2z archives). Of HDF5 and NetCDF files, or a group in one
(FILE::/group), the data sets are listed, of Zarr and .npz files the arrays. A
table of python-blosc2 is listed first: its key, a tab, and the numbers of columns
and rows.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Stores of python-blosc2, or HDF5, NetCDF, Zarr and .npz files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print dtype, shape, size and stored size of each member
    #[arg(short, long, conflicts_with = "json")]
    long: bool,
    /// Print each member as a line of JSON: file, key, kind, dtype, shape, nbytes, stored
    #[arg(long)]
    json: bool,
}

/// The properties of a member that are listed.
struct Listing {
    key: String,
    kind: &'static str,
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
    nbytes: u64,
    /// Unknown for some formats.
    stored: Option<u64>,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let mut first = true;
    batch::each(&args.files, |file| {
        let text = list(args, file, global).with_context(|| file.display().to_string())?;
        let mut output = Output::stdout();
        if args.files.len() > 1 && !args.json {
            let gap = if first { "" } else { "\n" };
            output.send(format!("{gap}{}:\n", printable(&file.display().to_string())).as_bytes())?;
        }
        first = false;
        output.send(text.as_bytes())?;
        output.finish()
    })
}

fn list(args: &Args, file: &Path, global: Global) -> Result<String> {
    stdio::refuse_stdin(file, "cannot be a store: name the file")?;
    let none = || {
        let not_one = "not a store: it has no members (b2kit info shows what it is)";
        find_cut_off(file).unwrap_or_else(|| anyhow!(not_one))
    };
    let store = match Store::open(file, 0, global).and_then(|store| store.ok_or_else(none)) {
        Ok(store) => store,
        Err(error) => return data_sets(args, file, global, error),
    };
    let tables = store.tables()?;
    let describe = |table: &Table| match args.json {
        true => {
            let mut object = table.to_json();
            object["key"] = table.key.clone().into();
            line_of(&json::of_file(file, object))
        }
        false => format!("{}\t{}\n", printable(&table.key), table.describe()),
    };
    let tables: String = tables.iter().map(describe).collect();
    if args.long || args.json {
        let member = |key: &str| (key.to_owned(), store.member(key).map(|input| of_input(key, &input)));
        return Ok(tables + &rendered(args, file, store.keys().map(member).collect()));
    }
    Ok(store.keys().fold(tables, |text, key| text + &printable(key) + "\n"))
}

/// Lists the arrays of a file of another format, or of a group in it.
fn data_sets(args: &Args, path: &Path, global: Global, error: Error) -> Result<String> {
    let (file, group) = members::split(path).unwrap_or_else(|| (path.to_owned(), "/".into()));
    let group_key = Some(&*group).filter(|group| *group != "/");
    if let Some(other) = convert::Listing::open(&file, group_key, global)? {
        let arrays = other.arrays().map(|(key, array)| {
            let listed = array.map_err(|why| anyhow!(why.to_owned())).and_then(|item| {
                let (shape, dtype) = (item.shape().to_vec(), item.dtype()?);
                let nbytes = shape.iter().fold(dtype.itemsize() as u64, |n, len| n.saturating_mul(*len));
                let (kind, dtype) = ("array", Some(dtype.as_str().to_owned()));
                Ok(Listing { key: key.to_owned(), kind, dtype, shape: Some(shape), nbytes, stored: None })
            });
            (key.to_owned(), listed)
        });
        let arrays: Vec<_> = arrays.collect();
        return Ok(match args.long || args.json {
            true => rendered(args, path, arrays),
            false => arrays.iter().map(|(key, _)| printable(key) + "\n").collect(),
        });
    }
    let opened = Hdf5::open_or(&file, global, error)?;
    if !args.long && !args.json {
        return Ok(opened.keys(&group)?.iter().map(|key| printable(key) + "\n").collect());
    }
    let arrays = opened.arrays(Some(&group))?.into_iter().map(|(key, array)| {
        let listed = array.map(|array| Listing {
            key: key.clone(),
            kind: "dataset",
            dtype: Some(array.dtype().as_str().to_owned()),
            shape: Some(array.shape().to_vec()),
            nbytes: array
                .shape()
                .iter()
                .fold(array.dtype().itemsize() as u64, |n, len| n.saturating_mul(*len)),
            stored: Some(array.stored()),
        });
        (key, listed)
    });
    Ok(rendered(args, path, arrays.collect()))
}

/// Describes a member of a store.
fn of_input(key: &str, input: &Input) -> Listing {
    let (kind, dtype, shape) = match input {
        Input::Array(array) => {
            ("ndarray", Some(array.dtype().as_str().to_owned()), Some(array.shape().to_vec()))
        }
        Input::SuperChunk(_) => ("schunk", None, None),
        Input::Chunk(_) => ("chunk", None, None),
    };
    let stored = match input {
        Input::Chunk(chunk) => chunk.cbytes() as u64,
        _ => input.frame().map_or(0, |frame| frame.cbytes()),
    };
    Listing { key: key.to_owned(), kind, dtype, shape, nbytes: input.nbytes(), stored: Some(stored) }
}

/// Returns lines of JSON, or a table. A member that cannot be opened has the reason in its place.
fn rendered(args: &Args, file: &Path, members: Vec<(String, Result<Listing>)>) -> String {
    if args.json {
        return members.into_iter().map(|(key, member)| to_json(file, &key, member)).collect();
    }
    let rows: Vec<[String; 5]> = members
        .into_iter()
        .map(|(key, member)| match member {
            Ok(Listing { key, kind, dtype, shape, nbytes, stored }) => {
                let dtype = dtype.as_deref().map_or_else(|| kind.to_owned(), printable);
                let shape = shape.map_or_else(String::new, |shape| format!("({})", joined(&shape, ", ")));
                [
                    printable(&key),
                    dtype,
                    shape,
                    short_size(nbytes),
                    stored.map_or_else(String::new, short_size),
                ]
            }
            Err(error) => {
                [printable(&key), printable(&one_line(&error)), String::new(), String::new(), String::new()]
            }
        })
        .collect();
    let width = |column: usize| {
        let whole = rows.iter().filter(|row| !row[3].is_empty());
        whole.map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    rows.iter()
        .map(|[key, dtype, shape, nbytes, stored]| {
            let [a, b, c, d, e] = widths;
            let line = format!("{key:<a$}  {dtype:<b$}  {shape:<c$}  {nbytes:>d$}  {stored:>e$}");
            format!("{}\n", line.trim_end())
        })
        .collect()
}

fn to_json(file: &Path, key: &str, member: Result<Listing>) -> String {
    line_of(&json::of_file(
        file,
        match member {
            Ok(Listing { key, kind, dtype, shape, nbytes, stored }) => json!({
                "key": key, "kind": kind, "dtype": dtype, "shape": shape, "nbytes": nbytes, "stored": stored,
            }),
            Err(error) => json!({"key": key, "error": one_line(&error)}),
        },
    ))
}

fn line_of(object: &Value) -> String {
    format!("{}\n", printable_json(&object.to_string()))
}

//! The benchmark data.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{python, root};

/// One file of items.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Set {
    #[serde(skip)]
    pub(super) name: String,
    #[serde(skip)]
    pub(super) path: PathBuf,
    pub(super) typesize: usize,
    /// Whether the data are measurements, not synthetic.
    pub(super) real: bool,
}

/// The array used in the array rows.
pub(super) const FIELD: &str = "field_f32";

/// Creates missing data: the sets with these names (all if there are none) and the field. Real arrays are those in the
/// repository and `more`.
pub(super) fn make(python: &Path, folder: &Path, names: &[String], more: &[PathBuf]) -> Result<Vec<Set>> {
    let mut script = python::script(python, "bench_data.py");
    let names = if names.is_empty() { String::new() } else { format!("{FIELD},{}", names.join(",")) };
    script.arg(folder).arg(names);
    let real = fs::read_dir(root::testdata().join("arrays"))?;
    let mut real = real.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    real.retain(|path| path.extension().is_some_and(|extension| extension == "npy"));
    real.sort();
    script.args(real).args(more);
    let status = script.status().context("cannot run the script that makes the data")?;
    ensure!(status.success(), "the data could not be made");
    let sets: BTreeMap<String, Set> = serde_json::from_slice(&fs::read(folder.join("datasets.json"))?)?;
    let set = |(name, set)| Set { path: folder.join(format!("{name}.bin")), name, ..set };
    Ok(sets.into_iter().map(set).collect())
}

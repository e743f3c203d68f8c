//! The benchmark data.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{python, root};

/// One file of items.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) name: String,
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
    let mut real = Vec::new();
    for entry in fs::read_dir(root::testdata().join("arrays"))? {
        real.push(entry?.path());
    }
    real.retain(|path| path.extension().is_some_and(|extension| extension == "npy"));
    real.sort();
    script.args(real).args(more);
    let status = script.status().context("cannot run the script that makes the data")?;
    ensure!(status.success(), "the data could not be made");
    let list: Value = serde_json::from_slice(&fs::read(folder.join("datasets.json"))?)?;
    let list = list.as_object().context("datasets.json is no object")?;
    let set = |(name, set): (&String, &Value)| {
        Ok(Set {
            name: name.clone(),
            path: folder.join(format!("{name}.bin")),
            typesize: set["typesize"].as_u64().context("no typesize")? as usize,
            real: set["real"].as_bool().context("real or not?")?,
        })
    };
    list.iter().map(set).collect()
}

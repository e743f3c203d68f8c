//! `cargo xtask fixtures`: the files in `testdata/` that other Blosc releases wrote, and their manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{digest, python, root, sh};

/// Write missing fixtures, and check the hashes of all others.
///
/// Fixtures are files written by releases of python-blosc2 and python-blosc, each installed from PyPI into a separate
/// environment under target/xtask/venv. testdata/MANIFEST.toml records for each one its producer, parameters, data and
/// hash. A fixture never changes: one that does not match its hash is an error, even if it was just written again. A
/// new case gets a new name in xtask/py/fixtures_cases.py.
///
/// Without missing fixtures no Python package is installed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check: a missing fixture is an error, and nothing is written or installed.
    #[arg(long)]
    check: bool,
    /// Only fixtures whose path contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Only checks the hashes.
pub(crate) fn check() -> Result<()> {
    run(&Args { check: true, only: None })
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let listed = listing(args.only.as_deref())?;
    let manifest_path = root::testdata().join("MANIFEST.toml");
    let mut manifest = read_manifest(&manifest_path)?;

    let mut missing: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut present = 0;
    for fixture in &listed {
        let path = text(fixture, "path")?;
        let file = root::testdata().join(path);
        match (manifest.get(path), file.exists()) {
            (Some(entry), true) => {
                verify(&file, entry)?;
                present += 1;
            }
            (None, true) => bail!("{path} is not in the manifest; remove it, and it will be written again"),
            _ => missing.entry(text(fixture, "producer")?.to_owned()).or_default().push(fixture),
        }
    }
    let known: BTreeSet<&str> = listed.iter().filter_map(|fixture| fixture["path"].as_str()).collect();
    if args.only.is_none()
        && let Some(stray) = manifest.keys().find(|path| !known.contains(path.as_str()))
    {
        bail!("{stray} is in the manifest but no case makes it; fixtures are not taken back");
    }
    println!(
        "{present} fixtures match the manifest, {} missing",
        missing.values().map(Vec::len).sum::<usize>()
    );
    if args.check && !missing.is_empty() {
        bail!(
            "missing: {}",
            missing.values().flatten().filter_map(|f| f["path"].as_str()).collect::<Vec<_>>().join(", ")
        );
    }
    for (producer, fixtures) in &missing {
        produce(producer, fixtures, &mut manifest)
            .with_context(|| format!("writing the fixtures of {producer}"))?;
        fs::write(&manifest_path, render(&manifest))?;
    }
    let total: u64 =
        manifest.keys().map(|path| digest::size(&root::testdata().join(path)).unwrap_or(0)).sum();
    println!("{} fixtures, {:.1} MB in all", manifest.len(), total as f64 / 1e6);
    Ok(())
}

/// Lists all fixtures that the scripts can write.
fn listing(only: Option<&str>) -> Result<Vec<Value>> {
    let mut all = sh::json_lines(python::script(&python::base_interpreter()?, "fixtures.py").arg("--list"))?;
    all.retain(|fixture| {
        only.is_none_or(|part| fixture["path"].as_str().is_some_and(|path| path.contains(part)))
    });
    Ok(all)
}

fn verify(file: &Path, entry: &toml::Table) -> Result<()> {
    let wanted = entry.get("sha256").and_then(toml::Value::as_str).unwrap_or_default();
    let found = digest::path(file)?;
    if found != wanted {
        bail!("{} has SHA-256 {found}, the manifest says {wanted}; a fixture never changes", file.display());
    }
    Ok(())
}

/// Writes the missing fixtures of one producer, first into a scratch folder.
fn produce(producer: &str, fixtures: &[&Value], manifest: &mut BTreeMap<String, toml::Table>) -> Result<()> {
    let first = fixtures.first().context("no fixtures")?;
    let requirements: Vec<String> = serde_json::from_value(first["requirements"].clone())?;
    let python = python::environment(&requirements)?;
    let scratch = tempfile::tempdir_in(root::target())?;
    // The names go through a file, because there may be many.
    let names: Vec<&str> = fixtures.iter().map(|fixture| text(fixture, "path")).collect::<Result<_>>()?;
    let mut list = tempfile::tempfile()?;
    list.write_all(names.join("\n").as_bytes())?;
    list.rewind()?;
    let mut script = python::script(&python, "fixtures.py");
    script.args(["--producer", producer, "--out"]).arg(scratch.path()).stdin(list);
    let mut facts = BTreeMap::new();
    for row in sh::json_lines(&mut script)? {
        facts.insert(text(&row, "path")?.to_owned(), row);
    }
    for fixture in fixtures {
        let path = text(fixture, "path")?;
        let made = scratch.path().join(path);
        let entry =
            entry(fixture, facts.get(path).with_context(|| format!("{path} was not written"))?, &made)?;
        if let Some(before) = manifest.get(path) {
            verify(&made, before).context("the fixture changed when written again")?;
        }
        let place = root::testdata().join(path);
        fs::create_dir_all(place.parent().context("a folder")?)?;
        root::copy(&made, &place)?;
        println!("wrote {path}");
        manifest.insert(path.to_owned(), entry);
    }
    Ok(())
}

/// Returns the manifest entry of a fixture that was just written.
fn entry(fixture: &Value, facts: &Value, made: &Path) -> Result<toml::Table> {
    let mut out = toml::Table::new();
    let mut put = |key: &str, value: &Value| -> Result<()> {
        out.extend(to_toml(value)?.map(|value| (key.to_owned(), value)));
        Ok(())
    };
    let library =
        text(fixture, "producer")?.replace("c-blosc2/", "C-Blosc2 ").replace("c-blosc/", "C-Blosc ");
    put("producer", &format!("python-{}", text(fixture, "package")?).into())?;
    put("library", &library.into())?;
    for key in ["kind", "version", "params", "data", "note", "plugin"] {
        if fixture[key] != "" {
            put(key, &fixture[key])?;
        }
    }
    for (key, value) in facts.as_object().context("facts are an object")? {
        if key != "path" {
            put(key, value)?;
        }
    }
    put("sha256", &digest::path(made)?.into())?;
    Ok(out)
}

fn to_toml(value: &Value) -> Result<Option<toml::Value>> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) => toml::Value::Integer(number.as_i64().context("an integer")?),
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => toml::Value::Array(
            items.iter().filter_map(|item| to_toml(item).transpose()).collect::<Result<_>>()?,
        ),
        Value::Object(map) => {
            let entry = |(key, value): (&String, _)| Ok(to_toml(value)?.map(|value| (key.clone(), value)));
            toml::Value::Table(
                map.iter().filter_map(|entry_of| entry(entry_of).transpose()).collect::<Result<_>>()?,
            )
        }
    }))
}

fn read_manifest(path: &Path) -> Result<BTreeMap<String, toml::Table>> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(BTreeMap::new()) };
    let file: BTreeMap<String, Vec<toml::Table>> =
        toml::from_str(&text).with_context(|| path.display().to_string())?;
    let mut out = BTreeMap::new();
    for mut entry in file.into_values().flatten() {
        let Some(toml::Value::String(path)) = entry.remove("path") else { bail!("a fixture without path") };
        out.insert(path, entry);
    }
    Ok(out)
}

/// Formats the manifest: one table per fixture, one line per value.
fn render(manifest: &BTreeMap<String, toml::Table>) -> String {
    let mut out = String::from(
        "# Written by `cargo xtask fixtures`. A fixture never changes: a new case gets a new name.\n\
         # sha256: of the file, or, for a folder, of the lines `hash name` of its files in order of their names.\n\
         # data_sha256: of the nbytes bytes that a reader has to decode. data: the generator in xtask/py/data.py\n\
         # (kind, seed, bytes) of the raw data.\n",
    );
    for (path, entry) in manifest {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n[[fixture]]\npath = {}\n", toml::Value::from(path.as_str()));
        for (key, value) in entry {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    out
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("{key} is missing in {value}"))
}

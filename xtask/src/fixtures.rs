//! `cargo xtask fixtures`: the files in `testdata/` that other Blosc releases wrote, and their manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{digest, python, root};

/// Write the fixtures that are missing, and check the hash of every one that is there.
///
/// Fixtures are files written by releases of python-blosc2 and python-blosc, each installed from PyPI into an
/// environment of its own under target/xtask/venv. testdata/MANIFEST.toml says of each one who wrote it, with
/// which parameters, from which data, and its hash. A fixture never changes: one that differs from its hash is
/// an error, also when it was just written again. A new case gets a new name in xtask/py/fixtures_cases.py.
///
/// Without missing fixtures no Python package is installed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check: a missing fixture is an error, and nothing is written or installed.
    #[arg(long)]
    check: bool,
    /// Only the fixtures whose path contains this text.
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
        "{present} fixtures are as the manifest says, {} missing",
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
    let output = python::script(&python::base_interpreter()?, "fixtures.py").arg("--list").output()?;
    if !output.status.success() {
        bail!("fixtures.py --list: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut all = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let fixture: Value = serde_json::from_str(line)?;
        if only.is_none_or(|part| fixture["path"].as_str().is_some_and(|path| path.contains(part))) {
            all.push(fixture);
        }
    }
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
    let mut child = python::script(&python, "fixtures.py")
        .args(["--producer", producer, "--out"])
        .arg(scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let names: Vec<&str> = fixtures.iter().map(|fixture| text(fixture, "path")).collect::<Result<_>>()?;
    child.stdin.take().context("no pipe to the script")?.write_all(names.join("\n").as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("fixtures.py ended with {}", output.status);
    }
    let mut facts = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        facts.insert(text(&row, "path")?.to_owned(), row);
    }
    for fixture in fixtures {
        let path = text(fixture, "path")?;
        let made = scratch.path().join(path);
        let entry =
            entry(fixture, facts.get(path).with_context(|| format!("{path} was not written"))?, &made)?;
        if let Some(before) = manifest.get(path) {
            verify(&made, before).context("written again, it came out different")?;
        }
        install(&made, &root::testdata().join(path))?;
        println!("wrote {path}");
        manifest.insert(path.to_owned(), entry);
    }
    Ok(())
}

/// Moves a file or a flat folder to its final place.
fn install(from: &Path, to: &PathBuf) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// Returns the manifest entry of a fixture that was just written.
fn entry(fixture: &Value, facts: &Value, made: &Path) -> Result<toml::Table> {
    let mut out = toml::Table::new();
    let mut put = |key: &str, value: &Value| -> Result<()> {
        if let Some(value) = to_toml(value)? {
            out.insert(key.to_owned(), value);
        }
        Ok(())
    };
    let library =
        text(fixture, "producer")?.replace("c-blosc2/", "C-Blosc2 ").replace("c-blosc/", "C-Blosc ");
    put("kind", &fixture["kind"])?;
    put("producer", &format!("python-{}", text(fixture, "package")?).into())?;
    put("version", &fixture["version"])?;
    put("library", &library.into())?;
    for key in ["params", "data", "note", "plugin"] {
        // Leave out empty strings.
        if !matches!(&fixture[key], Value::String(text) if text.is_empty()) {
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
            let mut table = toml::Table::new();
            for (key, value) in map {
                if let Some(value) = to_toml(value)? {
                    table.insert(key.clone(), value);
                }
            }
            toml::Value::Table(table)
        }
    }))
}

fn read_manifest(path: &Path) -> Result<BTreeMap<String, toml::Table>> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(BTreeMap::new()) };
    let table: toml::Table = text.parse().with_context(|| format!("{}", path.display()))?;
    let mut out = BTreeMap::new();
    for fixture in table.get("fixture").and_then(toml::Value::as_array).into_iter().flatten() {
        let mut entry = fixture.as_table().context("[[fixture]] is a table")?.clone();
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

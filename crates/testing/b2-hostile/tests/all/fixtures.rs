//! Bases written by other libraries: fixtures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use b2_testkit::Rng;

use super::base::Base;
use super::content::Content;
use super::generated::read_folder;

/// Larger fixtures are left out, in bytes.
const LARGEST: usize = 9000;
/// Number of fixtures to use, chosen by the seed.
const COUNT: usize = 70;

fn testdata() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata"))
}

pub(crate) fn bases(seed: u64) -> Result<Vec<Base>> {
    let text = fs::read_to_string(testdata().join("MANIFEST.toml"))?;
    let manifest: toml::Value = toml::from_str(&text)?;
    let mut all = Vec::new();
    for fixture in manifest.get("fixture").and_then(toml::Value::as_array).context("no fixtures")? {
        let text = |key: &str| fixture.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let (name, sha256) = (text("path"), text("data_sha256"));
        // A frame inside another file has an offset.
        if fixture.get("offset").is_some() {
            continue;
        }
        all.push((name.to_owned(), sha256.to_owned()));
    }
    let mut rng = Rng::case(seed, 2);
    let mut out = Vec::new();
    while out.len() < COUNT && !all.is_empty() {
        let (name, sha256) = all.swap_remove(rng.within(0..=all.len() - 1));
        let path = testdata().join(&name);
        let content = if path.is_dir() { read_folder(&path)? } else { Content::file(fs::read(&path)?) };
        if content.len() <= LARGEST {
            out.push(Base::with_hash(name, content, sha256)?);
        }
    }
    Ok(out)
}

//! Names of files in a list (`--files-from`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::urls;
use crate::args::FilesFrom;
use crate::process::capture;

impl FilesFrom {
    /// The names in the list, as they are read; empty without a list.
    pub(crate) fn names(&self) -> Result<impl Iterator<Item = Result<PathBuf>>> {
        let names = self.files_from.as_deref().map(|list| {
            let names = open(list)?.split(if self.null { 0 } else { b'\n' });
            let named = list.display().to_string();
            anyhow::Ok(names.map(move |name| name.with_context(|| named.clone())))
        });
        let names = names.transpose()?.into_iter().flatten();
        let filled = names.filter(|name| !name.as_ref().is_ok_and(Vec::is_empty));
        let null = self.null;
        Ok(filled.map(move |name| name.map(|name| urls::hide(&os_string(name, null)).into())))
    }

    /// The names on the command line, and those in the list.
    pub(crate) fn and(&self, given: &[PathBuf]) -> Result<Vec<PathBuf>> {
        given.iter().cloned().map(Ok).chain(self.names()?).collect()
    }
}

fn open(list: &Path) -> Result<Box<dyn BufRead>> {
    let named = || list.display().to_string();
    if list.to_str() == Some("-") {
        capture::check_stdin().with_context(named)?;
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::new(File::open(list).with_context(named)?)))
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>, _: bool) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>, null: bool) -> OsString {
    let text = String::from_utf8_lossy(&bytes);
    if null { (*text).into() } else { text.trim_end_matches('\r').into() }
}

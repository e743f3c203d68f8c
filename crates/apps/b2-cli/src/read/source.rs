//! Opens a file or a member of a store named on the command line.

use anyhow::{Result, anyhow};

use super::input::{Input, find_cut_off};
use super::store::Store;
use crate::args::{Global, Source};
use crate::files::{members, recognition, refuse_stdin};

impl Source {
    /// Splits `FILE::NAME` into the file and the key, as `--key` gives it.
    pub(crate) fn inside(&self) -> Self {
        match members::split(&self.file).filter(|_| self.key.is_none()) {
            Some((file, key)) => Self { file, key: Some(key), offset: self.offset },
            None => self.clone(),
        }
    }
}

impl Input {
    /// Opens the file or the member of a store that the command line names.
    pub(crate) fn open_source(source: &Source, global: Global) -> Result<Self> {
        let source = &source.inside();
        let Some(key) = &source.key else { return Self::open(&source.file, source.offset, global) };
        refuse_stdin(&source.file, "cannot be a store: name the file")?;
        let store = Store::open(&source.file, source.offset, global)?;
        let none = || match recognition::directory(&source.file).filter(|found| !found.is_ours()) {
            Some(found) => anyhow!("{}; {}", found.what, found.hint),
            None => match recognition::hdf5(&source.file) {
                Some(what) => anyhow!("not a store but {what}: b2kit convert makes arrays of it"),
                None => {
                    find_cut_off(&source.file).unwrap_or_else(|| anyhow!("not a store: it has no members"))
                }
            },
        };
        store.ok_or_else(none)?.member(key)
    }
}

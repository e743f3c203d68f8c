//! Replaces `hdf5` in builds without that feature: the errors explain how to enable it.

use std::convert::Infallible;
use std::path::Path;

use anyhow::{Error, Result, anyhow};
use serde_json::{Map, Value};

use super::external::{ExternalArray, NamedExternalArray};
use crate::args::Global;
use crate::files::recognition;

/// HDF5 files do not exist in this build.
pub(crate) struct Hdf5(Infallible);

impl Hdf5 {
    /// Rejects a file that failed with `error` to open as Blosc2.
    ///
    /// # Errors
    /// Returns an error that explains how to get a build that reads HDF5 and NetCDF files; for other files `error`.
    pub(crate) fn open_or(path: &Path, _: Global, error: Error) -> Result<Self> {
        Err(match recognition::hdf5(path) {
            Some(what) => anyhow!(
                "{what}, which b2kit reads in a build with the feature hdf5: cargo install b2kit-cli --features hdf5, or \
                 pip install b2kit"
            ),
            None => error,
        })
    }

    pub(crate) fn pick(&self, _: Option<&str>) -> Result<Box<dyn ExternalArray>> {
        match self.0 {}
    }

    pub(crate) fn keys(&self, _: &str) -> Result<Vec<String>> {
        match self.0 {}
    }

    pub(crate) fn arrays(&self, _: Option<&str>) -> Result<Vec<NamedExternalArray>> {
        match self.0 {}
    }

    pub(crate) fn is_unsupported(_: &Error) -> bool {
        false
    }

    pub(crate) fn facts(&self, _: Option<&str>, _: bool, _: bool) -> Result<String> {
        match self.0 {}
    }

    pub(crate) fn facts_json(&self, _: Option<&str>) -> Result<Map<String, Value>> {
        match self.0 {}
    }

    pub(crate) fn one_line(&self, _: Option<&str>) -> Result<String> {
        match self.0 {}
    }
}

//! Replaces `convert` in builds without the feature `hdf5`.

use std::convert::Infallible;
use std::path::Path;

use anyhow::Result;
use b2kit::Dtype;
use serde_json::Value;

use crate::args::Global;

/// There is none.
pub(crate) struct Listing {
    pub(crate) format: &'static str,
    none: Infallible,
}

/// There is none.
pub(crate) struct Item(Infallible);

impl Item {
    pub(crate) fn shape(&self) -> &[u64] {
        match self.0 {}
    }

    pub(crate) fn dtype(&self) -> Result<&Dtype> {
        match self.0 {}
    }
}

impl Listing {
    pub(crate) fn open(_: &Path, _: Option<&str>, _: Global) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn arrays(&self) -> impl Iterator<Item = (&str, Result<&Item, &str>)> {
        match self.none {}
        #[expect(unreachable_code, reason = "names the type")]
        std::iter::empty()
    }

    pub(crate) fn text(&self) -> Result<String> {
        match self.none {}
    }

    pub(crate) fn to_json(&self) -> Result<Value> {
        match self.none {}
    }
}

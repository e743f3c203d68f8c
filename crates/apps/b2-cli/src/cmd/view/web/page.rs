//! The parts of the page, as `cargo xtask web` has made them.

use anyhow::{Context, Result};

/// The page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) index: &'static str,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) worker: &'static str,
    pub(super) engine: &'static [u8],
}

// `PAGE: Option<Page>`, from the build script.
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page.
///
/// # Errors
/// Fails if it was not there when the command was built.
pub(super) fn page() -> Result<&'static Page> {
    let absent =
        "this command was built without the page: `cargo xtask web` makes it, before the command is built";
    PAGE.as_ref().context(absent)
}

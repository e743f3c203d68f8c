//! The parts of the page, as `cargo xtask web` has made them.

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

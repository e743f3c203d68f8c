//! What is shown, and how.

use super::link::encoded;
use crate::args::Source;

/// What is shown in a browser.
pub(in super::super) struct Shown<'a> {
    pub(in super::super) source: &'a Source,
    pub(in super::super) slice: Option<&'a str>,
    pub(in super::super) field: Option<&'a str>,
    pub(in super::super) log: bool,
    /// Whether a browser is opened.
    pub(in super::super) opens: bool,
}

impl Shown<'_> {
    /// What a link says besides the address of the file.
    pub(super) fn link(&self) -> String {
        let parts = [
            ("key", self.source.key.as_deref()),
            ("slice", self.slice),
            ("field", self.field),
            ("log", Some("1").filter(|_| self.log)),
        ];
        let given = parts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("&{name}={}", encoded(value))).collect()
    }
}

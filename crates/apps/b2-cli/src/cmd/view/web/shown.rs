//! The view that is opened in a browser.

use b2_view::limits::Limits;
use clap::ValueEnum;

use super::link::encoded;
use crate::args::Source;
use crate::print::Map;

/// The view that is opened in a browser.
pub(in super::super) struct BrowserView<'a> {
    pub(in super::super) source: &'a Source,
    pub(in super::super) slice: Option<&'a str>,
    pub(in super::super) field: Option<&'a str>,
    pub(in super::super) map: Map,
    pub(in super::super) range: Option<Limits>,
    pub(in super::super) log: bool,
    /// Whether a browser is opened.
    pub(in super::super) opens: bool,
}

impl BrowserView<'_> {
    /// The parameters of a link after the address of the file.
    pub(super) fn link(&self) -> String {
        let map = Some(self.map).filter(|map| *map != Map::default());
        let map = map.and_then(|map| Some(map.to_possible_value()?.get_name().to_owned()));
        let parts = [
            ("key", self.source.key.clone()),
            ("slice", self.slice.map(str::to_owned)),
            ("field", self.field.map(str::to_owned)),
            ("map", map),
            ("range", self.range.map(|range| range.to_string())),
            ("log", Some("1".to_owned()).filter(|_| self.log)),
        ];
        let given = parts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("&{name}={}", encoded(&value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_asked_for_is_in_the_link() {
        let source = Source { file: "a.b2z".into(), offset: 0, key: Some("/t".into()) };
        let all = BrowserView {
            source: &source,
            slice: Some("0,:"),
            field: None,
            map: Map::Cividis,
            range: Some("2%:98%".parse().unwrap()),
            log: true,
            opens: false,
        };
        assert_eq!(all.link(), "&key=%2Ft&slice=0%2C%3A&map=cividis&range=2%25%3A98%25&log=1");
        let plain = BrowserView {
            slice: None,
            map: Map::Viridis,
            range: Some("-2:30.5".parse().unwrap()),
            log: false,
            ..all
        };
        assert_eq!(plain.link(), "&key=%2Ft&range=-2%3A30.5");
    }
}

//! Files for the tests of the viewer.

use std::path::{Path, PathBuf};

use b2kit::ArrayBuilder;

use super::request::ViewSource;
use crate::args::{Global, Source};

/// An array of 4 x 20 x 30 whose items count up, except for one that is missing.
pub(super) fn array(folder: &Path) -> PathBuf {
    let mut items: Vec<f32> = (0..4 * 20 * 30).map(|k| k as f32).collect();
    items[2 * 600] = f32::NAN;
    let frame = ArrayBuilder::new::<f32>([4, 20, 30]).chunks([1, 10, 30]).to_bytes(&items[..]).unwrap();
    let path = folder.join("a.b2nd");
    std::fs::write(&path, frame).unwrap();
    path
}

pub(super) fn opening(path: &Path) -> ViewSource {
    let global = Global { quiet: true, ..Global::default() };
    let source = Source { file: path.to_owned(), offset: 0, key: None };
    ViewSource { source, parts: Vec::new(), dtype: None, global }
}

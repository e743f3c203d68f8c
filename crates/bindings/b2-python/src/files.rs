//! Opens files whose format is not known yet.

use std::path::Path;
use std::sync::Arc;

use b2kit::frame::{Disk, FrameError, Links, ReadAt, ReadFiles};
use pyo3::prelude::*;

use crate::control::How;
use crate::remote::{Remote, connections};

/// Opens the file at a path or an http URL, or of a source that fetches ranges. Returns it with its name, which has no
/// secrets.
pub(crate) fn file_reader(
    py: Python<'_>,
    path: String,
    source: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Arc<dyn ReadAt>, String)> {
    if let Some(source) = source {
        return Ok((Arc::new(Remote::new(source, &path)?).file(), path));
    }
    let path = if b2_http::is_url(&path) { connections().hide(&path) } else { path };
    let named = path.clone();
    let reader = How::short(None).run(py, move |_| {
        let path = Path::new(&named);
        let opened: std::io::Result<Arc<dyn ReadAt>> = match b2_http::is_url(path) {
            true => connections().open_file(path).map(|file| file as Arc<dyn ReadAt>),
            false => Disk.open(path, Links::Follow),
        };
        opened.map_err(FrameError::io(named.clone()))
    })?;
    Ok((reader, path))
}

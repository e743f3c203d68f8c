//! The files that are served: only those named on the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail, ensure};
use b2kit::frame::{FileKind, Links, ReadAt, ReadFiles, RootedDir};

use super::link::name_of;
use crate::files::recognition::open_regular;
use crate::files::urls;

/// Extensions of files that the page can read.
const ENDINGS: &[&str] = &["b2nd", "b2frame", "b2f", "b2z", "b2e", "b2", "bl2"];
/// The index of a sparse frame, a folder.
const INDEX: &str = "chunks.b2frame";
/// Maximum number of listed files of a folder, and maximum depth.
const MAX_FILES: usize = 10_000;
const DEEPEST: usize = 16;

/// A file that can be requested.
#[derive(Debug)]
struct ServedFile {
    /// The displayed name.
    name: String,
    path: PathBuf,
}

/// The files, by number.
pub(super) struct Files {
    list: Vec<ServedFile>,
    /// The folder that was named: links in it are not followed.
    folder: Option<Arc<RootedDir>>,
    /// The file at the URL that was named.
    remote: Option<Arc<dyn ReadAt>>,
}

/// An open file.
pub(super) struct OpenFile {
    pub(super) file: Arc<dyn ReadAt>,
    pub(super) len: u64,
    /// Changes when the file changes.
    pub(super) etag: String,
}

impl Files {
    /// Finds the files at a path or URL.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let one = |name: String| vec![ServedFile { name, path: path.to_owned() }];
        if urls::is_url(path) {
            let name = urls::file_name(path)?;
            let remote = Some(urls::open(path).with_context(|| path.display().to_string())?);
            return Ok(Self { list: one(name), folder: None, remote });
        }
        if !path.is_dir() {
            let path_ = path.display();
            open_regular(path).with_context(|| path_.to_string())?;
            return Ok(Self { list: one(name_of(path)?), folder: None, remote: None });
        }
        let folder = Arc::new(RootedDir::new(path).with_context(|| path.display().to_string())?);
        let mut list = Vec::new();
        below(&folder, folder.path().to_owned(), "", 0, &mut list)?;
        if list.is_empty() {
            bail!("{}: there are no files with one of the extensions {}", path.display(), ENDINGS.join(", "));
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { list, folder: Some(folder), remote: None })
    }

    /// The names, in the order of their numbers.
    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.list.iter().map(|served| served.name.as_str())
    }

    /// Opens a file by its number and name, or a chunk file next to the index of a sparse frame.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none; any error of opening it.
    pub(super) fn open(&self, number: usize, name: &str) -> io::Result<OpenFile> {
        let served = self.list.get(number).ok_or(io::ErrorKind::NotFound)?;
        let mut path = served.path.clone();
        if is_chunk(name) {
            if self.folder.is_none() || path.file_name().is_none_or(|own| own != INDEX) {
                return Err(io::ErrorKind::NotFound.into());
            }
            path.set_file_name(name);
        }
        if let Some(file) = &self.remote {
            let len = file.len()?;
            return Ok(OpenFile { file: file.clone(), len, etag: format!("\"{len:x}\"") });
        }
        let file = match &self.folder {
            Some(folder) => folder.open(&path, Links::Refuse)?,
            None => open_regular(&path).map_err(|error| io::Error::other(format!("{error:#}")))?,
        };
        let len = file.len()?;
        let changed = std::fs::symlink_metadata(&path).and_then(|data| data.modified()).ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let etag = format!("\"{len:x}-{:x}\"", changed.map_or(0, |time| time.as_nanos()));
        Ok(OpenFile { file, len, etag })
    }
}

/// Whether a file of this name holds a chunk of a sparse frame.
fn is_chunk(name: &str) -> bool {
    let id = name.strip_suffix(".chunk");
    id.is_some_and(|id| id.len() == 8 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F')))
}

fn below(
    folder: &RootedDir,
    dir: PathBuf,
    prefix: &str,
    depth: usize,
    list: &mut Vec<ServedFile>,
) -> Result<()> {
    let entries = folder.entries(&dir).with_context(|| dir.display().to_string())?;
    for (name, kind) in entries {
        let (path, Ok(name)) = (dir.join(&name), name.into_string()) else { continue };
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        match kind {
            FileKind::File if ending.is_some_and(|ending| ENDINGS.contains(&ending)) => {
                ensure!(list.len() < MAX_FILES, "{}: more than {MAX_FILES} files", folder.path().display());
                list.push(ServedFile { name: format!("{prefix}{name}"), path });
            }
            FileKind::Directory if depth < DEEPEST => {
                below(folder, path, &format!("{prefix}{name}/"), depth + 1, list)?;
            }
            _ => {}
        }
    }
    Ok(())
}

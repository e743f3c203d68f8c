//! A file system whose paths are URLs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use b2_frame::{FileKind, FileSystem, INDEX_NAME, Links, ReadAt, WriteAt};

use crate::client::{Client, Counts, HttpOptions};
use crate::file::HttpFile;
use crate::url::Url;

/// Maximum number of files that are kept open. Opening takes two requests; an open file holds 80 KiB.
const MOST_OPEN: usize = 64;

/// A file system whose paths are URLs. It only reads. Cloning is cheap; clones share connections.
///
/// The path of a sparse frame is that of the folder with its files.
#[derive(Clone, Debug)]
pub struct Http(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    open: Mutex<HashMap<String, Arc<HttpFile>>>,
    /// URLs by their names without secrets; see [`Http::hide`].
    hidden: Mutex<HashMap<String, String>>,
}

impl Default for Http {
    fn default() -> Self {
        Self::new(HttpOptions::default())
    }
}

impl Http {
    /// Creates a file system with these settings.
    pub fn new(options: HttpOptions) -> Self {
        let client = Client::new(options);
        Self(Arc::new(Shared { client, open: Mutex::default(), hidden: Mutex::default() }))
    }

    /// Creates a file system that shares the connections of this one but has no open files. A file system keeps files
    /// open and assumes that they do not change, so use a new one to see changes.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let client = self.0.client.clone();
        Self(Arc::new(Shared { client, open: Mutex::default(), hidden: Mutex::default() }))
    }

    /// Sets the total time limit of a request, from now on, for all clones.
    pub fn set_timeout(&self, timeout: Duration) {
        self.0.client.set_timeout(timeout);
    }

    /// Sets whether redirects to other hosts are followed from now on, for all clones. Returns the previous value.
    pub fn set_other_hosts(&self, follow: bool) -> bool {
        self.0.client.set_other_hosts(follow)
    }

    /// Returns the number of requests and received bytes so far.
    pub fn counts(&self) -> Counts {
        self.0.client.counts()
    }

    /// Returns a name for a URL that does not show its user, password and query. This file system
    /// opens the name like the URL itself. A URL without them is its own name.
    pub fn hide(&self, url: &str) -> String {
        let Some(parsed) = Url::parse(url) else { return url.to_owned() };
        let shown = parsed.shown();
        if parsed.target() == shown && parsed.authorization().is_none() {
            return url.to_owned();
        }
        let mut hidden = self.0.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = shown.clone();
        let mut count = 1_u32;
        while hidden.get(&name).is_some_and(|known| known != url) {
            count = count.saturating_add(1);
            name = format!("{shown}#{count}");
        }
        hidden.insert(name.clone(), url.to_owned());
        name
    }

    /// Opens a file.
    ///
    /// # Errors
    /// When the path is not a URL, or the server cannot be reached, refuses access or does not support ranges.
    pub fn open_file(&self, path: &Path) -> io::Result<Arc<HttpFile>> {
        self.open_url(self.url(path)?)
    }

    fn open_url(&self, url: Url) -> io::Result<Arc<HttpFile>> {
        let key = format!("{} {:?}", url.target(), url.authorization());
        let lock = || self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = lock().get(&key) {
            return Ok(file.clone());
        }
        let file = Arc::new(HttpFile::open(&self.0.client, url)?);
        let mut open = lock();
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        open.insert(key, file.clone());
        Ok(file)
    }

    /// Returns the URL of a path: the path itself, the URL that it hides, or the URL of a file in a
    /// folder with such a path.
    fn url(&self, path: &Path) -> io::Result<Url> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not an http or https URL");
        let text = path.to_str().ok_or_else(bad)?;
        let parse = |name: &str| {
            let hidden = self.0.hidden.lock().unwrap_or_else(PoisonError::into_inner);
            Url::parse(hidden.get(name).map_or(name, String::as_str))
        };
        let member = |name: &str| name == INDEX_NAME || name.ends_with(".chunk") && name.len() == 14;
        match text.rsplit_once('/') {
            Some((folder, name)) if member(name) => parse(folder).map(|url| url.join(name)).ok_or_else(bad),
            _ => parse(text).ok_or_else(bad),
        }
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "files on web servers can only be read"))
}

impl FileSystem for Http {
    fn kind(&self, path: &Path, _: Links) -> io::Result<FileKind> {
        let url = self.url(path)?;
        let index = || self.open_url(url.join(INDEX_NAME)).map(|_| FileKind::Directory);
        if url.is_folder() {
            return index();
        }
        match self.open_url(url.clone()) {
            Ok(_) => Ok(FileKind::File),
            Err(error) if error.kind() == io::ErrorKind::NotFound => index().map_err(|_| error),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        Ok(self.open_file(path)?)
    }

    fn open_write(&self, _: &Path, _: Links) -> io::Result<Arc<dyn WriteAt>> {
        read_only()
    }
    fn create_new(&self, _: &Path) -> io::Result<Arc<dyn WriteAt>> {
        read_only()
    }
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn remove_file(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn list(&self, _: &Path) -> io::Result<Vec<OsString>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "folders on web servers cannot be listed"))
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }
    fn copy_attributes(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }
}

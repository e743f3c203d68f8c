//! A file system whose paths are URLs.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use b2_frame::{FileKind, INDEX_NAME, Links, OpenFiles, ReadAt, ReadFiles, redact};

use crate::client::{Client, HttpOptions, RequestCounts};
use crate::file::{self, HttpFile, HttpSource};
use crate::url::{Url, is_url};

/// A file system whose paths are URLs. It only reads. Cloning is cheap; clones share connections.
///
/// The path of a sparse frame is the folder that contains its files.
#[derive(Clone, Debug)]
pub struct Http(Arc<HttpState>);

struct HttpState {
    client: Arc<Client>,
    open: OpenFiles<HttpSource>,
    /// URLs by their names without secrets; see [`Http::hide`].
    hidden: Mutex<HashMap<String, String>>,
}

impl fmt::Debug for HttpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hidden URLs contain secrets.
        f.debug_struct("Shared").field("client", &self.client).finish_non_exhaustive()
    }
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
        Self(Arc::new(HttpState { client, open: OpenFiles::default(), hidden: Mutex::default() }))
    }

    /// Creates a file system that shares the connections of this one but has no open files. A file system keeps files
    /// open and assumes that they do not change, so use a new one to see changes.
    #[must_use]
    pub fn reopened(&self) -> Self {
        let client = self.0.client.clone();
        Self(Arc::new(HttpState { client, open: OpenFiles::default(), hidden: Mutex::default() }))
    }

    /// Sets the total time limit of a request, from now on, for all clones. Returns the previous value.
    pub fn set_timeout(&self, timeout: Duration) -> Duration {
        self.0.client.set_timeout(timeout)
    }

    /// Sets whether redirects to other hosts are followed from now on, for all clones. Returns the previous value.
    pub fn set_other_hosts(&self, follow: bool) -> bool {
        self.0.client.set_other_hosts(follow)
    }

    /// Returns the number of requests and received bytes so far.
    pub fn counts(&self) -> RequestCounts {
        self.0.client.counts()
    }

    /// Returns a name for a URL that does not show its user, password and query. This file system
    /// opens the name like the URL itself. A URL without them is its own name.
    pub fn hide(&self, url: &str) -> String {
        let redacted = redact(url);
        // An invalid URL, such as one with a blank, may contain secrets, too.
        if redacted == url || is_url(url) && Url::parse(url).is_some_and(|url| url.is_public()) {
            return url.to_owned();
        }
        let mut hidden = self.0.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = redacted.clone();
        let mut count = 1_u32;
        while hidden.get(&name).is_some_and(|known| known != url) {
            count = count.saturating_add(1);
            name = format!("{redacted}#{count}");
        }
        hidden.insert(name.clone(), url.to_owned());
        name
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when the path is not a URL; [`io::ErrorKind::NotFound`] or
    /// [`io::ErrorKind::PermissionDenied`] as reported by the server; [`io::ErrorKind::Unsupported`] when it does not
    /// support ranges; [`io::ErrorKind::TimedOut`], [`io::ErrorKind::HostUnreachable`] or the connection's error when
    /// it cannot be reached; [`io::ErrorKind::InvalidData`] when its response is invalid.
    pub fn open_file(&self, path: &Path) -> io::Result<Arc<HttpFile>> {
        self.0.open_file(path)
    }
}

impl HttpState {
    fn open_file(&self, path: &Path) -> io::Result<Arc<HttpFile>> {
        let url = self.url(path)?;
        let key = format!("{} {:?}", url.target(), url.authorization());
        self.open.get(&key, || file::open(&self.client, url))
    }

    /// Returns the URL of a path: the path itself, the URL that it hides, or the URL of a file in a
    /// folder with such a path, which on Windows is joined by a backslash.
    fn url(&self, path: &Path) -> io::Result<Url> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not an http or https URL");
        let text = path.to_str().ok_or_else(bad)?;
        let parse = |name: &str| {
            let hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
            Url::parse(hidden.get(name).map_or(name, String::as_str))
        };
        match member(text, std::path::is_separator) {
            Some((folder, name)) => parse(folder).map(|url| url.join(name)).ok_or_else(bad),
            None => parse(text).ok_or_else(bad),
        }
    }
}

/// Splits the path of a file of a sparse frame into that of the folder and a name.
fn member(path: &str, is_separator: fn(char) -> bool) -> Option<(&str, &str)> {
    let of_frame = |name: &str| name == INDEX_NAME || name.ends_with(".chunk") && name.len() == 14;
    path.rsplit_once(is_separator).filter(|(_, name)| of_frame(name))
}

impl ReadFiles for Http {
    fn open(&self, path: &Path, links: Links) -> io::Result<Arc<dyn ReadAt>> {
        self.0.open(path, links)
    }

    fn kind(&self, path: &Path, links: Links) -> io::Result<FileKind> {
        match self.0.url(path)?.is_folder() {
            true => self.open(&path.join(INDEX_NAME), links).map(|_| FileKind::Directory),
            false => self.0.kind(path, links),
        }
    }
}

impl ReadFiles for HttpState {
    fn open(&self, path: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        Ok(self.open_file(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_have_its_url() {
        let http = Http::default();
        let folder = http.hide("http://me:secret@host/a/b.b2nd?key=1");
        for name in [INDEX_NAME, "0000000F.chunk"] {
            // As joined on this system.
            let url = http.0.url(&Path::new(&folder).join(name)).unwrap();
            assert_eq!(url.target(), format!("http://host/a/b.b2nd/{name}?key=1"));
            assert!(url.authorization().is_some());
            let url = http.0.url(&Path::new("http://host/a/").join(name)).unwrap();
            assert_eq!(url.target(), format!("http://host/a/{name}"));
        }
        assert_eq!(http.0.url(Path::new("http://host/a/b")).unwrap().target(), "http://host/a/b");
        assert_eq!(http.hide("http://host/a#top"), "http://host/a#top");
        for bad in ["http://me:secret@host/a b", "http://me:sec/secret@host/a", "ftp://me:secret@host/a"] {
            let name = http.hide(bad);
            assert!(!name.contains("secret") && http.0.url(Path::new(&name)).is_err(), "{name}");
        }
        assert!(!format!("{http:?}").contains("secret"));
    }

    #[test]
    fn windows_joins_with_a_backslash() {
        let unix = |c| c == '/';
        let windows = |c| c == '/' || c == '\\';
        let path = "http://host/a\\0000000F.chunk";
        assert_eq!(member(path, windows), Some(("http://host/a", "0000000F.chunk")));
        assert_eq!(member(path, unix), None);
        let path = "http://host/a/0000000F.chunk";
        assert_eq!(member(path, windows), member(path, unix));
        assert_eq!(member(path, unix), Some(("http://host/a", "0000000F.chunk")));
        assert_eq!(member("http://host/a\\b.b2nd", windows), None);
    }
}

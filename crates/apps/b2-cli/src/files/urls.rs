//! URLs in place of files: `http://` and `https://` through `b2-http`, `file://`, and those of object stores
//! through `b2-object-store`, with the feature `stores`.
//!
//! The rest of the command treats a URL as a path. If it has a user, a password or a query, which may be secret, it is
//! replaced by a name without them before anything else sees it; this module maps the name back to the URL.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use b2kit::frame::{FileKind, ReadAt, ReadFiles, redact};

use super::members;
use crate::args::Global;
use crate::print::thousands;
use crate::process::{Usage, one_line, signals};

/// Whether this is a remote URL.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|path| scheme(path).is_some())
}

fn scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once("://")?;
    ["http", "https", "s3", "gs", "az", "ftp"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then_some(scheme)
}

/// Whether this is the URL of an object in a store.
fn is_store(path: &Path) -> bool {
    let scheme = path.to_str().and_then(scheme).unwrap_or_default();
    ["s3", "gs", "az"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Checks early that a file can be stored under a URL.
pub(crate) fn check_upload(url: &Path) -> io::Result<()> {
    match is_store(url) {
        true => stores::check(),
        false => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "web servers accept no uploads: a URL to write to starts with s3://, gs:// or az://",
        )),
    }
}

/// Stores a file under a URL, completely or not at all.
///
/// # Errors
/// Fails if the store refuses, if the command is stopped, or if the object exists and `replace` is not given.
pub(crate) fn upload(file: &dyn ReadAt, url: &Path, replace: bool) -> io::Result<()> {
    check_upload(url)?;
    let name = url.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    stores::upload(name, file, replace, &mut || signals::check().map_err(io::Error::other))
}

/// Replaces the remote URLs of a command line by names without secrets, and `file://` URLs by paths.
pub(crate) fn hide_all(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    args.into_iter().map(|arg| hide(&arg)).collect()
}

/// Replaces a remote URL by a name without secrets, and a `file://` URL by its path. Leaves anything else unchanged.
pub(crate) fn hide(name: &OsStr) -> OsString {
    match name.to_str() {
        Some(url) if url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("file://")) => {
            path_of(url).map_or_else(|| name.to_owned(), OsString::from)
        }
        // Stores take their credentials from the environment, not from the URL.
        Some(url) if is_store(Path::new(url)) => redact(url).into(),
        Some(url) if scheme(url).is_some() => match members::split(Path::new(url)) {
            // A member name after `::` is not part of the query.
            Some((file, name)) => {
                format!("{}::{name}", known::hide(file.to_str().unwrap_or_default())).into()
            }
            None => known::hide(url).into(),
        },
        _ => name.to_owned(),
    }
}

/// The path of a `file://` URL; `None` if it names another host.
fn path_of(url: &str) -> Option<PathBuf> {
    let rest = url.get(7..)?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let out = unescape(path)?;
    #[cfg(unix)]
    return Some(PathBuf::from(<OsString as std::os::unix::ffi::OsStringExt>::from_vec(out)));
    #[cfg(not(unix))]
    return Some(PathBuf::from(windows_path(&String::from_utf8(out).ok()?)));
}

/// The path of Windows that the path of a `file://` URL names. The slash in front of a drive, as in `/C:/a`, is dropped.
/// Any other path keeps it, or it would be relative.
#[cfg(any(not(unix), test))]
fn windows_path(path: &str) -> &str {
    match path.as_bytes() {
        [b'/', drive, b':', ..] if drive.is_ascii_alphabetic() => path.get(1..).unwrap_or(path),
        _ => path,
    }
}

/// The last part of a URL's path, as a file name.
///
/// # Errors
/// Fails if there is none, or if it is not a safe file name.
pub(crate) fn file_name(url: &Path) -> anyhow::Result<String> {
    let text = url.to_str().unwrap_or_default();
    let path =
        text.split_once("://").map_or("", |(_, rest)| rest).split(['?', '#']).next().unwrap_or_default();
    // Skip the host or the bucket.
    let (_, path) = path.split_once('/').unwrap_or_default();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let decoded = unescape(last).and_then(|name| String::from_utf8(name).ok());
    // Reject names that a server could choose to escape the folder.
    let fits = |name: &String| {
        !name.is_empty()
            && !name.starts_with(['.', '-'])
            && !name.contains(['/', '\\', ':'])
            && (cfg!(unix) || !name.contains(['*', '?', '"', '<', '>', '|']))
            && !name.chars().any(char::is_control)
    };
    decoded.filter(fits).context("the URL has no name for a new file: give -o OUT")
}

/// Decodes percent-encoding; `None` if a `%` is not followed by two hexadecimal digits.
fn unescape(part: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => out.push(byte),
        }
    }
    Some(out)
}

/// The name of the file; for a URL, its last part as a name in the current folder.
///
/// # Errors
/// Returns [`Usage`] if a URL has no last part.
pub(crate) fn local_name(file: &Path) -> anyhow::Result<Cow<'_, Path>> {
    if !is_url(file) {
        return Ok(Cow::Borrowed(file));
    }
    let name = file_name(file).with_context(|| file.display().to_string());
    Ok(Cow::Owned(name.map_err(|error| Usage(one_line(&error)))?.into()))
}

/// The kind of file that a URL names.
///
/// # Errors
/// Fails if the server cannot be reached or refuses, or if this build does not support such URLs.
pub(crate) fn kind(path: &Path) -> io::Result<FileKind> {
    if !is_store(path) {
        known::check(path)?;
    }
    file_system(path)?.kind(path, b2kit::frame::Links::Follow)
}

/// Opens the file of a URL. Warns if changes of the file cannot be detected.
pub(crate) fn open(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    if is_store(path) {
        return stores::file_system()?.open(path, b2kit::frame::Links::Follow);
    }
    known::check(path)?;
    known::open(path)
}

/// The file system for URLs like this one.
///
/// # Errors
/// Fails if this build does not support object stores.
pub(crate) fn file_system(path: &Path) -> io::Result<Arc<dyn ReadFiles>> {
    if is_store(path) { stores::file_system() } else { Ok(known::file_system()) }
}

/// Reports the requests to servers, for `--verbose`.
pub(crate) fn report(global: Global) {
    known::report(global);
    if let Some((requests, bytes)) = stores::counts().filter(|(n, _)| *n > 0) {
        global.log(|| format!("{requests} requests to stores, {} bytes of objects read", thousands(bytes)));
    }
}

pub(crate) use known::begin;

#[cfg(feature = "stores")]
mod stores {
    use std::io;
    use std::sync::{Arc, OnceLock};

    use b2_object_store::Stores;
    use b2kit::frame::{ReadAt, ReadFiles};

    static STORES: OnceLock<Stores> = OnceLock::new();

    fn stores() -> io::Result<&'static Stores> {
        match STORES.get() {
            Some(stores) => Ok(stores),
            None => Stores::new().map(|stores| STORES.get_or_init(|| stores)),
        }
    }

    pub(super) fn check() -> io::Result<()> {
        stores().map(drop)
    }

    pub(super) fn file_system() -> io::Result<Arc<dyn ReadFiles>> {
        Ok(Arc::new(stores()?.clone()))
    }

    pub(super) fn upload(
        url: &str,
        file: &dyn ReadAt,
        replace: bool,
        check: &mut (dyn FnMut() -> io::Result<()> + Send),
    ) -> io::Result<()> {
        stores()?.upload(url, file, replace, check)
    }

    pub(super) fn counts() -> Option<(u64, u64)> {
        STORES.get().map(Stores::counts)
    }
}

#[cfg(not(feature = "stores"))]
mod stores {
    use std::io;
    use std::sync::Arc;

    use b2kit::frame::{ReadAt, ReadFiles};

    fn unsupported<T>() -> io::Result<T> {
        let none = "this program cannot open object stores: it was built without the feature `stores`";
        Err(io::Error::new(io::ErrorKind::Unsupported, none))
    }

    pub(super) fn check() -> io::Result<()> {
        unsupported()
    }

    pub(super) fn file_system() -> io::Result<Arc<dyn ReadFiles>> {
        unsupported()
    }

    pub(super) fn upload(
        _: &str,
        _: &dyn ReadAt,
        _: bool,
        _: &mut (dyn FnMut() -> io::Result<()> + Send),
    ) -> io::Result<()> {
        unsupported()
    }

    pub(super) fn counts() -> Option<(u64, u64)> {
        None
    }
}

#[cfg(feature = "http")]
mod known {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::Duration;

    use b2_http::Http;

    use super::{Arc, Global, Path, PathBuf, ReadAt, ReadFiles, io};
    use crate::print::thousands;
    use crate::process::error::say;

    static WEB: LazyLock<Http> = LazyLock::new(Http::default);
    static QUIET: AtomicBool = AtomicBool::new(false);

    pub(super) fn hide(url: &str) -> String {
        WEB.hide(url)
    }

    /// Applies the settings of the command line.
    pub(crate) fn begin(global: Global) {
        QUIET.store(global.quiet, Relaxed);
        if let Some(seconds) = global.timeout {
            WEB.set_timeout(Duration::from_secs(seconds.into()));
        }
        WEB.set_other_hosts(!global.same_host);
    }

    /// The file system for URLs.
    pub(super) fn file_system() -> Arc<dyn ReadFiles> {
        Arc::new(WEB.clone())
    }

    pub(super) fn check(path: &Path) -> io::Result<()> {
        match b2_http::is_url(path) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "only http and https URLs can be read")),
        }
    }

    pub(super) fn open(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
        static REPORTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let file = WEB.open_file(path)?;
        if !file.version().is_guarded()
            && !QUIET.load(Relaxed)
            && REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
        {
            say(&format!(
                "{}: the server sends neither a strong ETag nor a time of change: should the file change while it is \
                 read, that may go unnoticed",
                path.display()
            ));
        }
        Ok(file)
    }

    /// Reports the requests to servers, for `--verbose`.
    pub(super) fn report(global: Global) {
        let counts = WEB.counts();
        if counts.requests > 0 {
            global.log(|| {
                format!("{} requests to servers, {} bytes of files", counts.requests, thousands(counts.bytes))
            });
        }
    }
}

#[cfg(not(feature = "http"))]
mod known {
    use super::{Arc, Global, Path, ReadAt, ReadFiles, io};

    pub(super) fn hide(url: &str) -> String {
        b2kit::frame::redact(url)
    }

    pub(crate) fn begin(_: Global) {}

    pub(super) fn file_system() -> Arc<dyn ReadFiles> {
        Arc::new(b2kit::frame::Disk)
    }

    pub(super) fn check(_: &Path) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this build cannot read URLs (feature http)"))
    }

    pub(super) fn open(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
        check(path)?;
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn report(_: Global) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_url_is_a_name() {
        let name = |url: &str| file_name(Path::new(url)).ok();
        for (url, expected) in [
            ("https://host/a/data.b2nd", Some("data.b2nd")),
            ("https://host/a/two%20words.b2nd?key=1#x", Some("two words.b2nd")),
            ("s3://bucket/store/dir.b2nd/", Some("dir.b2nd")),
            ("https://host", None),
            ("https://host/", None),
            ("s3://bucket", None),
            ("https://host/a/..", None),
            ("https://host/%2e%2e", None),
            ("https://host/..%2Fetc%2fpasswd", None),
            ("https://host/a%00b", None),
            ("https://host/a%zz", None),
            ("https://host/.bashrc", None),
        ] {
            assert_eq!(name(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn urls_of_files_are_their_paths() {
        let path = |url: &str| hide(OsStr::new(url)).into_string().unwrap();
        assert_eq!(path("file:///a/b%20c.b2nd"), "/a/b c.b2nd");
        assert_eq!(path("FILE://localhost/a"), "/a");
        assert_eq!(path("file:///C:/a"), if cfg!(windows) { "C:/a" } else { "/C:/a" });
        assert_eq!(path("file://host/a"), "file://host/a");
        assert_eq!(path("data.b2nd"), "data.b2nd");
        for (url, expected) in [
            ("/C:/a b", "C:/a b"),
            ("/c:", "c:"),
            ("/a", "/a"),
            ("/", "/"),
            ("//server/a", "//server/a"),
            ("/1:/a", "/1:/a"),
            ("/é:/a", "/é:/a"),
        ] {
            assert_eq!(windows_path(url), expected);
        }
        assert!(!path("https://me:secret@host/a?token=secret").contains("secret"));
        let inside = path("https://host/a.h5?token=secret::/b");
        assert!(inside.ends_with("::/b") && !inside.contains("secret"), "{inside}");
        for url in [
            "https://me:secret@host/a b",
            "https://me:x/secret@host/a",
            "ftp://me:secret@host/a",
            "s3://b/a?x=secret",
        ] {
            assert!(!path(url).contains("secret"), "{url}");
        }
        assert!(is_url(Path::new("S3://bucket/a")) && !is_url(Path::new("a://b")));
    }
}

//! `FILE::NAME`: an object inside a file, by its name.

use std::path::{Path, PathBuf};

/// Splits `FILE::NAME`. `None` if there is no name, or if a file with the whole text as its name exists.
///
/// The first `::` counts; in a URL, the first after the host.
pub(crate) fn split(path: &Path) -> Option<(PathBuf, String)> {
    let Some(text) = path.to_str() else { return split_bytes(path) };
    let start = match text.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        None => 0,
    };
    let at = start + text.get(start..)?.find("::")?;
    let (file, name) = (text.get(..at)?, text.get(at + 2..)?);
    if file.is_empty() || name.is_empty() || start == 0 && path.exists() {
        return None;
    }
    Some((file.into(), name.to_owned()))
}

/// Splits the path of a file whose name is not UTF-8.
#[cfg(unix)]
fn split_bytes(path: &Path) -> Option<(PathBuf, String)> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.windows(2).position(|pair| pair == b"::")?;
    let (file, name) = (bytes.get(..at)?, str::from_utf8(bytes.get(at + 2..)?).ok()?);
    let none = file.is_empty() || name.is_empty() || path.exists();
    (!none).then(|| (OsStr::from_bytes(file).into(), name.to_owned()))
}

#[cfg(not(unix))]
fn split_bytes(_: &Path) -> Option<(PathBuf, String)> {
    None
}

/// The file of a path that may name an object inside it.
pub(crate) fn file(path: &Path) -> PathBuf {
    split(path).map_or_else(|| path.to_owned(), |(file, _)| file)
}

/// The extension of a file in lower case.
pub(crate) fn extension(path: &Path) -> Option<String> {
    path.extension()?.to_str().map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_two_colons() {
        for (path, expected) in [
            ("x.h5::/a/b", Some(("x.h5", "/a/b"))),
            ("x.nc::t", Some(("x.nc", "t"))),
            ("a/x.h5::b::c", Some(("a/x.h5", "b::c"))),
            (r"C:\x.h5::/a", Some((r"C:\x.h5", "/a"))),
            ("https://host/x.h5::/a", Some(("https://host/x.h5", "/a"))),
            ("https://host/x.h5?key=1::/a", Some(("https://host/x.h5?key=1", "/a"))),
            ("https://[::1]:80/x.h5::a", Some(("https://[::1]:80/x.h5", "a"))),
            ("https://[::1]:80/x.h5", None),
            ("http://[::1]", None),
            ("x.h5", None),
            ("x.h5::", None),
            ("::a", None),
        ] {
            let expected = expected.map(|(file, name)| (PathBuf::from(file), name.to_owned()));
            assert_eq!(split(Path::new(path)), expected, "{path}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let of = |bytes: &[u8]| split(Path::new(std::ffi::OsStr::from_bytes(bytes)));
            let (file, name) = of(b"\xff.b2d::/a::b").unwrap();
            assert_eq!((file.as_os_str().as_bytes(), &*name), (&b"\xff.b2d"[..], "/a::b"));
            for none in [&b"\xff.b2d"[..], b"\xff.b2d::", b"x.b2d::\xff"] {
                assert_eq!(of(none), None);
            }
        }
        // A file may have such a name.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a::b");
        if std::fs::write(&path, b"").is_ok() && path.exists() {
            assert_eq!(split(&path), None);
        }
    }
}

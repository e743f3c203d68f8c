//! `FILE::NAME`: an object inside a file, by its name.

use std::path::{Path, PathBuf};

/// Splits `FILE::NAME`. `None` if there is no name, or if a file with the whole text as its name exists.
///
/// The first `::` counts; in a URL, the first after the host.
pub(crate) fn split(path: &Path) -> Option<(PathBuf, String)> {
    let text = path.to_str()?;
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
        // A file may have such a name.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a::b");
        if std::fs::write(&path, b"").is_ok() && path.exists() {
            assert_eq!(split(&path), None);
        }
    }
}

//! Installing `libblosc2` into a folder, and removing it from there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::notices;

/// The name by which programs find the library.
pub(super) const SONAME: &str = "libblosc2.so.9";
/// Where licences go.
const DOC: &str = "share/doc/libblosc2-b2kit";
/// The list of what was installed, one path within the folder per line.
const LIST: &str = "share/doc/libblosc2-b2kit/FILES";

/// What a file has in it.
enum Content {
    CopyOf(PathBuf),
    Text(String),
    LinkTo(&'static str),
}

/// Files by their paths within the folder.
type Files = BTreeMap<String, Content>;

/// Installs the libraries, and of the package in a folder the headers, the file of pkg-config and the licences.
///
/// # Errors
/// Fails if files of these names are there that no earlier installation has put there, such as those of C-Blosc2.
pub(super) fn install(package: &Path, libraries: &Path, prefix: &Path) -> Result<()> {
    fs::create_dir_all(prefix).with_context(|| format!("cannot create {}", prefix.display()))?;
    let prefix = fs::canonicalize(prefix)?;
    put(files(package, libraries, &prefix)?, &prefix)
}

fn files(package: &Path, libraries: &Path, prefix: &Path) -> Result<Files> {
    let mut files = Files::new();
    files.insert(format!("lib/{SONAME}"), Content::CopyOf(libraries.join("libblosc2.so")));
    files.insert("lib/libblosc2.so".into(), Content::LinkTo(SONAME));
    files.insert("lib/libblosc2.a".into(), Content::CopyOf(libraries.join("libblosc2.a")));
    let template = fs::read_to_string(package.join("blosc2.pc.in"))?;
    let described = template.replace("@PREFIX@", &prefix.display().to_string());
    files.insert("lib/pkgconfig/blosc2.pc".into(), Content::Text(described));
    for name in ["Blosc2Config.cmake", "Blosc2ConfigVersion.cmake"] {
        files.insert(format!("lib/cmake/blosc2/{name}"), Content::CopyOf(package.join("cmake").join(name)));
    }
    for part in ["include", "include/blosc2"] {
        for entry in fs::read_dir(package.join(part))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "h") {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(format!("{part}/{name}"), Content::CopyOf(path));
            }
        }
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
        files.insert(format!("{DOC}/{name}"), Content::CopyOf(package.join(name)));
    }
    let notices = notices::of_package("b2-c")?;
    files.insert(format!("{DOC}/THIRD-PARTY.txt"), Content::Text(notices));
    Ok(files)
}

/// Writes files, and removes those of an earlier installation that are no longer among them.
fn put(files: Files, prefix: &Path) -> Result<()> {
    let before = installed(prefix)?.unwrap_or_default();
    for path in files.keys().filter(|path| !before.contains(path)) {
        ensure!(
            fs::symlink_metadata(prefix.join(path)).is_err(),
            "{} is there and not from an earlier installation: choose another folder",
            prefix.join(path).display()
        );
    }
    for path in before.iter().filter(|path| !files.contains_key(*path)) {
        remove(prefix, path)?;
    }
    // First of all, so that also half an installation can be removed.
    let list: String = files.keys().map(|path| format!("{path}\n")).collect();
    write(prefix, LIST, &Content::Text(list))?;
    files.iter().try_for_each(|(path, content)| write(prefix, path, content))
}

/// Writes a file beside its place and renames it: programs may use the one that it replaces.
fn write(prefix: &Path, path: &str, content: &Content) -> Result<()> {
    let to = prefix.join(path);
    let parent = to.parent().context("a file in no folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let new = parent.join(format!(".b2kit-new-{}", path.rsplit('/').next().unwrap_or(path)));
    let _ = fs::remove_file(&new);
    let written = match content {
        Content::CopyOf(from) => fs::copy(from, &new).map(drop),
        Content::Text(text) => fs::write(&new, text),
        Content::LinkTo(name) => symlink(name, &new),
    };
    written.and_then(|()| fs::rename(&new, &to)).with_context(|| format!("cannot write {}", to.display()))
}

/// Removes what [`install`] has put into a folder, and the folders that are empty then.
///
/// # Errors
/// Fails if nothing was installed there.
pub(super) fn uninstall(prefix: &Path) -> Result<()> {
    let Some(files) = installed(prefix)? else {
        anyhow::bail!("{} has no {LIST}: nothing was installed there", prefix.display())
    };
    files.iter().try_for_each(|path| remove(prefix, path))?;
    remove(prefix, LIST)
}

/// Returns what an earlier installation has put into a folder, if there was one.
fn installed(prefix: &Path) -> Result<Option<Vec<String>>> {
    let list = prefix.join(LIST);
    if !list.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let files: Vec<String> = text.lines().map(str::to_owned).collect();
    let within = |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(files.iter().all(|path| within(path)), "{} has paths outside of its folder", list.display());
    Ok(Some(files))
}

/// Removes a file, if it is there, and the folders that are empty then.
fn remove(prefix: &Path, path: &str) -> Result<()> {
    let file = prefix.join(path);
    if fs::symlink_metadata(&file).is_ok() {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    for folder in Path::new(path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        // Fails where something else is in it.
        if fs::remove_dir(prefix.join(folder)).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Files {
        names.iter().map(|name| ((*name).to_owned(), Content::Text("x".into()))).collect()
    }

    #[test]
    fn what_was_installed_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path();
        assert!(uninstall(prefix).is_err(), "nothing is there");
        fs::create_dir_all(prefix.join("lib")).unwrap();
        fs::write(prefix.join("lib/other.so"), "not ours").unwrap();
        let mut first = files(&["lib/a.so.9", "include/a/b.h", "include/old.h"]);
        first.insert("lib/a.so".into(), Content::LinkTo("a.so.9"));
        put(first, prefix).unwrap();
        assert_eq!(fs::read_to_string(prefix.join("lib/a.so")).unwrap(), "x");
        put(files(&["lib/a.so.9", "include/a/b.h"]), prefix).unwrap();
        assert!(!prefix.join("include/old.h").exists() && !prefix.join("lib/a.so").exists());
        uninstall(prefix).unwrap();
        let left: Vec<_> = fs::read_dir(prefix).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["lib"]);
        let left: Vec<_> =
            fs::read_dir(prefix.join("lib")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other.so"]);
    }

    #[test]
    fn files_of_others_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.so.9"), "not ours").unwrap();
        let error = put(files(&["a.so.9", "b.h"]), folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("not from an earlier installation"), "{error:#}");
        assert_eq!(fs::read_to_string(folder.path().join("a.so.9")).unwrap(), "not ours");
        assert!(!folder.path().join("b.h").exists() && !folder.path().join("share").exists());
    }

    #[test]
    fn nothing_outside_of_the_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("prefix");
        fs::write(folder.path().join("precious"), "x").unwrap();
        write(&prefix, LIST, &Content::Text("../precious\n".into())).unwrap();
        assert!(uninstall(&prefix).is_err());
        assert!(folder.path().join("precious").exists());
    }
}

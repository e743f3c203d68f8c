//! Paths from C.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::abi::code;
use crate::core::error::{Error, Result, ensure};
use crate::ffi::{guard, text};

/// Strips `file:///`, which C-Blosc2 allows before paths, even relative ones.
pub(crate) fn without_scheme(path: &CStr) -> &CStr {
    let rest = path.to_bytes_with_nul().strip_prefix(b"file:///");
    rest.and_then(|rest| CStr::from_bytes_with_nul(rest).ok()).unwrap_or(path)
}

/// Strips trailing separators from a path.
pub(crate) fn trimmed(path: &CStr) -> &Path {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(bytes.len(), |last| last + 1);
    Path::new(OsStr::from_bytes(&bytes[..end]))
}

/// Returns the path of a file. Fails with `code` if it ends with a separator.
pub(crate) fn of_file(path: &CStr, code: i32) -> Result<&Path> {
    let bytes = path.to_bytes();
    ensure(!bytes.is_empty() && !bytes.ends_with(b"/"), code)?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Removes a directory and the files in it.
///
/// # Safety
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_remove_dir(path: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let path = trimmed(unsafe { text(path) }?);
        let entries = std::fs::read_dir(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error(code::NOT_FOUND),
            _ => Error(code::FILE_OPEN),
        })?;
        for entry in entries {
            let entry = entry.map_err(|_| Error(code::FAILURE))?;
            std::fs::remove_file(entry.path()).map_err(|_| Error(code::FAILURE))?;
        }
        std::fs::remove_dir(path).map_err(|_| Error(code::FAILURE))?;
        Ok(0)
    })
}

/// Removes a file, or a directory and the files in it. A missing path is not an error.
///
/// # Safety
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_remove_urlpath(path: *const c_char) -> c_int {
    guard(|| {
        if path.is_null() {
            return Ok(0);
        }
        // SAFETY: guaranteed by the caller.
        let file = trimmed(without_scheme(unsafe { text(path) }?));
        let Ok(meta) = std::fs::symlink_metadata(file) else { return Ok(0) };
        if meta.is_dir() {
            // SAFETY: as above.
            return Ok(unsafe { blosc2_remove_dir(without_scheme(text(path)?).as_ptr()) });
        }
        std::fs::remove_file(file).map_err(|_| Error(code::FILE_REMOVE))?;
        // Remove its lock file, too.
        let mut lock = file.as_os_str().to_owned();
        lock.push(".b2lock");
        let _ = std::fs::remove_file(lock);
        Ok(0)
    })
}

/// Renames a file or directory.
///
/// # Safety
/// Both are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blosc2_rename_urlpath(old_urlpath: *mut c_char, new_path: *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        let (from, to) = unsafe { (text(old_urlpath)?, text(new_path)?) };
        let (from, to) = (trimmed(without_scheme(from)), trimmed(without_scheme(to)));
        ensure(from.exists(), code::FAILURE)?;
        std::fs::rename(from, to).map_err(|_| Error(code::FAILURE))?;
        Ok(0)
    })
}

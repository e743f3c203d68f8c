//! Windows functions that the standard library lacks: the lock of one byte that C-Blosc2 uses, the identity of a file,
//! and renaming to a name that must not exist. Also determines why a file could not be replaced.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Component, Path, Prefix};
use std::time::Duration;

use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ID_INFO, FileIdInfo, GetFileInformationByHandle,
    GetFileInformationByHandleEx, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
    MoveFileExW, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use crate::storage::traits::FileId;

/// Pauses between attempts to rename a file over another that is in use, in milliseconds: readers open a file for a
/// moment, virus scanners and indexers after every change.
const PAUSES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Returns the identity of a file and the number of its hard links.
#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
pub(crate) fn identity(file: &File) -> io::Result<(FileId, u64)> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and `found` is a place for the result.
    done(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) })?;
    let index = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    let short = FileId::new(found.dwVolumeSerialNumber.into(), index.into());
    Ok((long_identity(file).unwrap_or(short), found.nNumberOfLinks.into()))
}

/// Returns the identity with all 128 bits, which ReFS needs to distinguish its files. `None` if the file system does
/// not have it.
#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
fn long_identity(file: &File) -> Option<FileId> {
    let mut found = FILE_ID_INFO::default();
    let len = size_of::<FILE_ID_INFO>() as u32;
    // SAFETY: the handle is open as long as `file` is borrowed, and `found` is a place of `len` bytes for the result.
    let answer = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), FileIdInfo, (&raw mut found).cast(), len)
    };
    done(answer).ok()?;
    Some(FileId::new(found.VolumeSerialNumber, u128::from_le_bytes(found.FileId.Identifier)))
}

/// Waits for an exclusive lock on byte 0, as C-Blosc2 does. Locks of Windows are mandatory: other handles can neither
/// read nor write the byte, but all bytes after it.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    lock_byte(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Returns whether there is an exclusive lock on byte 0.
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    // A shared lock, so that processes that check do not block each other.
    match lock_byte(file, LOCKFILE_FAIL_IMMEDIATELY) {
        Ok(()) => unlock(file).map(|()| false),
        Err(error) if is(&error, ERROR_LOCK_VIOLATION) => Ok(true),
        Err(error) => Err(error),
    }
}

#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
fn lock_byte(file: &File, flags: u32) -> io::Result<()> {
    let mut start = OVERLAPPED::default();
    // SAFETY: the handle is open as long as `file` is borrowed. The standard library opens files for synchronous calls,
    // so nothing uses `start`, the start of the range, after the call.
    done(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut start) })
}

/// Releases the lock.
#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    let mut start = OVERLAPPED::default();
    // SAFETY: as in `lock_byte`.
    done(unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut start) })
}

/// Renames a file or directory, replacing a file of the new name unless it is open.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    patiently(from, to, || std::fs::rename(from, to))
}

/// Renames a file to a name that must not exist yet.
#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (wide(from)?, wide(to)?);
    // SAFETY: both are strings that end with a zero, and live until the call has returned.
    patiently(from, to, || done(unsafe { MoveFileExW(old.as_ptr(), new.as_ptr(), 0) }))
}

fn patiently(from: &Path, to: &Path, rename: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let busy = |error: &io::Error| is(error, ERROR_ACCESS_DENIED) || is(error, ERROR_SHARING_VIOLATION);
    let mut result = rename();
    for pause in PAUSES {
        if !result.as_ref().is_err_and(busy) {
            return result;
        }
        std::thread::sleep(Duration::from_millis(pause));
        result = rename();
    }
    result.map_err(|error| match busy(&error) {
        true if is_open(to) => io::Error::new(error.kind(), InUse { what: "it", source: error }),
        // Windows renames no folder while a file in it is open.
        true if from.is_dir() => io::Error::new(error.kind(), InUse { what: "a file in it", source: error }),
        _ => error,
    })
}

/// Returns whether the file is open, in any process including this one.
fn is_open(path: &Path) -> bool {
    let alone = OpenOptions::new().read(true).share_mode(0).open(path);
    alone.is_err_and(|error| is(&error, ERROR_SHARING_VIOLATION))
}

#[derive(Debug, thiserror::Error)]
#[error("{what} is open, in this program or another one, so it cannot be replaced until it is closed")]
struct InUse {
    what: &'static str,
    source: io::Error,
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error().is_some_and(|found| found.cast_unsigned() == code)
}

/// Returns the result of a call that returns 0 if it fails.
fn done(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the path as a string of Windows, in the form that may be longer than 260 characters.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let absolute = std::path::absolute(path)?;
    let skipped = match absolute.components().next() {
        Some(Component::Prefix(prefix)) => match prefix.kind() {
            Prefix::Disk(_) => Some((r"\\?\", 0)),
            Prefix::UNC(..) => Some((r"\\?\UNC\", 2)),
            _ => None,
        },
        _ => None,
    };
    let (start, skip) = skipped.unwrap_or(("", 0));
    let rest = absolute.as_os_str().encode_wide().skip(skip);
    let mut out: Vec<u16> = start.encode_utf16().chain(rest).collect();
    if out.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a zero in a path"));
    }
    out.push(0);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::windows::fs::FileExt;

    use super::*;

    fn open(path: &Path) -> File {
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// C-Blosc2 and readers read the counter after the locked byte.
    #[test]
    fn only_byte_0_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, [7; 32]).unwrap();
        let (one, two) = (open(&path), open(&path));
        assert!(!is_locked(&two).unwrap());
        lock(&one).unwrap();
        assert!(is_locked(&two).unwrap());
        let mut read = [0; 24];
        assert_eq!(two.seek_read(&mut read, 8).unwrap(), 24);
        unlock(&one).unwrap();
        assert!(!is_locked(&two).unwrap());
        lock(&one).unwrap();
        drop(one);
        assert!(!is_locked(&two).unwrap());
    }

    #[test]
    fn files_have_an_identity_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        let (a, b) = (open(&path("a")), open(&path("b")));
        assert_ne!(identity(&a).unwrap(), identity(&b).unwrap());
        assert_eq!(identity(&a).unwrap().1, 1);
        fs::hard_link(path("a"), path("c")).unwrap();
        assert_eq!(identity(&a).unwrap(), identity(&open(&path("c"))).unwrap());
        assert_eq!(identity(&a).unwrap().1, 2);
    }

    #[test]
    fn an_existing_name_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("old"), "old").unwrap();
        let new = File::create(path("new")).unwrap();
        let error = rename_new(&path("new"), &path("old")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(path("old")).unwrap(), b"old");
        // An open file can get another name, also one that is longer than 260 characters.
        let deep = (0..20).fold(folder.path().to_owned(), |path, _| path.join("folder with a long name"));
        fs::create_dir_all(&deep).unwrap();
        rename_new(&path("new"), &deep.join("x")).unwrap();
        assert!(deep.join("x").is_file() && !path("new").exists());
        drop(new);
    }

    /// Windows 10 and later can replace an open file on some file systems. If it cannot, the error states the reason,
    /// and both files are unchanged.
    #[test]
    fn an_open_file_is_replaced_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("old"), "old").unwrap();
        fs::write(path("new"), "new").unwrap();
        let reader = File::open(path("old")).unwrap();
        match rename(&path("new"), &path("old")) {
            Ok(()) => assert_eq!(fs::read(path("old")).unwrap(), b"new"),
            Err(error) => {
                assert!(error.to_string().contains("until it is closed"), "{error}");
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert_eq!(fs::read(path("old")).unwrap(), b"old");
                assert_eq!(fs::read(path("new")).unwrap(), b"new");
                drop(reader);
                rename(&path("new"), &path("old")).unwrap();
                assert_eq!(fs::read(path("old")).unwrap(), b"new");
            }
        }
    }
}

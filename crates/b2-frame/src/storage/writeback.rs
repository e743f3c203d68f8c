//! Starts writing a file's bytes to the disk before it is synced (Linux only).

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Starts writing the bytes of `range` to the disk without waiting. Errors are reported by the sync, which must follow
/// in any case.
#[allow(unsafe_code, reason = "a system call that has no safe wrapper")]
pub(crate) fn start(file: &File, range: Range<u64>) {
    let (Ok(offset), Ok(len)) =
        (i64::try_from(range.start), i64::try_from(range.end.saturating_sub(range.start)))
    else {
        return;
    };
    // SAFETY: the descriptor is open as long as `file` is borrowed. The call gets no pointers, and changes neither the
    // content of the file nor any memory of this process.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    #[test]
    fn the_content_stays() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        for range in [0..100_000, 50_000..60_000, 0..u64::MAX, u64::MAX..u64::MAX, 0..0] {
            super::start(file.as_file(), range);
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), [7; 100_000]);
    }
}

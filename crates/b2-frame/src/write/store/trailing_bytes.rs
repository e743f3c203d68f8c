//! Examines the bytes after a frame that is opened for changing: the rest of our own interrupted commit, or external
//! bytes, which must not be overwritten.

use std::io;
use std::path::Path;

use crate::format::header::MAGIC as FRAME_MAGIC;
use crate::names::{FrameFile, is_temporary};
use crate::storage::staging::parent;
use crate::storage::traits::{FileSystem, Links, ReadAt, WriteAt};
use crate::{FrameError, Storage, SuperChunk};

/// Precedes everything that is written after a committed frame, and becomes dead space with the commit. Redo records
/// start with it too, so it remains intact when a record overwrites it.
pub(crate) use crate::storage::redo::MAGIC as MARKER;

/// Magic numbers of other data that may follow a frame: another frame, archives.
const OTHER_MAGICS: [&[u8]; 4] = [&FRAME_MAGIC, b"PK", b"\x1f\x8b", b"7z\xbc\xaf"];

/// Returns whether the bytes from `start` to the end of the file are ours to discard.
///
/// After a power loss any recently written sector may be zeros, including the one with the marker.
/// So zeros count as ours, unless a known magic number follows them.
pub(crate) fn is_ours(file: &dyn ReadAt, start: u64) -> io::Result<bool> {
    const LOOK: u64 = 64 * 1024;
    let len = file.len()?;
    let bytes = file.read_at(start..len.min(start.saturating_add(LOOK)))?;
    if !bytes.iter().zip(&MARKER).all(|(byte, m)| byte == m || *byte == 0) {
        return Ok(false);
    }
    let content = bytes.get(bytes.iter().take_while(|byte| **byte == 0).count()..).unwrap_or_default();
    Ok(!OTHER_MAGICS.iter().any(|magic| content.starts_with(magic)))
}

/// Removes the temporary name of a new frame whose writer was killed between creating the final name and removing the
/// temporary one.
pub(crate) fn remove_own_link(fs: &dyn FileSystem, path: &Path, file: &dyn WriteAt) -> io::Result<()> {
    let identity = file.identity()?;
    if file.hard_links()? < 2 || identity.is_none() {
        return Ok(());
    }
    let dir = parent(path);
    for name in fs.list(&dir)? {
        let link = dir.join(&name);
        if name.to_str().is_some_and(is_temporary)
            && fs.identity(&link, Links::Refuse).is_ok_and(|found| found == identity)
        {
            fs.remove_file(&link)?;
        }
    }
    Ok(())
}

impl SuperChunk {
    /// Returns the number of bytes that an unfinished change has left after a contiguous frame. They are not part of
    /// the frame; the next change removes them. Returns 0 for sparse frames, for frames inside other files, and if the
    /// bytes after the frame do not come from this crate.
    ///
    /// # Errors
    /// [`FrameError::Io`] when the file cannot be read.
    pub fn leftover_bytes(&self) -> Result<u64, FrameError> {
        if self.storage() == Storage::Sparse {
            return Ok(0);
        }
        let file = self.files.open(FrameFile::Main)?;
        let (end, storage) = (self.header().frame_len(), file.storage());
        let count = || -> io::Result<u64> {
            let len = storage.len()?.saturating_sub(end);
            Ok(if len > 0 && file.is_whole() && is_ours(&**storage, end)? { len } else { 0 })
        };
        count().map_err(FrameError::io(file.name()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn leftovers_are_told_from_others() {
        let check = |bytes: &[u8], expected| {
            let file = Bytes::from([b"frame", bytes].concat());
            assert_eq!(is_ours(&file, 5).unwrap(), expected, "{bytes:?}");
        };
        check(b"", true);
        check(&MARKER, true);
        check(&[&MARKER[..], b"any"].concat(), true);
        for cut in 0..16 {
            check(&MARKER[..cut], true);
            check(&[&MARKER[..cut], &vec![0; 16 - cut][..], b"any"].concat(), true);
            check(&[&vec![0; cut][..], &MARKER[cut..], b"any"].concat(), true);
        }
        check(&[0; 1000], true);
        check(b"x", false);
        check(&FRAME_MAGIC, false);
        check(b"PK\x03\x04", false);
        check(&[&[0; 600], &FRAME_MAGIC[..]].concat(), false);
        check(&[&[0; 600], &b"data"[..]].concat(), true);
    }
}

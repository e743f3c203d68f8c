//! What is found behind a frame when it is opened for changing: our own leftovers of a commit that did not
//! happen, or bytes of somebody else, which are never written over.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads bytes from outside"
    )
)]

use std::io;

use crate::header::MAGIC as FRAME_MAGIC;
use crate::storage::ReadAt;

/// In front of all that is written behind a committed frame. Becomes dead space with the commit. Redo records
/// start with it as well, so that it stays whole where one takes the place of the other.
pub(crate) use crate::redo::MAGIC as MARKER;

/// How other things start that may follow a frame: another frame, archives.
const OTHERS: [&[u8]; 4] = [&FRAME_MAGIC, b"PK", b"\x1f\x8b", b"7z\xbc\xaf"];

/// Whether the bytes from `start` to the end of the file are ours to discard.
///
/// After a power loss any sector of what was written last may be zeros, the one with the marker too. So zeros
/// are taken for ours, unless something known follows them.
pub(crate) fn is_ours(file: &dyn ReadAt, start: u64) -> io::Result<bool> {
    const LOOK: u64 = 64 * 1024;
    let len = file.len()?;
    let bytes = file.read_at(start..len.min(start.saturating_add(LOOK)))?;
    if !bytes.iter().zip(&MARKER).all(|(byte, m)| byte == m || *byte == 0) {
        return Ok(false);
    }
    let content = bytes.get(bytes.iter().take_while(|byte| **byte == 0).count()..).unwrap_or_default();
    Ok(!OTHERS.iter().any(|magic| content.starts_with(magic)))
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

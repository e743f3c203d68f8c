//! Checks shared by all targets for code that fills a buffer.

use std::fmt::{Debug, Display};

/// Guard bytes around a buffer, which must not be written: more than the widest store of a kernel.
const GUARD_LEN: usize = 160;

/// Runs `fill` on buffers of `len` bytes that were preset to zeros, ones and another pattern. Checks that the outcome
/// is the same each time, since no result may depend on the old content, and that nothing is written out of bounds.
pub(crate) fn filled<E: Display>(
    len: usize,
    mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, String> {
    let first = guarded(len, 0x00, &mut fill);
    let second = guarded(len, 0xAA, &mut fill);
    same(&first, &second, "the result depends on what the buffer held");
    first
}

fn guarded<E: Display>(
    len: usize,
    old: u8,
    fill: &mut impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, String> {
    let mut buffer = vec![0x5C; len + 2 * GUARD_LEN];
    let inner = &mut buffer[GUARD_LEN..GUARD_LEN + len];
    inner.fill(old);
    let outcome = fill(inner);
    assert!(buffer[..GUARD_LEN].iter().all(|byte| *byte == 0x5C), "written in front of the buffer");
    assert!(buffer[GUARD_LEN + len..].iter().all(|byte| *byte == 0x5C), "written behind the buffer");
    match outcome {
        Ok(()) => {
            buffer.truncate(GUARD_LEN + len);
            buffer.drain(..GUARD_LEN);
            Ok(buffer)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Asserts that both are equal, without printing what may be megabytes.
pub(crate) fn same<T: PartialEq + Debug>(a: &Result<T, String>, b: &Result<T, String>, why: &str) {
    match (a, b) {
        (Ok(a), Ok(b)) => assert!(a == b, "{why}: other bytes"),
        (Err(a), Err(b)) => assert!(a == b, "{why}: {a:?}, {b:?}"),
        (Ok(_), Err(e)) | (Err(e), Ok(_)) => panic!("{why}: one of them gives {e:?}"),
    }
}

//! What all targets ask of whatever fills a buffer.

use std::fmt::{Debug, Display};

/// Bytes around a buffer that nobody may touch: more than the widest store of a kernel.
const GUARD: usize = 160;

/// Runs `fill` on buffers of `len` bytes that held zeros, ones and something else before. The outcome must be the
/// same each time: no result depends on what a buffer held, and nothing is written outside of it.
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
    let mut buffer = vec![0x5C; len + 2 * GUARD];
    let inner = &mut buffer[GUARD..GUARD + len];
    inner.fill(old);
    let outcome = fill(inner);
    assert!(buffer[..GUARD].iter().all(|byte| *byte == 0x5C), "written in front of the buffer");
    assert!(buffer[GUARD + len..].iter().all(|byte| *byte == 0x5C), "written behind the buffer");
    match outcome {
        Ok(()) => {
            buffer.truncate(GUARD + len);
            buffer.drain(..GUARD);
            Ok(buffer)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Both are the same; without printing what may be megabytes.
pub(crate) fn same<T: PartialEq + Debug>(a: &Result<T, String>, b: &Result<T, String>, why: &str) {
    match (a, b) {
        (Ok(a), Ok(b)) => assert!(a == b, "{why}: other bytes"),
        (Err(a), Err(b)) => assert!(a == b, "{why}: {a:?}, {b:?}"),
        (Ok(_), Err(e)) | (Err(e), Ok(_)) => panic!("{why}: one of them gives {e:?}"),
    }
}

//! Decodes and writes concurrently, in bounded memory.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use b2kit::core::memory;

use crate::progress::Progress;

/// Decodes the pieces one after the other on a separate thread and writes them in order on this one.
///
/// `decode` overwrites the buffer that it gets, whatever it contains. At most three buffers are in use. Without
/// `ahead`, or if no thread can be started, there is one buffer, and decoding and writing alternate.
///
/// # Errors
/// Returns the first error of decoding or of writing. What was written stays written.
pub(crate) fn pump<P: Send>(
    pieces: impl Iterator<Item = P> + Send,
    ahead: bool,
    decode: impl FnMut(P, &mut Vec<u8>) -> Result<()> + Send,
    mut write: impl FnMut(&[u8]) -> Result<()>,
    progress: &mut Progress,
) -> Result<()> {
    let mut pieces = pieces.peekable();
    let mut decode = decode;
    let Some(first) = pieces.next() else { return Ok(()) };
    let mut buffer = Vec::new();
    decode(first, &mut buffer)?;
    if pieces.peek().is_none() || !ahead {
        return by_turns(buffer, pieces, decode, write, progress);
    }
    let (full_sender, full) = sync_channel(1);
    let (empty_sender, empty) = channel();
    // Kept outside of the thread, in case that it cannot be started.
    let work = Mutex::new(Some((buffer, pieces, decode)));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let decoder = move || {
            if let Some((buffer, pieces, decode)) = take() {
                decode_all(buffer, pieces, decode, &full_sender, &empty);
            }
        };
        if thread::Builder::new().spawn_scoped(scope, decoder).is_err()
            && let Some((buffer, pieces, decode)) = take()
        {
            return by_turns(buffer, pieces, decode, write, progress);
        }
        for buffer in full {
            let buffer: Vec<u8> = buffer?;
            write(&buffer)?;
            progress.add(buffer.len() as u64);
            // Sending fails when the decoder is done and takes no buffers back.
            let _ = empty_sender.send(buffer);
        }
        Ok(())
    })
}

/// Writes the first piece, which is in the buffer, then decodes and writes the others on this thread.
fn by_turns<P>(
    mut buffer: Vec<u8>,
    mut pieces: impl Iterator<Item = P>,
    mut decode: impl FnMut(P, &mut Vec<u8>) -> Result<()>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
    progress: &mut Progress,
) -> Result<()> {
    write(&buffer)?;
    progress.add(buffer.len() as u64);
    pieces.try_for_each(|piece| {
        decode(piece, &mut buffer)?;
        write(&buffer)?;
        progress.add(buffer.len() as u64);
        Ok(())
    })
}

fn decode_all<P>(
    first: Vec<u8>,
    pieces: impl Iterator<Item = P>,
    mut decode: impl FnMut(P, &mut Vec<u8>) -> Result<()>,
    full: &SyncSender<Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) {
    // Sending fails if the writer has stopped because of an error.
    if full.send(Ok(first)).is_err() {
        return;
    }
    for piece in pieces {
        let mut buffer = empty.try_recv().unwrap_or_default();
        let decoded = decode(piece, &mut buffer).map(|()| buffer);
        let failed = decoded.is_err();
        if full.send(decoded).is_err() || failed {
            return;
        }
    }
}

/// Resizes a buffer; its contents are unspecified. Running out of memory is an error.
pub(crate) fn resize(buffer: &mut Vec<u8>, len: usize) -> Result<()> {
    memory::sized(buffer, len)?;
    buffer.truncate(len);
    Ok(())
}

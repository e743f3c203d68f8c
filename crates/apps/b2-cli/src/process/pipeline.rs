//! Decodes and writes concurrently, in bounded memory.

use std::collections::VecDeque;
use std::iter::{self, Peekable};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use b2kit::base::memory;

use super::progress::Progress;

/// How many pieces decoding may be ahead of writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipelineLimits {
    /// Maximum number of pieces that are decoded concurrently.
    pub(crate) decoders: usize,
    /// Maximum number of pieces in memory, including the one that is being written.
    pub(crate) pieces: usize,
}

impl PipelineLimits {
    /// Decodes and writes alternately.
    pub(crate) const NONE: Self = Self { decoders: 1, pieces: 1 };
}

/// Decodes the pieces on separate threads and writes them in order on this one.
///
/// `decode` must overwrite its whole buffer. If no thread can be started, there is one buffer,
/// and decoding and writing alternate.
///
/// # Errors
/// Returns the first error of decoding, in the order of the pieces, or of writing. Pieces before it may have been written.
pub(crate) fn pump<P: Send>(
    pieces: impl Iterator<Item = P> + Send,
    ahead: PipelineLimits,
    decode: impl Fn(P, &mut Vec<u8>) -> Result<()> + Sync,
    mut write: impl FnMut(&[u8]) -> Result<()>,
    progress: &mut Progress,
) -> Result<()> {
    let mut write = |buffer: &[u8]| {
        write(buffer)?;
        progress.add(buffer.len() as u64);
        Ok(())
    };
    let mut pieces = pieces.peekable();
    let Some(first) = pieces.next() else { return Ok(()) };
    let several = pieces.peek().is_some();
    let pieces = iter::once(first).chain(pieces).peekable();
    if !several || ahead.pieces < 2 {
        return by_turns(pieces, decode, write);
    }
    let state =
        State { pieces: Some(pieces), begun: 0, written: 0, made: VecDeque::new(), empty: Vec::new() };
    let pipeline = Pipeline { state: Mutex::new(state), changed: Condvar::new(), most: ahead.pieces, decode };
    thread::scope(|scope| {
        let decoder = || pipeline.decode_all();
        // The others are not needed.
        let start = |_: &usize| thread::Builder::new().spawn_scoped(scope, decoder).is_ok();
        if (0..ahead.decoders.max(1)).take_while(start).count() == 0
            && let Some(pieces) = pipeline.lock().pieces.take()
        {
            return by_turns(pieces, &pipeline.decode, write);
        }
        let _stop = Stop(&pipeline);
        while let Some(made) = pipeline.next() {
            let buffer = made?;
            write(&buffer)?;
            pipeline.written(buffer);
        }
        Ok(())
    })
}

fn by_turns<P>(
    mut pieces: impl Iterator<Item = P>,
    decode: impl Fn(P, &mut Vec<u8>) -> Result<()>,
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = Vec::new();
    pieces.try_for_each(|piece| {
        decode(piece, &mut buffer)?;
        write(&buffer)
    })
}

/// State shared by the decoders and the writer.
struct Pipeline<I: Iterator, D> {
    state: Mutex<State<I>>,
    changed: Condvar,
    /// Maximum number of pieces in memory.
    most: usize,
    decode: D,
}

struct State<I: Iterator> {
    /// `None` if no more pieces are to be decoded.
    pieces: Option<Peekable<I>>,
    begun: usize,
    written: usize,
    /// The pieces that were started but not yet taken by the writer, in order; `None` while they are decoded.
    made: VecDeque<Option<Result<Vec<u8>>>>,
    /// Buffers that can be used again.
    empty: Vec<Vec<u8>>,
}

impl<P, I: Iterator<Item = P>, D: Fn(P, &mut Vec<u8>) -> Result<()>> Pipeline<I, D> {
    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State<I>>) -> MutexGuard<'s, State<I>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes pieces until there are no more.
    fn decode_all(&self) {
        let mut state = self.lock();
        loop {
            let full = state.begun - state.written >= self.most;
            let Some(pieces) = &mut state.pieces else { return };
            if full {
                state = self.wait(state);
                continue;
            }
            let Some(piece) = pieces.next() else { return };
            let number = state.begun;
            state.begun += 1;
            state.made.push_back(None);
            let mut buffer = state.empty.pop().unwrap_or_default();
            drop(state);
            let stop = Stop(self);
            let decoded = (self.decode)(piece, &mut buffer).map(|()| buffer);
            // Dropped only by a panic.
            std::mem::forget(stop);
            state = self.lock();
            if decoded.is_err() {
                state.pieces = None;
            }
            // The first of `made` is the first piece that was not taken.
            let taken = state.begun - state.made.len();
            if let Some(place) = number.checked_sub(taken).and_then(|at| state.made.get_mut(at)) {
                *place = Some(decoded);
            }
            self.changed.notify_all();
        }
    }

    /// Waits for the next piece; `None` after the last one, or if a decoder panicked.
    fn next(&self) -> Option<Result<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            if let Some(Some(_)) = state.made.front() {
                return state.made.pop_front().flatten();
            }
            let more = state.pieces.as_mut().is_some_and(|pieces| pieces.peek().is_some());
            if state.made.is_empty() && !more {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Returns the buffer of a written piece to the pool.
    fn written(&self, buffer: Vec<u8>) {
        let mut state = self.lock();
        state.written += 1;
        state.empty.push(buffer);
        drop(state);
        self.changed.notify_all();
    }
}

/// Stops decoders and the writer on drop: the writer has finished, or a decoder has panicked.
struct Stop<'l, I: Iterator, D>(&'l Pipeline<I, D>);

impl<I: Iterator, D> Drop for Stop<'_, I, D> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pieces = None;
        state.made.clear();
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Resizes a buffer; its contents are unspecified. Running out of memory is an error.
pub(crate) fn resize(buffer: &mut Vec<u8>, len: usize) -> Result<()> {
    memory::sized(buffer, len)?;
    buffer.truncate(len);
    Ok(())
}

/// A zeroed buffer. Running out of memory is an error.
pub(crate) fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    resize(&mut out, len)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use anyhow::{bail, ensure};

    use super::*;

    const AHEADS: [PipelineLimits; 4] = [
        PipelineLimits::NONE,
        PipelineLimits { decoders: 1, pieces: 3 },
        PipelineLimits { decoders: 3, pieces: 4 },
        PipelineLimits { decoders: 8, pieces: 5 },
    ];

    fn progress() -> Progress {
        Progress::new("test", 0, true)
    }

    /// Decodes a piece to four bytes; some pieces take longer than later ones.
    fn decode(piece: u8, buffer: &mut Vec<u8>) {
        std::thread::sleep(Duration::from_micros(u64::from(piece.wrapping_mul(97)) * 8));
        buffer.clear();
        buffer.extend([piece; 4]);
    }

    #[test]
    fn pieces_are_written_in_order_and_few_are_in_memory() {
        for ahead in AHEADS {
            for count in [0, 1, 2, 3, 40] {
                let (begun, done, mut out) = (AtomicUsize::new(0), AtomicUsize::new(0), Vec::new());
                let work = |piece: u8, buffer: &mut Vec<u8>| {
                    let begun = begun.fetch_add(1, SeqCst) + 1;
                    let most = done.load(SeqCst) + ahead.pieces;
                    ensure!(begun <= most, "{begun} pieces begun, {most} allowed");
                    decode(piece, buffer);
                    Ok(())
                };
                let write = |bytes: &[u8]| {
                    // A slow reader.
                    std::thread::sleep(Duration::from_micros(300));
                    out.extend_from_slice(bytes);
                    done.fetch_add(1, SeqCst);
                    Ok(())
                };
                pump(0..count, ahead, work, write, &mut progress()).unwrap();
                let expected: Vec<u8> = (0..count).flat_map(|piece| [piece; 4]).collect();
                assert_eq!(out, expected, "{ahead:?}");
            }
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        for ahead in AHEADS {
            let mut out = Vec::new();
            let work = |piece: u8, buffer: &mut Vec<u8>| {
                decode(piece, buffer);
                match piece {
                    5 | 6 => bail!("piece {piece}"),
                    _ => Ok(()),
                }
            };
            let write = |bytes: &[u8]| {
                out.push(bytes[0]);
                Ok(())
            };
            let error = pump(0..100, ahead, work, write, &mut progress()).unwrap_err();
            assert_eq!(
                (error.to_string().as_str(), &out[..]),
                ("piece 5", &[0, 1, 2, 3, 4][..]),
                "{ahead:?}"
            );
            // A reader that has disconnected.
            let begun = AtomicUsize::new(0);
            let work = |piece: u8, buffer: &mut Vec<u8>| {
                begun.fetch_add(1, SeqCst);
                decode(piece, buffer);
                Ok(())
            };
            let write = |bytes: &[u8]| if bytes[0] == 3 { bail!("gone") } else { Ok(()) };
            let error = pump(0..100, ahead, work, write, &mut progress()).unwrap_err();
            assert_eq!(error.to_string(), "gone");
            assert!(begun.into_inner() <= 3 + ahead.pieces);
        }
    }

    #[test]
    fn a_panic_is_passed_on() {
        let work = |piece: u8, buffer: &mut Vec<u8>| {
            decode(piece, buffer);
            assert!(piece < 7, "piece");
            Ok(())
        };
        for ahead in AHEADS {
            let run = || pump(0..100, ahead, work, |_| Ok(()), &mut progress());
            assert!(std::panic::catch_unwind(run).is_err(), "{ahead:?}");
        }
    }
}

//! The driver for remote storage: several requests are in flight, each on a waiting thread. Threads decode received
//! data before they fetch more.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use bytes::Bytes;

use crate::FrameError;
use crate::read::requests::{Read, Request, RequestBudget};
use crate::read::scatter_plan::ScatterPlan;
use crate::storage::files::FrameFiles;

/// Maximum number of bytes in flight, and of those that have arrived but have not been decoded. A single request is
/// always allowed.
pub(crate) const MAX_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// Runs a read to its end, with as many requests in flight as the files of the frame allow.
pub(crate) fn work_off<P: ScatterPlan>(read: &mut Read<'_, P>) -> Result<(), P::Error> {
    let files = read.frame().files.clone();
    let workers = read.workers();
    let state = Progress { read, decoding: 0, idle: 0, threads: 1, error: None };
    let shared =
        WaitingThreads { files: &*files, workers, state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|scope| shared.run(scope));
    match shared.state.into_inner().unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct WaitingThreads<'a, 'd, P: ScatterPlan> {
    files: &'a dyn FrameFiles,
    /// Maximum number of concurrent jobs.
    workers: usize,
    state: Mutex<Progress<'a, 'd, P>>,
    changed: Condvar,
}

struct Progress<'a, 'd, P: ScatterPlan> {
    read: &'a mut Read<'d, P>,
    /// Number of running jobs.
    decoding: usize,
    /// Number of threads, followed by the number of those that wait for work.
    threads: usize,
    idle: usize,
    /// The first error. Nothing is started after it.
    error: Option<P::Error>,
}

impl<'a, 'd, P: ScatterPlan> WaitingThreads<'a, 'd, P> {
    fn lock(&self) -> MutexGuard<'_, Progress<'a, 'd, P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of each thread: decode if possible, else fetch, else wait, until nothing is left.
    fn run<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let _wake = WakeOnPanic(self);
        let mut state = self.lock();
        while state.error.is_none() {
            let result = if state.decoding < self.workers
                && let Some(job) = state.read.job()
            {
                state.decoding += 1;
                self.call(scope, &mut state);
                drop(state);
                let result = job.run();
                state = self.lock();
                state.decoding -= 1;
                result
            } else {
                let budget = RequestBudget { requests: self.files.in_flight(), bytes: MAX_BYTES };
                match state.read.next_request(budget) {
                    Ok(Some(request)) => {
                        self.call(scope, &mut state);
                        drop(state);
                        let bytes = self.fetch(&request);
                        state = self.lock();
                        bytes.and_then(|bytes| state.read.put(request.id, bytes))
                    }
                    Ok(None) if state.read.in_flight() == 0 && state.decoding == 0 => break,
                    Ok(None) => {
                        state.idle += 1;
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        state.idle -= 1;
                        continue;
                    }
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = result {
                state.error.get_or_insert(error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn fetch(&self, request: &Request) -> Result<Bytes, P::Error> {
        Ok(self.files.open(request.extent.file)?.read(&request.extent)?)
    }

    /// Gets another thread to work, since this one is about to be busy: wakes a waiting one or starts a new one.
    fn call<'s>(&'s self, scope: &'s Scope<'s, '_>, state: &mut Progress<'_, '_, P>) {
        if state.idle > 0 {
            self.changed.notify_one();
        } else if state.threads <= self.files.in_flight() {
            // If no thread can be started, the others do its work.
            let spawned = thread::Builder::new().spawn_scoped(scope, || self.run(scope));
            state.threads += usize::from(spawned.is_ok());
        }
    }
}

/// Stops the other threads if this one panics. They would otherwise wait for it.
struct WakeOnPanic<'w, 'a, 'd, P: ScatterPlan>(&'w WaitingThreads<'a, 'd, P>);

impl<P: ScatterPlan> Drop for WakeOnPanic<'_, '_, '_, P> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().error.get_or_insert_with(|| FrameError::argument("thread", "panicked").into());
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::{ControlFlow, Range};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::Duration;

    use b2_chunk::{Chunk, Compression};
    use b2_core::Control;
    use b2_testkit::Rng;

    use super::*;
    use crate::storage::request_stats;
    use crate::{FrameParams, FrameWriter, ReadAt, ReadTuning, RequestStats, SuperChunk};

    /// Storage that responds immediately, and counts the bytes of its responses in memory.
    struct InstantStorage {
        bytes: Vec<u8>,
        /// The bytes in memory, and their maximum.
        kept: Arc<(AtomicU64, AtomicU64)>,
        /// The number of requests, and their bytes.
        counts: Arc<(AtomicU64, AtomicU64)>,
        request_stats: Option<RequestStats>,
    }

    struct CountedBytes(Vec<u8>, Arc<(AtomicU64, AtomicU64)>);

    impl AsRef<[u8]> for CountedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for CountedBytes {
        fn drop(&mut self) {
            self.1.0.fetch_sub(self.0.len() as u64, SeqCst);
        }
    }

    impl ReadAt for InstantStorage {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            buf.copy_from_slice(&self.bytes[offset as usize..][..buf.len()]);
            Ok(())
        }

        fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
            let part = self.bytes[range.start as usize..range.end as usize].to_vec();
            self.counts.0.fetch_add(1, SeqCst);
            self.counts.1.fetch_add(part.len() as u64, SeqCst);
            let now = self.kept.0.fetch_add(part.len() as u64, SeqCst) + part.len() as u64;
            self.kept.1.fetch_max(now, SeqCst);
            Ok(Bytes::from_owner(CountedBytes(part, self.kept.clone())))
        }

        fn in_flight(&self) -> usize {
            16
        }

        fn request_stats(&self) -> Option<&RequestStats> {
            self.request_stats.as_ref()
        }
    }

    fn quick(bytes: &[u8], request_stats: Option<RequestStats>) -> InstantStorage {
        InstantStorage { bytes: bytes.to_vec(), kept: Arc::default(), counts: Arc::default(), request_stats }
    }

    /// The number of bytes that wait to be decoded is limited, however fast the storage is.
    #[test]
    fn a_quick_server_does_not_fill_the_memory_of_a_slow_reader() {
        let cparams = Compression::new().itemsize(1).build().unwrap();
        let mut writer = FrameWriter::memory(FrameParams::from_cparams(&cparams)).unwrap();
        let mut all = Vec::new();
        for n in 0..40 {
            // Items that do not compress.
            let plain = Rng::new(n).bytes(200 << 10);
            all.extend_from_slice(&plain);
            writer.append(Chunk::compress_bytes(&plain, &cparams).unwrap()).unwrap();
        }
        let stored = writer.finish().unwrap().into_bytes();
        // Each job ends with a pause.
        let control = Control::new().progress(|_| {
            std::thread::sleep(Duration::from_millis(3));
            ControlFlow::Continue(())
        });
        for tuning in [ReadTuning::REMOTE, ReadTuning::REMOTE.whole_chunk_max(0).prefetch(false)] {
            let storage = quick(&stored, None);
            let kept = storage.kept.clone();
            let options = SuperChunk::options().tuning(tuning).control(control.clone());
            let frame = options.from_reader(Arc::new(storage), "quick").unwrap();
            kept.1.store(0, SeqCst);
            assert!(frame.read_bytes(0..frame.nbytes()).unwrap() == all);
            let most = kept.1.load(SeqCst);
            assert!(most > 0 && most <= MAX_BYTES + (512 << 10), "{most}");
            drop(frame);
            assert_eq!(kept.0.load(SeqCst), 0);
        }
    }
    /// A slow connection gets more requests and fewer bytes, a fast distant one fewer requests. The values are the
    /// same.
    #[test]
    fn gaps_follow_the_pace() {
        const BLOCK: u64 = 32 << 10;
        let cparams = Compression::new().itemsize(1).blocksize(BLOCK as usize).build().unwrap();
        let options = FrameWriter::options().block_starts(true);
        let mut writer = options.memory(FrameParams::from_cparams(&cparams)).unwrap();
        let mut plain = Rng::new(3).bytes(64 * BLOCK as usize);
        // Blocks that compress a little; otherwise the chunk would be stored uncompressed.
        plain.chunks_mut(BLOCK as usize).for_each(|block| block[4096..8192].fill(1));
        writer.append(Chunk::compress_bytes(&plain, &cparams).unwrap()).unwrap();
        let stored = writer.finish().unwrap().into_bytes();
        // Every fourth block.
        let items: Vec<u64> = (2..64).step_by(4).map(|n| n * BLOCK).collect();
        let expected: Vec<u8> = items.iter().map(|&item| plain[item as usize]).collect();
        let read = |request_stats, adapt| {
            let storage = quick(&stored, request_stats);
            let counts = storage.counts.clone();
            let options = SuperChunk::options().tuning(ReadTuning::REMOTE.adaptive(adapt));
            let frame = options.from_reader(Arc::new(storage), "quick").unwrap();
            let before = [counts.0.load(SeqCst), counts.1.load(SeqCst)];
            assert_eq!(frame.gather(&items).unwrap(), expected);
            [counts.0.load(SeqCst) - before[0], counts.1.load(SeqCst) - before[1]]
        };
        let usual = read(None, true);
        // 64 blocks, without the last one.
        assert!(usual[0] <= 3 && usual[1] > 50 * BLOCK, "{usual:?}");
        let slow = || Some(request_stats::seen(20, 32, 1 << 20, 1020));
        let [requests, bytes] = read(slow(), true);
        assert_eq!(requests, 17);
        assert!(bytes < 17 * BLOCK, "{bytes}");
        assert_eq!(read(slow(), false), usual);
        assert_eq!(read(Some(request_stats::seen(20, 32, 1 << 20, 60)), true), usual);
    }
}

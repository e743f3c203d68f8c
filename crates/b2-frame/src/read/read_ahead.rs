//! Reads chunks in ascending order, and those of remote storage ahead.

use std::collections::VecDeque;

use b2_chunk::Chunk;

use crate::read::remote::MAX_BYTES;
use crate::storage::files::run_concurrently;
use crate::{FrameError, SuperChunk};

/// Reads chunks of a super-chunk for a copy, in ascending order. From remote storage, the chunks that follow are requested
/// concurrently, as many as the storage wants in flight, and up to 64 MiB of uncompressed bytes.
#[derive(Debug)]
pub struct ReadAhead {
    frame: SuperChunk,
    /// The number of the first chunk in `chunks`.
    next: usize,
    chunks: VecDeque<Result<Chunk, FrameError>>,
}

/// A clone has nothing read ahead.
impl Clone for ReadAhead {
    fn clone(&self) -> Self {
        Self::new(&self.frame)
    }
}

impl ReadAhead {
    /// Creates a reader. Nothing is read yet.
    pub fn new(frame: &SuperChunk) -> Self {
        Self { frame: frame.clone(), next: 0, chunks: VecDeque::new() }
    }

    /// Reads a chunk like [`ChunkRef::read`](crate::ChunkRef::read).
    ///
    /// # Errors
    /// As [`ChunkRef::read`](crate::ChunkRef::read).
    pub fn read(&mut self, nchunk: usize) -> Result<Chunk, FrameError> {
        let in_flight = self.frame.files.in_flight();
        if in_flight <= 1 {
            return self.frame.chunk(nchunk).read();
        }
        while self.next < nchunk && self.chunks.pop_front().is_some() {
            self.next += 1;
        }
        if self.next != nchunk || self.chunks.is_empty() {
            let end = self.end(nchunk, in_flight);
            let read = |nchunk| Ok(self.frame.chunk(nchunk).read());
            self.chunks = run_concurrently(nchunk..end, in_flight, read)?.into();
            self.next = nchunk;
        }
        self.next += 1;
        // There is at least one.
        self.chunks.pop_front().unwrap_or_else(|| self.frame.chunk(nchunk).read())
    }

    /// Returns the end of the chunks to request together, from `first` on.
    fn end(&self, first: usize, in_flight: usize) -> usize {
        let mut nbytes = 0_u64;
        let fits = |nchunk: &usize| {
            nbytes = nbytes.saturating_add(self.frame.chunk_nbytes(*nchunk).unwrap_or(MAX_BYTES));
            nbytes <= MAX_BYTES
        };
        let last = self.frame.nchunks().min(first.saturating_add(in_flight));
        let fitting = (first..last).take_while(fits).count();
        first.saturating_add(fitting.max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use b2_chunk::Compression;
    use b2_testkit::Rng;

    use super::*;
    use crate::{FrameParams, FrameWriter, ReadAt};

    /// Storage that wants four reads in flight.
    struct SlowStorage {
        bytes: Vec<u8>,
        /// How many reads run, and how many ran together at most.
        reads: Arc<[AtomicUsize; 2]>,
    }

    impl ReadAt for SlowStorage {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let now = self.reads[0].fetch_add(1, SeqCst) + 1;
            self.reads[1].fetch_max(now, SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            self.reads[0].fetch_sub(1, SeqCst);
            buf.copy_from_slice(&self.bytes[offset as usize..][..buf.len()]);
            Ok(())
        }

        fn in_flight(&self) -> usize {
            4
        }
    }

    #[test]
    fn chunks_of_slow_storage_are_read_ahead() {
        let cparams = Compression::new().itemsize(1).build().unwrap();
        let mut writer =
            FrameWriter::options().checksums(true).memory(FrameParams::from_cparams(&cparams)).unwrap();
        let chunks: Vec<_> =
            (0..11).map(|n| Chunk::compress_bytes(&Rng::new(n).bytes(100_000), &cparams).unwrap()).collect();
        for chunk in &chunks {
            writer.append(chunk.clone()).unwrap();
        }
        let intact = writer.finish().unwrap().into_bytes().to_vec();
        // Chunk 6 is damaged: an error when it is its turn, and only then.
        let at =
            SuperChunk::from_bytes(intact.clone()).unwrap().chunk_infos().nth(6).unwrap().unwrap().offset();
        let mut damaged = intact.clone();
        damaged[at.unwrap() as usize + 5000] ^= 1;
        for (bytes, is_damaged) in [(intact, false), (damaged, true)] {
            let reads = Arc::default();
            let storage = Arc::new(SlowStorage { bytes, reads: Arc::clone(&reads) });
            let frame = SuperChunk::options().from_reader(storage, "slow").unwrap();
            for order in [(0..11).collect::<Vec<_>>(), vec![1, 2, 5, 6, 7, 10], vec![3, 2, 2, 9, 0, 10]] {
                reads[1].store(0, SeqCst);
                let mut reader = ReadAhead::new(&frame);
                for nchunk in order {
                    match reader.read(nchunk) {
                        Ok(chunk) => assert_eq!(chunk.as_bytes(), chunks[nchunk].as_bytes()),
                        Err(_) => assert_eq!((nchunk, is_damaged), (6, true)),
                    }
                }
                let most = reads[1].load(SeqCst);
                // A chunk that does not match its checksum is read again together with it, perhaps next to three others.
                assert!(most == 4 || is_damaged && most == 5, "{most} reads together");
                assert_eq!(reader.clone().read(10).unwrap().as_bytes(), chunks[10].as_bytes());
                assert!(reader.read(11).is_err());
            }
        }
    }
}

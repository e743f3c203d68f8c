//! Searches for chunks and trailers byte by byte, without header or index.

use std::collections::HashSet;

use b2_chunk::{Chunk, ChunkHeader, CodecFormat, DParams, EXTENDED_HEADER_LEN, FilterSlot, SpecialKind};
use bytes::Bytes;

use super::files::DamagedFiles;
use crate::FrameError;
use crate::format::header::MAGIC;
use crate::format::start_copy;
use crate::format::trailer::Trailer;
use crate::names::FrameFile;
use crate::storage::files::{Extent, OpenFile};

/// Number of bytes read at a time.
const WINDOW_LEN: u64 = 1 << 20;
/// Cancellation is checked after this many bytes, and after each position that takes more than a glance.
const CHECK_INTERVAL: usize = 64 << 10;
/// A trailer: `94 01 93 CD u16 DE u16 ... DC u16 ... CE u32 D8 u8 16 bytes`.
const TRAILER_START: [u8; 4] = [0x94, 0x01, 0x93, 0xCD];
/// Bytes from `CE` to the end of a trailer.
const TRAILER_END_LEN: usize = 23;
/// Bytes of a trailer without vlmetalayers up to `CE`.
const EMPTY_TRAILER_LEN: usize = 12;

/// A chunk that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundChunk {
    /// First byte, from the start of the file.
    pub(super) offset: u64,
    pub(super) cbytes: u64,
    pub(super) nbytes: usize,
    pub(super) typesize: usize,
    pub(super) look: ChunkTraits,
}

/// Traits that the chunks of a frame usually share: version, block size, filters and codec.
pub(super) type ChunkTraits = (u8, usize, [FilterSlot; 6], CodecFormat, u8);

impl FoundChunk {
    pub(super) fn new(offset: u64, header: &ChunkHeader) -> Self {
        let look = (
            header.version(),
            header.blocksize(),
            header.filters(),
            header.codec_format(),
            header.codec_meta(),
        );
        let (cbytes, nbytes, typesize) = (header.cbytes() as u64, header.nbytes(), header.itemsize());
        Self { offset, cbytes, nbytes, typesize, look }
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.cbytes
    }
}

/// The results, in file order.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) chunks: Vec<FoundChunk>,
    /// Damaged or truncated data that starts like a chunk. Few of these are chunks.
    pub(super) torn: Vec<FoundChunk>,
    /// The last trailer.
    pub(super) trailer: Option<Trailer>,
    /// First bytes of all trailers: commits leave old ones in the file.
    pub(super) trailers: Vec<u64>,
}

/// Searches the bytes from `from` to `to`. Skips the inside of chunks and trailers. `known` are checksums of chunks.
pub(super) fn scan(
    damaged: &DamagedFiles<'_>,
    from: u64,
    to: u64,
    known: &HashSet<u64>,
) -> Result<Scan, FrameError> {
    let (file, dparams) = (&damaged.main, &damaged.dparams);
    let mut found = Scan::default();
    // A hostile file may look like many overlapping chunks, so keep the cost proportional to its size.
    let mut budget = file.len().saturating_mul(64).saturating_add(1 << 30);
    let mut at = from;
    while at < to {
        let window = file.read(&Extent::at_most(FrameFile::Main, at..at.saturating_add(WINDOW_LEN)))?;
        let ends_file = at + window.len() as u64 == file.len();
        // Structures that start in the last bytes of the window are complete in the next one.
        let starts = if ends_file { window.len() } else { window.len() - (EXTENDED_HEADER_LEN - 1) };
        let mut i = 0;
        let (mut ask, mut spent) = (0, budget);
        while i < starts {
            if i >= ask || budget < spent {
                damaged.go_on()?;
                (ask, spent) = (i + CHECK_INTERVAL, budget);
            }
            let rest = window.get(i..).unwrap_or_default();
            let offset = at + i as u64;
            let mut end = offset + 1;
            if let Some(len) = copy_at(file, offset, rest) {
                end = offset + len;
            } else if let Some((chunk, is_intact)) = chunk_at(damaged, offset, rest, known, &mut budget)? {
                if is_intact {
                    end = chunk.end();
                    found.chunks.push(chunk);
                } else if found.torn.len() < MAX_TORN {
                    found.torn.push(chunk);
                }
            } else if let Some((trailer, len)) = trailer_at(file, offset, rest, dparams, &mut budget)? {
                end = offset + len;
                found.trailer = Some(trailer);
                found.trailers.push(offset);
            }
            if budget == 0 {
                // Too many bytes look like a chunk without being one: stop, and return the chunks found before.
                return Ok(found);
            }
            i = usize::try_from(end - at).unwrap_or(usize::MAX);
        }
        at = at.saturating_add(i as u64);
    }
    Ok(found)
}

/// Returns how many bytes at `offset`, which start with `rest`, are a copy of the start of the frame: they hold heads of
/// chunks, but no chunks.
fn copy_at(file: &OpenFile, offset: u64, rest: &[u8]) -> Option<u64> {
    if offset == 0 || !rest.starts_with(&MAGIC) {
        return None;
    }
    let len = u64::from(u32::from_be_bytes(*rest.get(11..)?.first_chunk()?));
    let following = |start: u64| {
        let from = start.checked_add(len)?;
        file.read(&Extent::at_most(
            FrameFile::Main,
            from..from.checked_add(start_copy::MAX_COPIED_LEN as u64)?,
        ))
        .ok()
    };
    let (first, copy) = (following(0)?, following(offset)?);
    let same = first.iter().zip(&copy).take_while(|(a, b)| a == b).count();
    (same > 0).then(|| len + same as u64)
}

/// The maximum number of starts of damaged chunks to keep.
const MAX_TORN: usize = 1 << 16;

/// Returns the chunk that starts with `rest`, at `offset` of the file, and whether it is intact.
fn chunk_at(
    damaged: &DamagedFiles<'_>,
    offset: u64,
    rest: &[u8],
    known: &HashSet<u64>,
    budget: &mut u64,
) -> Result<Option<(FoundChunk, bool)>, FrameError> {
    let file = &damaged.main;
    // Frames hold only chunks with extended headers. The first test rejects nearly all bytes.
    let [3..=6, _, flags, ..] = rest else { return Ok(None) };
    if flags & 5 != 5 {
        return Ok(None);
    }
    let Ok(header) = ChunkHeader::parse(rest) else { return Ok(None) };
    let (cbytes, nbytes) = (header.cbytes() as u64, header.nbytes());
    // Special chunks have few fields that must agree, so random bytes often look like one. Frames have no chunks of
    // zeros or NaN (docs/format/frame-contiguous.md, section 5.4), and the others hold exactly one item.
    let repeats = EXTENDED_HEADER_LEN as u64 + header.itemsize() as u64;
    let is_data = match header.special() {
        None => true,
        Some(SpecialKind::Value) => header.itemsize() == 1 || cbytes == repeats,
        Some(_) => false,
    };
    if nbytes == 0 || !is_data {
        return Ok(None);
    }
    let chunk = FoundChunk::new(offset, &header);
    if cbytes > file.len() - offset {
        return Ok(Some((chunk, false)));
    }
    let bytes = file.read(&Extent::exactly(FrameFile::Main, offset..offset + cbytes))?;
    *budget = budget.saturating_sub(cbytes);
    let Ok(stored) = Chunk::from_bytes(bytes) else { return Ok(None) };
    let mut decoded = 0;
    let is_intact = damaged.is_intact(&stored, known, &mut decoded)?;
    if !is_intact {
        *budget = budget.saturating_sub(decoded);
    }
    Ok(Some((chunk, is_intact)))
}

/// Bytes of a trailer to read at first; more if it is longer.
const TRAILER_READ_LEN: u64 = 4096;

/// Returns the trailer that starts with `rest`, and its length.
pub(super) fn trailer_at(
    file: &OpenFile,
    offset: u64,
    rest: &[u8],
    dparams: &DParams,
    budget: &mut u64,
) -> Result<Option<(Trailer, u64)>, FrameError> {
    if !rest.starts_with(&TRAILER_START) {
        return Ok(None);
    }
    let most = dparams.limits.max_metadata.min(file.len() - offset);
    let mut len = TRAILER_READ_LEN.min(most);
    loop {
        let bytes = file.read(&Extent::exactly(FrameFile::Main, offset..offset + len))?;
        *budget = budget.saturating_sub(len);
        if let Some((trailer, len)) = parse_trailer(&bytes, offset, dparams) {
            return Ok(Some((trailer, len as u64)));
        }
        if len == most || *budget == 0 {
            return Ok(None);
        }
        len = len.saturating_mul(16).min(most);
    }
}

fn parse_trailer(bytes: &Bytes, base: u64, dparams: &DParams) -> Option<(Trailer, usize)> {
    let vlmetalayers = crate::VlMetalayers::parse(bytes, base, dparams).ok()?;
    let ends = vlmetalayers.iter().map(|(_, value)| {
        // Values are slices of `bytes`.
        (value.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize).saturating_add(value.len())
    });
    let end = ends.max().unwrap_or(EMPTY_TRAILER_LEN);
    let len = end.checked_add(TRAILER_END_LEN)?;
    let trailer =
        Trailer::parse(&bytes.get(..len).map(|whole| bytes.slice_ref(whole))?, base, dparams).ok()?;
    let stored = bytes.get(end + 1..end + 5)?;
    let says = u32::from_be_bytes(stored.try_into().ok()?);
    (bytes.get(end) == Some(&0xCE) && says as usize == len).then_some((trailer, len))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use b2_chunk::Compression;
    use b2_core::Control;

    use super::*;
    use crate::{ReadAt, ReadOptions};

    /// Counts the bytes read.
    struct CountingReader(Vec<u8>, AtomicU64);

    impl ReadAt for CountingReader {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
            let start = offset as usize;
            buf.copy_from_slice(self.0.get(start..start + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    /// Returns the number of chunks found, and how often each byte was read.
    fn search(bytes: Vec<u8>) -> (usize, u64) {
        let len = bytes.len() as u64;
        let counting = Arc::new(CountingReader(bytes, AtomicU64::new(0)));
        let file = OpenFile::new(counting.clone(), "file", 0).unwrap();
        let options = ReadOptions::default();
        let (dparams, call) = (DParams::default(), Control::new());
        let damaged = DamagedFiles {
            options: &options,
            dir: None,
            main: file,
            restored: false,
            dparams,
            call,
            meaning_lost: true,
        };
        let found = scan(&damaged, 0, len, &HashSet::new()).unwrap();
        (found.chunks.len(), counting.1.load(Ordering::Relaxed) / len)
    }

    #[test]
    fn many_small_chunks_are_read_about_once() {
        let chunk = Chunk::compress_bytes(b"1", &Compression::new().itemsize(1).build().unwrap()).unwrap();
        let (nchunks, times) = search(chunk.as_bytes().repeat(50_000));
        assert_eq!((nchunks, times), (50_000, 2));
    }

    #[test]
    fn what_looks_like_many_trailers_is_not_read_over_and_over() {
        let len = 1 << 20;
        let (nchunks, times) = search(TRAILER_START.repeat(len / TRAILER_START.len()));
        // The budget is 64 times the file plus 1 GiB; without it, each byte would be read 130,000 times.
        assert_eq!(nchunks, 0);
        assert!(times < 64 + (2 << 30) / len as u64, "{times}");
    }
}

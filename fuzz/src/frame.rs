//! Reads a frame from memory, from a file, in other pieces and while it changes, and checks that all ways agree.

use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::{fs, io, iter};

use b2_chunk::Limits;
use b2_frame::{
    Condition, Extent, FrameError, FrameFile, FrameFiles, OpenFile, Plan, ReadAt, ReadOptions, Step, Storage,
    SuperChunk, WriteOptions, salvage,
};
use b2nd::NdArray;
use bytes::Bytes;

use crate::checks::{filled, same};
use crate::chunk::plugins;
use crate::dice::Dice;

/// Maximum number of chunks that are read.
const MAX_READ_CHUNKS: usize = 12;
/// Frames with more uncompressed bytes are never read as a whole, even if the limits allow it.
const MAX_PLAIN: u64 = 1 << 19;

/// Limits small enough that each input runs quickly.
pub(crate) fn small() -> Limits {
    let mut limits = Limits::default().max_chunk_nbytes(1 << 18);
    limits.max_nchunks = 1 << 14;
    limits.max_metadata = 1 << 18;
    limits
}

pub(crate) fn options(limits: Limits) -> ReadOptions {
    SuperChunk::options().plugins(plugins()).limits(limits)
}

/// The input is a frame. It is opened with small and with default limits, with and without checksums.
pub(crate) fn memory(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    let mut opened = Vec::new();
    for limits in [small(), Limits::default()] {
        for checksums in [true, false] {
            let options = options(limits.clone()).checksums(checksums);
            match options.from_bytes(frame.clone()) {
                Ok(schunk) => opened.push(Some((schunk, checksums))),
                Err(error) => {
                    let _ = error.to_string();
                    opened.push(None);
                }
            }
        }
    }
    // Comparing checksums and tighter limits may only reject more, unless checksums show which start of the frame is
    // intact: the one in its place, or the copy.
    let is_restored = opened.iter().flatten().any(|(schunk, _)| schunk.is_restored());
    assert!(opened[0].is_none() || (opened[1].is_some() || is_restored) && opened[2].is_some());
    let mut seen: Option<Vec<ReadResult>> = None;
    for (schunk, checksums) in opened.into_iter().flatten() {
        let outcomes = observe(&schunk, &mut Dice::of(data));
        if is_restored && !checksums {
            continue;
        }
        // Without checksums, damaged data may be read. With them, the result must be the same.
        match &seen {
            Some(seen) => {
                for (a, b) in seen.iter().zip(&outcomes) {
                    if let (Ok(a), Ok(b)) = (a, b) {
                        assert!(a == b, "other bytes (checksums: {checksums})");
                    }
                }
            }
            None => seen = Some(outcomes),
        }
    }
}

pub(crate) type ReadResult = Result<Vec<u8>, String>;

/// Reads a frame in many ways, which must agree, and returns the results.
pub(crate) fn observe(schunk: &SuperChunk, dice: &mut Dice) -> Vec<ReadResult> {
    let mut outcomes = metadata(schunk);
    let n = schunk.nchunks();
    // The choices below must not depend on earlier errors.
    let base = dice.next();
    let few: Vec<usize> = match n {
        0..=MAX_READ_CHUNKS => (0..n).collect(),
        _ => (0..MAX_READ_CHUNKS).map(|_| dice.below(n)).chain([n - 1]).collect(),
    };
    let mut at = 0;
    let mut whole = Vec::new();
    for nchunk in few {
        at = if nchunk == whole.len() { at } else { usize::MAX };
        let chunk = one_chunk(schunk, nchunk, &mut Dice::new(base ^ nchunk as u64));
        if let (Ok(plain), 0..usize::MAX) = (&chunk, at) {
            at += plain.len();
            whole.push(plain.clone());
        }
        outcomes.push(chunk);
    }
    // If all chunks are valid, the whole must be too.
    let nbytes = schunk.nbytes();
    let mut read = Err("not all chunks are good".to_owned());
    let mut dice = Dice::new(base);
    if whole.len() == n && nbytes <= MAX_PLAIN {
        let whole = whole.concat();
        read = filled(nbytes as usize, |dst| schunk.read_bytes_into(0, dst));
        if let Ok(read) = &read {
            assert!(*read == whole, "the chunks and the whole");
        }
        for _ in 0..2 {
            let range = dice.range(nbytes as usize);
            let part = filled(range.len(), |dst| schunk.read_bytes_into(range.start as u64, dst));
            if let (Ok(part), Ok(read)) = (&part, &read) {
                assert!(*part == read[range.clone()], "bytes {range:?}");
            }
            assert!(part.is_ok() || read.is_err(), "part of what is good: {:?}", part.err());
        }
    }
    outcomes.push(read);
    if let Ok(array) = NdArray::from_super_chunk(schunk.clone()) {
        outcomes.extend(self::array(&array, &mut Dice::new(base)));
    }
    outcomes
}

fn metadata(schunk: &SuperChunk) -> Vec<ReadResult> {
    let text = |error: FrameError| error.to_string();
    let mut outcomes = Vec::new();
    let vlmetalayers = schunk.vlmetalayers();
    for (name, _) in vlmetalayers.iter().take(20) {
        let value = vlmetalayers.get(name).map(Option::unwrap_or_default).map_err(text);
        outcomes.push(value.map(|value| [name, &value].concat()));
    }
    for (name, value) in schunk.metalayers().iter() {
        outcomes.push(Ok([name, value].concat()));
    }
    // Only chunks near the start: there may be millions.
    for info in schunk.chunk_infos().take(MAX_READ_CHUNKS) {
        outcomes.push(info.map(|info| format!("{info:?}").into_bytes()).map_err(text));
    }
    if schunk.nchunks() <= 1 << 14 {
        let _ = schunk.dead_bytes().map_err(text);
        let _ = schunk.verify_checksums().map_err(text);
    }
    let mut nchunk = 0;
    for _ in 0..MAX_READ_CHUNKS {
        match schunk.chunk(nchunk).run() {
            Ok((_, run)) => {
                assert!(run.end > nchunk && run.end <= schunk.nchunks(), "a run that does not end");
                nchunk = run.end;
            }
            Err(_) => break,
        }
    }
    assert!(schunk.chunk(schunk.nchunks()).entry().is_err());
    let _ = format!("{schunk:?}").len();
    outcomes
}

/// Reads a chunk as a whole, some of its blocks, and some of its items.
fn one_chunk(schunk: &SuperChunk, nchunk: usize, dice: &mut Dice) -> ReadResult {
    let chunk = schunk.chunk(nchunk).read().map_err(|error| error.to_string())?;
    if chunk.nbytes() as u64 > MAX_PLAIN {
        return Err("large".into());
    }
    let whole = filled(chunk.nbytes(), |dst| schunk.chunk(nchunk).decompress_into(dst));
    let head = schunk.chunk(nchunk).head();
    if let Ok(head) = head {
        let nblocks = head.nblocks();
        if nblocks > 0 {
            let wanted: Vec<usize> = (0..1 + dice.below(3)).map(|_| dice.below(nblocks)).collect();
            let mut got = Vec::new();
            let read =
                schunk.chunk(nchunk).blocks(&wanted, |nblock, plain| got.push((nblock, plain.to_vec())));
            for (nblock, plain) in got {
                let range = chunk.lazy(schunk.dparams()).map(|lazy| lazy.block_range(nblock));
                if let (Ok(whole), Ok(range)) = (&whole, range) {
                    assert!(plain == whole[range], "block {nblock} of chunk {nchunk}");
                }
            }
            let _ = read.map_err(|error| error.to_string());
        }
    }
    whole
}

/// Compares slices of an array with the whole.
fn array(array: &NdArray, dice: &mut Dice) -> Vec<ReadResult> {
    if array.nbytes() > MAX_PLAIN {
        return Vec::new();
    }
    let all = array.all();
    let whole = filled(array.nbytes() as usize, |dst| all.read_bytes_into(dst));
    let selection: Vec<_> = array
        .shape()
        .iter()
        .map(|length| {
            let range = dice.range(*length as usize);
            range.start as i64..range.end as i64
        })
        .collect();
    let part = array.slice(&selection).expect("a selection inside the array");
    let part = filled(part.nbytes() as usize, |dst| part.read_bytes_into(dst));
    assert!(part.is_ok() || whole.is_err(), "part of an array that is good: {:?}", part.err());
    vec![whole, part]
}

/// Returns a path for a file of this process, in memory if possible.
pub(crate) fn scratch() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let shm = PathBuf::from("/dev/shm");
        let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let folder = base.join(format!("b2-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for files");
        folder
    });
    FOLDER.clone()
}

/// The input is a file. Opened as a file, at its start and after other bytes, it must read as it does in memory. The
/// output of salvage must be readable.
pub(crate) fn disk(data: &[u8]) {
    let mut dice = Dice::of(data);
    let options = options(small());
    let path = scratch().join("frame");
    fs::write(&path, data).expect("a file");
    let memory = options.from_bytes(data.to_vec());
    let disk = options.open(&path);
    if let Ok(memory) = &memory {
        let disk = disk.as_ref().expect("what can be opened in memory");
        compare(&observe(memory, &mut dice.clone()), &observe(disk, &mut dice.clone()), "on disk");
    } else if let Ok(disk) = &disk {
        // There are bytes after the frame, or a commit was interrupted.
        observe(disk, &mut dice.clone());
    }
    let offset = dice.below(70);
    if dice.one_in(4) {
        fs::write(&path, [&vec![0x9E; offset], data].concat()).expect("a file");
        if let (Ok(memory), Ok(inside)) = (&memory, options.clone().offset(offset as u64).open(&path)) {
            compare(
                &observe(memory, &mut dice.clone()),
                &observe(&inside, &mut dice.clone()),
                "at an offset",
            );
        }
    }
    if dice.one_in(4) {
        fs::write(&path, data).expect("a file");
        salvaged(&path, &options);
    }
}

fn salvaged(path: &std::path::Path, options: &ReadOptions) {
    let out = scratch().join("salvaged");
    let write: WriteOptions =
        b2_frame::FrameWriter::options().overwrite(true).durability(b2_frame::Durability::None);
    match salvage(path, &out, options, &write) {
        Ok(report) => {
            let schunk = SuperChunk::options().plugins(plugins()).open(&out).expect("what was salvaged");
            // Without the metalayers, salvage cannot know what is needed to decode a chunk whose checksum matches.
            if report.metalayers != Condition::Lost
                && schunk.nbytes() <= MAX_PLAIN
                && let Err(error) = schunk.read_bytes(0..schunk.nbytes())
            {
                // A chunk with a matching checksum may still need a plugin, or the block shape of an array.
                let causes = iter::successors(Some(&error as &dyn Error), |&error| error.source());
                let why = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
                let needs_more = ["is not registered", "block shape"].iter().any(|what| why.contains(what));
                assert!(needs_more, "what was salvaged cannot be read: {why}");
            }
            if out.is_dir() { fs::remove_dir_all(&out) } else { fs::remove_file(&out) }.expect("removed");
        }
        Err(error) => drop(error.to_string()),
    }
}

fn compare(a: &[ReadResult], b: &[ReadResult], why: &str) {
    assert_eq!(a.len(), b.len(), "{why}");
    for (a, b) in a.iter().zip(b) {
        match (a, b) {
            // File names differ in the error messages.
            (Err(_), Err(_)) => {}
            _ => same(a, b, why),
        }
    }
}

/// The input is a frame. Reading it in other pieces or from other memory must give the same result. Reading it while it
/// changes, or with failing reads, may at worst return an error.
pub(crate) fn split(data: &[u8]) {
    let dice = Dice::of(data);
    let options = options(small());
    let frame = Bytes::copy_from_slice(data);
    let whole = options.from_bytes(frame.clone());
    let pieces = SplitDriver { data: frame.clone(), dice: dice.clone() };
    let opened = pieces.drive(options.open_plan(data.len() as u64, Storage::Contiguous).whole());
    // Only files on this computer and frames in memory are opened by the copy of their start.
    let is_restored = whole.as_ref().is_ok_and(SuperChunk::is_restored);
    assert!(opened.is_ok() == whole.is_ok() || is_restored, "opened in pieces: {:?}", opened.err());
    if let (Ok(opened), Ok(whole)) = (opened, &whole) {
        let files = Arc::new(SingleFile(Arc::new(CopyingReader(frame.clone()))));
        let copies = options.opened(opened, files);
        compare(&observe(whole, &mut dice.clone()), &observe(&copies, &mut dice.clone()), "in pieces");
    }
    for kind in [UnsteadyReader::Failing, UnsteadyReader::Changing, UnsteadyReader::Short] {
        let after = dice.clone().below(12) as u64;
        let file = ReadTrouble { data: frame.clone(), kind, left: AtomicU64::new(after), dice: dice.clone() };
        let files = Arc::new(SingleFile(Arc::new(file)));
        match options.open_files(files, Storage::Contiguous, true) {
            Ok(schunk) => {
                // Different reads of one chunk may see different bytes or fail, so they need not agree.
                for nchunk in 0..schunk.nchunks().min(MAX_READ_CHUNKS) {
                    let _ = schunk.chunk(nchunk).decompress().map_err(|error| error.to_string());
                    let _ = schunk.chunk(nchunk).blocks(&[0, 1], |_, _| ());
                }
                let _ = schunk.read_bytes(0..schunk.nbytes().min(1 << 14));
                if let Ok(array) = NdArray::from_super_chunk(schunk)
                    && array.nbytes() <= MAX_PLAIN
                {
                    let _ = array.all().read_bytes();
                }
            }
            Err(error) => drop(error.to_string()),
        }
    }
}

/// A driver that fetches each extent in several reads and joins them.
struct SplitDriver {
    data: Bytes,
    dice: Dice,
}

impl SplitDriver {
    fn drive<P: Plan>(&self, mut plan: P) -> Result<P::Output, FrameError> {
        let mut dice = self.dice.clone();
        let mut parts = Vec::new();
        for _ in 0..1000 {
            match plan.step(parts)? {
                Step::Done(output) => return Ok(output),
                Step::Need(extents) => {
                    parts = Vec::new();
                    for extent in extents {
                        parts.push(self.fetch(&extent, &mut dice)?);
                    }
                }
            }
        }
        panic!("a plan that does not end");
    }

    fn fetch(&self, extent: &Extent, dice: &mut Dice) -> Result<Bytes, FrameError> {
        let file = OpenFile::new(Arc::new(self.data.clone()), "pieces", 0)?;
        let whole = file.read(extent)?;
        let mut out = Vec::with_capacity(whole.len() + dice.below(9));
        let mut rest = &whole[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + dice.below(rest.len().min(100)));
            out.extend_from_slice(piece);
            rest = behind;
        }
        Ok(out.into())
    }
}

struct SingleFile(Arc<dyn ReadAt>);

impl FrameFiles for SingleFile {
    fn open(&self, _: FrameFile) -> Result<OpenFile, FrameError> {
        OpenFile::new(self.0.clone(), "a file", 0)
    }
}

/// Returns copies, never shared memory.
struct CopyingReader(Bytes);

impl ReadAt for CopyingReader {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buf)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnsteadyReader {
    /// From some read on, all reads fail.
    Failing,
    /// From some read on, the bytes differ.
    Changing,
    /// The file claims to be longer than it is.
    Short,
}

struct ReadTrouble {
    data: Bytes,
    kind: UnsteadyReader,
    left: AtomicU64,
    dice: Dice,
}

impl ReadAt for ReadTrouble {
    fn len(&self) -> io::Result<u64> {
        let more = if self.kind == UnsteadyReader::Short { 1 << 20 } else { 0 };
        Ok(self.data.len() as u64 + more)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        match self.kind {
            UnsteadyReader::Failing if left == 0 => return Err(io::Error::other("the disk is gone")),
            _ => self.data.read_exact_at(offset, buf)?,
        }
        if self.kind == UnsteadyReader::Changing && left == 0 && !buf.is_empty() {
            let mut dice = self.dice.clone();
            for _ in 0..3 {
                let at = dice.below(buf.len());
                buf[at] = dice.next() as u8;
            }
        }
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        let len = range.end.saturating_sub(range.start);
        if len > self.data.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buf = vec![0; len as usize];
        self.read_exact_at(range.start, &mut buf)?;
        Ok(buf.into())
    }
}

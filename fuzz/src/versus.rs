//! Compares this library with C-Blosc2, which runs in a separate process because it may crash.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use b2_chunk::{FilterId, SpecialKind};
use b2nd::NdArray;
use bytes::Bytes;

use crate::frame::{options, small};

/// Path of the Python interpreter that has python-blosc2.
const PYTHON: &str = "B2KIT_FUZZ_PYTHON";
/// Directory for the counts and examples of each class of results.
const FOLDER: &str = "B2KIT_FUZZ_CLASSES";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer.py");
/// Maximum number of chunks, as the peer reads no more.
const MAX_CHUNKS: usize = 8;
/// Maximum uncompressed size of a chunk that the peer reads.
const MAX_NBYTES: usize = 1 << 18;
const REJECTED: u32 = u32::MAX;
/// Number of examples kept of each class.
const MAX_EXAMPLES: u64 = 20;
/// Number of inputs between two writes of the counts.
const WRITE_INTERVAL: u64 = 200;

struct Peer {
    _child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    counts: BTreeMap<String, u64>,
    inputs: u64,
}

/// The result of one side for a frame: rejected, or its first chunks.
enum PeerReading {
    Rejected(String),
    Crashed,
    Chunks(Vec<ChunkResult>),
}

/// A chunk, or the reason why it cannot be read.
type ChunkResult = Result<PlainChunk, String>;

struct PlainChunk {
    bytes: Bytes,
    /// Whether C-Blosc2 leaves the memory unchanged.
    uninitialised: bool,
    /// Whether the chunk uses the old bytedelta filter.
    old_bytedelta: bool,
}

/// The input is a frame. Both sides read it, and their results are put into classes. Different data for the same chunk
/// is a finding, except where C-Blosc2 leaves memory uninitialised.
pub(crate) fn run(data: &[u8]) {
    static PEER: Mutex<Option<Peer>> = Mutex::new(None);
    let mut peer = PEER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let peer = peer.get_or_insert_with(|| Peer::start().expect("python-blosc2 runs"));
    let theirs = peer.ask(data).expect("the peer answers");
    let class = match (ours(data), theirs) {
        (_, PeerReading::Crashed) => "C crashes".to_owned(),
        (PeerReading::Rejected(_), PeerReading::Rejected(_)) => "both reject the frame".to_owned(),
        (PeerReading::Rejected(why), PeerReading::Chunks(_)) => {
            format!("only we reject the frame: {}", without_numbers(&why))
        }
        (PeerReading::Chunks(_), PeerReading::Rejected(_)) => "only C rejects the frame".to_owned(),
        (PeerReading::Chunks(ours), PeerReading::Chunks(theirs)) => return peer.chunks(data, &ours, &theirs),
        (PeerReading::Crashed, _) => unreachable!("this process is there"),
    };
    peer.count(&class, data);
}

impl Peer {
    fn start() -> io::Result<Self> {
        let python =
            std::env::var_os(PYTHON).ok_or_else(|| io::Error::other(format!("{PYTHON} is not set")))?;
        let mut child = Command::new(python)
            .arg("-B")
            .arg(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        Ok(Self { _child: child, stdin, stdout, counts: BTreeMap::new(), inputs: 0 })
    }

    fn ask(&mut self, frame: &[u8]) -> io::Result<PeerReading> {
        self.stdin.write_all(&(frame.len() as u32).to_le_bytes())?;
        self.stdin.write_all(frame)?;
        self.stdin.flush()?;
        let mut len = [0; 4];
        self.stdout.read_exact(&mut len)?;
        let mut answer = vec![0; u32::from_le_bytes(len) as usize];
        self.stdout.read_exact(&mut answer)?;
        match answer[0] {
            b'R' => return Ok(PeerReading::Rejected(String::new())),
            b'C' => return Ok(PeerReading::Crashed),
            _ => {}
        }
        let mut rest = Bytes::from(answer).split_off(1);
        let number = |rest: &mut Bytes| {
            let bytes = rest.split_to(4);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let count = number(&mut rest);
        let chunks = (0..count).map(|_| match number(&mut rest) {
            REJECTED => Err(String::new()),
            len => Ok(PlainChunk {
                bytes: rest.split_to(len as usize),
                uninitialised: false,
                old_bytedelta: false,
            }),
        });
        Ok(PeerReading::Chunks(chunks.collect()))
    }

    fn chunks(&mut self, data: &[u8], ours: &[ChunkResult], theirs: &[ChunkResult]) {
        if ours.len() != theirs.len() {
            return self.count("other numbers of chunks", data);
        }
        self.count("both open the frame", data);
        let mut different = false;
        for (ours, theirs) in ours.iter().zip(theirs) {
            let class = match (ours, theirs) {
                (Ok(a), Ok(b)) if a.bytes == b.bytes => "chunk: same data".to_owned(),
                (Ok(a), Ok(_)) if a.uninitialised => {
                    assert!(a.bytes.iter().all(|byte| *byte == 0), "uninitialised chunks are zeros");
                    "chunk: uninitialised, C gives what the memory held".to_owned()
                }
                // If items do not fit the block, C-Blosc2 writes nothing and returns what the memory held.
                (Ok(a), Ok(_)) if a.old_bytedelta => "chunk: filter 34, C gives other data".to_owned(),
                (Ok(_), Ok(_)) => {
                    different = true;
                    "chunk: DIFFERENT DATA".to_owned()
                }
                (Err(why), Ok(_)) => format!("chunk: only we reject: {}", without_numbers(why)),
                (Ok(_), Err(_)) => "chunk: only C rejects".to_owned(),
                (Err(_), Err(_)) => "chunk: both reject".to_owned(),
            };
            self.count(&class, data);
        }
        assert!(!different, "C-Blosc2 reads other data");
    }

    fn count(&mut self, class: &str, data: &[u8]) {
        let n = self.counts.entry(class.to_owned()).or_default();
        *n += 1;
        let n = *n;
        self.inputs += 1;
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let telling = class.contains("only") || class.contains("DIFFERENT") || class.contains("numbers");
        if telling && n <= MAX_EXAMPLES {
            keep(&folder, class, n, data);
        }
        if self.inputs.is_multiple_of(WRITE_INTERVAL) {
            let lines: String = self.counts.iter().map(|(class, n)| format!("{n:>9}  {class}\n")).collect();
            fs::create_dir_all(&folder).expect("a folder for the counts");
            fs::write(folder.join("counts.txt"), lines).expect("the counts are kept");
        }
    }
}

fn keep(folder: &Path, class: &str, n: u64, data: &[u8]) {
    let name: String =
        class.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(90).collect();
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a folder for examples");
    fs::write(folder.join(format!("{n:02}.b2frame")), data).expect("the example is kept");
}

fn ours(data: &[u8]) -> PeerReading {
    let schunk = match options(small()).checksums(false).from_bytes(data.to_vec()) {
        Ok(schunk) => schunk,
        Err(error) => return PeerReading::Rejected(error.to_string()),
    };
    // Open arrays as such, because some filters and codecs need the shape of a block.
    let schunk =
        NdArray::from_super_chunk(schunk.clone()).map_or(schunk, |array| array.super_chunk().clone());
    let read = |nchunk| {
        let chunk = schunk.chunk(nchunk).read().map_err(|error| error.to_string())?;
        if chunk.nbytes() > MAX_NBYTES {
            return Err("large".to_owned());
        }
        let uninitialised = chunk.header().special() == Some(SpecialKind::Uninit);
        let plain = chunk.decompress_bytes_with(schunk.dparams()).map_err(|error| error.to_string())?;
        let old_bytedelta =
            chunk.header().filters().iter().any(|slot| slot.id == FilterId::BYTEDELTA_HISTORIC);
        Ok(PlainChunk { bytes: plain.into(), uninitialised, old_bytedelta })
    };
    PeerReading::Chunks((0..schunk.nchunks().min(MAX_CHUNKS)).map(read).collect())
}

/// Removes numbers, in which errors of one kind differ.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    text.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

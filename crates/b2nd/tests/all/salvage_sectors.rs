//! One bad sector: what of a file is saved, wherever the sector is.
//!
//! `B2KIT_SALVAGE_EVERY` and `B2KIT_SALVAGE_RANDOM` select more sectors, `B2KIT_PEER` for files of C-Blosc2, too.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use b2_chunk::{Chunk, CodecId, Compression, FilterSlot, LazyHead};
use b2_frame::{
    Durability, Entry, FrameWriter, ReadOptions, SalvageReport, Storage, SuperChunk, WriteOptions,
};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, Dtype, salvage_filled};

const SECTOR: u64 = 512;

/// A block that is stored: bytes of a file of the frame that it takes.
struct Block {
    nchunk: usize,
    file: PathBuf,
    own: Range<u64>,
    /// Header, starts and dictionary of its chunk.
    head: Range<u64>,
    hash: u64,
}

/// A frame whose files are known byte by byte.
struct Whole {
    path: PathBuf,
    blocks: Vec<Block>,
    nchunks: usize,
    nbytes: u64,
    hasher: RandomState,
}

fn plain_blocks(chunk: &Chunk) -> Vec<Vec<u8>> {
    let plain = chunk.decompress_bytes().unwrap();
    plain.chunks(chunk.header().blocksize()).map(<[u8]>::to_vec).collect()
}

impl Whole {
    fn open(path: &Path) -> Self {
        let frame = SuperChunk::open(path).unwrap();
        let (hasher, mut blocks) = (RandomState::new(), Vec::new());
        for nchunk in 0..frame.nchunks() {
            let Entry::Stored(offset) = frame.chunk(nchunk).entry().unwrap() else { continue };
            let (file, start) = match path.is_dir() {
                true => (path.join(format!("{offset:08X}.chunk")), 0),
                false => (path.to_owned(), frame.layout().data.start + offset),
            };
            let chunk = frame.chunk(nchunk).read().unwrap();
            let LazyHead::Ready(lazy) = b2_chunk::LazyChunk::parse(
                chunk.as_bytes(),
                chunk.as_bytes().len() as u64,
                &b2_chunk::DParams::default(),
            )
            .unwrap() else {
                panic!("{}: chunk {nchunk}", path.display());
            };
            let at = |range: Range<usize>| start + range.start as u64..start + range.end as u64;
            let head = (0..lazy.nblocks()).map(|n| lazy.block_extent(n).start).min().unwrap_or(32);
            for (nblock, plain) in plain_blocks(&chunk).iter().enumerate() {
                blocks.push(Block {
                    nchunk,
                    file: file.clone(),
                    own: at(lazy.block_extent(nblock)),
                    head: at(0..head),
                    hash: hasher.hash_one((nblock, plain)),
                });
            }
        }
        Self { path: path.to_owned(), blocks, nchunks: frame.nchunks(), nbytes: frame.nbytes(), hasher }
    }

    /// The files of the frame.
    fn files(&self) -> Vec<PathBuf> {
        if !self.path.is_dir() {
            return vec![self.path.clone()];
        }
        let mut files: Vec<PathBuf> =
            fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Zeroes the bytes, salvages, and puts them back.
    fn without(&self, file: &Path, range: Range<u64>, figures: &mut Figures) {
        let whole = fs::read(file).unwrap();
        let mut bytes = whole.clone();
        bytes[range.start as usize..range.end as usize].fill(0);
        self.with(file, &bytes, &whole, range, figures);
    }

    /// Salvages with other bytes in a file; `range` are those that are lost.
    fn with(&self, file: &Path, bytes: &[u8], whole: &[u8], range: Range<u64>, figures: &mut Figures) {
        fs::write(file, bytes).unwrap();
        let result = save(&self.path);
        fs::write(file, whole).unwrap();
        let hit = |there: &Range<u64>| there.start < range.end && range.start < there.end;
        let intact = |block: &&Block| block.file != file || !hit(&block.own);
        let usable = |block: &&Block| block.file != file || !hit(&block.own) && !hit(&block.head);
        let (there, anywhere) = match &result {
            Err(_) => Default::default(),
            Ok(report) => {
                let saved = SuperChunk::open(out(&self.path)).unwrap();
                let what = format!("{} {range:?}: {report:?}", self.path.display());
                assert!(saved.nchunks() <= self.nchunks && saved.nbytes() <= self.nbytes, "{what}");
                let (mut there, mut anywhere) = (HashSet::new(), HashSet::new());
                for nchunk in 0..saved.nchunks() {
                    let chunk = saved.chunk(nchunk).read().unwrap();
                    for (nblock, plain) in plain_blocks(&chunk).iter().enumerate() {
                        let hash = self.hasher.hash_one((nblock, plain));
                        there.insert((nchunk, hash));
                        anywhere.insert(hash);
                    }
                }
                (there, anywhere)
            }
        };
        let saved = |block: &&Block| {
            let is_there = there.contains(&(block.nchunk, block.hash));
            (is_there, is_there || anywhere.contains(&block.hash))
        };
        let count = |of: &dyn Fn(&&Block) -> bool| {
            let (mut all, mut placed, mut found) = (0, 0, 0);
            for block in self.blocks.iter().filter(of) {
                let (is_there, is_anywhere) = saved(&block);
                (all, placed, found) =
                    (all + 1, placed + u64::from(is_there), found + u64::from(is_anywhere));
            }
            [all, placed, found]
        };
        let (usable, intact) = (count(&usable), count(&intact));
        if usable[2] < usable[0] && env::var_os("B2KIT_SALVAGE_TELL").is_some() {
            let why = result.map(|report| format!("{report:?}"));
            println!("{} {range:?}: {usable:?}: {why:?}", file.display());
        }
        for n in 0..3 {
            figures.usable[n] += usable[n];
            figures.intact[n] += intact[n];
        }
        figures.sectors += 1;
        figures.unplaced += u64::from(usable[1] < usable[0]);
    }
}

/// Blocks, those saved in their places, and those saved.
#[derive(Debug, Default)]
struct Figures {
    sectors: u64,
    /// Sectors that cost more than they hit.
    unplaced: u64,
    /// Blocks whose bytes, and the head of whose chunk, are not in the sector.
    usable: [u64; 3],
    /// Blocks whose own bytes are not in the sector.
    intact: [u64; 3],
}

impl Figures {
    fn tell(&self, name: &str) {
        let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let [all, placed, found] = self.usable;
        println!(
            "{name:32} {:5} sectors: {:8.4} % of intact blocks saved, {:8.4} % in place ({} sectors cost more than \
             they hit); {:8.4} % of those whose own bytes are intact",
            self.sectors,
            share(found, all),
            share(placed, all),
            self.unplaced,
            share(self.intact[2], self.intact[0]),
        );
    }

    fn add(&mut self, other: &Self) {
        self.sectors += other.sectors;
        self.unplaced += other.unplaced;
        for n in 0..3 {
            self.usable[n] += other.usable[n];
            self.intact[n] += other.intact[n];
        }
    }
}

fn out(path: &Path) -> PathBuf {
    path.with_extension("out")
}

fn save(path: &Path) -> Result<SalvageReport, b2_frame::FrameError> {
    let there = out(path);
    let _ = if there.is_dir() { fs::remove_dir_all(&there) } else { fs::remove_file(&there) };
    let write = FrameWriter::options().durability(Durability::None);
    salvage_filled(path, there, &ReadOptions::default(), &write, |_, _| Ok(Vec::new()))
}

/// Numbers that shrink to about half.
fn numbers(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut at = 0i64;
    let mut next = || {
        at += rng.below(5000) as i64 - 2500;
        at
    };
    (0..len).flat_map(|_| next().to_le_bytes()).collect()
}

fn write(path: &Path, shape: &[u64], chunks: &[u32], blocks: &[u32], codec: CodecId, options: WriteOptions) {
    let cparams = Compression::new().itemsize(8).codec(codec).filters([FilterSlot::SHUFFLE]).build().unwrap();
    let nitems = shape.iter().product::<u64>() as usize;
    let builder = ArrayBuilder::of_dtype(shape, Dtype::parse("<i8").unwrap());
    let builder = builder.chunks(chunks).blocks(blocks).compression(cparams);
    builder.write_options(options).write(path, &numbers(nitems, 7)[..]).unwrap();
}

/// Ours: codecs, shapes, storages, with and without checksums.
fn ours(folder: &Path) -> Vec<PathBuf> {
    let options = || FrameWriter::options().durability(Durability::None);
    let sparse = || options().storage(Storage::Sparse);
    let names = ["zstd", "lz4", "blosclz", "sparse", "one-chunk", "no-sums"];
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.b2nd"))).collect();
    write(&paths[0], &[200_000], &[20_000], &[2000], CodecId::ZSTD, options());
    write(&paths[1], &[400, 500], &[100, 100], &[20, 50], CodecId::LZ4, options().block_starts(true));
    write(&paths[2], &[60, 50, 60], &[20, 50, 20], &[10, 10, 20], CodecId::BLOSCLZ, options());
    write(&paths[3], &[400, 400], &[90, 110], &[30, 40], CodecId::ZLIB, sparse());
    write(&paths[4], &[200_000], &[200_000], &[2000], CodecId::ZSTD, options());
    write(&paths[5], &[400, 500], &[50, 500], &[10, 50], CodecId::LZ4HC, options().checksums(false));
    paths
}

/// Files of C-Blosc2, where `B2KIT_PEER` names a Python with blosc2.
fn theirs(folder: &Path) -> Vec<PathBuf> {
    let Some(python) = env::var_os("B2KIT_PEER") else { return Vec::new() };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/salvage_files.py");
    let status = Command::new(python).arg("-B").arg(script).arg(folder).status().unwrap();
    assert!(status.success(), "C-Blosc2 ended with {status}");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "b2nd"));
    assert!(paths.len() > 3, "{paths:?}");
    paths.sort();
    paths
}

/// Every sector on request, otherwise the first and last ones and a few others.
#[test]
fn one_bad_sector_costs_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let every = env::var_os("B2KIT_SALVAGE_EVERY").is_some();
    let mut total = Figures::default();
    let c = folder.path().join("c");
    fs::create_dir(&c).unwrap();
    for path in ours(folder.path()).into_iter().chain(theirs(&c)) {
        let whole = Whole::open(&path);
        let mut figures = Figures::default();
        for file in whole.files() {
            let len = fs::metadata(&file).unwrap().len();
            let sectors = len.div_ceil(SECTOR);
            for sector in 0..sectors {
                if every || sector < 2 || sectors - sector <= 4 || sector % 97 == 31 {
                    let range = sector * SECTOR..((sector + 1) * SECTOR).min(len);
                    whole.without(&file, range, &mut figures);
                }
            }
        }
        figures.tell(&path.file_name().unwrap().to_string_lossy());
        total.add(&figures);
    }
    total.tell("all");
    let [all, _, found] = total.usable;
    assert!(found as f64 >= 0.999 * all as f64, "{total:?}");
}

/// The same with random sectors of a large file, on request.
#[test]
fn a_bad_sector_of_a_large_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.b2nd");
    let asked = env::var("B2KIT_SALVAGE_RANDOM").ok().and_then(|n| n.parse::<u64>().ok());
    let nitems = if asked.is_some() { 4 << 20 } else { 1 << 18 };
    let options = FrameWriter::options().durability(Durability::None);
    write(&path, &[nitems], &[1 << 17], &[1 << 12], CodecId::LZ4, options);
    let whole = Whole::open(&path);
    let sectors = fs::metadata(&path).unwrap().len() / SECTOR;
    let (mut rng, mut figures) = (Rng::new(19), Figures::default());
    for _ in 0..asked.unwrap_or(10) {
        let sector = rng.below(sectors as usize) as u64;
        whole.without(&path, sector * SECTOR..(sector + 1) * SECTOR, &mut figures);
    }
    figures.tell("large");
    let [all, placed, _] = figures.usable;
    assert!(placed as f64 >= 0.999 * all as f64, "{figures:?}");
}

/// A file that was cut off gives the blocks of its last chunk, too.
#[test]
fn the_last_chunk_of_a_file_that_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    for path in ours(folder.path()) {
        let whole = Whole::open(&path);
        for file in whole.files() {
            let bytes = fs::read(&file).unwrap();
            for part in [1, 3, 5, 7, 9] {
                let len = bytes.len() * part / 10;
                let mut figures = Figures::default();
                whole.with(&file, &bytes[..len], &bytes, len as u64..bytes.len() as u64, &mut figures);
                let [all, placed, _] = figures.usable;
                assert_eq!(placed, all, "{} {part}", path.display());
            }
        }
    }
}

//! Benchmarks three-dimensional arrays of 4-byte items. Prints one line of JSON for each operation: bytes and calls of
//! one repetition, and the best time. Every result is compared with the original items before it is
//! timed.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use b2_measure::{Clock, SplitMix64, TimeSpent, least, repeat};
use b2kit::frame::Durability;
use b2kit::{ArrayBuilder, ArrayEditor, Control, Dtype, FrameEditor, FrameWriter, NdArray, SuperChunk};
use bytes::Bytes;
use serde_json::json;

use crate::compression::Compression;

const ITEM_LEN: usize = 4;
const BOX: [u64; 3] = [32, 32, 32];
const PLANES: usize = 6;
const BOXES: usize = 40;
const ELEMENTS: usize = 200;
const OPENS: usize = 40;
const SETS: usize = 20;
const READER_BOXES: usize = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    input: PathBuf,
    /// Path of the array, with `--storage disk`
    #[arg(long, default_value = "")]
    path: PathBuf,
    #[arg(long, default_value = "memory")]
    storage: String,
    #[arg(long, value_parser = dims)]
    shape: [u64; 3],
    #[arg(long, value_parser = dims)]
    chunks: [u64; 3],
    #[arg(long, value_parser = dims)]
    blocks: [u64; 3],
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, value_delimiter = ',')]
    op: Vec<String>,
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    #[arg(long, default_value_t = 1e9)]
    budget: f64,
    #[command(flatten)]
    compression: Compression,
}

impl Args {
    /// Opens the array for reading with the requested number of threads. Concurrent readers use one thread each: they
    /// are in no pool, and would otherwise use the threads of the process.
    fn open(&self) -> Result<NdArray> {
        let threads = if self.op == ["readers"] { 1 } else { self.threads };
        let options = SuperChunk::options().control(Control::new().threads(threads));
        Ok(NdArray::open_with(&self.path, &options)?)
    }
}

fn dims(text: &str) -> Result<[u64; 3], String> {
    let dims = text.split(',').map(|part| part.parse().map_err(|_| format!("'{part}' is not a length")));
    dims.collect::<Result<Vec<_>, _>>()?.try_into().map_err(|_| "not three lengths".into())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // The current thread is one of the pool.
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).use_current_thread().build_global()?;
    let src = fs::read(&args.input).context("the input")?;
    ensure!(src.len() == nbytes(&args.shape), "the shape is not that of the input");
    let (on_disk, dst) = (args.storage == "disk", vec![1; src.len()]);
    let mut bench = ArrayBench { args, on_disk, src, dst, array: None, frame: Bytes::new(), editor: None };
    if on_disk && args.path.exists() {
        bench.array = Some(args.open()?);
    }
    for op in &args.op {
        if let Some(op) = op.strip_prefix("scratch-") {
            bench.scratch(op)?;
            continue;
        }
        // An untimed run first, which checks the results and warms the caches.
        let (bytes, _) = bench.run(op, true)?;
        let times = repeat(args.repeat, args.budget, || bench.run(op, false).map(|(_, spent)| spent))?;
        let line = json!({
            "op": op,
            "nbytes": bench.src.len(),
            "bytes_per_rep": bytes,
            "calls": calls(op, args.threads),
            "cbytes": bench.array()?.super_chunk().cbytes(),
            "min_s": least(times.iter().map(|time| time.wall)),
            "cpu_min_s": least(times.iter().map(|time| time.cpu)),
        });
        println!("{line}");
    }
    Ok(())
}

fn calls(op: &str, threads: usize) -> usize {
    match op {
        "plane0" | "plane1" | "plane2" => PLANES,
        "box" => BOXES,
        "element" => ELEMENTS,
        "open" => OPENS,
        "set" => SETS,
        "readers" => READER_BOXES * threads,
        _ => 1,
    }
}

fn nbytes(shape: &[u64; 3]) -> usize {
    shape.iter().product::<u64>() as usize * ITEM_LEN
}

struct ArrayBench<'a> {
    args: &'a Args,
    on_disk: bool,
    src: Vec<u8>,
    dst: Vec<u8>,
    array: Option<NdArray>,
    /// The array in memory.
    frame: Bytes,
    /// The editor of the array in memory.
    editor: Option<ArrayEditor>,
}

impl ArrayBench<'_> {
    fn array(&self) -> Result<&NdArray> {
        self.array.as_ref().context("the array is not written yet")
    }

    /// Returns the number of bytes handled and the time taken.
    fn run(&mut self, op: &str, verify: bool) -> Result<(usize, TimeSpent)> {
        let (full, one) = (self.args.shape, [1; 3]);
        match op {
            "write" => return self.write(),
            "append" => return self.append(verify),
            "set" => return self.set(verify),
            _ => {}
        }
        let clock = Clock::start();
        let bytes = match op {
            "read" => self.get(&[0; 3], &full, verify)?,
            "plane0" | "plane1" | "plane2" => {
                let axis = usize::from(op.as_bytes()[5] - b'0');
                let shape = std::array::from_fn(|dim| if dim == axis { 1 } else { full[dim] });
                self.boxes(11 + axis as u64, PLANES, &shape, verify)?
            }
            "box" => self.boxes(9, BOXES, &BOX, verify)?,
            "element" => self.boxes(5, ELEMENTS, &one, verify)?,
            "open" => self.open(verify)?,
            "readers" => self.readers()?,
            _ => bail!("no operation '{op}'"),
        };
        Ok((bytes, clock.stop()))
    }

    fn write(&mut self) -> Result<(usize, TimeSpent)> {
        (self.array, self.frame, self.editor) = (None, Bytes::new(), None);
        let args = self.args;
        if self.on_disk && args.path.exists() {
            fs::remove_file(&args.path)?;
        }
        let small = |dims: [u64; 3]| dims.map(|n| n as u32);
        let clock = Clock::start();
        // No syncing, as on the C side.
        let builder = ArrayBuilder::of_dtype(args.shape, Dtype::parse("<f4")?)
            .chunks(small(args.chunks))
            .blocks(small(args.blocks))
            .write_options(FrameWriter::options().durability(Durability::None))
            .compression(args.compression.cparams(ITEM_LEN)?);
        if self.on_disk {
            builder.write(&args.path, &self.src[..])?;
        } else {
            self.frame = builder.to_bytes(&self.src[..])?;
        }
        let spent = clock.stop();
        self.array = Some(match self.on_disk {
            true => args.open()?,
            false => NdArray::from_bytes(self.frame.clone())?,
        });
        Ok((self.src.len(), spent))
    }

    /// Changes a copy of the file, which is opened and closed, or the array in memory, with a single commit.
    fn change(
        &mut self,
        suffix: &str,
        change: impl FnOnce(&mut ArrayEditor, &[u8]) -> Result<()>,
        after: impl FnOnce(&mut ArrayEditor, &[u8]) -> Result<()>,
    ) -> Result<TimeSpent> {
        let path = self.args.path.with_extension(suffix);
        if self.on_disk {
            fs::copy(&self.args.path, &path)?;
        } else if self.editor.is_none() {
            self.editor = Some(NdArray::edit_bytes(self.frame.clone())?);
        }
        let clock = Clock::start();
        let mut opened = None;
        let editor = match self.on_disk {
            true => {
                let options = FrameEditor::options().durability(Durability::None);
                opened.insert(ArrayEditor::new(options.edit(&path)?)?)
            }
            false => self.editor.as_mut().context("no editor")?,
        };
        change(editor, &self.src)?;
        editor.commit()?;
        let spent = clock.stop();
        after(editor, &self.src)?;
        if self.on_disk {
            remove_with_lock(&path)?;
        }
        Ok(spent)
    }

    /// Appends as many planes as a chunk has.
    fn append(&mut self, verify: bool) -> Result<(usize, TimeSpent)> {
        let (shape, planes, on_disk) = (self.args.shape, self.args.chunks[0], self.on_disk);
        let extra = [planes, shape[1], shape[2]];
        let append = |editor: &mut ArrayEditor, src: &[u8]| -> Result<()> {
            editor.append(0, &src[..nbytes(&extra)])?;
            Ok(())
        };
        let after = |editor: &mut ArrayEditor, src: &[u8]| -> Result<()> {
            if verify {
                let appended = editor.snapshot()?.slice(ranges(&[shape[0], 0, 0], &extra))?.read_bytes()?;
                ensure!(appended == src[..nbytes(&extra)], "wrong items were appended");
            }
            if !on_disk {
                editor.resize(&shape)?;
                editor.commit()?;
            }
            Ok(())
        };
        Ok((nbytes(&extra), self.change("append", append, after)?))
    }

    /// Sets boxes at random positions, which are parts of chunks.
    fn set(&mut self, verify: bool) -> Result<(usize, TimeSpent)> {
        let (shape, size) = (self.args.shape, nbytes(&BOX));
        let places = || {
            let mut random = SplitMix64(21);
            std::iter::repeat_with(move || place(&mut random, &shape, &BOX)).take(SETS)
        };
        let set = |editor: &mut ArrayEditor, src: &[u8]| -> Result<()> {
            for (place, part) in places().zip(src.chunks_exact(size)) {
                editor.set_bytes(ranges(&place, &BOX), part)?;
            }
            Ok(())
        };
        let after = |editor: &mut ArrayEditor, src: &[u8]| -> Result<()> {
            if let (true, Some(last)) = (verify, places().last()) {
                let got = editor.snapshot()?.slice(ranges(&last, &BOX))?.read_bytes()?;
                ensure!(got == src[(SETS - 1) * size..][..size], "wrong items were set");
            }
            Ok(())
        };
        Ok((SETS * size, self.change("set", set, after)?))
    }

    fn get(&mut self, start: &[u64; 3], shape: &[u64; 3], verify: bool) -> Result<usize> {
        let array = self.array.as_ref().context("the array is not written yet")?;
        let dst = &mut self.dst[..nbytes(shape)];
        array.slice(ranges(start, shape))?.read_bytes_into(dst)?;
        if verify {
            same(&self.src, &self.args.shape, start, shape, dst)?;
        }
        Ok(dst.len())
    }

    /// Returns boxes of this shape at random positions.
    fn boxes(&mut self, seed: u64, n: usize, shape: &[u64; 3], verify: bool) -> Result<usize> {
        let mut random = SplitMix64(seed);
        let mut bytes = 0;
        for _ in 0..n {
            bytes += self.get(&place(&mut random, &self.args.shape, shape), shape, verify)?;
        }
        Ok(bytes)
    }

    /// Repeatedly opens the file, reads one item and closes it.
    fn open(&self, verify: bool) -> Result<usize> {
        let (one, mut item) = ([1; 3], [0; ITEM_LEN]);
        for k in 0..OPENS {
            let start = place(&mut SplitMix64(50 + k as u64), &self.args.shape, &one);
            NdArray::open(&self.args.path)?.slice(ranges(&start, &one))?.read_bytes_into(&mut item)?;
            if verify {
                same(&self.src, &self.args.shape, &start, &one, &item)?;
            }
        }
        Ok(OPENS * ITEM_LEN)
    }

    /// Reads boxes of the same open array from the requested number of threads.
    fn readers(&self) -> Result<usize> {
        let (array, shape) = (self.array()?, &self.args.shape);
        let read = |seed| -> Result<usize> {
            let (mut random, mut to) = (SplitMix64(seed), vec![0; nbytes(&BOX)]);
            for _ in 0..READER_BOXES {
                array
                    .slice(ranges(&place(&mut random, shape, &BOX), &BOX))?
                    .read_bytes_into(black_box(&mut to))?;
            }
            Ok(READER_BOXES * to.len())
        };
        std::thread::scope(|scope| {
            let readers = (0..self.args.threads as u64).map(|k| scope.spawn(move || read(100 + k)));
            let readers: Vec<_> = readers.collect();
            readers
                .into_iter()
                .map(|reader| reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?)
                .sum()
        })
    }

    /// Measures the peak memory that an operation adds to what was in use before.
    fn scratch(&mut self, op: &str) -> Result<()> {
        fs::write("/proc/self/clear_refs", "5")?;
        let before = status_kib("VmRSS:")?;
        self.run(op, false)?;
        let kib = status_kib("VmHWM:")?.saturating_sub(before);
        println!("{}", json!({"op": format!("scratch-{op}"), "kib": kib}));
        Ok(())
    }
}

fn ranges(start: &[u64; 3], shape: &[u64; 3]) -> [std::ops::Range<i64>; 3] {
    std::array::from_fn(|dim| start[dim] as i64..(start[dim] + shape[dim]) as i64)
}

/// Compares a box of items with the original ones.
fn same(src: &[u8], whole: &[u64; 3], start: &[u64; 3], shape: &[u64; 3], got: &[u8]) -> Result<()> {
    let row = shape[2] as usize * ITEM_LEN;
    for i in 0..shape[0] {
        for j in 0..shape[1] {
            let at = ((start[0] + i) * whole[1] + start[1] + j) * whole[2] + start[2];
            let (at, to) = (at as usize * ITEM_LEN, (i * shape[1] + j) as usize * row);
            ensure!(src[at..at + row] == got[to..to + row], "wrong items");
        }
    }
    Ok(())
}

fn remove_with_lock(path: &Path) -> Result<()> {
    fs::remove_file(path)?;
    let mut lock = path.as_os_str().to_owned();
    lock.push(".b2lock");
    if Path::new(&lock).exists() {
        fs::remove_file(lock)?;
    }
    Ok(())
}

fn status_kib(key: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(key)).context("no such line in the status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Returns a random position for a box of this shape.
fn place(random: &mut SplitMix64, whole: &[u64; 3], shape: &[u64; 3]) -> [u64; 3] {
    std::array::from_fn(|dim| random.next_u64() % (whole[dim] - shape[dim] + 1))
}

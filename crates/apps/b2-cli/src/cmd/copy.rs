//! `b2kit copy`

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use b2kit::base::{Control, for_each};
use b2kit::chunk::{CParams, SpecialKind};
use b2kit::frame::{Entry, FrameError, FrameParams, INDEXES, ReadAhead, Storage};
use b2kit::nd::{ArrayMeta, METALAYER, Region, SharedRegions};
use b2kit::{ArrayBuilder, Chunk, Compression, Dtype, NdArray, SuperChunk};

use crate::args::{Codec, Encoding, Format, Global, Shape, Source, plugins};
use crate::files::{
    ModeOf, check_folder, claim, keep_time, refuse_other_format, spool_beside, stdio, urls, write_through,
};
use crate::formats::npy::RawSource;
use crate::process::{Progress, buffer, signals};
use crate::read::{Input, Selection, is_array_layer, is_object_list};
use crate::write::{
    BATCH, Layers, NewFile, ProgressSource, Promise, append_bytes, auto, check_one_chunk, chunksize, lossy,
    report, shape_of,
};

const EXAMPLES: &str = "\
Examples:
  b2kit copy data.b2nd dir.b2nd --format sframe
  b2kit copy data.b2nd small.b2nd --codec zstd --clevel 9
  b2kit copy data.b2nd rows.b2nd --chunks 1,1000,1000
  b2kit copy old.b2frame new.b2nd --dtype '<f4' --shape 100,200
  b2kit copy store.b2z::/group/array array.b2nd

What is not given stays as it was. Chunks are copied as they are where nothing
asks to compress them again.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("format", |arg| arg.help("Write this kind of file [default: that of IN]")))]
pub(crate) struct Args {
    /// A frame, the directory of a sparse frame, a chunk, or FILE::KEY in a store
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The new file
    #[arg(value_name = "OUT", required_unless_present_any = ["to", "stdout"], conflicts_with_all = ["to", "stdout"])]
    output: Option<PathBuf>,
    /// The new file, given as an option (-: standard output)
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "stdout")]
    to: Option<PathBuf>,
    /// Write to standard output, like -o -
    #[arg(short = 'c', long)]
    stdout: bool,
    /// Read this member of a store, like IN::KEY
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Overwrite OUT: a file, or the directory of a sparse frame
    #[arg(long)]
    force: bool,
    /// Do not wait for the disk
    ///
    /// Faster, but OUT may be lost or damaged if the power fails within the next half minute.
    #[arg(long)]
    no_sync: bool,
    /// Copy the modification time of IN to OUT
    #[arg(long, conflicts_with = "stdout")]
    keep_time: bool,
    #[command(flatten)]
    encoding: Encoding,
}

impl Args {
    /// The new file. The parser makes sure that there is one.
    fn target(&self) -> &Path {
        self.output.as_deref().or(self.to.as_deref()).unwrap_or(Path::new("-"))
    }
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let format = args.encoding.format.unwrap_or(Format::Cframe);
    write_through(args.target(), format, args.force, |output| copy(args, output, global))
}

fn copy(args: &Args, output: &Path, global: Global) -> Result<()> {
    let shown = args.target();
    let global = global.comparing();
    let start = Instant::now();
    let _mode = ModeOf::inputs([&*args.input]);
    let encoding = &args.encoding;
    let dtype = encoding.dtype()?;
    let named = || args.input.display().to_string();
    refuse_other_format(shown)?;
    if !urls::is_url(shown) {
        check_folder(shown)?;
        claim(shown, args.force, &[&args.input])?;
    }
    let source = Source { file: args.input.clone(), offset: 0, key: args.key.clone() }.inside();
    let input = Input::open_source(&source, global).with_context(named)?.say_changed(&source.file);
    input.check_output().with_context(named)?;
    if let Some(frame) = input.frame() {
        frame.dparams().limits.check_memory("index of the copy, in bytes", index_memory(frame.nchunks()))?;
    }
    let format = encoding.format.unwrap_or(match input.frame().map(SuperChunk::storage) {
        Some(Storage::Contiguous) => Format::Cframe,
        Some(Storage::Sparse) if stdio::is_stream(shown) || urls::is_url(shown) => Format::Cframe,
        Some(Storage::Sparse) => Format::Sframe,
        None => Format::Chunk,
    });
    let had_starts = input.frame().is_some_and(|frame| frame.block_starts_len().is_some());
    let target = NewFile {
        together: None,
        path: output,
        shown,
        format,
        overwrite: args.force,
        sync: !args.no_sync,
        block_starts: encoding.block_starts || had_starts,
        global,
    };
    let progress = Progress::new(named(), input.nbytes(), global.quiet);
    let itemsize = dtype.as_ref().map_or_else(|| input.itemsize(), Dtype::itemsize);
    let old = input.frame().map(|frame| frame.header().codec());
    let encoding = &lossy::settle(encoding, itemsize, old)?;
    let encoding = resolved_encoding(encoding, &input).with_context(named)?;
    let job = Job { path: &args.input, input: &input, encoding: &encoding, target, global, progress };
    job.copy(dtype)?;
    if args.keep_time {
        keep_time(&args.input, output)?;
    }
    report(global, &args.input, (output, shown), start, args.encoding.codec == Some(Codec::Auto))
}

/// Memory for an index of `nchunks` chunks while it is written: entries and checksums, plain and compressed.
fn index_memory(nchunks: usize) -> u64 {
    (nchunks as u64).saturating_mul(32)
}

/// Resolves `--codec auto`.
fn resolved_encoding<'a>(encoding: &'a Encoding, input: &Input) -> Result<Cow<'a, Encoding>> {
    if let Input::Array(array) = input {
        let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| {
            Ok(array.slice(ranges(start, shape))?.read_bytes_into(dst)?)
        };
        return auto::for_array(encoding, array.geometry(), read);
    }
    let typesize = encoding.typesize.map_or(input.itemsize(), |typesize| typesize as usize);
    auto::for_bytes(encoding, typesize, input.nbytes(), |at, dst| input.read_linear(at, dst))
}

/// Selects the box of items at `start`. The box is inside an array, whose lengths are below 2^63, so that the casts are
/// lossless.
pub(super) fn ranges(start: &[u64], shape: &[u64]) -> Vec<b2kit::Selection> {
    let range = |(start, len): (&u64, &u64)| b2kit::Selection::Range {
        start: Some(*start as i64),
        stop: Some((start + len) as i64),
        step: 1,
    };
    start.iter().zip(shape).map(range).collect()
}

struct Job<'a> {
    path: &'a Path,
    input: &'a Input,
    encoding: &'a Encoding,
    target: NewFile<'a>,
    global: Global,
    progress: Progress,
}

impl Job<'_> {
    fn named(&self) -> String {
        self.path.display().to_string()
    }

    fn copy(self, dtype: Option<Dtype>) -> Result<()> {
        if self.target.format == Format::Chunk {
            return self.copy_to_chunk();
        }
        let shape = self.encoding.shape.as_ref();
        match (self.input, dtype, shape) {
            (Input::Array(array), dtype, None) => self.copy_array(array, dtype),
            (Input::Array(array), dtype, Some(shape)) => {
                let dtype = dtype.unwrap_or_else(|| array.dtype().clone());
                self.reshape(dtype, shape)
            }
            (_, Some(dtype), Some(shape)) => self.reshape(dtype, shape),
            (_, Some(_), None) | (_, None, Some(_)) => bail!("--dtype and --shape: both make an array"),
            (Input::SuperChunk(frame), None, None) => self.copy_super_chunk(frame),
            (Input::Chunk(chunk), None, None) => self.copy_from_chunk(chunk),
        }
    }

    /// Copies all data into one bare chunk.
    fn copy_to_chunk(self) -> Result<()> {
        self.encoding.only_chunk_options()?;
        ensure!(
            self.encoding.dtype.is_none() && self.encoding.shape.is_none(),
            "--dtype and --shape: a bare chunk has neither"
        );
        let same = !self.encoding.recompresses() && self.encoding.typesize.is_none();
        if let (Input::Chunk(chunk), true) = (self.input, same) {
            return self.target.chunk(chunk);
        }
        let cparams = self.cparams()?;
        lossy::check_array(&cparams)?;
        let mut plain = Vec::new();
        plain.try_reserve_exact(check_one_chunk(self.input.nbytes())?)?;
        let (named, mut progress) = (self.named(), self.progress);
        let append = |piece: &[u8]| {
            plain.extend_from_slice(piece);
            Ok(())
        };
        Selection::all(self.input).stream(append, &mut progress).context(named)?;
        let chunk = Chunk::compress_bytes(&plain, &cparams)?;
        let written = || Ok(Input::from_chunk(chunk.clone(), plugins::dparams(self.global.limits(0))));
        let read = |at: u64, dst: &mut [u8]| {
            let at = usize::try_from(at)?;
            dst.copy_from_slice(plain.get(at..at + dst.len()).context("the chunk is shorter")?);
            Ok(())
        };
        lossy::check_bytes(self.target.promise(&cparams, self.encoding), written, read)?;
        self.target.chunk(&chunk)
    }

    fn copy_from_chunk(self, chunk: &Chunk) -> Result<()> {
        self.encoding.no_array_options("super-chunk")?;
        let mut layers = Layers::default();
        layers.add(self.encoding)?;
        let recut = self.encoding.chunksize.is_some() || self.encoding.typesize.is_some();
        if recut || self.encoding.recompresses() {
            return self.recut(layers);
        }
        let params = match self.cparams() {
            Ok(cparams) => FrameParams::from_cparams(&cparams),
            // This build does not have the codec or a filter. The frame header gets the defaults, and only the chunk
            // itself names the right ones.
            Err(_) => FrameParams::new(self.input.itemsize()),
        };
        let mut writer = self.target.frame(params, &layers)?;
        if chunk.nbytes() > 0 {
            writer.append(chunk.clone())?;
        }
        writer.finish()?;
        Ok(())
    }

    fn copy_super_chunk(self, frame: &SuperChunk) -> Result<()> {
        self.encoding.no_array_options("super-chunk")?;
        let layers = self.layers()?;
        if self.encoding.chunksize.is_some() {
            let is_list = is_object_list(frame.metalayers());
            ensure!(
                !is_list,
                "--chunksize: this is an object list of python-blosc2, whose chunks are its entries"
            );
            return self.recut(layers);
        }
        let typesize = self.encoding.typesize.map_or(frame.itemsize(), |typesize| typesize as usize);
        let recompresses = self.encoding.recompresses() || typesize != frame.itemsize();
        let cparams = if recompresses { Some(self.cparams()?) } else { None };
        self.copy_chunks(frame, cparams, &layers)
    }

    fn copy_array(self, array: &NdArray, dtype: Option<Dtype>) -> Result<()> {
        self.encoding.only_array_options()?;
        if let Some(dtype) = &dtype {
            let (new, old) = (dtype.itemsize(), array.itemsize());
            ensure!(new == old, "--dtype {dtype}: items of {new} bytes, the array's have {old}");
        }
        let (chunkshape, blockshape) = self.shapes(array)?;
        if self.encoding.recompresses() {
            lossy::check_dtype(&self.cparams()?, dtype.as_ref().unwrap_or(array.dtype()))?;
        }
        let mut layers = self.layers()?;
        if chunkshape == array.chunkshape() && blockshape == array.blockshape() {
            if let Some(dtype) = dtype {
                let text = dtype.as_str().as_bytes().to_vec();
                let meta = ArrayMeta { dtype: Some(text), dtype_format: 0, ..array.meta().clone() };
                layers.meta.retain(|(name, _)| !is_array_layer(name));
                layers.meta.insert(0, (METALAYER.into(), meta.to_bytes()));
            }
            let frame = array.super_chunk();
            // The header may have lost the item size. The copy restores it.
            let recompresses = self.encoding.recompresses() || array.itemsize() != frame.itemsize();
            let cparams = match recompresses {
                true => {
                    let builder = self.cparams()?.to_builder().blockshape(array.blockshape());
                    let cparams = builder.blocksize(array.geometry().block_nbytes()).build()?;
                    Some(cparams.with_control(signals::control()))
                }
                false => None,
            };
            return self.copy_chunks(frame, cparams, &layers);
        }
        let format = array.meta().dtype_format;
        ensure!(format == 0, "the dtype is in format {format}, which only a plain copy can keep");
        layers.meta.retain(|(name, _)| !is_array_layer(name));
        let dtype = dtype.unwrap_or_else(|| array.dtype().clone());
        let builder = ArrayBuilder::of_dtype(array.shape(), dtype).chunks(chunkshape).blocks(blockshape);
        let cparams = self.cparams()?;
        let builder = builder.compression(cparams.clone());
        let (named, mut progress) = (self.named(), self.progress);
        let source = ArraySource { array, named };
        let promise = self.target.promise(&cparams, self.encoding);
        let check = |written: &Input| check_copy(promise, self.input, written);
        self.target.array(builder, layers, ProgressSource::new(source, &mut progress), check)
    }

    /// Chunk and block shape of the copy. Shapes that were not given stay the same, if they still fit.
    fn shapes(&self, array: &NdArray) -> Result<(Vec<u32>, Vec<u32>)> {
        let chunkshape =
            self.encoding.chunkshape(array.shape())?.unwrap_or_else(|| array.chunkshape().to_vec());
        let blockshape = self.encoding.blockshape(array.shape())?.unwrap_or_else(|| {
            array.blockshape().iter().zip(&chunkshape).map(|(block, chunk)| *block.min(chunk)).collect()
        });
        let given = self.encoding.blocks.is_some();
        if given || !self.encoding.recompresses() || !lossy::is_zfp(self.cparams()?.codec()) {
            return Ok((chunkshape, blockshape));
        }
        if blockshape.iter().all(|n| *n >= lossy::MIN_ZFP_SIDE) {
            return Ok((chunkshape, blockshape));
        }
        let chunks = self.encoding.chunkshape(array.shape())?;
        Ok(lossy::fit_blocks(array.shape(), array.itemsize(), chunks, blockshape))
    }

    /// Copies the items in C order into an array of another shape.
    fn reshape(self, dtype: Dtype, shape: &Shape) -> Result<()> {
        self.encoding.only_array_options()?;
        let shape = shape_of(Some(shape), &dtype, self.input.nbytes()).with_context(|| self.named())?;
        let mut layers = self.layers()?;
        layers.meta.retain(|(name, _)| !is_array_layer(name));
        let itemsize = dtype.itemsize();
        let cparams = self.cparams()?;
        let builder = self.encoding.array(&shape, dtype, cparams.clone())?;
        let (named, mut progress) = (self.named(), self.progress);
        // The new chunks do not correspond to the old ones, so copy the data to a file for random access.
        let spool = Arc::new(spool(self.input, self.target.path).context(named)?);
        let source =
            RawSource::new(spool.clone(), 0, &shape, itemsize, false).context("the array is too large")?;
        let original = RawSource::new(spool, 0, &shape, itemsize, false).context("the array is too large")?;
        let promise = self.target.promise(&cparams, self.encoding);
        let check = |written: &Input| {
            lossy::check_boxes(promise, written, |start, shape, dst| original.read_box(start, shape, dst))
        };
        self.target.array(builder, layers, ProgressSource::new(source, &mut progress), check)
    }

    /// Copies the bytes into chunks of another size.
    fn recut(self, layers: Layers) -> Result<()> {
        let cparams = self.cparams()?;
        let nbytes = self.input.nbytes();
        let chunksize = chunksize(self.encoding.chunksize, nbytes, cparams.itemsize() as u64)?;
        lossy::check_array(&cparams)?;
        let params = FrameParams::from_cparams(&cparams).chunksize(usize::try_from(chunksize)?);
        let mut writer = self.target.frame(params, &layers)?;
        let (input, target) = (self.input, self.target);
        let (named, mut progress) = (self.named(), self.progress);
        let read =
            |start: u64, dst: &mut [u8]| self.input.read_linear(start, dst).with_context(|| named.clone());
        append_bytes(&mut writer, &cparams, chunksize, nbytes, read, &mut progress)?;
        let read = |at: u64, dst: &mut [u8]| input.read_linear(at, dst);
        let promise = target.promise(&cparams, self.encoding);
        lossy::check_bytes(promise, || Ok(Input::SuperChunk(writer.snapshot()?)), read)?;
        writer.finish()?;
        Ok(())
    }

    /// Copies the chunks, and recompresses them if `cparams` is given.
    fn copy_chunks(mut self, frame: &SuperChunk, cparams: Option<CParams>, layers: &Layers) -> Result<()> {
        let params = match &cparams {
            None => FrameParams::like(frame.header()).plugins(plugins::plugins()),
            Some(cparams) => {
                let params = FrameParams::from_cparams(cparams);
                match usize::try_from(frame.header().stored_chunksize()) {
                    Ok(chunksize) => params.chunksize(chunksize),
                    Err(_) => params,
                }
            }
        };
        if let (Some(cparams), Input::SuperChunk(_)) = (&cparams, self.input) {
            lossy::check_array(cparams)?;
        }
        let mut writer = self.target.frame(params, layers)?;
        let named = self.named();
        let remote = frame.files().in_flight() > 1;
        let mut reader = ReadAhead::new(frame);
        let mut nchunk = 0;
        while nchunk < frame.nchunks() {
            signals::check()?;
            let end = batch_end(frame, nchunk).with_context(|| named.clone())?;
            // Local chunks are read by the threads that compress them.
            let mut read_ahead = |nchunk| (nchunk, remote.then(|| reader.read(nchunk)), None);
            let mut copies: Vec<_> = (nchunk..end).map(&mut read_ahead).collect();
            type Copied = (usize, Option<Result<Chunk, FrameError>>, Option<Result<NewChunk>>);
            let make = |(): &mut (), (nchunk, chunk, copied): &mut Copied| {
                let read = || chunk.take().unwrap_or_else(|| frame.chunk(*nchunk).read());
                *copied = Some(NewChunk::new(frame, *nchunk, read, cparams.as_ref()));
                anyhow::Ok(())
            };
            for_each(&Control::new(), usize::MAX, copies.iter_mut(), u64::MAX, || Ok(()), make)?;
            for copied in copies.into_iter().filter_map(|(.., copied)| copied) {
                match copied.with_context(|| named.clone())? {
                    NewChunk::Special(kind, nbytes) => {
                        writer.append_special(kind, nbytes)?;
                        self.progress.add(nbytes as u64);
                    }
                    NewChunk::Chunk(chunk) => {
                        self.progress.add(chunk.nbytes() as u64);
                        writer.append(chunk)?;
                    }
                }
            }
            nchunk = end;
        }
        if let Some(promise) = cparams.and_then(|cparams| self.target.promise(&cparams, self.encoding)) {
            let written = Input::from_frame(writer.snapshot()?)?;
            check_copy(Some(promise), self.input, &written)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// The parameters of the copy: those of the original, unless others were given.
    fn cparams(&self) -> Result<CParams> {
        let (base, codec) = match self.input {
            Input::Chunk(chunk) => {
                let header = chunk.header();
                let builder = plugins::cparams(header.itemsize()).filters(header.filters());
                let blocksize = if header.is_vl() { 0 } else { header.blocksize() };
                let builder = builder.codec_meta(header.codec_meta()).blocksize(blocksize);
                let builder = match header.codec() {
                    Some(codec) => builder.codec(codec),
                    None => builder,
                };
                (builder, header.codec())
            }
            Input::SuperChunk(frame) => (like_header(frame, frame.itemsize()), Some(frame.header().codec())),
            Input::Array(array) => {
                let frame = array.super_chunk();
                (like_header(frame, array.itemsize()), Some(frame.header().codec()))
            }
        };
        let base = match self.encoding.typesize {
            Some(typesize) => base.itemsize(typesize as usize),
            None => base,
        };
        // A signal also stops the compression of a single large chunk.
        Ok(self.encoding.cparams_like(base, codec)?.with_control(signals::control()))
    }

    /// The metalayers of the original, together with those that were given.
    fn layers(&self) -> Result<Layers> {
        let mut layers = Layers::default();
        if let Some(frame) = self.input.frame() {
            let all = frame.metalayers().iter();
            layers.meta = all.map(|(name, content)| (name.to_vec(), content.to_vec())).collect();
            let mut total = 0_u64;
            for (name, _) in frame.vlmetalayers().iter().filter(|(name, _)| *name != INDEXES.as_bytes()) {
                let content = frame.vlmetalayers().get(name).with_context(|| self.named())?;
                // The limit applies to each of them, but there may be thousands.
                total = total.saturating_add(content.as_ref().map_or(0, |content| content.len() as u64));
                frame.dparams().limits.check_memory("vlmetalayers, in bytes", total)?;
                layers.vlmeta.extend(content.map(|content| (name.to_vec(), content)));
            }
        }
        layers.add(self.encoding)?;
        Ok(layers)
    }
}

/// Compares the copy with the original if the parameters are lossy.
fn check_copy(promise: Option<Promise<'_>>, original: &Input, written: &Input) -> Result<()> {
    let Some(promise) = promise else { return Ok(()) };
    let all = Selection::all(original);
    let mut plain = Vec::new();
    promise.check(written, |axes, dst| {
        all.read(axes, &mut plain)?;
        dst.copy_from_slice(&plain);
        Ok(())
    })
}

fn like_header(frame: &SuperChunk, itemsize: usize) -> Compression {
    frame.header().compression().itemsize(itemsize).plugins(plugins::plugins())
}

/// Returns the end of the batch that starts at chunk `first` and is large enough to be compressed in parallel.
fn batch_end(frame: &SuperChunk, first: usize) -> Result<usize> {
    let mut nbytes = 0;
    let mut end = first;
    while end < frame.nchunks() && nbytes < BATCH && end - first < 4096 {
        nbytes += frame.chunk(end).nbytes()?;
        end += 1;
    }
    Ok(end)
}

/// A chunk to be written to the new frame.
enum NewChunk {
    Special(SpecialKind, usize),
    Chunk(Chunk),
}

impl NewChunk {
    fn new(
        frame: &SuperChunk,
        nchunk: usize,
        read: impl FnOnce() -> Result<Chunk, FrameError>,
        cparams: Option<&CParams>,
    ) -> Result<Self> {
        let same_items = cparams.is_none_or(|cparams| cparams.itemsize() == frame.itemsize());
        if let (Entry::Special(kind), true) = (frame.chunk(nchunk).entry()?, same_items) {
            return Ok(Self::Special(kind, usize::try_from(frame.chunk(nchunk).nbytes()?)?));
        }
        let chunk = read()?;
        let Some(cparams) = cparams else { return Ok(Self::Chunk(chunk)) };
        if chunk.header().special().is_some() && same_items {
            return Ok(Self::Chunk(chunk));
        }
        if chunk.header().is_vl() {
            let blocks = frame.chunk(nchunk).all_blocks()?;
            let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            return Ok(Self::Chunk(Chunk::compress_vl(&blocks, cparams)?));
        }
        let mut plain = buffer(chunk.nbytes())?;
        chunk
            .decompress_bytes_into(&mut plain, frame.dparams())
            .with_context(|| format!("chunk {nchunk}"))?;
        Ok(Self::Chunk(Chunk::compress_bytes(&plain, cparams)?))
    }
}

/// Reads the items of an open array.
struct ArraySource<'a> {
    array: &'a NdArray,
    named: String,
}

impl SharedRegions for ArraySource<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        let read = self
            .array
            .slice(ranges(region.start(), region.shape()))
            .and_then(|slice| slice.read_bytes_into(dst));
        read.map_err(|e| io::Error::other(anyhow::Error::new(e).context(self.named.clone())))
    }
}

/// Copies all uncompressed bytes to a temporary file next to the output.
fn spool(input: &Input, output: &Path) -> Result<File> {
    let mut file = spool_beside(output)?;
    let mut silent = Progress::new("", 0, true);
    Selection::all(input).stream(|piece| Ok(file.write_all(piece)?), &mut silent)?;
    Ok(file)
}

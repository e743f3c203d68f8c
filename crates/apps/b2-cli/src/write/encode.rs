//! Writing frames and chunks: what `pack` and `copy` share.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use b2kit::base::{Buffer, in_order, workers};
use b2kit::chunk::CParams;
use b2kit::chunk::MAX_CHUNK_NBYTES;
use b2kit::frame::WriteOptions;
use b2kit::frame::{Durability, FrameParams, Storage};
use b2kit::nd::{Region, SharedRegions};
use b2kit::{ArrayBuilder, Chunk, CodecId, Compression, Dtype, FrameWriter, RegionSource};

use super::lossy::{self, Promise};
use super::summary;
use crate::args::{Codec, Dims, Encoding, Format, Global, MetaArg, Shape, plugins};
use crate::files::{GroupCommit, Output};
use crate::formats::npy;
use crate::print::{count, joined, printable};
use crate::process::error::succeeded;
use crate::process::{Progress, Usage, WriteFailure, capture, signals};
use crate::read::{Input, is_array_layer};

/// Chunk size of super-chunks when none is given, unless the data is smaller.
const DEFAULT_CHUNKSIZE: u64 = 16 << 20;
/// Uncompressed bytes to compress at a time, unless a single chunk is larger.
pub(crate) const BATCH: u64 = 32 << 20;
/// Larger chunks, in bytes, are read and compressed alternately instead of concurrently, to save memory.
const MAX_OVERLAPPED: u64 = 256 << 20;

impl Encoding {
    /// Whether chunks have to be recompressed.
    pub(crate) fn recompresses(&self) -> bool {
        self.codec.is_some()
            || self.clevel.is_some()
            || self.filters.is_some()
            || self.splitmode.is_some()
            || self.dict.is_some()
            || self.codec_meta.is_some()
            || self.blocksize.is_some()
    }

    /// The given codec; `None` for `auto` (see [`crate::write::auto`]).
    fn codec_id(&self) -> Option<CodecId> {
        match self.codec {
            Some(Codec::Id(id)) => Some(id),
            Some(Codec::Auto) | None => None,
        }
    }

    /// Compression parameters for items of this size: the defaults, overridden by those that were given.
    pub(crate) fn cparams(&self, typesize: usize) -> Result<CParams> {
        self.cparams_over(plugins::cparams(typesize), true)
    }

    /// Compression parameters like those of an existing file with the codec `old`, overridden by those that were given.
    pub(crate) fn cparams_like(&self, base: Compression, old: Option<CodecId>) -> Result<CParams> {
        let Some(codec) = self.codec_id().filter(|codec| Some(*codec) != old) else {
            return self.cparams_over(base, false);
        };
        // Drop the parameter of the old codec, and what the new codec does not support.
        let base = base.codec_meta(0);
        let properties = plugins::plugins().codec_properties(codec);
        let base = if properties.dictionaries { base } else { base.use_dict(false) };
        self.cparams_over(base, true)
    }

    fn cparams_over(&self, base: Compression, new_codec: bool) -> Result<CParams> {
        let mut builder = base;
        if let Some(codec) = self.codec_id() {
            builder = builder.codec(codec);
        }
        if let Some(clevel) = *self.clevel {
            builder = builder.level(clevel);
        }
        match &self.filters {
            Some(filters) => builder = builder.filters(&filters.0),
            // The default filters, and those of the file, suit only codecs that compress bytes.
            None if new_codec && self.codec_id().is_some_and(takes_items) => builder = builder.no_filters(),
            None => {}
        }
        if let Some(splitmode) = self.splitmode {
            builder = builder.splitmode(splitmode);
        }
        if let Some(dict) = self.dict {
            builder = builder.use_dict(dict);
        }
        if let Some(meta) = self.codec_meta {
            builder = builder.codec_meta(meta);
        }
        if let Some(blocksize) = self.blocksize {
            builder = builder.blocksize(usize::try_from(blocksize)?);
        }
        let cparams = builder.build()?;
        self.filters.as_ref().map_or(Ok(()), |filters| filters.check(cparams.itemsize()))?;
        Ok(cparams)
    }

    /// The dtype that was given.
    pub(crate) fn dtype(&self) -> Result<Option<Dtype>> {
        let Some(text) = &self.dtype else { return Ok(None) };
        let dtype = Dtype::parse(text).map_err(|e| Usage(format!("--dtype: {e}")))?;
        if dtype.itemsize() == 0 {
            return Err(Usage(format!("--dtype {text}: the item size is 0")).into());
        }
        Ok(Some(dtype))
    }

    /// Rejects options that apply only to arrays.
    pub(crate) fn no_array_options(&self, what: &str) -> Result<()> {
        ensure!(self.chunks.is_none(), "--chunks applies to arrays; this is a {what}");
        ensure!(self.blocks.is_none(), "--blocks applies to arrays; this is a {what}");
        Ok(())
    }

    /// Rejects options that do not apply to arrays.
    pub(crate) fn only_array_options(&self) -> Result<()> {
        ensure!(self.chunksize.is_none(), "--chunksize applies to super-chunks; use --chunks for arrays");
        ensure!(self.blocksize.is_none(), "--blocksize: the blocks of an array are set by --blocks");
        ensure!(self.typesize.is_none(), "--typesize conflicts with the array's dtype");
        Ok(())
    }

    /// Rejects options that do not apply to bare chunks.
    pub(crate) fn only_chunk_options(&self) -> Result<()> {
        self.no_array_options("bare chunk")?;
        ensure!(self.chunksize.is_none(), "--chunksize does not apply to a bare chunk");
        ensure!(
            self.meta.is_empty() && self.vlmeta.is_empty(),
            "--meta and --vlmeta: a bare chunk has no metalayers"
        );
        Ok(())
    }

    /// The chunk shape for an array of this shape, if it was given.
    ///
    /// # Errors
    /// Fails if there is not a length for each dimension, or if one does not fit the format.
    pub(crate) fn chunkshape(&self, shape: &[u64]) -> Result<Option<Vec<u32>>> {
        self.chunks.as_ref().map(|dims| lengths("--chunks", dims, shape)).transpose()
    }

    /// The block shape, if it was given.
    pub(crate) fn blockshape(&self, shape: &[u64]) -> Result<Option<Vec<u32>>> {
        self.blocks.as_ref().map(|dims| lengths("--blocks", dims, shape)).transpose()
    }

    /// A builder for an array with the given chunk and block shape.
    pub(crate) fn array(&self, shape: &[u64], dtype: Dtype, cparams: CParams) -> Result<ArrayBuilder> {
        lossy::check_dtype(&cparams, &dtype)?;
        let (zfp, itemsize) = (lossy::is_zfp(cparams.codec()), dtype.itemsize());
        let mut builder = ArrayBuilder::of_dtype(shape, dtype).compression(cparams);
        let chunks = self.chunkshape(shape)?;
        if let Some(chunks) = &chunks {
            builder = builder.chunks(chunks.clone());
        }
        if let Some(blocks) = self.blockshape(shape)? {
            return Ok(builder.blocks(blocks));
        }
        if zfp {
            let blocks = builder.geometry()?.blockshape().to_vec();
            let (chunks, blocks) = lossy::fit_blocks(shape, itemsize, chunks, blocks);
            return Ok(builder.chunks(chunks).blocks(blocks));
        }
        Ok(builder)
    }
}

/// Whether a codec takes items instead of bytes (zfp, pco), so that no byte filter may come before it.
fn takes_items(codec: CodecId) -> bool {
    let properties = plugins::plugins().codec_properties(codec);
    properties.takes_floats || properties.takes_numbers
}

/// Checks that there is a length for each dimension.
pub(crate) fn check_lengths(option: &str, lengths: &[u64], shape: &[u64]) -> Result<()> {
    if lengths.len() == shape.len() {
        return Ok(());
    }
    let rest = shape.iter().skip(lengths.len()).copied();
    let example: Vec<u64> = lengths.iter().copied().chain(rest).take(shape.len()).collect();
    let count = match shape.len() {
        0 => bail!("{option} {}: the array has no dimensions, leave it out", joined(lengths, ",")),
        1 => "1 length".to_owned(),
        n => format!("{n} lengths"),
    };
    bail!("{option} {}: give {count}, for example {}", joined(lengths, ","), joined(&example, ","))
}

fn lengths(option: &str, dims: &Dims, shape: &[u64]) -> Result<Vec<u32>> {
    check_lengths(option, &dims.0, shape)?;
    let narrow = |(n, length): (&u64, &u64)| {
        // A dimension without items may have chunks without items.
        let fits = *length == 0 || *n > 0;
        u32::try_from(*n).ok().filter(|n| fits && *n <= i32::MAX as u32)
    };
    let given = joined(&dims.0, ",");
    let all = dims.0.iter().zip(shape).map(narrow).collect::<Option<_>>();
    all.with_context(|| format!("{option} {given}: each length is from 1 to {}", i32::MAX))
}

/// Metalayers of a new frame: names and msgpack contents.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) meta: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) vlmeta: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Layers {
    /// Adds the metalayers that were given. They replace existing ones of the same name.
    ///
    /// # Errors
    /// Fails for names that would make the frame an array.
    pub(crate) fn add(&mut self, encoding: &Encoding) -> Result<()> {
        for (layers, given) in [(&mut self.meta, &encoding.meta), (&mut self.vlmeta, &encoding.vlmeta)] {
            for MetaArg { name, content } in given {
                match layers.iter_mut().find(|(there, _)| there == name.as_bytes()) {
                    Some((_, old)) => old.clone_from(content),
                    None => layers.push((name.as_bytes().to_vec(), content.clone())),
                }
            }
        }
        for MetaArg { name, .. } in &encoding.meta {
            ensure!(!is_array_layer(name.as_bytes()), "--meta {name}: the name is used by arrays");
        }
        Ok(())
    }
}

/// Where and how to write a new file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile<'a> {
    /// Defers syncing and the rename; `None`: they are not deferred.
    pub(crate) together: Option<&'a Arc<GroupCommit>>,
    pub(crate) path: &'a Path,
    /// Name of the file for messages.
    pub(crate) shown: &'a Path,
    pub(crate) format: Format,
    pub(crate) overwrite: bool,
    /// Whether to wait until the data is on disk.
    pub(crate) sync: bool,
    /// Whether to store where the blocks of each chunk are.
    pub(crate) block_starts: bool,
    /// The other options for writing.
    pub(crate) global: Global,
}

impl NewFile<'_> {
    fn options(&self) -> WriteOptions {
        let durability = if self.sync { Durability::Sync } else { Durability::None };
        let options = self.global.writing().overwrite(self.overwrite).durability(durability);
        let options = match self.together {
            Some(together) => options.file_system(together.clone()),
            None => options,
        };
        if self.block_starts { options.block_starts(true) } else { options }
    }

    /// Starts a frame with these parameters and metalayers.
    pub(crate) fn frame(&self, params: FrameParams, layers: &Layers) -> Result<FrameWriter> {
        signals::begin();
        let mut params = params;
        for (name, content) in &layers.meta {
            params = params.metalayer(name, content);
        }
        let mut writer = match self.format {
            Format::Cframe => self.options().create(self.path, params)?,
            Format::Sframe => self.options().storage(Storage::Sparse).create(self.path, params)?,
            Format::Chunk => bail!("a bare chunk is not a frame"),
        };
        for (name, content) in &layers.vlmeta {
            writer.set_vlmetalayer(name, content)?;
        }
        Ok(writer)
    }

    /// The loss to allow for a file with these parameters; `None` if they are lossless.
    pub(crate) fn promise(&self, cparams: &CParams, encoding: &Encoding) -> Option<Promise<'_>> {
        Promise::of(self.shown, cparams, encoding, self.global)
    }

    /// Writes an array. `check` is called before the file gets its name, and may reject it.
    pub(crate) fn array(
        &self,
        builder: ArrayBuilder,
        layers: Layers,
        source: impl RegionSource,
        check: impl FnOnce(&Input) -> Result<()>,
    ) -> Result<()> {
        signals::begin();
        let mut builder = builder.write_options(self.options()).control(signals::control());
        for (name, content) in layers.meta {
            builder = builder.metalayer(name, content);
        }
        for (name, content) in layers.vlmeta {
            builder = builder.vlmetalayer(name, content);
        }
        let storage = match self.format {
            Format::Cframe => Storage::Contiguous,
            Format::Sframe => Storage::Sparse,
            Format::Chunk => bail!("a bare chunk is not an array"),
        };
        let check = |array| check(&Input::Array(Box::new(array)));
        builder.storage(storage).write_checked(self.path, source, check)
    }

    /// Writes a bare chunk.
    pub(crate) fn chunk(&self, chunk: &Chunk) -> Result<()> {
        let mut output = Output::create(Some(self.path), self.overwrite)?;
        output.send(chunk.as_bytes())?;
        if self.sync { output.finish_synced() } else { output.finish() }
    }
}

/// Checks that this many bytes fit in one chunk.
pub(crate) fn check_one_chunk(nbytes: u64) -> Result<usize> {
    ensure!(
        nbytes <= MAX_CHUNK_NBYTES as u64,
        "--format chunk: {nbytes} bytes, one chunk holds at most {MAX_CHUNK_NBYTES}"
    );
    Ok(usize::try_from(nbytes)?)
}

/// Chunk size in bytes: as given, or the default for `nbytes` of data.
pub(crate) fn chunksize(given: Option<u64>, nbytes: u64, typesize: u64) -> Result<u64> {
    let limit = MAX_CHUNK_NBYTES as u64;
    if let Some(chunksize) = given {
        ensure!((1..=limit).contains(&chunksize), "--chunksize: {chunksize}, expected 1 to {limit}");
        return Ok(chunksize);
    }
    let about = nbytes.min(DEFAULT_CHUNKSIZE);
    // Whole items, at least one.
    Ok((about - about % typesize).max(typesize).min(limit))
}

/// Splits uncompressed bytes into chunks of equal size, compresses them and appends them. `read` fills a buffer from
/// the given position.
pub(crate) fn append_bytes(
    writer: &mut FrameWriter,
    cparams: &CParams,
    chunksize: u64,
    nbytes: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
    progress: &mut Progress,
) -> Result<()> {
    let control = writer.control().quiet();
    let cparams = &cparams.clone().with_control(signals::control());
    let make = |start: u64| {
        signals::check()?;
        let len = chunksize.min(nbytes - start);
        let mut plain = Buffer::new(len)?;
        read(start, &mut plain)?;
        Ok((Chunk::compress_bytes(&plain, cparams)?, len))
    };
    let append = |(chunk, len)| {
        writer.append(chunk)?;
        progress.add(len);
        Ok(())
    };
    let most = if chunksize <= MAX_OVERLAPPED { usize::MAX } else { 1 };
    let starts = (0..nbytes.div_ceil(chunksize)).map(|n| n * chunksize);
    in_order(&control, most, nbytes, 2 * workers(&control), starts, make, append)
}

/// Passes items through and counts them for the progress bar.
pub(crate) struct ProgressSource<'a, S> {
    source: S,
    progress: Mutex<&'a mut Progress>,
}

impl<'a, S: SharedRegions> ProgressSource<'a, S> {
    pub(crate) fn new(source: S, progress: &'a mut Progress) -> Self {
        Self { source, progress: Mutex::new(progress) }
    }
}

impl<S: SharedRegions> RegionSource for ProgressSource<'_, S> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        SharedRegions::read_region(self, region, dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(self)
    }
}

impl<S: SharedRegions> SharedRegions for ProgressSource<'_, S> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        signals::check().map_err(io::Error::other)?;
        self.source.read_region(region, dst)?;
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).add(dst.len() as u64);
        Ok(())
    }

    fn is_plain(&self) -> bool {
        self.source.is_plain()
    }
}

/// The shape of an array whose items take exactly `have` bytes: as given, with the length in place of -1, or one dimension
/// if none is given.
pub(crate) fn shape_of(given: Option<&Shape>, dtype: &Dtype, have: u64) -> Result<Vec<u64>> {
    let itemsize = dtype.itemsize() as u64;
    let Some(given) = given else {
        let rest = have % itemsize;
        ensure!(
            rest == 0,
            "--dtype {dtype}: {have} bytes are {} of {itemsize} bytes and {rest} more",
            count(have / itemsize, "item")
        );
        return Ok(vec![have / itemsize]);
    };
    let known: Vec<u64> = given.0.iter().copied().flatten().collect();
    let need = npy::nbytes(&known, itemsize).with_context(|| format!("--shape {given}: too many items"))?;
    if known.len() == given.0.len() {
        match need.cmp(&have) {
            Ordering::Equal => return Ok(known),
            Ordering::Less => {
                bail!(
                    "--shape {given} of {dtype} takes {need} bytes, there are {have} ({} too many)",
                    have - need
                )
            }
            Ordering::Greater => {
                bail!(
                    "--shape {given} of {dtype} takes {need} bytes, there are {have} ({} too few)",
                    need - have
                )
            }
        }
    }
    ensure!(need > 0, "--shape {given}: the other length cannot be inferred when one is 0");
    let rest = have % need;
    ensure!(
        rest == 0,
        "--shape {given} of {dtype}: {have} bytes are {} times {need} bytes and {rest} more",
        have / need
    );
    Ok(given.0.iter().map(|length| length.unwrap_or(have / need)).collect())
}

/// Reports on standard error what was written and how well it compressed, unless `--quiet` is given; with `--verbose`
/// also how long it took. `shown` is the name of the new file `to` for messages; `chosen` means that `--codec auto`
/// chose the parameters.
pub(crate) fn report(
    global: Global,
    from: &Path,
    (to, shown): (&Path, &Path),
    start: Instant,
    chosen: bool,
) -> Result<()> {
    signals::done();
    let there = match fs::metadata(to) {
        // In a batch, the results are read by a program.
        Ok(there) if !global.quiet && !capture::is_active() && (there.is_file() || there.is_dir()) => there,
        // A pipe or device cannot be opened to look at it.
        _ => return Ok(()),
    };
    let stored = if there.is_dir() { bytes_in(to) } else { there.len() };
    // A file that is going to be uploaded does not exist under its own name yet.
    let written = match Input::open(to, 0, global) {
        Err(error) if to == shown => {
            return Err(error.context(WriteFailure::Unreadable).context(to.display().to_string()));
        }
        opened => opened.with_context(|| to.display().to_string())?,
    };
    let line = summary::written(&written, stored, chosen);
    let names = printable(&format!("{} -> {}", from.display(), shown.display()));
    let seconds = global.seconds(start);
    succeeded(&format!("{names}  {line}{seconds}"));
    Ok(())
}

/// Total size of the files in a directory.
fn bytes_in(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |file| file.len())).sum()
}

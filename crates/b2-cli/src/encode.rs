//! Writing frames and chunks: what `pack` and `copy` share.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use b2kit::chunk::MAX_CHUNK_NBYTES;
use b2kit::frame::WriteOptions;
use b2kit::nd::{METALAYER, OLD_METALAYER};
use b2kit::{
    ArrayBuilder, CParams, CParamsBuilder, Chunk, CodecId, Dtype, FrameParams, FrameWriter, Geometry,
    RegionSource,
};
use rayon::prelude::*;

use crate::args::{Encoding, Global};
use crate::cmd::info;
use crate::error::Usage;
use crate::input::Input;
use crate::npy;
use crate::output::Output;
use crate::plugins;
use crate::progress::Progress;
use crate::pump::{pump, resize};
use crate::values::{Codec, Dims, Format, Named};

/// Chunk size of super-chunks when none is given, unless the data is smaller.
const DEFAULT_CHUNKSIZE: u64 = 16 << 20;
/// Plain bytes that are compressed at once, as far as a single chunk is not larger.
pub(crate) const BATCH: u64 = 32 << 20;
/// Chunks above this are read and compressed in turns, not at the same time, to save memory.
const MAX_OVERLAPPED: u64 = 256 << 20;

impl Encoding {
    /// Whether chunks have to be compressed anew.
    pub(crate) fn recompresses(&self) -> bool {
        self.codec.is_some()
            || self.clevel.is_some()
            || self.filters.is_some()
            || self.splitmode.is_some()
            || self.dict.is_some()
            || self.codec_meta.is_some()
            || self.blocksize.is_some()
    }

    /// The codec that was given by name; `auto` is none (see [`crate::auto`]).
    fn codec_id(&self) -> Option<CodecId> {
        match self.codec {
            Some(Codec::Id(id)) => Some(id),
            Some(Codec::Auto) | None => None,
        }
    }

    /// The parameters that were given, over the defaults for items of this size.
    ///
    /// # Errors
    /// When they are out of range or do not fit each other.
    pub(crate) fn cparams(&self, typesize: usize) -> Result<CParams> {
        self.cparams_over(plugins::cparams(typesize), true)
    }

    /// The parameters that were given, over those of an existing file with the codec `old`.
    ///
    /// # Errors
    /// As [`cparams`](Self::cparams).
    pub(crate) fn cparams_like(&self, base: CParamsBuilder, old: Option<CodecId>) -> Result<CParams> {
        let Some(codec) = self.codec_id().filter(|codec| Some(*codec) != old) else {
            return self.cparams_over(base, false);
        };
        // What belonged to the old codec, and what the new one cannot have, does not stay.
        let base = base.codec_meta(0);
        let base = if has_dictionaries(codec) { base } else { base.use_dict(false) };
        self.cparams_over(base, true)
    }

    fn cparams_over(&self, base: CParamsBuilder, new_codec: bool) -> Result<CParams> {
        let mut builder = base;
        if let Some(codec) = self.codec_id() {
            builder = builder.codec(codec);
        }
        if let Some(clevel) = self.clevel {
            builder = builder.clevel(clevel);
        }
        match &self.filters {
            Some(filters) => builder = builder.filters(&filters.0),
            // The default, or what the file had, is for codecs of bytes.
            None if new_codec && self.codec_id().is_some_and(is_zfp) => builder = builder.filters([]),
            None => {}
        }
        if let Some(splitmode) = self.splitmode {
            builder = builder.splitmode(splitmode.into());
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
        Ok(builder.build()?)
    }

    /// The dtype that was given.
    ///
    /// # Errors
    /// [`Usage`] when it is none.
    pub(crate) fn dtype(&self) -> Result<Option<Dtype>> {
        let Some(text) = &self.dtype else { return Ok(None) };
        let dtype = Dtype::parse(text).map_err(|e| Usage(format!("--dtype: {e}")))?;
        if dtype.itemsize() == 0 {
            return Err(Usage(format!("--dtype: items of {text} have no bytes")).into());
        }
        Ok(Some(dtype))
    }

    /// Refuses options that only arrays have.
    pub(crate) fn no_array_options(&self, what: &str) -> Result<()> {
        ensure!(self.chunks.is_none(), "--chunks: only arrays have it, this is a {what}");
        ensure!(self.blocks.is_none(), "--blocks: only arrays have it, this is a {what}");
        Ok(())
    }

    /// Refuses options that arrays do not have.
    pub(crate) fn only_array_options(&self) -> Result<()> {
        ensure!(
            self.chunksize.is_none(),
            "--chunksize: only super-chunks have it, this is an array (--chunks cuts it)"
        );
        ensure!(self.blocksize.is_none(), "--blocksize: the blocks of an array are set by --blocks");
        ensure!(self.typesize.is_none(), "--typesize: the dtype of an array says it");
        Ok(())
    }

    /// Refuses options that a bare chunk cannot have.
    pub(crate) fn only_chunk_options(&self) -> Result<()> {
        self.no_array_options("bare chunk")?;
        ensure!(self.chunksize.is_none(), "--chunksize: a bare chunk is not cut");
        ensure!(
            self.meta.is_empty() && self.vlmeta.is_empty(),
            "--meta and --vlmeta: a bare chunk has no metalayers"
        );
        Ok(())
    }

    /// Chunk shape, where it was given.
    ///
    /// # Errors
    /// When a length is too large for the format.
    pub(crate) fn chunkshape(&self) -> Result<Option<Vec<u32>>> {
        self.chunks.as_ref().map(|dims| lengths("--chunks", dims)).transpose()
    }

    /// Block shape, where it was given.
    ///
    /// # Errors
    /// As [`chunkshape`](Self::chunkshape).
    pub(crate) fn blockshape(&self) -> Result<Option<Vec<u32>>> {
        self.blocks.as_ref().map(|dims| lengths("--blocks", dims)).transpose()
    }

    /// An array to be written, in the shapes that were given.
    ///
    /// # Errors
    /// As [`chunkshape`](Self::chunkshape).
    pub(crate) fn array(&self, shape: &[u64], dtype: Dtype, cparams: CParams) -> Result<ArrayBuilder> {
        let mut builder = ArrayBuilder::new(shape, dtype).cparams(cparams);
        if let Some(chunks) = self.chunkshape()? {
            builder = builder.chunkshape(chunks);
        }
        if let Some(blocks) = self.blockshape()? {
            builder = builder.blockshape(blocks);
        }
        Ok(builder)
    }
}

/// The filters of bytes would turn the floats that zfp takes into others, and it is lossy.
fn is_zfp(codec: CodecId) -> bool {
    matches!(codec, CodecId::ZFP_FIXED_ACCURACY | CodecId::ZFP_FIXED_PRECISION | CodecId::ZFP_FIXED_RATE)
}

fn has_dictionaries(codec: CodecId) -> bool {
    matches!(codec, CodecId::ZSTD | CodecId::LZ4 | CodecId::LZ4HC)
}

fn lengths(option: &str, dims: &Dims) -> Result<Vec<u32>> {
    let narrow = |n: &u64| u32::try_from(*n).ok();
    dims.0.iter().map(narrow).collect::<Option<_>>().with_context(|| format!("{option}: above 2^32 - 1"))
}

/// Metalayers of a new frame: names and msgpack contents.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) meta: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) vlmeta: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Layers {
    /// Adds what was given; a name that is there already gets the new content in its place.
    ///
    /// # Errors
    /// For the names that make a frame an array.
    pub(crate) fn add(&mut self, encoding: &Encoding) -> Result<()> {
        for (layers, given) in [(&mut self.meta, &encoding.meta), (&mut self.vlmeta, &encoding.vlmeta)] {
            for Named { name, content } in given {
                match layers.iter_mut().find(|(there, _)| there == name.as_bytes()) {
                    Some((_, old)) => old.clone_from(content),
                    None => layers.push((name.as_bytes().to_vec(), content.clone())),
                }
            }
        }
        for Named { name, .. } in &encoding.meta {
            ensure!(name != METALAYER && name != OLD_METALAYER, "--meta {name}: the name is used by arrays");
        }
        Ok(())
    }
}

/// Where a new file goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) path: &'a Path,
    pub(crate) format: Format,
    pub(crate) overwrite: bool,
    /// How frames are written, but for that.
    pub(crate) global: Global,
}

impl Target<'_> {
    fn options(&self) -> WriteOptions {
        self.global.writing().overwrite(self.overwrite)
    }

    /// Starts a frame with these parameters and metalayers.
    pub(crate) fn frame(&self, params: FrameParams, layers: &Layers) -> Result<FrameWriter> {
        let mut params = params;
        for (name, content) in &layers.meta {
            params = params.metalayer(name, content);
        }
        let mut writer = match self.format {
            Format::Cframe => self.options().contiguous(self.path, params)?,
            Format::Sframe => self.options().sparse(self.path, params)?,
            Format::Chunk => bail!("a bare chunk is no frame"),
        };
        for (name, content) in &layers.vlmeta {
            writer.set_vlmetalayer(name, content)?;
        }
        Ok(writer)
    }

    /// Writes an array.
    pub(crate) fn array(
        &self,
        builder: ArrayBuilder,
        layers: Layers,
        source: &mut dyn RegionSource,
    ) -> Result<()> {
        let mut builder = builder.write_options(self.options());
        for (name, content) in layers.meta {
            builder = builder.metalayer(name, content);
        }
        for (name, content) in layers.vlmeta {
            builder = builder.vlmetalayer(name, content);
        }
        match self.format {
            Format::Cframe => Ok(builder.create(self.path, source)?),
            Format::Sframe => Ok(builder.create_sparse(self.path, source)?),
            Format::Chunk => bail!("a bare chunk is no array"),
        }
    }

    /// Writes a bare chunk.
    pub(crate) fn chunk(&self, chunk: &Chunk) -> Result<()> {
        let mut output = Output::create(Some(self.path), self.overwrite)?;
        output.send(chunk.as_bytes())?;
        output.finish()
    }
}

/// Fails when this many bytes do not fit one chunk.
pub(crate) fn check_one_chunk(nbytes: u64) -> Result<usize> {
    ensure!(
        nbytes <= MAX_CHUNK_NBYTES as u64,
        "--format chunk: {nbytes} bytes, one chunk holds at most {MAX_CHUNK_NBYTES}"
    );
    Ok(usize::try_from(nbytes)?)
}

/// A zeroed buffer; running out of memory is an error.
pub(crate) fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    resize(&mut out, len)?;
    Ok(out)
}

/// Bytes per chunk: as given, or the default for `nbytes` of data.
pub(crate) fn chunksize(given: Option<u64>, nbytes: u64, typesize: u64) -> Result<u64> {
    let limit = MAX_CHUNK_NBYTES as u64;
    if let Some(chunksize) = given {
        ensure!((1..=limit).contains(&chunksize), "--chunksize: {chunksize}, expected 1 to {limit}");
        return Ok(chunksize);
    }
    let about = nbytes.min(DEFAULT_CHUNKSIZE);
    // Whole items, one at least.
    Ok((about - about % typesize).max(typesize).min(limit))
}

/// Cuts plain bytes into chunks of equal size, compresses and appends them. `read` fills a buffer from a
/// position; it runs on a thread of its own.
pub(crate) fn append_bytes(
    writer: &mut FrameWriter,
    cparams: &CParams,
    chunksize: u64,
    nbytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()> + Send,
    progress: &mut Progress,
) -> Result<()> {
    let step = chunksize * (BATCH / chunksize).max(1);
    let mut read_batch = |start: u64, batch: &mut Vec<u8>| {
        resize(batch, usize::try_from(step.min(nbytes - start))?)?;
        read(start, batch)
    };
    let mut append = |batch: &[u8]| -> Result<()> {
        let parts = batch.par_chunks(usize::try_from(chunksize)?);
        for chunk in parts.map(|part| Chunk::compress(part, cparams)).collect::<Result<Vec<_>, _>>()? {
            writer.append(chunk)?;
        }
        Ok(())
    };
    let starts = (0..nbytes.div_ceil(step)).map(|i| i * step);
    if chunksize <= MAX_OVERLAPPED {
        return pump(starts, true, read_batch, append, progress);
    }
    let mut batch = Vec::new();
    for start in starts {
        read_batch(start, &mut batch)?;
        append(&batch)?;
        progress.add(batch.len() as u64);
    }
    Ok(())
}

/// Passes items on and counts them.
pub(crate) struct Tracked<'a, S> {
    pub(crate) source: S,
    pub(crate) progress: &'a mut Progress,
}

impl<S: RegionSource> RegionSource for Tracked<'_, S> {
    fn read_region(
        &mut self,
        geometry: &Geometry,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> std::io::Result<()> {
        self.source.read_region(geometry, start, shape, dst)?;
        self.progress.add(dst.len() as u64);
        Ok(())
    }
}

/// Fails when a shape of items does not take exactly the bytes there are.
pub(crate) fn check_shape(shape: &[u64], dtype: &Dtype, have: u64) -> Result<()> {
    let text = shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    match npy::nbytes(shape, dtype.itemsize() as u64) {
        Some(need) if need == have => Ok(()),
        Some(need) => bail!("--shape {text} of {dtype} takes {need} bytes, there are {have}"),
        None => bail!("--shape {text}: too many items"),
    }
}

/// With `--verbose`: what was written, how well it compressed, and how long it took.
///
/// # Errors
/// When the new file cannot be opened.
pub(crate) fn tell(global: Global, from: &Path, to: &Path, start: Instant) -> Result<()> {
    if global.verbose {
        let written = Input::open(to, 0, global).with_context(|| to.display().to_string())?;
        let line = info::one_line(&written);
        let seconds = start.elapsed().as_secs_f64();
        global.tell(|| format!("{} -> {}: {line}, {seconds:.2} s", from.display(), to.display()));
    }
    Ok(())
}

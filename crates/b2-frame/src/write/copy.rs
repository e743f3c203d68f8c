//! Copies super-chunks, with or without recompressing them.

use b2_chunk::{CParams, Chunk};
use b2_core::{Control, in_order, workers};

use crate::format::index::Entry;
use crate::format::indexes::INDEXES;
use crate::write::draft::check_layout;
use crate::{FrameError, FrameWriter, Structure, SuperChunk};

/// A chunk of the copy.
enum ChunkCopy {
    Chunk(Chunk),
    Special(b2_chunk::SpecialKind, usize),
}

impl SuperChunk {
    /// Appends all data and vlmetalayers to a new frame of any storage. Chunks are handled in parallel according to the
    /// [`Control`](b2_core::Control) of this frame, in bounded memory.
    ///
    /// Without `cparams` and `chunksize`, chunks are copied as they are stored. With `cparams` they
    /// are recompressed. With `chunksize` (in bytes) the data are also divided into new chunks.
    /// Metalayers are not copied; set them when you create the writer. Neither is the description of the indexes of
    /// python-blosc2 (`blosc2_indexes`), which names files of this frame.
    ///
    /// ```
    /// # use b2_chunk::{CParams, Compression, Chunk, CodecId};
    /// # use b2_frame::{FrameParams, FrameWriter, SuperChunk};
    /// # let fast = Compression::new().itemsize(2).codec(CodecId::BLOSCLZ).build()?;
    /// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&fast))?;
    /// # writer.append(Chunk::compress_bytes(&[5; 3000], &fast)?)?;
    /// # let schunk = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
    /// let small = Compression::new().itemsize(2).codec(CodecId::BLOSCLZ).level(9).build()?;
    /// let mut writer = FrameWriter::memory(FrameParams::from_cparams(&small))?;
    /// schunk.copy_into(&mut writer, Some(&small), Some(1000))?;
    /// let copy = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
    /// assert_eq!((copy.nchunks(), copy.nbytes()), (3, schunk.nbytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Progress is reported to the control of the writer if it is watched, otherwise to that of
    /// this super-chunk; either can cancel the copy. After an error in the middle the writer cannot
    /// be finished.
    ///
    /// # Errors
    /// [`FrameError::Argument`] if the chunk size is 0, if one is given for variable-length blocks, or if `cparams` are
    /// for C-Blosc 1; [`FrameError::Chunk`] if a chunk cannot be compressed; [`FrameError::Limit`] if the data are
    /// rechunked and expand to more than the limit on output; otherwise as for
    /// [`ChunkRef::decompress`](crate::ChunkRef::decompress) and [`FrameWriter::append`].
    pub fn copy_into(
        &self,
        writer: &mut FrameWriter,
        cparams: Option<&CParams>,
        chunksize: Option<usize>,
    ) -> Result<(), FrameError> {
        let control = if writer.control().is_watched() { writer.control() } else { &self.dparams.control };
        let control = control.begin(self.nbytes(), self.itemsize() as u64);
        let mut source = self.clone();
        source.dparams.control = control.quiet();
        let quiet;
        let cparams = match cparams {
            Some(cparams) if control.is_watched() => {
                quiet = cparams.clone().with_control(control.quiet());
                Some(&quiet)
            }
            cparams => cparams,
        };
        if let Some(cparams) = cparams {
            check_layout(cparams)?;
        }
        let before = writer.nchunks();
        let result = match chunksize {
            Some(0) => Err(FrameError::argument("chunksize", "must not be 0")),
            Some(chunksize) => source.for_rewrite().copy_cut(writer, cparams, chunksize as u64, &control),
            None => source.copy_chunks(writer, cparams, &control),
        };
        if result.is_err() && writer.nchunks() != before {
            // A partial copy must not look like a finished one.
            writer.abandon();
        }
        result?;
        for (name, _) in self.vlmetalayers().iter().filter(|(name, _)| *name != INDEXES.as_bytes()) {
            if let Some(value) = self.vlmetalayers().chunk(name)? {
                writer.set_vlmetalayer_chunk(name, value)?;
            }
        }
        Ok(())
    }

    fn copy_chunks(
        &self,
        writer: &mut FrameWriter,
        cparams: Option<&CParams>,
        control: &Control,
    ) -> Result<(), FrameError> {
        append_all(writer, control, self.threads(), self.nchunks(), self.nbytes(), |nchunk| {
            let nbytes = self.chunk_nbytes(nchunk)?;
            let error = || FrameError::chunk(Structure::Chunk(nchunk));
            if let (Entry::Special(kind), true) = (self.entry(nchunk)?, self.chunksize() > 0) {
                return Ok((ChunkCopy::Special(kind, nbytes as usize), nbytes));
            }
            let chunk = self.chunk(nchunk).read()?;
            let Some(cparams) = cparams else { return Ok((ChunkCopy::Chunk(chunk), nbytes)) };
            if chunk.header().is_vl() {
                let blocks = chunk.blocks(&self.dparams).map_err(error())?;
                let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
                let made = Chunk::compress_vl(&blocks, cparams).map_err(error())?;
                return Ok((ChunkCopy::Chunk(made), nbytes));
            }
            let plain = chunk.decompress_bytes_with(&self.dparams).map_err(error())?;
            let made = Chunk::compress_bytes(&plain, &cparams.for_chunk(nchunk)).map_err(error())?;
            Ok((ChunkCopy::Chunk(made), nbytes))
        })
    }

    fn copy_cut(
        &self,
        writer: &mut FrameWriter,
        cparams: Option<&CParams>,
        chunksize: u64,
        control: &Control,
    ) -> Result<(), FrameError> {
        if self.nchunks() > 0 && self.chunk(0).read()?.header().is_vl() {
            return Err(FrameError::argument("chunksize", "cannot be set for variable-length blocks"));
        }
        let defaults;
        let cparams = match cparams {
            Some(cparams) => cparams,
            None => {
                defaults = self.header().to_cparams(&self.dparams)?;
                &defaults
            }
        };
        self.check_output()?;
        // The number of bytes fits, and there are fewer chunks than bytes.
        let nchunks = self.nbytes().div_ceil(chunksize) as usize;
        append_all(writer, control, self.threads(), nchunks, self.nbytes(), |nchunk| {
            let start = nchunk as u64 * chunksize;
            let nbytes = chunksize.min(self.nbytes() - start);
            let plain = self.read_bytes(start..start + nbytes)?;
            let chunk = Chunk::compress_bytes(&plain, &cparams.for_chunk(nchunk));
            Ok((ChunkCopy::Chunk(chunk.map_err(FrameError::chunk(Structure::Chunk(nchunk)))?), nbytes))
        })
    }
}

/// Makes chunks in parallel and appends them in order. `make` returns a chunk and its uncompressed size; `nbytes` is
/// the total size.
fn append_all(
    writer: &mut FrameWriter,
    control: &Control,
    threads: usize,
    nchunks: usize,
    nbytes: u64,
    make: impl Fn(usize) -> Result<(ChunkCopy, u64), FrameError> + Sync,
) -> Result<(), FrameError> {
    let append = |(made, nbytes)| {
        match made {
            ChunkCopy::Chunk(chunk) => writer.append(chunk)?,
            ChunkCopy::Special(kind, nbytes) => writer.append_special(kind, nbytes)?,
        };
        Ok(control.advance(nbytes)?)
    };
    in_order(control, threads, nbytes, 2 * workers(control), 0..nchunks, make, append)
}

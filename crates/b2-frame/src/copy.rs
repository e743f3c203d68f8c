//! Copying super-chunks: as they are, or with other parameters.

use b2_chunk::{CParams, Chunk, parallel};

use crate::checksums::Compare;
use crate::index::Entry;
use crate::{FrameError, FrameWriter, Structure, SuperChunk};

/// Uncompressed bytes that are handled at once, as far as a single chunk is not larger.
const BATCH: u64 = 32 << 20;

/// A chunk to be made.
struct Job {
    nchunk: usize,
    nbytes: u64,
    made: Option<Made>,
}

enum Made {
    Chunk(Chunk),
    Special(b2_chunk::SpecialKind, usize),
}

impl SuperChunk {
    /// Appends all data and vlmetalayers to a frame that is being written, of whatever storage. Chunks are
    /// handled in parallel on the current rayon pool, in bounded memory.
    ///
    /// Without `cparams` and `chunksize`, chunks are copied as they are stored. With `cparams` they are
    /// compressed anew, with `chunksize` (in bytes) the data is cut anew as well. Metalayers are the business of
    /// whoever starts the writer.
    ///
    /// ```
    /// # use b2_chunk::{CParams, Chunk, CodecId};
    /// # use b2_frame::{FrameParams, FrameWriter, SuperChunk};
    /// # let fast = CParams::builder(2).codec(CodecId::BLOSCLZ).build()?;
    /// # let mut writer = FrameWriter::memory(FrameParams::from_cparams(&fast))?;
    /// # writer.append(Chunk::compress(&[5; 3000], &fast)?)?;
    /// # let schunk = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
    /// let small = CParams::builder(2).codec(CodecId::BLOSCLZ).clevel(9).build()?;
    /// let mut writer = FrameWriter::memory(FrameParams::from_cparams(&small))?;
    /// schunk.copy_into(&mut writer, Some(&small), Some(1000))?;
    /// let copy = SuperChunk::from_bytes(writer.finish()?.into_bytes())?;
    /// assert_eq!((copy.nchunks(), copy.nbytes()), (3, schunk.nbytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When a chunk cannot be read, decoded, compressed or written, and for a chunk size of 0 or one for
    /// variable-length blocks.
    pub fn copy_into(
        &self,
        writer: &mut FrameWriter,
        cparams: Option<&CParams>,
        chunksize: Option<usize>,
    ) -> Result<(), FrameError> {
        match chunksize {
            Some(0) => return Err(FrameError::argument("chunksize", "0")),
            Some(chunksize) => {
                self.clone().with_compare(Compare::Always).copy_cut(writer, cparams, chunksize as u64)?
            }
            None => self.copy_chunks(writer, cparams)?,
        }
        for (name, _) in self.vlmetalayers().iter() {
            if let Some(value) = self.vlmetalayers().chunk(name)? {
                writer.set_vlmetalayer_chunk(name, value)?;
            }
        }
        Ok(())
    }

    fn copy_chunks(&self, writer: &mut FrameWriter, cparams: Option<&CParams>) -> Result<(), FrameError> {
        let mut next = 0;
        let jobs = || {
            let nchunk = next;
            next += 1;
            if nchunk >= self.nchunks() {
                return Ok(None);
            }
            Ok(Some(Job { nchunk, nbytes: self.chunk_nbytes(nchunk)?, made: None }))
        };
        batches(writer, self.threads(), jobs, |job| {
            let error = || FrameError::chunk(Structure::Chunk(job.nchunk));
            if let (Entry::Special(kind), true) = (self.entry(job.nchunk)?, self.chunksize() > 0) {
                return Ok(Made::Special(kind, job.nbytes as usize));
            }
            let chunk = self.chunk(job.nchunk)?;
            let Some(cparams) = cparams else { return Ok(Made::Chunk(chunk)) };
            if chunk.header().is_vl() {
                let blocks = chunk.blocks(&self.dparams).map_err(error())?;
                let blocks: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
                return Chunk::compress_vl(&blocks, cparams).map(Made::Chunk).map_err(error());
            }
            let plain = chunk.decompress_with(&self.dparams).map_err(error())?;
            Chunk::compress(&plain, cparams).map(Made::Chunk).map_err(error())
        })
    }

    fn copy_cut(
        &self,
        writer: &mut FrameWriter,
        cparams: Option<&CParams>,
        chunksize: u64,
    ) -> Result<(), FrameError> {
        if self.nchunks() > 0 && self.chunk(0)?.header().is_vl() {
            return Err(FrameError::argument("chunksize", "blocks have variable lengths"));
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
        let mut next = 0;
        let jobs = || {
            let start = next as u64 * chunksize;
            next += 1;
            let nbytes = chunksize.min(self.nbytes().saturating_sub(start));
            Ok((nbytes > 0).then_some(Job { nchunk: next - 1, nbytes, made: None }))
        };
        batches(writer, self.threads(), jobs, |job| {
            let start = job.nchunk as u64 * chunksize;
            let plain = self.read_bytes(start..start + job.nbytes)?;
            let chunk = Chunk::compress(&plain, cparams);
            chunk.map(Made::Chunk).map_err(FrameError::chunk(Structure::Chunk(job.nchunk)))
        })
    }
}

/// Makes the chunks of some jobs at a time, and appends them in order.
fn batches(
    writer: &mut FrameWriter,
    threads: usize,
    mut next: impl FnMut() -> Result<Option<Job>, FrameError>,
    make: impl Fn(&Job) -> Result<Made, FrameError> + Sync,
) -> Result<(), FrameError> {
    let mut jobs = Vec::new();
    loop {
        let mut nbytes = 0;
        let mut more = true;
        while more && nbytes < BATCH {
            match next()? {
                Some(job) => {
                    // So that many special chunks make no long list.
                    nbytes += job.nbytes.max(1 << 12);
                    jobs.push(job);
                }
                None => more = false,
            }
        }
        let work = |(): &mut (), job: &mut Job| {
            job.made = Some(make(job)?);
            Ok(())
        };
        parallel::for_each_on(threads, jobs.iter_mut(), nbytes, || Ok::<_, FrameError>(()), work)?;
        for job in jobs.drain(..) {
            match job.made {
                Some(Made::Chunk(chunk)) => writer.append(chunk)?,
                Some(Made::Special(kind, nbytes)) => writer.append_special(kind, nbytes)?,
                None => {}
            }
        }
        if !more {
            return Ok(());
        }
    }
}

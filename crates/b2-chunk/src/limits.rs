use crate::ChunkError;

/// What input may cost its reader. The caller sets limits, never the file.
///
/// Fields of a file are compared with these before anything of their size is allocated or done. A request above a
/// limit is an error that names the limit by its field here ([`ChunkError::LimitExceeded`], and its kin in the other
/// crates), so that the caller can raise it: by the `with_` method of that name.
///
/// Two things need no limit. Memory whose length comes from a file and that cannot be had is an error
/// ([`ChunkError::OutOfMemory`]), not the end of the process. And the numbers of threads in headers are never used.
///
/// ```
/// use b2_chunk::{Chunk, ChunkError, DParams, Limits, SpecialKind};
/// // 32 bytes that stand for a gigabyte.
/// let bomb = Chunk::special(SpecialKind::Zeros, &[], 1 << 30, 1, 0)?;
/// let careful = DParams::default().with_limits(Limits::default().with_max_output(100 << 20));
/// let error = bomb.decompress_with(&careful).unwrap_err();
/// assert!(matches!(error, ChunkError::LimitExceeded { name: "max_output", .. }));
/// # Ok::<(), b2_chunk::ChunkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest uncompressed chunk, in bytes. Default: 2^31 - 1, all the format can say.
    pub max_chunk_nbytes: u64,
    /// Most chunks in a frame. Default: 268 435 455, all that one index chunk can hold.
    pub max_nchunks: u64,
    /// Largest header, trailer, index, metalayer or decompressed vlmetalayer, in bytes. Default: 256 MiB.
    pub max_metadata: u64,
    /// Most dimensions of an array. Default: 16, all the format can say.
    pub max_dimensions: usize,
    /// How many bytes one stored byte can stand for, as far as it counts as data. Default: 32 768, what zstd reaches
    /// at most; zlib gets to 1032, LZ4 and blosclz to 255. It refuses nothing by itself, see `max_output`.
    pub max_ratio: u64,
    /// Most bytes of a result that no stored data stands for: special chunks count in full, stored ones as far as
    /// they are above `max_ratio` times their stored bytes (runs), and chunks that share their stored bytes count
    /// those once. So it is no limit for real data, however large. Default: 4 GiB.
    ///
    /// Checked where a call allocates its result, and by `SuperChunk::check_output` for a whole frame. Calls that
    /// fill a buffer of the caller's do not look at it.
    pub max_output: u64,
    /// Most memory that one call takes beside its result, in bytes: a chunk as it is stored, and the buffers for blocks
    /// of all threads. With blocks so large that not all threads get theirs, fewer are used. Default: 4 GiB, where
    /// addresses have 32 bits 1 GiB.
    pub max_memory: u64,
    /// Most threads that work on one call. Default: as many as the current rayon pool has.
    pub max_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_chunk_nbytes: i32::MAX as u64,
            max_nchunks: 268_435_455,
            max_metadata: 256 << 20,
            max_dimensions: 16,
            max_ratio: 32_768,
            max_output: 4 << 30,
            max_memory: if usize::BITS > 32 { 4 << 30 } else { 1 << 30 },
            max_threads: usize::MAX,
        }
    }
}

impl Limits {
    /// Sets the largest uncompressed chunk, in bytes.
    pub fn with_max_chunk_nbytes(self, max_chunk_nbytes: u64) -> Self {
        Self { max_chunk_nbytes, ..self }
    }
    /// Sets the most chunks in a frame.
    pub fn with_max_nchunks(self, max_nchunks: u64) -> Self {
        Self { max_nchunks, ..self }
    }
    /// Sets the largest header, trailer, index, metalayer or decompressed vlmetalayer, in bytes.
    pub fn with_max_metadata(self, max_metadata: u64) -> Self {
        Self { max_metadata, ..self }
    }
    /// Sets the most dimensions of an array.
    pub fn with_max_dimensions(self, max_dimensions: usize) -> Self {
        Self { max_dimensions, ..self }
    }
    /// Sets how many bytes one stored byte can stand for.
    pub fn with_max_ratio(self, max_ratio: u64) -> Self {
        Self { max_ratio, ..self }
    }
    /// Sets the most bytes of a result that no stored data stands for.
    pub fn with_max_output(self, max_output: u64) -> Self {
        Self { max_output, ..self }
    }
    /// Sets the most memory that one call takes beside its result, in bytes.
    pub fn with_max_memory(self, max_memory: u64) -> Self {
        Self { max_memory, ..self }
    }
    /// Sets the most threads that work on one call; 0 counts as 1.
    pub fn with_max_threads(self, max_threads: usize) -> Self {
        Self { max_threads, ..self }
    }

    /// Of `nbytes` bytes for which `stored` bytes are stored: how many no data stands for.
    pub fn unstored(&self, nbytes: u64, stored: u64) -> u64 {
        nbytes.saturating_sub(stored.saturating_mul(self.max_ratio))
    }

    /// Compares a result of `nbytes` bytes, for which at most `stored` bytes are stored, with `max_output`.
    ///
    /// # Errors
    /// [`ChunkError::LimitExceeded`].
    pub fn check_output(&self, nbytes: u64, stored: u64) -> Result<(), ChunkError> {
        let asked = self.unstored(nbytes, stored);
        within("bytes of output that no stored data stands for", asked, "max_output", self.max_output)
    }

    /// Compares the number of dimensions of an array with `max_dimensions`.
    ///
    /// # Errors
    /// [`ChunkError::LimitExceeded`].
    pub fn check_dimensions(&self, dimensions: usize) -> Result<(), ChunkError> {
        within("dimensions of the array", dimensions as u64, "max_dimensions", self.max_dimensions as u64)
    }

    /// Compares `bytes` that a call takes beside its result with `max_memory`; `what` says for what.
    ///
    /// # Errors
    /// [`ChunkError::LimitExceeded`].
    pub fn check_memory(&self, what: &'static str, bytes: u64) -> Result<(), ChunkError> {
        within(what, bytes, "max_memory", self.max_memory)
    }

    /// How many threads may work at once when each needs `each` bytes: one at least.
    pub fn threads(&self, each: u64) -> usize {
        let fit = self.max_memory.checked_div(each).unwrap_or(u64::MAX);
        usize::try_from(fit).unwrap_or(usize::MAX).min(self.max_threads).max(1)
    }

    /// Compares the size of an uncompressed chunk with `max_chunk_nbytes`.
    ///
    /// # Errors
    /// [`ChunkError::LimitExceeded`].
    pub fn check_chunk(&self, nbytes: u64) -> Result<(), ChunkError> {
        within("uncompressed chunk, in bytes", nbytes, "max_chunk_nbytes", self.max_chunk_nbytes)
    }
}

fn within(what: &'static str, asked: u64, name: &'static str, limit: u64) -> Result<(), ChunkError> {
    if asked > limit { Err(ChunkError::LimitExceeded { what, asked, name, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_does_not_count() {
        let limits = Limits::default().with_max_ratio(100).with_max_output(1000);
        assert_eq!(limits.unstored(5000, 50), 0);
        assert_eq!(limits.unstored(5001, 50), 1);
        assert_eq!(limits.unstored(u64::MAX, u64::MAX), 0);
        assert!(limits.check_output(6000, 50).is_ok());
        let error = limits.check_output(6001, 50).unwrap_err();
        assert!(matches!(
            error,
            ChunkError::LimitExceeded { asked: 1001, name: "max_output", limit: 1000, .. }
        ));
    }

    #[test]
    fn threads_share_the_memory() {
        let limits = Limits::default().with_max_memory(1000);
        assert_eq!(limits.threads(0), usize::MAX);
        assert_eq!(limits.threads(300), 3);
        assert_eq!(limits.clone().with_max_threads(2).threads(300), 2);
        assert_eq!(limits.clone().with_max_threads(0).threads(300), 1);
        assert_eq!(limits.threads(1001), 1);
        assert!(limits.check_memory("this", 1000).is_ok());
        let error = limits.check_memory("this", 1001).unwrap_err();
        assert!(matches!(error, ChunkError::LimitExceeded { name: "max_memory", .. }));
    }
}

use crate::ChunkError;

/// What input may cost its reader. The caller sets limits, never the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest uncompressed chunk, in bytes. Default: 2^31 - 1, all the format can say.
    pub max_chunk_nbytes: u64,
    /// Most chunks in a frame. Default: 268 435 455, all that one index chunk can hold.
    pub max_nchunks: u64,
    /// Largest header, trailer, metalayer or decompressed vlmetalayer, in bytes. Default: 256 MiB.
    pub max_metadata: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_chunk_nbytes: i32::MAX as u64, max_nchunks: 268_435_455, max_metadata: 256 << 20 }
    }
}

impl Limits {
    /// Sets the largest uncompressed chunk, in bytes.
    pub fn with_max_chunk_nbytes(self, max_chunk_nbytes: u64) -> Self {
        Self { max_chunk_nbytes, ..self }
    }

    pub(crate) fn check_chunk(&self, nbytes: usize) -> Result<(), ChunkError> {
        if nbytes as u64 > self.max_chunk_nbytes {
            return Err(ChunkError::LimitExceeded {
                what: "the uncompressed chunk",
                asked: nbytes as u64,
                limit: self.max_chunk_nbytes,
            });
        }
        Ok(())
    }
}

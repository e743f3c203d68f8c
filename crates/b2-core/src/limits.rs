use crate::LimitExceeded;

/// Limits on what reading an input may cost. The caller sets them, never the file.
///
/// Fields of a file are compared with these limits before memory of that size is allocated or work of that size is
/// done. A request above a limit fails with [`LimitExceeded`], which names the field of this struct that would have
/// to be higher.
///
/// Two things need no limit. If an allocation whose length comes from a file fails, that is an error
/// ([`OutOfMemory`](crate::OutOfMemory)) and does not abort the process. And the thread counts in headers are never
/// used.
///
/// ```
/// use b2_core::Limits;
/// // 32 stored bytes claim to be a gigabyte.
/// let careful = Limits::default().max_output(100 << 20);
/// let error = careful.check_output(1 << 30, 32).unwrap_err();
/// assert_eq!(error.name, "max_output");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest uncompressed chunk, in bytes. Default: 2^31 - 1, the maximum of the format.
    pub max_chunk_nbytes: u64,
    /// Most chunks in a frame. Default: 268 435 455, the maximum for one index chunk.
    pub max_nchunks: u64,
    /// Largest header, trailer, index, metalayer or decompressed vlmetalayer, in bytes. Default: 256 MiB.
    pub max_metadata: u64,
    /// Most dimensions of an array. Default: 16, the maximum of the format.
    pub max_dimensions: usize,
    /// Largest plausible compression ratio: output up to this many times its stored bytes counts as real data. Default:
    /// 32 768, the maximum of zstd; zlib reaches 1032, LZ4 and blosclz 255. It is used to compute the quantity that
    /// `max_output` limits.
    pub max_ratio: u64,
    /// Most bytes of a result that are not backed by stored data. Default: 4 GiB.
    ///
    /// Special chunks count in full. Stored chunks count only what exceeds `max_ratio` times their stored bytes, and
    /// stored bytes shared by several chunks count once. So this does not limit real data, however large.
    ///
    /// It is checked where a call allocates its result, and by `SuperChunk::check_output` for a whole frame. Calls that
    /// fill a caller's buffer ignore it.
    pub max_output: u64,
    /// Most memory that one call uses in addition to its result, in bytes: the stored chunk, and the block buffers of
    /// all threads. If blocks are so large that not all threads get buffers, fewer threads are used. Default: 4 GiB, or
    /// 1 GiB on 32-bit systems.
    pub max_memory: u64,
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
        }
    }
}

impl Limits {
    crate::setters! {
        max_chunk_nbytes: u64,
        max_nchunks: u64,
        max_metadata: u64,
        max_dimensions: usize,
        max_ratio: u64,
        max_output: u64,
        max_memory: u64,
    }

    /// Returns how many of `nbytes` bytes of output are not backed by their `stored` stored bytes.
    pub fn unstored(&self, nbytes: u64, stored: u64) -> u64 {
        nbytes.saturating_sub(stored.saturating_mul(self.max_ratio))
    }

    /// Checks a result of `nbytes` bytes, for which at most `stored` bytes are stored, against `max_output`.
    ///
    /// # Errors
    /// [`LimitExceeded`] if it is above the limit.
    pub fn check_output(&self, nbytes: u64, stored: u64) -> Result<(), LimitExceeded> {
        let asked = self.unstored(nbytes, stored);
        LimitExceeded::check("bytes of zeros and repeated values", asked, "max_output", self.max_output)
    }

    /// Checks the number of dimensions of an array against `max_dimensions`.
    ///
    /// # Errors
    /// [`LimitExceeded`] if it is above the limit.
    pub fn check_dimensions(&self, dimensions: usize) -> Result<(), LimitExceeded> {
        LimitExceeded::check(
            "dimensions of the array",
            dimensions as u64,
            "max_dimensions",
            self.max_dimensions as u64,
        )
    }

    /// Checks the `bytes` that a call uses in addition to its result against `max_memory`. `what` names their purpose.
    ///
    /// # Errors
    /// [`LimitExceeded`] if it is above the limit.
    pub fn check_memory(&self, what: &'static str, bytes: u64) -> Result<(), LimitExceeded> {
        LimitExceeded::check(what, bytes, "max_memory", self.max_memory)
    }

    /// Returns how many threads may work concurrently if each needs `each` bytes; at least one.
    pub fn threads(&self, each: u64) -> usize {
        let fit = self.max_memory.checked_div(each).unwrap_or(u64::MAX);
        usize::try_from(fit).unwrap_or(usize::MAX).max(1)
    }

    /// Checks the size of an uncompressed chunk against `max_chunk_nbytes`.
    ///
    /// # Errors
    /// [`LimitExceeded`] if it is above the limit.
    pub fn check_chunk(&self, nbytes: u64) -> Result<(), LimitExceeded> {
        LimitExceeded::check(
            "uncompressed chunk, in bytes",
            nbytes,
            "max_chunk_nbytes",
            self.max_chunk_nbytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_does_not_count() {
        let limits = Limits::default().max_ratio(100).max_output(1000);
        assert_eq!(limits.unstored(5000, 50), 0);
        assert_eq!(limits.unstored(5001, 50), 1);
        assert_eq!(limits.unstored(u64::MAX, u64::MAX), 0);
        assert!(limits.check_output(6000, 50).is_ok());
        let error = limits.check_output(6001, 50).unwrap_err();
        assert!(matches!(error, LimitExceeded { asked: 1001, name: "max_output", limit: 1000, .. }));
    }

    #[test]
    fn threads_share_the_memory() {
        let limits = Limits::default().max_memory(1000);
        assert_eq!(limits.threads(0), usize::MAX);
        assert_eq!(limits.threads(300), 3);
        assert_eq!(limits.threads(1001), 1);
        assert!(limits.check_memory("this", 1000).is_ok());
        let error = limits.check_memory("this", 1001).unwrap_err();
        assert!(matches!(error, LimitExceeded { name: "max_memory", .. }));
    }
}

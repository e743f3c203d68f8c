//! The fields of a chunk header visible to C programs, checked like C-Blosc2.

use crate::abi::{EXTENDED_HEADER, MAX_BLOCKSIZE, MIN_HEADER, code};
use crate::core::error::{Error, Result, ensure};

/// The first 16 bytes of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkHead {
    pub(crate) version: u8,
    pub(crate) versionlz: u8,
    pub(crate) flags: u8,
    pub(crate) typesize: u8,
    pub(crate) nbytes: i32,
    pub(crate) blocksize: i32,
    pub(crate) cbytes: i32,
}

impl ChunkHead {
    /// Reads a header.
    ///
    /// # Errors
    /// `READ_BUFFER` for less than 16 bytes, `INVALID_HEADER` for invalid values.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let (head, _) = bytes.split_first_chunk::<MIN_HEADER>().ok_or(Error(code::READ_BUFFER))?;
        let int = |at: usize| i32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut this = Self {
            version: head[0],
            versionlz: head[1],
            flags: head[2],
            typesize: head[3],
            nbytes: int(4),
            blocksize: int(8),
            cbytes: int(12),
        };
        let valid = this.cbytes >= MIN_HEADER as i32
            && this.nbytes >= 0
            && (1..=MAX_BLOCKSIZE).contains(&this.blocksize)
            && this.typesize > 0;
        ensure(valid, code::INVALID_HEADER)?;
        if this.nbytes > 0 && this.version < 6 {
            this.blocksize = this.blocksize.min(this.nbytes);
        }
        Ok(this)
    }
}

impl ChunkHead {
    /// Checks that a chunk is complete.
    ///
    /// # Errors
    /// Like C-Blosc2: `READ_BUFFER` if the extended header is incomplete, `INVALID_HEADER` if the chunk is.
    pub(crate) fn check_len(&self, chunk: &[u8]) -> Result<()> {
        let code = if chunk.len() < EXTENDED_HEADER { code::READ_BUFFER } else { code::INVALID_HEADER };
        ensure(chunk.len() >= self.cbytes as usize, code)
    }
}

/// Returns whether these bytes are a lazy chunk, as returned by `blosc2_schunk_get_lazychunk`.
pub(crate) fn is_lazy(chunk: &[u8]) -> bool {
    chunk.len() >= EXTENDED_HEADER && chunk[2] & 5 == 5 && chunk[31] & 8 != 0 && chunk[31] & 0x70 == 0
}

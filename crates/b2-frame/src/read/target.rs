//! The destination of decoded bytes.

/// Memory that decoded bytes are written to: a slice, or a buffer that several threads fill.
pub trait Target {
    /// Returns the bytes `at..at + len`, which the caller must overwrite completely; their old
    /// content is arbitrary. Panics if the range is out of bounds.
    fn place(&mut self, at: usize, len: usize) -> &mut [u8];

    /// Writes `bytes` at offset `at`.
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.place(at, bytes.len()).copy_from_slice(bytes);
    }

    /// Sets the bytes `at..at + len` to `byte`.
    #[inline]
    fn fill(&mut self, at: usize, len: usize, byte: u8) {
        self.place(at, len).fill(byte);
    }

    /// Takes back `len` bytes of the places handed out so far: the caller did not write them and
    /// will ask for them again.
    fn forget(&mut self, len: usize) {
        let _ = len;
    }
}

impl Target for [u8] {
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "documented: places out of bounds panic")]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self[at..at + len]
    }
}

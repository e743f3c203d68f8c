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

    /// Copies rows of `src`. Panics if a row is out of bounds.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "documented: rows out of bounds panic"
    )]
    fn put_rows(&mut self, rows: RowCopy, src: &[u8]) {
        let RowCopy { len, count, mut from, from_step, mut to, to_step } = rows;
        for _ in 0..count {
            self.put(to, &src[from..from + len]);
            (from, to) = (from + from_step, to + to_step);
        }
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

/// Rows at equal distances in a source and in a target, all numbers in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RowCopy {
    /// The length of a row.
    pub len: usize,
    /// The number of rows.
    pub count: usize,
    /// The offset of the first row in the source.
    pub from: usize,
    /// The distance between the starts of two rows in the source.
    pub from_step: usize,
    /// The offset of the first row in the target.
    pub to: usize,
    /// The distance between the starts of two rows in the target.
    pub to_step: usize,
}

impl Target for [u8] {
    #[inline]
    #[allow(clippy::indexing_slicing, reason = "documented: places out of bounds panic")]
    fn place(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self[at..at + len]
    }
}

//! Writes the sequences of a block with bounds checks.

/// A block being written to a buffer that may be too small. Its methods return `None` if the output does not fit.
pub(super) struct Output<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl<'a> Output<'a> {
    /// Continues a block of which `len` bytes have been written.
    pub(super) fn resume(dst: &'a mut [u8], len: usize) -> Self {
        Self { dst, len }
    }

    /// Returns the number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes literals, then a match. `len` is the match length minus [`MIN_MATCH`](super::window::MIN_MATCH).
    #[inline(never)]
    pub(super) fn sequence(&mut self, literals: &[u8], distance: [u8; 2], len: usize) -> Option<()> {
        self.token(literals.len(), len)?;
        self.put(literals)?;
        self.put(&distance)?;
        self.rest_of_length(len)
    }

    /// Writes the last sequence, which has only literals. Returns the length of the block.
    pub(super) fn last_literals(mut self, literals: &[u8]) -> Option<usize> {
        self.token(literals.len(), 0)?;
        self.put(literals)?;
        Some(self.len)
    }

    /// Writes the token, and the additional bytes of the literal length.
    fn token(&mut self, nliterals: usize, len: usize) -> Option<()> {
        self.put(&[((nliterals.min(15) << 4) | len.min(15)) as u8])?;
        self.rest_of_length(nliterals)
    }

    fn rest_of_length(&mut self, n: usize) -> Option<()> {
        let Some(rest) = n.checked_sub(15) else { return Some(()) };
        let full = rest / 255;
        if full > 0 {
            self.dst.get_mut(self.len..)?.get_mut(..full)?.fill(255);
            self.len += full;
        }
        self.put(&[(rest % 255) as u8])
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.dst.get_mut(self.len..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }
}

//! Writing the sequences of a block.

/// A block being written into a buffer that may be too small. Every method gives `None` once it is.
pub(super) struct Output<'a> {
    dst: &'a mut [u8],
    len: usize,
}

impl<'a> Output<'a> {
    /// A block of which `len` bytes are written.
    pub(super) fn resume(dst: &'a mut [u8], len: usize) -> Self {
        Self { dst, len }
    }

    /// Bytes written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes literals, then a match, given its length less that of the shortest one.
    #[inline(never)]
    pub(super) fn sequence(&mut self, literals: &[u8], distance: [u8; 2], len: usize) -> Option<()> {
        self.token(literals.len(), len)?;
        self.put(literals)?;
        self.put(&distance)?;
        self.rest_of_length(len)
    }

    /// Ends the block: its last sequence has literals only. Returns the length of the block.
    pub(super) fn last_literals(mut self, literals: &[u8]) -> Option<usize> {
        self.token(literals.len(), 0)?;
        self.put(literals)?;
        Some(self.len)
    }

    /// The token, and what its literal length needs beyond.
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

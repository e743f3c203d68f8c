//! Writing the sequences of a block.

use super::window::MIN_MATCH;

/// A block being written into a buffer that may be too small. Every method gives `None` once it is.
pub(super) struct Output<'a> {
    dst: &'a mut [u8],
    len: usize,
}

/// A match: `len` bytes (4 or more) equal to those `distance` (1 to 65 535) back. `len` 0: no match.
#[derive(Clone, Copy, Default)]
pub(super) struct Match {
    pub(super) distance: usize,
    pub(super) len: usize,
}

/// A match in 4 bytes; its length must be below 65 536.
#[derive(Clone, Copy, Default)]
pub(super) struct PackedMatch {
    distance: u16,
    len: u16,
}

impl Match {
    #[inline(always)]
    pub(super) fn pack(self) -> PackedMatch {
        debug_assert!(self.distance <= 0xFFFF && self.len <= 0xFFFF);
        PackedMatch { distance: self.distance as u16, len: self.len as u16 }
    }
}

impl PackedMatch {
    #[inline(always)]
    pub(super) fn unpack(self) -> Match {
        Match { distance: usize::from(self.distance), len: usize::from(self.len) }
    }
}

impl<'a> Output<'a> {
    pub(super) fn new(dst: &'a mut [u8]) -> Self {
        Self { dst, len: 0 }
    }

    /// A block of which `len` bytes are written.
    pub(super) fn resume(dst: &'a mut [u8], len: usize) -> Self {
        Self { dst, len }
    }

    /// Bytes written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes the literals `window[anchor..pos]`, then a match at `pos`.
    #[inline(always)]
    pub(super) fn sequence(&mut self, window: &[u8], anchor: usize, pos: usize, found: Match) -> Option<()> {
        let Match { distance, len } = found;
        debug_assert!((1..=0xFFFF).contains(&distance) && len >= MIN_MATCH);
        let distance = (distance as u16).to_le_bytes();
        let nliterals = pos - anchor;
        let room = self.dst.get_mut(self.len..)?;
        // The usual short sequence copies 16 bytes whatever the number of literals.
        if nliterals < 15
            && len < 15 + MIN_MATCH
            && let Some(room) = room.first_chunk_mut::<17>()
            && let Some(literals) = window[anchor..].first_chunk::<16>()
        {
            room[0] = ((nliterals << 4) | (len - MIN_MATCH)) as u8;
            room[1..].copy_from_slice(literals);
            room[nliterals + 1..nliterals + 3].copy_from_slice(&distance);
            self.len += nliterals + 3;
            return Some(());
        }
        self.put_sequence(&window[anchor..pos], distance, len - MIN_MATCH)
    }

    /// The same, given the match length less the shortest one.
    #[inline(never)]
    pub(super) fn put_sequence(&mut self, literals: &[u8], distance: [u8; 2], len: usize) -> Option<()> {
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

//! Little-endian bytes of HDF5's metadata.

/// The undefined address.
pub(super) const UNDEFINED: u64 = u64::MAX;

/// A growing buffer of bytes.
#[derive(Debug, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn u8(&mut self, n: u8) -> &mut Self {
        self.0.push(n);
        self
    }
    pub(super) fn u16(&mut self, n: u16) -> &mut Self {
        self.put(&n.to_le_bytes())
    }
    pub(super) fn u32(&mut self, n: u32) -> &mut Self {
        self.put(&n.to_le_bytes())
    }
    pub(super) fn u64(&mut self, n: u64) -> &mut Self {
        self.put(&n.to_le_bytes())
    }
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    /// Appends zeros up to this length.
    pub(super) fn fill(&mut self, len: usize) -> &mut Self {
        self.0.resize(len.max(self.0.len()), 0);
        self
    }
    /// Appends the checksum of all bytes.
    pub(super) fn sum(&mut self) -> &mut Self {
        let sum = crate::checksum::lookup3(&self.0);
        self.u32(sum)
    }
}

//! Reads little-endian numbers from the bytes of a message. `None` is the end of the bytes.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

/// The undefined address.
pub(crate) const NOWHERE: u64 = u64::MAX;

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    pub(crate) fn skip(&mut self, len: usize) -> Option<()> {
        self.bytes(len).map(drop)
    }

    /// A number of up to 8 bytes.
    pub(crate) fn uint(&mut self, size: u8) -> Option<u64> {
        if size > 8 {
            return None;
        }
        let bytes = self.bytes(size.into())?;
        Some(bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    /// An address, or [`NOWHERE`].
    pub(crate) fn address(&mut self, size: u8) -> Option<u64> {
        let bytes = self.rest.get(..size.into())?;
        let is_nowhere = bytes.iter().all(|&byte| byte == 0xFF);
        let address = self.uint(size)?;
        Some(if is_nowhere { NOWHERE } else { address })
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// Bytes up to a zero, which is skipped.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let text = self.bytes(end)?;
        self.skip(1)?;
        Some(text)
    }
}

/// Text in a file, up to the first zero. Bytes that are not UTF-8 become `\xHH`, so that any name can be printed and typed.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text.push_str(part.valid());
        part.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(text_of("Grüße\0x".as_bytes()), "Grüße");
        assert_eq!(text_of(b"caf\xE9"), "caf\\xe9");
        assert_eq!(text_of(b""), "");
    }
}

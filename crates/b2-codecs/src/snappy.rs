//! Snappy, used only in chunks of C-Blosc 1. Decoding only.

use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoder};

const ID: CodecId = CodecId::SNAPPY;

/// The snappy codec, decoding only: C-Blosc2 has removed it, and C-Blosc 1 may be built without it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snappy;

impl Codec for Snappy {
    fn id(&self) -> CodecId {
        ID
    }

    fn name(&self) -> &str {
        "snappy"
    }

    fn properties(&self) -> CodecProperties {
        CodecProperties::BYTES
    }

    fn encoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Err(CodecError::unsupported(ID, "compression"))
    }

    fn decoder(&self, _: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        Ok(Box::new(SnappyDecoder(snap::raw::Decoder::new())))
    }
}

struct SnappyDecoder(snap::raw::Decoder);

impl Decoder for SnappyDecoder {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let failed = |error: snap::Error| CodecError::backend(ID, error.to_string());
        let len = snap::raw::decompress_len(src).map_err(failed)?;
        if len != dst.len() {
            return Err(CodecError::wrong_length(ID, len, dst.len()));
        }
        self.0.decompress(src, dst).map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        Snappy.decoder(&CodecContext::new(5))?.decode(src, dst)
    }

    /// 8 literals, and a copy of 56 bytes.
    fn stream() -> Vec<u8> {
        [&[64, 7 << 2][..], b"abcdefgh", &[(55 << 2) | 2, 8, 0]].concat()
    }

    #[test]
    fn decodes_to_exactly_the_length_asked_for() {
        let mut plain = [0; 64];
        decode(&stream(), &mut plain).unwrap();
        assert_eq!(plain.as_slice(), b"abcdefgh".repeat(8));
        assert!(decode(&stream(), &mut [0; 63]).is_err());
        assert!(decode(&stream(), &mut [0; 65]).is_err());
        assert!(Snappy.encoder(&CodecContext::new(5)).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        let stream = stream();
        for len in 0..stream.len() {
            assert!(decode(&stream[..len], &mut [0; 64]).is_err(), "{len}");
        }
        for at in 0..stream.len() {
            for byte in 0..=255 {
                let mut damaged = stream.clone();
                damaged[at] = byte;
                // Any result is fine, but nothing panics.
                let _ = decode(&damaged, &mut [0; 64]);
            }
        }
        // A length of 4 GiB is compared, not allocated.
        assert!(decode(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0], &mut [0; 64]).is_err());
    }
}

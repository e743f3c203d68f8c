//! The trailer, the last bytes of a frame (docs/format/frame-contiguous.md, section 6).
//!
//! ```text
//! 94  01 version  93 … vlmetalayers  CE u32 trailer_len  D8 fingerprint type, 16 bytes
//! ```

use b2_chunk::DParams;
use b2_core::memory;
use b2_msgpack::{Reader, Writer};
use bytes::Bytes;

use crate::error::{FORMAT, within};
use crate::format::checksums::{Fingerprint, NO_FINGERPRINT};
use crate::format::header::FIXED_HEADER_LEN;
use crate::format::metalayers::{VlMetalayers, write_vlmetalayers};
use crate::{FrameError, Structure};

/// Length of the end of the trailer in bytes: the length field from its marker `CE`, and the
/// fingerprint.
const END_LEN: usize = 23;
/// Number of bytes at the end of a frame that are needed to find the start of the trailer.
pub(crate) const TRAILER_TAIL_LEN: usize = 25;

/// A parsed trailer.
#[derive(Clone, Debug)]
pub(crate) struct Trailer {
    /// The vlmetalayers.
    pub vlmetalayers: VlMetalayers,
    /// Kind of the fingerprint: 0 for none, 1 to 3 for 32, 64 and 128 bits.
    pub fingerprint_kind: u8,
    /// The fingerprint. C-Blosc2 always writes zeros; docs/format/checksums.md describes ours.
    pub fingerprint: [u8; 16],
}

impl Trailer {
    /// Parses the length of the trailer from the last bytes of a frame (at least 25).
    pub(crate) fn len(tail: &[u8], frame_len: u64) -> Result<usize, FrameError> {
        let base = frame_len.saturating_sub(tail.len() as u64);
        let mut r = Reader::at(tail, tail.len().saturating_sub(END_LEN));
        let len: u32 = r.number().map_err(|error| msgpack("trailer_len", error, base))?;
        let most = frame_len.saturating_sub(FIXED_HEADER_LEN as u64).min(i32::MAX as u64);
        if u64::from(len) < TRAILER_TAIL_LEN as u64 || u64::from(len) > most {
            let expected = "25 to the length of the frame after its header";
            return Err(FrameError::field(
                Structure::Trailer,
                "trailer_len",
                Self::len_at(frame_len),
                len,
                expected,
            ));
        }
        Ok(len as usize)
    }

    /// Returns the offset of the length field, after its marker.
    pub(crate) fn len_at(frame_len: u64) -> u64 {
        frame_len.saturating_sub(END_LEN as u64).saturating_add(1)
    }

    pub(crate) fn has_fingerprint(&self) -> bool {
        self.fingerprint() != NO_FINGERPRINT
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        (self.fingerprint_kind, self.fingerprint)
    }

    /// Parses a complete trailer, which starts at offset `base` of the frame.
    pub(crate) fn parse(bytes: &Bytes, base: u64, dparams: &DParams) -> Result<Self, FrameError> {
        let mut r = Reader::new(bytes);
        r.marker(0x94).map_err(|error| msgpack("parts", error, base))?;
        r.byte().map_err(|error| msgpack("version", error, base))?;
        let vlmetalayers = VlMetalayers::parse(bytes, base, dparams)?;
        let mut r = Reader::at(bytes, bytes.len().saturating_sub(END_LEN - 5));
        let (fingerprint_kind, fingerprint) =
            r.fixext16().map_err(|error| msgpack("fingerprint", error, base))?;
        Ok(Self { vlmetalayers, fingerprint_kind, fingerprint: *fingerprint })
    }
}

/// Serializes a trailer without fingerprint. The caller has checked the names and that the values
/// are chunks.
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "writes; the sum is checked"
)]
pub(crate) fn encode(vlmetalayers: &[(Bytes, Bytes)]) -> Result<Vec<u8>, FrameError> {
    let total: u64 = vlmetalayers.iter().map(|(name, value)| (name.len() + value.len() + 11) as u64).sum();
    within("vlmetalayers, in bytes", total, (FORMAT, (1 << 31) - 4096))?;
    let mut w = Writer::appending_to(memory::list(total as usize + 256)?);
    w.fixarray(4);
    w.fixint(1);
    write_vlmetalayers(&mut w, vlmetalayers);
    let len = w.slot::<u32>();
    w.fixext16(0, &[0; 16]);
    let total = w.len() as u32;
    w.patch(len, total);
    Ok(w.into_bytes())
}

/// Returns the trailer without its length field and fingerprint.
pub(crate) fn values(trailer: &[u8]) -> &[u8] {
    trailer.get(..trailer.len().saturating_sub(END_LEN)).unwrap_or_default()
}

/// Sets the fingerprint of a trailer that [`encode`] returned.
pub(crate) fn set_fingerprint(trailer: &mut [u8], (kind, value): Fingerprint) {
    if let Some((_, [at, rest @ ..])) = trailer.split_at_mut_checked(trailer.len().saturating_sub(17)) {
        *at = kind;
        rest.copy_from_slice(&value);
    }
}

fn msgpack(field: &'static str, error: b2_msgpack::Error, base: u64) -> FrameError {
    let source = error.at(usize::try_from(base).unwrap_or(usize::MAX));
    FrameError::Msgpack { structure: Structure::Trailer, field, source }
}

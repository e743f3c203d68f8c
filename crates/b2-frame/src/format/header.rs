//! The fixed part of the frame header (docs/format/frame-contiguous.md, section 1). All integers are big-endian.
//!
//! ```text
//! 00 9E A8 "b2frame\0"        0A D2 i32 header_len        0F CF u64 frame_len
//! 18 A4 general flags, frame type, clevel << 4 | codec, split mode - 1
//! 1D D3 i64 nbytes            26 D3 i64 cbytes            2F D2 i32 typesize
//! 34 D2 i32 blocksize         39 D2 i32 chunksize         3E D1 i16 threads to compress
//! 41 D1 i16 threads to decompress                         44 C2|C3 has vlmetalayers
//! 45 D8 filter slots in use, filters[6], codec, codec meta, filter metas[6], dict, 0
//! 57 metalayers, up to header_len
//! ```

use b2_chunk::{CodecId, FilterId, FilterSlot, SplitMode};
use b2_msgpack::{Reader, Writer};

pub(crate) use crate::format::metalayers::FIXED_HEADER_LEN;
use crate::format::metalayers::{Metalayers, write_metalayers};
use crate::{FrameError, Structure};

/// Size of the shortest header, without metalayers, in bytes.
pub(crate) const MIN_HEADER_LEN: usize = FIXED_HEADER_LEN + 10;
/// Size of the shortest trailer, without vlmetalayers, in bytes.
pub(crate) const MIN_TRAILER_LEN: usize = 35;
/// The first bytes of every frame.
pub const MAGIC: [u8; 10] = *b"\x9e\xa8b2frame\0";

/// Offsets of fields that errors refer to.
mod offset {
    pub(super) const HEADER_LEN: u64 = 11;
    pub(super) const FRAME_LEN: u64 = 16;
    pub(super) const FRAME_TYPE: u64 = 26;
    pub(super) const NBYTES: u64 = 30;
    pub(super) const CBYTES: u64 = 39;
    pub(super) const TYPESIZE: u64 = 48;
    pub(super) const CHUNKSIZE: u64 = 58;
    pub(super) const NFILTERS: u64 = 70;
}

/// Codec nibble that means that the codec id is only in byte 77.
const CODEC_IN_FULL: u8 = 6;

/// How a frame stores its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// One file or buffer.
    Contiguous,
    /// A directory with one file per chunk.
    Sparse,
}

/// A parsed and checked frame header.
///
/// Codec, filters, split mode, level, dictionary and block size are defaults for new chunks. Stored
/// chunks have their own headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub(crate) header_len: u32,
    pub(crate) frame_len: u64,
    pub(crate) general_flags: u8,
    pub(crate) storage: Storage,
    pub(crate) clevel: u8,
    pub(crate) splitmode: SplitMode,
    pub(crate) nbytes: u64,
    pub(crate) cbytes: u64,
    pub(crate) typesize: u32,
    pub(crate) blocksize: i32,
    pub(crate) chunksize: i32,
    pub(crate) nthreads: (i16, i16),
    pub(crate) has_vlmetalayers: bool,
    pub(crate) filters: [FilterSlot; 6],
    pub(crate) codec: CodecId,
    pub(crate) codec_meta: u8,
    pub(crate) use_dict: bool,
}

impl FrameHeader {
    /// Parses and checks the first 87 bytes of a frame.
    ///
    /// # Errors
    /// [`FrameError::NotAFrame`] if the magic number is missing; otherwise an error that names the
    /// invalid field.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(FrameError::NotAFrame);
        }
        let Some(fixed) = bytes.get(..FIXED_HEADER_LEN) else {
            return Err(FrameError::Truncated {
                structure: Structure::Header,
                offset: 0,
                need: FIXED_HEADER_LEN as u64,
                have: bytes.len() as u64,
            });
        };
        let mut r = Reader::at(fixed, MAGIC.len());
        let header_len: i32 = field("header_len", r.number())?;
        let frame_len: u64 = field("frame_len", r.number())?;
        let flags = field("flags", r.fixstr())?;
        let &[general_flags, frame_type, codec_flags, split_flags] = flags else {
            return Err(FrameError::field(Structure::Header, "flags", 24, flags.len() as u64, "4 bytes"));
        };
        let nbytes: i64 = field("nbytes", r.number())?;
        let cbytes: i64 = field("cbytes", r.number())?;
        let typesize: i32 = field("typesize", r.number())?;
        let blocksize: i32 = field("blocksize", r.number())?;
        let chunksize: i32 = field("chunksize", r.number())?;
        let nthreads = (field("nthreads", r.number())?, field("nthreads", r.number())?);
        let has_vlmetalayers = field("has_vlmetalayers", r.bool())?;
        let (nfilters, pipeline) = field("filters", r.fixext16())?;
        let [f0, f1, f2, f3, f4, f5, codec, codec_meta, m0, m1, m2, m3, m4, m5, dict, _reserved] = *pipeline;

        if general_flags & 0x0F > 3 {
            return Err(FrameError::NewerVersion { version: general_flags & 0x0F });
        }
        let storage = match frame_type {
            0 => Storage::Contiguous,
            1 => Storage::Sparse,
            _ => return fail("frame type", offset::FRAME_TYPE, frame_type, "0 or 1"),
        };
        if frame_len < (MIN_HEADER_LEN + MIN_TRAILER_LEN) as u64 || frame_len > i64::MAX as u64 {
            return fail("frame_len", offset::FRAME_LEN, frame_len, "132 to 2^63 - 1");
        }
        let header_len = match u32::try_from(header_len) {
            Ok(len) if len as usize >= MIN_HEADER_LEN && u64::from(len) <= frame_len => len,
            _ => return fail("header_len", offset::HEADER_LEN, header_len, "97 to frame_len"),
        };
        let Ok(nbytes) = u64::try_from(nbytes) else {
            return fail("nbytes", offset::NBYTES, nbytes, "0 or more");
        };
        let Ok(cbytes) = u64::try_from(cbytes) else {
            return fail("cbytes", offset::CBYTES, cbytes, "0 or more");
        };
        let Some(typesize) = u32::try_from(typesize).ok().filter(|size| *size > 0) else {
            return fail("typesize", offset::TYPESIZE, typesize, "1 or more");
        };
        if chunksize < -1 || (chunksize == -1 && nbytes > 0) {
            return fail("chunksize", offset::CHUNKSIZE, chunksize, "0 or more, or -1 without chunks");
        }
        if nfilters > 6 {
            return fail("filters", offset::NFILTERS, nfilters, "at most 6 slots");
        }
        let slots = [(f0, m0), (f1, m1), (f2, m2), (f3, m3), (f4, m4), (f5, m5)];
        let nibble = codec_flags & 0x0F;
        Ok(Self {
            header_len,
            frame_len,
            general_flags,
            storage,
            clevel: codec_flags >> 4,
            splitmode: SplitMode::from_code((split_flags & 3).saturating_add(1)).unwrap_or_default(),
            nbytes,
            cbytes,
            typesize,
            blocksize,
            chunksize,
            nthreads,
            has_vlmetalayers,
            filters: slots.map(|(id, meta)| FilterSlot::new(FilterId(id), meta)),
            codec: CodecId(if nibble == CODEC_IN_FULL { codec } else { nibble }),
            codec_meta,
            use_dict: dict & 1 != 0,
        })
    }

    /// Serializes the header with its metalayers, and sets `header_len`.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "writes numbers that were parsed or checked against the format's limits"
    )]
    pub(crate) fn encode(&mut self, metalayers: &Metalayers) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(&MAGIC);
        let header_len = w.slot::<i32>();
        w.number(self.frame_len);
        let nibble = if self.codec.0 < CODEC_IN_FULL { self.codec.0 } else { CODEC_IN_FULL };
        w.fixstr(&[
            self.general_flags,
            match self.storage {
                Storage::Contiguous => 0,
                Storage::Sparse => 1,
            },
            nibble | self.clevel << 4,
            self.splitmode.code().saturating_sub(1),
        ]);
        w.number(self.nbytes as i64);
        w.number(self.cbytes as i64);
        w.number(self.typesize as i32);
        w.number(self.blocksize);
        w.number(self.chunksize);
        w.number(self.nthreads.0);
        w.number(self.nthreads.1);
        w.bool(self.has_vlmetalayers);
        let [f0, f1, f2, f3, f4, f5] = self.filters.map(|slot| slot.id.0);
        let [m0, m1, m2, m3, m4, m5] = self.filters.map(|slot| slot.meta);
        let (codec, meta, dict) = (self.codec.0, self.codec_meta, self.use_dict.into());
        w.fixext16(6, &[f0, f1, f2, f3, f4, f5, codec, meta, m0, m1, m2, m3, m4, m5, dict, 0]);
        write_metalayers(&mut w, metalayers);
        // The caller has checked the total size of the metalayers.
        self.header_len = w.len() as u32;
        w.patch(header_len, self.header_len as i32);
        w.into_bytes()
    }

    /// Returns the size of the header with its metalayers, in bytes.
    pub(crate) fn header_len(&self) -> usize {
        self.header_len as usize
    }
    /// Returns the size of the contiguous frame, or of the index file of a sparse frame, in bytes.
    pub fn frame_len(&self) -> u64 {
        self.frame_len
    }
    /// Returns header byte 25 as stored: the version of the frame format (0 to 3) in its lower 4 bits, flags in the others.
    #[doc(hidden)]
    pub fn general_flags(&self) -> u8 {
        self.general_flags
    }
    /// Returns whether the frame is contiguous or sparse.
    pub fn storage(&self) -> Storage {
        self.storage
    }
    /// Returns the uncompressed size of all chunks, in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        self.nbytes
    }
    /// Returns the stored size of the chunks in bytes: including dead space in contiguous frames,
    /// the sum of the chunk files in sparse ones.
    ///
    /// This is the number in the header. A frame that lost its last chunk may keep the old number.
    pub(crate) fn cbytes(&self) -> u64 {
        self.cbytes
    }
    /// Returns the item size in bytes. It may be 1 if the real size is above 255, which the header
    /// cannot hold.
    pub fn itemsize(&self) -> usize {
        self.typesize as usize
    }
    /// Returns the block size for new chunks and special chunks, in bytes; 0 means automatic.
    /// Negative stored numbers count as 0.
    pub fn blocksize(&self) -> usize {
        usize::try_from(self.blocksize).unwrap_or(0)
    }
    /// Returns the uncompressed size of every chunk except possibly the last, in bytes; 0 if chunks
    /// have individual sizes or there are none.
    pub fn chunksize(&self) -> usize {
        usize::try_from(self.chunksize).unwrap_or(0)
    }
    /// Returns the chunk size as stored, which is -1 if no chunk was ever written.
    pub fn stored_chunksize(&self) -> i32 {
        self.chunksize
    }
    /// Returns the codec for new chunks.
    pub fn codec(&self) -> CodecId {
        self.codec
    }
    /// Returns the codec's parameter byte.
    pub fn codec_meta(&self) -> u8 {
        self.codec_meta
    }
    /// Returns the compression level for new chunks.
    pub fn level(&self) -> u8 {
        self.clevel
    }
    /// Returns the split mode for new chunks.
    pub fn splitmode(&self) -> SplitMode {
        self.splitmode
    }
    /// Returns the six filter slots for new chunks, in order of application.
    pub fn filters(&self) -> [FilterSlot; 6] {
        self.filters
    }
    /// Returns whether new chunks get a dictionary.
    pub fn use_dict(&self) -> bool {
        self.use_dict
    }
}

/// Serializes a header with other metalayers. Everything before them stays as in the parsed `header`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the size of the metalayers was checked"
)]
pub(crate) fn encode_with_metalayers(header: &[u8], metalayers: &Metalayers) -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(header.get(..FIXED_HEADER_LEN).unwrap_or(header));
    write_metalayers(&mut w, metalayers);
    let mut bytes = w.into_bytes();
    let len = bytes.len() as i32;
    patch::put(&mut bytes, patch::HEADER_LEN, &len.to_be_bytes());
    bytes
}

/// Converts the msgpack error of a header field. Its offset already counts from the start of the
/// frame.
fn field<T>(name: &'static str, item: Result<T, b2_msgpack::Error>) -> Result<T, FrameError> {
    item.map_err(|source| FrameError::Msgpack { structure: Structure::Header, field: name, source })
}

fn fail<T>(
    field: &'static str,
    offset: u64,
    value: impl Into<i128>,
    expected: &'static str,
) -> Result<T, FrameError> {
    Err(FrameError::field(Structure::Header, field, offset, value, expected))
}

/// Offset of the frame type, for errors about contiguous frames in sparse places and vice versa.
pub(crate) const FRAME_TYPE_OFFSET: u64 = offset::FRAME_TYPE;
/// Offset of `frame_len`.
pub(crate) const FRAME_LEN_OFFSET: u64 = offset::FRAME_LEN;
/// Offset of `typesize`.
pub(crate) const TYPESIZE_OFFSET: u64 = offset::TYPESIZE;
/// Offset of `nbytes`.
pub(crate) const NBYTES_OFFSET: u64 = offset::NBYTES;
/// Offset of `cbytes`.
pub(crate) const CBYTES_OFFSET: u64 = offset::CBYTES;

/// Fields that a commit changes in a stored header.
#[allow(clippy::cast_possible_truncation, reason = "constants below 100")]
pub(crate) mod patch {
    use super::offset;

    pub(crate) const FRAME_LEN: usize = offset::FRAME_LEN as usize;
    pub(crate) const FLAGS: usize = 25;
    pub(crate) const STORAGE: usize = offset::FRAME_TYPE as usize;
    pub(crate) const NBYTES: usize = offset::NBYTES as usize;
    pub(crate) const CBYTES: usize = offset::CBYTES as usize;
    pub(crate) const BLOCKSIZE: usize = CHUNKSIZE - 5;
    pub(crate) const CHUNKSIZE: usize = offset::CHUNKSIZE as usize;
    /// Numbers of threads to compress and to decompress.
    pub(crate) const NTHREADS: [std::ops::Range<usize>; 2] = [63..65, 66..68];
    pub(crate) const HAS_VLMETALAYERS: usize = 68;
    pub(crate) const HEADER_LEN: usize = offset::HEADER_LEN as usize;
    /// Bytes before this offset never change: the magic number and the marker of `header_len`.
    pub(crate) const START: usize = HEADER_LEN;

    /// Replaces bytes of a header that was parsed, so that they are inside it.
    pub(crate) fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
        if let Some(field) = header.get_mut(at..at.saturating_add(bytes.len())) {
            field.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_and_the_flag_of_vlmetalayers_are_read() {
        let bytes = b"\x9e\xa8b2frame\0\
            \xd2\0\0\0\x61\
            \xcf\0\0\0\0\0\0\0\x84\
            \xa4\x12\0\x55\x02\
            \xd3\0\0\0\0\0\0\0\0\xd3\0\0\0\0\0\0\0\0\
            \xd2\0\0\0\x01\xd2\0\0\0\0\xd2\xff\xff\xff\xff\
            \xd1\0\x02\xd1\0\x03\xc2\
            \xd8\x06\0\0\0\0\0\x01\x05\0\0\0\0\0\0\0\0\0";
        let header = FrameHeader::parse(bytes).unwrap();
        assert_eq!((header.nthreads, header.has_vlmetalayers), ((2, 3), false));
        let mut bytes = *bytes;
        bytes[68] = 0xC3;
        assert!(FrameHeader::parse(&bytes).unwrap().has_vlmetalayers);
    }
}

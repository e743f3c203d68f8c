//! The chunk header (docs/format/chunk.md, section 1). All integers are little-endian.
//!
//! ```text
//! 00 version  01 versionlz  02 flags  03 typesize | 04 i32 nbytes | 08 i32 blocksize | 0C i32 cbytes
//! only when flags & 5 == 5 (extended):
//! 10 filters[6]  16 udcodec  17 codec meta | 18 filter metas[6]  1E flags2  1F blosc2 flags
//! ```

use b2_codecs::{CodecFormat, CodecId};
use b2_filters::{FilterId, FilterSlot};

use crate::ChunkError;

/// Size of the basic header, in bytes.
pub const MIN_HEADER_LEN: usize = 16;
/// Size of the extended header, in bytes.
pub const EXTENDED_HEADER_LEN: usize = 32;
/// Offset of the value in a repeated-value chunk.
const VALUE_AT: u32 = 32;
/// Largest uncompressed chunk, in bytes: 2^31 - 1 - 32.
pub const MAX_CHUNK_NBYTES: usize = i32::MAX as usize - EXTENDED_HEADER_LEN;
/// Largest block, and largest item, in bytes.
pub const MAX_BLOCKSIZE: usize = LARGEST_BLOCK as usize;
const LARGEST_BLOCK: i32 = 536_866_816;
/// Inputs shorter than this many bytes are stored uncompressed.
pub(crate) const MIN_COMPRESSIBLE: usize = 32;
/// Largest dictionary, in bytes.
pub(crate) const MAX_DICT_LEN: usize = 32_768;

/// Version of chunks that C-Blosc 1 reads, too.
pub(crate) const VERSION_BLOSC1: u8 = 2;
/// Version of chunks without variable-length blocks.
pub(crate) const VERSION: u8 = 5;
/// Version of chunks with variable-length blocks.
pub(crate) const VERSION_VL: u8 = 6;

/// Header offsets that error messages of other modules report.
pub(crate) const FLAGS_AT: usize = 0x02;
pub(crate) const FILTERS_AT: usize = 0x10;
pub(crate) const UDCODEC_AT: usize = 0x16;

/// Bits of the `flags` byte.
pub(crate) mod flags {
    pub(crate) const SHUFFLE: u8 = 0x01;
    pub(crate) const MEMCPYED: u8 = 0x02;
    pub(crate) const BITSHUFFLE: u8 = 0x04;
    pub(crate) const EXTENDED: u8 = SHUFFLE | BITSHUFFLE;
    pub(crate) const DELTA: u8 = 0x08;
    pub(crate) const NOT_SPLIT: u8 = 0x10;
}

/// Bits of the last header byte.
mod blosc2_flags {
    pub(super) const DICT: u8 = 0x01;
    pub(super) const LAZY: u8 = 0x08;
    pub(super) const INSTRUMENTED: u8 = 0x80;
}

/// The value that a chunk without stored data represents (docs/format/chunk.md, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialKind {
    /// All bytes zero.
    Zeros,
    /// Quiet NaNs of 4 or 8 bytes.
    NaN,
    /// One value repeated; it is stored after the header.
    Value,
    /// Never initialised. Reads as zeros.
    Uninit,
}

impl SpecialKind {
    /// Returns the number of the kind in the format.
    #[doc(hidden)]
    pub fn code(self) -> u8 {
        match self {
            Self::Zeros => 1,
            Self::NaN => 2,
            Self::Value => 3,
            Self::Uninit => 4,
        }
    }

    fn from_code(code: u8) -> Result<Option<Self>, ChunkError> {
        Ok(Some(match code {
            0 => return Ok(None),
            1 => Self::Zeros,
            2 => Self::NaN,
            3 => Self::Value,
            4 => Self::Uninit,
            _ => {
                return Err(ChunkError::Field {
                    field: "special kind",
                    offset: 0x1F,
                    value: code.into(),
                    expected: "0 to 4",
                });
            }
        }))
    }
}

/// A parsed and validated chunk header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    pub(crate) version: u8,
    pub(crate) flags: u8,
    pub(crate) typesize: u8,
    pub(crate) nbytes: u32,
    /// Block size in bytes, clamped to `nbytes`. In chunks with variable-length blocks: the number of blocks.
    pub(crate) blocksize: u32,
    pub(crate) cbytes: u32,
    pub(crate) filters: [FilterSlot; 6],
    pub(crate) udcodec: u8,
    pub(crate) codec_meta: u8,
    pub(crate) flags2: u8,
    pub(crate) special: Option<SpecialKind>,
    pub(crate) dict: bool,
    pub(crate) instrumented: bool,
}

impl ChunkHeader {
    /// Parses and checks the header at the start of `bytes`. It takes 16 bytes, or 32 if the flags say so.
    ///
    /// ```
    /// use b2_chunk::{Chunk, ChunkHeader, Compression};
    /// let chunk = Chunk::compress(&[7u32; 250], &Compression::lz4())?;
    /// let header = ChunkHeader::parse(chunk.as_bytes())?;
    /// assert_eq!((header.nbytes(), header.itemsize()), (1000, 4));
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    ///
    /// # Errors
    /// [`ChunkError::Truncated`] if there are too few bytes, [`ChunkError::Field`] if a field is out of range,
    /// [`ChunkError::NewerVersion`] if a newer version of the format is used.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChunkError> {
        let truncated = |need: usize| ChunkError::Truncated {
            what: "the header",
            need: need as u64,
            have: bytes.len() as u64,
        };
        let basic: &[u8; MIN_HEADER_LEN] = bytes.first_chunk().ok_or_else(|| truncated(MIN_HEADER_LEN))?;
        let [version, _versionlz, flags, typesize, n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = *basic;
        let nbytes = i32::from_le_bytes([n0, n1, n2, n3]);
        let blocksize = i32::from_le_bytes([b0, b1, b2, b3]);
        let cbytes = i32::from_le_bytes([c0, c1, c2, c3]);

        let mut header = Self {
            version,
            flags,
            typesize,
            nbytes: checked(nbytes, 0..=i32::MAX, "nbytes", 4, "0 or more")?,
            blocksize: checked(blocksize, 1..=LARGEST_BLOCK, "blocksize", 8, "1 to 536866816")?,
            cbytes: checked(cbytes, 16..=i32::MAX, "cbytes", 12, "16 or more")?,
            filters: [FilterSlot::EMPTY; 6],
            udcodec: 0,
            codec_meta: 0,
            flags2: 0,
            special: None,
            dict: false,
            instrumented: false,
        };
        checked(typesize.into(), 1..=255, "typesize", 3, "1 to 255")?;
        if header.is_extended() {
            let extension = bytes.get(MIN_HEADER_LEN..).and_then(|rest| rest.first_chunk());
            let extension = extension.ok_or_else(|| truncated(EXTENDED_HEADER_LEN))?;
            checked(cbytes, 32..=i32::MAX, "cbytes", 12, "32 or more with an extended header")?;
            header.read_extension(extension)?;
        } else {
            header.filters = blosc1_filters(flags);
        }
        header.check_relations()?;
        if !header.is_vl() && header.nbytes > 0 {
            header.blocksize = header.blocksize.min(header.nbytes);
        }
        Ok(header)
    }

    fn read_extension(&mut self, extension: &[u8; 16]) -> Result<(), ChunkError> {
        let [f0, f1, f2, f3, f4, f5, udcodec, codec_meta, m0, m1, m2, m3, m4, m5, flags2, blosc2_flags] =
            *extension;
        let slots = [(f0, m0), (f1, m1), (f2, m2), (f3, m3), (f4, m4), (f5, m5)];
        self.filters = slots.map(|(id, meta)| FilterSlot::new(FilterId(id), meta));
        if self.version == 3 {
            // Alpha releases that wrote version 3 left garbage in the last slot.
            let [.., last] = &mut self.filters;
            *last = FilterSlot::EMPTY;
        }
        self.udcodec = udcodec;
        self.codec_meta = codec_meta;
        self.flags2 = flags2;
        if self.version > VERSION_VL && self.flags2 & !1 != 0 {
            return Err(ChunkError::NewerVersion { version: self.version, flags2: self.flags2 });
        }
        self.special = SpecialKind::from_code((blosc2_flags >> 4) & 7)?;
        self.dict = blosc2_flags & blosc2_flags::DICT != 0;
        self.instrumented = blosc2_flags & blosc2_flags::INSTRUMENTED != 0;
        if blosc2_flags & blosc2_flags::LAZY != 0 && self.special.is_none() {
            return Err(ChunkError::Field {
                field: "blosc2_flags",
                offset: 0x1F,
                value: blosc2_flags.into(),
                expected: "no lazy bit in stored data",
            });
        }
        Ok(())
    }

    fn check_relations(&self) -> Result<(), ChunkError> {
        let fail = |field, offset, value: u32, expected| {
            Err(ChunkError::Field { field, offset, value: value.into(), expected })
        };
        if self.is_vl() && (self.special.is_some() || self.flags & flags::MEMCPYED != 0) {
            return fail(
                "flags2",
                0x1E,
                self.flags2.into(),
                "no variable-length blocks in a special or stored chunk",
            );
        }
        if self.flags & flags::MEMCPYED != 0
            && u64::from(self.cbytes) != u64::from(self.nbytes).saturating_add(self.header_len() as u64)
        {
            return fail("cbytes", 12, self.cbytes, "nbytes + header in a memcpyed chunk");
        }
        match self.special {
            Some(SpecialKind::Value) => {
                let width = self.cbytes.saturating_sub(VALUE_AT);
                if width == 0
                    || width as usize > MAX_BLOCKSIZE
                    || !self.nbytes.is_multiple_of(width)
                    || width > self.nbytes
                {
                    return fail("cbytes", 12, self.cbytes, "32 + a value width that divides nbytes");
                }
            }
            Some(SpecialKind::NaN) if !matches!(self.typesize, 4 | 8) => {
                return fail("typesize", 3, self.typesize.into(), "4 or 8 in a chunk of NaNs");
            }
            Some(SpecialKind::NaN | SpecialKind::Uninit)
                if !self.nbytes.is_multiple_of(self.typesize.into()) =>
            {
                return fail("nbytes", 4, self.nbytes, "a multiple of typesize in a special chunk");
            }
            _ => {}
        }
        Ok(())
    }

    /// Encodes the header. Only the first 16 bytes count if it is not extended.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> [u8; EXTENDED_HEADER_LEN] {
        let [n0, n1, n2, n3] = self.nbytes.to_le_bytes();
        let [b0, b1, b2, b3] = self.blocksize.to_le_bytes();
        let [c0, c1, c2, c3] = self.cbytes.to_le_bytes();
        let [f0, f1, f2, f3, f4, f5] = self.filters.map(|slot| slot.id.0);
        let [m0, m1, m2, m3, m4, m5] = self.filters.map(|slot| slot.meta);
        let dict = if self.dict { blosc2_flags::DICT } else { 0 };
        let special = self.special.map_or(0, SpecialKind::code) << 4;
        [
            [self.version, 1, self.flags, self.typesize, n0, n1, n2, n3],
            [b0, b1, b2, b3, c0, c1, c2, c3],
            [f0, f1, f2, f3, f4, f5, self.udcodec, self.codec_meta],
            [m0, m1, m2, m3, m4, m5, self.flags2, dict | special],
        ]
        .as_flattened()
        .first_chunk()
        .copied()
        .unwrap_or_default()
    }

    /// Returns the version of the chunk format (header byte 0).
    pub fn version(&self) -> u8 {
        self.version
    }
    /// Returns the item size in bytes, 1 to 255. It is 1 if the real size is above 255.
    pub fn itemsize(&self) -> usize {
        self.typesize.into()
    }
    /// Returns the uncompressed size in bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes as usize
    }
    /// Returns the size of the whole chunk in bytes, including the header.
    pub fn cbytes(&self) -> usize {
        self.cbytes as usize
    }
    /// Returns [`cbytes`](Self::cbytes) as a `u32`, the width of all offsets inside a chunk.
    pub(crate) fn stored_len(&self) -> u32 {
        self.cbytes
    }
    /// Returns the uncompressed size of every block except possibly the last, in bytes, at most `nbytes`. It is 0 if
    /// blocks have variable lengths.
    pub fn blocksize(&self) -> usize {
        if self.is_vl() { 0 } else { self.blocksize as usize }
    }
    /// Returns the number of blocks.
    pub fn nblocks(&self) -> usize {
        if self.is_vl() {
            self.blocksize as usize
        } else {
            // `parse` rejects a block size of 0; `max` only rules out a division by zero.
            (self.nbytes as usize).div_ceil(self.blocksize.max(1) as usize)
        }
    }
    /// Returns the size of this header in bytes: 16 or 32.
    #[doc(hidden)]
    pub fn header_len(&self) -> usize {
        if self.is_extended() { EXTENDED_HEADER_LEN } else { MIN_HEADER_LEN }
    }
    /// Returns whether this is the extended header of Blosc2 (32 bytes) rather than that of Blosc1.
    #[doc(hidden)]
    pub fn is_extended(&self) -> bool {
        self.flags & flags::EXTENDED == flags::EXTENDED
    }
    /// Returns whether the payload is the uncompressed input.
    pub fn is_memcpyed(&self) -> bool {
        self.flags & flags::MEMCPYED != 0 && self.special.is_none()
    }
    /// Returns whether full blocks are split into `typesize` streams.
    pub fn is_split(&self) -> bool {
        self.flags & flags::NOT_SPLIT == 0 && !self.is_vl()
    }
    /// Returns whether blocks have variable lengths.
    pub fn is_vl(&self) -> bool {
        self.flags2 & 1 != 0
    }
    /// Returns whether streams use a dictionary. It is false for memcpyed and special chunks, in which C-Blosc2 may
    /// leave the bit set by mistake.
    pub fn has_dict(&self) -> bool {
        self.dict && !self.is_memcpyed() && self.special.is_none()
    }
    /// Returns whether streams hold statistics records instead of data. Filters are not undone on those.
    #[doc(hidden)]
    pub fn is_instrumented(&self) -> bool {
        self.instrumented
    }
    /// Returns the kind of special chunk, or `None` if the chunk stores data.
    pub fn special(&self) -> Option<SpecialKind> {
        self.special
    }
    /// Returns the six filter slots, in the order in which compression applies them.
    pub fn filters(&self) -> [FilterSlot; 6] {
        self.filters
    }
    /// Returns the codec format in the flags.
    pub fn codec_format(&self) -> CodecFormat {
        CodecFormat(self.flags >> 5)
    }
    /// Returns the codec that decodes the streams, or `None` if the codec format is undefined. LZ4HC streams are
    /// reported as LZ4, since both share one format.
    pub fn codec(&self) -> Option<CodecId> {
        self.codec_format().codec(self.udcodec)
    }
    /// Returns the codec's parameter byte.
    pub fn codec_meta(&self) -> u8 {
        self.codec_meta
    }
}

fn checked(
    value: i32,
    range: std::ops::RangeInclusive<i32>,
    field: &'static str,
    offset: usize,
    expected: &'static str,
) -> Result<u32, ChunkError> {
    if !range.contains(&value) {
        return Err(ChunkError::Field { field, offset, value: value.into(), expected });
    }
    // All ranges start at 0 or above.
    Ok(value.unsigned_abs())
}

/// Derives the filters from the flags of a 16-byte header (docs/format/chunk.md, section 9).
fn blosc1_filters(flags: u8) -> [FilterSlot; 6] {
    const NONE: FilterSlot = FilterSlot::EMPTY;
    let shuffle = if flags & flags::SHUFFLE != 0 {
        FilterSlot::SHUFFLE
    } else if flags & flags::BITSHUFFLE != 0 {
        FilterSlot::BITSHUFFLE
    } else {
        NONE
    };
    let delta = if flags & flags::DELTA != 0 { FilterSlot::DELTA } else { NONE };
    [NONE, NONE, NONE, NONE, delta, shuffle]
}

/// A codec id, as in frame header byte 77 and chunk header byte 0x16. Any value is allowed, since files may contain
/// unknown ids.
///
/// ```
/// # use b2_codecs::CodecId;
/// assert_eq!(CodecId::from_name("zlib"), Some(CodecId::ZLIB));
/// assert_eq!(CodecId::from_name("codec:200"), Some(CodecId(200)));
/// assert_eq!(CodecId::from_name("snappy"), None);
/// assert_eq!(format!("{} {:?}", CodecId::ZSTD, CodecId(200)), "zstd CodecId(codec:200)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// blosclz, an LZ77 codec from Blosc.
    pub const BLOSCLZ: Self = Self(0);
    /// LZ4 with the fast encoder.
    pub const LZ4: Self = Self(1);
    /// LZ4 with the high-compression encoder.
    pub const LZ4HC: Self = Self(2);
    /// Snappy, which C-Blosc2 has removed. It is only decoded, with the feature `snappy`.
    pub const SNAPPY: Self = Self(3);
    /// zlib (RFC 1950).
    pub const ZLIB: Self = Self(4);
    /// Zstandard.
    pub const ZSTD: Self = Self(5);
    /// ndlz, a 2-D codec for single bytes.
    pub const NDLZ: Self = Self(32);
    /// zfp with fixed accuracy.
    pub const ZFP_FIXED_ACCURACY: Self = Self(33);
    /// zfp with fixed precision.
    pub const ZFP_FIXED_PRECISION: Self = Self(34);
    /// zfp with fixed rate.
    pub const ZFP_FIXED_RATE: Self = Self(35);
    /// pcodec, from the crate `b2-pco`. The id is in the range for users, and C-Blosc2 does not know it.
    pub const PCO: Self = Self(217);

    /// Returns the 3-bit field for this codec in the flags of the chunk header.
    pub fn format(self) -> CodecFormat {
        match self {
            Self::BLOSCLZ => CodecFormat::BLOSCLZ,
            Self::LZ4 | Self::LZ4HC => CodecFormat::LZ4,
            Self::ZLIB => CodecFormat::ZLIB,
            Self::ZSTD => CodecFormat::ZSTD,
            _ => CodecFormat::USER_DEFINED,
        }
    }
}

b2_core::named_ids! {
    CodecId, "codec",
    BLOSCLZ "blosclz"
    LZ4 "lz4"
    LZ4HC "lz4hc"
    ZLIB "zlib"
    ZSTD "zstd"
    NDLZ "ndlz"
    ZFP_FIXED_ACCURACY "zfp_acc"
    ZFP_FIXED_PRECISION "zfp_prec"
    ZFP_FIXED_RATE "zfp_rate"
    PCO "pco"
}

/// The codec format, bits 5 to 7 of the chunk header flags. Its numbering differs from [`CodecId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodecFormat(pub u8);

impl CodecFormat {
    /// blosclz streams.
    pub const BLOSCLZ: Self = Self(0);
    /// LZ4 blocks (codecs lz4 and lz4hc).
    pub const LZ4: Self = Self(1);
    /// Snappy streams, in chunks of C-Blosc 1.
    pub const SNAPPY: Self = Self(2);
    /// zlib streams.
    pub const ZLIB: Self = Self(3);
    /// zstd frames.
    pub const ZSTD: Self = Self(4);
    /// The full codec id is in chunk header byte 0x16.
    pub const USER_DEFINED: Self = Self(6);

    /// Returns the codec that reads this format. `udcodec` is chunk header byte 0x16. The result is `None` for the
    /// undefined formats 5 and 7.
    pub fn codec(self, udcodec: u8) -> Option<CodecId> {
        match self {
            Self::BLOSCLZ => Some(CodecId::BLOSCLZ),
            Self::LZ4 => Some(CodecId::LZ4),
            Self::SNAPPY => Some(CodecId::SNAPPY),
            Self::ZLIB => Some(CodecId::ZLIB),
            Self::ZSTD => Some(CodecId::ZSTD),
            Self::USER_DEFINED => Some(CodecId(udcodec)),
            _ => None,
        }
    }
}

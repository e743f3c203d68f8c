//! Names and versions of codecs.

use std::ffi::CStr;

/// The codecs that C knows by name: id, name, id of the format, name of its library, version of the format's library.
pub(crate) const CODECS: [(i32, &CStr, i32, &CStr, &CStr); 5] = [
    (0, c"blosclz", 0, c"BloscLZ", c"2.5.3"),
    (1, c"lz4", 1, c"LZ4", c"1.10.0"),
    (2, c"lz4hc", 1, c"LZ4", c"1.10.0"),
    (4, c"zlib", 3, c"Zlib", c"1.3.1"),
    (5, c"zstd", 4, c"Zstd", c"1.5.7"),
];

/// The id of NDLZ.
const NDLZ: i32 = 32;

/// Codecs beyond those, which every build has.
pub(crate) const EXTRA_CODECS: [(i32, &CStr); 4] =
    [(NDLZ, c"ndlz"), (33, c"zfp_acc"), (34, c"zfp_prec"), (35, c"zfp_rate")];

/// The version of a codec that has no library of its own.
pub(crate) const UNKNOWN_VERSION: &CStr = c"unknown";

pub(crate) const CODEC_LIST: &CStr = c"blosclz,lz4,lz4hc,zlib,zstd";

/// The version that this library claims: that of the C-Blosc2 whose interface it has.
pub(crate) const VERSION: &CStr = c"3.3.5";

/// Returns the name of the library of a format.
pub(crate) fn library(format: i32) -> Option<&'static CStr> {
    CODECS.iter().find(|codec| codec.2 == format).map(|codec| codec.3)
}

/// Returns the id, the name and the version of the library of a codec, by the name of the codec. Programs ask whether a codec can
/// be written with: NDLZ is only read.
pub(crate) fn library_of(name: &CStr) -> Option<(i32, &'static CStr, &'static CStr)> {
    let known = CODECS.iter().find(|codec| codec.1 == name).map(|codec| (codec.2, codec.3, codec.4));
    let writes = |codec: &&(i32, &CStr)| codec.1 == name && codec.0 != NDLZ;
    known.or_else(|| EXTRA_CODECS.iter().find(writes).map(|codec| (codec.0, codec.1, UNKNOWN_VERSION)))
}

pub(crate) fn name_of(code: i32) -> Option<&'static CStr> {
    let known = CODECS.iter().find(|codec| codec.0 == code).map(|codec| codec.1);
    known.or_else(|| EXTRA_CODECS.iter().find(|codec| codec.0 == code).map(|codec| codec.1))
}

pub(crate) fn code_of(name: &CStr) -> Option<i32> {
    let known = CODECS.iter().find(|codec| codec.1 == name).map(|codec| codec.0);
    known.or_else(|| EXTRA_CODECS.iter().find(|codec| codec.1 == name).map(|codec| codec.0))
}

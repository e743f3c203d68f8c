//! Names and versions of codecs.

use std::ffi::CStr;

/// The codecs known to C by name: id, name, format id, library name, library version.
pub(crate) const CODECS: [(i32, &CStr, i32, &CStr, &CStr); 5] = [
    (0, c"blosclz", 0, c"BloscLZ", c"2.5.3"),
    (1, c"lz4", 1, c"LZ4", c"1.10.0"),
    (2, c"lz4hc", 1, c"LZ4", c"1.10.0"),
    (4, c"zlib", 3, c"Zlib", c"1.3.1"),
    (5, c"zstd", 4, c"Zstd", c"1.5.7"),
];

/// The id of NDLZ.
const NDLZ: i32 = 32;

/// Further codecs, which every build has.
pub(crate) const EXTRA_CODECS: [(i32, &CStr); 4] =
    [(NDLZ, c"ndlz"), (33, c"zfp_acc"), (34, c"zfp_prec"), (35, c"zfp_rate")];

/// The version of a codec without a separate library.
pub(crate) const UNKNOWN_VERSION: &CStr = c"unknown";

pub(crate) const CODEC_LIST: &CStr = c"blosclz,lz4,lz4hc,zlib,zstd";

/// The reported version: that of the C-Blosc2 whose interface this library implements.
pub(crate) const VERSION: &CStr = c"3.3.5";

/// Returns the name of the library of a format.
pub(crate) fn library(format: i32) -> Option<&'static CStr> {
    CODECS.iter().find(|codec| codec.2 == format).map(|codec| codec.3)
}

/// Returns id, library name and library version of a codec by name. Programs use this to check for encoders, so NDLZ,
/// which is only decoded, is not found.
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

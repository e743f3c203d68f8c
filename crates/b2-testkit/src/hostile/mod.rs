//! Damage that knows the format, used by the fuzz targets and `cargo xtask hostile`.
//!
//! - `number`: where the numbers of headers are, and the values that break readers
//! - `seal`: the checksums of a damaged frame

mod number;
mod seal;

pub use number::{CHUNK_HEADER, EXTENDED_HEADER, FRAME_HEADER, Number, Row};
pub use seal::{MAGIC, Places, seal, sum, zero};

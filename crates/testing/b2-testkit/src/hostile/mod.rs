//! Damage that knows the format, used by the fuzz targets and `b2-hostile`. It shares no code with the library
//! under test.
//!
//! - `number`: numbers of headers, and the values that break readers
//! - `walk`: where the parts of a frame or chunk are, and all their fields
//! - `seal`: the checksums of a damaged frame

mod number;
mod seal;
mod walk;

pub use number::Number;
pub use seal::{Seal, sum};
pub use walk::{FilePart, FrameLayout, Layer, Walk, stored};

//! Damage to files, used by tests, the fuzz targets and `b2-hostile`. It shares no code with the library under test.
//!
//! - `bytes`: damage to bytes of any format
//! - `number`: numbers of headers, and the values that break readers
//! - `walk`: the positions of the parts of a frame or chunk, and all their fields
//! - `seal`: the checksums of a damaged frame

mod bytes;
mod number;
mod seal;
mod walk;

pub use bytes::{damage, flipped, flips, overwrite};
pub use number::Number;
pub use seal::{Seal, sum};
pub use walk::{FilePart, FrameLayout, Layer, Walk, stored};

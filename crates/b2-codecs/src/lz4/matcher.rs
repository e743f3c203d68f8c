//! The common interface of the match searches of the encoders.

use b2_core::OutOfMemory;

/// The match search of an encoder.
pub(super) trait Matcher: Send {
    /// Indexes the dictionary. Called at most once, before any other method.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    fn load_dict(&mut self, dict: &[u8]) -> Result<(), OutOfMemory>;

    /// Compresses `window[start..]` into a block; `window[..start]` is the dictionary. Returns the length of the block,
    /// or `None` if it does not fit.
    fn compress(&mut self, window: &[u8], start: usize, dst: &mut [u8]) -> Option<usize>;
}

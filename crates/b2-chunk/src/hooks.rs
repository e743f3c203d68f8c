//! Functions of the caller's that see every block: before the pipeline when compressing, after it when
//! decompressing. Nothing of them is stored.

use std::fmt;
use std::sync::Arc;

/// The block that a prefilter or postfilter is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Number of the block in its chunk.
    pub nblock: usize,
    /// Its first byte, from the chunk's first plain byte.
    pub offset: usize,
    /// Item size in the chunk header, in bytes.
    pub typesize: usize,
}

type BlockFn = dyn Fn(&BlockInfo, &[u8], &mut [u8]) + Send + Sync;

/// A function from the bytes of a block to as many others; `None` changes nothing.
#[derive(Clone, Default)]
pub(crate) struct Hook(pub(crate) Option<Arc<BlockFn>>);

impl Hook {
    pub(crate) fn new(hook: impl Fn(&BlockInfo, &[u8], &mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Hook(..)" } else { "Hook(none)" })
    }
}

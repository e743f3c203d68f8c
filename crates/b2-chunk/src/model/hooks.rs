//! User functions that transform every block, before the filters when compressing and after them when decompressing.
//! A chunk does not record that it was made with one.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use b2_core::Cancelled;

use crate::{ChunkError, HookError};

/// Identifies the block that a prefilter or postfilter is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Index of the chunk in its frame or array; `None` for a chunk outside of any container.
    pub nchunk: Option<usize>,
    /// Index of the block in its chunk.
    pub nblock: usize,
    /// Offset of the block in the uncompressed chunk, in bytes.
    pub offset: usize,
    /// Item size in bytes.
    pub itemsize: usize,
}

/// The result of a hook.
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

type BlockFn = dyn Fn(&BlockInfo, &[u8], &mut [u8]) -> Outcome + Send + Sync;

/// A function that writes a block of the same length; `None` copies the block.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<BlockFn>>);

impl Hook {
    pub(crate) fn new(
        hook: impl Fn(&BlockInfo, &[u8], &mut [u8]) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Returns whether there is a function.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Computes `dst` from `src`.
    pub(crate) fn call(&self, info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), ChunkError> {
        let Some(hook) = &self.0 else {
            dst.copy_from_slice(src);
            return Ok(());
        };
        hook(info, src, dst).map_err(|error| match error.downcast::<Cancelled>() {
            Ok(cancelled) => (*cancelled).into(),
            Err(error) => ChunkError::Hook { nblock: info.nblock, source: HookError::new(error) },
        })
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "Hook(..)" } else { "Hook(none)" })
    }
}

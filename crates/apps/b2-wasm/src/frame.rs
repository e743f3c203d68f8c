//! Opening frames, within limits.

use b2_async::{AsyncOptions, AsyncSuperChunk};
use b2_core::Limits;
use b2_frame::FrameError;

use crate::source::Source;

/// Memory limit per file, in bytes. A browser page has at most 4 GiB.
const MEMORY: u64 = 1 << 30;
/// Limit on the metadata of a file, in bytes.
const METADATA: u64 = 16 << 20;

/// Opens a frame.
///
/// # Errors
/// As for [`AsyncSuperChunk::open_with`].
pub async fn open(source: Source) -> Result<AsyncSuperChunk<Source>, FrameError> {
    let limits = Limits::default().max_memory(MEMORY).max_chunk_nbytes(MEMORY).max_output(MEMORY);
    let limits = limits.max_metadata(METADATA);
    AsyncSuperChunk::open_with(source, &AsyncOptions::new().limits(limits)).await
}

//! Everything that should be shareable between threads is.

use b2kit::chunk::{CParams, ChunkHeader, DParams, LazyChunk};
use b2kit::*;

fn shared<T: Send + Sync>() {}

#[test]
fn everyday_types_are_send_and_sync() {
    shared::<Chunk>();
    shared::<ChunkHeader>();
    shared::<LazyChunk>();
    shared::<CParams>();
    shared::<DParams>();
    shared::<Plugins>();
    shared::<SuperChunk>();
    shared::<NdArray>();
    shared::<Slice>();
    shared::<ArrayBuilder>();
    shared::<Error>();
    fn moved<T: Send>() {}
    moved::<FrameWriter>();
}

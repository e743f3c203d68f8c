//! Single chunks that are stored outside of a frame, as Zarr does.

use std::sync::Arc;

use b2_chunk::{CodecId, FilterId, FilterSlot, SplitMode};
use bytes::Bytes;

use crate::format::checksums::Checksums;
use crate::format::header::{FrameHeader, Storage};
use crate::format::index::{Entry, Index};
use crate::format::metalayers::{Metalayers, VlMetalayers};
use crate::format::runs::VerifiedChunks;
use crate::format::trailer::Trailer;
use crate::read::open_plan::{FrameLayout, OpenedFrame};
use crate::storage::files::FrameFiles;
use crate::{ReadOptions, SuperChunk};

impl ReadOptions {
    /// Returns a chunk outside of a frame as a frame that consists of this chunk, which starts the main file of `files`.
    /// Reading it fails if it does not have `nbytes` uncompressed bytes. `blocksize` is an estimate, which determines how
    /// many bytes are read first.
    #[doc(hidden)]
    pub fn lone_chunk(
        &self,
        (nbytes, itemsize, blocksize): (u32, u32, u32),
        files: Arc<dyn FrameFiles>,
    ) -> SuperChunk {
        let size = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let header = FrameHeader {
            header_len: 0,
            frame_len: 0,
            general_flags: 0,
            storage: Storage::Contiguous,
            clevel: 0,
            splitmode: SplitMode::default(),
            nbytes: nbytes.into(),
            cbytes: 0,
            typesize: itemsize,
            blocksize: size(blocksize),
            chunksize: size(nbytes),
            nthreads: (1, 1),
            has_vlmetalayers: false,
            filters: [FilterSlot::new(FilterId(0), 0); 6],
            codec: CodecId(0),
            codec_meta: 0,
            use_dict: false,
        };
        let opened = OpenedFrame {
            header,
            header_bytes: Bytes::new(),
            metalayers: Metalayers::default(),
            index: Index::from_entries(Arc::new(vec![Entry::Stored(0).to_raw()])),
            trailer: Trailer {
                vlmetalayers: VlMetalayers::default(),
                fingerprint_kind: 0,
                fingerprint: [0; 16],
            },
            tail_sum: 0,
            layout: FrameLayout { header: 0..0, data: 0..u64::MAX, index: 0..0, trailer: 0..0 },
            checksums: Checksums::None,
            sums: None,
            starts: None,
            runs: None,
            compared: VerifiedChunks::default(),
        };
        self.opened(opened, files)
    }
}

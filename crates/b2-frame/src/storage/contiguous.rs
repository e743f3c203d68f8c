//! Contiguous frames, which are one file or buffer.

use crate::FrameError;
use crate::names::FrameFile;
use crate::storage::files::{FrameFiles, OpenFile};
use crate::storage::request_stats::RequestStats;

/// The only file of a contiguous frame.
pub(crate) struct Contiguous(pub(crate) OpenFile);

impl FrameFiles for Contiguous {
    fn open(&self, file: FrameFile) -> Result<OpenFile, FrameError> {
        match file {
            FrameFile::Main => Ok(self.0.clone()),
            FrameFile::Chunk(_) => {
                Err(FrameError::argument("extent", "contiguous frames have no chunk files"))
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn request_stats(&self) -> Option<&RequestStats> {
        self.0.storage().request_stats()
    }
}

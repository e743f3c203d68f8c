//! How frames are opened and written: the options of every command, for the library.

use std::fs;
use std::path::Path;

use b2kit::frame::WriteOptions;
use b2kit::frame::{Compare, ReadOptions, ReadTuning};
use b2kit::{FrameWriter, Limits, SuperChunk};

use super::urls;
use crate::args::plugins::plugins;
use crate::args::{ComparePolicy, Global};
use crate::process::error::METADATA_SHARE;
use crate::process::signals;

/// Default of `--max-memory` for a file of `stored` bytes.
fn default_memory(stored: u64) -> u64 {
    stored.saturating_mul(64).clamp(MIN_MEMORY, Limits::default().max_memory.max(MIN_MEMORY))
}

/// Enough memory for chunks of 2 GiB with the largest possible blocks (512 MiB) and one filter; in bytes.
const MIN_MEMORY: u64 = 768 << 20;

impl Global {
    /// Options for reading the frame at `path`, or a frame inside that file.
    pub(crate) fn reading(&self, path: &Path) -> ReadOptions {
        if urls::is_url(path) {
            let stored = urls::open(path).and_then(|file| file.len()).unwrap_or(0);
            let options = self.reading_stored(stored);
            // If there is no file system for the URL, opening the frame reports why.
            let options = options.tuning(ReadTuning::REMOTE);
            return match urls::file_system(path) {
                Ok(fs) => options.file_system(fs),
                Err(_) => options,
            };
        }
        self.reading_stored(stored_bytes(path))
    }

    /// Options for reading a frame from a file of `stored` bytes.
    pub(crate) fn reading_stored(&self, stored: u64) -> ReadOptions {
        let options = SuperChunk::options().plugins(plugins()).checksums(!self.no_checksums);
        let when = match self.compare {
            Some(ComparePolicy::Always) => Compare::Always,
            Some(ComparePolicy::Once) | None => Compare::Once,
            Some(ComparePolicy::Never) => Compare::Never,
        };
        let options = options.compare(when).control(signals::control());
        options.limits(self.limits(stored))
    }

    /// The limits for reading a file of `stored` bytes.
    pub(crate) fn limits(&self, stored: u64) -> Limits {
        let limits = Limits::default();
        let max_memory = self.max_memory.unwrap_or_else(|| default_memory(stored));
        let max_metadata = match self.max_memory {
            Some(max_memory) => max_memory / METADATA_SHARE,
            None => limits.max_metadata,
        };
        limits
            .max_memory(max_memory)
            .max_metadata(max_metadata)
            .max_output(self.max_output.unwrap_or(u64::MAX))
    }

    /// Options for writing frames.
    pub(crate) fn writing(&self) -> WriteOptions {
        FrameWriter::options().checksums(!self.no_checksums).control(signals::control())
    }
}

/// Size of a file or directory, in bytes. Stops counting once a directory is large enough for the highest default
/// limits.
fn stored_bytes(path: &Path) -> u64 {
    const ENOUGH: u64 = 64 << 20;
    let Ok(there) = fs::metadata(path) else { return 0 };
    if !there.is_dir() {
        return there.len();
    }
    let mut sum = 0u64;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        sum = sum.saturating_add(entry.metadata().map_or(0, |file| file.len()));
        if sum >= ENOUGH {
            break;
        }
    }
    sum
}

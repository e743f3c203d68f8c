#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "servers may send anything, and none of it may cause a panic or a wrong number"
    )
)]

mod client;
mod file;
mod resolve;
mod system;
mod url;

use std::sync::Arc;

use b2_frame::{ReadOptions, ReadTuning, SuperChunk};

pub use client::{HttpOptions, RequestCounts};
pub use file::{HttpFile, HttpSource};
pub use system::Http;
pub use url::is_url;

/// Returns options for opening URLs, with the file system [`Http`] and [`ReadTuning::REMOTE`].
pub fn options() -> ReadOptions {
    SuperChunk::options().file_system(Arc::new(Http::default())).tuning(ReadTuning::REMOTE)
}

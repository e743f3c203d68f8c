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
        reason = "files and servers may send any bytes, and none of them may cause a panic or a wrong number"
    )
)]

mod array;
mod frame;
mod future_set;
mod options;
mod reader;
mod remote;

pub use array::{AsyncNdArray, AsyncSlice, SlicePart, SliceParts};
pub use b2_frame::{OpenResponse, RangeResponse, Version};
pub use frame::AsyncSuperChunk;
pub use options::AsyncOptions;
pub use reader::{MaybeSend, MaybeSync, RangeReader};

/// The Rust examples of a page in `docs`, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/how-to/read-remotely.md")]
struct ReadRemotely;

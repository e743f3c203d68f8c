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
        reason = "stores may hold any bytes, and none of them may cause a panic or a wrong number"
    )
)]

mod archive;
mod change;
mod error;
mod members;
mod names;
mod store;
mod table;
mod window;
mod write;

pub use error::StoreError;
pub use members::{Member, MemberLocation};
pub use names::{ATTRIBUTES, MemberKind};
pub use store::Store;
pub use write::{StoreLayout, StoreWriter};

// For the browser viewer, which reads archives and frames asynchronously.
#[doc(hidden)]
pub use {archive::Archive, members::Members};

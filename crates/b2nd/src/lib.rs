#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The only unsafe code is an `unsafe impl` in `read::selected`, which allows it explicitly.
#![deny(unsafe_code)]
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
        reason = "files may hold any bytes, and none of them may cause a panic or a wrong number"
    )
)]

mod error;
mod model;
mod read;
mod repair;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "positions are inside a geometry and a selection, which were checked"
)]
mod select;
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "positions are inside the geometry of an array, which was checked"
)]
mod write;

pub use error::NdError;
pub use model::default_shapes::default_chunkshape;
pub use model::dtype::{Dtype, DtypeKind, Field};
pub use model::element::Element;
pub use model::geometry::Geometry;
pub use model::meta::{ArrayMeta, METALAYER, OLD_METALAYER};
/// The version of `ndarray` (0.17) whose arrays are read and written.
#[cfg(feature = "ndarray")]
#[doc(no_inline)]
pub use ndarray;
pub use read::array::NdArray;
pub use read::attrs::Attrs;
pub use read::batch::Batch;
pub use read::items::FromItems;
pub use read::pieces::{Piece, Pieces};
pub use read::selected::{SliceJob, SliceRead};
pub use read::slice::Slice;
pub use repair::salvage::{salvage, salvage_as, salvage_filled};
#[doc(no_inline)]
pub use rmpv::Value;
pub use select::selection::{IntoSelections, Mark, Selection, range};
pub use write::builder::ArrayBuilder;
pub use write::computed as source;
pub use write::concat::Concat;
pub use write::edit::{ArrayEditor, AttrsMut, Axis, SharedEditor};
pub use write::source::{Amount, ChunkContent, Region, RegionSource, SharedRegions, StridedItems};

// For our other crates.
#[doc(hidden)]
pub use {
    model::literal,
    model::object::Object,
    read::futures::{MaybeSendFuture, SelectionDriver},
    read::ranges::{FetchedRanges, NoLocalFiles, RangedOpening, RangedRead},
    read::selected::SelectionRead,
    select::piece_ranges::{CutDim, PieceRanges},
};

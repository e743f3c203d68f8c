#![doc = include_str!("../README.md")]
// All of the crate but `disjoint`, and the one call in `read`.
#![deny(unsafe_code)]

mod array;
mod block;
mod concat;
#[cfg(feature = "ndarray")]
mod convert;
mod copy;
mod create;
mod cut;
mod defaults;
mod disjoint;
mod dtype;
mod edit;
mod element;
mod error;
mod geometry;
pub mod literal;
mod meta;
mod moves;
mod points;
mod produce;
mod read;
mod salvage;
mod select;
mod slice;
mod source;
mod uniform;
mod view;
mod write;

pub use array::{ArrayOptions, NdArray};
pub use concat::Concat;
#[cfg(feature = "ndarray")]
pub use convert::FromNdarray;
pub use create::{Arange, ByIndex, ByPosition, Fill, FromFn, Items, Linspace, Number};
pub use defaults::{default_blockshape, default_chunkshape};
pub use dtype::{Dtype, DtypeKind, Field};
pub use edit::{ArrayEditor, SharedEditor};
pub use element::Element;
pub use error::NdError;
pub use geometry::Geometry;
pub use meta::{ArrayMeta, MAX_DIM, METALAYER, OLD_METALAYER};
pub use points::Points;
pub use salvage::salvage;
pub use select::Select;
pub use slice::SliceDim;
pub use source::{ChunkContent, Region, RegionSource};
pub use view::Slice;
pub use write::ArrayBuilder;

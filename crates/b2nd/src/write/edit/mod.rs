//! Changes arrays in place.
//!
//! - `editor` opens and commits editors and returns the staged array.
//! - `set` changes items.
//! - `shape` grows and shrinks arrays without exposing old values.
//! - `append` adds items at the end of an axis, and keeps rows in memory until they fill chunks.
//! - `splice` inserts and removes along an axis.
//! - `chunks` puts chunks into the frame, from the old array with other items at some positions.
//! - `shared` changes items from many threads.
//! - `attrs` changes attributes.

mod append;
mod attrs;
mod chunks;
mod editor;
mod set;
mod shape;
mod shared;
mod splice;

pub use self::attrs::AttrsMut;
pub use self::editor::{ArrayEditor, Axis};
pub use self::shared::SharedEditor;

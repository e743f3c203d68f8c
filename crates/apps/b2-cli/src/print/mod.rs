//! Formatting of values as text and as pictures: items as NumPy prints them, metadata as JSON, sizes, tables, statistics.
//! Code belongs here if it converts values to text or pixels, or text back to values.
//! It uses no other layer, opens no file and prints nothing itself.

pub(crate) mod figure;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod picture;
pub(crate) mod stats;
pub(crate) mod table;

pub(crate) mod png;
#[cfg(feature = "terminal")]
pub(crate) mod sixel;

pub(crate) use b2_view::colours::{ColourRange as Range, Map, Scale};
pub(crate) use b2_view::items;
pub(crate) use b2_view::text::{count, thousands};

pub(crate) use b2_view::items::{ItemReader as Simple, Value, shown};
pub(crate) use lines::Lines;
pub(crate) use picture::{colours, columns, half_blocks};
pub(crate) use png::{Png, Stream};
pub(crate) use stats::Stats;
pub(crate) use table::{
    Table, dims, from_to, joined, printable, printable_json, printable_name, ratio, short_size, size,
};

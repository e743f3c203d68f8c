//! Figures: an image with axes and a colour bar, and a line.

mod canvas;
mod font;
mod plot;
mod ticks;

pub(crate) use canvas::Canvas;
pub(crate) use plot::{Column, Edge, Image, LARGEST, Line};
pub(crate) use ticks::{label, round};

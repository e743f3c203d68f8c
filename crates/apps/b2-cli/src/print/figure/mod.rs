//! Figures: an image with axes and a colour bar, and a line.

mod canvas;
mod font;
mod plot;

pub(crate) use canvas::Canvas;
#[cfg(feature = "web")]
pub(crate) use canvas::escaped;
pub(crate) use plot::{Column, Image, Line, MAX_SIZE};

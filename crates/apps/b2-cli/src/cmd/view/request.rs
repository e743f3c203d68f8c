//! Requests of the screen to the reader, and the responses.

use std::ops::Range;

use b2kit::Selection;

use crate::args::{Global, Source};
use crate::read::Axis;
use crate::read::sample::{LineSample, PlaneSample};

/// The file and options of the command line.
#[derive(Clone, Debug)]
pub(super) struct ViewSource {
    pub(super) source: Source,
    pub(super) parts: Vec<Selection>,
    pub(super) dtype: Option<String>,
    pub(super) global: Global,
}

/// A request. The newest one cancels all others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ViewRequest {
    /// The member of a store.
    pub(super) key: Option<String>,
    /// Number of requests to read the file again.
    pub(super) refresh: u64,
    pub(super) what: ViewData,
    /// The item at the crosshair: one position in each dimension.
    pub(super) item: Option<Vec<Axis>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ViewData {
    /// Facts about the file.
    Facts,
    Plane {
        field: Option<String>,
        axes: Vec<Axis>,
        dims: [usize; 2],
        windows: [Range<u64>; 2],
        /// Maximum number of pixels: rows and columns.
        most: [usize; 2],
    },
    Line {
        field: Option<String>,
        axes: Vec<Axis>,
        dim: usize,
        window: Range<u64>,
        most: usize,
    },
    /// The values of a box as text, with one position in all but the last dimensions.
    PixelGrid {
        axes: Vec<Axis>,
    },
    /// About this many chunks.
    Chunks {
        most: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) enum ViewResponse {
    /// The members of a store.
    Members(Vec<String>),
    /// Facts about the file, or about this member.
    Opened(Option<String>, Box<FileFacts>),
    Plane {
        dims: [usize; 2],
        windows: [Range<u64>; 2],
        axes: Vec<Axis>,
        plane: PlaneSample,
    },
    Line {
        window: Range<u64>,
        line: LineSample,
    },
    PixelGrid {
        axes: Vec<Axis>,
        texts: Vec<String>,
    },
    Chunks(Chunks),
    Item(Item),
    /// The newest request is complete.
    Done,
    Failed(String),
}

/// An item, as text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) axes: Vec<Axis>,
    /// Its value, or the reason why it cannot be read.
    pub(super) value: String,
    /// Its coordinates, where there are any.
    pub(super) points: Vec<Option<String>>,
}

/// Facts about an open file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileFacts {
    pub(super) names: Vec<String>,
    /// The selected items.
    pub(super) axes: Vec<Axis>,
    /// The fields that can be drawn; `None` is the whole item. Empty: only text.
    pub(super) fields: Vec<Option<String>>,
    pub(super) is_float: bool,
    pub(super) unit: String,
    /// Lines about the file, and its metalayers.
    pub(super) about: Vec<String>,
}

/// Some or all chunks of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// Number of chunks, and of chunks per cell.
    pub(super) count: u64,
    pub(super) each: u64,
    pub(super) cells: Vec<Cell>,
    /// Number of stored chunks that were not decoded, whose damage would be unknown.
    pub(super) undecoded: u64,
    /// Unreferenced bytes of the file, if known.
    pub(super) dead: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell {
    Stored { ratio: f64 },
    Zero,
    Nan,
    Value,
    Uninit,
    Damaged,
}

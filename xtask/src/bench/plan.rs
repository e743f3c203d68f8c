//! What to measure.

/// Groups of rows.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Rows {
    /// 12 data sets x 5 codecs x shuffle and bitshuffle, one and two threads
    Cells,
    /// Chunks of 64 to 512 KiB, one and two threads
    Threads,
    /// Chunks of 1, 4 and 16 KiB and of 5,250 items, in the caches
    Small,
    /// Items of odd sizes, constants
    Special,
    /// Real arrays
    Real,
    /// Arrays: slices, writing, opening, many readers, memory
    Arrays,
    /// Each side decodes what the other compressed
    Cross,
}

/// What to measure, and for how long.
pub(crate) struct Plan {
    pub(super) quick: bool,
    /// Whether to measure everything, as for the results in the repository.
    pub(super) whole: bool,
    pub(super) rows: Vec<Rows>,
    pub(super) codecs: Vec<String>,
    pub(super) rounds: usize,
    /// Seconds per operation and round.
    pub(super) budget: f64,
}

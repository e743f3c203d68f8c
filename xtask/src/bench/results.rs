//! What was measured, and how rows of it are found.

use super::arrays::Scratch;
use super::chunks::{Case, Cell};
use super::plan::Rows;

/// The measurements.
pub(super) struct Results {
    /// Of chunks, then of arrays.
    pub(super) cells: Vec<Cell>,
    pub(super) scratch: Vec<Scratch>,
    /// GB/s of memcpy with one thread, for each part of the run.
    pub(super) memcpy: Vec<f64>,
    /// Number of cases in which each side decoded the output of the other.
    pub(super) crossed: usize,
}

impl Results {
    /// Returns the cells of some rows.
    pub(super) fn of(&self, rows: &[Rows]) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| rows.contains(&cell.case.rows))
    }

    /// Returns the cells of some rows of an operation with this number of threads.
    pub(super) fn select(&self, rows: &[Rows], op: &str, threads: usize) -> impl Iterator<Item = &Cell> {
        self.of(rows).filter(move |cell| cell.op == op && cell.pair.threads == threads)
    }

    /// Returns the cells with one thread that were also measured with two, and those.
    pub(super) fn with_second_thread(&self) -> impl Iterator<Item = (&Cell, &Cell)> {
        let same = |one: &Cell, two: &&Cell| {
            two.pair.threads == 2
                && (&two.op, two.case.rows) == (&one.op, one.case.rows)
                && name(two) == name(one)
        };
        let one = self.cells.iter().filter(|cell| cell.pair.threads == 1);
        one.filter_map(move |one| Some((one, self.cells.iter().find(|two| same(one, two))?)))
    }
}

/// Returns the name of a row.
pub(super) fn name(cell: &Cell) -> String {
    let Case { rows, set, codec, filter, chunk, storage } = &cell.case;
    match rows {
        Rows::Arrays => format!("{} {codec} {storage}", cell.op),
        Rows::Threads => format!("{} {codec} {filter} {} KiB", set.name, chunk / 1024),
        Rows::Small => format!("{} {codec} {filter} {chunk} bytes", set.name),
        _ => format!("{} {codec} {filter}", set.name),
    }
}

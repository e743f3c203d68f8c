//! The goals: required speed ratios of this project to C, and whether they were reached.

use b2_measure::{geomean, median};

use super::arrays::Row;
use super::chunks::Cell;
use super::{Results, Rows};

/// One goal, with the cells that it covers.
pub(super) struct Goal {
    pub(super) work: String,
    /// The required geometric mean.
    pub(super) wanted: Option<f64>,
    pub(super) figure: f64,
    pub(super) cells: usize,
    /// Cells below their own minimum.
    pub(super) under: Vec<Mark>,
    pub(super) worst: Option<Mark>,
}

/// A named cell.
#[derive(Clone)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) ratio: f64,
    pub(super) floor: f64,
}

impl Goal {
    pub(super) fn reached(&self) -> bool {
        self.wanted.is_none_or(|wanted| self.figure >= wanted) && self.under.is_empty()
    }
}

/// Creates a goal for the geometric mean of `marks`. Each mark has its own minimum; 0 means none.
fn goal(work: impl Into<String>, wanted: Option<f64>, marks: Vec<Mark>) -> Option<Goal> {
    let figure = geomean(marks.iter().map(|mark| mark.ratio))?;
    let worst = marks.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio)).cloned();
    let mut under: Vec<Mark> = marks.iter().filter(|mark| mark.ratio < mark.floor).cloned().collect();
    under.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    Some(Goal { work: work.into(), wanted, figure, cells: marks.len(), under, worst })
}

pub(super) fn name(cell: &Cell) -> String {
    let case = &cell.case;
    let chunk =
        if case.rows == Rows::Threads { format!(" {} KiB", case.chunk / 1024) } else { String::new() };
    format!("{} {} {}{chunk}", case.set.name, case.codec, case.filter)
}

fn is_fast(cell: &Cell) -> bool {
    matches!(cell.case.codec, "blosclz" | "lz4" | "lz4hc")
}

/// Returns the goals for which there are results.
pub(super) fn all(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    decompression(results, &mut goals);
    compression(results, &mut goals);
    items(results, &mut goals);
    arrays(results, &mut goals);
    threads(results, &mut goals);
    goals
}

/// Returns the cells of the twelve data sets.
fn main_cells<'a>(results: &'a Results, op: &'a str, threads: usize) -> impl Iterator<Item = &'a Cell> {
    let rows = |cell: &&Cell| cell.case.rows == Rows::Cells && cell.case.set.name != "constant_f32";
    results.cells.iter().filter(rows).filter(move |cell| cell.op == op && cell.pair.threads == threads)
}

fn decompression(results: &Results, goals: &mut Vec<Goal>) {
    // Above this speed, memory limits C as much as this project.
    let bound = 0.6 * median(results.memcpy.iter().copied());
    let is_bound = |cell: &Cell| cell.pair.speeds().1 >= bound;
    let marks = |keep: &dyn Fn(&Cell) -> bool, floor: &dyn Fn(&Cell) -> f64| -> Vec<Mark> {
        let cells = main_cells(results, "decompress", 1).filter(|cell| keep(cell));
        cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: floor(cell) }).collect()
    };
    let none = |_: &Cell| 0.0;
    let fast_floor = |cell: &Cell| if is_bound(cell) { 0.95 } else { 1.0 };
    goals.extend(goal(
        "decompress, blosclz lz4 lz4hc, C below 0.6 of memcpy",
        Some(1.5),
        marks(&|cell| is_fast(cell) && !is_bound(cell), &fast_floor),
    ));
    goals.extend(goal(
        "decompress, blosclz lz4 lz4hc, C above 0.6 of memcpy",
        None,
        marks(&|cell| is_fast(cell) && is_bound(cell), &fast_floor),
    ));
    goals.extend(goal(
        "decompress, lz4 bitshuffle, C below 0.6 of memcpy",
        Some(1.8),
        marks(&|cell| (cell.case.codec, cell.case.filter) == ("lz4", "bitshuffle") && !is_bound(cell), &none),
    ));
    goals.extend(goal("decompress, zlib zstd", Some(1.1), marks(&|cell| !is_fast(cell), &|_| 0.97)));
    goals.extend(goal(
        "decompress, zlib zstd, bitshuffle",
        Some(1.2),
        marks(&|cell| !is_fast(cell) && cell.case.filter == "bitshuffle", &none),
    ));
}

fn compression(results: &Results, goals: &mut Vec<Goal>) {
    let marks = |codecs: &[&str]| -> Vec<Mark> {
        let cells = main_cells(results, "compress", 1).filter(|cell| codecs.contains(&cell.case.codec));
        cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: 0.95 }).collect()
    };
    goals.extend(goal("compress, blosclz lz4", Some(1.3), marks(&["blosclz", "lz4"])));
    goals.extend(goal("compress, lz4hc zlib zstd", Some(1.1), marks(&["lz4hc", "zlib", "zstd"])));
    // The ratio of sizes is inverted, so that a larger number is better here too.
    let sizes = main_cells(results, "compress", 1).map(|cell| Mark {
        name: name(cell),
        ratio: 1.0 / cell.size(),
        floor: 1.0 / 1.05,
    });
    goals.extend(goal("size, C's over ours", Some(1.0 / 1.01), sizes.collect()));
}

fn items(results: &Results, goals: &mut Vec<Goal>) {
    let is_constant = |cell: &Cell| matches!(cell.case.set.name.as_str(), "zeros_f64" | "constant_f32");
    for op in ["compress", "decompress"] {
        let marks = |keep: &dyn Fn(&Cell) -> bool| -> Vec<Mark> {
            let cells = results.cells.iter().filter(|cell| {
                cell.op == op
                    && cell.pair.threads == 1
                    && matches!(cell.case.rows, Rows::Cells | Rows::Special)
                    && keep(cell)
            });
            cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: 1.0 }).collect()
        };
        let lz = |cell: &Cell| matches!(cell.case.codec, "blosclz" | "lz4");
        let shuffled = |cell: &Cell| cell.case.filter == "shuffle";
        goals.extend(goal(
            format!("{op}, uint8, shuffle, blosclz lz4"),
            Some(3.0),
            marks(&|cell| cell.case.set.typesize == 1 && lz(cell) && shuffled(cell)),
        ));
        goals.extend(goal(
            format!("{op}, items of 3, 5-7, 9-15, 24 bytes, blosclz lz4"),
            Some(3.0),
            marks(&|cell| cell.case.set.name.starts_with("items_") && lz(cell)),
        ));
        goals.extend(goal(format!("{op}, zeros and constants"), Some(3.0), marks(&is_constant)));
    }
    for (codecs, wanted) in [(&["blosclz", "lz4"][..], 3.0), (&["zstd"][..], 1.5)] {
        let cells = main_cells(results, "getitem", 1)
            .filter(|cell| codecs.contains(&cell.case.codec) && cell.has_streams() && !cell.c_is_wrong);
        let marks = cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: 1.0 });
        goals.extend(goal(
            format!("one random item, {}, chunks with streams", codecs.join(" ")),
            Some(wanted),
            marks.collect(),
        ));
    }
    let stored = main_cells(results, "getitem", 1).filter(|cell| !cell.has_streams());
    let stored = stored.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: 0.0 });
    goals.extend(goal("one random item, chunks stored or special in C", None, stored.collect()));
}

pub(super) fn row_name(row: &Row) -> String {
    format!("{} {} {}", row.op, row.codec, row.storage)
}

fn arrays(results: &Results, goals: &mut Vec<Goal>) {
    for (threads, wanted) in [(1, 2.0), (2, 2.5)] {
        let floored = |floor: f64, keep: &dyn Fn(&str) -> bool| -> Vec<Mark> {
            let rows = results.rows.iter().filter(|row| row.pair.threads == threads && keep(&row.op));
            rows.map(|row| Mark { name: row_name(row), ratio: row.pair.ratio(), floor }).collect()
        };
        let marks = |keep: &dyn Fn(&str) -> bool| floored(wanted, keep);
        let text = if threads == 1 { "1 thread" } else { "2 threads" };
        let named = |op: &str| !matches!(op, "open" | "readers" | "element" | "set" | "append");
        goals.extend(goal(format!("b2nd, {text}"), Some(wanted), marks(&named)));
        for (op, what) in [("append", "append"), ("set", "set a part of a chunk")] {
            goals.extend(goal(format!("{what}, {text}"), Some(1.5), floored(0.95, &|row| row == op)));
        }
        if threads == 1 {
            goals.extend(goal("open a file and read one item", Some(3.0), marks(&|op| op == "open")));
        }
    }
}

/// Compares the gain from a second thread with that of C, and on its own.
fn threads(results: &Results, goals: &mut Vec<Goal>) {
    let (mut over_c, mut alone, mut lost) = (vec![], vec![], vec![]);
    for one in results.cells.iter().filter(|cell| cell.pair.threads == 1) {
        let same = |two: &&Cell| {
            two.pair.threads == 2
                && two.op == one.op
                && two.case.rows == one.case.rows
                && name(two) == name(one)
        };
        let Some(two) = results.cells.iter().find(same) else { continue };
        let (ours, c) = one.pair.gains(&two.pair);
        let name = format!("{} {}", one.op, name(one));
        // Allow some percent for noise in wall time.
        over_c.push(Mark { name: name.clone(), ratio: ours / c, floor: 0.95 });
        alone.push(Mark { name: name.clone(), ratio: ours, floor: 0.97 });
        lost.push(Mark { name, ratio: c, floor: 0.97 });
    }
    goals.extend(goal("gain by a second thread, ours over C's", Some(1.0), over_c));
    goals.extend(goal("gain by a second thread, ours", None, alone));
    goals.extend(goal("gain by a second thread, C's (for scale)", None, lost));
    let readers = |threads: usize, codec: &str| {
        results
            .rows
            .iter()
            .find(|row| row.op == "readers" && row.pair.threads == threads && row.codec == codec)
    };
    for codec in ["lz4", "zstd"] {
        if let (Some(one), Some(two)) = (readers(1, codec), readers(2, codec)) {
            let (ours, c) = one.pair.gains(&two.pair);
            // Two readers read twice as much data.
            let marks = vec![Mark { name: format!("C's {:.2}", 2.0 * c), ratio: 2.0 * ours, floor: 0.0 }];
            goals.extend(goal(
                format!("a second reader of one array, {codec}, throughput"),
                Some(1.8),
                marks,
            ));
        }
    }
}

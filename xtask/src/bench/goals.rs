//! The goals: required speed ratios of this project to C, and whether they were reached.

use b2_measure::{geomean, median};

use super::chunks::Cell;
use super::plan::Rows;
use super::results::{Results, name};

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

/// Decides which cells belong to a row of goals.
type Keep<'a> = &'a dyn Fn(&Cell) -> bool;

/// Takes the speed of each cell, with one minimum for all of them.
fn speeds<'a>(cells: impl Iterator<Item = &'a Cell>, floor: f64) -> Vec<Mark> {
    cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor }).collect()
}

fn is_fast(cell: &Cell) -> bool {
    matches!(cell.case.codec, "blosclz" | "lz4" | "lz4hc")
}

/// Returns the goals for which there are results.
pub(super) fn all(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    chunks(results, &mut goals);
    real(results, &mut goals);
    items(results, &mut goals);
    arrays(results, &mut goals);
    threads(results, &mut goals);
    goals.into_iter().flatten().collect()
}

/// Returns the cells of the twelve data sets.
fn main_cells<'a>(results: &'a Results, op: &'a str) -> impl Iterator<Item = &'a Cell> {
    results.select(&[Rows::Cells], op, 1).filter(|cell| cell.case.set.name != "constant_f32")
}

fn chunks(results: &Results, goals: &mut Vec<Option<Goal>>) {
    // Above this speed, memory limits C as much as this project.
    let bound = 0.6 * median(results.memcpy.iter().copied());
    let is_bound = |cell: &Cell| cell.pair.speeds().1 >= bound;
    let is_bits = |cell: &Cell| cell.case.filter == "bitshuffle";
    let fast_floor = |cell: &Cell| if is_bound(cell) { 0.95 } else { 1.0 };
    let of = |cell: &Cell, codecs: &[&str]| codecs.contains(&cell.case.codec);
    // The work, the required mean, which cells, and the minimum of each.
    type Row<'a> = (&'a str, Option<f64>, &'a dyn Fn(&Cell) -> bool, &'a dyn Fn(&Cell) -> f64);
    let rows: [Row<'_>; 7] = [
        (
            "decompress, blosclz lz4 lz4hc, C below 0.6 of memcpy",
            Some(1.5),
            &|cell| is_fast(cell) && !is_bound(cell),
            &fast_floor,
        ),
        (
            "decompress, blosclz lz4 lz4hc, C above 0.6 of memcpy",
            None,
            &|cell| is_fast(cell) && is_bound(cell),
            &fast_floor,
        ),
        (
            "decompress, lz4 bitshuffle, C below 0.6 of memcpy",
            Some(1.8),
            &|cell| of(cell, &["lz4"]) && is_bits(cell) && !is_bound(cell),
            &|_| 0.0,
        ),
        ("decompress, zlib zstd", Some(1.1), &|cell| !is_fast(cell), &|_| 0.97),
        ("decompress, zlib zstd, bitshuffle", Some(1.2), &|cell| !is_fast(cell) && is_bits(cell), &|_| 0.0),
        ("compress, blosclz lz4", Some(1.3), &|cell| of(cell, &["blosclz", "lz4"]), &|_| 0.95),
        ("compress, lz4hc zlib zstd", Some(1.1), &|cell| of(cell, &["lz4hc", "zlib", "zstd"]), &|_| 0.95),
    ];
    for (work, wanted, keep, floor) in rows {
        let op = work.split(',').next().unwrap_or_default();
        let cells = main_cells(results, op).filter(|cell| keep(cell));
        let marks = cells.map(|cell| Mark { name: name(cell), ratio: cell.pair.ratio(), floor: floor(cell) });
        goals.push(goal(work, wanted, marks.collect()));
    }
    // The ratio of sizes is inverted, so that a larger number is better here too.
    let sizes = main_cells(results, "compress").map(|cell| Mark {
        name: name(cell),
        ratio: 1.0 / cell.pair.size(),
        floor: 1.0 / 1.05,
    });
    goals.push(goal("size, C's over ours", Some(1.0 / 1.01), sizes.collect()));
}

/// The goals on real arrays, for a CPU with AVX2 but without AVX-512, which is what most people have. They cover what both
/// sides do alike: not the chunks that C stores where this project compresses.
fn real(results: &Results, goals: &mut Vec<Option<Goal>>) {
    let alike = |cell: &&Cell| cell.has_streams() && (0.95..1.05).contains(&cell.pair.size());
    let cells = |op: &str, codec: Option<&str>| -> Vec<&Cell> {
        let cells = results.select(&[Rows::Real], op, 1).filter(alike);
        cells.filter(|cell| codec.is_none_or(|codec| cell.case.codec == codec)).collect()
    };
    let rows = [
        ("decompress", None, 1.3),
        ("decompress", Some("lz4"), 1.4),
        ("decompress", Some("lz4hc"), 1.2),
        ("decompress", Some("zlib"), 1.0),
        ("decompress", Some("zstd"), 1.02),
        ("compress", None, 1.45),
        ("getitem", None, 2.2),
    ];
    for (op, codec, wanted) in rows {
        let work = format!("real arrays: {op}, {}", codec.unwrap_or("all codecs"));
        goals.push(goal(work, Some(wanted), speeds(cells(op, codec).into_iter(), 0.97)));
    }
}

fn items(results: &Results, goals: &mut Vec<Option<Goal>>) {
    let lz = |cell: &Cell| matches!(cell.case.codec, "blosclz" | "lz4");
    for op in ["compress", "decompress"] {
        let rows: [(&str, Keep<'_>); 3] = [
            ("uint8, shuffle, blosclz lz4", &|cell| {
                cell.case.set.typesize == 1 && lz(cell) && cell.case.filter == "shuffle"
            }),
            ("items of 3, 5-7, 9-15, 24 bytes, blosclz lz4", &|cell| {
                cell.case.set.name.starts_with("items_") && lz(cell)
            }),
            ("zeros and constants", &|cell| {
                matches!(cell.case.set.name.as_str(), "zeros_f64" | "constant_f32")
            }),
        ];
        for (work, keep) in rows {
            let cells = results.select(&[Rows::Cells, Rows::Special], op, 1).filter(|cell| keep(cell));
            goals.push(goal(format!("{op}, {work}"), Some(3.0), speeds(cells, 1.0)));
        }
    }
    for (codecs, wanted) in [(&["blosclz", "lz4"][..], 3.0), (&["zstd"][..], 1.5)] {
        let cells = main_cells(results, "getitem")
            .filter(|cell| codecs.contains(&cell.case.codec) && cell.has_streams() && !cell.c_is_wrong);
        let work = format!("one random item, {}, chunks with streams", codecs.join(" "));
        goals.push(goal(work, Some(wanted), speeds(cells, 1.0)));
    }
    let stored = main_cells(results, "getitem").filter(|cell| !cell.has_streams());
    goals.push(goal("one random item, chunks stored or special in C", None, speeds(stored, 0.0)));
}

fn arrays(results: &Results, goals: &mut Vec<Option<Goal>>) {
    for (threads, wanted, text) in [(1, 2.0, "1 thread"), (2, 2.5, "2 threads")] {
        let marks = |keep: &dyn Fn(&str) -> bool, floor| {
            let cells = results.of(&[Rows::Arrays]);
            speeds(cells.filter(|cell| cell.pair.threads == threads && keep(&cell.op)), floor)
        };
        let named = |op: &str| !matches!(op, "open" | "readers" | "element" | "set" | "append");
        goals.push(goal(format!("b2nd, {text}"), Some(wanted), marks(&named, wanted)));
        for (op, what) in [("append", "append"), ("set", "set a part of a chunk")] {
            goals.push(goal(format!("{what}, {text}"), Some(1.5), marks(&|row| row == op, 0.95)));
        }
        if threads == 1 {
            let open = marks(&|op| op == "open", wanted);
            goals.push(goal("open a file and read one item", Some(3.0), open));
        }
    }
}

/// Compares the gain from a second thread with that of C, and on its own.
fn threads(results: &Results, goals: &mut Vec<Option<Goal>>) {
    let (mut over_c, mut alone, mut lost) = (vec![], vec![], vec![]);
    for (one, two) in results.with_second_thread().filter(|(one, _)| one.case.rows != Rows::Arrays) {
        let (ours, c) = one.pair.gains(&two.pair);
        let name = format!("{} {}", one.op, name(one));
        // Allow some percent for noise in wall time.
        over_c.push(Mark { name: name.clone(), ratio: ours / c, floor: 0.95 });
        alone.push(Mark { name: name.clone(), ratio: ours, floor: 0.97 });
        lost.push(Mark { name, ratio: c, floor: 0.97 });
    }
    goals.push(goal("gain by a second thread, ours over C's", Some(1.0), over_c));
    goals.push(goal("gain by a second thread, ours", None, alone));
    goals.push(goal("gain by a second thread, C's (for scale)", None, lost));
    for (one, two) in results.with_second_thread().filter(|(one, _)| one.op == "readers") {
        let (ours, c) = one.pair.gains(&two.pair);
        // Two readers read twice as much data.
        let marks = vec![Mark { name: format!("C's {:.2}", 2.0 * c), ratio: 2.0 * ours, floor: 0.0 }];
        let work = format!("a second reader of one array, {}, throughput", one.case.codec);
        goals.push(goal(work, Some(1.8), marks));
    }
}

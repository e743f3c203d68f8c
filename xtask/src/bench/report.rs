//! The report: the goals, then every cell.

use std::collections::BTreeMap;
use std::fmt::Write;

use b2_measure::{Spent, geomean, median, spread, table};

use super::arrays::{BLOCK_KIB, BLOCKS, CHUNKS, SHAPE, Scratch};
use super::chunks::{CODECS, Case, Cell, FILTERS};
use super::figures::Pair;
use super::goals::{self, Goal, Mark};
use super::machine::Machine;
use super::plan::{Plan, Rows};
use super::results::{Results, name};

/// Returns the whole report as Markdown.
pub(super) fn markdown(plan: &Plan, results: &Results, machine: &Machine) -> String {
    let mut out = format!("# b2kit beside C-Blosc2, {}\n\n", machine.date);
    for line in &machine.lines {
        let _ = writeln!(out, "{line}  ");
    }
    let memcpy = median(results.memcpy.iter().copied());
    let (low, high) = spread(results.memcpy.iter().copied());
    let _ = writeln!(
        out,
        "memcpy, one thread: {memcpy:.1} GB/s (from {low:.1} to {high:.1} during the run).  \n\
         {} rounds of all programs in turn; level 5, chunks of 4 MiB where nothing else is said.\n\n\
         Ratios are speed, ours over C's: above 1 we are faster. A ratio is the median over the rounds of the ratio\n\
         of both sides' best repeat; CPU time with one thread, wall time with two. Every round trip was verified{}.\n\
         Repeat it with `cargo xtask bench{}`.\n",
        plan.rounds,
        match results.crossed {
            0 => String::new(),
            n => format!("; in {n} cases each side\nalso decoded what the other had compressed"),
        },
        if plan.quick { " --quick" } else { "" },
    );
    let goals = goals::all(results);
    goal_table(&mut out, &goals);
    under_the_goal(&mut out, &goals);
    for (op, title) in
        [("decompress", "Decompression"), ("compress", "Compression"), ("getitem", "One random item")]
    {
        for threads in [1, 2] {
            let cells: Vec<&Cell> = results.select(&[Rows::Cells, Rows::Real], op, threads).collect();
            cell_table(&mut out, &format!("{title}, {}", count_threads(threads)), &cells);
        }
    }
    sizes(&mut out, results);
    special(&mut out, results);
    small(&mut out, results);
    second_thread(&mut out, results);
    arrays(&mut out, results);
    out
}

fn count_threads(n: usize) -> String {
    if n == 1 { "1 thread (CPU time)".into() } else { format!("{n} threads (wall time)") }
}

fn mark(mark: &Mark) -> String {
    format!("{:.2} {}", mark.ratio, mark.name)
}

fn goal_table(out: &mut String, goals: &[Goal]) {
    let rows = goals.iter().map(|goal| {
        let bold = if goal.reached() { "" } else { "**" };
        format!(
            "{} | {} | {bold}{:.2}{bold} | {} | {} | {}",
            goal.work,
            goal.wanted.map_or("-".into(), |wanted| format!("{wanted:.2}")),
            goal.figure,
            goal.cells,
            goal.under.len(),
            goal.worst.as_ref().map(mark).unwrap_or_default(),
        )
    });
    out.push_str("## Goals\n\n");
    out.push_str(&table("work | goal | reached | cells | under the floor of a cell | worst cell", rows));
    out.push_str("\nFigures are geometric means. In bold: not reached, by the mean or by a cell.\n\n");
}

/// Writes every cell that is below its minimum.
fn under_the_goal(out: &mut String, goals: &[Goal]) {
    if goals.iter().all(|goal| goal.under.is_empty()) {
        return;
    }
    out.push_str("### Cells under their floor\n\n");
    for goal in goals.iter().filter(|goal| !goal.under.is_empty()) {
        let list: Vec<String> = goal.under.iter().map(mark).collect();
        let (low, high) = spread(goal.under.iter().map(|mark| mark.floor));
        let floor = if low == high { format!("{low:.2}") } else { format!("{low:.2} or {high:.2}") };
        let _ = writeln!(out, "- {} (floor {floor}): {}", goal.work, list.join("; "));
    }
    out.push('\n');
}

/// Writes a table with sets as rows, codecs and filters as columns; ratio and our speed.
fn cell_table(out: &mut String, title: &str, cells: &[&Cell]) {
    if cells.is_empty() {
        return;
    }
    let at = |cell: &Cell| (cell.case.codec, cell.case.filter);
    let columns = CODECS.into_iter().flat_map(|codec| FILTERS.map(|filter| (codec, filter)));
    let columns = columns.filter(|column| cells.iter().any(|cell| at(cell) == *column));
    let columns: Vec<(&str, &str)> = columns.collect();
    let item = cells.iter().all(|cell| cell.op.starts_with("getitem"));
    let unit = if item { "microseconds of ours" } else { "GB/s of ours" };
    let _ = writeln!(out, "## {title}\n\nRatio, and {unit} in brackets.\n");
    let text = |cell: &&Cell| match cell {
        cell if cell.c_is_wrong => "C is wrong".into(),
        cell if item => format!("{:.2} ({:.2})", cell.pair.ratio(), cell.pair.micros().0),
        cell => format!("{:.2} ({:.2})", cell.pair.ratio(), cell.pair.speeds().0),
    };
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.case.set.name.as_str()).collect();
    names.dedup();
    let row = |first: &str, text: &dyn Fn(&(&str, &str)) -> String| {
        let texts = columns.iter().map(text);
        [first.to_owned()].into_iter().chain(texts).collect::<Vec<_>>().join(" | ")
    };
    let mut rows: Vec<String> = Vec::new();
    for name in names {
        rows.push(row(name, &|column| {
            let cell = cells.iter().find(|cell| cell.case.set.name == name && at(cell) == *column);
            cell.map(text).unwrap_or_default()
        }));
    }
    rows.push(row("geometric mean", &|column| {
        let of_column = cells.iter().filter(|cell| at(cell) == *column && !cell.c_is_wrong);
        format!("{:.2}", geomean(of_column.map(|cell| cell.pair.ratio())).unwrap_or(f64::NAN))
    }));
    out.push_str(&table(&row("set", &|(codec, filter)| format!("{codec} {filter}")), rows));
    out.push('\n');
}

/// Writes our size relative to C's, and the compression ratio.
fn sizes(out: &mut String, results: &Results) {
    let cells: Vec<&Cell> = results.select(&[Rows::Cells, Rows::Real], "compress", 1).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("## Sizes\n\nOur bytes over C's: below 1 ours are smaller. In brackets: how many times smaller than the plain data.\n\n");
    let mut rows: BTreeMap<&str, String> = BTreeMap::new();
    let mut columns: Vec<String> = Vec::new();
    for cell in &cells {
        let column = format!("{} {}", cell.case.codec, cell.case.filter);
        if !columns.contains(&column) {
            columns.push(column);
        }
        let row = rows.entry(&cell.case.set.name).or_insert_with(|| cell.case.set.name.clone());
        let Pair { nbytes, our_cbytes, .. } = cell.pair;
        let _ = write!(row, " | {:.3} ({:.2})", cell.pair.size(), nbytes / our_cbytes);
    }
    out.push_str(&table(&format!("set | {}", columns.join(" | ")), rows.into_values()));
    out.push('\n');
}

fn special(out: &mut String, results: &Results) {
    let rows = results.of(&[Rows::Special]).map(|cell| {
        let Case { set, codec, filter, .. } = &cell.case;
        let ((ours, c), ratio, size) = (cell.pair.speeds(), cell.pair.ratio(), cell.pair.size());
        format!(
            "{} | {codec} | {filter} | {} | {ratio:.2} | {ours:.2} | {c:.2} | {size:.3}",
            set.name, cell.op
        )
    });
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        out.push_str("## Items of odd sizes, constants: 1 thread (CPU time)\n\n");
        out.push_str(&table("set | codec | filter | operation | ratio | ours GB/s | C GB/s | size", rows));
        out.push('\n');
    }
}

/// Writes chunks so small that the fixed cost of a call counts.
fn small(out: &mut String, results: &Results) {
    let rows = results.of(&[Rows::Small]).map(|cell| {
        let Pair { calls, ours, c, .. } = &cell.pair;
        let nanos = |times: &[Spent]| median(times.iter().map(|time| time.cpu)) / calls * 1e9;
        format!(
            "{} | {} | {:.2} | {:.0} | {:.0} | {:.3}",
            name(cell),
            cell.op,
            cell.pair.ratio(),
            nanos(ours),
            nanos(c),
            cell.pair.size()
        )
    });
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        out.push_str(
            "## Small chunks: 1 thread (CPU time)\n\nOurs with what each thread keeps, C's with a kept context.\n\n",
        );
        out.push_str(&table("chunks of | operation | ratio | ours ns | C ns | size", rows));
        out.push('\n');
    }
}

/// Writes the gain from two threads over one.
fn second_thread(out: &mut String, results: &Results) {
    let pairs = results.with_second_thread().filter(|(one, _)| one.case.rows == Rows::Threads);
    let rows = pairs.map(|(one, two)| {
        let (ours, c) = one.pair.gains(&two.pair);
        let speed = |times: &[Spent]| one.pair.bytes / median(times.iter().map(|time| time.wall)) / 1e9;
        format!(
            "{} | {} | {:.2}, {:.2} | {ours:.2} | {:.2}, {:.2} | {c:.2} | {:.2}",
            name(one),
            one.op,
            speed(&one.pair.ours),
            speed(&two.pair.ours),
            speed(&one.pair.c),
            speed(&two.pair.c),
            two.pair.ratio(),
        )
    });
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        out.push_str(
            "## Chunks below 1 MiB (wall time)\n\nGB/s with 1 and 2 threads, and what the second one gives.\n\n",
        );
        out.push_str(&table("chunks of | operation | ours | gain | C | gain | ratio at 2", rows));
        out.push('\n');
    }
}

fn arrays(out: &mut String, results: &Results) {
    if results.of(&[Rows::Arrays]).next().is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "## Arrays\n\nfloat32, shape {SHAPE} (160 MB), chunks {CHUNKS}, blocks {BLOCKS}, shuffle, level 5. Planes, boxes of\n\
         32 x 32 x 32 and elements lie at random places; results go into a buffer that is there. On disk: page cache\n\
         warm, nothing synced on either side. `append` adds 100 planes, on disk with opening and closing; `open` opens\n\
         the file, reads one item, closes. `readers`: so many threads read boxes, ours of one open array, C's of one\n\
         each, since C's are not for several threads.\n"
    );
    let rows = results.of(&[Rows::Arrays]).map(|Cell { case, op, pair, .. }| {
        let ((ours, c), unit) =
            if pair.calls > 1.0 { (pair.micros(), "us") } else { (pair.speeds(), "GB/s") };
        let (low, high) = pair.spread();
        format!(
            "{op} | {} | {} | {} | {:.2} | {low:.2}, {high:.2} | {ours:.2} | {c:.2} | {unit} | {:.3}",
            case.codec,
            case.storage,
            pair.threads,
            pair.ratio(),
            pair.size(),
        )
    });
    let head = "operation | codec | storage | threads | ratio | from, to | ours | C |  | size";
    out.push_str(&table(head, rows));
    out.push_str(
        "\n### Memory\n\nPeak beside the array, the destination and the file, lz4 on disk, in KiB; ",
    );
    let _ = writeln!(out, "a block has {BLOCK_KIB:.0}.\n");
    let rows = results
        .scratch
        .iter()
        .map(|Scratch { op, threads, ours, c }| format!("{op} | {threads} | {ours:.0} | {c:.0}"));
    out.push_str(&table("operation | threads | ours | C", rows));
    out.push('\n');
}

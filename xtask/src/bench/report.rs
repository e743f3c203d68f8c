//! The report: the goals, then every cell.

use std::collections::BTreeMap;
use std::fmt::Write;

use b2_measure::{geomean, median};

use super::arrays::{BLOCK_KIB, BLOCKS, CHUNKS, SHAPE};
use super::chunks::{CODECS, Cell, FILTERS};
use super::goals::{self, Goal, Mark};
use super::machine::Machine;
use super::{Plan, Results, Rows};

/// Returns the whole report as Markdown.
pub(super) fn markdown(plan: &Plan, results: &Results, machine: &Machine) -> String {
    let mut out = format!("# b2kit beside C-Blosc2, {}\n\n", machine.date);
    for line in &machine.lines {
        let _ = writeln!(out, "{line}  ");
    }
    let memcpy = median(results.memcpy.iter().copied());
    let (low, high) =
        results.memcpy.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &x| (low.min(x), high.max(x)));
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
            let keep = |cell: &&Cell| {
                matches!(cell.case.rows, Rows::Cells | Rows::Real)
                    && cell.op == op
                    && cell.pair.threads == threads
            };
            let cells: Vec<&Cell> = results.cells.iter().filter(keep).collect();
            cell_table(&mut out, &format!("{title}, {}", count_threads(threads)), &cells);
        }
    }
    sizes(&mut out, results);
    special(&mut out, results);
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
    out.push_str("## Goals\n\n| work | goal | reached | cells | under the floor of a cell | worst cell |\n");
    out.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for goal in goals {
        let _ = writeln!(
            out,
            "| {} | {} | {}{:.2}{} | {} | {} | {} |",
            goal.work,
            goal.wanted.map_or("-".into(), |wanted| format!("{wanted:.2}")),
            if goal.reached() { "" } else { "**" },
            goal.figure,
            if goal.reached() { "" } else { "**" },
            goal.cells,
            goal.under.len(),
            goal.worst.as_ref().map(mark).unwrap_or_default(),
        );
    }
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
        let floors = goal.under.iter().map(|mark| mark.floor);
        let (low, high) = floors.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
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
    let mut columns: Vec<(&str, &str)> = Vec::new();
    for codec in CODECS {
        for filter in FILTERS {
            if cells.iter().any(|cell| (cell.case.codec, cell.case.filter) == (codec, filter)) {
                columns.push((codec, filter));
            }
        }
    }
    let item = cells.iter().all(|cell| cell.op.starts_with("getitem"));
    let unit = if item { "microseconds of ours" } else { "GB/s of ours" };
    let _ = writeln!(out, "## {title}\n\nRatio, and {unit} in brackets.\n");
    header(out, "set", columns.iter().map(|(codec, filter)| format!("{codec} {filter}")));
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.case.set.name.as_str()).collect();
    names.dedup();
    for name in names {
        let _ = write!(out, "| {name} |");
        for column in &columns {
            let cell = cells
                .iter()
                .find(|cell| cell.case.set.name == name && (cell.case.codec, cell.case.filter) == *column);
            let text = match cell {
                None => String::new(),
                Some(cell) if cell.c_is_wrong => "C is wrong".into(),
                Some(cell) if item => format!("{:.2} ({:.2})", cell.pair.ratio(), cell.pair.micros().0),
                Some(cell) => format!("{:.2} ({:.2})", cell.pair.ratio(), cell.pair.speeds().0),
            };
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    let _ = write!(out, "| geometric mean |");
    for column in &columns {
        let of_column =
            cells.iter().filter(|cell| (cell.case.codec, cell.case.filter) == *column && !cell.c_is_wrong);
        let _ = write!(out, " {:.2} |", geomean(of_column.map(|cell| cell.pair.ratio())).unwrap_or(f64::NAN));
    }
    out.push_str("\n\n");
}

fn header(out: &mut String, first: &str, columns: impl Iterator<Item = String>) {
    let columns: Vec<String> = columns.collect();
    let _ = writeln!(out, "| {first} | {} |", columns.join(" | "));
    let _ = writeln!(out, "|{}", " --- |".repeat(columns.len() + 1));
}

/// Writes our size relative to C's, and the compression ratio.
fn sizes(out: &mut String, results: &Results) {
    let keep = |cell: &&Cell| {
        matches!(cell.case.rows, Rows::Cells | Rows::Real) && cell.op == "compress" && cell.pair.threads == 1
    };
    let cells: Vec<&Cell> = results.cells.iter().filter(keep).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("## Sizes\n\nOur bytes over C's: below 1 ours are smaller. In brackets: how many times smaller than the plain data.\n\n");
    let mut table: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut columns: Vec<String> = Vec::new();
    for cell in &cells {
        let column = format!("{} {}", cell.case.codec, cell.case.filter);
        if !columns.contains(&column) {
            columns.push(column);
        }
        let text = format!("{:.3} ({:.2})", cell.size(), cell.nbytes / cell.our_cbytes);
        table.entry(&cell.case.set.name).or_default().push(text);
    }
    header(out, "set", columns.into_iter());
    for (name, texts) in table {
        let _ = writeln!(out, "| {name} | {} |", texts.join(" | "));
    }
    out.push('\n');
}

fn special(out: &mut String, results: &Results) {
    let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.case.rows == Rows::Special).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("## Items of odd sizes, constants: 1 thread (CPU time)\n\n");
    header(
        out,
        "set",
        ["codec", "filter", "operation", "ratio", "ours GB/s", "C GB/s", "size"]
            .map(str::to_owned)
            .into_iter(),
    );
    for cell in cells {
        let (ours, c) = cell.pair.speeds();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} | {ours:.2} | {c:.2} | {:.3} |",
            cell.case.set.name,
            cell.case.codec,
            cell.case.filter,
            cell.op,
            cell.pair.ratio(),
            cell.size(),
        );
    }
    out.push('\n');
}

/// Writes the gain from two threads over one.
fn second_thread(out: &mut String, results: &Results) {
    let pairs: Vec<(&Cell, &Cell)> = results
        .cells
        .iter()
        .filter(|one| one.pair.threads == 1 && one.case.rows == Rows::Threads)
        .filter_map(|one| {
            let same = |two: &&Cell| {
                two.pair.threads == 2 && two.op == one.op && goals::name(two) == goals::name(one)
            };
            Some((one, results.cells.iter().find(same)?))
        })
        .collect();
    if pairs.is_empty() {
        return;
    }
    out.push_str(
        "## Small chunks (wall time)\n\nGB/s with 1 and 2 threads, and what the second one gives.\n\n",
    );
    header(
        out,
        "chunks of",
        ["operation", "ours", "gain", "C", "gain", "ratio at 2"].map(str::to_owned).into_iter(),
    );
    for (one, two) in pairs {
        let (ours, c) = one.pair.gains(&two.pair);
        let speed =
            |times: &[b2_measure::Spent]| one.pair.bytes / median(times.iter().map(|time| time.wall)) / 1e9;
        let _ = writeln!(
            out,
            "| {} | {} | {:.2}, {:.2} | {ours:.2} | {:.2}, {:.2} | {c:.2} | {:.2} |",
            goals::name(one),
            one.op,
            speed(&one.pair.ours),
            speed(&two.pair.ours),
            speed(&one.pair.c),
            speed(&two.pair.c),
            two.pair.ratio(),
        );
    }
    out.push('\n');
}

fn arrays(out: &mut String, results: &Results) {
    if results.rows.is_empty() {
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
    header(
        out,
        "operation",
        ["codec", "storage", "threads", "ratio", "from, to", "ours", "C", "", "size"]
            .map(str::to_owned)
            .into_iter(),
    );
    for row in &results.rows {
        let many = row.pair.calls > 1.0;
        let ((ours, c), unit) = if many { (row.pair.micros(), "us") } else { (row.pair.speeds(), "GB/s") };
        let (low, high) = row.pair.spread();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} | {low:.2}, {high:.2} | {ours:.2} | {c:.2} | {unit} | {:.3} |",
            row.op,
            row.codec,
            row.storage,
            row.pair.threads,
            row.pair.ratio(),
            row.our_cbytes / row.c_cbytes,
        );
    }
    out.push_str(
        "\n### Memory\n\nPeak beside the array, the destination and the file, lz4 on disk, in KiB; ",
    );
    let _ = writeln!(out, "a block has {BLOCK_KIB:.0}.\n");
    header(out, "operation", ["threads", "ours", "C"].map(str::to_owned).into_iter());
    for scratch in &results.scratch {
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} |",
            scratch.op, scratch.threads, scratch.ours, scratch.c
        );
    }
    out.push('\n');
}

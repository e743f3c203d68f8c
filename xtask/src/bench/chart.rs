//! The chart for the README: bars of ratios, written as SVG without a library.

use std::fmt::Write;

use super::machine::Machine;
use super::{Results, Rows};
use b2_measure::geomean;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 250.0;
const ROW: f64 = 22.0;
const TOP: f64 = 46.0;

/// Returns the name of each bar, and our speed relative to C's.
fn bars(results: &Results) -> Vec<(String, Vec<(String, f64)>)> {
    let cells = |op: &str, codec: &str, filter: &str| {
        let keep = |cell: &&super::chunks::Cell| {
            cell.case.rows == Rows::Cells
                && cell.pair.threads == 1
                && cell.op == op
                && cell.case.codec == codec
                && (filter.is_empty() || cell.case.filter == filter)
                && (op != "getitem" || cell.has_streams())
                && !cell.c_is_wrong
        };
        geomean(results.cells.iter().filter(keep).map(|cell| cell.pair.ratio()))
    };
    let arrays = |op: &str| {
        let keep = |row: &&super::arrays::Row| row.pair.threads == 1 && row.op == op;
        geomean(results.rows.iter().filter(keep).map(|row| row.pair.ratio()))
    };
    let mut groups = Vec::new();
    let mut group = |title: &str, list: Vec<(String, Option<f64>)>| {
        let list: Vec<_> = list.into_iter().filter_map(|(name, ratio)| Some((name, ratio?))).collect();
        if !list.is_empty() {
            groups.push((title.to_owned(), list));
        }
    };
    for (op, title) in
        [("decompress", "Decompress"), ("compress", "Compress"), ("getitem", "One random item")]
    {
        let mut list = Vec::new();
        for codec in super::chunks::CODECS {
            for filter in super::chunks::FILTERS {
                list.push((format!("{codec}, {filter}"), cells(op, codec, filter)));
            }
        }
        group(title, list);
    }
    let names = [
        ("read", "read all"),
        ("plane0", "planes, first axis"),
        ("plane1", "planes, second axis"),
        ("plane2", "planes, last axis"),
        ("box", "boxes of 32\u{b3}"),
        ("write", "write"),
        ("append", "append"),
        ("open", "open and read one item"),
    ];
    group("Arrays", names.map(|(op, name)| (name.to_owned(), arrays(op))).into());
    groups
}

/// Draws the chart: a line at 1 marks C-Blosc2, and bars below it are red.
pub(super) fn svg(results: &Results, machine: &Machine) -> String {
    draw(&bars(results), &machine.date)
}

fn draw(groups: &[(String, Vec<(String, f64)>)], date: &str) -> String {
    let most = groups.iter().flat_map(|(_, list)| list).map(|(_, ratio)| *ratio).fold(2.0, f64::max);
    let most = most.min(6.0);
    let scale = |ratio: f64| LEFT + (WIDTH - LEFT - 60.0) * (ratio.min(most) / most);
    let rows: usize = groups.iter().map(|(_, list)| list.len() + 1).sum();
    let height = TOP + ROW * rows as f64 + 30.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"16\" font-weight=\"bold\" fill=\"#222222\">Speed of b2kit, C-Blosc2 = 1</text>\n\
         <text x=\"{}\" y=\"24\" fill=\"#666666\" text-anchor=\"end\">one thread, geometric means, {date}</text>\n",
        WIDTH - 16.0
    );
    let bottom = height - 26.0;
    for tick in 0..=most.floor() as usize {
        let (x, colour, width) = (
            scale(tick as f64),
            if tick == 1 { "#222222" } else { "#dddddd" },
            if tick == 1 { 1.5 } else { 1.0 },
        );
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#666666\" text-anchor=\"middle\">{tick}</text>\n",
            TOP - 6.0,
            bottom + 16.0
        );
    }
    let mut y = TOP;
    for (title, list) in groups {
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{:.1}\" font-weight=\"bold\" fill=\"#222222\">{title}</text>",
            y + 16.0
        );
        y += ROW;
        for (name, ratio) in list {
            let colour = if *ratio >= 1.0 { "#3b7dbd" } else { "#c0504d" };
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222222\" text-anchor=\"end\">{name}</text>\n\
                 <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222222\">{ratio:.2}</text>\n",
                LEFT - 8.0,
                y + 15.0,
                y + 3.0,
                scale(*ratio) - LEFT,
                ROW - 6.0,
                scale(*ratio) + 5.0,
                y + 15.0
            );
            y += ROW;
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_well_formed_and_names_each_bar() {
        let group = ("Decompress".to_owned(), vec![("lz4".to_owned(), 1.5), ("zlib".to_owned(), 0.9)]);
        let svg = draw(&[group], "2000-01-01");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for text in [">lz4<", ">zlib<", ">1.50<", ">0.90<", "#c0504d"] {
            assert!(svg.contains(text), "{text}");
        }
        for tag in ["text", "svg"] {
            let open = svg.matches(&format!("<{tag} ")).count();
            assert_eq!(open, svg.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}

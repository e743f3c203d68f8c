//! The chart for the README: bars of ratios, written as SVG without a library.

use std::fmt::Write;

use super::chunks::{CODECS, Cell, FILTERS};
use super::machine::Machine;
use super::plan::Rows;
use super::results::Results;
use b2_measure::geomean;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 250.0;
const ROW: f64 = 22.0;
const TOP: f64 = 46.0;

/// Returns the name of each bar, and our speed relative to C's.
fn bars(results: &Results) -> Vec<(String, Vec<(String, f64)>)> {
    let cells = |op: &str, codec: &str, filter: &str| {
        let keep = |cell: &&Cell| {
            (cell.case.codec, cell.case.filter) == (codec, filter)
                && (op != "getitem" || cell.has_streams())
                && !cell.c_is_wrong
        };
        geomean(results.select(&[Rows::Cells], op, 1).filter(keep).map(|cell| cell.pair.ratio()))
    };
    let arrays = |op: &str| geomean(results.select(&[Rows::Arrays], op, 1).map(|cell| cell.pair.ratio()));
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
        for codec in CODECS {
            for filter in FILTERS {
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
    let bottom = height - 26.0;
    let text = |x: f64, y: f64, style: &str, text: &str| {
        format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>\n")
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let title = "font-size=\"16\" font-weight=\"bold\" fill=\"#222222\"";
    out += &text(16.0, 24.0, title, "Speed of b2kit, C-Blosc2 = 1");
    let right = "fill=\"#666666\" text-anchor=\"end\"";
    out += &text(WIDTH - 16.0, 24.0, right, &format!("one thread, geometric means, {date}"));
    for tick in 0..=most.floor() as usize {
        let (x, top) = (scale(tick as f64), TOP - 6.0);
        let (colour, width) = if tick == 1 { ("#222222", 1.5) } else { ("#dddddd", 1.0) };
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        );
        let middle = "fill=\"#666666\" text-anchor=\"middle\"";
        out += &text(x, bottom + 16.0, middle, &tick.to_string());
    }
    let mut y = TOP;
    for (title, list) in groups {
        out += &text(16.0, y + 16.0, "font-weight=\"bold\" fill=\"#222222\"", title);
        y += ROW;
        for (name, ratio) in list {
            let colour = if *ratio >= 1.0 { "#3b7dbd" } else { "#c0504d" };
            let (top, length, thick) = (y + 3.0, scale(*ratio) - LEFT, ROW - 6.0);
            out += &text(LEFT - 8.0, y + 15.0, "fill=\"#222222\" text-anchor=\"end\"", name);
            let _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{thick:.1}\" fill=\"{colour}\"/>"
            );
            out += &text(scale(*ratio) + 5.0, y + 15.0, "fill=\"#222222\"", &format!("{ratio:.2}"));
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

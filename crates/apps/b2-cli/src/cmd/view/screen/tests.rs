use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::app::Key;
use super::super::headless::{Headless, text};
use super::super::request::{FileFacts, ViewResponse};
use super::super::testing::{array, opening};
use super::layout::fit;
use super::picture::nearest;
use super::*;
use crate::print::Map;

struct Frame(Headless, bool);

impl Frame {
    fn new(path: &std::path::Path, width: u16, height: u16, colours: bool) -> Self {
        let app = App::new("a.b2nd", None, Map::Viridis, false, None);
        Self(Headless::start(app, opening(path), [width, height]).unwrap(), colours)
    }

    fn text(&mut self) -> String {
        self.0.settle().unwrap();
        text(&self.0.buffer(self.1))
    }

    fn press(&mut self, keys: &str) -> String {
        keys.chars().for_each(|c| self.0.app.key(Key::Char(c)));
        self.text()
    }
}

#[test]
fn screens_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = array(folder.path());
    let mut seen = Frame::new(&path, 60, 14, false);
    let text = seen.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "picture   [<2>, :, :]");
    assert!(lines[1].starts_with('x'), "the missing one: {text}");
    assert!(lines[10].ends_with('\u{2588}'), "the largest: {text}");
    assert!(lines[11].starts_with("1201 ") && lines[11].contains(" 1799 "), "{text}");
    assert_eq!(lines[12], "down: dimension 1, across: dimension 2");
    assert!(lines[13].starts_with("?: keys  q: quit"), "{text}");
    let text = seen.press("2");
    assert!(text.contains("values   [<2>, :, :]"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["0", "nan", "1201.0", "1202.0"]);
    assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["1", "1230.0", "1231.0", "1232.0"]);
    let text = seen.press("x");
    assert!(
        text.lines().nth(3).unwrap().split_whitespace().eq(["1", "1201.0", "1231.0", "1261.0"]),
        "{text}"
    );
    let text = seen.press("x3");
    assert!(text.contains("from 1201 to 1799") && text.contains("all 600 items, 1 missing"), "{text}");
    let text = seen.press("4");
    assert!(text.contains("8 chunks: 8 stored") && text.contains("; no dead space"), "{text}");
    let text = seen.press("?");
    assert!(text.contains("q         quit"), "{text}");
    // A wide screen shows the list on the left.
    let mut seen = Frame::new(&path, 100, 20, true);
    let text = seen.text();
    assert!(text.starts_with("a.b2nd ") && text.contains("chunks 1, 10, 30"), "{text}");
    for (width, height) in [(1, 1), (2, 5), (7, 3), (300, 2), (91, 4)] {
        let mut seen = Frame::new(&path, width, height, true);
        for keys in ["", "2", "3", "4", "?", "g", "5"] {
            seen.press(keys);
        }
    }
}

/// Packs `shape` items of `dtype`, of 8 bytes, that count up from `first`.
fn counting(folder: &std::path::Path, dtype: &str, shape: &[u64], first: i64) -> std::path::PathBuf {
    let count = shape.iter().product::<u64>().cast_signed();
    let items: Vec<u8> = (first..first + count).flat_map(i64::to_le_bytes).collect();
    let dtype = b2kit::Dtype::parse(dtype).unwrap();
    let path = folder.join("counting.b2nd");
    let bytes = b2kit::ArrayBuilder::of_dtype(shape.to_vec(), dtype).to_bytes(&items[..]).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn histograms_count_all_items_or_say_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    for (shape, words) in [
        (&[50, 700][..], "all 35,000 items, 0 missing"),
        (&[3, 1500], " of 4,500 items, 0 missing"),
        (&[70_000], "all 70,000 items, 0 missing"),
        (&[1_100_000], "a sample of 1,048,576 of 1,100,000 items"),
        (&[2], "all 2 items"),
    ] {
        let path = counting(folder.path(), "<i8", shape, 5);
        let text = Frame::new(&path, 80, 14, false).press("3");
        assert!(text.contains(words), "{shape:?}: {text}");
    }
}

#[test]
fn dates_and_lists_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    for shape in [&[4, 10][..], &[40]] {
        let path = counting(folder.path(), "<M8[D]", shape, 18_687);
        let text = Frame::new(&path, 80, 14, false).text();
        assert!(text.contains("2021-03-01 ") && text.contains(" 2021-04-09"), "{text}");
        let text = Frame::new(&path, 80, 14, false).press("3");
        assert!(text.contains("from 2021-03-01 to 2021-04-09"), "{text}");
    }
    // Tab shows the list if there is no space for it next to the picture.
    let path = array(folder.path());
    let mut seen = Frame::new(&path, 60, 14, false);
    seen.0.app.key(Key::Tab);
    let text = seen.text();
    assert!(text.starts_with("a.b2nd\n") && text.contains("chunks 1, 10, 30"), "{text}");
    seen.0.app.key(Key::Tab);
    assert!(seen.text().starts_with("picture   [<2>, :, :]"));
}

#[test]
fn long_messages_take_more_lines() {
    assert_eq!(wrapped("one two  three", 8), ["one two", "three"]);
    assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
    assert_eq!(wrapped("a  b", 80), ["a  b"]);
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Frame::new(&array(folder.path()), 30, 12, false);
    seen.text();
    seen.0.app.message = Some("word ".repeat(14).trim_end().to_owned());
    let text = text(&seen.0.buffer(false));
    assert_eq!(text.matches("word").count(), 14, "{text}");
}

#[test]
fn pixels_have_the_colours_of_their_items() {
    let folder = tempfile::tempdir().unwrap();
    let path = array(folder.path());
    // One pixel for each item: 30 columns and 20 rows, two in a cell.
    let mut seen = Frame::new(&path, 30, 14, true);
    seen.text();
    let buffer = seen.0.buffer(true);
    let scale = seen.0.app.scale.unwrap();
    let colour = |value: f64| {
        let [r, g, b] = scale.colour(value).unwrap_or(scale.map.missing());
        Color::Rgb(r, g, b)
    };
    for (x, y, row) in [(0, 1, 0), (29, 1, 0), (5, 4, 6), (29, 10, 18)] {
        let value = |row: u64| if (row, x) == (0, 0) { f64::NAN } else { (1200 + row * 30 + x) as f64 };
        let cell = &buffer[(x as u16, y)];
        assert_eq!((cell.fg, cell.bg), (colour(value(row)), colour(value(row + 1))), "{x}, {y}");
    }
}

#[test]
fn no_text_of_a_file_acts_on_the_terminal() {
    let hostile = "\u{1b}[2J\u{9b}31m\u{202e}\n\r\t\0";
    let mut app = App::new(hostile, None, Map::Viridis, false, None);
    app.handle(ViewResponse::Members(vec![format!("/{hostile}/{hostile}"), format!("/{hostile}")]));
    let axis = crate::read::Axis { start: 0, step: 1, len: 3, dropped: false };
    let facts = FileFacts {
        axes: vec![axis, axis],
        fields: vec![Some(hostile.into())],
        names: vec![crate::print::printable(hostile); 2],
        ..FileFacts::default()
    };
    let key = app.key.clone();
    app.handle(ViewResponse::Opened(key, Box::new(facts)));
    app.handle(ViewResponse::Failed(crate::print::printable(hostile)));
    let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
    terminal
        .draw(|frame| {
            draw(frame.buffer_mut(), &app, true, None);
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    for cell in buffer.content() {
        assert!(!cell.symbol().contains(|c: char| c.is_control() || c == '\u{202e}'), "{:?}", cell.symbol());
    }
    let first: String = (0..40).map(|x| buffer[(x, 0)].symbol()).collect();
    assert!(first.contains("\\u{1b}[2J"), "{first}");
}

#[test]
fn pictures_fit() {
    assert_eq!(fit([20, 30], [20, 30]), [20, 30]);
    assert_eq!(fit([10, 10], [40, 100]), [40, 40]);
    assert_eq!(fit([1, 1000], [40, 100]), [10, 100]);
    assert_eq!(nearest(&[5, 10, 15], 11), Some(1));
    assert_eq!((nearest(&[5, 10, 15], 13), nearest(&[5, 10, 15], 2)), (Some(2), Some(0)));
    assert_eq!((nearest(&[15, 20], 2), nearest(&[5, 10], 30), nearest(&[], 1)), (None, None, None));
}

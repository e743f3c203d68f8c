//! A terminal emulator: the contents of the screen after some output, as text and as a picture.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Red, green and blue.
type Colour = [u8; 3];

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Style {
    ink: Option<Colour>,
    paper: Option<Colour>,
    bold: bool,
    dim: bool,
    reversed: bool,
}

/// Columns, rows, and the cells row by row.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    width: usize,
    cells: Vec<(char, Style)>,
    at: [usize; 2],
    style: Style,
}

impl Screen {
    /// Interprets these bytes, which may end within a sequence, on a screen of this size.
    ///
    /// # Panics
    /// At an unknown sequence, so that the command sends no others.
    pub(crate) fn of([width, height]: [usize; 2], bytes: &[u8]) -> Self {
        let blank = (' ', Style::default());
        let mut screen =
            Self { width, cells: vec![blank; width * height], at: [0, 0], style: Style::default() };
        // Ignores an incomplete sequence at the end.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap(),
        };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\x1b' => match screen.sequence(rest) {
                    Some(after) => rest = after,
                    None => break,
                },
                '\r' => screen.at[1] = 0,
                '\n' => screen.at[0] = (screen.at[0] + 1).min(height - 1),
                c => {
                    assert!(!c.is_control(), "a control character: {c:?}");
                    let [row, column] = screen.at;
                    screen.cells[row * width + column.min(width - 1)] = (c, screen.style);
                    screen.at[1] += 1;
                }
            }
        }
        screen
    }

    /// Interprets the sequence after an escape character. Returns the rest, or `None` if the sequence is incomplete.
    fn sequence<'a>(&mut self, rest: &'a str) -> Option<&'a str> {
        match rest.chars().next()? {
            // Titles and pictures.
            ']' | '_' | 'P' => {
                let end = rest.find("\x1b\\").map(|at| at + 2);
                end.or(rest.find('\x07').map(|at| at + 1)).map(|end| &rest[end..])
            }
            '[' => {
                let end = rest[1..].find(|c: char| ('@'..='~').contains(&c))? + 1;
                self.command(&rest[1..end], &rest[end..=end]);
                Some(&rest[end + 1..])
            }
            other => panic!("an unknown sequence: {other:?}"),
        }
    }

    fn command(&mut self, given: &str, command: &str) {
        let numbers: Vec<usize> = given.split(';').map(|text| text.parse().unwrap_or(0)).collect();
        match command {
            "H" => {
                let at = |k: usize| numbers.get(k).copied().unwrap_or(0).max(1) - 1;
                self.at = [at(0), at(1)];
            }
            "J" => self.cells.fill((' ', Style::default())),
            "m" => self.colours(&numbers),
            // Modes: the alternate screen, the cursor, the mouse.
            "h" | "l" => assert!(given.starts_with('?'), "{given}{command}"),
            _ => panic!("an unknown sequence: {given}{command}"),
        }
    }

    fn colours(&mut self, mut numbers: &[usize]) {
        while let [first, rest @ ..] = numbers {
            numbers = rest;
            match first {
                0 => self.style = Style::default(),
                1 => self.style.bold = true,
                2 => self.style.dim = true,
                7 => self.style.reversed = true,
                22 => (self.style.bold, self.style.dim) = (false, false),
                27 => self.style.reversed = false,
                38 | 48 => {
                    let [2, r, g, b, rest @ ..] = rest else { panic!("a colour: {rest:?}") };
                    let colour = Some([*r as u8, *g as u8, *b as u8]);
                    match first {
                        38 => self.style.ink = colour,
                        _ => self.style.paper = colour,
                    }
                    numbers = rest;
                }
                39 => self.style.ink = None,
                49 => self.style.paper = None,
                // Underlined text.
                59 => {}
                other => panic!("an unknown colour: {other}"),
            }
        }
    }

    /// The text of a line.
    pub(crate) fn line(&self, row: usize) -> String {
        let cells = &self.cells[row * self.width..(row + 1) * self.width];
        cells.iter().map(|(c, _)| *c).collect::<String>().trim_end().to_owned()
    }

    pub(crate) fn text(&self) -> String {
        (0..self.cells.len() / self.width).map(|row| self.line(row) + "\n").collect()
    }

    /// The colours of the upper and the lower half of a cell with a half block.
    pub(crate) fn halves(&self, row: usize, column: usize) -> Option<[Option<Colour>; 2]> {
        match self.cells[row * self.width + column] {
            ('\u{2580}', style) => Some([style.ink, style.paper]),
            ('\u{2584}', style) => Some([style.paper, style.ink]),
            _ => None,
        }
    }

    /// The screen as an SVG picture, of 8 x 16 pixels for each cell.
    pub(crate) fn svg(&self) -> String {
        let [width, height] = [self.width, self.cells.len() / self.width];
        let mut drawn = ScreenCells::default();
        for row in 0..height {
            for column in 0..width {
                drawn.cell(column, row, self.cells[row * width + column]);
            }
            drawn.end();
        }
        let (wide, high) = (8 * width, 16 * height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-8 -8 {} {}\" width=\"{}\" height=\"{}\" \
             font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\">\n\
             <rect x=\"-8\" y=\"-8\" width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{}\"/>\n\
             <g transform=\"scale(8)\" shape-rendering=\"crispEdges\">\n",
            wide + 16,
            high + 16,
            wide + 16,
            high + 16,
            hex(PAPER)
        );
        for (colour, path) in &drawn.areas {
            writeln!(out, "<path fill=\"{}\" d=\"{path}\"/>", hex(*colour)).unwrap();
        }
        out + "</g>\n" + &drawn.lines + &drawn.texts + "</svg>\n"
    }
}

/// Default colours.
const INK: Colour = [215, 218, 222];
const PAPER: Colour = [22, 24, 28];

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The parts of a picture.
#[derive(Default)]
struct ScreenCells {
    /// Rectangles of half cells of each colour.
    areas: BTreeMap<Colour, String>,
    lines: String,
    texts: String,
    /// The current text: its start, colour and weight.
    run: Option<([usize; 2], Colour, bool, String)>,
    /// The current rectangle in each half of the line: start, end, row, colour.
    open: [Option<(usize, usize, usize, Colour)>; 2],
}

impl ScreenCells {
    fn cell(&mut self, x: usize, y: usize, (c, style): (char, Style)) {
        let (mut ink, mut paper) = (style.ink.unwrap_or(INK), style.paper.unwrap_or(PAPER));
        if style.reversed {
            (ink, paper) = (paper, ink);
        }
        if style.dim {
            ink = [0, 1, 2].map(|k| ((2 * u16::from(ink[k]) + u16::from(paper[k])) / 3) as u8);
        }
        let halves = match c {
            '\u{2588}' => [ink, ink],
            '\u{2580}' => [ink, paper],
            '\u{2584}' => [paper, ink],
            _ => [paper, paper],
        };
        for (k, colour) in halves.into_iter().enumerate() {
            self.half(k, x, 2 * y + k, colour);
        }
        match c {
            '\u{2500}' => {
                let (x, y) = (8 * x, 16 * y + 7);
                writeln!(self.lines, "<path stroke=\"{}\" stroke-width=\"2\" d=\"M{x} {y}h8\"/>", hex(ink))
                    .unwrap();
            }
            '\u{2502}' => {
                let (x, y) = (8 * x + 4, 16 * y);
                writeln!(self.lines, "<path stroke=\"{}\" stroke-width=\"2\" d=\"M{x} {y}v16\"/>", hex(ink))
                    .unwrap();
            }
            '\u{2580}' | '\u{2584}' | '\u{2588}' => {}
            c => return self.letter(x, y, c, ink, style.bold),
        }
        self.flush();
    }

    fn half(&mut self, k: usize, x: usize, y: usize, colour: Colour) {
        match &mut self.open[k] {
            Some((_, end, _, known)) if *known == colour => *end = x + 1,
            open => {
                let before = open.replace((x, x + 1, y, colour));
                self.close(before);
            }
        }
    }

    fn close(&mut self, rectangle: Option<(usize, usize, usize, Colour)>) {
        if let Some((begin, end, y, colour)) = rectangle.filter(|(.., colour)| *colour != PAPER) {
            let path = self.areas.entry(colour).or_default();
            let wide = end - begin;
            write!(path, "M{begin} {y}h{wide}v1h-{wide}z").unwrap();
        }
    }

    fn letter(&mut self, x: usize, y: usize, c: char, ink: Colour, bold: bool) {
        match &mut self.run {
            Some((_, colour, weight, text)) if (*colour, *weight) == (ink, bold) => text.push(c),
            _ => {
                self.flush();
                self.run = Some(([x, y], ink, bold, c.to_string()));
            }
        }
    }

    /// Ends a text.
    fn flush(&mut self) {
        let Some(([x, y], ink, bold, text)) = self.run.take() else { return };
        // Words with large gaps stay in their columns.
        let mut at = 0;
        for part in text.split("  ") {
            let long = part.chars().count();
            let trimmed = part.trim_start();
            let skipped = long - trimmed.chars().count();
            let shown = trimmed.trim_end();
            let count = shown.chars().count();
            if count > 0 {
                let shown = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let weight = if bold { " font-weight=\"bold\"" } else { "" };
                writeln!(
                    self.texts,
                    "<text x=\"{}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{weight}>{shown}</text>",
                    8 * (x + at + skipped),
                    16 * y + 12,
                    8 * count,
                    hex(ink)
                )
                .unwrap();
            }
            at += long + 2;
        }
    }

    /// Ends a line.
    fn end(&mut self) {
        self.flush();
        for k in 0..2 {
            let open = self.open[k].take();
            self.close(open);
        }
    }
}

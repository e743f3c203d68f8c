//! Draws the state into the cells of a terminal.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use b2_view::items::double;

use super::app::{App, Mode, Sample};
use super::graphics::Graphics;
use super::request::{Cell, Chunks};
use crate::args::help::hanging;
use crate::print::{Map, Scale, count, short_size, thousands};

/// Width of the list on the left, and minimum width of the screen for it to be always visible.
const TREE: u16 = 30;
const WIDE: u16 = 90;
/// Width of a cell of the grid, including the gap after it.
pub(super) const CELL: u16 = 13;

const HELP: &[&str] = &[
    "1 2 3 4   picture, values, histogram, chunks (v: the next one)",
    "arrows    move     + -  zoom     0  all of it",
    ", .       the plane before, the next one (PageUp, PageDown: further)",
    "d o       , and . go along another dimension; draw that one",
    "x         swap rows and columns",
    "g         go to an index",
    "i         crosshair: arrows or the mouse move it (Esc: off)",
    "c l p     colours, logarithm, range (all, 1-99 %, 5-95 %)",
    "n         the next field of records",
    "r f       read again, follow a file that grows",
    "Tab Enter the list of members and facts, open a member",
    "q         quit",
];

/// The parts of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScreenLayout {
    tree: Rect,
    main: Rect,
    status: Rect,
}

impl ScreenLayout {
    pub(super) fn of(area: Rect, app: &App) -> Self {
        let tree = match (area.width >= WIDE, app.in_tree) {
            (true, _) => TREE,
            (false, true) => area.width,
            (false, false) => 0,
        };
        let height = area.height.saturating_sub(1);
        let at =
            |x: u16, y: u16, width: u16, height: u16| Rect { x: area.x + x, y: area.y + y, width, height };
        Self {
            tree: at(0, 0, tree.saturating_sub(u16::from(tree > 0)), height),
            main: at(tree, 0, area.width - tree, height),
            status: at(0, height, area.width, area.height.min(1)),
        }
    }

    /// The area of the picture, between a title and two lines below.
    fn picture(self) -> Rect {
        let Rect { x, y, width, height } = self.main;
        Rect { x, y: y + height.min(1), width, height: height.saturating_sub(3) }
    }

    /// Room for a picture, in pixels: rows and columns. Without graphics, a cell has two pixels, one above the other.
    pub(super) fn pixels(self, graphics: Option<&Graphics>) -> [usize; 2] {
        let area = self.picture();
        let [rows, columns] = grain(graphics, area);
        [rows * usize::from(area.height), columns * usize::from(area.width)].map(|n| n.max(1))
    }

    /// Room for a grid of values: rows and columns.
    pub(super) fn cells(self) -> [usize; 2] {
        let Rect { width, height, .. } = self.picture();
        [usize::from(height.saturating_sub(1)), usize::from(width.saturating_sub(CELL) / CELL)]
            .map(|n| n.max(1))
    }
}

/// The position shown at a cell of the screen, in each dimension that is drawn. `None` outside the picture.
pub(super) fn pointed(area: Rect, app: &App, graphics: Option<&Graphics>, at: [u16; 2]) -> Option<Vec<u64>> {
    let picture = ScreenLayout::of(area, app).picture();
    if app.mode != Mode::Picture || !picture.contains((at[1], at[0]).into()) {
        return None;
    }
    let (y, x) = (usize::from(at[0] - picture.y), usize::from(at[1] - picture.x));
    match &app.windows[..] {
        [window] => Some(vec![item(window, x, picture.width.into())]),
        [rows, columns] => {
            let grain = grain(graphics, picture);
            let size = size([rows, columns], grain, picture);
            // The middle of the cell.
            let [row, column] = [y * grain[0] + grain[0] / 2, x * grain[1] + grain[1] / 2];
            (row < size[0] && column < size[1])
                .then(|| vec![item(rows, row, size[0]), item(columns, column, size[1])])
        }
        _ => None,
    }
}

/// The size of a picture of these windows in pixels: rows and columns.
fn size(windows: [&Range<u64>; 2], grain: [usize; 2], area: Rect) -> [usize; 2] {
    let room = [grain[0] * usize::from(area.height), grain[1] * usize::from(area.width)];
    fit(windows.map(|window| window.end - window.start), room)
}

/// The position in a window that pixel `k` of `size` shows.
fn item(window: &Range<u64>, k: usize, size: usize) -> u64 {
    let share = (k as f64 + 0.5) / size as f64;
    window.start + (share * (window.end - window.start) as f64) as u64
}

/// The pixel that shows a position of a window: the inverse of [`item`].
fn pixel(window: &Range<u64>, place: u64, size: usize) -> Option<usize> {
    let at = window.contains(&place).then(|| place - window.start)?;
    let share = (at as f64 + 0.5) / (window.end - window.start) as f64;
    Some(((share * size as f64) as usize).min(size.saturating_sub(1)))
}

/// Number of pixels of a cell: rows and columns.
fn grain(graphics: Option<&Graphics>, area: Rect) -> [usize; 2] {
    graphics.map_or([2, 1], |graphics| graphics.grain(area))
}

/// Draws everything. Without `colours` numbers are shades of grey that all terminals have. Returns where pixels are shown.
pub(super) fn draw(
    buffer: &mut Buffer,
    app: &App,
    colours: bool,
    graphics: Option<&mut Graphics>,
) -> Option<Rect> {
    let area = buffer.area;
    let parts = ScreenLayout::of(area, app);
    // Text over a picture would not be erased.
    let graphics = graphics.filter(|_| !app.help);
    let mut screen = Screen { buffer, colours, graphics, pixels: None };
    screen.tree(parts.tree, app);
    screen.main(parts, app);
    screen.status(parts.status, app);
    if app.help {
        screen.help(area);
    }
    screen.pixels
}

struct Screen<'a> {
    buffer: &'a mut Buffer,
    colours: bool,
    graphics: Option<&'a mut Graphics>,
    /// The area with pixels.
    pixels: Option<Rect>,
}

/// Dark to bright.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];
/// A quarter, a half and so on of a cell, from below.
const BARS: [char; 8] =
    ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

impl Screen<'_> {
    fn text(&mut self, x: u16, y: u16, text: &str, room: u16, style: Style) {
        // The terminal may have shrunk.
        if self.buffer.area.contains((x, y).into()) {
            self.buffer.set_stringn(x, y, text, room.into(), style);
        }
    }

    fn put(&mut self, x: u16, y: u16, c: char, style: Style) {
        if let Some(cell) = self.buffer.cell_mut((x, y)) {
            cell.set_char(c).set_style(style);
        }
    }

    fn tree(&mut self, area: Rect, app: &App) {
        let Rect { x, y, width, height } = area;
        if width == 0 {
            return;
        }
        let selected =
            |is: bool| if is { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        self.text(x, y, &app.file, width, bold);
        let mut at = y + 1;
        let end = y + height;
        // The members; the selected one is always visible.
        let room = if app.facts.is_some() { height / 2 } else { height.saturating_sub(1) }.max(1);
        let first =
            app.line.saturating_sub(usize::from(room) / 2).min(app.members.len().saturating_sub(room.into()));
        for (k, member) in app.members.iter().enumerate().skip(first).take(room.into()) {
            if at >= end {
                return;
            }
            let mark = if app.key.as_ref() == Some(member) { "> " } else { "  " };
            let depth = member.trim_start_matches('/').matches('/').count();
            let name = member.rsplit('/').next().unwrap_or_default();
            // Names come from files.
            let group = member.strip_suffix(name).unwrap_or_default().trim_matches('/');
            let shown = match depth {
                0 => name.to_owned(),
                _ => format!("{}{group}/{name}", " ".repeat(depth)),
            };
            let line = format!("{mark}{}", crate::print::printable(&shown));
            self.text(x, at, &line, width, selected(app.in_tree && k == app.line));
            at += 1;
        }
        for line in app.facts.iter().flat_map(|facts| &facts.about) {
            if at >= end {
                return;
            }
            self.text(x, at, line, width, Style::new().add_modifier(Modifier::DIM));
            at += 1;
        }
    }

    fn main(&mut self, parts: ScreenLayout, app: &App) {
        let Rect { x, y, width, height } = parts.main;
        if width == 0 || height == 0 {
            return;
        }
        let field = app.facts.as_ref().and_then(|facts| facts.fields.get(app.field).cloned().flatten());
        let modes = Mode::ALL.iter().find(|(mode, _)| *mode == app.mode).map_or("", |(_, name)| name);
        let member = app.key.as_deref().map(crate::print::printable).unwrap_or_default();
        let field = field.map(|field| format!(" {}", crate::print::printable(&field))).unwrap_or_default();
        let place = if app.axes.is_empty() { String::new() } else { app.place() };
        let title = format!("{modes}  {member}{field} {place}");
        self.text(x, y, &title, width, Style::new().add_modifier(Modifier::BOLD));
        let picture = parts.picture();
        match app.mode {
            Mode::Picture => match &app.sample {
                Some(Sample::Plane { dims, plane, .. }) if app.dims == *dims => {
                    self.plane(picture, app, &plane.at, &plane.values);
                    self.below(parts, app, plane.every, plane.steps.iter().copied().max().unwrap_or(1));
                }
                Some(Sample::Line { window, line }) if app.dims.len() == 1 => {
                    self.line(picture, app, window, line);
                    let each = (window.end - window.start).div_ceil(line.columns.len().max(1) as u64);
                    self.below(parts, app, line.every, each);
                }
                _ => {}
            },
            Mode::PixelGrid => self.grid(picture, app),
            Mode::Histogram => self.histogram(picture, app),
            Mode::Chunks => {
                if let Some(chunks) = &app.chunks {
                    self.chunks(parts, chunks);
                }
            }
        }
    }

    fn style(&self, colour: [u8; 3]) -> Style {
        let [r, g, b] = colour;
        if self.colours { Style::new().fg(Color::Rgb(r, g, b)) } else { Style::new() }
    }

    /// Two pixels in a cell.
    fn half_blocks(&mut self, x: u16, y: u16, scale: Scale, pair: [Option<f64>; 2]) {
        if self.colours {
            let colour = |value: Option<f64>| {
                let [r, g, b] = scale.colour(value?).unwrap_or(scale.map.missing());
                Some(Color::Rgb(r, g, b))
            };
            let (c, style) = match (colour(pair[0]), colour(pair[1])) {
                (None, None) => return,
                (Some(above), None) => ('\u{2580}', Style::new().fg(above)),
                (None, Some(below)) => ('\u{2584}', Style::new().fg(below)),
                (Some(above), Some(below)) => ('\u{2580}', Style::new().fg(above).bg(below)),
            };
            return self.put(x, y, c, style);
        }
        let known: Vec<f64> = pair.into_iter().flatten().collect();
        let c = match known[..] {
            [] => return,
            [first, ..] if !known.iter().any(|value| scale.range.is_missing(*value)) => {
                SHADES[((scale.share(first) * 5.0) as usize).min(4)]
            }
            _ => 'x',
        };
        self.put(x, y, c, Style::new());
    }

    /// Draws the known part of the window; after a move, its intersection with the previous window.
    fn plane(&mut self, area: Rect, app: &App, at: &[Vec<u64>; 2], values: &[f64]) {
        let (Some(scale), [rows, columns]) = (app.scale, &app.windows[..]) else { return };
        let grain = grain(self.graphics.as_deref(), area);
        let size = size([rows, columns], grain, area);
        let place = |window: &Range<u64>, known: &[u64], size: usize| -> Vec<Option<usize>> {
            (0..size).map(|k| nearest(known, item(window, k, size))).collect()
        };
        let y = place(rows, &at[0], size[0]);
        let x = place(columns, &at[1], size[1]);
        let wide = at[1].len();
        let value = |row: usize, column: usize| {
            let (row, column) = ((*y.get(row)?)?, x[column]?);
            values.get(row * wide + column).copied()
        };
        let cross = match app.cursor.as_deref() {
            Some([row, column]) => pixel(rows, *row, size[0]).zip(pixel(columns, *column, size[1])),
            _ => None,
        };
        if let Some(graphics) = self.graphics.as_deref_mut() {
            let colour = |row: usize, column: usize| {
                let colour = scale.colour(value(row, column)?).unwrap_or(scale.map.missing());
                let is_cross = cross.is_some_and(|cross| is_arm([row, column], cross.into(), grain));
                Some(if is_cross { contrast(colour) } else { colour })
            };
            self.pixels = Some(graphics.draw(self.buffer, area, size, grain, colour));
            return;
        }
        for line in 0..size[0].div_ceil(2) {
            for column in 0..size[1] {
                let pair = [value(2 * line, column), value(2 * line + 1, column)];
                self.half_blocks(area.x + column as u16, area.y + line as u16, scale, pair);
            }
        }
        if let Some((row, column)) = cross {
            self.crosshair(area, [row / 2, column], [size[0].div_ceil(2), size[1]]);
        }
    }

    /// Draws four arms around a cell over the existing colours.
    fn crosshair(&mut self, area: Rect, [y, x]: [usize; 2], size: [usize; 2]) {
        let arms = (1..=3).flat_map(|k| [([0, k], '\u{2500}'), ([0, -k], '\u{2500}')]);
        let arms = arms.chain((1..=2).flat_map(|k| [([k, 0], '\u{2502}'), ([-k, 0], '\u{2502}')]));
        for ([down, right], c) in arms {
            let (Some(y), Some(x)) = (y.checked_add_signed(down), x.checked_add_signed(right)) else {
                continue;
            };
            if y >= size[0] || x >= size[1] {
                continue;
            }
            let (x, y) = (area.x + x as u16, area.y + y as u16);
            let style = match self.buffer.cell((x, y)).map(|cell| cell.fg) {
                Some(Color::Rgb(r, g, b)) => {
                    let [dark, _, _] = contrast([r, g, b]);
                    Style::new().bg(Color::Rgb(r, g, b)).fg(Color::Rgb(dark, dark, dark))
                }
                _ => Style::new(),
            };
            self.put(x, y, c, style);
        }
    }

    /// Draws a line as bars from the smallest to the largest item of each column.
    fn line(&mut self, area: Rect, app: &App, known: &Range<u64>, line: &crate::read::sample::LineSample) {
        let (Some(scale), [window]) = (app.scale, &app.windows[..]) else { return };
        let (high, count) = (2 * i64::from(area.height), line.columns.len() as u64);
        let style = self.style([90, 160, 230]);
        if let Some(column) =
            app.cursor.as_ref().and_then(|cursor| pixel(window, *cursor.first()?, area.width.into()))
        {
            for y in area.y..area.y + area.height {
                self.put(area.x + column as u16, y, '\u{2502}', Style::new());
            }
        }
        for column in 0..area.width {
            let item = item(window, column.into(), area.width.into());
            if !known.contains(&item) || count == 0 {
                continue;
            }
            let k = u128::from(item - known.start) * u128::from(count) / u128::from(known.end - known.start);
            let Some(found) = line.columns.get(k as usize) else { continue };
            let x = area.x + column;
            if found.count == 0 {
                for y in area.y..area.y + area.height {
                    self.put(x, y, SHADES[1], Style::new());
                }
                continue;
            }
            // Half cells from the top.
            let half = |value: f64| ((1.0 - scale.share(value)) * (high - 1) as f64).round() as i64;
            let (top, bottom) = (half(found.high), half(found.low));
            for y in top / 2..=bottom / 2 {
                let c = match (2 * y < top, 2 * y + 1 > bottom) {
                    (true, _) => '\u{2584}',
                    (_, true) => '\u{2580}',
                    _ => '\u{2588}',
                };
                self.put(x, area.y + y as u16, c, style);
            }
        }
    }

    /// The colour bar, and what is left out.
    fn below(&mut self, parts: ScreenLayout, app: &App, every: u64, each: u64) {
        let Rect { x, width, .. } = parts.main;
        let y = parts.main.y + parts.main.height.saturating_sub(2);
        let Some(scale) = app.scale else { return };
        let [low, high] = ends(app, scale);
        self.text(x, y, &low, width, Style::new());
        let start = low.chars().count() as u16 + 1;
        let bar = 20.min(width.saturating_sub(start));
        for k in 0..bar {
            let share = f64::from(k) / f64::from(bar.max(2) - 1);
            match self.colours {
                true => self.put(x + start + k, y, '\u{2588}', self.style(scale.map.at(share))),
                false => self.put(x + start + k, y, SHADES[((share * 5.0) as usize).min(4)], Style::new()),
            }
        }
        let at = start + bar + 1;
        let unit = app.facts.as_ref().map_or("", |facts| &facts.unit);
        let log = if scale.log { "  log" } else { "" };
        let rest = width.saturating_sub(at);
        let text = format!("{high} {unit}{log}  missing: ");
        self.text(x + at, y, &text, rest, Style::new());
        let mark = at + text.chars().count() as u16;
        if mark < width {
            match self.colours {
                true => self.put(x + mark, y, '\u{2588}', self.style(scale.map.missing())),
                false => self.put(x + mark, y, 'x', Style::new()),
            }
        }
        let mut notes = Vec::new();
        let cursor = app.under_cursor();
        match app.dims[..] {
            _ if cursor.is_some() => notes.extend(cursor.clone()),
            [dim] => notes.push(format!("along: {}", app.name(dim))),
            [rows, columns] => notes.push(format!("down: {}, across: {}", app.name(rows), app.name(columns))),
            _ => {}
        }
        if each > 1 {
            notes.push(format!("1 item of {}", thousands(each)));
        }
        if every > 1 {
            notes.push(format!("1 block of {}", thousands(every)));
        }
        let weight = if cursor.is_some() { Modifier::BOLD } else { Modifier::DIM };
        self.text(x, y + 1, &notes.join("   "), width, Style::new().add_modifier(weight));
    }

    fn grid(&mut self, area: Rect, app: &App) {
        let Some((axes, texts)) = &app.grid else { return };
        let head = Style::new().add_modifier(Modifier::DIM);
        let Rect { x, y, width, height } = area;
        let end = y + height;
        let item = |dim: usize, k: u64| axes.get(dim).map_or(0, |axis| axis.position(k)).to_string();
        let long = |dim: usize| axes.get(dim).map_or(0, |axis| axis.len);
        let (rows, columns) = match app.dims[..] {
            [rows, columns] => (Some(rows), Some(columns)),
            _ => (app.dims.first().copied(), None),
        };
        let high = rows.map_or(texts.len() as u64, long);
        let high = high.min(u64::from(end.saturating_sub(y + u16::from(columns.is_some()))));
        let wide = columns.map_or(1, long);
        let value = |row: u64, column: u64| {
            // The values are in the order of the file.
            let at = match (rows, columns) {
                (Some(rows), Some(columns)) if rows > columns => column * long(rows) + row,
                _ => row * wide + column,
            };
            texts.get(at as usize).map_or("", |text| text)
        };
        let first = y + u16::from(columns.is_some());
        let mut left = 0;
        let mut put = |screen: &mut Self, heading: Option<String>, cells: &[(&str, Style)]| {
            let texts = cells.iter().map(|(text, _)| *text).chain(heading.as_deref());
            let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
            let room = usize::from(width.saturating_sub(left));
            if let Some(heading) = &heading {
                screen.text(x + left, y, &marked(heading, room), room as u16, head);
            }
            for (line, (text, style)) in (first..end).zip(cells) {
                screen.text(x + left, line, &marked(text, room), room as u16, *style);
            }
            left = left.saturating_add(u16::try_from(longest + 1).unwrap_or(u16::MAX).max(CELL));
            left < width
        };
        if let Some(rows) = rows {
            let places: Vec<String> = (0..high).map(|row| item(rows, row)).collect();
            let places: Vec<(&str, Style)> = places.iter().map(|place| (&**place, head)).collect();
            put(self, columns.map(|_| String::new()), &places);
        }
        for column in 0..wide {
            let cells: Vec<(&str, Style)> = (0..high).map(|row| (value(row, column), Style::new())).collect();
            let heading = columns.map(|columns| item(columns, column));
            if !put(self, heading, &cells) {
                break;
            }
        }
    }

    fn histogram(&mut self, area: Rect, app: &App) {
        let Some(scale) = app.scale else { return };
        // The numbers, the number of items in the window, and whether the numbers are complete.
        let (values, total, all): (Vec<f64>, u64, bool) = match &app.sample {
            Some(Sample::Plane { plane, windows, .. }) => {
                let total = windows.iter().map(|window| window.end - window.start).product();
                (plane.values.clone(), total, plane.every == 1 && plane.steps == [1, 1])
            }
            Some(Sample::Line { line, window }) => {
                let total = window.end - window.start;
                let first = line.columns.iter().map(|column| column.first).collect();
                (first, total, line.every == 1 && line.columns.len() as u64 == total)
            }
            None => return,
        };
        let bins = usize::from(area.width.saturating_sub(1)).clamp(1, 64);
        let mut counts = vec![0_u64; bins];
        let mut missing = 0_u64;
        for value in &values {
            if scale.range.is_missing(*value) {
                missing += 1;
            } else if (scale.range.low..=scale.range.high).contains(value) {
                counts[((scale.share(*value) * bins as f64) as usize).min(bins - 1)] += 1;
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let high = u64::from(area.height);
        for (k, count) in counts.iter().enumerate() {
            // In eighths of a cell; a bin that is not empty is at least one high.
            let eighths = (count * high * 8 / most).max(u64::from(*count > 0));
            let share = (k as f64 + 0.5) / bins as f64;
            let style = self.style(scale.map.at(share));
            for row in 0..high {
                let left = eighths.saturating_sub(8 * row).min(8);
                if left > 0 {
                    let y = area.y + area.height - 1 - row as u16;
                    self.put(area.x + k as u16, y, BARS[left as usize - 1], style);
                }
            }
        }
        let y = area.y + area.height;
        let [low, high] = ends(app, scale);
        let log = if scale.log { ", logarithmic" } else { "" };
        self.text(area.x, y, &format!("from {low} to {high}{log}"), area.width, Style::new());
        let items = match all {
            true => format!("all {} items", thousands(total)),
            false => format!("a sample of {} of {} items", thousands(values.len() as u64), thousands(total)),
        };
        let text = format!("{items}, {} missing, at most {} in a bar", thousands(missing), thousands(most));
        self.text(area.x, y + 1, &text, area.width, Style::new().add_modifier(Modifier::DIM));
    }

    /// One cell for each chunk, or for several chunks, of which it shows the first.
    fn chunks(&mut self, parts: ScreenLayout, chunks: &Chunks) {
        let area = parts.picture();
        let wide = usize::from(area.width.max(1));
        let mut known = [0_u64; 6];
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for cell in &chunks.cells {
            known[kind(*cell)] += 1;
            if let Cell::Stored { ratio, .. } = cell {
                (least, most) = (least.min(*ratio), most.max(*ratio));
            }
        }
        // Two pixels in a cell of the screen if one per cell does not fit.
        let double = chunks.cells.len() > wide * usize::from(area.height) && self.colours;
        let colour = |cell: Cell| match cell {
            Cell::Stored { ratio, .. } => {
                let share = if most > least { (ratio / least).ln() / (most / least).ln() } else { 0.5 };
                Map::Viridis.at(share.clamp(0.0, 1.0))
            }
            Cell::Zero => [150, 150, 150],
            Cell::Nan => [222, 222, 222],
            Cell::Value => [110, 110, 160],
            Cell::Uninit => [90, 90, 90],
            Cell::Damaged => [230, 40, 40],
        };
        for (k, cell) in chunks.cells.iter().enumerate() {
            let (row, x) = (k / wide, area.x + (k % wide) as u16);
            let Ok(line) = u16::try_from(if double { row / 2 } else { row }) else { break };
            if line >= area.height {
                break;
            }
            let y = area.y + line;
            let [r, g, b] = colour(*cell);
            match (double, row % 2) {
                (true, 0) => self.put(x, y, '\u{2580}', Style::new().fg(Color::Rgb(r, g, b))),
                (true, _) => self.put(x, y, '\u{2580}', Style::new().bg(Color::Rgb(r, g, b))),
                (false, _) => {
                    let style = self.style([r, g, b]);
                    self.put(x, y, LETTERS[kind(*cell)].0, style);
                }
            }
        }
        let y = area.y + area.height;
        let named = |k: usize| format!("{} {}", thousands(known[k]), LETTERS[k].1);
        let there = (0..known.len()).filter(|k| known[*k] > 0).map(named).collect::<Vec<_>>().join(", ");
        let of = if chunks.each > 1 {
            format!("; looked at 1 of {}", thousands(chunks.each))
        } else {
            String::new()
        };
        self.text(
            area.x,
            y,
            &format!("{}: {there}{of}", count(chunks.count, "chunk")),
            area.width,
            Style::new(),
        );
        let ratio = (most > 0.0).then(|| format!("ratio from {least:.2} (dark) to {most:.2} (bright)"));
        let dead = chunks.dead.map(|dead| match dead {
            0 => "no dead space".to_owned(),
            _ => format!("dead space: {}", short_size(dead)),
        });
        let unknown =
            (chunks.undecoded > 0).then(|| format!("{} not decoded", count(chunks.undecoded, "chunk")));
        let text = ratio.into_iter().chain(dead).chain(unknown).collect::<Vec<_>>().join("; ");
        self.text(area.x, y + 1, &text, area.width, Style::new().add_modifier(Modifier::DIM));
    }

    fn status(&mut self, area: Rect, app: &App) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let Rect { x, y, width, .. } = area;
        if area.height == 0 {
            return;
        }
        let text = match (&app.prompt, &app.message) {
            (Some(typed), _) => format!("go to index: {typed}_   (Enter, Esc)"),
            (None, Some(message)) => message.clone(),
            (None, None) => {
                let follow = if app.follow { "  following" } else { "" };
                let reading = if app.reading { "  reading ..." } else { "" };
                format!("?: keys  q: quit{follow}{reading}")
            }
        };
        // A text that is longer than the line also takes lines above it.
        let lines = wrapped(&text, width.into());
        let top = (y + 1).saturating_sub(u16::try_from(lines.len()).unwrap_or(u16::MAX));
        for (y, line) in (top..=y).zip(&lines) {
            let line: String = line.chars().chain(std::iter::repeat(' ')).take(width.into()).collect();
            self.text(x, y, &line, width, style);
        }
    }

    fn help(&mut self, area: Rect) {
        let width = (HELP.iter().map(|line| line.len()).max().unwrap_or(0) as u16 + 4).min(area.width);
        let height = (HELP.len() as u16 + 2).min(area.height);
        let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
        let style = Style::new().add_modifier(Modifier::REVERSED);
        for row in 0..height {
            let line = HELP.get(usize::from(row).wrapping_sub(1)).copied().unwrap_or("");
            let text: String =
                format!("  {line}").chars().chain(std::iter::repeat(' ')).take(width.into()).collect();
            // Clears the previous style.
            for column in 0..width {
                self.put(x + column, y + row, ' ', Style::reset());
            }
            self.text(x, y + row, &text, width, style);
        }
    }
}

/// The symbol of a cell of the map of chunks without colours, and its name.
const LETTERS: [(char, &str); 6] = [
    ('\u{2588}', "stored"),
    ('0', "zero"),
    ('n', "NaN"),
    ('v', "one value"),
    ('u', "not set"),
    ('X', "damaged"),
];

fn kind(cell: Cell) -> usize {
    match cell {
        Cell::Stored { .. } => 0,
        Cell::Zero => 1,
        Cell::Nan => 2,
        Cell::Value => 3,
        Cell::Uninit => 4,
        Cell::Damaged => 5,
    }
}

fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e7).contains(&size) => {
            let text = format!("{x:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{x:.4e}"),
    }
}

/// The ends of a scale as text.
fn ends(app: &App, scale: Scale) -> [String; 2] {
    let ends = [scale.range.low, scale.range.high];
    let [low, high] = ends.map(|x| app.format().date(x).unwrap_or_else(|| number(x)));
    match low == high && ends[0] < ends[1] {
        // Numbers that differ in a later digit.
        true => ends.map(double),
        false => [low, high],
    }
}

/// Breaks a text into lines of at most this many characters, between words where possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let lines = hanging(text, 0, width);
    let pieces = lines.lines().flat_map(|line| {
        let line: Vec<char> = line.trim_end().chars().collect();
        line.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect::<Vec<String>>()
    });
    pieces.collect()
}

/// Black or white, whichever stands out from this colour.
fn contrast([r, g, b]: [u8; 3]) -> [u8; 3] {
    let bright = 3 * u32::from(r) + 6 * u32::from(g) + u32::from(b);
    [if bright > 1280 { 0 } else { 255 }; 3]
}

/// Whether a pixel is in an arm of the crosshair; arms are a sixth of a cell wide, three cells long, with a gap in the middle.
fn is_arm([row, column]: [usize; 2], [y, x]: [usize; 2], grain: [usize; 2]) -> bool {
    let (down, right) = (row.abs_diff(y), column.abs_diff(x));
    let (near, long) = (grain[1] / 6, 3 * grain[1]);
    let arm = |along: usize, beside: usize| beside <= near && (grain[1] / 2 + 1..=long).contains(&along);
    arm(down, right) || arm(right, down)
}

/// Truncates a text to this many cells, with a mark at the cut.
fn marked(text: &str, room: usize) -> String {
    match text.chars().count() <= room {
        true => text.to_owned(),
        false => text.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// The size of a picture of this many items in this space. An item is a square unless it would be too narrow.
fn fit(items: [u64; 2], room: [usize; 2]) -> [usize; 2] {
    let scale = [0, 1].map(|d| room[d] as f64 / items[d].max(1) as f64);
    let square = scale[0].min(scale[1]);
    [0, 1].map(|d| {
        let size = (items[d] as f64 * square).round() as usize;
        size.max(room[d] / 4).clamp(1, room[d].max(1))
    })
}

/// The position of the pixel that is nearest to an item; `None` if the item is outside the known part.
fn nearest(known: &[u64], item: u64) -> Option<usize> {
    let (first, last) = (*known.first()?, *known.last()?);
    let apart = known.get(1).map_or(1, |second| second - first);
    if item.saturating_add(apart) < first || item > last.saturating_add(apart) {
        return None;
    }
    let behind = known.partition_point(|k| *k < item);
    let before = behind.saturating_sub(1);
    match known.get(behind) {
        Some(k) if k - item < item.abs_diff(known[before]) || behind == 0 => Some(behind),
        _ => Some(before),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::app::Key;
    use super::super::headless::{Headless, text};
    use super::super::request::{FileFacts, ViewResponse};
    use super::super::testing::{array, opening};
    use super::*;

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
        app.told(ViewResponse::Members(vec![format!("/{hostile}/{hostile}"), format!("/{hostile}")]));
        let axis = crate::read::Axis { start: 0, step: 1, len: 3, dropped: false };
        let facts = FileFacts {
            axes: vec![axis, axis],
            fields: vec![Some(hostile.into())],
            names: vec![crate::print::printable(hostile); 2],
            ..FileFacts::default()
        };
        let key = app.key.clone();
        app.told(ViewResponse::Opened(key, Box::new(facts)));
        app.told(ViewResponse::Failed(crate::print::printable(hostile)));
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal
            .draw(|frame| {
                draw(frame.buffer_mut(), &app, true, None);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        for cell in buffer.content() {
            assert!(
                !cell.symbol().contains(|c: char| c.is_control() || c == '\u{202e}'),
                "{:?}",
                cell.symbol()
            );
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
}

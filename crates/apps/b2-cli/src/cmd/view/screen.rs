//! Draws the state into the cells of a terminal.

mod chunks;
mod grid;
mod histogram;
mod layout;
mod picture;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use b2_view::items::double;

use super::app::{App, Mode, Sample};
use super::graphics::Graphics;
use crate::args::help::hanging;
use crate::print::Scale;

pub(super) use self::layout::{ScreenLayout, pointed};

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

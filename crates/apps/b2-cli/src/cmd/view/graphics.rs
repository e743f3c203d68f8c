//! Pictures in terminals that can show pixels: detecting them, and what is sent to them.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use data_encoding::BASE64;
use ratatui::buffer::{Buffer, CellDiffOption};
use ratatui::crossterm::{cursor, queue};
use ratatui::layout::Rect;

use crate::print::{png, sixel};

/// The protocol for sending pixels to a terminal.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Pixels {
    /// Kitty, Ghostty
    Kitty,
    /// iTerm2, WezTerm, Konsole, VS Code
    Iterm2,
    /// foot, mlterm and others
    Sixel,
    /// Half blocks, which all terminals have
    Cells,
}

/// Maximum number of pixels of a picture.
const MAX_PIXELS: usize = 400_000;
/// Maximum number of base64 bytes in one message to Kitty.
const MESSAGE: usize = 4096;
/// The number of the picture, by which Kitty replaces and removes it.
const ID: u32 = 0xB2_0001;

/// Detects from environment variables what the terminal supports. The terminal is not queried: the response would mix with
/// the keys, and not all terminals respond.
pub(super) fn detect(variable: impl Fn(&str) -> Option<String>) -> Pixels {
    let has = |name| variable(name).is_some_and(|value| !value.is_empty());
    let (term, program) =
        (variable("TERM").unwrap_or_default(), variable("TERM_PROGRAM").unwrap_or_default());
    // Multiplexers draw on their own screen.
    if has("TMUX") || has("STY") || term.starts_with("tmux") || term.starts_with("screen") {
        return Pixels::Cells;
    }
    match (program.as_str(), term.as_str()) {
        ("ghostty", _) | (_, "xterm-kitty" | "xterm-ghostty") => Pixels::Kitty,
        ("iTerm.app" | "WezTerm" | "vscode" | "rio", _) => Pixels::Iterm2,
        _ if has("KONSOLE_VERSION") => Pixels::Iterm2,
        (_, term) if term.starts_with("foot") || term.starts_with("mlterm") || term.contains("sixel") => {
            Pixels::Sixel
        }
        _ => Pixels::Cells,
    }
}

/// Pictures for one terminal.
#[derive(Debug)]
pub(super) struct Graphics {
    how: Pixels,
    /// Size of a cell in pixels: rows and columns.
    font: [usize; 2],
    /// The picture that the screen should show, and whether it was sent.
    picture: Option<Picture>,
    sent: bool,
}

#[derive(Debug, PartialEq)]
struct Picture {
    cells: Rect,
    shape: [usize; 2],
    /// Red, green, blue and opacity of each pixel.
    pixels: Vec<u8>,
}

impl Graphics {
    /// Returns `None` if the terminal shows half blocks. `font` is the size of its cells in pixels (width and height), if it
    /// is known.
    pub(super) fn new(how: Pixels, font: Option<[u16; 2]>) -> Option<Self> {
        let font = font.filter(|size| size.iter().all(|n| *n > 0));
        let font = match (how, font) {
            (Pixels::Cells, _) => return None,
            (_, Some([width, height])) => [height, width].map(usize::from),
            // These scale pictures to cells.
            (Pixels::Kitty | Pixels::Iterm2, None) => [20, 10],
            (Pixels::Sixel, None) => return None,
        };
        Some(Self { how, font, picture: None, sent: false })
    }

    /// Number of pixels per cell along rows and columns, for a picture of this many cells. Pixels are squares if cells are
    /// twice as high as wide.
    pub(super) fn grain(&self, area: Rect) -> [usize; 2] {
        let cells = usize::from(area.width) * usize::from(area.height);
        let wide = self.font[1].min((MAX_PIXELS / (2 * cells.max(1))).isqrt()).max(1);
        [2 * wide, wide]
    }

    /// Draws a picture of `size` pixels (rows and columns), of which `grain` are in a cell. Returns the cells that it takes.
    pub(super) fn draw(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        size: [usize; 2],
        grain: [usize; 2],
        colour: impl Fn(usize, usize) -> Option<[u8; 3]>,
    ) -> Rect {
        let count = [0, 1].map(|d| size[d].div_ceil(grain[d].max(1)));
        let cells = Rect { width: count[1] as u16, height: count[0] as u16, ..area }.intersection(area);
        // Sixels are not scaled.
        let out = if self.how == Pixels::Sixel { self.font } else { grain };
        let shape = [usize::from(cells.height) * out[0], usize::from(cells.width) * out[1]];
        let mut pixels = Vec::with_capacity(4 * shape[0] * shape[1]);
        for y in 0..shape[0] {
            let row = y * grain[0] / out[0];
            for x in 0..shape[1] {
                let column = x * grain[1] / out[1];
                let known = if row < size[0] && column < size[1] { colour(row, column) } else { None };
                pixels.extend(known.map_or([0; 4], |[r, g, b]| [r, g, b, 255]));
            }
        }
        let picture = Some(Picture { cells, shape, pixels });
        if picture != self.picture {
            (self.picture, self.sent) = (picture, false);
        }
        for y in cells.top()..cells.bottom() {
            for x in cells.left()..cells.right() {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_diff_option(CellDiffOption::Skip);
                }
            }
        }
        cells
    }

    /// Notes that the screen was cleared.
    pub(super) fn cleared(&mut self) {
        self.sent = false;
    }

    /// Sends the picture if the screen does not show it yet.
    pub(super) fn send(&mut self, mut terminal: impl Write) -> Result<()> {
        let Some(picture) = self.picture.as_ref().filter(|_| !self.sent) else { return Ok(()) };
        let Rect { x, y, .. } = picture.cells;
        if self.how == Pixels::Kitty {
            remove(&mut terminal)?;
        }
        queue!(terminal, cursor::MoveTo(x, y))?;
        terminal.write_all(picture.message(self.how)?.as_bytes())?;
        terminal.flush()?;
        self.sent = true;
        Ok(())
    }

    /// Removes the picture in terminals where clearing the screen does not.
    pub(super) fn remove(&self, mut terminal: impl Write) -> Result<()> {
        match self.how {
            Pixels::Kitty => Ok(remove(&mut terminal)?),
            _ => Ok(()),
        }
    }
}

fn remove(terminal: &mut impl Write) -> std::io::Result<()> {
    write!(terminal, "\x1b_Ga=d,d=I,i={ID},q=2\x1b\\")?;
    terminal.flush()
}

impl Picture {
    /// The sequence that shows the picture at the cursor.
    fn message(&self, how: Pixels) -> Result<String> {
        let Rect { width, height, .. } = self.cells;
        let mut out = String::new();
        match how {
            Pixels::Kitty => {
                let data = BASE64.encode(&png::rgba(self.shape, &self.pixels)?);
                let mut head = format!("a=T,f=100,i={ID},c={width},r={height},C=1,q=2,");
                let mut rest = data.as_str();
                while !rest.is_empty() {
                    let (now, after) = rest.split_at(rest.len().min(MESSAGE));
                    let more = u8::from(!after.is_empty());
                    write!(out, "\x1b_G{head}m={more};{now}\x1b\\")?;
                    head.clear();
                    rest = after;
                }
            }
            Pixels::Iterm2 => {
                let data = png::rgba(self.shape, &self.pixels)?;
                write!(
                    out,
                    "\x1b]1337;File=inline=1;size={};width={width};height={height};preserveAspectRatio=0;doNotMoveCursor=1:{}\x07",
                    data.len(),
                    BASE64.encode(&data)
                )?;
            }
            Pixels::Sixel | Pixels::Cells => out = sixel::encode(self.shape, &self.pixels),
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Pixels {
        detect(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn terminals_are_known_by_their_variables() {
        assert_eq!(of(&[("TERM", "xterm-256color")]), Pixels::Cells);
        assert_eq!(of(&[("TERM", "xterm-kitty")]), Pixels::Kitty);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")]), Pixels::Iterm2);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("KONSOLE_VERSION", "240800")]), Pixels::Iterm2);
        assert_eq!(of(&[("TERM", "foot-extra")]), Pixels::Sixel);
        assert_eq!(of(&[("TERM", "screen-256color"), ("TERM_PROGRAM", "WezTerm")]), Pixels::Cells);
        assert_eq!(of(&[("TERM", "xterm-kitty"), ("TMUX", "default,1,0")]), Pixels::Cells);
        assert_eq!(of(&[]), Pixels::Cells);
    }

    #[test]
    fn pictures_have_a_limited_number_of_pixels() {
        let graphics = Graphics::new(Pixels::Kitty, Some([10, 20])).unwrap();
        assert_eq!(graphics.grain(Rect::new(0, 0, 40, 20)), [20, 10]);
        for (width, height) in [(200, 60), (1000, 1000), (1, 1), (0, 7)] {
            let area = Rect::new(0, 0, width, height);
            let [rows, columns] = graphics.grain(area);
            let cells = usize::from(width) * usize::from(height);
            assert!(rows * columns * cells <= MAX_PIXELS.max(2 * cells), "{area}");
        }
        assert!(
            Graphics::new(Pixels::Sixel, None).is_none()
                && Graphics::new(Pixels::Sixel, Some([0, 0])).is_none()
        );
        assert!(
            Graphics::new(Pixels::Kitty, None).is_some()
                && Graphics::new(Pixels::Cells, Some([8, 16])).is_none()
        );
    }

    #[test]
    fn a_picture_is_sent_once() {
        let area = Rect::new(3, 1, 4, 2);
        for how in [Pixels::Kitty, Pixels::Iterm2, Pixels::Sixel] {
            let mut graphics = Graphics::new(how, Some([10, 20])).unwrap();
            let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 5));
            let mut show = |graphics: &mut Graphics, red: u8| {
                let grain = graphics.grain(area);
                let mut out = Vec::new();
                graphics.draw(&mut buffer, area, [40, 30], grain, |_, _| Some([red, 0, 0]));
                graphics.send(&mut out).unwrap();
                out.len()
            };
            assert!(show(&mut graphics, 1) > 0, "{how:?}");
            assert_eq!(show(&mut graphics, 1), 0, "{how:?}");
            assert!(show(&mut graphics, 2) > 0, "{how:?}");
            graphics.cleared();
            assert!(show(&mut graphics, 2) > 0, "{how:?}");
        }
    }
}

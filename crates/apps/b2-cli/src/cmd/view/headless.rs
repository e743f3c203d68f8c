//! The screen without a terminal, for tests.

use anyhow::{Result, anyhow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
#[cfg(feature = "headless")]
use super::app::Key;
use super::request::ViewSource;
use super::screen::{ScreenLayout, draw};
use super::worker::Worker;

/// A screen of this size, drawn when everything is read.
pub(super) struct Headless {
    pub(super) app: App,
    worker: Worker,
    area: Rect,
}

impl Headless {
    pub(super) fn start(app: App, opening: ViewSource, [width, height]: [u16; 2]) -> Result<Self> {
        let area = Rect::new(0, 0, width, height);
        Ok(Self { app, worker: Worker::start(opening)?, area })
    }

    /// Waits until everything that the screen shows is read.
    pub(super) fn settle(&mut self) -> Result<()> {
        loop {
            let parts = ScreenLayout::of(self.area, &self.app);
            let look = self.app.look(parts.pixels(None), parts.cells());
            self.worker.ask(look.clone());
            self.app.reading = true;
            while self.app.reading {
                let response = self.worker.responses.recv().map_err(|_| anyhow!("reading has ended"))?;
                self.app.handle(response);
            }
            let parts = ScreenLayout::of(self.area, &self.app);
            if self.app.look(parts.pixels(None), parts.cells()) == look {
                return Ok(());
            }
        }
    }

    pub(super) fn buffer(&self, colours: bool) -> Buffer {
        let mut buffer = Buffer::empty(self.area);
        draw(&mut buffer, &self.app, colours, None);
        buffer
    }
}

/// The symbols of the cells, line by line.
pub(super) fn text(buffer: &Buffer) -> String {
    let line = |y: u16| {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    };
    (0..buffer.area.height).map(line).collect::<Vec<_>>().join("\n")
}

/// Presses keys, each after all pending reads, and returns the resulting contents of a screen of 100 x 30 cells.
///
/// # Errors
/// Fails if the file cannot be shown.
#[cfg(feature = "headless")]
pub(super) fn run(app: App, opening: ViewSource, keys: &str) -> Result<String> {
    let mut screen = Headless::start(app, opening, [100, 30])?;
    screen.settle()?;
    let App { facts, members, message, .. } = &mut screen.app;
    if facts.is_none() && members.is_empty() {
        return Err(anyhow!(message.take().unwrap_or_else(|| "it cannot be shown".into())));
    }
    for c in keys.chars() {
        screen.app.key(key(c));
        screen.settle()?;
        if screen.app.quit {
            break;
        }
    }
    Ok(text(&screen.buffer(false)) + "\n")
}

/// Keys without a letter are arrows and control characters.
#[cfg(feature = "headless")]
fn key(c: char) -> Key {
    match c {
        '\u{2191}' => Key::Up,
        '\u{2193}' => Key::Down,
        '\u{2190}' => Key::Left,
        '\u{2192}' => Key::Right,
        '\n' => Key::Enter,
        '\t' => Key::Tab,
        '\u{1b}' => Key::Escape,
        c => Key::Char(c),
    }
}

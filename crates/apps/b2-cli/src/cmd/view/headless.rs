//! The screen without a terminal: keys are pressed, and what the screen shows then is a text.

use anyhow::{Result, anyhow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Key};
use super::look::Opening;
use super::screen::{Parts, draw};
use super::worker::Worker;

/// The size of the screen in cells: columns and rows.
const SIZE: [u16; 2] = [100, 30];

/// A screen of this size, and what it shows when everything is read.
pub(super) struct Headless {
    pub(super) app: App,
    worker: Worker,
    area: Rect,
}

impl Headless {
    /// # Errors
    /// Fails if the thread that reads cannot be started.
    pub(super) fn start(app: App, opening: Opening, [width, height]: [u16; 2]) -> Result<Self> {
        let area = Rect::new(0, 0, width, height);
        Ok(Self { app, worker: Worker::start(opening)?, area })
    }

    /// Waits until everything that the screen shows is read.
    ///
    /// # Errors
    /// Fails if the thread that reads has ended.
    pub(super) fn settle(&mut self) -> Result<()> {
        loop {
            let parts = Parts::of(self.area, &self.app);
            let look = self.app.look(parts.pixels(None), parts.cells());
            self.worker.ask(look.clone());
            self.app.reading = true;
            while self.app.reading {
                let told = self.worker.told.recv().map_err(|_| anyhow!("reading has ended"))?;
                self.app.told(told);
            }
            let parts = Parts::of(self.area, &self.app);
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

    /// What the screen shows, without colours.
    pub(super) fn text(&self) -> String {
        text(&self.buffer(false))
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

/// Presses keys, each when everything before it was read, and returns what the screen shows then.
///
/// # Errors
/// Fails where the screen of a terminal is given back at once: if nothing can be shown.
pub(super) fn run(app: App, opening: Opening, keys: &str) -> Result<String> {
    let mut screen = Headless::start(app, opening, SIZE)?;
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
    Ok(screen.text() + "\n")
}

/// Keys without a letter are arrows and control characters.
fn key(c: char) -> Key {
    match c {
        '\u{2191}' => Key::Up,
        '\u{2193}' => Key::Down,
        '\u{2190}' => Key::Left,
        '\u{2192}' => Key::Right,
        '\u{21de}' => Key::PageUp,
        '\u{21df}' => Key::PageDown,
        '\u{21f1}' => Key::Home,
        '\u{21f2}' => Key::End,
        '\n' => Key::Enter,
        '\t' => Key::Tab,
        '\u{1b}' => Key::Escape,
        '\u{8}' => Key::Backspace,
        c => Key::Char(c),
    }
}

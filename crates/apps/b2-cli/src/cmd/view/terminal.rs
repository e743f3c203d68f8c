//! The loop between keys, the reader and the screen, and the terminal around it.

use std::io::{self, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEventKind, KeyModifiers, MouseButton,
    MouseEvent, MouseEventKind,
};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;

use super::app::{App, Key};
use super::graphics::{Graphics, Pixels};
use super::request::{ViewResponse, ViewSource};
use super::screen::{ScreenLayout, draw, pointed};
use super::worker::Worker;
use crate::print::colours;
use crate::process::signals;

/// Maximum wait for a key before checking for results of the reader.
const WAIT: Duration = Duration::from_millis(15);
/// Interval for rereading a followed file.
const FOLLOW: Duration = Duration::from_secs(1);

/// The terminal in raw mode, restored on drop. The restoring that ratatui would do on drop
/// is done here, since ratatui's prints to a terminal that may be gone, and panics.
struct TerminalGuard(ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>);

impl TerminalGuard {
    fn take() -> Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        enable_raw_mode()?;
        // From here on, dropping `self` restores the terminal.
        let taken = Self(ManuallyDrop::new(terminal));
        enter()?;
        Ok(taken)
    }

    /// Restores the terminal and stops, as Ctrl-Z does elsewhere, until the shell continues this process.
    #[cfg(unix)]
    fn suspend(&mut self) -> Result<()> {
        leave();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP)?;
        enable_raw_mode()?;
        enter()?;
        self.clear()
    }

    /// Clears the screen, so that everything is sent again. `Terminal::clear` would query the cursor position, and the response
    /// would mix with the keys.
    fn clear(&mut self) -> Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.0.swap_buffers();
        Ok(())
    }

    /// Draws everything. Returns the area with pixels.
    fn show(&mut self, app: &App, colours: bool, graphics: Option<&mut Graphics>) -> Result<Option<Rect>> {
        let mut pixels = None;
        self.0.draw(|frame| pixels = draw(frame.buffer_mut(), app, colours, graphics))?;
        Ok(pixels)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        leave();
    }
}

/// Switches to the alternate screen.
fn enter() -> io::Result<()> {
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide, EnableMouseCapture)
}

/// Restores the terminal.
fn leave() {
    // Nothing can be done about a terminal that is gone.
    let _ = execute!(io::stdout(), DisableMouseCapture, cursor::Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// Shows a file until the user quits.
///
/// # Errors
/// Fails if the terminal fails, or if the first read fails, in which case nothing was shown.
pub(super) fn run(mut app: App, opening: ViewSource, pixels: Pixels) -> Result<()> {
    let global = opening.global;
    let worker = Worker::start(opening)?;
    signals::begin();
    let (mut times, mut pictures) = (Vec::new(), Vec::new());
    let shown = (|| {
        let mut taken = TerminalGuard::take()?;
        let colours = colours();
        let mut graphics = if colours { Graphics::new(pixels, font()) } else { None };
        // The area with pixels.
        let mut covered = None;
        let (mut asked, mut changed, mut followed) = (None, true, Instant::now());
        // The times of the last key, and of the key that requested the current read.
        let (mut pressed, mut awaited): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            signals::check()?;
            let mut arrived = false;
            loop {
                let response = match worker.responses.try_recv() {
                    Ok(response) => response,
                    Err(TryRecvError::Disconnected) if app.reading => {
                        ViewResponse::Failed("reading has ended unexpectedly".into())
                    }
                    Err(_) => break,
                };
                arrived |= !matches!(response, ViewResponse::Done);
                app.handle(response);
                changed = true;
            }
            if app.facts.is_none() && app.members.is_empty() && !app.reading {
                let why = app.message.take().unwrap_or_else(|| "it cannot be shown".into());
                return Err(anyhow!(why));
            }
            if app.quit {
                if let Some(graphics) = &mut graphics {
                    graphics.remove(io::stdout())?;
                }
                return Ok(());
            }
            if followed.elapsed() >= FOLLOW {
                app.tick();
                followed = Instant::now();
            }
            let size = taken.0.size()?;
            let area = Rect::new(0, 0, size.width, size.height);
            let parts = ScreenLayout::of(area, &app);
            let look = app.look(parts.pixels(graphics.as_ref()), parts.cells());
            if asked.as_ref() != Some(&look) {
                worker.ask(look.clone());
                asked = Some(look);
                awaited = pressed;
                arrived = false;
                app.reading = true;
                changed = true;
            }
            if changed {
                let now = taken.show(&app, colours, graphics.as_mut())?;
                if let Some(graphics) = &mut graphics {
                    if covered.is_some() && covered != now {
                        // Text does not remove pixels.
                        graphics.remove(io::stdout())?;
                        graphics.cleared();
                        taken.clear()?;
                        taken.show(&app, colours, Some(graphics))?;
                    }
                    if now.is_some() {
                        graphics.send(io::stdout())?;
                    }
                }
                covered = now;
                changed = false;
                times.extend(pressed.take().map(|at| at.elapsed()));
                pictures.extend(awaited.take_if(|_| arrived).map(|at| at.elapsed()));
            }
            if is_event(Duration::ZERO)? || is_event(WAIT)? {
                let start = Instant::now();
                match event::read()? {
                    #[cfg(unix)]
                    Event::Key(key)
                        if key.code == KeyCode::Char('z') && key.modifiers == KeyModifiers::CONTROL =>
                    {
                        taken.suspend()?;
                        if let Some(graphics) = &mut graphics {
                            graphics.cleared();
                        }
                        changed = true;
                    }
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if let Some(key) = translate(key.code, key.modifiers) {
                            app.key(key);
                            pressed = Some(start);
                        }
                        changed = true;
                    }
                    Event::Mouse(mouse) if point(&mut app, mouse, area, graphics.as_ref()) => {
                        (pressed, changed) = (Some(start), true);
                    }
                    Event::Resize(..) => {
                        // The screen is cleared for the new size.
                        if let Some(graphics) = &mut graphics {
                            graphics.cleared();
                        }
                        changed = true;
                    }
                    _ => {}
                }
            }
        }
    })();
    signals::end();
    global.log(|| latency_line("keys answered", &mut times));
    global.log(|| latency_line("of these, first new pictures", &mut pictures));
    shown
}

/// Waits for an event, up to this duration.
///
/// # Errors
/// Fails if the terminal was closed while this process ignores SIGHUP. In that case `event::poll` would never
/// return.
fn is_event(wait: Duration) -> Result<bool> {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdin = io::stdin();
        let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
        // Signals, such as SIGWINCH, end it early.
        let _ = poll(&mut keys, Timespec::try_from(wait).ok().as_ref());
        if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(anyhow!("the terminal is gone"));
        }
        Ok(event::poll(Duration::ZERO)?)
    }
    #[cfg(not(unix))]
    Ok(event::poll(wait)?)
}

fn latency_line(what: &str, times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| {
        let time = times.get(times.len() * share / 100).or(times.last()).copied().unwrap_or_default();
        time.as_secs_f64() * 1e3
    };
    format!(
        "{} {what}: half within {:.1} ms, 95 % within {:.1} ms, all within {:.1} ms",
        times.len(),
        at(50),
        at(95),
        at(100)
    )
}

fn translate(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    if modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(code, KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

/// Handles the mouse. Returns whether anything changed.
fn point(app: &mut App, mouse: MouseEvent, area: Rect, graphics: Option<&Graphics>) -> bool {
    let closer = match mouse.kind {
        MouseEventKind::Moved | MouseEventKind::Down(MouseButton::Left) => None,
        MouseEventKind::Drag(MouseButton::Left) => None,
        MouseEventKind::ScrollUp => Some(true),
        MouseEventKind::ScrollDown => Some(false),
        _ => return false,
    };
    let Some(places) = pointed(area, app, graphics, [mouse.row, mouse.column]) else { return false };
    app.point(places);
    if let Some(closer) = closer {
        app.zoom(closer);
    }
    true
}

/// Width and height of a cell in pixels, if the terminal reports them.
fn font() -> Option<[u16; 2]> {
    let size = ratatui::crossterm::terminal::window_size().ok()?;
    Some([size.width.checked_div(size.columns)?, size.height.checked_div(size.rows)?])
}

//! A progress bar on standard error, for long work in a terminal.

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// No bar is shown for shorter work.
const QUIET_TIME: Duration = Duration::from_millis(700);
/// The rate is shown after this time, since at first it depends mostly on the startup.
const RATE_TIME: Duration = Duration::from_secs(2);
/// In terminals with fewer columns, only the bar and the percentage are shown.
const NARROW: u16 = 60;

/// What the bar shows on a terminal with `columns` columns.
fn template(columns: u16) -> &'static str {
    if columns < NARROW {
        "{wide_bar} {percent:>3}%"
    } else {
        "{name} {wide_bar} {binary_bytes}/{binary_total_bytes}{rate}"
    }
}

/// The style of the bar. The name of the file is limited to a third of the line.
fn style(columns: u16, name: &str) -> Option<ProgressStyle> {
    let most = usize::from(columns / 3);
    let name = match name.chars().count() {
        n if n > most => format!("...{}", name.chars().skip(n - most.saturating_sub(3)).collect::<String>()),
        _ => name.to_owned(),
    };
    let style = ProgressStyle::with_template(template(columns)).ok()?;
    let named = move |_: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = out.write_str(&name);
    };
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        if state.elapsed() >= RATE_TIME {
            // The mean rate so far: a momentary rate would jump, since reading and writing are in large pieces.
            let rate = state.pos() as f64 / state.elapsed().as_secs_f64();
            let left = state.len().unwrap_or(0).saturating_sub(state.pos()) as f64 / rate.max(1.0);
            let left = HumanDuration(Duration::from_secs_f64(left.min(1e9)));
            let _ = write!(out, "  {}/s  {left:#}", BinaryBytes(rate as u64));
        }
    };
    Some(style.with_key("name", named).with_key("rate", rate))
}

/// Counts bytes, and draws a bar if the work takes long. The bar disappears on drop.
pub(crate) struct Progress {
    what: String,
    total: u64,
    done: u64,
    /// `None` if nothing is ever drawn.
    start: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `total` is in bytes. Draws nothing when `quiet` or when standard error is not a terminal.
    pub(crate) fn new(what: impl Into<String>, total: u64, quiet: bool) -> Self {
        let drawn = !quiet && io::stderr().is_terminal();
        Self { what: what.into(), total, done: 0, start: drawn.then(Instant::now), bar: None }
    }

    /// Adds `nbytes` to the bytes that are done.
    pub(crate) fn add(&mut self, nbytes: u64) {
        self.done += nbytes;
        if self.bar.is_none() && self.start.is_some_and(|start| start.elapsed() > QUIET_TIME) {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(Some(self.total), target).with_elapsed(QUIET_TIME);
            let columns = console::Term::stderr().size().1;
            if let Some(style) = style(columns, &self.what) {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// Keeps the line that was drawn last.
    #[derive(Clone, Debug)]
    struct Recorder {
        columns: u16,
        line: Arc<Mutex<String>>,
    }

    impl TermLike for Recorder {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.line.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.line.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The line that a terminal shows at half of the work, `elapsed` after its start.
    fn drawn(columns: u16, elapsed: Duration) -> String {
        let terminal = Recorder { columns, line: Arc::default() };
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(Some(4 << 20), target).with_elapsed(elapsed);
        bar.set_style(style(columns, "a/long/path/to/some/temperature_2020_2021_2022.npy").unwrap());
        bar.set_position(2 << 20);
        terminal.line.lock().unwrap().clear();
        bar.tick();
        terminal.line.lock().unwrap().trim_end().to_owned()
    }

    #[test]
    fn the_bar_fits_and_shows_no_rate_at_first() {
        for columns in [20, 30, 59, 60, 80, 200] {
            for elapsed in [QUIET_TIME, Duration::from_secs(10)] {
                let line = drawn(columns, elapsed);
                assert!(!line.is_empty() && !line.contains('\n'), "{columns} columns: {line}");
                assert!(line.chars().count() <= usize::from(columns), "{columns} columns: {line}");
                let has_rate = columns >= NARROW && elapsed >= RATE_TIME;
                assert_eq!(line.contains("iB/s"), has_rate, "{columns} columns: {line}");
            }
        }
        assert!(drawn(30, QUIET_TIME).contains("50%"));
        assert!(drawn(200, QUIET_TIME).contains("temperature_2020_2021_2022.npy"));
    }
}

//! A progress bar on standard error, for long work watched by a person.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
const QUIET_TIME: Duration = Duration::from_millis(700);
const TEMPLATE: &str = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta}";

/// Counts bytes; draws a bar once the work turns out to be long. Vanishes when dropped.
pub(crate) struct Progress {
    what: String,
    total: u64,
    done: u64,
    /// `None`: never draw.
    start: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `total` is in bytes. Draws nothing when `quiet` or when standard error is not a terminal.
    pub(crate) fn new(what: impl Into<String>, total: u64, quiet: bool) -> Self {
        let drawn = !quiet && io::stderr().is_terminal();
        Self { what: what.into(), total, done: 0, start: drawn.then(Instant::now), bar: None }
    }

    /// Another `nbytes` are done.
    pub(crate) fn add(&mut self, nbytes: u64) {
        self.done += nbytes;
        if self.bar.is_none() && self.start.is_some_and(|start| start.elapsed() > QUIET_TIME) {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(Some(self.total), target)
                .with_message(self.what.clone())
                .with_elapsed(QUIET_TIME);
            if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
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

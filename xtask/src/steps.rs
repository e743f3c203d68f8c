//! The steps of a long task: announces the current one, and measures how long each takes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Announces each step and records its time.
pub(crate) struct Steps {
    started: Instant,
    total: usize,
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Creates the steps of a task; `total` is their number.
    pub(crate) fn new(total: usize) -> Self {
        Self { started: Instant::now(), total, done: Vec::new() }
    }

    /// Counts what was done before the first step, in the table and in the sum.
    pub(crate) fn after(mut self, what: &str, taken: Duration) -> Self {
        if let Some(started) = self.started.checked_sub(taken) {
            self.started = started;
            self.total += 1;
            self.done.push((what.to_owned(), taken));
        }
        self
    }

    /// Runs the next step, and prints its name before and after it.
    pub(crate) fn run<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let step = format!("step {} of {}: {what}", self.done.len() + 1, self.total);
        println!("\n{step}");
        let started = Instant::now();
        let outcome = work();
        let taken = started.elapsed();
        let word = if outcome.is_ok() { "done in" } else { "FAILED after" };
        println!("{step}: {word} {}", minutes(taken));
        self.done.push((what.to_owned(), taken));
        outcome
    }

    /// Prints the steps with their times; returns an error if one was left out.
    pub(crate) fn finish(&self) -> Result<()> {
        let width = self.done.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0);
        println!("\n{:width$}  {:>12}", "step", "time");
        for (what, taken) in &self.done {
            println!("{what:width$}  {:>12}", minutes(*taken));
        }
        println!("{:width$}  {:>12}", "all", minutes(self.started.elapsed()));
        ensure!(self.done.len() == self.total, "{} of {} steps were run", self.done.len(), self.total);
        Ok(())
    }
}

/// Returns how long ago the command was typed that became this process, if the system tells. `cargo run` builds a program
/// and then becomes it, so this includes the build.
pub(crate) fn since_typed() -> Option<Duration> {
    // Ticks since the start of the system; the second field is a name that may contain anything.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let started: f64 = after_name.split(' ').nth(19)?.parse().ok()?;
    let now: f64 = std::fs::read_to_string("/proc/uptime").ok()?.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(now - started / TICKS_PER_SECOND).ok()
}

/// Formats a time for people, such as `2 min 05 s`.
pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_left_out_is_an_error() {
        let mut steps = Steps::new(2);
        assert_eq!(steps.run("one", || Ok(7)).unwrap(), 7);
        assert!(steps.finish().is_err());
        assert!(steps.run("two", || -> Result<()> { anyhow::bail!("no") }).is_err());
        assert!(steps.finish().is_ok());
    }

    #[test]
    fn what_was_done_before_counts() {
        let mut steps = Steps::new(1).after("before", Duration::from_millis(5));
        steps.run("one", || Ok(())).unwrap();
        assert!(steps.finish().is_ok());
        assert_eq!(steps.done.len(), 2);
        assert!(steps.started.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_start_of_the_process_is_known() {
        let before = since_typed().unwrap();
        std::thread::sleep(Duration::from_millis(40));
        let after = since_typed().unwrap();
        assert!(after > before && after < before + Duration::from_secs(3600), "{before:?} {after:?}");
    }

    #[test]
    fn times_are_rounded_to_seconds() {
        let text = |ms| minutes(Duration::from_millis(ms));
        assert_eq!(
            [text(400), text(59_400), text(59_600), text(125_000)],
            ["0 s", "59 s", "1 min 00 s", "2 min 05 s"]
        );
    }
}

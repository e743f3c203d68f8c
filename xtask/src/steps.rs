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
    fn times_are_rounded_to_seconds() {
        let text = |ms| minutes(Duration::from_millis(ms));
        assert_eq!(
            [text(400), text(59_400), text(59_600), text(125_000)],
            ["0 s", "59 s", "1 min 00 s", "2 min 05 s"]
        );
    }
}

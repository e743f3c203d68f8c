//! The steps of a long task: announces each one, and measures how long it takes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// The number of steps that were announced, and of all.
pub(crate) struct Steps(usize, usize);

impl Steps {
    /// Creates the steps of a task; `total` is their number.
    pub(crate) fn new(total: usize) -> Self {
        Self(0, total)
    }

    /// Runs the next step, and prints its name before and after it.
    pub(crate) fn run<T>(&mut self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.0 += 1;
        let step = format!("step {} of {}: {what}", self.0, self.1);
        println!("\n{step}");
        let started = Instant::now();
        let outcome = work();
        let word = if outcome.is_ok() { "done in" } else { "FAILED after" };
        println!("{step}: {word} {}", minutes(started.elapsed()));
        outcome
    }

    /// Returns an error if a step was skipped.
    pub(crate) fn finish(&self) -> Result<()> {
        ensure!(self.0 == self.1, "{} of {} steps were run", self.0, self.1);
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
}

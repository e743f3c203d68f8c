//! Wall time and the CPU time of this process.

use std::time::{Duration, Instant};

/// What passed between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) wall: f64,
    /// All threads together, in seconds. Wall time where the system does not tell.
    pub(super) cpu: f64,
}

/// A moment.
pub(super) struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    pub(super) fn start() -> Self {
        let cpu = process_cpu();
        Self { wall: Instant::now(), cpu }
    }

    pub(super) fn wall(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    pub(super) fn stop(self) -> Spent {
        let wall = self.wall();
        let cpu = match (self.cpu, process_cpu()) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64(),
            _ => wall,
        };
        Spent { wall, cpu }
    }
}

#[cfg(unix)]
fn process_cpu() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(unix))]
fn process_cpu() -> Option<Duration> {
    None
}

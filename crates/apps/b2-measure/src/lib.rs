//! Shared by programs that measure the speed of Blosc2: a clock, repetition, statistics and random positions.
//!
//! Used by `b2kit bench`, and by the programs of `benches/bench.py`.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// The duration of some work, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeSpent {
    /// Wall-clock time.
    pub wall: f64,
    /// CPU time of all threads together, or wall time if the system does not report it.
    pub cpu: f64,
}

/// A running stopwatch for wall time and the CPU time of this process.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    /// Starts the stopwatch.
    #[must_use]
    pub fn start() -> Self {
        let cpu = process_cpu();
        Self { wall: Instant::now(), cpu }
    }

    /// Returns the wall time since the start, in seconds.
    #[must_use]
    pub fn wall(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn stop(self) -> TimeSpent {
        let wall = self.wall();
        let cpu = match (self.cpu, process_cpu()) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64(),
            _ => wall,
        };
        TimeSpent { wall, cpu }
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

/// Measures up to `times` times, until `budget` seconds of wall time are spent; at least once.
///
/// # Errors
/// The first error of `measure`.
pub fn repeat<E>(
    times: usize,
    budget: f64,
    mut measure: impl FnMut() -> Result<TimeSpent, E>,
) -> Result<Vec<TimeSpent>, E> {
    // Count at least this much per run, so that the loop ends even if the clock does not advance.
    const MIN_SECONDS: f64 = 1e-6;
    let (mut all, mut total) = (Vec::new(), 0.0);
    while all.is_empty() || (all.len() < times && total < budget) {
        let spent = measure()?;
        total += spent.wall.max(MIN_SECONDS);
        all.push(spent);
    }
    Ok(all)
}

/// Returns the smallest value; infinity if there are no values.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the median, which for an even number is the mean of the two middle values; NaN if there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// Returns the smallest and the largest value.
pub fn spread(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold((f64::INFINITY, 0.0), |(low, high), x| (low.min(x), high.max(x)))
}

/// Returns the geometric mean; `None` if there are no values.
pub fn geomean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0u32);
    for value in values {
        sum += value.ln();
        n += 1;
    }
    (n > 0).then(|| (sum / f64::from(n)).exp())
}

/// Returns a table in Markdown: the head and the rows have their cells separated by ` | `.
pub fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let line = "| --- ".repeat(head.split(" | ").count());
    let rows = rows.into_iter().map(|row| format!("| {row} |\n"));
    format!("| {head} |\n{line}|\n{}", rows.collect::<String>())
}

/// The SplitMix64 random number generator. Programs that share the seed access the same items.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_until_the_budget_is_spent_and_at_least_once() {
        let measure = || Ok::<_, ()>(TimeSpent { wall: 0.4, cpu: 0.1 });
        assert_eq!(repeat(10, 1.0, measure).unwrap().len(), 3);
        assert_eq!(repeat(2, 1.0, measure).unwrap().len(), 2);
        assert_eq!(repeat(0, 0.0, measure).unwrap(), [TimeSpent { wall: 0.4, cpu: 0.1 }]);
        assert_eq!(repeat(usize::MAX, 99.5e-6, || Ok::<_, ()>(TimeSpent::default())).unwrap().len(), 100);
        assert_eq!(repeat(10, 1.0, || Err("no")), Err("no"));
    }

    #[test]
    fn the_clock_goes_forward() {
        let clock = Clock::start();
        let spun = (0..1_000_000u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        assert!(clock.wall() > 0.0, "{spun}");
        let spent = clock.stop();
        assert!(spent.wall > 0.0 && spent.cpu >= 0.0);
    }

    #[test]
    fn statistics() {
        assert_eq!(median([3.0, 1.0, 2.0, 10.0]), 2.5);
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert!(median([]).is_nan());
        assert_eq!(least([3.0, 1.0, 2.0]), 1.0);
        assert_eq!(spread([3.0, 1.0, 2.0]), (1.0, 3.0));
        assert!((geomean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geomean([]), None);
    }

    #[test]
    fn tables_have_a_line_below_the_head() {
        assert_eq!(table("a | b", ["1 | 2".into()]), "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        // The test vector of the reference implementation by Sebastiano Vigna for seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let numbers = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), numbers);
    }
}

//! What programs that time Blosc2 share: a clock, repetition, statistics and random places.
//!
//! `b2kit bench`, the peer program behind `cargo xtask bench` and `cargo xtask bench` itself use it.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// The time that a piece of work took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Time on the clock.
    pub wall: f64,
    /// CPU time of all threads together. Wall time where the system does not tell.
    pub cpu: f64,
}

/// A running stopwatch of wall time and of the CPU time of this process.
pub struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    /// Starts to measure.
    #[must_use]
    pub fn start() -> Self {
        let cpu = process_cpu();
        Self { wall: Instant::now(), cpu }
    }

    /// Wall time since the start, in seconds.
    #[must_use]
    pub fn wall(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    /// Time since the start.
    #[must_use]
    pub fn stop(self) -> Spent {
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

/// Measures up to `times` times, until `budget` seconds of wall time are spent; at least once.
///
/// # Errors
/// The first error of `measure`.
pub fn repeat<E>(
    times: usize,
    budget: f64,
    mut measure: impl FnMut() -> Result<Spent, E>,
) -> Result<Vec<Spent>, E> {
    // A clock that stands still must not keep us here.
    const LEAST: f64 = 1e-6;
    let (mut all, mut total) = (Vec::new(), 0.0);
    while all.is_empty() || (all.len() < times && total < budget) {
        let spent = measure()?;
        total += spent.wall.max(LEAST);
        all.push(spent);
    }
    Ok(all)
}

/// The smallest value; infinite without values.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// The median, the mean of both middle values of an even number; NaN without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// The geometric mean; `None` without values.
pub fn geomean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0u32);
    for value in values {
        sum += value.ln();
        n += 1;
    }
    (n > 0).then(|| (sum / f64::from(n)).exp())
}

/// The random numbers of SplitMix64, from a seed: programs that share the seed ask for the same items.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_until_the_budget_is_spent_and_at_least_once() {
        let measure = || Ok::<_, ()>(Spent { wall: 0.4, cpu: 0.1 });
        assert_eq!(repeat(10, 1.0, measure).unwrap().len(), 3);
        assert_eq!(repeat(2, 1.0, measure).unwrap().len(), 2);
        assert_eq!(repeat(0, 0.0, measure).unwrap(), [Spent { wall: 0.4, cpu: 0.1 }]);
        assert_eq!(repeat(usize::MAX, 99.5e-6, || Ok::<_, ()>(Spent::default())).unwrap().len(), 100);
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
        assert!((geomean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geomean([]), None);
    }

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        // The test vector of the reference implementation by Sebastiano Vigna for seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let numbers = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), numbers);
    }
}

//! Statistics of requests to remote storage, which determine what is fetched together and how many requests are in
//! flight.

use std::f64::consts::SQRT_2;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Statistics of the requests to a storage: latency, and bytes per second.
///
/// Storage that shows it ([`ReadAt::request_stats`](crate::ReadAt::request_stats)) is read with more requests in flight if responses take
/// long, and with smaller or larger gaps ([`ReadTuning::adaptive`](crate::ReadTuning::adaptive)).
#[derive(Debug, Default)]
pub struct RequestStats(Mutex<Latencies>);

#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    /// Number of requests in flight.
    flying: u32,
    /// The shortest time that a request took.
    latency: Option<Duration>,
    /// Bytes per second of all requests together: a moving average.
    rate: f64,
    /// Number of requests from which `rate` was computed.
    samples: u32,
}

/// A request in flight. Dropping it without [`end`](Self::end) means that it failed.
#[derive(Debug)]
pub struct RequestTimer<'p> {
    request_stats: &'p RequestStats,
    /// Browsers have no such clock.
    start: Option<Instant>,
    answered: Option<(u64, Duration)>,
}

/// Minimum latency of distant storage.
const FAR_LATENCY: Duration = Duration::from_millis(10);
/// Minimum latency of very distant storage.
const VERY_FAR_LATENCY: Duration = Duration::from_millis(40);
/// Number of requests in flight to near, distant and very distant storage.
const IN_FLIGHT: [usize; 3] = [16, 32, 64];
/// Smaller responses are ignored for the rate.
const MIN_RATED_LEN: u64 = 128 << 10;
/// The rate is known after this many large responses.
const MIN_RATED_ANSWERS: u32 = 4;
/// The gaps to choose from, in bytes: few, so that reads do not change with every response.
const GAPS: [u64; 7] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, MAX_GAP];
const MAX_GAP: u64 = 1 << 20;

impl RequestStats {
    /// Begins a request.
    pub fn begin(&self) -> RequestTimer<'_> {
        let mut seen = self.lock();
        seen.flying = seen.flying.saturating_add(1);
        let has_clock = !cfg!(all(target_family = "wasm", target_os = "unknown"));
        RequestTimer { request_stats: self, start: has_clock.then(Instant::now), answered: None }
    }

    /// Returns how many requests should be in flight, at most `most`: more of them if responses take long.
    pub fn in_flight(&self, most: usize) -> usize {
        let [near, far, very_far] = IN_FLIGHT;
        let wanted = match self.lock().latency {
            Some(latency) if latency >= VERY_FAR_LATENCY => very_far,
            Some(latency) if latency >= FAR_LATENCY => far,
            _ => near,
        };
        wanted.min(most).max(1)
    }

    /// Returns the largest gap between two ranges that is read with them, of `most` requests in flight. A further
    /// request takes its share of the latency, and gaps of fewer bytes than would arrive in that time are not worth
    /// one. `None` if too little is known, or if the latency hardly matters.
    pub(crate) fn gap(&self, most: usize) -> Option<u64> {
        let Latencies { latency, rate, samples, .. } = *self.lock();
        let latency = latency.filter(|latency| *latency >= FAR_LATENCY && samples >= MIN_RATED_ANSWERS)?;
        let gap = rate * latency.as_secs_f64() / self.in_flight(most) as f64;
        let near = |size: &u64| gap < *size as f64 * SQRT_2;
        Some(GAPS.into_iter().find(near).unwrap_or(MAX_GAP))
    }

    fn saw(&self, answered: Option<(u64, Duration)>) {
        let mut seen = self.lock();
        let flying = f64::from(seen.flying);
        seen.flying = seen.flying.saturating_sub(1);
        let Some((bytes, took)) = answered else { return };
        let latency = seen.latency.map_or(took, |latency| latency.min(took));
        seen.latency = Some(latency);
        let transfer = took.saturating_sub(latency).as_secs_f64();
        if bytes >= MIN_RATED_LEN && transfer > 0.0 {
            seen.samples = seen.samples.saturating_add(1);
            // The others in flight get as much.
            let rate = bytes as f64 / transfer * flying;
            seen.rate += (rate - seen.rate) / f64::from(seen.samples.min(16));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Latencies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTimer<'_> {
    /// Ends the request, whose answer has this many bytes.
    pub fn end(mut self, bytes: u64) {
        self.answered = self.start.map(|start| (bytes, start.elapsed()));
    }
}

impl Drop for RequestTimer<'_> {
    fn drop(&mut self) {
        self.request_stats.saw(self.answered);
    }
}

/// Statistics after `count` concurrent requests of `bytes`, each answered after `ms`, and a small one that took
/// `latency`.
#[cfg(test)]
pub(crate) fn seen(latency: u64, count: u32, bytes: u64, ms: u64) -> RequestStats {
    let request_stats = RequestStats::default();
    request_stats.lock().flying = 1;
    request_stats.saw(Some((100, Duration::from_millis(latency))));
    for _ in 0..count {
        request_stats.lock().flying = count;
        request_stats.saw(Some((bytes, Duration::from_millis(ms))));
    }
    request_stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_storage_gets_more_requests() {
        assert_eq!(RequestStats::default().in_flight(64), 16);
        for (latency, expected) in [(0, 16), (9, 16), (10, 32), (39, 32), (40, 64), (300, 64)] {
            assert_eq!(seen(latency, 0, 0, 0).in_flight(64), expected, "{latency} ms");
            assert_eq!(seen(latency, 0, 0, 0).in_flight(4), 4);
        }
        // The shortest time counts: any request may be held up.
        let quick = seen(100, 0, 0, 0);
        quick.lock().flying = 1;
        quick.saw(Some((100, Duration::from_millis(1))));
        assert_eq!(quick.in_flight(64), 16);
        assert_eq!(quick.in_flight(0), 1);
    }

    #[test]
    fn gaps_follow_latency_and_rate() {
        // Nothing is known of the rate, or all is near.
        assert_eq!(RequestStats::default().gap(64), None);
        assert_eq!(seen(20, 0, 0, 0).gap(64), None);
        assert_eq!(seen(20, 3, 1 << 20, 100).gap(64), None);
        assert_eq!(seen(20, 32, 1 << 10, 100).gap(64), None);
        assert_eq!(seen(1, 32, 1 << 20, 100).gap(64), None);
        // 32 MiB in a second: 20 ms are worth 655 KiB, of which each of 32 requests gets 20.
        assert_eq!(seen(20, 32, 1 << 20, 1020).gap(64), Some(16 << 10));
        // 10 times as fast.
        assert_eq!(seen(20, 32, 1 << 20, 120).gap(64), Some(256 << 10));
        // A slow and a very fast line.
        assert_eq!(seen(80, 16, 1 << 20, 60_000).gap(64), Some(16 << 10));
        assert_eq!(seen(80, 16, 8 << 20, 81).gap(64), Some(1 << 20));
    }

    #[test]
    fn failed_requests_are_no_measure() {
        let request_stats = RequestStats::default();
        drop(request_stats.begin());
        let flight = request_stats.begin();
        assert_eq!(request_stats.lock().flying, 1);
        flight.end(5);
        let seen = *request_stats.lock();
        assert!(seen.flying == 0 && seen.latency.is_some() && seen.samples == 0);
    }
}

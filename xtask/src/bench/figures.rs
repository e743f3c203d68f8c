//! Computes figures from times: the best repeat of each round, the ratio of each round, the median of all rounds.

use anyhow::{Context, Result};
use b2_measure::{Spent, median, spread};
use serde_json::Value;

/// Returns the order of the sides in this round, true for ours. The first one alternates.
pub(super) fn sides(round: usize) -> [bool; 2] {
    [!round.is_multiple_of(2), round.is_multiple_of(2)]
}

/// One operation, measured on both sides in the same rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    /// The best repeat of each round.
    pub(super) c: Vec<Spent>,
    pub(super) ours: Vec<Spent>,
    pub(super) threads: usize,
    /// Uncompressed bytes of one repeat, and number of calls.
    pub(super) bytes: f64,
    pub(super) calls: f64,
    /// Uncompressed size, and both compressed ones.
    pub(super) nbytes: f64,
    pub(super) our_cbytes: f64,
    pub(super) c_cbytes: f64,
}

impl Pair {
    /// Adds the best repeat of a round: a line of output from one side.
    pub(super) fn note(&mut self, ours: bool, line: &Value) -> Result<()> {
        let number = |key: &str| line[key].as_f64().with_context(|| format!("a line without {key}"));
        (self.nbytes, self.bytes, self.calls) =
            (number("nbytes")?, number("bytes_per_rep")?, number("calls")?);
        let (cbytes, times) = match ours {
            true => (&mut self.our_cbytes, &mut self.ours),
            false => (&mut self.c_cbytes, &mut self.c),
        };
        *cbytes = number("cbytes")?;
        times.push(Spent { wall: number("min_s")?, cpu: number("cpu_min_s")? });
        Ok(())
    }

    /// Returns the ratio of our size to C's.
    pub(super) fn size(&self) -> f64 {
        self.our_cbytes / self.c_cbytes
    }

    /// Returns the CPU time for one thread, because other load affects it less, and otherwise the wall time.
    fn figure(&self, time: &Spent) -> f64 {
        if self.threads == 1 { time.cpu } else { time.wall }
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.c.iter().zip(&self.ours).map(|(c, ours)| self.figure(c) / self.figure(ours))
    }

    /// Returns the speed ratio of this project to C.
    pub(super) fn ratio(&self) -> f64 {
        median(self.ratios())
    }

    /// Returns the lowest and the highest ratio of a round.
    pub(super) fn spread(&self) -> (f64, f64) {
        spread(self.ratios())
    }

    /// Returns the speeds in GB/s of uncompressed bytes: ours, C's.
    pub(super) fn speeds(&self) -> (f64, f64) {
        let speed = |times: &[Spent]| self.bytes / median(times.iter().map(|time| self.figure(time))) / 1e9;
        (speed(&self.ours), speed(&self.c))
    }

    /// Returns the microseconds per call: ours, C's.
    pub(super) fn micros(&self) -> (f64, f64) {
        let micros =
            |times: &[Spent]| median(times.iter().map(|time| self.figure(time))) / self.calls.max(1.0) * 1e6;
        (micros(&self.ours), micros(&self.c))
    }

    /// Returns how much faster `many`, measured with more threads, is than this with one thread, in wall time: ours,
    /// C's.
    pub(super) fn gains(&self, many: &Self) -> (f64, f64) {
        let gain = |one: &[Spent], many: &[Spent]| {
            median(one.iter().zip(many).map(|(one, many)| one.wall / many.wall))
        };
        (gain(&self.ours, &many.ours), gain(&self.c, &many.c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(threads: usize, c: &[(f64, f64)], ours: &[(f64, f64)]) -> Pair {
        let times = |list: &[(f64, f64)]| list.iter().map(|&(wall, cpu)| Spent { wall, cpu }).collect();
        Pair { c: times(c), ours: times(ours), threads, bytes: 1e9, calls: 10.0, ..Pair::default() }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds() {
        // Rounds with ratios of 2.0, 4.0 and 1.0: a burst of load that hits both sides of a round changes nothing.
        let rounds = (&[(9.0, 2.0), (9.0, 40.0), (9.0, 3.0)], &[(1.0, 1.0), (1.0, 10.0), (3.0, 3.0)]);
        assert_eq!(pair(1, rounds.0, rounds.1).ratio(), 2.0);
        assert_eq!(pair(1, rounds.0, rounds.1).spread(), (1.0, 4.0));
        assert_eq!(pair(2, rounds.0, rounds.1).ratio(), 9.0, "wall time");
        assert_eq!(pair(2, rounds.0, rounds.1).speeds(), (1.0, 1.0 / 9.0));
    }

    #[test]
    fn gains_are_in_wall_time() {
        let one = pair(1, &[(4.0, 1.0)], &[(6.0, 1.0)]);
        let two = pair(2, &[(4.0, 1.0)], &[(3.0, 1.0)]);
        assert_eq!(one.gains(&two), (2.0, 1.0));
    }
}

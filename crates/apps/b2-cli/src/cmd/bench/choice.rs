//! Finds the best of the measured parameter sets.

/// Cost of a parameter set for all of the data: compressed bytes, and times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) cbytes: f64,
    pub(super) compress: f64,
    pub(super) decompress: f64,
}

/// Weights for the best balance: nanoseconds per compressed byte, and how often data is read for each time it is
/// written. Same values as for the goal `balance` of `pack --codec auto`.
const BALANCE: (f64, f64) = (30.0, 2.0);

impl Cost {
    fn time(&self) -> f64 {
        self.compress + self.decompress
    }

    fn balance(&self) -> f64 {
        BALANCE.0 * self.cbytes + self.compress + BALANCE.1 * self.decompress
    }
}

/// Marks the Pareto-optimal entries: those that no other one beats in both size and time.
pub(super) fn pareto(costs: &[Cost]) -> Vec<bool> {
    let beaten = |cost: &Cost| {
        costs.iter().any(|other| {
            let (bytes, time) = (other.cbytes - cost.cbytes, other.time() - cost.time());
            bytes <= 0.0 && time <= 0.0 && (bytes < 0.0 || time < 0.0)
        })
    };
    costs.iter().map(|cost| !beaten(cost)).collect()
}

/// Indices of the best balance, the smallest and the fastest entry; `None` if there are no entries.
pub(super) fn best(costs: &[Cost]) -> Option<[usize; 3]> {
    let least = |by: &dyn Fn(&Cost) -> (f64, f64)| {
        let keys = costs.iter().map(by).enumerate();
        let least = keys.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        least.map(|(i, _)| i)
    };
    Some([
        least(&|cost| (cost.balance(), cost.time()))?,
        least(&|cost| (cost.cbytes, cost.time()))?,
        least(&|cost| (cost.time(), cost.cbytes))?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_and_the_best() {
        let cost = |cbytes, compress, decompress| Cost { cbytes, compress, decompress };
        let costs = [
            cost(100.0, 10.0, 10.0),
            cost(100.0, 20.0, 10.0),
            cost(50.0, 500.0, 20.0),
            cost(49.0, 9000.0, 20.0),
            cost(100.0, 10.0, 10.0),
        ];
        assert_eq!(pareto(&costs), [true, false, true, true, true]);
        assert_eq!(best(&costs), Some([2, 3, 0]));
        assert_eq!(best(&[]), None);
    }
}

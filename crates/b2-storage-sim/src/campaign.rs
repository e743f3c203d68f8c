use std::collections::HashSet;

use crate::log::{Log, State};

/// How many states are made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Power losses, at most: there may not be that many different ones.
    pub power: usize,
    /// What the random ones start from.
    pub seed: u64,
}

/// How many different states were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// After kills.
    pub kills: usize,
    /// After power losses.
    pub power: usize,
    /// Power losses tried: random ones often end in a state that was checked before.
    pub tries: usize,
}

/// Hands the states in which a killed process or a power loss can leave the disk to `check`, each once.
///
/// # Errors
/// The first error of `check`, with how the state came about and the calls before it.
pub fn every_crash(
    log: &Log,
    plan: &Plan,
    check: &mut dyn FnMut(&State) -> Result<(), String>,
) -> Result<Counts, String> {
    let mut seen = HashSet::new();
    // Whether it was new.
    let mut once = |state: &State| -> Result<bool, String> {
        // The same bytes may be right before a mark and wrong after it.
        if !seen.insert((state.image.digest(), state.mark)) {
            return Ok(false);
        }
        check(state).map_err(|error| {
            let (how, at, mark) = (&state.how, state.at, state.mark);
            format!("{error}\n{how}; call {at}, mark {mark}, seed {}\n{}", plan.seed, log.describe())
        })?;
        Ok(true)
    };
    let mut counts = Counts::default();
    log.kills(plan.seed, |state| {
        counts.kills += usize::from(once(&state)?);
        Ok::<_, String>(())
    })?;
    // Random states repeat, the fewer different ones there are the more often.
    let most = 10 * plan.power;
    log.power_losses(plan.seed, |state| {
        counts.power += usize::from(once(&state)?);
        counts.tries += 1;
        Ok::<_, String>(counts.power < plan.power && counts.tries < most)
    })?;
    Ok(counts)
}

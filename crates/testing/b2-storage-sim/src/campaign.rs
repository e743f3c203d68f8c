use std::collections::HashSet;

use crate::log::{CrashState, Log};

/// The number of crash states to check.
#[derive(Clone, Copy, Debug)]
pub struct CrashPlan {
    /// Number of different power losses at most; there may be fewer.
    pub power: usize,
    /// Seed of the random power losses.
    pub seed: u64,
}

/// The number of different states that were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrashCounts {
    /// States after kills.
    pub kills: usize,
    /// States after power losses.
    pub power: usize,
    /// Power losses tried. Random ones often lead to a state that was already checked.
    pub tries: usize,
}

/// Calls `check` once for each different state in which a killed process or a power loss can leave
/// the disk.
///
/// # Errors
/// The first error of `check`, with the cause of the state and the calls before it.
pub fn every_crash(
    log: &Log,
    plan: &CrashPlan,
    check: &mut dyn FnMut(&CrashState) -> Result<(), String>,
) -> Result<CrashCounts, String> {
    let mut seen = HashSet::new();
    // Returns whether the state was new.
    let mut once = |state: &CrashState| -> Result<bool, String> {
        // Equal contents may be correct before a mark and wrong after it.
        if !seen.insert((state.image.digest(), state.mark)) {
            return Ok(false);
        }
        check(state).map_err(|error| {
            let (how, at, mark) = (&state.how, state.at, state.mark);
            format!("{error}\n{how}; call {at}, mark {mark}, seed {}\n{}", plan.seed, log.describe())
        })?;
        Ok(true)
    };
    let mut counts = CrashCounts::default();
    log.kills(plan.seed, |state| {
        counts.kills += usize::from(once(&state)?);
        Ok::<_, String>(())
    })?;
    // Random states repeat more often the fewer different ones there are.
    let most = 10 * plan.power;
    log.power_losses(plan.seed, |state| {
        counts.power += usize::from(once(&state)?);
        counts.tries += 1;
        Ok::<_, String>(counts.power < plan.power && counts.tries < most)
    })?;
    Ok(counts)
}

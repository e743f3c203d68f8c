//! Retries of reads while another program changes the data.

use std::time::{Duration, Instant};

/// When a read is retried that failed because another program changed the data in the meantime: compacting a sparse frame
/// removes the files of the state that was opened.
///
/// The pause before a retry is 1 ms, then twice as long each time, up to 64 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Number of retries that are made even if each takes long.
    pub min_retries: u32,
    /// Time after the first failure during which more retries are made.
    pub timeout: Duration,
}

impl Default for RetryPolicy {
    /// Returns the policy for all reads: 20 retries, and more for 30 seconds, as long as opening waits for a writer of
    /// C-Blosc2. A second is too short next to a writer that compacts about as fast as a reader reads.
    fn default() -> Self {
        Self { min_retries: 20, timeout: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    b2_core::setters! {
        min_retries: u32,
        timeout: Duration,
    }
}

/// Runs `attempt` on `state`, and retries as long as `recover` and the policy allow it. Each attempt must read one state of
/// the data from its start. `recover` gets the error and the pause before the next attempt. If the data were changed, it
/// waits, reloads what is needed and returns true; it returns false for other errors.
///
/// # Errors
/// The error of the last attempt, or of `recover`.
pub fn retry_on_change<S, T, E>(
    policy: RetryPolicy,
    state: &mut S,
    mut attempt: impl FnMut(&mut S) -> Result<T, E>,
    mut recover: impl FnMut(&mut S, &E, Duration) -> Result<bool, E>,
) -> Result<T, E> {
    let (mut retries, mut first_failure) = (0u32, None);
    loop {
        let error = match attempt(state) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let since = *first_failure.get_or_insert_with(Instant::now);
        let goes_on = retries < policy.min_retries || since.elapsed() < policy.timeout;
        if !goes_on || !recover(state, &error, Duration::from_millis(1 << retries.min(6)))? {
            return Err(error);
        }
        retries = retries.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(min_retries: u32) -> RetryPolicy {
        RetryPolicy::default().min_retries(min_retries).timeout(Duration::ZERO)
    }

    #[test]
    fn a_reader_is_not_starved_by_a_fast_writer() {
        let (mut left, mut pauses) = (5000, Vec::new());
        let attempt = |left: &mut u32| match *left {
            0 => Ok(7),
            _ => {
                *left -= 1;
                Err(*left)
            }
        };
        let recover = |_: &mut u32, _: &u32, pause: Duration| {
            pauses.push(pause.as_millis());
            Ok(true)
        };
        assert_eq!(retry_on_change(policy(6000), &mut left, attempt, recover), Ok(7));
        assert_eq!((pauses.len(), &pauses[..8]), (5000, &[1, 2, 4, 8, 16, 32, 64, 64][..]));
    }

    #[test]
    fn the_last_error_is_returned_after_all_retries() {
        let mut count = 0;
        let attempt = |count: &mut u32| {
            *count += 1;
            Err::<(), _>(*count)
        };
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Ok(true)), Err(10));
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Ok(false)), Err(11));
        assert_eq!(retry_on_change(policy(9), &mut count, attempt, |_, _, _| Err(0)), Err(0));
    }
}

//! Retries reads that fail because another program has changed the data meanwhile: compacting a sparse frame removes
//! the files of the state that was opened. Everything is read again, so that the output shows a single state.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use b2kit::ErrorKind;

use super::destination;
use crate::process::error::{Trouble, causes, kind};
use crate::process::signals;

/// How long a command tries to read one state: as long as opening waits for a writer of C-Blosc2. A second is too little
/// beside a writer that leaves less time between two compactions than it takes to read everything, most of the time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// How many attempts there are at least, where each takes long.
const MIN_ATTEMPTS: u32 = 20;

/// Runs `work`, which must only read, and retries it if the data was changed meanwhile. There is no retry once output
/// has been sent.
pub(crate) fn again<T>(work: impl FnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    attempts(work, |n| {
        sleep(Duration::from_millis(1 << n.min(6)));
        n < MIN_ATTEMPTS || begun.elapsed() < RETRY_TIMEOUT
    })
}

/// Repeats until `pause`, which gets the number of previous attempts, returns false.
fn attempts<T>(mut work: impl FnMut() -> Result<T>, mut pause: impl FnMut(u32) -> bool) -> Result<T> {
    let before = destination::sent();
    let mut n = 0;
    loop {
        match work() {
            Err(error) if is_changed(&error) && destination::sent() == before => {
                signals::check()?;
                if !pause(n) {
                    return Err(error);
                }
            }
            result => return result,
        }
        n = n.saturating_add(1);
    }
}

fn is_changed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<Trouble>().map_or(error, |trouble| &trouble.0);
    causes(error).any(|cause| kind(cause) == Some(ErrorKind::Changed))
}

#[cfg(test)]
mod tests {
    use std::io;

    use b2kit::frame::FrameError;

    use super::*;

    fn changed() -> anyhow::Error {
        FrameError::io("a")(io::ErrorKind::StaleNetworkFileHandle.into()).into()
    }

    #[test]
    fn a_reader_is_not_starved_by_a_fast_writer() {
        let mut left = 5000;
        let work = || match left {
            0 => Ok(7),
            _ => {
                left -= 1;
                Err(changed())
            }
        };
        assert_eq!(attempts(work, |n| n < 6000).unwrap(), 7);
    }

    #[test]
    fn other_errors_and_the_end_of_patience_are_told() {
        let mut count = 0;
        let error = attempts(
            || {
                count += 1;
                Err::<(), _>(changed())
            },
            |n| n < 9,
        );
        assert!(is_changed(&error.unwrap_err()));
        assert_eq!(count, 10);
        let error = attempts(|| Err::<(), _>(anyhow::anyhow!("other")), |_| panic!("not again")).unwrap_err();
        assert_eq!(error.to_string(), "other");
    }
}

//! Retries reads that fail because another program has changed the data meanwhile: compacting a sparse frame removes
//! the files of the state that was opened. Everything is read again, so that the output shows a single state.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use b2kit::ErrorKind;

use super::destination;
use crate::process::error::{Trouble, causes, kind};
use crate::process::signals;

/// Number of retries. The pauses between them add up to about a second.
const TRIES: u32 = 20;

/// Runs `work`, which must only read, and retries it if the data was changed meanwhile. There is no retry once output
/// has been sent.
///
/// # Errors
/// Returns the error of the last attempt.
pub(crate) fn again<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let before = destination::sent();
    for n in 0..TRIES {
        match work() {
            Err(error) if is_changed(&error) && destination::sent() == before => {}
            result => return result,
        }
        signals::check()?;
        sleep(Duration::from_millis(1 << n.min(6)));
    }
    work()
}

fn is_changed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<Trouble>().map_or(error, |trouble| &trouble.0);
    causes(error).any(|cause| kind(cause) == Some(ErrorKind::Changed))
}

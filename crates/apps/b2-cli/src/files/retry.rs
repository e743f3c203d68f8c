//! Retries reads that fail because another program has changed the data in the meantime: compacting a sparse frame removes
//! the files of the state that was opened. Everything is read again, so that the output shows a single state.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use b2kit::ErrorKind;
use b2kit::frame::{RetryPolicy, retry_on_change};

use super::destination;
use crate::process::error::{Trouble, causes, kind};
use crate::process::signals;

/// Runs `work`, which must only read, and retries it if the data has changed in the meantime. There is no retry once output
/// has been sent.
pub(crate) fn retry_read<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let before = destination::sent();
    let recover = |(): &mut (), error: &anyhow::Error, pause: Duration| {
        let retries = is_changed(error) && destination::sent() == before;
        if retries {
            signals::check()?;
            sleep(pause);
        }
        Ok(retries)
    };
    retry_on_change(RetryPolicy::default(), &mut (), |()| work(), recover)
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

    #[test]
    fn only_changes_are_retried() {
        let mut count = 0;
        let changed = || FrameError::io("a")(io::ErrorKind::StaleNetworkFileHandle.into());
        let work = || {
            count += 1;
            if count < 3 { Err(changed().into()) } else { Err::<(), _>(anyhow::anyhow!("other")) }
        };
        assert_eq!(retry_read(work).unwrap_err().to_string(), "other");
        assert_eq!(count, 3);
    }
}

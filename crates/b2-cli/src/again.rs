//! Retries reads that fail because another program has changed the data meanwhile: compacting a sparse frame removes
//! the files of the state that was opened. Everything is read again, so that the output shows a single state.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use b2kit::ErrorKind;
use b2kit::frame::FrameError;
use b2kit::nd::NdError;

use crate::error::Trouble;
use crate::{output, signals};

/// Number of retries. The pauses between them add up to about a second.
const TRIES: u32 = 20;

/// Runs `work`, which must only read, and retries it if the data was changed meanwhile. There is no retry once output
/// has been sent.
///
/// # Errors
/// Returns the error of the last attempt.
pub(crate) fn again<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let before = output::sent();
    for n in 0..TRIES {
        match work() {
            Err(error) if is_changed(&error) && output::sent() == before => {}
            result => return result,
        }
        signals::check()?;
        sleep(Duration::from_millis(1 << n.min(6)));
    }
    work()
}

fn is_changed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<Trouble>().map_or(error, |trouble| &trouble.0);
    error.chain().any(|cause| {
        let of_frame = cause.downcast_ref::<FrameError>().map(FrameError::kind);
        let of_array = || cause.downcast_ref::<NdError>().map(NdError::kind);
        // `downcast_ref` does not look inside I/O errors.
        let of_source = || {
            let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
            inner.downcast_ref::<NdError>().map(NdError::kind)
        };
        of_frame.or_else(of_array).or_else(of_source) == Some(ErrorKind::Changed)
    })
}

//! Reading again what another program has changed meanwhile: a sparse frame that is compacted loses the files of the
//! state that was opened. All is read again, so that what is printed is one state.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use b2kit::ErrorKind;
use b2kit::frame::FrameError;
use b2kit::nd::NdError;

use crate::error::Trouble;
use crate::{output, signals};

/// How often it is read again. The pauses add up to about a second.
const TRIES: u32 = 20;

/// Runs work that only reads, and again if the file was changed meanwhile. Nothing of what it prints may be out yet.
///
/// # Errors
/// Those of the last run.
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
        // An I/O error hides what it was made of from `downcast_ref`.
        let of_source = || {
            let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
            inner.downcast_ref::<NdError>().map(NdError::kind)
        };
        of_frame.or_else(of_array).or_else(of_source) == Some(ErrorKind::Changed)
    })
}

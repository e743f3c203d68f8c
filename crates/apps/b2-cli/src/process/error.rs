//! Converts errors to messages and exit codes.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use b2_store::StoreError;
use b2kit::ErrorKind;
use b2kit::base::{Cancelled, LimitExceeded};
use b2kit::chunk::ChunkError;
use b2kit::frame::FrameError;
use b2kit::nd::NdError;

use super::signals::{self, StoppedBySignal};
use crate::print::printable;

/// An invalid command line, whatever the files contain: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The reader of standard output has closed it. This is not a failure.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct ClosedPipe;

/// The failure was already reported, for example in a line of `verify`; only the exit code remains.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct AlreadyReported;

/// Nothing failed, but something could not be checked, which was already reported: exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("not everything was checked")]
pub(crate) struct PartlyChecked;

/// A failure of a command that uses exit code 1 for a regular result, such as `diff`: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{}", one_line(.0))]
pub(crate) struct Trouble(pub(crate) anyhow::Error);

/// The new file was written, but a later step failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum WriteFailure {
    #[error("written, but cannot be read again")]
    Unreadable,
    #[error("written, but may not survive a power loss")]
    Unsynced,
    /// The input, which `--rm` should remove, is still there.
    #[error("written, but not removed (--rm)")]
    NotRemoved,
}

/// Errors for some of several files. The other files were processed.
#[derive(Debug, thiserror::Error)]
#[error("{} of {of} files failed", messages.len())]
pub(crate) struct Failures {
    /// One message for each file that failed.
    pub(crate) messages: Vec<String>,
    /// Total number of files.
    pub(crate) of: usize,
}

impl Failures {
    /// The messages, and a line with the number of failures.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.messages.iter().cloned().chain([self.to_string()]).collect()
    }
}

/// Metadata (header, trailer, index, each vlmetalayer) may use at most 1/16 of the memory limit.
pub(crate) const METADATA_SHARE: u64 = 16;

/// Messages that are withheld until their files are synced and renamed.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Withholds the messages of [`succeeded`] until [`release`](Self::release). If dropped before, it prints nothing.
#[must_use]
pub(crate) struct WithheldMessages(());

impl WithheldMessages {
    pub(crate) fn start() -> Self {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        Self(())
    }

    pub(crate) fn release(self) {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
        held.unwrap_or_default().iter().for_each(|line| succeeded(line));
    }
}

impl Drop for WithheldMessages {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Prints on standard error what was done.
pub(crate) fn succeeded(line: &str) {
    if let Some(held) = &mut *HELD.lock().unwrap_or_else(PoisonError::into_inner) {
        return held.push(line.to_owned());
    }
    // Ignore errors: standard error may be closed.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a message on standard error.
pub(crate) fn say(line: &str) {
    // Ignore errors: standard error may be closed.
    let _ = writeln!(io::stderr(), "b2kit: {line}");
}

/// Reports the result of a command on standard error and returns the exit code.
pub(crate) fn report(result: &anyhow::Result<()>) -> u8 {
    let (code, message) = outcome(result);
    if let Some(message) = message {
        say(&message);
    }
    code
}

/// The exit code and the error message, unless it was already reported.
pub(crate) fn outcome(result: &anyhow::Result<()>) -> (u8, Option<String>) {
    if let (Err(error), Some(code)) = (result, signals::exit_code()) {
        let message = if is_stop(error) { StoppedBySignal.to_string() } else { one_line(error) };
        return (code, Some(message));
    }
    match result {
        Ok(()) => (0, None),
        Err(error) if error.is::<ClosedPipe>() => (0, None),
        Err(error) => {
            let code = match () {
                () if error.is::<Usage>() || error.is::<Trouble>() => 2,
                () if error.is::<PartlyChecked>() => 3,
                () => 1,
            };
            let message = match error.downcast_ref::<Failures>() {
                Some(failures) => failures.lines().join("\nb2kit: "),
                None => one_line(error),
            };
            (code, (!error.is::<AlreadyReported>() && !error.is::<PartlyChecked>()).then_some(message))
        }
    }
}

/// The error and its causes. An I/O error that wraps another one is replaced by it, since `source` skips it.
pub(crate) fn causes(error: &anyhow::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    error.chain().map(|cause| {
        let mut inner = cause;
        while let Some(wrapped) = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            inner = wrapped;
        }
        inner
    })
}

/// Whether the work was stopped by a signal, and did not fail for another reason.
fn is_stop(error: &anyhow::Error) -> bool {
    causes(error).any(|cause| {
        cause.is::<StoppedBySignal>() || cause.is::<Cancelled>() || kind(cause) == Some(ErrorKind::Cancelled)
    })
}

/// The kind of the first error of the library in the chain.
pub(crate) fn kind_of(error: &anyhow::Error) -> Option<ErrorKind> {
    error.chain().find_map(kind)
}

/// The kind of an error of the library.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let of_frame = || error.downcast_ref::<FrameError>().map(FrameError::kind);
    let of_chunk = || error.downcast_ref::<ChunkError>().map(ChunkError::kind);
    let of_store = || error.downcast_ref::<StoreError>().map(StoreError::kind);
    error.downcast_ref::<NdError>().map(NdError::kind).or_else(of_frame).or_else(of_chunk).or_else(of_store)
}

/// The error of a frame without the name of its file, also as that of an array.
pub(crate) fn frame_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a FrameError> {
    whole_frame_error(error).map(FrameError::detail)
}

/// The error of a frame, also as that of an array or a store.
fn whole_frame_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a FrameError> {
    match (error.downcast_ref().map(NdError::detail), error.downcast_ref().map(StoreError::detail)) {
        (Some(NdError::Frame(error)), _) | (_, Some(StoreError::Frame(error))) => Some(error),
        _ => error.downcast_ref(),
    }
}

/// The name of the file, if this error adds nothing but the name.
fn only_name<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
    if let Some(NdError::Unreadable { name, .. }) = error.downcast_ref() {
        return Some(name);
    }
    if let Some(StoreError::Io { name, .. } | StoreError::Unreadable { name, .. }) = error.downcast_ref() {
        return Some(name);
    }
    match whole_frame_error(error) {
        Some(FrameError::Unreadable { name, .. } | FrameError::Io { name, .. }) => Some(name),
        _ => None,
    }
}

/// A clearer text than the system's for disk errors, if there is one.
fn of_disk(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull => Some("no space left on the disk"),
        io::ErrorKind::QuotaExceeded => Some("the quota of the disk is used up"),
        io::ErrorKind::FileTooLarge => Some("the file would be larger than is allowed here (ulimit -f)"),
        _ => None,
    }
}

/// The error and its causes on one line, with control characters escaped.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    one_line_for("", error)
}

/// The same, for output that has just named the file.
pub(crate) fn one_line_for(file: &str, error: &anyhow::Error) -> String {
    joined(error, file, names)
}

/// The same without any file name, for the members of a store, which are listed below its name.
pub(crate) fn one_line_below(error: &anyhow::Error) -> String {
    joined(error, "", |_, _| true)
}

/// Joins the error and its causes, for text that follows the name of a file. `is_known` returns whether a name need not
/// be repeated, given the text so far.
fn joined(error: &anyhow::Error, file: &str, is_known: impl Fn(&str, &str) -> bool) -> String {
    let mut out = file.to_owned();
    for cause in error.chain() {
        let mut text = cause.to_string();
        let shared = || cause.downcast_ref::<Arc<io::Error>>().map(Arc::as_ref);
        if let Some(what) = cause.downcast_ref().or_else(shared).and_then(of_disk) {
            text = what.to_owned();
            // Files appear, and change, only when complete; data sent to a stream or a device cannot be undone.
            if !out.starts_with("standard output") && !out.starts_with("/dev/") && !is_done(error) {
                text.push_str("; nothing was written");
            }
        }
        // Commands prefix messages with the file.
        if only_name(cause).is_some_and(|name| is_known(&out, name)) {
            continue;
        }
        // Some errors already end with the text of their cause.
        if out.ends_with(&text) {
            continue;
        }
        // Others start with the text so far, such as the name of the file.
        let repeated = text.strip_prefix(&out).is_some_and(|rest| rest.starts_with(": "));
        if repeated {
            out.clear();
        }
        if !out.is_empty() {
            out.push_str(": ");
        }
        out.push_str(&text);
    }
    if let Some(limit) = error.chain().find_map(limit) {
        // Suggest a number, since the default depends on the file, and metadata get only a part of it.
        out.push_str(&match limit.name {
            "max_output" => " (--max-output BYTES raises it)".into(),
            "max_memory" => format!(" (--max-memory {} raises it)", limit.asked),
            "max_metadata" => {
                format!(" (--max-memory {} raises it)", limit.asked.saturating_mul(METADATA_SHARE))
            }
            _ => String::new(),
        });
    }
    let rest = out.strip_prefix(file).and_then(|rest| rest.strip_prefix(": "));
    printable(rest.filter(|_| !file.is_empty()).unwrap_or(&out))
}

/// Whether the text so far names the file, alone or among others.
fn names(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let end = at.saturating_add(name.len());
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let after = text.get(end..).and_then(|after| after.chars().next());
            before.is_none_or(|c| c == ' ') && after.is_none_or(|c| c == ':' || c == ' ')
        })
}

/// Whether the error itself states what was written: the change was made and only a later step failed, or a step could
/// not be undone.
fn is_done(error: &anyhow::Error) -> bool {
    let is_warning = |error| matches!(error, &FrameError::NotSynced { .. } | &FrameError::SetAside { .. });
    error.is::<WriteFailure>() || error.chain().any(|cause| frame_error(cause).is_some_and(is_warning))
}

/// Whether bytes of zeros and repeated values exceed `--max-output`.
pub(crate) fn exceeds_output(error: &anyhow::Error) -> bool {
    causes(error).any(|cause| limit(cause).is_some_and(|limit| limit.name == "max_output"))
}

/// The limit that was exceeded.
fn limit<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a LimitExceeded> {
    if let Some(limit) = error.downcast_ref() {
        return Some(limit);
    }
    let chunk = match (error.downcast_ref().map(NdError::detail), frame_error(error)) {
        (Some(NdError::Limit(limit)), _) | (_, Some(FrameError::Limit(limit))) => return Some(limit),
        (Some(NdError::Chunk(error)), _) | (_, Some(FrameError::Chunk { source: error, .. })) => Some(error),
        _ => error.downcast_ref(),
    };
    match chunk? {
        ChunkError::Limit(limit) => Some(limit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn one_line_joins_causes_once() {
        let error = anyhow!("offset 3").context("trailer: offset 3").context("x.b2nd\tline\n2");
        assert_eq!(one_line(&error), r"x.b2nd\tline\n2: trailer: offset 3");
        assert_eq!(one_line(&anyhow!("x: no room").context("x")), "x: no room");
        let full = || anyhow::Error::new(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(
            one_line(&full().context("x.b2nd")),
            "x.b2nd: no space left on the disk; nothing was written"
        );
        let shared = anyhow::Error::new(Arc::new(io::Error::from(io::ErrorKind::StorageFull)));
        assert_eq!(
            one_line(&shared.context("cannot write x.h5")),
            "cannot write x.h5: no space left on the disk; nothing was written"
        );
        assert_eq!(one_line(&full().context("/dev/full")), "/dev/full: no space left on the disk");
        assert_eq!(
            one_line(&full().context(WriteFailure::Unsynced).context("x.b2nd")),
            "x.b2nd: written, but may not survive a power loss: no space left on the disk"
        );
        let failed = || NdError::Frame(FrameError::io("x.b2nd")(io::ErrorKind::StorageFull.into()));
        let full = "no space left on the disk; nothing was written";
        assert_eq!(one_line(&failed().into()), format!("cannot write x.b2nd: {full}"));
        assert_eq!(one_line(&anyhow::Error::new(failed()).context("x.b2nd")), format!("x.b2nd: {full}"));
        assert_eq!(
            one_line(&anyhow::Error::new(failed()).context("y/x.b2nd")),
            format!("y/x.b2nd: cannot write x.b2nd: {full}")
        );
    }
}

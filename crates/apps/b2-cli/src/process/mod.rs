//! State of the whole process: exit codes and messages, signals, threads, the captured output of a batch,
//! progress bars, and loops over several files or pieces.
//! Code belongs here if any long-running command that can be stopped would need it.
//! It may use `print`, but not the options or the formats of files.

pub(crate) mod batch;
pub(crate) mod capture;
pub(crate) mod error;
pub(crate) mod pipeline;
pub(crate) mod progress;
pub(crate) mod signals;
pub(crate) mod threads;

pub(crate) use error::{
    AlreadyReported, ClosedPipe, PartlyChecked, Trouble, Usage, WriteFailure, one_line, one_line_for,
    outcome, say,
};
pub(crate) use pipeline::{PipelineLimits, buffer, pump, resize};
pub(crate) use progress::Progress;
pub(crate) use threads::allow_many_files;

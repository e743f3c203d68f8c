//! Where bytes come from and go to: paths, URLs, standard input and output, and new files that appear when they are
//! complete.
//! Code belongs here if it deals with names and kinds of files; what a Blosc2 file contains is for `read`.
//! It may use the layers for processes and options.

pub(crate) mod destination;
mod files_from;
pub(crate) mod group_commit;
pub(crate) mod input_removal;
pub(crate) mod members;
mod mode;
pub(crate) mod reading;
pub(crate) mod recognition;
pub(crate) mod retry;
pub(crate) mod staged_output;
pub(crate) mod stdio;
pub(crate) mod urls;
pub(crate) mod walk;

pub(crate) use destination::{
    Output, check_folder, claim, print, print_plan, refuse_blosc2_name, refuse_other_format, refuse_same,
    refuse_second_input, spool_beside,
};
pub(crate) use group_commit::GroupCommit;
pub(crate) use input_removal::InputRemoval;
pub(crate) use mode::{ModeOf, keep_time};
pub(crate) use recognition::RecognisedFormat;
pub(crate) use retry::retry_read;
pub(crate) use staged_output::write_through;
pub(crate) use stdio::{is_pipe, is_stdin, refuse_stdin, spool_pipe, spool_stdin};
pub(crate) use walk::{InputFile, WalkDecision, walk};

//! Writing: new frames and chunks, changes of existing ones, the choice of compression, and its losses.
//! Code belongs here if several commands need it to write Blosc2 files and to report what was written.
//! It may use all layers except the commands.

pub(crate) mod auto;
pub(crate) mod edit;
pub(crate) mod encode;
pub(crate) mod lossy;
pub(crate) mod summary;

pub(crate) use edit::{Editor, Target, Targets, VlmetaLimit, refuse_url};
pub(crate) use encode::{
    BATCH, Layers, NewFile, ProgressSource, append_bytes, check_lengths, check_one_chunk, chunksize, report,
    shape_of,
};
pub(crate) use lossy::Promise;
pub(crate) use summary::{checksums_text, codec_text, filter_text, one_line};

//! The command line: options that several commands share, their values, and the help pages.
//! Code belongs here if it defines what may be written on a command line; what an option does is defined by the layer that
//! does it, and options of a single command are defined with the command.
//! It may use `print` and `process`, and opens no file.

pub(crate) mod help;
pub(crate) mod options;
pub(crate) mod placement;
pub(crate) mod plugins;
pub(crate) mod values;
pub(crate) mod version;

pub(crate) use options::{ComparePolicy, Encoding, FilesFrom, Global, Source, Sources};
pub(crate) use placement::Placement;
pub(crate) use plugins::dparams;
pub(crate) use values::{Codec, Dims, Filters, Format, Level, MetaArg, Shape};

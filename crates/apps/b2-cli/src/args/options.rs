//! Options that several commands share.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use b2kit::chunk::SplitMode;
use clap::Args;

use super::values::{
    Codec, Dims, Filters, Format, Goal, Level, MetaArg, Shape, codec_parser, filters_parser, parse_limit,
    parse_meta, parse_rate, parse_size, parse_tolerance, split_parser,
};

/// Options of every command.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Global {
    /// Print no progress bar and no notes
    #[arg(short, long, global = true, display_order = 100)]
    pub(crate) quiet: bool,
    /// Print what was done and how long it took, on standard error
    #[arg(short, long, global = true, display_order = 101, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Use N threads [default: all cores]
    #[arg(short, long, global = true, display_order = 102, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write no checksums, and do not compare existing ones
    #[arg(long, global = true, display_order = 103)]
    pub(crate) no_checksums: bool,
    /// Limit the memory for stored chunks, metadata and buffers
    ///
    /// BYTES may end in K, M or G; "none" stands for no limit. The default is 64 times the size of the file, but at
    /// least 768M and at most 4G.
    #[arg(long, global = true, display_order = 104, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) max_memory: Option<u64>,
    /// Refuse to expand fill values beyond this size
    ///
    /// A few bytes in a file can stand for any number of zeros or other repeated values; only such data counts here.
    /// BYTES may end in K, M or G; "none" stands for no limit. The default is 2G for verify and diff, and none for
    /// other commands.
    #[arg(long, global = true, display_order = 105, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) max_output: Option<u64>,
    /// When to compare what is read with its checksums [default: once]
    ///
    /// This applies to whole chunks and parts of chunks. Data from a URL is compared each time. `verify` and
    /// `copy` always compare all.
    #[arg(long, global = true, display_order = 106, value_name = "WHEN", value_enum)]
    pub(crate) compare: Option<ComparePolicy>,
    /// Wait at most SECONDS for the answer to a request to a server [default: 60]
    #[arg(long, global = true, display_order = 107, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeout: Option<u32>,
    /// Refuse redirects of a server to other hosts
    ///
    /// Without it they are followed, though never from https to http. A server that is not trusted could so lead to hosts
    /// that only this machine reaches.
    #[arg(long, global = true, display_order = 108)]
    pub(crate) same_host: bool,
    /// Open arrays of which python-blosc2 computes or fetches the items, too, as super-chunks: for commands that do not read
    /// items.
    #[arg(skip)]
    pub(crate) opens_itemless: bool,
}

/// When chunks are compared with their checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ComparePolicy {
    /// Each time bytes are read
    Always,
    /// When bytes are read for the first time
    #[value(alias = "cheap")]
    Once,
    /// Not at all
    Never,
}

/// Default of `--max-output` for commands that have one, in bytes: the size of the largest possible chunk, which takes
/// a few seconds to hash.
const VERIFIED_OUTPUT: u64 = 2 << 30;

impl Global {
    /// The time since `start`, appended to a message with `--verbose`.
    pub(crate) fn seconds(self, start: Instant) -> String {
        if self.verbose { format!(", {:.2} s", start.elapsed().as_secs_f64()) } else { String::new() }
    }

    /// Verifies checksums on every read: for commands that write what they have read.
    pub(crate) fn comparing(self) -> Self {
        Self { compare: Some(ComparePolicy::Always), ..self }
    }

    /// Opens frames without items, too.
    pub(crate) fn opening_itemless(self) -> Self {
        Self { opens_itemless: true, ..self }
    }

    /// Applies the default of `--max-output` for commands that decode a whole file, unless the option was given.
    pub(crate) fn with_output_limit(self) -> Self {
        Self { max_output: self.max_output.or(Some(VERIFIED_OUTPUT)), ..self }
    }

    /// Prints a line on standard error if `--verbose` was given.
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        if self.verbose {
            let _ = writeln!(io::stderr(), "{}", line());
        }
    }
}

/// How a new file is written: options of `pack` and `copy`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Encoding {
    /// Write this kind of file [default: cframe]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Chunk shape, in items (arrays)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(crate) chunks: Option<Dims>,
    /// Block shape, in items (arrays)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(crate) blocks: Option<Dims>,
    /// Uncompressed bytes per chunk (not arrays)
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Layout")]
    pub(crate) chunksize: Option<u64>,
    /// Uncompressed bytes per block (not arrays)
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Layout")]
    pub(crate) blocksize: Option<u64>,
    /// Bytes per item (not arrays)
    #[arg(long, value_name = "N", help_heading = "Layout")]
    pub(crate) typesize: Option<u32>,
    /// Read raw bytes as items of this NumPy type, like '<f4'
    ///
    /// This makes an array: of --shape, or of one dimension.
    #[arg(long, value_name = "DTYPE", help_heading = "Layout")]
    pub(crate) dtype: Option<String>,
    /// Read raw bytes as an array of this shape
    ///
    /// One length may be -1: it follows from the number of bytes.
    #[arg(long, value_name = "A,B,...", allow_hyphen_values = true, help_heading = "Layout")]
    pub(crate) shape: Option<Shape>,

    /// Store the offsets of all blocks, for remote readers
    ///
    /// Over HTTP and from object stores, parts of chunks are then fetched in one round of requests and in fewer bytes.
    /// Takes 2 bytes per block. A copy of a file that has this table has it too.
    #[arg(long, help_heading = "Layout")]
    pub(crate) block_starts: bool,

    /// blosclz, lz4, lz4hc, zlib, zstd, auto, pco, zfp_*
    ///
    /// auto chooses codec, level, filters and block size from a sample of the data, see --goal. zfp_acc, zfp_prec and
    /// zfp_rate are for arrays of floats, without filters, and lose precision. pco (pcodec) is for numbers, without
    /// filters, and loses nothing; C-Blosc2 cannot read it.
    #[arg(long, value_name = "NAME", value_parser = codec_parser(), hide_possible_values = true, help_heading = "Compression")]
    pub(crate) codec: Option<Codec>,
    /// Goal of --codec auto [default: balance]
    #[arg(long, value_enum, value_name = "GOAL", help_heading = "Compression")]
    pub(crate) goal: Option<Goal>,
    #[command(flatten)]
    pub(crate) clevel: Level,
    /// Filters in order of application, or none
    ///
    /// A comma-separated list of shuffle, bitshuffle, delta, trunc_prec, bytedelta, int_trunc, ndcell, ndmean and
    /// filter:ID, each followed by :META if it needs a parameter, from -128 to 255.
    #[arg(long, value_name = "LIST", value_parser = filters_parser(), hide_possible_values = true, help_heading = "Compression")]
    pub(crate) filters: Option<Filters>,
    /// Whether to compress each byte of the items separately
    ///
    /// A block is then split into as many streams as an item has bytes.
    #[arg(long, value_name = "MODE", value_parser = split_parser(), help_heading = "Compression")]
    pub(crate) splitmode: Option<SplitMode>,
    /// Store a dictionary in each chunk (zstd, lz4, lz4hc)
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Compression"
    )]
    pub(crate) dict: Option<bool>,
    /// Parameter of the codec, from -128 to 255
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_meta,
        allow_negative_numbers = true,
        help_heading = "Compression"
    )]
    pub(crate) codec_meta: Option<u8>,
    /// Lose data: the largest error allowed, rounded down to a power of ten (zfp_acc)
    #[arg(
        long,
        value_name = "X",
        value_parser = parse_tolerance,
        conflicts_with_all = ["codec_meta", "precision", "rate"],
        help_heading = "Compression"
    )]
    pub(crate) tolerance: Option<f64>,
    /// Lose data: bits of precision to keep (zfp_prec)
    #[arg(
        long,
        value_name = "BITS",
        value_parser = clap::value_parser!(u8).range(1..=64),
        conflicts_with_all = ["codec_meta", "rate"],
        help_heading = "Compression"
    )]
    pub(crate) precision: Option<u8>,
    /// Lose data: bits to store for each value (zfp_rate)
    #[arg(
        long,
        value_name = "BITS",
        value_parser = parse_rate,
        conflicts_with = "codec_meta",
        help_heading = "Compression"
    )]
    pub(crate) rate: Option<f64>,
    /// Accept a larger loss: above the tolerance, or of NaN and infinite values
    ///
    /// With --rm, also remove an input of which the new file does not keep everything.
    #[arg(long, help_heading = "Compression")]
    pub(crate) allow_lossy: bool,

    /// Add a metalayer of fixed size
    #[arg(long, value_name = "NAME=JSON", help_heading = "Metalayers")]
    pub(crate) meta: Vec<MetaArg>,
    /// Add a metalayer of variable size
    #[arg(long, value_name = "NAME=JSON", help_heading = "Metalayers")]
    pub(crate) vlmeta: Vec<MetaArg>,
}

/// Names of files in a list.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilesFrom {
    /// Read more names from LIST, one per line (-: standard input)
    #[arg(long, value_name = "LIST")]
    pub(crate) files_from: Option<PathBuf>,
    /// The names in LIST end with NUL, as find -print0 writes them
    #[arg(short = '0', long, requires = "files_from")]
    pub(crate) null: bool,
}

/// Files to read, and where in them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Sources {
    /// Frames, directories of sparse frames, chunks, FILE::NAME in a store or HDF5 (-: standard input)
    #[arg(value_name = "FILE", required_unless_present = "files_from")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) listed: FilesFrom,
    /// The frame starts at byte N of the file
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: u64,
    /// Read this member of a store, or data set of HDF5 or NetCDF
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

impl Source {
    /// A file, or FILE::NAME.
    pub(crate) fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), offset: 0, key: None }
    }
}

impl Sources {
    /// The source for one of the files.
    pub(crate) fn one(&self, file: &Path) -> Source {
        Source { file: file.to_owned(), offset: self.offset, key: self.key.clone() }
    }
}

/// A file to read, and where in it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// A frame, the directory of a sparse frame, a chunk, FILE::NAME in a store or HDF5 (-: standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The frame starts at byte N of the file
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: u64,
    /// Read this member of a store, or data set of HDF5 or NetCDF
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

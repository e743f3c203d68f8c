//! The command line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use b2kit::frame::WriteOptions;
use b2kit::{Compare, FrameWriter, Limits, OpenOptions, SuperChunk};
use clap::{Args, Parser, Subcommand};

use crate::cmd;
use crate::plugins::plugins;
use crate::values::{
    Codec, Dims, Filters, Format, Goal, Named, Split, parse_codec, parse_limit, parse_meta, parse_size,
};

const EXAMPLES: &str = "\
Examples:
  b2kit info data.b2nd                   what is in it
  b2kit pack data.npy data.b2nd          compress an array
  b2kit cat data.b2nd --npy -o data.npy  and back
  b2kit verify *.b2nd                    decode everything, print hashes

Files are recognised by content, never by their name. Exit code: 0 success,
1 the file or the request is bad, 2 wrong command line.";

/// Look into, read and write Blosc2 files.
#[derive(Debug, Parser)]
#[command(name = "b2kit", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// No progress bar, and no word about what was changed
    #[arg(short, long, global = true, display_order = 100)]
    pub(crate) quiet: bool,
    /// Tell what is done and how long it took, on standard error
    #[arg(short, long, global = true, display_order = 101, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Threads to use [default: all cores]
    #[arg(short, long, global = true, display_order = 102, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write no checksums, and do not compare those that are there
    #[arg(long, global = true, display_order = 103)]
    pub(crate) no_checksums: bool,
    /// Most memory for stored chunks, metadata and buffers; a suffix K, M or G, or none [default: 64 times the size of
    /// the file, but 768M to 4G]
    #[arg(long, global = true, display_order = 104, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) max_memory: Option<u64>,
    /// Most decoded bytes that no stored data stands for (special values, runs), or none [default: 2G for verify
    /// and diff, none for other commands]
    #[arg(long, global = true, display_order = 105, value_name = "BYTES", value_parser = parse_limit)]
    pub(crate) max_output: Option<u64>,
}

/// Default of `--max-memory` for a file of `stored` bytes.
fn default_memory(stored: u64) -> u64 {
    stored.saturating_mul(64).clamp(LEAST_MEMORY, Limits::default().max_memory.max(LEAST_MEMORY))
}

/// Enough for chunks of 2 GiB with the largest blocks there can be (512 MiB) and one filter; in bytes.
const LEAST_MEMORY: u64 = 768 << 20;
/// Default of `--max-output` where it has one, in bytes: the largest chunk there can be, and no more than can be
/// hashed in a few seconds.
const VERIFIED_OUTPUT: u64 = 2 << 30;
/// So much of the memory is for metadata: header, trailer, index, each vlmetalayer.
const METADATA_SHARE: u64 = 16;

impl Global {
    /// How the frame at `path`, or in it, is opened.
    pub(crate) fn reading(&self, path: &Path) -> OpenOptions {
        self.reading_stored(stored_bytes(path))
    }

    /// The same for a file of `stored` bytes.
    pub(crate) fn reading_stored(&self, stored: u64) -> OpenOptions {
        // Beside what the command does with them, comparing chunks costs nothing.
        let options = SuperChunk::options().plugins(plugins()).checksums(!self.no_checksums);
        let options = options.compare(Compare::Always);
        options.limits(self.limits(stored))
    }

    /// What reading a file of `stored` bytes may cost.
    pub(crate) fn limits(&self, stored: u64) -> Limits {
        let limits = Limits::default();
        let max_memory = self.max_memory.unwrap_or_else(|| default_memory(stored));
        let max_metadata = match self.max_memory {
            Some(max_memory) => max_memory / METADATA_SHARE,
            None => limits.max_metadata,
        };
        limits
            .with_max_memory(max_memory)
            .with_max_metadata(max_metadata)
            .with_max_output(self.max_output.unwrap_or(u64::MAX))
    }

    /// With the default that `--max-output` has where all of a file is expanded, whatever it holds.
    pub(crate) fn with_output_limit(self) -> Self {
        Self { max_output: self.max_output.or(Some(VERIFIED_OUTPUT)), ..self }
    }

    /// How frames are written.
    pub(crate) fn writing(&self) -> WriteOptions {
        FrameWriter::options().checksums(!self.no_checksums)
    }

    /// With `--verbose`: a line on standard error, if anybody listens.
    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if self.verbose {
            let _ = writeln!(io::stderr(), "{}", line());
        }
    }
}

/// Size of a file; of a directory at least as much as makes a difference.
fn stored_bytes(path: &Path) -> u64 {
    const ENOUGH: u64 = 64 << 20;
    let Ok(there) = fs::metadata(path) else { return 0 };
    if !there.is_dir() {
        return there.len();
    }
    let mut sum = 0u64;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        sum = sum.saturating_add(entry.metadata().map_or(0, |file| file.len()));
        if sum >= ENOUGH {
            break;
        }
    }
    sum
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a file holds
    Info(cmd::info::Args),
    /// Write the decompressed data to standard output or a file
    Cat(cmd::cat::Args),
    /// Decode everything and print size and SHA-256, one line per file
    Verify(cmd::verify::Args),
    /// Compress an .npy file or raw bytes into a new file
    Pack(cmd::pack::Args),
    /// Write the same data and metalayers into a new file, compressed or cut differently
    Copy(cmd::copy::Args),
    /// Add data at the end
    Append(cmd::append::Args),
    /// Overwrite items
    Set(cmd::set::Args),
    /// Change the shape of an array
    Resize(cmd::resize::Args),
    /// Insert data along a dimension of an array
    Insert(cmd::insert::Args),
    /// Delete positions along a dimension of an array
    Delete(cmd::delete::Args),
    /// Append, insert, update or delete whole chunks of a super-chunk
    Chunk(cmd::chunk::Args),
    /// Set, get or delete a metalayer of variable size
    Vlmeta(cmd::vlmeta::Args),
    /// Add checksums to a frame, or remove them
    Checksum(cmd::checksum::Args),
    /// Give the space of holes back
    Compact(cmd::compact::Args),
    /// Tell whether two files hold the same data, and where they differ first
    Diff(cmd::diff::Args),
    /// Write what is readable of a damaged frame into a new one
    Salvage(cmd::salvage::Args),
    /// List the keys of a store
    Ls(cmd::ls::Args),
    /// Print the entries of an object list, one line of JSON each
    Items(cmd::items::Args),
    /// Measure codecs, levels and filters
    Bench(cmd::bench::Args),
    /// Run commands from standard input, one JSON array of arguments per line
    Batch(cmd::batch::Args),
    /// Print a script that completes b2kit command lines in a shell
    Completions(cmd::completions::Args),
}

/// How a new file is written: options of `pack` and `copy`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Encoding {
    /// What to write
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// Chunk shape, in items (arrays)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(crate) chunks: Option<Dims>,
    /// Block shape, in items (arrays)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(crate) blocks: Option<Dims>,
    /// Uncompressed bytes per chunk (super-chunks)
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Layout")]
    pub(crate) chunksize: Option<u64>,
    /// Uncompressed bytes per block (super-chunks and chunks)
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Layout")]
    pub(crate) blocksize: Option<u64>,
    /// Bytes per item (super-chunks and chunks)
    #[arg(long, value_name = "N", help_heading = "Layout")]
    pub(crate) typesize: Option<u32>,
    /// Item type in NumPy's notation, such as '<f4': makes an array, together with --shape
    #[arg(long, value_name = "DTYPE", help_heading = "Layout")]
    pub(crate) dtype: Option<String>,
    /// Array shape, in items
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(crate) shape: Option<Dims>,

    /// blosclz, lz4, lz4hc, zlib, zstd; zfp_acc, zfp_prec, zfp_rate (arrays of floats, without filters); auto
    /// (codec, level, filters and cutting chosen from a sample of the data, see --goal)
    #[arg(long, value_name = "NAME", value_parser = parse_codec, help_heading = "Compression")]
    pub(crate) codec: Option<Codec>,
    /// What --codec auto aims at [default: balance]
    #[arg(long, value_enum, value_name = "GOAL", help_heading = "Compression")]
    pub(crate) goal: Option<Goal>,
    /// 0 (store) to 9 (smallest)
    #[arg(long, value_name = "0..9", value_parser = clap::value_parser!(u8).range(0..=9), help_heading = "Compression")]
    pub(crate) clevel: Option<u8>,
    /// Filters in order of application, or none; META is -128 to 255
    #[arg(long, value_name = "NAME[:META],...", help_heading = "Compression")]
    pub(crate) filters: Option<Filters>,
    /// When blocks are split into one stream per byte of the item
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Compression")]
    pub(crate) splitmode: Option<Split>,
    /// Give each chunk a dictionary (zstd, lz4, lz4hc)
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Compression"
    )]
    pub(crate) dict: Option<bool>,
    /// Parameter byte of the codec, -128 to 255
    #[arg(
        long,
        value_name = "N",
        value_parser = parse_meta,
        allow_negative_numbers = true,
        help_heading = "Compression"
    )]
    pub(crate) codec_meta: Option<u8>,

    /// Add a metalayer of fixed size
    #[arg(long, value_name = "NAME=JSON", help_heading = "Metalayers")]
    pub(crate) meta: Vec<Named>,
    /// Add a metalayer of variable size
    #[arg(long, value_name = "NAME=JSON", help_heading = "Metalayers")]
    pub(crate) vlmeta: Vec<Named>,
}

/// A file to read, and where in it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// A frame, the directory of a sparse frame, or a chunk
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The frame starts at byte N of the file
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: u64,
    /// Take this member of a store
    #[arg(long, value_name = "K")]
    pub(crate) key: Option<String>,
}

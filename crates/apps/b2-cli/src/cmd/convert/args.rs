//! The options of `b2kit convert`.

use std::path::PathBuf;

use anyhow::Result;

use crate::args::values::{filters_parser, parse_codec};
use crate::args::{Codec, Dims, Encoding, Filters, Level};
use crate::process::Usage;
use crate::write::lossy;

const EXAMPLES: &str = "\
Examples:
  b2kit convert ocean.nc --list                  what is in it
  b2kit convert x.h5 /group/dataset y.b2nd       one data set
  b2kit convert ocean.nc ocean.b2d               everything, as a store
  b2kit convert x.h5 /group y.b2d --verify       a group, compared afterwards
  b2kit convert x.h5 '/run*/temperature' y.b2d   data sets by a pattern
  b2kit convert ocean.nc /t a.b2nd --slice=0,10:20 --mask-and-scale
  b2kit convert https://example.org/x.h5 /a a.b2nd
  b2kit convert -d stores measured/*.nc          a store for each file
  b2kit convert -r measured -d stores            with the folders in it
  b2kit convert y.b2nd x.h5                      the way back; also a store
  b2kit convert y.b2nd x.h5::/group/name --codec gzip
  b2kit convert in.zarr out.b2d                  Zarr; also at a URL
  b2kit convert out.b2d out.zarr                 and back
  b2kit convert scan.nii.gz scan.b2nd            NIfTI, with its affine
  b2kit convert -d images scans/*.nii.gz         an array for each file
  b2kit convert x.npz out.b2d                    NumPy's archives
  b2kit convert x.npz::name out.b2nd             one array of them
  b2kit convert out.b2d x.npz --codec gzip       and back

HDF5 and NetCDF (3 and 4), Zarr (2 and 3), NIfTI and .npz files are read. HDF5 is
written if OUT ends in .h5, .hdf5, .he5, .hdf, .nc or .nc4, Zarr 3 if it ends in
.zarr, and .npz. An array has the chunks of the data set, its attributes, and
the names of its dimensions; xarray opens the store with engine=\"b2kit\". Chunks
that are Blosc2 already (filter 32026 of HDF5) are moved without recompression,
unless an option for chunks or compression is given. Others become zstd, level
5, shuffle.

Zarr is read with the codecs bytes, transpose, sharding_indexed, blosc, zstd,
gzip, crc32c, b2kit.b2nd and b2kit.blosc2, and those of numcodecs: blosc, blosc2,
zstd, zlib, gzip, lz4, shuffle, delta, fixedscaleoffset, astype, quantize,
bitround. Chunks that are missing have
the fill value. A group at a URL needs consolidated metadata. What xarray wrote
as Zarr 2 keeps its fill value as the attribute _FillValue. Zarr is written with
the codec blosc (zstd, level 5, shuffle), which zarr-python always has.";

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "b2kit convert [OPTIONS] IN [PATH] OUT\n       b2kit convert [OPTIONS] -d DIR IN...\n       \
                      b2kit convert --list IN [PATH]"
)]
pub(crate) struct Args {
    /// The HDF5, NetCDF, Zarr, NIfTI or .npz file, a data set or group in it, and the new file or store (.b2d, .b2z, .b2e); or an array
    /// or store, and the new file (.h5, .nc, .zarr, .npz)
    #[arg(value_names = ["IN", "PATH", "OUT"], num_args = 1.., required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Convert each IN into a store (.b2d) in this folder, NIfTI into an array (.b2nd)
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["list", "slice"])]
    pub(super) directory: Option<PathBuf>,
    /// Take the HDF5, NetCDF, Zarr, NIfTI and .npz files in folders, and in their folders
    ///
    /// New stores go into the same folders below DIR. Links are not followed.
    #[arg(short, long, requires = "directory")]
    pub(super) recursive: bool,
    /// With -d: print which new stores there would be, and write nothing
    #[arg(long, requires = "directory")]
    pub(super) dry_run: bool,
    /// List what is in the file: shapes, types, chunks, filters, sizes
    #[arg(long)]
    pub(super) list: bool,
    /// With --list: one JSON object per line
    #[arg(long, requires = "list")]
    pub(super) json: bool,
    /// Read everything again, and compare, before the new file appears
    #[arg(long)]
    pub(super) verify: bool,
    /// Convert the rest where something cannot be converted, and name it
    #[arg(long)]
    pub(super) skip_unsupported: bool,
    /// Overwrite OUT, unless it is a folder, or holds arrays that the new store does not have
    #[arg(long)]
    pub(super) force: bool,
    /// Only these items, in NumPy's notation (one data set)
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    pub(super) slice: Option<String>,
    /// Store the numbers that packed ones stand for, as xarray does: scale_factor, add_offset; missing ones become NaN
    #[arg(long)]
    pub(super) mask_and_scale: bool,
    /// Do not wait for the disk
    #[arg(long)]
    pub(super) no_sync: bool,
    /// Chunk shape, in items (one data set)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(super) chunks: Option<Dims>,
    /// Block shape, in items (one data set)
    #[arg(long, value_name = "A,B,...", help_heading = "Layout")]
    pub(super) blocks: Option<Dims>,
    /// Codec: blosclz, lz4, lz4hc, zlib or zstd; of a new HDF5 file gzip or blosc2; of .npz gzip
    ///
    /// In Zarr these are the codecs of blosc, and gzip is another one. In HDF5, with blosc2 the chunks of the array are stored as they are, which needs the filter 32026 in other programs. It is the
    /// default for .h5 and the like; for .nc and .nc4 it is gzip, which every reader has.
    #[arg(long, value_name = "NAME", value_parser = compression, help_heading = "Compression")]
    pub(super) codec: Option<Compression>,
    #[command(flatten)]
    pub(super) clevel: Level,
    /// Filters in order of application, or none
    #[arg(long, value_name = "LIST", value_parser = filters_parser(), hide_possible_values = true, help_heading = "Compression")]
    pub(super) filters: Option<Filters>,
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compression {
    /// Shuffle and gzip, in HDF5.
    Gzip,
    /// Filter 32026 of HDF5: the chunks as they are.
    Blosc2,
    Own(Codec),
}

fn compression(name: &str) -> Result<Compression, String> {
    match name {
        "gzip" => Ok(Compression::Gzip),
        "blosc2" => Ok(Compression::Blosc2),
        _ => parse_codec(name).map(Compression::Own),
    }
}

impl Args {
    pub(super) fn encoding(&self) -> Result<Encoding> {
        let codec = match self.codec {
            None => None,
            Some(Compression::Gzip) => {
                return Err(Usage("--codec gzip: only for a new HDF5, Zarr or .npz file".into()).into());
            }
            Some(Compression::Blosc2) => {
                return Err(Usage("--codec blosc2: only for a new HDF5 file".into()).into());
            }
            Some(Compression::Own(Codec::Auto)) => {
                return Err(Usage("--codec auto: only for pack and copy".into()).into());
            }
            Some(Compression::Own(codec)) => Some(codec),
        };
        let encoding = Encoding {
            chunks: self.chunks.clone(),
            blocks: self.blocks.clone(),
            codec,
            clevel: self.clevel,
            filters: self.filters.clone(),
            ..Encoding::default()
        };
        if let Some(what) = lossy::of_options(&encoding) {
            return Err(Usage(format!("{what} loses data: convert first, then copy")).into());
        }
        Ok(encoding)
    }
}

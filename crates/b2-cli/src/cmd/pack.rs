//! `b2kit pack`

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::frame::FrameParams;
use b2kit::{Chunk, Dtype};

use crate::args::{Encoding, Global};
use crate::auto;
use crate::encode::{
    Layers, Target, Tracked, append_bytes, buffer, check_one_chunk, check_shape, chunksize, tell,
};
use crate::error::Usage;
use crate::input::Input;
use crate::lossy;
use crate::many;
use crate::npy::{self, RawSource, source::ByteSource};
use crate::operand::{Operand, refuse_directory};
use crate::output::{check_folder, claim};
use crate::plugins;
use crate::progress::Progress;
use crate::signals;
use crate::stdio;
use crate::values::{Codec, Format};
use crate::web;

const EXAMPLES: &str = "\
Examples:
  b2kit pack data.npy data.b2nd
  b2kit pack -d packed *.npy
  b2kit pack data.npy data.b2nd --codec lz4 --clevel 9 --filters bitshuffle
  b2kit pack data.npy data.b2nd --codec auto --goal speed
  b2kit pack data.npy data.b2nd --chunks 100,100,50 --blocks 20,20,50
  b2kit pack raw.bin data.b2nd --dtype '<f4' --shape 1000,2000
  b2kit pack raw.bin data.b2frame --typesize 8 --chunksize 4M
  b2kit pack data.npy dir.b2nd --format sframe --vlmeta 'unit=\"K\"'

An .npy file makes an array, told by its content. Everything else is raw
bytes and makes a super-chunk, or an array when --dtype and --shape are given.
Defaults: zstd, level 5, shuffle.";

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "b2kit pack [OPTIONS] IN OUT\n       b2kit pack [OPTIONS] -d DIR IN..."
)]
pub(crate) struct Args {
    /// The .npy file or raw bytes, then the new file (-: standard input or output)
    #[arg(value_names = ["IN", "OUT"], num_args = 1.., required = true)]
    paths: Vec<PathBuf>,
    /// Write a new file for each IN into this folder
    ///
    /// The new files are named as the inputs, with .b2nd for arrays and .b2frame for others.
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Overwrite OUT: a file, or the directory of a sparse frame
    #[arg(long)]
    force: bool,
    /// Do not wait for the disk
    ///
    /// Faster, but OUT may be lost or damaged if the power fails within the next half minute.
    #[arg(long)]
    no_sync: bool,
    /// Take IN as plain bytes, even if it is a file of a known format (.npy, HDF5, PNG, ...)
    #[arg(long)]
    raw: bool,
    /// Each IN holds .npy arrays that follow each other: write a file for each of them (-d)
    ///
    /// Of several arrays in many.npy the new files are many.0.b2nd, many.1.b2nd and so on.
    #[arg(long, requires = "directory", conflicts_with = "raw")]
    each: bool,
    #[command(flatten)]
    encoding: Encoding,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let format = args.encoding.format.unwrap_or(Format::Cframe);
    let Some(dir) = &args.directory else {
        return match &args.paths[..] {
            [input, output] => stdio::write_through(output, format, args.force, |path| {
                pack(args, input, (path, output), global)
            }),
            [input] => {
                Err(Usage(format!("{}: name the new file, or its folder with -d DIR", input.display()))
                    .into())
            }
            _ => Err(Usage("several inputs need -d DIR, the folder for the new files".into()).into()),
        };
    };
    if web::is_url(dir) {
        return Err(Usage("-d DIR: a folder, not a URL; upload one file at a time".into()).into());
    }
    let outputs = many::outputs(&args.paths, dir, |input| new_name(input, &args.encoding))?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut outputs = outputs.iter();
    many::each(&args.paths, |input| match outputs.next() {
        Some(output) if args.each => pack_each(args, input, output, global),
        Some(output) => pack(args, input, (output, output), global),
        None => Ok(()),
    })
}

/// Packs each of the arrays in `input` into its own file, with a number before the extension of `output`.
fn pack_each(args: &Args, input: &Path, output: &Path, global: Global) -> Result<()> {
    check_folder(output)?;
    // There may be more output files than inputs.
    signals::expect(0);
    let arrays = Operand::each(input, output)?;
    let numbered = arrays.len() > 1;
    for (n, array) in arrays.into_iter().enumerate() {
        let mut path = output.to_owned();
        if numbered {
            let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            path.set_extension(format!("{n}.{ending}"));
        }
        claim(&path, args.force, &[input])?;
        pack_operand(args, input, array, (&path, &path), global)?;
    }
    Ok(())
}

/// The name of a new file for `-d`: `.b2nd` for arrays, `.b2frame` or `.chunk` for other data.
fn new_name(input: &Path, encoding: &Encoding) -> Result<PathBuf> {
    if stdio::is_stdin(input) {
        return Err(Usage("-d DIR: standard input has no name; give IN and OUT".into()).into());
    }
    let Some(name) = input.file_name() else {
        return Err(Usage(format!("{}: has no name to use in -d DIR", input.display())).into());
    };
    let ending = match encoding.format {
        Some(Format::Chunk) => ".chunk",
        _ if encoding.shape.is_some() || npy::is_npy(input) => ".b2nd",
        _ => ".b2frame",
    };
    let mut new = match Path::new(name).extension() {
        Some(old) if old == "npy" => Path::new(name).with_extension("").into_os_string(),
        _ => name.to_owned(),
    };
    new.push(ending);
    Ok(new.into())
}

/// Packs `input` into the file `output`, which is called `shown` in messages.
fn pack(args: &Args, input: &Path, (output, shown): (&Path, &Path), global: Global) -> Result<()> {
    // Check options before reading anything.
    lossy::settle(&args.encoding, 4, None)?;
    if args.encoding.dtype.is_some() != args.encoding.shape.is_some() {
        return Err(Usage("--dtype and --shape go together".into()).into());
    }
    args.encoding.dtype()?;
    check_folder(output)?;
    claim(output, args.force, &[input])?;
    refuse_directory(input)?;
    let operand = if args.raw {
        Operand::raw(input, output)?
    } else {
        let mut operand = Operand::open(input, output)?;
        operand.refuse_foreign(input)?;
        operand
    };
    pack_operand(args, input, operand, (output, shown), global)
}

/// Packs `operand`, which was read from `input`.
fn pack_operand(
    args: &Args,
    input: &Path,
    operand: Operand,
    (output, shown): (&Path, &Path),
    global: Global,
) -> Result<()> {
    let start = Instant::now();
    let encoding = &args.encoding;
    let dtype = encoding.dtype()?;
    let named = || input.display().to_string();
    let Operand { file, len, npy, .. } = operand;
    let target = Target {
        path: output,
        shown,
        format: encoding.format.unwrap_or(Format::Cframe),
        overwrite: args.force,
        sync: !args.no_sync,
        block_starts: encoding.block_starts,
        global,
    };
    let mut layers = Layers::default();
    layers.add(encoding)?;
    let array = match (&npy, dtype, &encoding.shape) {
        (Some(_), Some(_), _) => return Err(anyhow!("--dtype and --shape: the .npy file says them")),
        (Some(header), ..) => Some(Array {
            dtype: header.dtype.clone(),
            shape: header.shape.clone(),
            offset: header.data_offset,
            fortran_order: header.fortran_order,
        }),
        (None, Some(dtype), Some(shape)) => {
            check_shape(&shape.0, &dtype, len).with_context(named)?;
            Some(Array { dtype, shape: shape.0.clone(), offset: 0, fortran_order: false })
        }
        _ => None,
    };
    let itemsize = array.as_ref().map(|array| array.dtype.itemsize());
    let itemsize = itemsize.unwrap_or_else(|| encoding.typesize.unwrap_or(1) as usize);
    let encoding = &lossy::settle(encoding, itemsize, None)?;
    let nbytes = npy.as_ref().map_or(len, |header| header.nbytes);
    let progress = Progress::new(named(), nbytes, global.quiet);
    let job = Job { name: named(), file, nbytes, encoding, target, global, progress };
    match array {
        Some(array) => job.pack_array(array, layers)?,
        None => job.pack_bytes(&layers)?,
    }
    tell(global, input, (output, shown), start, args.encoding.codec == Some(Codec::Auto))
}

struct Array {
    dtype: Dtype,
    shape: Vec<u64>,
    offset: u64,
    fortran_order: bool,
}

/// The input and how to write it.
struct Job<'a> {
    name: String,
    file: File,
    nbytes: u64,
    encoding: &'a Encoding,
    target: Target<'a>,
    global: Global,
    progress: Progress,
}

impl Job<'_> {
    fn pack_array(mut self, array: Array, layers: Layers) -> Result<()> {
        let Array { dtype, shape, offset, fortran_order } = array;
        let itemsize = dtype.itemsize();
        let again = self.file.try_clone()?;
        let source = RawSource::new(self.file, offset, &shape, itemsize, fortran_order)
            .context("the array is too large")?;
        if self.target.format == Format::Chunk {
            ensure!(self.encoding.typesize.is_none(), "--typesize: the dtype of an array says it");
            self.encoding.only_chunk_options()?;
            let mut plain = buffer(check_one_chunk(self.nbytes)?)?;
            source.read_box(&vec![0; shape.len()], &shape, &mut plain).context(self.name)?;
            lossy::check_dtype(&self.encoding.cparams(itemsize)?, &dtype)?;
            return pack_chunk(self.target, self.encoding, itemsize, &plain, self.global);
        }
        self.encoding.only_array_options()?;
        let geometry =
            self.encoding.array(&shape, dtype.clone(), plugins::cparams(itemsize).build()?)?.geometry()?;
        let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| Ok(source.read_box(start, shape, dst)?);
        let encoding = auto::for_array(self.encoding, &geometry, read).context(self.name)?;
        let cparams = encoding.cparams(itemsize)?;
        let promise = self.target.promise(&cparams, self.encoding);
        let builder = self.encoding.array(&shape, dtype, cparams)?;
        let original = RawSource::new(again, offset, &shape, itemsize, fortran_order)
            .context("the array is too large")?;
        let check = |written: &Input| match promise {
            Some(promise) => promise.check(written, |axes, dst| {
                let (start, shape): (Vec<u64>, Vec<u64>) =
                    axes.iter().map(|axis| (axis.start, axis.len)).unzip();
                Ok(original.read_box(&start, &shape, dst)?)
            }),
            None => Ok(()),
        };
        self.target.array(builder, layers, Tracked::new(source, &mut self.progress), check)
    }

    fn pack_bytes(mut self, layers: &Layers) -> Result<()> {
        let typesize = self.encoding.typesize.unwrap_or(1) as usize;
        if self.target.format == Format::Chunk {
            self.encoding.only_chunk_options()?;
            let mut plain = buffer(check_one_chunk(self.nbytes)?)?;
            self.file.read_exact_at(0, &mut plain).with_context(|| self.name.clone())?;
            return pack_chunk(self.target, self.encoding, typesize, &plain, self.global);
        }
        self.encoding.no_array_options("super-chunk")?;
        let again = self.file.try_clone()?;
        let (name, file) = (self.name, self.file);
        let mut read =
            move |offset: u64, dst: &mut [u8]| file.read_exact_at(offset, dst).with_context(|| name.clone());
        let cparams = auto::for_bytes(self.encoding, typesize, self.nbytes, &mut read)?.cparams(typesize)?;
        lossy::check_array(&cparams)?;
        let chunksize = chunksize(self.encoding.chunksize, self.nbytes, typesize as u64)?;
        let params = FrameParams::from_cparams(&cparams).chunksize(usize::try_from(chunksize)?);
        let mut writer = self.target.frame(params, layers)?;
        append_bytes(&mut writer, &cparams, chunksize, self.nbytes, read, &mut self.progress)?;
        if let Some(promise) = self.target.promise(&cparams, self.encoding) {
            promise.check(&Input::SuperChunk(writer.snapshot()?), |axes, dst| {
                Ok(again.read_exact_at(axes.first().map_or(0, |axis| axis.start), dst)?)
            })?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// Packs all bytes into one bare chunk.
fn pack_chunk(
    target: Target,
    encoding: &Encoding,
    typesize: usize,
    plain: &[u8],
    global: Global,
) -> Result<()> {
    let read = |at: u64, dst: &mut [u8]| {
        // The sampled ranges are inside `plain`.
        dst.copy_from_slice(&plain[at as usize..at as usize + dst.len()]);
        Ok(())
    };
    let encoding = auto::for_bytes(encoding, typesize, plain.len() as u64, read)?;
    let cparams = encoding.cparams(typesize)?;
    lossy::check_array(&cparams)?;
    let chunk = Chunk::compress_bytes(plain, &cparams)?;
    if let Some(promise) = target.promise(&cparams, &encoding) {
        let written = Input::from_chunk(chunk.clone(), plugins::dparams(global.limits(0)));
        promise.check(&written, |axes, dst| read(axes.first().map_or(0, |axis| axis.start), dst))?;
    }
    target.chunk(&chunk)
}

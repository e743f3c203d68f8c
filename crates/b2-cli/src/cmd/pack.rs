//! `b2kit pack`

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::{Chunk, Dtype, FrameParams};

use crate::args::{Encoding, Global};
use crate::auto;
use crate::encode::{
    Layers, Target, Tracked, append_bytes, buffer, check_one_chunk, check_shape, chunksize, tell,
};
use crate::error::Usage;
use crate::npy::{RawSource, source::ByteSource};
use crate::operand::Operand;
use crate::output::check_folder;
use crate::plugins;
use crate::progress::Progress;
use crate::values::Format;

const EXAMPLES: &str = "\
Examples:
  b2kit pack data.npy data.b2nd
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
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An .npy file or raw bytes (-: standard input)
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The new file; replaced if it is there
    #[arg(value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    encoding: Encoding,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let start = Instant::now();
    let encoding = &args.encoding;
    if encoding.dtype.is_some() != encoding.shape.is_some() {
        return Err(Usage("--dtype and --shape go together".into()).into());
    }
    let dtype = encoding.dtype()?;
    check_folder(&args.output)?;
    let named = || args.input.display().to_string();
    let Operand { file, len, npy, .. } = Operand::open(&args.input, &args.output)?;
    let target = Target {
        path: &args.output,
        format: encoding.format.unwrap_or(Format::Cframe),
        overwrite: true,
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
    let nbytes = npy.as_ref().map_or(len, |header| header.nbytes);
    let progress = Progress::new(named(), nbytes, global.quiet);
    let job = Job { name: named(), file, nbytes, encoding, target, progress };
    match array {
        Some(array) => job.pack_array(array, layers)?,
        None => job.pack_bytes(&layers)?,
    }
    tell(global, &args.input, &args.output, start)
}

struct Array {
    dtype: Dtype,
    shape: Vec<u64>,
    offset: u64,
    fortran_order: bool,
}

/// The input and how it is to be written.
struct Job<'a> {
    name: String,
    file: File,
    nbytes: u64,
    encoding: &'a Encoding,
    target: Target<'a>,
    progress: Progress,
}

impl Job<'_> {
    fn pack_array(mut self, array: Array, layers: Layers) -> Result<()> {
        let Array { dtype, shape, offset, fortran_order } = array;
        let itemsize = dtype.itemsize();
        let source = RawSource::new(self.file, offset, &shape, itemsize, fortran_order)
            .context("the array is too large")?;
        let mut source = Tracked { source, progress: &mut self.progress };
        if self.target.format == Format::Chunk {
            ensure!(self.encoding.typesize.is_none(), "--typesize: the dtype of an array says it");
            self.encoding.only_chunk_options()?;
            let mut plain = buffer(check_one_chunk(self.nbytes)?)?;
            source.source.read_box(&vec![0; shape.len()], &shape, &mut plain).context(self.name)?;
            return pack_chunk(self.target, self.encoding, itemsize, &plain);
        }
        self.encoding.only_array_options()?;
        let geometry =
            self.encoding.array(&shape, dtype.clone(), plugins::cparams(itemsize).build()?)?.geometry()?;
        let raw = &mut source.source;
        let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| Ok(raw.read_box(start, shape, dst)?);
        let encoding = auto::for_array(self.encoding, &geometry, read).context(self.name)?;
        let builder = self.encoding.array(&shape, dtype, encoding.cparams(itemsize)?)?;
        self.target.array(builder, layers, &mut source)
    }

    fn pack_bytes(mut self, layers: &Layers) -> Result<()> {
        let typesize = self.encoding.typesize.unwrap_or(1) as usize;
        if self.target.format == Format::Chunk {
            self.encoding.only_chunk_options()?;
            let mut plain = buffer(check_one_chunk(self.nbytes)?)?;
            self.file.read_exact_at(0, &mut plain).with_context(|| self.name.clone())?;
            return pack_chunk(self.target, self.encoding, typesize, &plain);
        }
        self.encoding.no_array_options("super-chunk")?;
        let (name, mut file) = (self.name, self.file);
        let mut read =
            move |offset: u64, dst: &mut [u8]| file.read_exact_at(offset, dst).with_context(|| name.clone());
        let cparams = auto::for_bytes(self.encoding, typesize, self.nbytes, &mut read)?.cparams(typesize)?;
        let chunksize = chunksize(self.encoding.chunksize, self.nbytes, typesize as u64)?;
        let params = FrameParams::from_cparams(&cparams).chunksize(usize::try_from(chunksize)?);
        let mut writer = self.target.frame(params, layers)?;
        append_bytes(&mut writer, &cparams, chunksize, self.nbytes, read, &mut self.progress)?;
        writer.finish()?;
        Ok(())
    }
}

/// All bytes in one bare chunk.
fn pack_chunk(target: Target, encoding: &Encoding, typesize: usize, plain: &[u8]) -> Result<()> {
    let read = |at: u64, dst: &mut [u8]| {
        // Inside `plain`.
        dst.copy_from_slice(&plain[at as usize..at as usize + dst.len()]);
        Ok(())
    };
    let encoding = auto::for_bytes(encoding, typesize, plain.len() as u64, read)?;
    target.chunk(&Chunk::compress(plain, &encoding.cparams(typesize)?)?)
}

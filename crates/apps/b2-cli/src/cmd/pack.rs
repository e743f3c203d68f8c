//! `b2kit pack`

mod join;

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use b2kit::frame::{FrameParams, ReadAt};
use b2kit::{Chunk, Dtype};

use self::join::JoinAxis;
use crate::args::{Codec, Encoding, FilesFrom, Format, Global, Placement, plugins};
use crate::files::{
    GroupCommit, InputFile, InputRemoval, ModeOf, WalkDecision, check_folder, claim, keep_time, print_plan,
    recognition, refuse_other_format, refuse_second_input, stdio, urls, walk, write_through,
};
use crate::formats::npy;
use crate::process::{Progress, Usage, batch, buffer, signals};
use crate::read::{Input, Items, Operand, refuse_directory, refuse_url_input};
use crate::write::{
    Layers, NewFile, append_bytes, auto, check_one_chunk, chunksize, lossy, report, shape_of,
};

const EXAMPLES: &str = "\
Examples:
  b2kit pack data.npy data.b2nd
  b2kit pack data.npy                    writes data.b2nd
  b2kit pack -d packed *.npy
  b2kit pack -r measured -d packed       with the folders in it
  b2kit pack --concat 0 jan.npy feb.npy mar.npy year.b2nd
  b2kit pack --stack day-*.npy days.b2nd
  b2kit pack data.npy data.b2nd --codec lz4 --clevel 9 --filters bitshuffle
  b2kit pack data.npy data.b2nd --codec auto --goal speed
  b2kit pack data.npy data.b2nd --chunks 100,100,50 --blocks 20,20,50
  b2kit pack raw.bin data.b2nd --dtype '<f4' --shape 1000,-1
  b2kit pack raw.bin data.b2frame --typesize 8 --chunksize 4M
  b2kit pack data.npy dir.b2nd --format sframe --vlmeta 'unit=\"K\"'

An .npy file, recognised by its content, makes an array. Everything else is raw
bytes and makes a super-chunk, or an array with --dtype (of one dimension unless
--shape is given, which with --concat and --stack is that of each IN).
Defaults: zstd, level 5, shuffle.";

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "b2kit pack [OPTIONS] IN [OUT]\n       b2kit pack [OPTIONS] -d DIR IN...\n       \
                      b2kit pack [OPTIONS] --concat AXIS|--stack[=AXIS] IN... OUT"
)]
pub(crate) struct Args {
    /// The .npy file or raw bytes, then the new file (-: standard input or output)
    #[arg(value_names = ["IN", "OUT"], num_args = 1.., required_unless_present = "files_from")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    listed: FilesFrom,
    /// Write a new file for each IN into this folder
    ///
    /// The new files are named as the inputs, with .b2nd for arrays and .b2frame for others. They are synced in
    /// groups: up to 64 files, or 64 MiB, get their names together.
    #[arg(short, long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
    #[command(flatten)]
    placement: Placement,
    /// Overwrite OUT: a file, or a whole sparse frame
    #[arg(long)]
    force: bool,
    /// Do not wait for the disk
    ///
    /// Faster, but OUT may be lost or damaged if the power fails within the next half minute.
    #[arg(long, conflicts_with = "rm")]
    no_sync: bool,
    /// Treat IN as plain bytes, even .npy, HDF5 and others
    #[arg(long)]
    raw: bool,
    /// Each IN holds .npy arrays that follow each other: write a file for each of them (-d), or join them
    ///
    /// Several arrays in many.npy become many.0.b2nd, many.1.b2nd and so on.
    #[arg(long, conflicts_with_all = ["raw", "rm", "recursive"])]
    each: bool,
    /// Join all IN along this dimension into one array; negative ones count from the end
    #[arg(
        long,
        value_name = "AXIS",
        allow_negative_numbers = true,
        conflicts_with_all = ["directory", "stack", "rm", "recursive"]
    )]
    concat: Option<i64>,
    /// Join all IN, which have the same shape, along a new dimension [default: the first one]
    #[arg(
        long,
        value_name = "AXIS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0",
        allow_negative_numbers = true,
        conflicts_with_all = ["directory", "rm", "recursive"]
    )]
    stack: Option<i64>,
    #[command(flatten)]
    encoding: Encoding,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let format = args.encoding.format.unwrap_or(Format::Cframe);
    let paths = args.listed.and(&args.paths)?;
    if args.join().is_some() {
        let (inputs, output) = match (&paths[..], args.placement.named()) {
            (inputs @ [_, ..], Some(output)) => (inputs, output),
            ([inputs @ .., output], None) if !inputs.is_empty() => (inputs, output.as_path()),
            _ => return Err(Usage("--concat and --stack: give the inputs, then the new file".into()).into()),
        };
        if args.placement.dry_run {
            return pack(args, inputs, (output, output), None, global);
        }
        return write_through(output, format, args.force, |path| {
            pack(args, inputs, (path, output), None, global)
        });
    }
    if args.each && args.directory.is_none() {
        return Err(Usage("--each: with -d DIR, --concat or --stack".into()).into());
    }
    // Names in a list, and folders, are all inputs.
    if args.placement.recursive || args.directory.is_none() && args.listed.files_from.is_some() {
        return pack_all(args, &paths, global);
    }
    let Some(dir) = &args.directory else {
        let into = |input: &PathBuf, output: &Path| {
            let removal = removal(args, input, output)?;
            let inputs = slice::from_ref(input);
            if args.placement.dry_run {
                return pack(args, inputs, (output, output), None, global);
            }
            write_through(output, format, args.force, |path| {
                pack(args, inputs, (path, output), None, global)
            })?;
            removal.map_or(Ok(()), |removal| removal.finish(global))
        };
        return match (&paths[..], args.placement.named()) {
            ([input], Some(output)) => into(input, output),
            ([input], None) => {
                refuse_url_input(input).with_context(|| input.display().to_string())?;
                into(input, &input.with_file_name(new_name(input, &args.encoding)?))
            }
            ([input, output], None) => {
                refuse_other_format(output)
                    .map_err(|error| anyhow!("{error}; several inputs need -d DIR"))?;
                refuse_second_input(input, output)?;
                into(input, output)
            }
            (_, Some(_)) => Err(Usage("-o OUT and -c take one input; -d DIR takes several".into()).into()),
            (_, None) => Err(Usage(
                "several inputs need -d DIR, the folder for the new files, or --concat or --stack for one array"
                    .into(),
            )
            .into()),
        };
    };
    if urls::is_url(dir) {
        return Err(Usage("-d DIR: a folder, not a URL; upload one file at a time".into()).into());
    }
    let outputs = batch::outputs(&paths, dir, |input| new_name(input, &args.encoding))?;
    if !args.placement.dry_run {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut outputs = outputs.iter();
    let late = DeferredFiles::default();
    let run = |input: &Path| match outputs.next() {
        Some(output) if args.each => pack_each(args, input, output, &late, global),
        Some(output) => pack_one(args, input, output, &late, global),
        None => Ok(()),
    };
    batch::each_then(&paths, run, |all| late.finish(all, global))
}

/// Files of `-d` that are complete, but not yet synced and renamed.
#[derive(Default)]
struct DeferredFiles {
    together: Arc<GroupCommit>,
    /// The messages about them, in the same order.
    unreported: RefCell<Vec<PackReport>>,
    /// Errors of files that were finished between two inputs.
    failed: RefCell<Vec<Error>>,
}

/// The message about a new file.
struct PackReport {
    input: PathBuf,
    output: PathBuf,
    start: Instant,
    chosen: bool,
    keep_time: bool,
}

impl DeferredFiles {
    /// Whether the sync and rename of a new file can be deferred: for a contiguous frame that is new or replaces a file.
    fn takes(&self, output: &Path, args: &Args) -> bool {
        let format = args.encoding.format.unwrap_or(Format::Cframe);
        let free = fs::symlink_metadata(output).map_or(true, |there| there.is_file());
        format == Format::Cframe && !args.no_sync && free
    }

    /// Syncs and renames the files if there are many, or if `all` is set. Returns the
    /// errors.
    fn finish(&self, all: bool, global: Global) -> Vec<Error> {
        let mut failed = self.failed.take();
        if !all && !self.together.is_full() {
            return failed;
        }
        let reports = self.unreported.take();
        let finished = self.together.finish().into_iter().zip(reports).map(|(finished, new)| {
            let PackReport { input, output, start, chosen, keep_time } = new;
            finished.with_context(|| output.display().to_string())?;
            if keep_time {
                self::keep_time(&input, &output)?;
            }
            if signals::check().is_err() {
                // The file is complete, but a signal would stop reading it.
                signals::done();
                return Ok(());
            }
            report(global, &input, (&output, &output), start, chosen)
        });
        failed.extend(finished.filter_map(Result::err));
        failed
    }
}

/// Packs `input` into the file `output`, and removes the input if requested.
fn pack_one(args: &Args, input: &Path, output: &Path, late: &DeferredFiles, global: Global) -> Result<()> {
    let removal = removal(args, input, output)?;
    // An input is removed when its new file is on disk.
    let late = removal.is_none().then_some(late);
    pack(args, &[input.to_owned()], (output, output), late, global)?;
    removal.map_or(Ok(()), |removal| removal.finish(global))
}

/// Packs all files, with `-r` also those in folders, except for files in folders that are already packed.
fn pack_all(args: &Args, paths: &[PathBuf], global: Global) -> Result<()> {
    let look = |path: &Path| {
        let packed = WalkDecision::No("packed already");
        Ok(match path.is_dir() {
            true if recognition::directory(path).is_some_and(|found| found.is_ours()) => packed,
            // Other folders are rejected when they are packed.
            true if recognition::directory(path).is_some() => WalkDecision::Yes,
            true => WalkDecision::Inside,
            false if !args.raw && is_packed(path).unwrap_or(false) => packed,
            false => WalkDecision::Yes,
        })
    };
    let found = match args.placement.recursive {
        true => walk(paths, args.directory.as_deref(), global, look)?,
        false => paths.iter().map(|path| InputFile::named(path)).collect(),
    };
    let new = |found: &InputFile| -> Result<PathBuf> {
        let name = new_name(&found.path, &args.encoding)?;
        Ok(match &args.directory {
            Some(dir) => dir.join(&found.below).join(name),
            None => found.path.with_file_name(name),
        })
    };
    let outputs = found.iter().map(new).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<PathBuf> = found.into_iter().map(|found| found.path).collect();
    batch::distinct(&inputs, &outputs)?;
    let mut outputs = outputs.iter();
    let late = DeferredFiles::default();
    let run = |input: &Path| {
        let Some(output) = outputs.next() else { return Ok(()) };
        if let (Some(_), Some(folder), false) = (&args.directory, output.parent(), args.placement.dry_run) {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        pack_one(args, input, output, &late, global)
    };
    batch::each_then(&inputs, run, |all| late.finish(all, global))
}

/// Whether a file holds a frame or a chunk, by its content.
fn is_packed(path: &Path) -> Result<bool> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut head = buffer(usize::try_from(recognition::LOOK.min(len))?)?;
    file.read_exact_at(0, &mut head)?;
    Ok(recognition::recognise(path, &head, len).is_some_and(|found| found.is_ours()))
}

/// What `--rm` will remove.
///
/// # Errors
/// Fails if the input must not be removed, for example because the new file does not keep everything and `--allow-lossy` is not given.
fn removal(args: &Args, input: &Path, output: &Path) -> Result<Option<InputRemoval>> {
    if !args.placement.rm {
        return Ok(None);
    }
    if !args.encoding.allow_lossy {
        let named = input.display();
        if let Some(what) = lossy::of_options(&lossy::settle(&args.encoding, 4, None)?) {
            bail!("{named}: --rm: lossy ({what}); --allow-lossy removes it all the same");
        }
        let chunk = args.encoding.format == Some(Format::Chunk);
        let forgets = chunk && !args.raw && npy::is_npy(input).with_context(|| named.to_string())?;
        ensure!(
            !forgets,
            "{named}: --rm: a bare chunk keeps neither shape nor dtype; --allow-lossy removes it all the same"
        );
    }
    let removal = InputRemoval::of(input)?;
    removal.check_output(output)?;
    Ok(Some(removal).filter(|_| !args.placement.dry_run))
}

/// Packs each of the arrays in `input` into its own file, with a number before the extension of `output`.
fn pack_each(args: &Args, input: &Path, output: &Path, late: &DeferredFiles, global: Global) -> Result<()> {
    if !args.placement.dry_run {
        check_folder(output)?;
    }
    let _mode = ModeOf::inputs([input]);
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
        if args.placement.dry_run {
            print_plan(&[input], &path)?;
            continue;
        }
        pack_operands(args, input, vec![array], (&path, &path), Some(late), global)?;
        let failed = late.finish(false, global);
        late.failed.borrow_mut().extend(failed);
    }
    Ok(())
}

/// The default name of a new file: `.b2nd` for arrays, `.b2frame` or `.chunk` for other data.
fn new_name(input: &Path, encoding: &Encoding) -> Result<PathBuf> {
    if stdio::is_stdin(input) {
        return Err(
            Usage("standard input has no name: give OUT as well, or -c for standard output".into()).into()
        );
    }
    let Some(name) = input.file_name() else {
        return Err(Usage(format!("{}: has no name for a new file", input.display())).into());
    };
    let ending = match encoding.format {
        Some(Format::Chunk) => ".chunk",
        _ if encoding.dtype.is_some() => ".b2nd",
        _ if npy::is_npy(input).with_context(|| input.display().to_string())? => ".b2nd",
        _ => ".b2frame",
    };
    let mut new = match Path::new(name).extension() {
        Some(old) if old == "npy" => Path::new(name).with_extension("").into_os_string(),
        _ => name.to_owned(),
    };
    new.push(ending);
    Ok(new.into())
}

/// Packs the inputs, which are joined if there are several, into the file `output`. `shown` is its name in messages.
fn pack(
    args: &Args,
    inputs: &[PathBuf],
    (output, shown): (&Path, &Path),
    late: Option<&DeferredFiles>,
    global: Global,
) -> Result<()> {
    // Check options before reading anything.
    lossy::settle(&args.encoding, 4, None)?;
    if args.encoding.shape.is_some() && args.encoding.dtype.is_none() {
        return Err(Usage("--shape needs --dtype".into()).into());
    }
    args.encoding.dtype()?;
    let is_dry = args.placement.dry_run;
    if !is_dry || args.directory.is_none() {
        check_folder(output)?;
    }
    let paths: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let _mode = ModeOf::inputs(paths.iter().copied());
    refuse_other_format(shown)?;
    claim(output, args.force, &paths)?;
    for input in inputs {
        refuse_directory(input).map_err(|error| match recognition::directory(input) {
            Some(_) => error,
            None => anyhow!("{error}; -r packs the files in it"),
        })?;
    }
    // Standard input, pipes and URLs are not read for a plan.
    let is_stream = |input: &Path| stdio::is_stdin(input) || input.exists() && !input.is_file();
    if is_dry && paths.iter().any(|input| is_stream(input) || urls::is_url(input)) {
        return print_plan(&paths, shown);
    }
    let operands = if args.raw {
        inputs.iter().map(|input| Operand::raw(input, output)).collect::<Result<Vec<_>>>()?
    } else {
        let operands = Operand::several(inputs, output, args.each)?;
        // With --each all of them are .npy arrays.
        for (operand, input) in operands.iter().zip(inputs) {
            operand.refuse_foreign(input)?;
        }
        operands
    };
    if is_dry {
        return print_plan(&paths, shown);
    }
    pack_operands(args, &inputs[0], operands, (output, shown), late, global)
}

/// Packs `operands`, which were read from `input` and, if they are to be joined, from others.
fn pack_operands(
    args: &Args,
    input: &Path,
    mut operands: Vec<Operand>,
    (output, shown): (&Path, &Path),
    late: Option<&DeferredFiles>,
    global: Global,
) -> Result<()> {
    let start = Instant::now();
    let encoding = &args.encoding;
    let dtype = encoding.dtype()?;
    let keep_time = args.placement.keep_time;
    let late = late.filter(|late| late.takes(output, args));
    let target = NewFile {
        together: late.map(|late| &late.together),
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
    let from = match operands.get(1..).unwrap_or_default() {
        [] => input.to_owned(),
        more => format!("{} and {} more", input.display(), more.len()).into(),
    };
    let done = || {
        let chosen = args.encoding.codec == Some(Codec::Auto);
        let Some(late) = late else {
            if keep_time {
                self::keep_time(input, output)?;
            }
            return report(global, &from, (output, shown), start, chosen);
        };
        let report = PackReport { input: from.clone(), output: output.to_owned(), start, chosen, keep_time };
        late.unreported.borrow_mut().push(report);
        Ok(())
    };
    let arrays = operands.iter().map(|operand| {
        Ok(match (&operand.npy, &dtype) {
            (Some(_), Some(_)) => {
                return Err(anyhow!("--dtype and --shape are taken from the .npy file; remove them"));
            }
            (Some(header), None) => Some((header.dtype.clone(), header.shape.clone())),
            (None, Some(dtype)) => {
                let shape = shape_of(encoding.shape.as_ref(), dtype, operand.len);
                Some((dtype.clone(), shape.with_context(|| operand.name.clone())?))
            }
            (None, None) => None,
        })
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let Some((dtype, shape)) = arrays.first().cloned().flatten() else {
        ensure!(
            args.join().is_none(),
            "{}: raw bytes: --concat and --stack join arrays, so add --dtype",
            input.display()
        );
        let itemsize = encoding.typesize.unwrap_or(1) as usize;
        let encoding = &lossy::settle(encoding, itemsize, None)?;
        let Some(operand) = operands.pop() else { return Ok(()) };
        Job { encoding, target, global }.pack_bytes(operand, &layers)?;
        return done();
    };
    let encoding = &lossy::settle(encoding, dtype.itemsize(), None)?;
    let (shape, items) = match args.join() {
        Some(join) => join.items(operands, arrays, &dtype, global)?,
        None => {
            let Some(operand) = operands.pop() else { return Ok(()) };
            (shape.clone(), operand.into_items(&shape, dtype.itemsize(), global.quiet)?)
        }
    };
    Job { encoding, target, global }.pack_array(dtype, &shape, &items, layers)?;
    done()
}

impl Args {
    /// How the inputs are joined to one array, if they are.
    fn join(&self) -> Option<JoinAxis> {
        self.concat.map(JoinAxis::Concat).or(self.stack.map(JoinAxis::Stack))
    }
}

/// How to write the input, and where.
struct Job<'a> {
    encoding: &'a Encoding,
    target: NewFile<'a>,
    global: Global,
}

impl Job<'_> {
    fn pack_array(self, dtype: Dtype, shape: &[u64], items: &Items, layers: Layers) -> Result<()> {
        let itemsize = dtype.itemsize();
        if self.target.format == Format::Chunk {
            ensure!(self.encoding.typesize.is_none(), "--typesize conflicts with the array's dtype");
            self.encoding.only_chunk_options()?;
            let nbytes = npy::nbytes(shape, itemsize as u64).context("the array is too large")?;
            let mut plain = buffer(check_one_chunk(nbytes)?)?;
            items.read(&vec![0; shape.len()], shape, &mut plain)?;
            lossy::check_dtype(&self.encoding.cparams(itemsize)?, &dtype)?;
            return pack_chunk(self.target, self.encoding, itemsize, &plain, self.global);
        }
        self.encoding.only_array_options()?;
        let geometry =
            self.encoding.array(shape, dtype.clone(), plugins::cparams(itemsize).build()?)?.geometry()?;
        let read = |start: &[u64], shape: &[u64], dst: &mut [u8]| Ok(items.read_again(start, shape, dst)?);
        let encoding = auto::for_array(self.encoding, &geometry, read)?;
        let cparams = encoding.cparams(itemsize)?;
        let promise = self.target.promise(&cparams, self.encoding);
        let builder = self.encoding.array(shape, dtype, cparams)?;
        let check = |written: &Input| {
            lossy::check_boxes(promise, written, |start, shape, dst| items.read_again(start, shape, dst))
        };
        self.target.array(builder, layers, items, check)
    }

    fn pack_bytes(self, operand: Operand, layers: &Layers) -> Result<()> {
        let nbytes = operand.nbytes();
        let Operand { name, file, .. } = operand;
        let typesize = self.encoding.typesize.unwrap_or(1) as usize;
        if self.target.format == Format::Chunk {
            self.encoding.only_chunk_options()?;
            let mut plain = buffer(check_one_chunk(nbytes)?)?;
            file.read_exact_at(0, &mut plain).context(name)?;
            return pack_chunk(self.target, self.encoding, typesize, &plain, self.global);
        }
        self.encoding.no_array_options("super-chunk")?;
        let mut progress = Progress::new(name.clone(), nbytes, self.global.quiet);
        let again = file.try_clone()?;
        let mut read =
            move |offset: u64, dst: &mut [u8]| file.read_exact_at(offset, dst).with_context(|| name.clone());
        let cparams = auto::for_bytes(self.encoding, typesize, nbytes, &mut read)?.cparams(typesize)?;
        lossy::check_array(&cparams)?;
        let chunksize = chunksize(self.encoding.chunksize, nbytes, typesize as u64)?;
        let params = FrameParams::from_cparams(&cparams).chunksize(usize::try_from(chunksize)?);
        let mut writer = self.target.frame(params, layers)?;
        append_bytes(&mut writer, &cparams, chunksize, nbytes, read, &mut progress)?;
        let read = |at: u64, dst: &mut [u8]| Ok(again.read_exact_at(at, dst)?);
        let promise = self.target.promise(&cparams, self.encoding);
        lossy::check_bytes(promise, || Ok(Input::SuperChunk(writer.snapshot()?)), read)?;
        writer.finish()?;
        Ok(())
    }
}

/// Packs all bytes into one bare chunk.
fn pack_chunk(
    target: NewFile,
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
    let written = || Ok(Input::from_chunk(chunk.clone(), plugins::dparams(global.limits(0))));
    lossy::check_bytes(target.promise(&cparams, &encoding), written, read)?;
    target.chunk(&chunk)
}

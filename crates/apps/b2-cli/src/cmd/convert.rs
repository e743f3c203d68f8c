//! `b2kit convert`

mod args;
mod back;
mod glob;
mod job;
mod listing;
mod nodes;
mod others;
mod part;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2_store::{StoreError, StoreLayout, StoreWriter};
use b2kit::frame::{Durability, MAGIC};
use b2kit::{ArrayBuilder, NdArray};

pub(crate) use self::args::Args;
use self::job::{Job, compare};
pub(crate) use self::listing::Listing;
use self::nodes::{Content, Item, Node, SourceFile};
use self::part::DataSelection;
use crate::args::{Encoding, Format, Global, plugins};
use crate::files::{
    InputFile, ModeOf, Output, WalkDecision, check_folder, claim, members, print_plan, recognition,
    refuse_other_format, stdio, urls, walk, write_through,
};
use crate::formats::nifti::{self, is_nifti};
use crate::print::{count, printable_json, short_size};
use crate::process::{Usage, batch, one_line, signals};
use crate::read::{Input, Store, UNLIMITED, slice};
use crate::write::report;

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    if let Some(dir) = &args.directory {
        return convert_each(args, dir, global);
    }
    let text = |path: &PathBuf| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| anyhow::Error::from(Usage(format!("{}: not a path in a file", path.display()))))
    };
    let (input, path, output) = match (&args.paths[..], args.list) {
        ([input], true) => (input, None, None),
        ([input, path], true) => (input, Some(text(path)?), None),
        ([input, output], false) => (input, None, Some(output)),
        ([input, path, output], false) => (input, Some(text(path)?), Some(output)),
        (_, true) => return Err(Usage("--list: give the file, and perhaps a group in it".into()).into()),
        (_, false) => return Err(Usage("give the file, and then the new one".into()).into()),
    };
    let named = || input.display().to_string();
    let _mode = ModeOf::inputs([&**input]);
    stdio::refuse_stdin(input, "cannot be converted: name the file").with_context(named)?;
    if let Some((output, target)) = output.and_then(|output| Some((output, back::Target::of(output)?))) {
        if path.is_some() {
            let why = "PATH: only for a new Blosc2 file; a data set in a new HDF5 file is named as in x.h5::/group/name, a member of a store as in s.b2d::/a";
            return Err(Usage(why.into()).into());
        }
        check_folder(&members::file(output))?;
        claim(&members::file(output), args.force, &[input])?;
        refuse_to_drop_arrays(output, global)?;
        let job = Job { args, encoding: Encoding::default(), input, global };
        return job.back(output, target).with_context(named);
    }
    let (input, path) = match (members::split(input), path) {
        (Some((file, name)), None) => (file, name),
        (_, path) => (input.clone(), path.unwrap_or_else(|| "/".into())),
    };
    let Some(output) = output else {
        let text = SourceFile::open(&input, global)
            .and_then(|file| file.list(&path, args.json))
            .with_context(named)?;
        let mut output = Output::stdout();
        output.send(printable_lines(&text, args.json).as_bytes())?;
        return output.finish();
    };
    convert(args, &input, &path, output, global)
}

/// The lines of `--list`: those of JSON have characters that a terminal would act on.
fn printable_lines(text: &str, is_json: bool) -> String {
    if is_json { printable_json(text) } else { text.to_owned() }
}

/// Returns the error for an input that has none of the formats. For Blosc2 it names the commands to use.
fn of_other_input(input: &Path, output: &Path, error: anyhow::Error) -> anyhow::Error {
    let file = members::file(input);
    let is_frame = fs::File::open(&file).and_then(|file| {
        let mut head = [0; MAGIC.len()];
        file.take(MAGIC.len() as u64).read_exact(&mut head)?;
        Ok(head == MAGIC)
    });
    if file.is_dir() || is_frame.unwrap_or(false) {
        return anyhow!(
            "a Blosc2 file becomes HDF5, Zarr or .npz if the new file is called .h5, .nc, .zarr or .npz, and {} is not; \
             b2kit copy writes another Blosc2 file, b2kit unpack an .npy file",
            output.display()
        );
    }
    error
}

/// Converts a data set, or a group into a store.
fn convert(args: &Args, input: &Path, path: &str, output: &Path, global: Global) -> Result<()> {
    let named = || input.display().to_string();
    let encoding = args.encoding()?;
    let opened = SourceFile::open(input, global);
    let file = opened.map_err(|error| of_other_input(input, output, error)).with_context(named)?;
    check_folder(output)?;
    refuse_other_format(output)?;
    claim(output, args.force, &[input])?;
    let job = Job { args, encoding, input, global };
    match layout(output) {
        Some(layout) => job.store(&file, path, output, layout).with_context(named),
        None => job.one(&file, path, output).with_context(named),
    }
}

/// Why a file in a folder is no input.
const OTHER: &str = "neither HDF5, NetCDF, Zarr, NIfTI nor .npz";

/// Converts each file, with `-r` also those in folders, into a store in the folder `dir`; NIfTI into an array.
fn convert_each(args: &Args, dir: &Path, global: Global) -> Result<()> {
    if urls::is_url(dir) {
        return Err(Usage("-d DIR: a folder, not a URL".into()).into());
    }
    let look = |path: &Path| {
        Ok(match path.is_dir() {
            true if recognition::is_zarr(path) => WalkDecision::Yes,
            true if recognition::directory(path).is_some() => WalkDecision::No(OTHER),
            true => WalkDecision::Inside,
            false if recognition::hdf5(path).is_some() || recognition::is_npz(path) || is_nifti(path) => {
                WalkDecision::Yes
            }
            false => WalkDecision::No(OTHER),
        })
    };
    let found = match args.recursive {
        true => walk(&args.paths, Some(dir), global, look)?,
        false => args.paths.iter().map(|path| InputFile::named(path)).collect(),
    };
    let new = |found: &InputFile| -> Result<PathBuf> {
        let name = urls::local_name(&found.path)?;
        let name = match is_nifti(&found.path) {
            true => PathBuf::from(format!("{}.b2nd", nifti::stem(&name))),
            false => Path::new(name.file_name().unwrap_or_default()).with_extension("b2d"),
        };
        Ok(dir.join(&found.below).join(name))
    };
    let outputs = found.iter().map(new).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<PathBuf> = found.into_iter().map(|found| found.path).collect();
    batch::distinct(&inputs, &outputs)?;
    let mut outputs = outputs.iter();
    batch::each(&inputs, |input| {
        let Some(output) = outputs.next() else { return Ok(()) };
        stdio::refuse_stdin(input, "cannot be converted: name the file")?;
        if args.dry_run {
            claim(output, args.force, &[input])?;
            return print_plan(&[input], output);
        }
        let _mode = ModeOf::inputs([input]);
        if let Some(folder) = output.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        convert(args, input, "/", output, global)
    })
}

/// The kind of store that a name asks for.
fn layout(output: &Path) -> Option<StoreLayout> {
    match output.extension()?.to_str()? {
        "b2d" => Some(StoreLayout::Directory),
        "b2z" => Some(StoreLayout::Archive),
        "b2e" => Some(StoreLayout::Frame),
        _ => None,
    }
}

impl Job<'_> {
    /// Converts one array: that of the path, or the only one of the file.
    fn one(&self, file: &SourceFile, path: &str, output: &Path) -> Result<()> {
        let start = Instant::now();
        let Node { path, content: Content::Array(item) } = file.one(path)? else {
            bail!("there is no {} in {path}", file.noun());
        };
        self.note_attrs(&path, item.attrs_left_out());
        write_through(output, Format::Cframe, self.args.force, |to| {
            self.write(&path, &item, to, true)?;
            report(self.global, self.input, (to, output), start, false)
        })
    }

    /// Converts a group into a store.
    fn store(&self, file: &SourceFile, path: &str, output: &Path, layout: StoreLayout) -> Result<()> {
        ensure!(
            self.args.slice.is_none(),
            "--slice is for one data set: give its path, and a name without .b2d, .b2z or .b2e"
        );
        ensure!(
            self.args.chunks.is_none() && self.args.blocks.is_none(),
            "--chunks and --blocks are for one data set: give its path, and a name without .b2d, .b2z or .b2e"
        );
        let start = Instant::now();
        let nodes = file.nodes(path)?;
        self.check_all(&nodes)?;
        let root = nodes.first().map_or("/", |node| &*node.path).trim_end_matches('/').to_owned();
        let key = |path: &str| path.strip_prefix(&root).unwrap_or(path).trim_start_matches('/').to_owned();
        let replaced = members_of(output, self.global);
        let key_of = |path: &str| match key(path) {
            key if key.is_empty() => last_part(path).to_owned(),
            key => key,
        };
        let arrays = nodes.iter().filter(|node| matches!(node.content, Content::Array(_)));
        let keys: Vec<String> = arrays.map(|node| key_of(&node.path)).collect();
        let lost: Vec<&String> = replaced.iter().filter(|key| !keys.contains(*key)).collect();
        refuse_to_lose(output, &lost)?;
        signals::begin();
        let mut writer = StoreWriter::create(output, layout, self.args.force)?;
        let (mut arrays, mut nbytes) = (0_u64, 0_u64);
        let orders: Vec<_> = nodes.iter().map(|node| order(&nodes, node)).collect();
        // Each array is closed when it has been converted.
        for (Node { path, content }, order) in nodes.into_iter().zip(orders) {
            match content {
                Content::Group { attrs: mut values, left_out } => {
                    self.note_attrs(&path, &left_out);
                    values.extend(order);
                    for (name, value) in b2_hdf5::attribute_layers(&values) {
                        match writer.set_attribute(&key(&path), name, &value) {
                            Err(error) if is_no_key(&error) => {
                                self.left_out(&path, error)?;
                                break;
                            }
                            set => set?,
                        }
                    }
                }
                Content::Dimension => self.global.log(|| format!("{path}: a dimension without items")),
                Content::Array(item) => {
                    self.note_attrs(&path, item.attrs_left_out());
                    let put = writer.put_with(&key_of(&path), |to| self.write(&path, &item, to, false));
                    match put.map_err(anyhow::Error::downcast::<StoreError>) {
                        Ok(written) => {
                            arrays += 1;
                            nbytes = nbytes.saturating_add(written);
                        }
                        Err(Ok(error)) if is_no_key(&error) => self.left_out(&path, error)?,
                        Err(Ok(error)) => return Err(error).with_context(|| path.clone()),
                        Err(Err(error)) => return Err(error),
                    }
                }
                Content::LeftOut(what) => self.note(&format!("{path}: {what}: left out")),
                // Those were refused, or named above.
                Content::Failed(_) => {}
            }
        }
        ensure!(arrays > 0, "there is no {} in {path}", file.noun());
        signals::check()?;
        writer.finish()?;
        signals::done();
        let seconds = self.global.seconds(start);
        let names = format!("{} -> {}", self.input.display(), output.display());
        let old = match replaced.len() {
            0 => String::new(),
            n => format!(", in place of a store with {}", count(n as u64, "array")),
        };
        self.note(&format!("{names}  {}, {}{old}{seconds}", count(arrays, "array"), short_size(nbytes)));
        Ok(())
    }

    /// Names something whose name a store cannot have, with `--skip-unsupported`; otherwise fails.
    fn left_out(&self, path: &str, error: StoreError) -> Result<()> {
        let error = anyhow::Error::from(error).context(path.to_owned());
        if !self.args.skip_unsupported {
            bail!("{}; --skip-unsupported converts the rest", one_line(&error));
        }
        self.note(&format!("{}; left out", one_line(&error)));
        Ok(())
    }

    /// Refuses a file with something that cannot be converted, or names it.
    fn check_all(&self, nodes: &[Node]) -> Result<()> {
        let failed: Vec<String> = nodes
            .iter()
            .filter_map(|node| match &node.content {
                Content::Failed(why) => Some(format!("{}: {why}", node.path)),
                _ => None,
            })
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        if self.args.skip_unsupported {
            failed.iter().for_each(|line| self.note(&format!("{line}; left out")));
            return Ok(());
        }
        let more = match failed.len() {
            1 => String::new(),
            n => format!(" (and {} more, which --list shows)", n - 1),
        };
        bail!("{}{more}; --skip-unsupported converts the rest", failed[0]);
    }

    /// Writes an array into a new file. Returns the bytes of the items.
    fn write(&self, path: &str, item: &Item, to: &Path, is_last: bool) -> Result<u64> {
        signals::begin();
        let named = || path.to_owned();
        let slice = self.args.slice.as_deref().map(slice::parse).transpose()?;
        let part = DataSelection::of(item, slice.as_deref(), self.args.mask_and_scale).with_context(named)?;
        let data = match item {
            Item::Hdf5(data) if part.is_none() => Some(data),
            _ => None,
        };
        let encoding = &self.encoding;
        let mut builder = match (&part, data) {
            (Some(part), _) => part.builder().with_context(named)?,
            (None, Some(data)) => data.builder()?,
            (None, None) => bail!("{path}: not an array"),
        };
        let (shape, dtype) = match &part {
            Some(part) => (part.shape(), part.dtype()),
            None => (item.shape().to_vec(), item.dtype()?),
        };
        let is_recut = encoding.chunks.is_some() || encoding.blocks.is_some();
        let moves = !is_recut && !encoding.recompresses() && data.is_some_and(|data| data.moves());
        if let Some(chunks) = encoding.chunkshape(&shape)? {
            // The blocks of chunks that could be moved do not fit others.
            let new = ArrayBuilder::of_dtype(shape.clone(), dtype.clone()).chunks(chunks.clone());
            builder = builder.chunks(chunks).blocks(new.geometry()?.blockshape());
        }
        if let Some(blocks) = encoding.blockshape(&shape)? {
            builder = builder.blocks(blocks);
        }
        if !moves {
            builder = builder.compression(encoding.cparams_like(plugins::cparams(dtype.itemsize()), None)?);
        }
        if let (Item::Hdf5(data), None) = (item, &slice)
            && let Some(unlimited) = unlimited(data)
        {
            builder = builder.metalayer(UNLIMITED, unlimited);
        }
        let durability = match self.args.no_sync || !is_last {
            true => Durability::None,
            false => Durability::Sync,
        };
        let options = self.global.writing().overwrite(self.args.force).durability(durability);
        let nbytes = shape.iter().fold(dtype.itemsize() as u64, |n, &length| n.saturating_mul(length));
        let builder = builder.write_options(options).control(self.control(path, nbytes));
        let check = |array: NdArray| -> Result<()> {
            if !self.args.verify {
                return Ok(());
            }
            compare(&array, |start, shape, dst| match &part {
                Some(part) => part.read_box(start, shape, dst),
                None => item.read_box(start, shape, dst),
            })
        };
        match (&part, data) {
            (Some(part), _) => builder.write_checked(to, part, check),
            (None, Some(data)) if moves => builder.write_checked(to, data.source(), check),
            (None, Some(data)) => builder.write_checked(to, data.decoded(), check),
            (None, None) => bail!("{path}: not an array"),
        }
        .with_context(named)?;
        Ok(nbytes)
    }
}

/// The content of [`UNLIMITED`]; `None` if all dimensions have an end.
fn unlimited(data: &b2_hdf5::DataSet) -> Option<Vec<u8>> {
    let dims = data.max_shape().iter().enumerate().filter(|(_, most)| most.is_none());
    let dims: Vec<b2kit::nd::Value> = dims.map(|(dim, _)| (dim as u64).into()).collect();
    let mut content = Vec::new();
    if !dims.is_empty() {
        rmpv::encode::write_value(&mut content, &b2kit::nd::Value::Array(dims)).ok()?;
    }
    Some(content).filter(|content| !content.is_empty())
}

/// Whether a store cannot have a name, rather than that it cannot be written.
fn is_no_key(error: &StoreError) -> bool {
    matches!(error, StoreError::Key(_) | StoreError::Exists(_))
}

/// The keys of the arrays in a store that is to be replaced, without the leading slash; none if there is no store.
fn members_of(output: &Path, global: Global) -> Vec<String> {
    if !output.exists() {
        return Vec::new();
    }
    let inside = || Store::of(&Input::open(output, 0, global).ok()?, output, global).ok()?;
    let store = Store::open(output, 0, global).ok().flatten().or_else(inside);
    store.map_or_else(Vec::new, |store| {
        store.keys().map(|key| key.trim_start_matches('/').to_owned()).collect()
    })
}

/// Refuses to replace a file, in which `output` names an array, if it has others.
fn refuse_to_drop_arrays(output: &Path, global: Global) -> Result<()> {
    let Some((file, name)) = members::split(output) else { return Ok(()) };
    let Ok(old) = SourceFile::open(&file, global) else { return Ok(()) };
    let nodes = old.nodes("/")?;
    let is_other = |node: &&Node| {
        !matches!(node.content, Content::Group { .. } | Content::Dimension)
            && node.path.trim_matches('/') != name.trim_matches('/')
    };
    let lost: Vec<&String> = nodes.iter().filter(is_other).map(|node| &node.path).collect();
    refuse_to_lose(&file, &lost)
}

/// Fails if there is anything in a file that would not be in the one that replaces it.
fn refuse_to_lose(output: &Path, lost: &[&String]) -> Result<()> {
    let Some(first) = lost.first() else { return Ok(()) };
    let more = match lost.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    bail!(
        "{}: holds {first}{more}, which would be lost: nothing is added to a file that exists; choose another name, or \
         remove it first",
        output.display()
    )
}

/// The names of the arrays of a group in their order, for xarray, if they are not in alphabetical order.
fn order(nodes: &[Node], group: &Node) -> Option<(String, b2kit::nd::Value)> {
    let Content::Group { .. } = group.content else { return None };
    let start = format!("{}/", group.path.trim_end_matches('/'));
    let names = nodes.iter().filter_map(|node| {
        let name = node.path.strip_prefix(&start).filter(|name| !name.contains('/'))?;
        matches!(&node.content, Content::Array(_)).then_some(name)
    });
    let names: Vec<&str> = names.collect();
    let value = b2kit::nd::Value::Array(names.iter().map(|&name| name.into()).collect());
    (!names.is_sorted()).then(|| ("_ARRAY_ORDER".to_owned(), value))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A folder for the arrays of a store before they are in it, which is on the same disk.
fn folder_beside(output: &Path) -> Result<tempfile::TempDir> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".b2kit-").suffix(".tmp").tempdir_in(parent);
    made.with_context(|| output.display().to_string())
}

//! `b2kit convert`

mod args;
mod back;
mod glob;
mod job;
mod part;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2_hdf5::{Content, DataSet, Entry, File, Hdf5Error};
use b2_store::{StoreLayout, StoreWriter};
use b2kit::frame::{Durability, MAGIC};
use b2kit::{ArrayBuilder, NdArray, SuperChunk};

pub(crate) use self::args::Args;
use self::glob::{Glob, group, is_glob};
use self::job::{Job, compare};
use self::part::Part;
use crate::args::{Encoding, Format, Global, plugins};
use crate::files::{
    Found, ModeOf, Output, Take, check_folder, claim, foreign, members, refuse_other_format, stdio, urls,
    walk, write_through,
};
use crate::print::{count, printable_json, short_size};
use crate::process::{Usage, several, signals};
use crate::read::hdf5::{as_json, described, listed, only};
use crate::read::{Hdf5, Input, Store, slice};
use crate::write::tell;

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
    if let Some(output) = output.filter(|output| back::is_hdf5(output)) {
        if path.is_some() {
            let why = "a data set in a new HDF5 file is named as in x.h5::/group/name, a member of a store as in s.b2d::/a";
            return Err(Usage(why.into()).into());
        }
        check_folder(&members::file(output))?;
        claim(&members::file(output), args.force, &[input])?;
        refuse_to_drop_data_sets(output, global)?;
        let job = Job { args, encoding: Encoding::default(), input, global };
        return job.back(output).with_context(named);
    }
    let path = path.as_deref().unwrap_or("/");
    let Some(output) = output else {
        let file = Hdf5::of(input, global).with_context(named)?;
        return list(file.file(), path, args).with_context(named);
    };
    convert(args, input, path, output, global)
}

/// Returns the error for an input that is neither HDF5 nor NetCDF. For Blosc2 it names the commands to use.
fn of_other_input(input: &Path, output: &Path, error: anyhow::Error) -> anyhow::Error {
    let file = members::file(input);
    let is_frame = fs::File::open(&file).and_then(|file| {
        let mut head = [0; MAGIC.len()];
        file.take(MAGIC.len() as u64).read_exact(&mut head)?;
        Ok(head == MAGIC)
    });
    if file.is_dir() || is_frame.unwrap_or(false) {
        return anyhow!(
            "a Blosc2 file becomes HDF5 if the new file is called .h5 or .nc, and {} is not; b2kit copy writes another \
             Blosc2 file, b2kit unpack an .npy file",
            output.display()
        );
    }
    error
}

/// Converts a data set, or a group into a store.
fn convert(args: &Args, input: &Path, path: &str, output: &Path, global: Global) -> Result<()> {
    let named = || input.display().to_string();
    let encoding = args.encoding()?;
    let file =
        Hdf5::of(input, global).map_err(|error| of_other_input(input, output, error)).with_context(named)?;
    let file = file.file();
    check_folder(output)?;
    refuse_other_format(output)?;
    claim(output, args.force, &[input])?;
    let job = Job { args, encoding, input, global };
    match layout(output) {
        Some(layout) => job.store(file, path, output, layout).with_context(named),
        None => job.one(file, path, output).with_context(named),
    }
}

/// Converts each file, with `-r` also those in folders, into a store in the folder `dir`.
fn convert_each(args: &Args, dir: &Path, global: Global) -> Result<()> {
    if urls::is_url(dir) {
        return Err(Usage("-d DIR: a folder, not a URL".into()).into());
    }
    let look = |path: &Path| {
        Ok(match path.is_dir() {
            true if foreign::directory(path).is_some() => Take::No("neither HDF5 nor NetCDF"),
            true => Take::Inside,
            false if foreign::hdf5(path).is_some() => Take::Yes,
            false => Take::No("neither HDF5 nor NetCDF"),
        })
    };
    let found = match args.recursive {
        true => walk(&args.paths, Some(dir), global, look)?,
        false => args.paths.iter().map(|path| Found::named(path)).collect(),
    };
    let new = |found: &Found| -> Result<PathBuf> {
        let name = urls::local_name(&found.path)?;
        let name = Path::new(name.file_name().unwrap_or_default()).with_extension("b2d");
        Ok(dir.join(&found.below).join(name))
    };
    let outputs = found.iter().map(new).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<PathBuf> = found.into_iter().map(|found| found.path).collect();
    several::distinct(&inputs, &outputs)?;
    let mut outputs = outputs.iter();
    several::each(&inputs, |input| {
        let Some(output) = outputs.next() else { return Ok(()) };
        stdio::refuse_stdin(input, "cannot be converted: name the file")?;
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

/// Prints what is in a file.
fn list(file: &File, path: &str, args: &Args) -> Result<()> {
    let entries = file.tree_below(path)?;
    let mut output = Output::stdout();
    let text = match args.json {
        true => entries.iter().map(|entry| printable_json(&format!("{}\n", as_json(entry)))).collect(),
        false => listed(&entries, 0),
    };
    output.send(text.as_bytes())?;
    output.finish()
}

impl Job<'_> {
    /// Converts one data set: that of the path, or the only one of the file.
    fn one(&self, file: &File, path: &str, output: &Path) -> Result<()> {
        let start = Instant::now();
        let data = match file.data_set(path) {
            Err(Hdf5Error::Group { .. }) => only(file.tree_below(path)?, path)?,
            Err(Hdf5Error::NoSuchPath { .. }) if is_glob(path) => {
                only(matching(file, path, file.tree_below(group(path))?)?, path)?
            }
            data => data?,
        };
        self.note_attrs(data.path(), data.attrs_left_out());
        write_through(output, Format::Cframe, self.args.force, |to| {
            self.write(&data, to, true)?;
            tell(self.global, self.input, (to, output), start, false)
        })
    }

    /// Converts a group into a store.
    fn store(&self, file: &File, path: &str, output: &Path, layout: StoreLayout) -> Result<()> {
        ensure!(
            self.args.slice.is_none(),
            "--slice is for one data set: give its path, and a name without .b2d, .b2z or .b2e"
        );
        ensure!(
            self.args.chunks.is_none() && self.args.blocks.is_none(),
            "--chunks and --blocks are for one data set: give its path, and a name without .b2d, .b2z or .b2e"
        );
        let start = Instant::now();
        let entries = match file.tree_below(path) {
            Err(Hdf5Error::NoSuchPath { .. }) if is_glob(path) => {
                matching(file, path, file.tree_below(group(path))?)?
            }
            entries => entries?,
        };
        self.check_all(&entries)?;
        let root = entries.first().map_or("/", |entry| &*entry.path).trim_end_matches('/').to_owned();
        let key = |path: &str| path.strip_prefix(&root).unwrap_or(path).trim_start_matches('/').to_owned();
        let replaced = members_of(output, self.global);
        let keys: Vec<String> = entries
            .iter()
            .filter(|entry| matches!(&entry.content, Content::DataSet(data) if !data.is_dimension_only()))
            .map(|entry| match key(&entry.path) {
                key if key.is_empty() => last_part(&entry.path).to_owned(),
                key => key,
            })
            .collect();
        let lost: Vec<&String> = replaced.iter().filter(|key| !keys.contains(*key)).collect();
        refuse_to_lose(output, &lost)?;
        signals::begin();
        let mut writer = StoreWriter::create(output, layout, self.args.force)?;
        let folder = folder_beside(output)?;
        let (mut arrays, mut nbytes) = (0_u64, 0_u64);
        for entry in &entries {
            match &entry.content {
                Content::Group => {
                    let attrs = file.group_attrs(&entry.path)?;
                    self.note_attrs(&entry.path, &attrs.left_out);
                    let mut values = attrs.values;
                    values.extend(order(&entries, &entry.path));
                    for (name, value) in b2_hdf5::attribute_layers(&values) {
                        writer.set_attribute(&key(&entry.path), name, &value)?;
                    }
                }
                Content::DataSet(data) if data.is_dimension_only() => {
                    self.global.tell(|| format!("{}: a dimension without items", entry.path));
                }
                Content::DataSet(data) => {
                    let to = folder.path().join("array.b2nd");
                    self.note_attrs(&entry.path, data.attrs_left_out());
                    let written = self.write(data, &to, false)?;
                    let name = key(&entry.path);
                    let name = if name.is_empty() { last_part(&entry.path) } else { &name };
                    writer.put(name, &SuperChunk::open(&to)?).with_context(|| entry.path.clone())?;
                    fs::remove_file(&to)?;
                    arrays += 1;
                    nbytes = nbytes.saturating_add(written);
                }
                Content::Link(to) => self.note(&format!("{}: {to}: left out", entry.path)),
                Content::Type => self.note(&format!("{}: a named type: left out", entry.path)),
                // Those were refused, or named above.
                _ => {}
            }
        }
        ensure!(arrays > 0, "there is no data set in {path}");
        signals::check()?;
        writer.finish()?;
        signals::done();
        let seconds = match self.global.verbose {
            true => format!(", {:.2} s", start.elapsed().as_secs_f64()),
            false => String::new(),
        };
        let names = format!("{} -> {}", self.input.display(), output.display());
        let old = match replaced.len() {
            0 => String::new(),
            n => format!(", in place of a store with {}", count(n as u64, "array")),
        };
        self.note(&format!("{names}  {}, {}{old}{seconds}", count(arrays, "array"), short_size(nbytes)));
        Ok(())
    }

    /// Refuses a file with something that cannot be converted, or names it.
    fn check_all(&self, entries: &[Entry]) -> Result<()> {
        let failed: Vec<String> = entries
            .iter()
            .filter(|entry| matches!(entry.content, Content::Failed(_)))
            .map(|entry| format!("{}: {}", entry.path, described(entry)))
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

    /// Writes a data set into a new file. Returns the bytes of the items.
    fn write(&self, data: &DataSet, to: &Path, is_last: bool) -> Result<u64> {
        signals::begin();
        let named = || data.path().to_owned();
        let slice = self.args.slice.as_deref().map(slice::parse).transpose()?;
        let part = Part::of(data, slice.as_deref(), self.args.mask_and_scale).with_context(named)?;
        let encoding = &self.encoding;
        let mut builder = match &part {
            Some(part) => part.builder().with_context(named)?,
            None => data.builder()?,
        };
        let (shape, dtype) = match &part {
            Some(part) => (part.shape(), part.dtype()),
            None => (data.shape().to_vec(), data.dtype()?),
        };
        let is_recut = encoding.chunks.is_some() || encoding.blocks.is_some();
        let moves = part.is_none() && !is_recut && !encoding.recompresses() && data.moves();
        if let Some(chunks) = encoding.chunkshape(&shape)? {
            // The blocks of chunks that could be moved do not fit others.
            let anew = ArrayBuilder::of_dtype(shape.clone(), dtype.clone()).chunks(chunks.clone());
            builder = builder.chunks(chunks).blocks(anew.geometry()?.blockshape());
        }
        if let Some(blocks) = encoding.blockshape(&shape)? {
            builder = builder.blocks(blocks);
        }
        if !moves {
            builder = builder.compression(encoding.cparams_like(plugins::cparams(dtype.itemsize()), None)?);
        }
        let durability = match self.args.no_sync || !is_last {
            true => Durability::None,
            false => Durability::Sync,
        };
        let options = self.global.writing().overwrite(self.args.force).durability(durability);
        let nbytes = shape.iter().fold(dtype.itemsize() as u64, |n, &length| n.saturating_mul(length));
        let builder = builder.write_options(options).control(self.control(data.path(), nbytes));
        let check = |array: NdArray| -> Result<()> {
            if !self.args.verify {
                return Ok(());
            }
            compare(&array, |start, shape, dst| match &part {
                Some(part) => part.read_box(start, shape, dst),
                None => Ok(data.read_box(start, shape, dst)?),
            })
        };
        match &part {
            Some(part) => builder.write_checked(to, part, check),
            None if moves => builder.write_checked(to, data.source(), check),
            None => builder.write_checked(to, data.decoded(), check),
        }
        .with_context(named)?;
        Ok(nbytes)
    }
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

/// Refuses to replace an HDF5 file, in which `output` names a data set, if it has others.
fn refuse_to_drop_data_sets(output: &Path, global: Global) -> Result<()> {
    let Some((file, name)) = members::split(output) else { return Ok(()) };
    let Some(old) = Hdf5::of(&file, global).ok() else { return Ok(()) };
    let keys = old.keys("/")?;
    let lost: Vec<&String> =
        keys.iter().filter(|key| key.trim_start_matches('/') != name.trim_start_matches('/')).collect();
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
fn order(entries: &[Entry], group: &str) -> Option<(String, b2kit::nd::Value)> {
    let start = format!("{}/", group.trim_end_matches('/'));
    let names = entries.iter().filter_map(|entry| {
        let name = entry.path.strip_prefix(&start).filter(|name| !name.contains('/'))?;
        matches!(&entry.content, Content::DataSet(data) if !data.is_dimension_only()).then_some(name)
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

/// The data sets whose paths fit a pattern, and the groups that they are in.
fn matching(file: &File, pattern: &str, entries: Vec<Entry>) -> Result<Vec<Entry>> {
    let glob = Glob::new(pattern);
    let is_wanted = |entry: &Entry| {
        glob.fits(&entry.path) && matches!(entry.content, Content::DataSet(_) | Content::Failed(_))
    };
    let found: Vec<String> =
        entries.iter().filter(|entry| is_wanted(entry)).map(|e| e.path.clone()).collect();
    if found.is_empty() {
        let format = if file.is_netcdf3() { "variable" } else { "data set" };
        bail!("{pattern}: no {format} fits (--list shows what there is)");
    }
    let holds = |group: &str| {
        let start = format!("{}/", group.trim_end_matches('/'));
        found.iter().any(|path| path.starts_with(&start))
    };
    let mut kept = entries;
    kept.retain(|entry| match entry.content {
        Content::Group => holds(&entry.path),
        _ => is_wanted(entry),
    });
    Ok(kept)
}

//! `b2kit diff`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::SuperChunk;
use b2kit::base::{Control, for_each};
use b2kit::frame::INDEXES;
use b2kit::nd::{Dtype, DtypeKind};
use serde_json::json;

use crate::args::Global;
use crate::files::{is_pipe, is_stdin, members, recognition};
use crate::formats::npy;
use crate::print::{Simple, Value, dims, items, joined, printable, printable_json, thousands};
use crate::process::{AlreadyReported, ClosedPipe, Progress, Trouble};
use crate::read::{Data, Hdf5, Input, Store, UNLIMITED, coordinates, is_array_layer};

const EXAMPLES: &str = "\
Examples:
  b2kit diff old.b2nd new.b2nd && echo the same
  b2kit diff packed.b2nd original.npy
  b2kit diff -q a.b2nd b.b2nd             only the exit code
  b2kit diff x.h5::/a a.b2nd              a data set of HDF5 or NetCDF
  b2kit diff a.b2nd b.b2nd --tolerance 0.01
  b2kit diff old.b2d new.b2z              all members of two stores

Compares shape and dtype (or item size), the decoded bytes, then metalayers and
vlmetalayers (an .npy file has none; those of HDF5 are attributes), but not storage,
chunks and compression.
Exit code 0: the same; 1: they differ, and the first difference is printed, for stores
that of each member; 2: one of them cannot be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A frame, the directory of a sparse frame, a chunk, a store, HDF5, or an .npy file (-: standard input)
    #[arg(value_name = "A")]
    first: PathBuf,
    /// What to compare it with
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Ignore metalayers and vlmetalayers
    #[arg(long)]
    data_only: bool,
    /// Treat numbers that differ by at most X as equal, and NaN as equal to NaN
    #[arg(long, value_name = "X", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Print one JSON object: whether they are the same, and the differences
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
    number.ok_or_else(|| "expected a number that is not negative".into())
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let differences = compare(args, global).map_err(trouble)?;
    let text = match args.json {
        true => {
            let all = differences.iter().map(|Difference { key, what }| json!({"key": key, "what": what}));
            let object = json!({"same": differences.is_empty(), "differences": all.collect::<Vec<_>>()});
            format!("{}\n", printable_json(&object.to_string()))
        }
        false => {
            differences.iter().map(|difference| format!("{}\n", printable(&difference.to_string()))).collect()
        }
    };
    if !global.quiet && !text.is_empty() {
        crate::files::destination::print(&text).map_err(trouble)?;
    }
    if differences.is_empty() { Ok(()) } else { Err(AlreadyReported.into()) }
}

/// A difference between two files, or between two members of stores.
struct Difference {
    key: Option<String>,
    what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

fn trouble(error: anyhow::Error) -> anyhow::Error {
    // A closed standard output is not an error.
    if error.is::<ClosedPipe>() { AlreadyReported.into() } else { Trouble(error).into() }
}

/// One of the two files.
struct DiffInput<'a> {
    path: &'a Path,
    data: Data,
    /// The attributes of a data set of HDF5, as vlmetalayers.
    attributes: Layers,
}

impl<'a> DiffInput<'a> {
    fn open(path: &'a Path, global: Global) -> Result<Self> {
        let data = Data::open_path(path, global).with_context(|| path.display().to_string())?;
        let attributes = match &data {
            Data::ExternalArray(array) => array.layers(),
            Data::Blosc(_) => Layers::new(),
        };
        Ok(Self { path, data, attributes })
    }

    /// The frame, unless the file is a bare chunk or an `.npy` file.
    fn frame(&self) -> Option<&SuperChunk> {
        match &self.data {
            Data::Blosc(input) => input.frame(),
            Data::ExternalArray(_) => None,
        }
    }

    fn named(&self) -> String {
        self.path.display().to_string()
    }
}

/// The keys of a store, or the paths of the data sets of HDF5; `None` for other files.
fn keys(path: &Path, global: Global) -> Result<Option<Vec<String>>> {
    if is_stdin(path) || is_pipe(path) || members::split(path).is_some() {
        return Ok(None);
    }
    if let Ok(Some(store)) = Store::open(path, 0, global) {
        return Ok(Some(store.keys().map(str::to_owned).collect()));
    }
    // For anything else, the error of opening it as a file names its format.
    let Some(what) = recognition::hdf5(path) else { return Ok(None) };
    Hdf5::open_or(path, global, anyhow!(what))?.keys("/").map(Some)
}

/// Returns the differences: all differing members of two stores, or the first difference of other files.
fn compare(args: &Args, global: Global) -> Result<Vec<Difference>> {
    let global = global.with_output_limit();
    let named = |path: &Path| path.display().to_string();
    let keys = |path: &Path| keys(path, global).with_context(|| named(path));
    let (Some(first), Some(second)) = (keys(&args.first)?, keys(&args.second)?) else {
        let found = compare_pair(args, [&args.first, &args.second], global)?;
        return Ok(found.map(|what| Difference { key: None, what }).into_iter().collect());
    };
    let all: BTreeSet<&String> = first.iter().chain(&second).collect();
    let mut differences = Vec::new();
    for key in all {
        let what = match (first.contains(key), second.contains(key)) {
            (true, true) => {
                let inside = |path: &Path| PathBuf::from(format!("{}::{key}", path.display()));
                compare_pair(args, [&inside(&args.first), &inside(&args.second)], global)?
            }
            (true, false) => Some(format!("only in {}", named(&args.first))),
            _ => Some(format!("only in {}", named(&args.second))),
        };
        differences.extend(what.map(|what| Difference { key: Some(key.clone()), what }));
    }
    Ok(differences)
}

/// Describes the first difference, if any.
fn compare_pair(args: &Args, [first, second]: [&Path; 2], global: Global) -> Result<Option<String>> {
    let sides = [DiffInput::open(first, global)?, DiffInput::open(second, global)?];
    if let Some(difference) = compare_form(&sides) {
        return Ok(Some(difference));
    }
    if let Some(difference) = compare_data(&sides, args.tolerance, global)? {
        return Ok(Some(difference));
    }
    let is_bare = |side: &DiffInput<'_>| matches!(&side.data, Data::ExternalArray(array) if array.attributes().is_none());
    if args.data_only || sides.iter().any(is_bare) { Ok(None) } else { compare_metalayers(&sides) }
}

fn changed(what: &str, values: [String; 2]) -> Option<String> {
    let [first, second] = values;
    (first != second).then(|| format!("{what}: {first} | {second}"))
}

/// Shape, dtype and dtype string, if the data is an array. An array need not have a dtype string.
fn array(data: &Data) -> Option<(&[u64], &Dtype, String)> {
    match data {
        Data::ExternalArray(array) => Some((array.shape(), array.dtype(), array.dtype().as_str().to_owned())),
        Data::Blosc(Input::Array(array)) => {
            let text = match &array.meta().dtype {
                Some(text) => String::from_utf8_lossy(text).into_owned(),
                None => "none".to_owned(),
            };
            Some((array.shape(), array.dtype(), text))
        }
        Data::Blosc(_) => None,
    }
}

/// Compares kind, shape, dtype and sizes.
fn compare_form([first, second]: &[DiffInput<'_>; 2]) -> Option<String> {
    let inputs = match (array(&first.data), array(&second.data)) {
        (Some((shape, dtype, text)), Some((other_shape, other, other_text))) => {
            let shapes = changed("shape", [dims(shape), dims(other_shape)]);
            // A numeric dtype can be written in several ways, such as `i4` for `<i4`.
            let is_number = |dtype: &Dtype| matches!(dtype.kind(), DtypeKind::Simple { code, .. } if "biufc".contains(*code));
            let numbers =
                is_number(dtype) && dtype.kind() == other.kind() && dtype.itemsize() == other.itemsize();
            // The same holds for structured dtypes, so compare them in NumPy's notation.
            let records = || match (npy::descr::to_npy(dtype), npy::descr::to_npy(other)) {
                (Ok(dtype), Ok(other)) => dtype == other,
                _ => false,
            };
            let known = text != "none" && other_text != "none";
            let same_type = numbers || (known && records());
            let dtypes = || if same_type { None } else { changed("dtype", [text, other_text]) };
            let sizes = || changed("item size", [dtype.itemsize().to_string(), other.itemsize().to_string()]);
            return shapes.or_else(dtypes).or_else(sizes);
        }
        (Some(_), None) => return Some("kind: array | not an array".into()),
        (None, Some(_)) => return Some("kind: not an array | array".into()),
        (None, None) => [&first.data, &second.data].map(|data| match data {
            Data::Blosc(input) => Some(input),
            Data::ExternalArray(_) => None,
        }),
    };
    let [Some(first), Some(second)] = inputs else { return None };
    let inputs = [first, second];
    // A bare chunk cannot store an item size above 255; its header says 1 instead.
    let lost = |chunk: &Input, other: &Input| {
        matches!(chunk, Input::Chunk(_)) && chunk.itemsize() == 1 && other.itemsize() > 255
    };
    let unknown = lost(inputs[0], inputs[1]) || lost(inputs[1], inputs[0]);
    let sizes = inputs.map(|input| input.itemsize().to_string());
    let itemsize = if unknown { None } else { changed("item size", sizes) };
    itemsize.or_else(|| changed("bytes", inputs.map(|input| input.nbytes().to_string())))
}

/// Decodes both files piece by piece, side by side. The caller has checked that their shapes and item sizes are equal.
fn compare_data(
    sides: &[DiffInput<'_>; 2],
    tolerance: Option<f64>,
    global: Global,
) -> Result<Option<String>> {
    for side in sides {
        side.data.check_output().with_context(|| side.named())?;
    }
    let is_array = array(&sides[0].data).is_some();
    let dtype = sides[0].data.dtype();
    if let Some(tolerance) = tolerance {
        let zero = Simple::new(&dtype).value(&vec![0; dtype.itemsize()]);
        let is_number =
            dtype.fields().is_none() && (zero.number().is_some() || matches!(zero, Value::Complex(..)));
        ensure!(is_array, "--tolerance {tolerance}: these are bytes; only the items of arrays are numbers");
        ensure!(is_number, "--tolerance {tolerance}: items of {dtype} are not numbers");
    }
    let views = [sides[0].data.whole()?, sides[1].data.whole()?];
    let mut tally = Tally {
        simple: Simple::new(&dtype),
        is_array,
        tolerance,
        count: 0,
        last: None,
        first: None,
        largest: None,
    };
    let mut progress = Progress::new(sides[0].named(), views[0].nbytes(), global.quiet);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut start = 0;
    // Data without chunks are read in the pieces of the other file.
    let is_whole = matches!(&sides[0].data, Data::ExternalArray(array) if array.chunkshape().is_none());
    for piece in views[usize::from(is_whole)].pieces() {
        let read = |k: usize, buffer: &mut Vec<u8>| -> Result<()> {
            views[k].read(&piece, buffer).with_context(|| sides[k].named())
        };
        let mut results = [None, None];
        let jobs = [&mut a, &mut b].into_iter().zip(&mut results).enumerate();
        for_each(
            &Control::new(),
            2,
            jobs,
            u64::MAX,
            || anyhow::Ok(()),
            |(), (k, (buffer, result))| {
                *result = Some(read(k, buffer));
                Ok(())
            },
        )?;
        results.into_iter().flatten().collect::<Result<()>>()?;
        if a != b {
            tally.add(start, &a, &b);
        }
        start += a.len() as u64;
        progress.add(a.len() as u64);
    }
    let itemsize = dtype.itemsize().max(1) as u64;
    Ok(tally.summary(&sides[0].data, &dtype, start.div_ceil(itemsize)))
}

/// Counts the items that differ.
struct Tally {
    simple: Simple,
    /// Whether the items have values, and not just bytes.
    is_array: bool,
    tolerance: Option<f64>,
    count: u64,
    /// The last item that was counted.
    last: Option<u64>,
    first: Option<(u64, [Vec<u8>; 2])>,
    largest: Option<f64>,
}

impl Tally {
    /// Compares a piece that starts at byte `start` of the data. Pieces of arrays hold whole items.
    fn add(&mut self, start: u64, a: &[u8], b: &[u8]) {
        let itemsize = self.simple.size().max(1);
        let mut at = 0;
        while at < a.len() {
            let byte = start + at as u64;
            let item = byte / itemsize as u64;
            // An item of a super-chunk may be split between two pieces.
            let len = (itemsize - (byte % itemsize as u64) as usize).min(a.len() - at);
            let pair = [a, b].map(|bytes| bytes.get(at..at + len).unwrap_or_default());
            at += len;
            if pair[0] == pair[1] || self.last == Some(item) {
                continue;
            }
            let difference = if self.is_array { self.simple.distance(pair) } else { None };
            if self.tolerance.is_some_and(|most| difference.is_some_and(|difference| difference <= most)) {
                continue;
            }
            self.count += 1;
            self.last = Some(item);
            self.first.get_or_insert_with(|| (item, pair.map(<[u8]>::to_vec)));
            if let Some(difference) = difference.filter(|x| !x.is_nan()) {
                self.largest = Some(self.largest.map_or(difference, |most| most.max(difference)));
            }
        }
    }

    /// Describes the first difference, and counts all of them.
    fn summary(&self, data: &Data, dtype: &Dtype, total: u64) -> Option<String> {
        let (item, pair) = self.first.as_ref()?;
        let value =
            |bytes: &[u8]| match self.is_array && bytes.len() == dtype.itemsize() && bytes.len() <= LONGEST {
                true => items::item(dtype, bytes),
                false => hex(bytes),
            };
        let mut values = pair.each_ref().map(|bytes| value(bytes));
        if values[0] == values[1] {
            // The same value can have several representations, such as NaN.
            values = pair.each_ref().map(|bytes| format!("{} ({})", value(bytes), hex(bytes)));
        }
        let place = match array(data) {
            Some((shape, ..)) => {
                format!("item [{}]", joined(&coordinates(*item, shape.iter().copied()), ","))
            }
            None if dtype.itemsize() == 1 => format!("byte {item}"),
            None => format!("item {item}"),
        };
        let (count, total) = (thousands(self.count), thousands(total));
        let differ = if self.count == 1 { "differs" } else { "differ" };
        let by = self.tolerance.map_or_else(String::new, |most| format!(" by more than {most}"));
        let numbers = !matches!(self.simple.value(&pair[0]), Value::Bool(_));
        let largest = match self.largest.filter(|_| numbers) {
            Some(most) => format!(", largest difference {}", self.simple.difference(most)),
            None => String::new(),
        };
        Some(format!("{place}: {} | {}; {count} of {total} {differ}{by}{largest}", values[0], values[1]))
    }
}

fn hex(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}{}", if bytes.len() > SHOWN { "..." } else { "" })
}

/// Items larger than this, in bytes, are printed in hexadecimal instead of by value.
const LONGEST: usize = 4096;
/// Number of bytes to print of an item in hexadecimal.
const SHOWN: usize = 16;

type Layers = BTreeMap<Vec<u8>, Vec<u8>>;

fn compare_metalayers(sides: &[DiffInput<'_>; 2]) -> Result<Option<String>> {
    let mut fixed = sides.each_ref().map(|side| side.frame().map(metalayers).unwrap_or_default());
    if sides.iter().any(|side| side.frame().is_none()) {
        // Only Blosc2 files have this metalayer; in HDF5 it is part of the shape.
        fixed.iter_mut().for_each(|layers| drop(layers.remove(UNLIMITED.as_bytes())));
    }
    if let Some(difference) = compare_layers("metalayer", &fixed) {
        return Ok(Some(difference));
    }
    // Read one at a time, since all together may not fit in memory.
    let names = sides.iter().filter_map(|side| side.frame()).flat_map(|frame| frame.vlmetalayers().iter());
    let mut names: BTreeSet<Vec<u8>> = names.map(|(name, _)| name.to_vec()).collect();
    names.extend(sides.iter().flat_map(|side| side.attributes.keys().cloned()));
    names.remove(INDEXES.as_bytes());
    for name in names {
        let [first, second] = sides.each_ref().map(|side| vlmetalayer(side, &name));
        if let Some(difference) = compare_layers("vlmetalayer", &[first?, second?]) {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// The metalayers, except for those with shape, dtype, chunks and blocks of an array.
fn metalayers(frame: &SuperChunk) -> Layers {
    let layers = frame.metalayers().iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
    layers.filter(|(name, _)| !is_array_layer(name)).collect()
}

/// The vlmetalayer of this name, if it exists.
fn vlmetalayer(side: &DiffInput<'_>, name: &[u8]) -> Result<Layers> {
    let Some(frame) = side.frame() else {
        let value = side.attributes.get(name);
        return Ok(value.map(|value| (name.to_vec(), value.clone())).into_iter().collect());
    };
    let value = frame.vlmetalayers().get(name).with_context(|| side.named())?;
    Ok(value.map(|value| (name.to_vec(), value)).into_iter().collect())
}

fn compare_layers(what: &str, [first, second]: &[Layers; 2]) -> Option<String> {
    let names = first.keys().chain(second.keys()).collect::<BTreeSet<_>>();
    let name = names.into_iter().find(|name| first.get(*name) != second.get(*name))?;
    let values = [first, second].map(|layers| match layers.get(name) {
        None => "none".to_owned(),
        Some(value) => crate::print::json::show_short(value, LONG),
    });
    let [first, second] = values;
    Some(format!("{what} {}: {first} | {second}", crate::print::printable_name(name)))
}

/// Number of characters to print of the value of a metalayer.
const LONG: usize = 60;

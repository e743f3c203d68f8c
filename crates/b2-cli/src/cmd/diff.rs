//! `b2kit diff`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use b2kit::SuperChunk;
use b2kit::nd::{Dtype, DtypeKind, METALAYER, OLD_METALAYER};

use crate::args::Global;
use crate::error::{ClosedPipe, Told, Trouble};
use crate::input::{Input, Selection};
use crate::output::print;
use crate::progress::Progress;
use crate::table::{dims, printable};

const EXAMPLES: &str = "\
Examples:
  b2kit diff old.b2nd new.b2nd && echo the same
  b2kit diff -q a.b2nd b.b2nd             only the exit code

Compared are shape and dtype (item size without), the decoded bytes, then
metalayers and vlmetalayers; not how files are stored, cut and compressed.
Exit code 0: the same; 1: they differ, the first difference is printed;
2: one of them cannot be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A frame, the directory of a sparse frame, or a chunk
    #[arg(value_name = "A")]
    first: PathBuf,
    /// What to compare it with
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Leave metalayers and vlmetalayers out
    #[arg(long)]
    data_only: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    match compare(args, global) {
        Ok(None) => Ok(()),
        Ok(Some(difference)) => {
            if !global.quiet {
                let difference = printable(&difference);
                print(&format!("{difference}\n")).map_err(trouble)?;
            }
            Err(Told.into())
        }
        Err(error) => Err(trouble(error)),
    }
}

fn trouble(error: anyhow::Error) -> anyhow::Error {
    // A reader of the answer that went away is none.
    if error.is::<ClosedPipe>() { Told.into() } else { Trouble(error).into() }
}

/// One of the two files.
struct Side<'a> {
    path: &'a Path,
    input: Input,
}

impl<'a> Side<'a> {
    fn open(path: &'a Path, global: Global) -> Result<Self> {
        let input = Input::open(path, 0, global).with_context(|| path.display().to_string())?;
        Ok(Self { path, input })
    }

    fn named(&self) -> String {
        self.path.display().to_string()
    }
}

/// The first difference in words; `None` if there is none.
fn compare(args: &Args, global: Global) -> Result<Option<String>> {
    let global = global.with_output_limit();
    let sides = [Side::open(&args.first, global)?, Side::open(&args.second, global)?];
    if let Some(difference) = compare_form(&sides) {
        return Ok(Some(difference));
    }
    if let Some(difference) = compare_data(&sides, global)? {
        return Ok(Some(difference));
    }
    if args.data_only { Ok(None) } else { compare_metalayers(&sides) }
}

fn told(what: &str, values: [String; 2]) -> Option<String> {
    let [first, second] = values;
    (first != second).then(|| format!("{what}: {first} | {second}"))
}

/// Kind, shape, dtype and sizes.
fn compare_form([first, second]: &[Side<'_>; 2]) -> Option<String> {
    let sizes = || [&first.input, &second.input];
    match sizes() {
        [Input::Array(a), Input::Array(b)] => {
            let dtype = |meta: &b2kit::nd::ArrayMeta| match &meta.dtype {
                Some(text) => String::from_utf8_lossy(text).into_owned(),
                None => "none".to_owned(),
            };
            let shapes = told("shape", [dims(a.shape()), dims(b.shape())]);
            // Numbers may be written in several ways, such as `i4` for `<i4`.
            let is_number =
                |a: &Dtype| matches!(a.kind(), DtypeKind::Simple { code, .. } if "biufc".contains(*code));
            let same_type = is_number(a.dtype())
                && a.dtype().kind() == b.dtype().kind()
                && a.dtype().itemsize() == b.dtype().itemsize();
            let dtypes = || if same_type { None } else { told("dtype", [dtype(a.meta()), dtype(b.meta())]) };
            let sizes = || told("item size", [a.itemsize().to_string(), b.itemsize().to_string()]);
            shapes.or_else(dtypes).or_else(sizes)
        }
        [Input::Array(_), _] => Some("kind: array | no array".into()),
        [_, Input::Array(_)] => Some("kind: no array | array".into()),
        inputs => {
            // A chunk cannot tell an item size above 255, and says 1.
            let lost = |chunk: &Input, other: &Input| {
                matches!(chunk, Input::Chunk(_)) && chunk.itemsize() == 1 && other.itemsize() > 255
            };
            let unknown = lost(inputs[0], inputs[1]) || lost(inputs[1], inputs[0]);
            let sizes = inputs.map(|input| input.itemsize().to_string());
            let itemsize = if unknown { None } else { told("item size", sizes) };
            itemsize.or_else(|| told("bytes", inputs.map(|input| input.nbytes().to_string())))
        }
    }
}

/// Decodes both piece by piece, at the same time. The same form is known.
fn compare_data(sides: &[Side<'_>; 2], global: Global) -> Result<Option<String>> {
    for side in sides {
        side.input.check_output().with_context(|| side.named())?;
    }
    let selections = [Selection::all(&sides[0].input), Selection::all(&sides[1].input)];
    let mut progress = Progress::new(sides[0].named(), selections[0].nbytes(), global.quiet);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut start = 0;
    for piece in selections[0].pieces() {
        let read = |k: usize, buffer: &mut Vec<u8>| -> Result<()> {
            selections[k].read(&piece, buffer).with_context(|| sides[k].named())
        };
        let (first, second) = rayon::join(|| read(0, &mut a), || read(1, &mut b));
        first?;
        second?;
        if a != b {
            let equal = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            return Ok(Some(describe(&sides[0].input, start, equal, [&a, &b])));
        }
        start += a.len() as u64;
        progress.add(a.len() as u64);
    }
    Ok(None)
}

/// Names the item at byte `equal` of the buffers, which start at byte `start` of the data.
fn describe(input: &Input, start: u64, equal: usize, buffers: [&[u8]; 2]) -> String {
    let itemsize = input.itemsize().max(1) as u64;
    let byte = start + equal as u64;
    let item = byte / itemsize;
    // An item of a super-chunk may be cut by the end of a buffer.
    let from = usize::try_from((item * itemsize).saturating_sub(start)).unwrap_or(equal);
    let to = from.saturating_add(itemsize as usize);
    let values = buffers.map(|bytes| {
        let item = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
        let hex: String = item.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}{}", if item.len() > SHOWN { "..." } else { "" })
    });
    let place = match input {
        Input::Array(array) => {
            let mut rest = item;
            let mut index = vec![0; array.shape().len()];
            for (i, len) in index.iter_mut().zip(array.shape()).rev() {
                *i = rest % (*len).max(1);
                rest /= (*len).max(1);
            }
            format!("item [{}], byte {byte}", if index.is_empty() { String::new() } else { dims(&index) })
        }
        _ if itemsize == 1 => format!("byte {byte}"),
        _ => format!("item {item}, byte {byte}"),
    };
    format!("{place}: {} | {}", values[0], values[1])
}

/// Bytes of an item that are printed.
const SHOWN: usize = 16;

type Layers = BTreeMap<Vec<u8>, Vec<u8>>;

fn compare_metalayers(sides: &[Side<'_>; 2]) -> Result<Option<String>> {
    let fixed = sides.each_ref().map(|side| side.input.frame().map(metalayers).unwrap_or_default());
    if let Some(difference) = compare_layers("metalayer", &fixed) {
        return Ok(Some(difference));
    }
    // One at a time: together they may be more than memory holds.
    let names =
        sides.iter().filter_map(|side| side.input.frame()).flat_map(|frame| frame.vlmetalayers().iter());
    let names: BTreeSet<Vec<u8>> = names.map(|(name, _)| name.to_vec()).collect();
    for name in names {
        let [first, second] = sides.each_ref().map(|side| vlmetalayer(side, &name));
        if let Some(difference) = compare_layers("vlmetalayer", &[first?, second?]) {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// Without those that tell shape, dtype and how the array is cut.
fn metalayers(frame: &SuperChunk) -> Layers {
    let layers = frame.metalayers().iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
    layers.filter(|(name, _)| name != METALAYER.as_bytes() && name != OLD_METALAYER.as_bytes()).collect()
}

/// The vlmetalayer of that name, if there is one.
fn vlmetalayer(side: &Side<'_>, name: &[u8]) -> Result<Layers> {
    let Some(frame) = side.input.frame() else { return Ok(Layers::new()) };
    let value = frame.vlmetalayers().get(name).with_context(|| side.named())?;
    Ok(value.map(|value| (name.to_vec(), value)).into_iter().collect())
}

fn compare_layers(what: &str, [first, second]: &[Layers; 2]) -> Option<String> {
    let names = first.keys().chain(second.keys()).collect::<BTreeSet<_>>();
    let name = names.into_iter().find(|name| first.get(*name) != second.get(*name))?;
    let values = [first, second].map(|layers| match layers.get(name) {
        None => "none".to_owned(),
        Some(value) => crate::json::show_short(value, LONG),
    });
    let [first, second] = values;
    Some(format!("{what} {}: {first} | {second}", String::from_utf8_lossy(name)))
}

/// Characters of a metalayer's value that are printed.
const LONG: usize = 60;

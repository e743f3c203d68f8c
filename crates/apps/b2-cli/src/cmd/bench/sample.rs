//! The part of a file to measure on: a box of uncompressed items.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use b2kit::frame::ReadAt;
use b2kit::{ArrayBuilder, CodecId, Dtype};

use crate::args::options::Global;
use crate::args::plugins;
use crate::args::values::Filters;
use crate::files::stdio;
use crate::formats::npy::nbytes;
use crate::process::pipeline::resize;
use crate::read::input::Input;
use crate::read::operand::Operand;
use crate::read::slice::{Axis, resolve};

use super::common::BenchOptions;

/// Default size of the sample, in bytes.
const DEFAULT_LIMIT: u64 = 16 << 20;

pub(super) struct Sample {
    /// Uncompressed size of the whole file, in bytes.
    pub(super) whole: u64,
    pub(super) itemsize: usize,
    /// Shape of the whole file, in items.
    pub(super) whole_shape: Vec<u64>,
    /// Shape of the sample, in items.
    pub(super) shape: Vec<u64>,
    /// Items of the sample, in C order.
    pub(super) plain: Vec<u8>,
    /// The `b2kit` command that writes such a file with other parameters, and the options it needs.
    pub(super) command: &'static str,
    pub(super) options: String,
}

impl Sample {
    /// Takes the middle of an `.npy` file, of a Blosc2 file, or of raw bytes (any other file, or with `--typesize`).
    pub(super) fn open(path: &Path, common: &BenchOptions, global: Global) -> Result<Self> {
        let limit = common.limit.unwrap_or(DEFAULT_LIMIT);
        let operand = Operand::look(path, path)?;
        if let Some(header) = &operand.npy {
            let (shape, itemsize) = (header.shape.clone(), header.dtype.itemsize());
            return Self::of_operand(operand, &shape, itemsize, limit, String::new());
        }
        if common.typesize.is_none() {
            let named = || path.display().to_string();
            let opened = match stdio::is_stdin(path) {
                // Standard input has already been copied to a temporary file.
                true => {
                    let file = stdio::spooled(operand.file.try_clone().with_context(named)?, operand.len);
                    Input::open_spooled(&file, 0, global)
                }
                false => Input::open(path, 0, global),
            };
            let mut magic = [0; b2kit::frame::MAGIC.len()];
            let is_frame = operand.file.read_exact_at(0, &mut magic).is_ok() && magic == b2kit::frame::MAGIC;
            match opened {
                Ok(input) => return Self::of_input(&input, limit).with_context(named),
                // Do not treat a damaged frame as raw bytes.
                Err(error) if is_frame => return Err(error.context(named())),
                Err(_) => {}
            }
        }
        let typesize = common.typesize.map_or(1, std::num::NonZeroUsize::get);
        let options = if typesize == 1 { String::new() } else { format!(" --typesize {typesize}") };
        let nitems = operand.len / typesize as u64;
        Self::of_operand(operand, &[nitems], typesize, limit, options)
    }

    /// Returns the command that writes the sample with these parameters.
    pub(super) fn builder(&self, codec: CodecId, level: u8, filters: &Filters) -> Result<ArrayBuilder> {
        let cparams =
            plugins::cparams(self.itemsize).codec(codec).level(level).filters(&filters.0).build()?;
        let dtype = Dtype::parse(&format!("|V{}", self.itemsize))?;
        Ok(ArrayBuilder::of_dtype(self.shape.clone(), dtype).compression(cparams))
    }

    fn of_operand(
        operand: Operand,
        whole: &[u64],
        itemsize: usize,
        limit: u64,
        options: String,
    ) -> Result<Self> {
        let (start, shape) = middle(whole, itemsize, limit);
        let bytes = nbytes(whole, itemsize as u64).context("the array is too large")?;
        let mut plain = room(&shape, itemsize).with_context(|| operand.name.clone())?;
        // Ignore trailing bytes that do not make up a whole item.
        operand.into_items(whole, itemsize, true)?.read(&start, &shape, &mut plain)?;
        let whole_shape = whole.to_vec();
        Ok(Self { whole: bytes, itemsize, whole_shape, shape, plain, command: "pack", options })
    }

    fn of_input(input: &Input, limit: u64) -> Result<Self> {
        let itemsize = input.itemsize();
        let whole = match input {
            Input::Array(array) => array.shape().to_vec(),
            _ => vec![input.nbytes() / itemsize as u64],
        };
        let (start, shape) = middle(&whole, itemsize, limit);
        let mut plain = room(&shape, itemsize)?;
        match input {
            Input::Array(array) => {
                let axes: Vec<Axis> = resolve(&[], &shape)?;
                let dims =
                    axes.iter().zip(&start).map(|(axis, start)| Axis { start: *start, ..*axis }.selection());
                array.slice(dims.collect::<Result<Vec<_>>>()?)?.read_bytes_into(&mut plain)?;
            }
            _ => input.read_linear(start[0] * itemsize as u64, &mut plain)?,
        }
        let options = String::new();
        let bytes = input.nbytes();
        Ok(Self { whole: bytes, itemsize, whole_shape: whole, shape, plain, command: "copy", options })
    }
}

/// Start and shape of a box of at most about `limit` bytes, limited along the leading dimensions.
fn middle(whole: &[u64], itemsize: usize, limit: u64) -> (Vec<u64>, Vec<u64>) {
    let mut shape = whole.to_vec();
    for dim in 0..shape.len() {
        // Size of one position along this dimension. It cannot exceed the size of the whole array, which is known to
        // fit.
        let row = shape[dim + 1..].iter().fold(itemsize as u64, |bytes, n| bytes.saturating_mul(*n)).max(1);
        let fit = limit / row;
        shape[dim] = shape[dim].min(fit.max(1));
        if fit > 0 {
            break;
        }
    }
    let start = whole.iter().zip(&shape).map(|(whole, part)| (whole - part) / 2).collect();
    (start, shape)
}

fn room(shape: &[u64], itemsize: usize) -> Result<Vec<u8>> {
    let nbytes = nbytes(shape, itemsize as u64).context("the array is too large")?;
    ensure!(nbytes > 0, "the file has no data to measure");
    let mut plain = Vec::new();
    resize(&mut plain, usize::try_from(nbytes)?)?;
    Ok(plain)
}

/// The filters in the syntax of `pack --filters`.
pub(super) fn name(filters: &Filters) -> String {
    let names = filters.0.iter().map(|slot| match slot.meta {
        0 => slot.id.to_string(),
        meta => format!("{}:{meta}", slot.id),
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(",") }
}

/// The command that writes the file with these parameters.
pub(super) fn command_for(file: &Path, sample: &Sample, codec: CodecId, clevel: u8, filters: &str) -> String {
    format!(
        "b2kit {} {} OUT{} --codec {codec} --clevel {clevel} --filters {filters}",
        sample.command,
        quoted(&file.display().to_string()),
        sample.options,
    )
}

/// Quotes text for a shell if necessary.
fn quoted(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{middle, quoted};

    #[test]
    fn leading_dimensions_are_cut() {
        for (whole, limit, start, shape) in [
            (&[100u64][..], 1000, &[0u64][..], &[100u64][..]),
            (&[100], 80, &[40], &[20]),
            (&[100, 10], 400, &[45, 0], &[10, 10]),
            (&[3, 100, 10], 400, &[1, 45, 0], &[1, 10, 10]),
            (&[3, 3], 1, &[1, 1], &[1, 1]),
            (&[], 1, &[], &[]),
            (&[0, 5], 100, &[0, 0], &[0, 5]),
        ] {
            assert_eq!(middle(whole, 4, limit), (start.to_vec(), shape.to_vec()), "{whole:?}");
        }
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        for (name, text) in [("a/b.npy", "a/b.npy"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "''")] {
            assert_eq!(quoted(name), text);
        }
    }
}

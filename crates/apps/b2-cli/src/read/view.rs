//! Common access to the items of Blosc2 files, `.npy` files and data sets of HDF5, for commands that show values.

use std::path::Path;

use anyhow::{Result, ensure};
use b2_view::labels::Labels;
use b2kit::Dtype;
use b2kit::frame::FileKind;

use super::external::{ExternalArray, Npy};
use super::hdf5::Hdf5;
use super::input::Input;
use super::selection::Selection;
use super::slice::{Axis, PieceSize, Pieces, read_strided, resolve};
use crate::args::{Global, Source};
use crate::files::recognition::open_regular;
use crate::files::{is_pipe, is_stdin, spool_pipe, spool_stdin, urls};
use crate::formats::npy;
use crate::print::shown;
use crate::process::{Usage, resize};

/// An open file, or an array inside it.
#[expect(clippy::large_enum_variant, reason = "there is one for each open file")]
pub(crate) enum Data {
    Blosc(Input),
    ExternalArray(Box<dyn ExternalArray>),
}

impl Data {
    /// Opens a Blosc2 file, a member of a store, an `.npy` file, or a data set of HDF5 or NetCDF; `-` is standard input.
    ///
    /// # Errors
    /// Errors do not name the file; callers add its name.
    pub(crate) fn open(source: &Source, global: Global) -> Result<Self> {
        let source = &source.inside();
        if source.key.is_none() && source.offset == 0 {
            if is_stdin(&source.file) || is_pipe(&source.file) {
                let file = if is_pipe(&source.file) { spool_pipe(&source.file)? } else { spool_stdin()? };
                return match Npy::open(&file)? {
                    Some(npy) => Ok(Self::ExternalArray(Box::new(npy))),
                    None => Ok(Self::Blosc(Input::open_spooled(&file, 0, global)?)),
                };
            }
            if (source.file.is_file()
                || urls::is_url(&source.file) && urls::kind(&source.file)? == FileKind::File)
                && let Some(npy) = Npy::open(&open_regular(&source.file)?)?
            {
                return Ok(Self::ExternalArray(Box::new(npy)));
            }
        }
        match Input::open_source(source, global) {
            Ok(input) => Ok(Self::Blosc(input.say_changed(&source.file))),
            Err(error) if source.offset > 0 => Err(error),
            Err(error) => {
                let file = Hdf5::open_or(&source.file, global, error)?;
                file.pick(source.key.as_deref()).map(Self::ExternalArray)
            }
        }
    }

    /// Like [`open`](Self::open), for a path.
    pub(crate) fn open_path(path: &Path, global: Global) -> Result<Self> {
        Self::open(&Source::of(path), global)
    }

    /// The dtype of the items. Items of super-chunks are taken as unsigned integers if they have a suitable size.
    pub(crate) fn dtype(&self) -> Dtype {
        match self {
            Self::ExternalArray(array) => array.dtype().clone(),
            Self::Blosc(Input::Array(array)) if array.meta().dtype.is_some() => npy::shown_dtype(array),
            Self::Blosc(input) => {
                let size = input.itemsize();
                let opaque = || Dtype::opaque(format!("|V{size}"), size);
                match size {
                    1 | 2 | 4 | 8 => Dtype::parse(&format!("<u{size}")).unwrap_or_else(|_| opaque()),
                    _ => opaque(),
                }
            }
        }
    }

    /// The dtype that `--dtype` asks for, otherwise that of the items.
    ///
    /// # Errors
    /// Fails if it is not a dtype, or if its items have another size.
    pub(crate) fn dtype_or(&self, asked: Option<&str>) -> Result<Dtype> {
        let own = self.dtype();
        let Some(text) = asked else { return Ok(own) };
        let dtype = Dtype::parse(text).map_err(|e| Usage(format!("--dtype: {e}")))?;
        let (size, have) = (dtype.itemsize(), own.itemsize());
        ensure!(size == have, "--dtype {dtype}: items of {size} bytes, the file has items of {have}");
        Ok(dtype)
    }

    /// Names, unit and fill values from the attributes.
    pub(crate) fn labels(&self) -> Labels {
        match self {
            Self::Blosc(Input::Array(array)) => Labels::of(array),
            Self::ExternalArray(array) => {
                let known = array.attributes().unwrap_or_default();
                let value =
                    |name: &str| known.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
                Labels::from_attributes(array.shape().len(), value)
            }
            Self::Blosc(_) => Labels::default(),
        }
    }

    /// Lengths of the dimensions. Super-chunks and chunks have one, their items.
    pub(crate) fn shape(&self) -> Vec<u64> {
        match self {
            Self::ExternalArray(array) => array.shape().to_vec(),
            Self::Blosc(Input::Array(array)) => array.shape().to_vec(),
            Self::Blosc(input) => vec![input.nbytes() / input.itemsize().max(1) as u64],
        }
    }

    /// Checks the limit for output that is not backed by stored data.
    ///
    /// # Errors
    /// Fails if the data expands beyond `--max-output`.
    pub(crate) fn check_output(&self) -> Result<()> {
        match self {
            Self::ExternalArray(array) => array.check_output(),
            Self::Blosc(input) => input.check_output(),
        }
    }

    /// Selects all data. Super-chunks are treated as bytes, since the last item may be incomplete.
    pub(crate) fn whole(&self) -> Result<View<'_>> {
        match self {
            Self::Blosc(input @ (Input::SuperChunk(_) | Input::Chunk(_))) => {
                let selection = Selection::all(input);
                let axes = selection.axes().to_vec();
                Ok(View { origin: Origin::Blosc(selection), axes, itemsize: 1 })
            }
            _ => self.view(&[]),
        }
    }

    /// Selects the items of a slice.
    ///
    /// # Errors
    /// Fails if there are too many parts or an index is out of range.
    pub(crate) fn view(&self, parts: &[b2kit::Selection]) -> Result<View<'_>> {
        Ok(match self {
            Self::Blosc(input) => {
                let selection = Selection::slice(input, parts)?;
                let axes = selection.axes().to_vec();
                View { origin: Origin::Blosc(selection), axes, itemsize: input.itemsize() as u64 }
            }
            Self::ExternalArray(array) => View::of(&**array, parts)?,
        })
    }
}

enum Origin<'a> {
    Blosc(Selection<'a>),
    ExternalArray(&'a dyn ExternalArray),
}

/// A selection of items of an open file.
pub(crate) struct View<'a> {
    origin: Origin<'a>,
    axes: Vec<Axis>,
    itemsize: u64,
}

impl<'a> View<'a> {
    /// Selects the items of a slice of an array that is not Blosc2.
    ///
    /// # Errors
    /// Fails if there are too many parts or an index is out of range.
    pub(crate) fn of(array: &'a dyn ExternalArray, parts: &[b2kit::Selection]) -> Result<Self> {
        let axes = resolve(parts, array.shape())?;
        Ok(Self { origin: Origin::ExternalArray(array), axes, itemsize: array.dtype().itemsize() as u64 })
    }
}

impl View<'_> {
    /// Shape of the selection, without dropped dimensions.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect()
    }

    /// Number of items.
    pub(crate) fn len(&self) -> u64 {
        self.axes.iter().fold(1, |n: u64, axis| n.saturating_mul(axis.len))
    }

    /// Uncompressed size in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        self.len().saturating_mul(self.itemsize)
    }

    /// Splits the selection into pieces of bounded size, in C order.
    pub(crate) fn pieces(&self) -> Pieces {
        match &self.origin {
            Origin::Blosc(selection) => selection.pieces(),
            Origin::ExternalArray(array) => {
                // The items in between are read as well.
                let steps =
                    self.axes.iter().fold(1, |n: u64, axis| n.saturating_mul(axis.step.unsigned_abs()));
                let size = PieceSize { target: 8 << 20, max: 64 << 20 };
                let chunks = array.chunkshape().unwrap_or_default();
                let chunks: Vec<u64> = chunks.iter().map(|&length| length.into()).collect();
                Pieces::new(&self.axes, &chunks, &[], self.itemsize.saturating_mul(steps), size)
            }
        }
    }

    /// Reads one of the [`pieces`](Self::pieces), or any other part of the file.
    pub(crate) fn read(&self, axes: &[Axis], buffer: &mut Vec<u8>) -> Result<()> {
        let source = match &self.origin {
            Origin::Blosc(selection) => return selection.read(axes, buffer),
            Origin::ExternalArray(source) => source,
        };
        let count: u64 = axes.iter().map(|axis| axis.len).product();
        let width = usize::try_from(self.itemsize)?;
        buffer.clear();
        resize(buffer, usize::try_from(count)? * width)?;
        read_strided(axes, width, buffer, |start, shape, dst| source.read_box(start, shape, dst))
    }

    /// The items of an array that are shown, in C order. If `summarised`, these are the items at the edges.
    ///
    /// # Errors
    /// Fails if they cannot be read, or if there are too many.
    pub(crate) fn edges(&self, summarised: bool) -> Result<Vec<u8>> {
        /// Limit in bytes; no screen shows more.
        const MAX_LEN: u64 = 16 << 20;
        let lengths: Vec<u64> = self.axes.iter().map(|axis| shown(axis.len, summarised)).collect();
        let count = lengths.iter().fold(1, |n: u64, length| n.saturating_mul(*length));
        let nbytes = count.saturating_mul(self.itemsize);
        ensure!(
            nbytes <= MAX_LEN,
            "{count} items of {} bytes are too many to show: --slice picks some",
            self.itemsize
        );
        let width = usize::try_from(self.itemsize)?;
        let mut out = Vec::new();
        resize(&mut out, usize::try_from(nbytes)?)?;
        if count == 0 {
            return Ok(out);
        }
        // The ends of each dimension: their first position in the output, and the items.
        let ends: Vec<Vec<(u64, Axis)>> = self
            .axes
            .iter()
            .zip(&lengths)
            .map(|(axis, &length)| match length < axis.len {
                true => vec![
                    (0, axis.part(0, length / 2)),
                    (length / 2, axis.part(axis.len - length / 2, axis.len)),
                ],
                false => vec![(0, *axis)],
            })
            .collect();
        let boxes: usize = ends.iter().map(Vec::len).product();
        let mut buffer = Vec::new();
        for n in 0..boxes {
            let mut rest = n;
            let picked: Vec<(u64, Axis)> = ends
                .iter()
                .map(|ends| {
                    let end = ends[rest % ends.len()];
                    rest /= ends.len();
                    end
                })
                .collect();
            let axes: Vec<Axis> = picked.iter().map(|(_, axis)| *axis).collect();
            self.read(&axes, &mut buffer)?;
            for (k, item) in buffer.chunks_exact(width).enumerate() {
                let (mut rest, mut at, mut stride) = (k as u64, 0, 1);
                for ((first, axis), length) in picked.iter().zip(&lengths).rev() {
                    at += (first + rest % axis.len) * stride;
                    rest /= axis.len;
                    stride *= length;
                }
                let at = usize::try_from(at)? * width;
                out[at..at + width].copy_from_slice(item);
            }
        }
        Ok(out)
    }

    /// Takes every n-th item along each dimension, so that none is longer than its limit. Also returns the shape.
    pub(crate) fn thinned(&self, limits: &[u64]) -> Result<(Vec<u64>, Vec<u8>)> {
        let mut limits = limits.iter();
        let thin = |axis: &Axis| match (axis.dropped, limits.next()) {
            (false, Some(limit)) => {
                let step = axis.len.div_ceil((*limit).max(1)).max(1);
                let step = i64::try_from(step).unwrap_or(i64::MAX);
                Axis {
                    step: axis.step.saturating_mul(step),
                    len: axis.len.div_ceil(step.unsigned_abs()),
                    ..*axis
                }
            }
            _ => *axis,
        };
        let mut thin = thin;
        // There are no limits for dropped dimensions.
        let axes: Vec<Axis> =
            self.axes.iter().map(|axis| if axis.dropped { *axis } else { thin(axis) }).collect();
        let shape = axes.iter().filter(|axis| !axis.dropped).map(|axis| axis.len).collect();
        let mut buffer = Vec::new();
        self.read(&axes, &mut buffer)?;
        Ok((shape, buffer))
    }
}

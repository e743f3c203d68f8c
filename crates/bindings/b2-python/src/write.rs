//! Writes new arrays.

use std::path::PathBuf;

use b2kit::chunk::{CParams, Compression};
use b2kit::frame::{FrameWriter, Storage};
use b2kit::nd::{ArrayBuilder, Concat, NdError, RegionSource};
use b2kit::{Dtype, NdArray, source};
use bytes::Bytes;
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::array::ArrayBase;
use crate::assembly::GridFiles;
use crate::control::How;
use crate::errors::{OrRaise, argument};
use crate::options::{codec_id, durability, plugins, slots};
use crate::source::{CallbackSource, Frame, Items};

/// Options for a new array.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options<'py> {
    path: Option<Bound<'py, PyAny>>,
    codec: Option<String>,
    level: Option<u8>,
    filters: Option<Bound<'py, PyList>>,
    splitmode: Option<String>,
    use_dict: Option<bool>,
    chunks: Option<Vec<u32>>,
    blocks: Option<Vec<u32>>,
    attrs: Option<Bound<'py, PyDict>>,
    meta: Option<Bound<'py, PyDict>>,
    overwrite: bool,
    sync: bool,
    sparse: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
}

impl Options<'_> {
    /// Returns the builder for an array of this shape.
    fn builder(&self, py: Python<'_>, shape: Vec<u64>, dtype: Dtype) -> PyResult<ArrayBuilder> {
        self.apply(py, ArrayBuilder::of_dtype(shape, dtype), None)
    }

    fn apply(
        &self,
        py: Python<'_>,
        mut builder: ArrayBuilder,
        like: Option<&NdArray>,
    ) -> PyResult<ArrayBuilder> {
        use b2kit::chunk::SplitMode;
        // Options that are not given are taken from the array that is copied.
        let copied = like.and_then(|array| array.cparams().ok());
        let copied_codec = copied.as_ref().map(CParams::codec);
        let mut compression = copied.map_or_else(Compression::new, Compression::from).plugins(plugins());
        if let Some(codec) = &self.codec {
            let codec = codec_id(py, codec, copied_codec)?;
            if copied_codec != Some(codec) {
                compression = compression.codec(codec).codec_meta(0);
            }
            if !plugins().codec_properties(codec).dictionaries {
                compression = compression.use_dict(false);
            }
        }
        if let Some(level) = self.level {
            compression = compression.level(level);
        }
        if let Some(filters) = &self.filters {
            compression = compression.filters(slots(filters)?);
        }
        match self.splitmode.as_deref() {
            None => {}
            Some("auto") => compression = compression.splitmode(SplitMode::Auto),
            Some("always") => compression = compression.splitmode(SplitMode::Always),
            Some("never") => compression = compression.splitmode(SplitMode::Never),
            Some(other) => return Err(argument(py, format!("no way to split is called {other:?}"))),
        }
        if let Some(use_dict) = self.use_dict {
            compression = compression.use_dict(use_dict);
        }
        builder = builder.compression(compression);
        if let Some(chunks) = &self.chunks {
            builder = builder.chunks(chunks.clone());
        }
        if let Some(blocks) = &self.blocks {
            builder = builder.blocks(blocks.clone());
        }
        for (name, value) in self.attrs.iter().flat_map(|attrs| attrs.iter()) {
            builder = builder.vlmetalayer(name.extract::<String>()?, crate::attrs::layer(&value)?);
        }
        for (name, value) in self.meta.iter().flat_map(|meta| meta.iter()) {
            builder = builder.metalayer(name.extract::<String>()?, crate::attrs::layer(&value)?);
        }
        let storage = if self.sparse { Storage::Sparse } else { Storage::Contiguous };
        let mut options = FrameWriter::options().overwrite(self.overwrite).durability(durability(self.sync));
        if let Some(path) = &self.path
            && let Some(inside) = crate::folder::of(path)?
        {
            options = options.file_system(inside);
        }
        Ok(builder.write_options(options.storage(storage)))
    }

    fn run(
        self,
        py: Python<'_>,
        builder: ArrayBuilder,
        work: impl FnOnce(
            &mut dyn FnMut(&mut dyn RegionSource) -> Result<Option<Bytes>, NdError>,
        ) -> Result<Option<Bytes>, NdError>
        + Send,
    ) -> PyResult<Option<Frame>> {
        let path: Option<PathBuf> = self.path.map(|path| path.extract()).transpose()?;
        let how = How { threads: self.threads, progress: self.progress, ..How::default() };
        let written = how.run(py, move |control| {
            let builder = builder.control(control);
            work(&mut |source| match &path {
                Some(path) => builder.write(path, source).map(|()| None),
                None => builder.to_bytes(source).map(Some),
            })
        })?;
        Ok(written.map(Frame))
    }
}

/// Writes a NumPy array. Returns the frame if no path is given.
#[pyfunction]
pub(crate) fn write_items(
    items: &Bound<'_, PyUntypedArray>,
    options: Options<'_>,
) -> PyResult<Option<Frame>> {
    let py = items.py();
    let dtype = crate::dtype::from_numpy(&items.dtype())?;
    let shape: Vec<u64> = items.shape().iter().map(|&length| length as u64).collect();
    let builder = options.builder(py, shape, dtype)?;
    let items = Items::new(items);
    options.run(py, builder, move |write| write(&mut items.strided()?))
}

/// Writes an array whose items all have the same value, or uninitialized ones if `item` is `None`.
#[pyfunction]
pub(crate) fn write_constant(
    shape: Vec<u64>,
    dtype: &Bound<'_, PyArrayDescr>,
    item: Option<Vec<u8>>,
    options: Options<'_>,
) -> PyResult<Option<Frame>> {
    let py = dtype.py();
    let dtype: Dtype = crate::dtype::from_numpy(dtype)?;
    let builder = options.builder(py, shape, dtype)?;
    let mut fill = item.map_or_else(source::uninit, source::item);
    options.run(py, builder, move |write| write(&mut fill))
}

/// Writes the items that a function returns for the start and shape of each region.
#[pyfunction]
pub(crate) fn write_called(
    shape: Vec<u64>,
    dtype: &Bound<'_, PyArrayDescr>,
    function: Py<PyAny>,
    options: Options<'_>,
) -> PyResult<Option<Frame>> {
    let py = dtype.py();
    let own = crate::dtype::from_numpy(dtype)?;
    let builder = options.builder(py, shape.clone(), own)?;
    let mut source = CallbackSource::new(function, dtype.clone().unbind(), shape);
    options.run(py, builder, move |write| write(&mut source))
}

/// Writes several arrays joined along an axis, or a copy of a single one. Chunks with the same shape and compression
/// are copied without being recompressed.
#[pyfunction]
pub(crate) fn write_joined(
    py: Python<'_>,
    arrays: Vec<Py<ArrayBase>>,
    axis: usize,
    layers: bool,
    options: Options<'_>,
) -> PyResult<Option<Frame>> {
    let arrays = arrays.iter().map(|array| array.get().now()).collect::<PyResult<Vec<NdArray>>>()?;
    let Some(first) = arrays.first().cloned() else {
        return Err(argument(py, "no arrays to join"));
    };
    let recompress = options.codec.is_some()
        || options.level.is_some()
        || options.filters.is_some()
        || options.splitmode.is_some()
        || options.use_dict.is_some();
    if let ([array], 0) = (&arrays[..], first.ndim()) {
        let builder = options.apply(py, ArrayBuilder::like(array), Some(array))?;
        let builder = if layers { builder.layers_of(array).or_raise(py)? } else { builder };
        return options.run(py, builder, move |write| write(&mut &first));
    }
    let views: Vec<_> = arrays.iter().map(NdArray::all).collect();
    let mut joined = Concat::new(views, axis).or_raise(py)?.recompress(recompress);
    let mut builder = options.apply(py, joined.builder(), Some(&first))?;
    let fits = |array: &&NdArray| !array.chunkshape().contains(&0);
    if options.chunks.is_none()
        && !fits(&&first)
        && let Some(other) = arrays.iter().find(fits)
    {
        // Chunks without items could not hold the items of the other arrays.
        builder = builder.chunks(other.chunkshape());
        if options.blocks.is_none() {
            builder = builder.blocks(other.blockshape());
        }
    }
    if layers {
        builder = builder.layers_of(&first).or_raise(py)?;
    }
    options.run(py, builder, move |write| write(&mut joined))
}

/// Assembles an array from arrays in files that hold its chunks. `starts` has their positions along each dimension;
/// `paths` are in C order. Chunks of the same shape are copied without being recompressed.
#[pyfunction]
pub(crate) fn write_parts(
    shape: Vec<u64>,
    dtype: &Bound<'_, PyArrayDescr>,
    starts: Vec<Vec<u64>>,
    paths: Vec<PathBuf>,
    options: Options<'_>,
) -> PyResult<Option<Frame>> {
    let py = dtype.py();
    let dtype = crate::dtype::from_numpy(dtype)?;
    let builder = options.builder(py, shape.clone(), dtype.clone())?;
    let Some(mut parts) = GridFiles::new(shape, dtype, starts, paths) else {
        return Err(argument(py, "the parts do not fill the array"));
    };
    options.run(py, builder, move |write| write(&mut parts))
}

//! Arrays that are not Blosc2: `.npy` files, and data sets of HDF5 and NetCDF. Commands treat them alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use b2kit::Dtype;
use b2kit::frame::ReadAt;
use b2kit::nd::Value;

use crate::formats::npy::{NpyHeader, RawSource};

/// The name of an array, and the array or the reason why it cannot be opened.
pub(crate) type NamedExternalArray = (String, anyhow::Result<Box<dyn ExternalArray>>);

/// An array whose items are read box by box.
#[cfg_attr(not(feature = "terminal"), allow(dead_code))]
pub(crate) trait ExternalArray: Send + Sync {
    /// Its format, such as "an .npy file".
    fn what(&self) -> String;
    /// Lengths of the dimensions.
    fn shape(&self) -> &[u64];
    fn dtype(&self) -> &Dtype;
    /// The shape of the pieces that are decoded as a whole; `None` if items can be read individually.
    fn chunkshape(&self) -> Option<&[u32]>;
    /// Bytes of the file that hold items.
    fn stored(&self) -> u64;
    /// Attributes in the form of the convention for xarray; `None` if such a file cannot have any.
    fn attributes(&self) -> Option<&[(String, Value)]>;
    /// The attributes as vlmetalayers, as `convert` writes them: names and encoded values.
    fn layers(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        BTreeMap::new()
    }
    /// Checks the limit `--max-output` for data that is not backed by stored bytes.
    fn check_output(&self) -> Result<()>;
    /// Reads the items of a box in C order, which fill `dst`.
    fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()>;
}

/// An `.npy` file.
pub(crate) struct Npy {
    header: NpyHeader,
    source: RawSource,
}

impl Npy {
    /// Opens an `.npy` file; `None` if the file is something else.
    pub(crate) fn open(file: &Arc<dyn ReadAt>) -> Result<Option<Self>> {
        let Some(header) = NpyHeader::alone(&**file, file.len()?)? else { return Ok(None) };
        let (itemsize, fortran) = (header.dtype.itemsize(), header.fortran_order);
        let source = RawSource::new(file.clone(), header.data_offset, &header.shape, itemsize, fortran);
        let source = source.context("the array is too large")?;
        Ok(Some(Self { header, source }))
    }
}

impl ExternalArray for Npy {
    fn what(&self) -> String {
        "an .npy file".into()
    }

    fn shape(&self) -> &[u64] {
        &self.header.shape
    }

    fn dtype(&self) -> &Dtype {
        &self.header.dtype
    }

    fn chunkshape(&self) -> Option<&[u32]> {
        None
    }

    fn stored(&self) -> u64 {
        self.header.nbytes
    }

    fn attributes(&self) -> Option<&[(String, Value)]> {
        None
    }

    fn check_output(&self) -> Result<()> {
        Ok(())
    }

    fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        Ok(self.source.read_box(start, shape, dst)?)
    }
}

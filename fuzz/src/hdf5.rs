//! HDF5 and NetCDF files: object headers, datatypes, heaps and chunk indexes, reached from one file.

use std::sync::Arc;

use b2_hdf5::{Content, File};
use bytes::Bytes;

use crate::frame::small;

/// The input is a file.
pub(crate) fn run(data: &[u8]) {
    let file = Arc::new(Bytes::copy_from_slice(data));
    let Ok(file) = File::from_reader(file, "input", &small()) else { return };
    let Ok(entries) = file.tree() else { return };
    for entry in entries.iter().take(50) {
        match &entry.content {
            Content::DataSet(data) => {
                let Ok(dtype) = data.dtype() else { continue };
                let Some(nbytes @ ..=0x1_0000) = data.nbytes() else { continue };
                assert_eq!(data.shape().iter().product::<u64>() * dtype.itemsize() as u64, nbytes);
                let mut items = vec![0; nbytes as usize];
                if let Err(error) = data.read_box(&vec![0; data.shape().len()], data.shape(), &mut items) {
                    drop(error.to_string());
                }
            }
            Content::Group => drop(file.group_attrs(&entry.path)),
            Content::Failed(error) => drop(error.to_string()),
            _ => {}
        }
    }
}

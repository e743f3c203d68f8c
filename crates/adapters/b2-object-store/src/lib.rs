#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
mod blocking;
mod object;
#[cfg(feature = "cloud")]
mod tls;

use std::io;
use std::sync::Arc;

use b2_async::AsyncNdArray;
use b2nd::NdError;
use object_store::ObjectStore;
use object_store::path::Path;

#[cfg(feature = "blocking")]
pub use blocking::Stores;
pub use object::Object;
#[cfg(feature = "cloud")]
pub use tls::install_tls;

/// Opens an array in a store. If there is no object at this path, a sparse frame is tried.
///
/// # Errors
/// When the store fails, or there is no array at this path.
pub async fn open(
    store: Arc<dyn ObjectStore>,
    path: impl Into<Path>,
) -> Result<AsyncNdArray<Object>, NdError> {
    let object = Object::new(store, path);
    match AsyncNdArray::open(object.clone()).await {
        Err(error) if may_be_folder(&error) => match AsyncNdArray::open(object.sparse()).await {
            Err(_) => Err(error),
            array => array,
        },
        array => array,
    }
}

/// Returns whether there may be a folder at the path. Windows refuses to open a folder as a file.
fn may_be_folder(error: &NdError) -> bool {
    let NdError::Frame(b2_frame::FrameError::Io { source, .. }) = error else { return false };
    source.kind() == io::ErrorKind::NotFound || cfg!(windows) && source.kind() == io::ErrorKind::Other
}

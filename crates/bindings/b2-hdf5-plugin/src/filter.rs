//! Filters as safe Rust: bytes in, bytes out.

use std::env;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use b2_core::Control;
use bytes::Bytes;

use crate::Error;

/// The properties of a data set at creation.
#[derive(Clone, Copy, Debug)]
pub struct Dataset<'a> {
    /// Size of an item in bytes.
    pub itemsize: usize,
    /// Size in bytes of the elements of an item that is an array; otherwise the item size.
    pub base_itemsize: usize,
    /// Shape of a chunk in items.
    pub chunk: &'a [u64],
}

impl Dataset<'_> {
    /// Returns the size of a chunk in bytes. HDF5 chunks are smaller than 4 GiB.
    pub(crate) fn chunk_nbytes(&self) -> Result<u32, Error> {
        let length = |nbytes: u64, &length: &u64| nbytes.checked_mul(length);
        let nbytes = self.chunk.iter().try_fold(self.itemsize as u64, length);
        nbytes
            .and_then(|nbytes| u32::try_from(nbytes).ok())
            .ok_or_else(|| Error::Parameters(format!("chunks {:?} have 4 GiB or more", self.chunk)))
    }
}

/// Memory that the caller frees.
pub trait Memory: Sized {
    /// Allocates zeros. Returns `None` if there is not enough memory.
    fn zeroed(len: usize) -> Option<Self>;
    /// Allocates memory that `fill` initialises and returns. Returns `None` if there is not enough memory, or if `fill`
    /// returns other memory.
    fn filled<E>(
        len: usize,
        fill: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Option<Result<Self, E>>;
    /// Returns all bytes.
    fn bytes(&mut self) -> &mut [u8];
}

/// A decoded chunk.
#[derive(Debug)]
pub struct PlainBytes<M> {
    /// The decoded bytes, padded with zeros to a full chunk.
    pub memory: M,
    /// The number of decoded bytes.
    pub nbytes: usize,
}

/// A filter of HDF5.
pub trait Filter {
    /// The number of the filter in the HDF5 registry.
    const ID: i32;
    /// The name of the filter in files.
    const NAME: &'static CStr;

    /// Returns the parameters to store with a new data set. `given` are those set by its creator.
    ///
    /// # Errors
    /// When chunks of the data set could not be stored.
    fn parameters(given: &[u32], dataset: &Dataset<'_>) -> Result<Vec<u32>, Error>;

    /// Encodes a chunk. Returns `None` if it would not become smaller and should be stored unfiltered.
    ///
    /// # Errors
    /// When the parameters do not allow it.
    fn encode(parameters: &[u32], plain: &[u8]) -> Result<Option<Bytes>, Error>;

    /// Decodes a chunk. Its claimed size is checked against the parameters before memory is allocated.
    ///
    /// # Errors
    /// When it is damaged, or not a chunk of the data set.
    fn decode<M: Memory>(parameters: &[u32], stored: &[u8]) -> Result<PlainBytes<M>, Error>;
}

/// Returns the number of threads for a call: one, unless the environment sets more.
pub(crate) fn control() -> Control {
    // Read once: another thread may be changing the environment.
    static THREADS: LazyLock<usize> = LazyLock::new(|| {
        let asked = env::var("BLOSC_NTHREADS").ok().and_then(|threads| threads.trim().parse().ok());
        asked.unwrap_or(1).clamp(1, 256)
    });
    Control::new().threads(*THREADS)
}

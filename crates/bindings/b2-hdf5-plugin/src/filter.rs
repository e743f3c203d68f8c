//! What a filter does: bytes in, bytes out. Nothing here knows of C.

use std::env;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

use b2_core::Control;
use bytes::Bytes;

use crate::Error;

/// What HDF5 knows about a data set when it is created.
#[derive(Clone, Copy, Debug)]
pub struct Dataset<'a> {
    /// Size of an item in bytes.
    pub itemsize: usize,
    /// Size in bytes of the items of which an item is an array; that of an item if it is none.
    pub base_itemsize: usize,
    /// Shape of a chunk in items.
    pub chunk: &'a [u64],
}

impl Dataset<'_> {
    /// Returns the size of a chunk in bytes. HDF5 has chunks of less than 4 GiB.
    pub(crate) fn chunk_nbytes(&self) -> Result<u32, Error> {
        let length = |nbytes: u64, &length: &u64| nbytes.checked_mul(length);
        let nbytes = self.chunk.iter().try_fold(self.itemsize as u64, length);
        nbytes
            .and_then(|nbytes| u32::try_from(nbytes).ok())
            .ok_or_else(|| Error::Parameters(format!("chunks {:?} have 4 GiB or more", self.chunk)))
    }
}

/// Memory of the caller, who frees it.
pub trait Memory: Sized {
    /// Allocates zeros. Returns `None` if there is not enough memory.
    fn zeroed(len: usize) -> Option<Self>;
    /// Allocates memory that `fill` initialises: it returns the bytes that it has got. Returns `None` if there is not enough
    /// memory, or if `fill` returns others.
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
    /// The decoded bytes; where they are fewer than a chunk has, zeros follow.
    pub memory: M,
    /// The number of decoded bytes.
    pub nbytes: usize,
}

/// A filter of HDF5.
pub trait Filter {
    /// The number of the filter in the registry of HDF5.
    const ID: i32;
    /// The name of the filter in files.
    const NAME: &'static CStr;

    /// Returns the parameters to store with a new data set. `given` are those of its creator.
    ///
    /// # Errors
    /// When no chunk of the data set could be stored.
    fn parameters(given: &[u32], dataset: &Dataset<'_>) -> Result<Vec<u32>, Error>;

    /// Encodes a chunk. Returns `None` where it would not become smaller and is better stored without the filter.
    ///
    /// # Errors
    /// When the parameters do not allow it.
    fn encode(parameters: &[u32], plain: &[u8]) -> Result<Option<Bytes>, Error>;

    /// Decodes a chunk. What it claims is compared with the parameters before memory is allocated.
    ///
    /// # Errors
    /// When it is damaged, or not a chunk of the data set.
    fn decode<M: Memory>(parameters: &[u32], stored: &[u8]) -> Result<PlainBytes<M>, Error>;
}

/// Returns how many threads a call may use: one, unless the environment asks for more.
pub(crate) fn control() -> Control {
    // Read once: a program may be changing its environment on another thread.
    static THREADS: LazyLock<usize> = LazyLock::new(|| {
        let asked = env::var("BLOSC_NTHREADS").ok().and_then(|threads| threads.trim().parse().ok());
        asked.unwrap_or(1).clamp(1, 256)
    });
    Control::new().threads(*THREADS)
}

//! The filter parameters (`cd_values` in HDF5) that both filters share.

use std::mem::MaybeUninit;

use b2_chunk::{CodecId, Compression, FilterId};

use crate::filter::{Memory, PlainBytes, control};
use crate::{Dataset, Error};

/// Indices of parameters. Those before `LEVEL` always exist; the filter sets them, whatever was given.
pub(crate) const ITEMSIZE: usize = 2;
pub(crate) const CHUNK_NBYTES: usize = 3;
pub(crate) const LEVEL: usize = 4;
pub(crate) const FILTER: usize = 5;
pub(crate) const CODEC: usize = 6;

/// Defaults of the parameters from `LEVEL` on: level 5, shuffle, blosclz.
const DEFAULTS: [u32; 3] = [5, 1, 0];

/// Earlier filters may make a chunk longer by an eighth plus this many bytes. No known filter does.
const MAX_EXPANSION: usize = 64 << 10;

/// The parameters of a data set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters<'a>(&'a [u32]);

impl<'a> Parameters<'a> {
    pub(crate) fn new(values: &'a [u32]) -> Result<Self, Error> {
        if values.len() < LEVEL {
            return Err(Error::Parameters(format!("{}, expected at least {LEVEL}", values.len())));
        }
        Ok(Self(values))
    }

    /// Returns the parameters of a new data set: the first ones set by the filter, then the given ones, then defaults.
    pub(crate) fn for_dataset(
        given: &[u32],
        revisions: [u32; 2],
        itemsize: usize,
        dataset: &Dataset<'_>,
    ) -> Result<Vec<u32>, Error> {
        let itemsize = u32::try_from(itemsize).ok().filter(|&size| size > 0);
        let itemsize = itemsize.ok_or_else(|| Error::Parameters("items without a size".into()))?;
        let [first, second] = revisions;
        let given = given.get(LEVEL..).unwrap_or_default().iter().copied();
        let mut values = vec![first, second, itemsize, dataset.chunk_nbytes()?];
        values.extend(given.take(DEFAULTS.len()));
        Ok(values)
    }

    /// Adds the defaults of missing parameters.
    pub(crate) fn complete(values: &mut Vec<u32>) {
        let given = values.len().saturating_sub(LEVEL);
        values.extend(DEFAULTS.iter().skip(given));
    }

    pub(crate) fn get(self, at: usize) -> Option<u32> {
        self.0.get(at).copied()
    }

    /// Returns the parameters from `at` on.
    pub(crate) fn rest(self, at: usize) -> &'a [u32] {
        self.0.get(at..).unwrap_or_default()
    }

    fn size(self, at: usize) -> usize {
        self.get(at).and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
    }

    /// Returns the size of an item in bytes. It is 0 for items of variable length, which HDF5 stores elsewhere.
    pub(crate) fn itemsize(self) -> usize {
        self.size(ITEMSIZE).max(1)
    }

    /// Returns the size of a chunk in bytes.
    pub(crate) fn chunk_nbytes(self) -> usize {
        self.size(CHUNK_NBYTES)
    }

    /// Returns the maximum size of a chunk at the input of this filter.
    pub(crate) fn max_chunk_nbytes(self) -> usize {
        let nbytes = self.chunk_nbytes();
        nbytes.saturating_add(nbytes / 8).saturating_add(MAX_EXPANSION)
    }

    /// Returns the requested block size in bytes; 0 for the default.
    pub(crate) fn blocksize(self, at: usize) -> usize {
        self.size(at)
    }

    fn byte(self, at: usize, name: &str) -> Result<u8, Error> {
        let default = at.checked_sub(LEVEL).and_then(|n| DEFAULTS.get(n)).copied().unwrap_or(0);
        let value = self.get(at).unwrap_or(default);
        u8::try_from(value).map_err(|_| Error::Parameters(format!("{name} {value}")))
    }

    /// Returns the codec.
    pub(crate) fn codec(self) -> Result<CodecId, Error> {
        self.byte(CODEC, "codec").map(CodecId)
    }

    /// Returns the compression settings with this codec.
    pub(crate) fn compression(self, codec: CodecId) -> Result<Compression, Error> {
        let compression = Compression::new()
            .itemsize(self.itemsize())
            .codec(codec)
            .level(self.byte(LEVEL, "level")?)
            .control(control())
            .no_filters();
        Ok(match FilterId(self.byte(FILTER, "filter")?) {
            FilterId::NONE => compression,
            filter => compression.filter(filter),
        })
    }

    /// Allocates memory for a decoded chunk and fills it with `decode`.
    ///
    /// HDF5 reads a whole chunk from the result, whatever its length, so the result is a whole chunk.
    pub(crate) fn decoded<M: Memory>(
        self,
        nbytes: u64,
        decode: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<PlainBytes<M>, Error> {
        let nbytes = self.claimed(nbytes)?;
        let len = nbytes.max(self.chunk_nbytes());
        let mut memory = M::zeroed(len).ok_or(Error::OutOfMemory(len))?;
        let bytes = memory.bytes().get_mut(..nbytes).ok_or(Error::OutOfMemory(len))?;
        decode(bytes)?;
        Ok(PlainBytes { memory, nbytes })
    }

    /// Like [`decoded`](Self::decoded), for decoders that do not need zeroed memory: zeroing takes a tenth of the
    /// decoding time. Returns `None` if the bytes would not be a whole chunk.
    pub(crate) fn decoded_to<M: Memory>(
        self,
        nbytes: u64,
        decode: impl for<'m> FnOnce(&'m mut [MaybeUninit<u8>]) -> Result<&'m mut [u8], Error>,
    ) -> Result<Option<PlainBytes<M>>, Error> {
        let nbytes = self.claimed(nbytes)?;
        if nbytes < self.chunk_nbytes() {
            return Ok(None);
        }
        let memory = M::filled(nbytes, decode).ok_or(Error::OutOfMemory(nbytes))??;
        Ok(Some(PlainBytes { memory, nbytes }))
    }

    /// Returns the claimed size of a chunk, if a chunk of the data set can be that large.
    fn claimed(self, nbytes: u64) -> Result<usize, Error> {
        let max_chunk_nbytes = self.max_chunk_nbytes();
        let claimed = usize::try_from(nbytes).ok().filter(|&nbytes| 0 < nbytes && nbytes <= max_chunk_nbytes);
        claimed.ok_or_else(|| {
            Error::Mismatch(format!("{nbytes} bytes are stored for a chunk of {}", self.chunk_nbytes()))
        })
    }
}

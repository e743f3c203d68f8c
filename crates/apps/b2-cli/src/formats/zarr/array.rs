//! Arrays, read box by box.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use b2kit::frame::{Links, ReadAt, ReadFiles};
use b2kit::nd::Value;
use b2kit::{Dtype, Limits};

use super::boxes::{Region, coordinates, copy_shared, fill_shared};
use super::codecs::{Index, Sharding, Step};
use super::metadata::Metadata;
use super::product;

/// Maximum number of cached entries of shard indexes.
const MAX_CACHED_ENTRIES: usize = 1 << 20;

/// An array of Zarr.
pub(crate) struct ZarrArray {
    files: Arc<dyn ReadFiles>,
    dir: PathBuf,
    metadata: Metadata,
    /// The shape of the chunks that are decoded individually: in shards, the inner chunks.
    chunks: Vec<u64>,
    chunkshape: Option<Vec<u32>>,
    limits: Limits,
    /// Recently read shard indexes.
    indexes: Mutex<VecDeque<(Vec<u64>, Arc<Index>)>>,
    filled: FillCounter,
}

/// Counts bytes of missing chunks: a few bytes of metadata may declare any number of them.
#[derive(Default)]
struct FillCounter {
    nbytes: AtomicU64,
    /// One more than the highest number of a counted chunk, so that no chunk is counted twice.
    next: AtomicU64,
}

impl ZarrArray {
    pub(super) fn new(files: Arc<dyn ReadFiles>, dir: PathBuf, metadata: Metadata, limits: Limits) -> Self {
        let chunks = match &metadata.chain.0[..] {
            [Step::Sharding(sharding)] => sharding.shape.clone(),
            _ => metadata.chunks.clone(),
        };
        let chunkshape = chunks.iter().map(|&length| u32::try_from(length).ok()).collect();
        let (indexes, filled) = (Mutex::default(), FillCounter::default());
        Self { files, dir, metadata, chunks, chunkshape, limits, indexes, filled }
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.metadata.shape
    }

    pub(crate) fn dtype(&self) -> &Dtype {
        &self.metadata.dtype
    }

    /// The shape of the chunks; `None` if it exceeds the limits of Blosc2 chunks.
    pub(crate) fn chunkshape(&self) -> Option<&[u32]> {
        self.chunkshape.as_deref()
    }

    pub(crate) fn attributes(&self) -> &[(String, Value)] {
        &self.metadata.attributes
    }

    /// Reads the items of a box in C order, which fill `dst`.
    ///
    /// # Errors
    /// Fails if a chunk cannot be read or is damaged, or if too many are missing.
    pub(crate) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        let own = &self.metadata.shape;
        let inside = start.len() == own.len()
            && shape.len() == own.len()
            && start
                .iter()
                .zip(shape)
                .zip(own)
                .all(|((at, n), all)| at.checked_add(*n).is_some_and(|end| end <= *all));
        ensure!(inside, "a box outside of the array");
        let (wanted, itemsize) = (Region { start, shape }, self.metadata.dtype.itemsize());
        let grid: Vec<u64> =
            own.iter().zip(&self.chunks).map(|(all, chunk)| all.div_ceil((*chunk).max(1))).collect();
        let first: Vec<u64> =
            start.iter().zip(&self.chunks).map(|(at, chunk)| at / (*chunk).max(1)).collect();
        let counts: Vec<u64> = start
            .iter()
            .zip(shape)
            .zip(self.chunks.iter().zip(&first))
            .map(|((at, n), (chunk, first))| (at + n).div_ceil((*chunk).max(1)).saturating_sub(*first))
            .collect();
        for n in 0..product(&counts) {
            let at = coordinates(n, &counts);
            let coords: Vec<u64> = at.iter().zip(&first).map(|(at, first)| at + first).collect();
            let origin: Vec<u64> = coords.iter().zip(&self.chunks).map(|(at, chunk)| at * chunk).collect();
            let chunk = Region { start: &origin, shape: &self.chunks };
            match self.chunk(&coords).with_context(|| format!("chunk {coords:?}"))? {
                Some(items) => copy_shared(chunk, &items, wanted, dst, itemsize)?,
                None => {
                    self.count_filled(&coords, &grid).with_context(|| format!("chunk {coords:?}"))?;
                    fill_shared(chunk, wanted, &self.metadata.fill, dst)?;
                }
            }
        }
        Ok(())
    }

    /// Counts a chunk that is not stored.
    fn count_filled(&self, coords: &[u64], grid: &[u64]) -> Result<()> {
        let number = coords
            .iter()
            .zip(grid)
            .fold(0_u64, |n, (at, count)| n.saturating_mul(*count).saturating_add(*at));
        if self.filled.next.fetch_max(number.saturating_add(1), Ordering::Relaxed) > number {
            return Ok(());
        }
        let nbytes = product(&self.chunks).saturating_mul(self.metadata.dtype.itemsize() as u64);
        let all = self.filled.nbytes.fetch_add(nbytes, Ordering::Relaxed).saturating_add(nbytes);
        Ok(self.limits.check_output(all, 0)?)
    }

    /// Reads a chunk; `None` if it is not stored.
    fn chunk(&self, coords: &[u64]) -> Result<Option<Vec<u8>>> {
        let Metadata { chain, fill, dtype, keys, chunks: shard, .. } = &self.metadata;
        if let [Step::Sharding(sharding)] = &chain.0[..] {
            return self.inner_chunk(sharding, coords, shard);
        }
        let Some((file, len)) = self.open(&keys.of(coords))? else { return Ok(None) };
        let stored = file.read_at(0..len)?;
        chain.decode(&stored, &self.chunks, fill, dtype.itemsize(), &self.limits).map(Some)
    }

    /// Reads a chunk of a shard.
    fn inner_chunk(&self, sharding: &Sharding, coords: &[u64], shard: &[u64]) -> Result<Option<Vec<u8>>> {
        let counts = sharding.counts(shard);
        let outer: Vec<u64> = coords.iter().zip(&counts).map(|(at, count)| at / (*count).max(1)).collect();
        let Some((file, len)) = self.open(&self.metadata.keys.of(&outer))? else { return Ok(None) };
        let index = self.index(sharding, &outer, shard, (&*file, len))?;
        let number = coords
            .iter()
            .zip(&counts)
            .fold(0_u64, |n, (at, count)| n.saturating_mul(*count).saturating_add(at % (*count).max(1)));
        let Some((at, length)) = index.extent(usize::try_from(number)?) else { return Ok(None) };
        let end = at.checked_add(length).filter(|end| *end <= len).context("outside of its shard")?;
        self.limits.check_memory("stored chunk, in bytes", length)?;
        let stored = file.read_at(at..end)?;
        let (fill, itemsize) = (&self.metadata.fill, self.metadata.dtype.itemsize());
        sharding.chain.decode(&stored, &sharding.shape, fill, itemsize, &self.limits).map(Some)
    }

    /// The index of a shard.
    fn index(
        &self,
        sharding: &Sharding,
        coords: &[u64],
        shard: &[u64],
        (file, len): (&dyn ReadAt, u64),
    ) -> Result<Arc<Index>> {
        let indexes = || self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, index)) = indexes().iter().find(|(own, _)| own == coords) {
            return Ok(index.clone());
        }
        let index_len = sharding.index_len(shard, &self.limits)?;
        let start = if sharding.at_start { Some(0) } else { len.checked_sub(index_len) };
        let start = start.filter(|_| index_len <= len).context("a shard that is shorter than its index")?;
        let stored = file.read_at(start..start.saturating_add(index_len))?;
        let index = Arc::new(sharding.index(&stored, shard, &self.limits)?);
        let mut cache = indexes();
        cache.push_back((coords.to_vec(), index.clone()));
        while cache.len() > 1
            && cache.iter().map(|(_, index)| index.len()).sum::<usize>() > MAX_CACHED_ENTRIES
        {
            cache.pop_front();
        }
        Ok(index)
    }

    /// Opens the file of a chunk or shard; `None` if there is none.
    fn open(&self, key: &str) -> Result<Option<(Arc<dyn ReadAt>, u64)>> {
        let file = match self.files.open(&self.dir.join(key), Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| key.to_owned())?,
        };
        let len = file.len()?;
        self.limits.check_memory("stored chunk, in bytes", len)?;
        Ok(Some((file, len)))
    }
}

//! Stores: python-blosc2's `.b2z` archives and `.b2e` frames, opened by `b2-store`, which reads files synchronously.
//!
//! Its reads are served from memory. A read of anything else fails, the missing bytes are fetched, and the work is
//! repeated. That happens only a few times, since opening a store reads only the directory at its end.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use b2_async::AsyncSuperChunk;
use b2_frame::ReadAt;
use b2_store::{Archive, Member, MemberLocation, Members, StoreError};
use bytes::Bytes;

use crate::frame;
use crate::others::guess;
use crate::source::{File, Source};

/// Bytes are fetched in pages of this size.
const PAGE_LEN: u64 = 64 << 10;
/// Maximum number of cached bytes per store.
const MAX_CACHED_BYTES: u64 = 256 << 20;

/// The cached parts of a file.
#[derive(Clone, Debug)]
struct CachedFile {
    len: u64,
    pages: Arc<Mutex<PageCache>>,
}

#[derive(Debug, Default)]
struct PageCache {
    known: BTreeMap<u64, Bytes>,
    /// A range that was read but is not cached.
    missing: Option<Range<u64>>,
}

impl CachedFile {
    fn lock(&self) -> MutexGuard<'_, PageCache> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for CachedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut pages = self.lock();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let page = at / PAGE_LEN * PAGE_LEN;
            let found =
                pages.known.get(&page).and_then(|bytes| bytes.get(usize::try_from(at - page).ok()?..));
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                pages.missing = Some(page..end);
                return Err(io::Error::other("not fetched yet"));
            };
            let count = found.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(found.get(..count).unwrap_or_default());
            (at, rest) = (at.saturating_add(count as u64), later);
        }
        Ok(())
    }
}

/// An open store.
#[derive(Debug)]
pub struct OpenStore {
    members: Members,
    file: Arc<File>,
    archive: Option<(Archive, CachedFile)>,
    /// The frame with small members.
    embedded: Option<AsyncSuperChunk<Source>>,
}

impl OpenStore {
    /// Opens the archive in a file.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, or has no members.
    pub async fn archive(file: Arc<File>) -> Result<Self> {
        let known = CachedFile { len: file.len(), pages: Arc::default() };
        let reader: Arc<dyn ReadAt> = Arc::new(known.clone());
        let (archive, members, place) = work(&file, &known, || Archive::members(reader.clone())).await?;
        let mut opened = Self { members, file, archive: Some((archive, known)), embedded: None };
        match place {
            Some(MemberLocation::Archived { header, len }) => {
                let source = opened.part("embed.b2e", header, len).await?;
                opened = opened.with_embedded(frame::open(source).await?)?;
            }
            Some(MemberLocation::Unreadable(why)) => bail!("embed.b2e is {why}"),
            _ if opened.members.0.is_empty() => {
                let what = guess(opened.file.first());
                bail!("this zip archive is not a store of Blosc2 files{what}")
            }
            _ => {}
        }
        Ok(opened)
    }

    /// Returns the store in a frame; `None` if it has no members.
    ///
    /// # Errors
    /// When the list of members is malformed.
    pub fn frame(file: Arc<File>, frame: &AsyncSuperChunk<Source>) -> Result<Option<Self>> {
        if !Members::has(frame.super_chunk()) {
            return Ok(None);
        }
        let opened = Self { members: Members::default(), file, archive: None, embedded: None };
        opened.with_embedded(frame.clone()).map(Some)
    }

    fn with_embedded(mut self, frame: AsyncSuperChunk<Source>) -> Result<Self> {
        self.members.embedded(frame.super_chunk())?;
        self.embedded = Some(frame);
        Ok(self)
    }

    /// Returns its members.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, Member> {
        &self.members.0
    }

    /// Returns a member: a range of the file, or decoded bytes of the frame with small members.
    ///
    /// # Errors
    /// When it does not exist or cannot be read in place.
    pub async fn member(&self, key: &str) -> Result<Source> {
        let member = self.members().get(key).context("there is no such member")?;
        match (&member.place, &self.embedded) {
            (MemberLocation::Archived { header, len }, _) => self.part(key, *header, *len).await,
            (MemberLocation::Embedded(range), Some(frame)) => {
                let bytes = frame.read_bytes(range.clone()).await?;
                Ok(Source::Memory(key.to_owned(), bytes.into()))
            }
            (MemberLocation::Unreadable(why), _) => bail!("{key} is {why}"),
            _ => bail!("{key} is not in this file"),
        }
    }

    async fn part(&self, key: &str, header: u64, len: u64) -> Result<Source> {
        let (archive, known) = self.archive.as_ref().context("this is not an archive")?;
        let range = work(&self.file, known, || archive.data(header, len)).await?;
        Ok(Source::File(Arc::new(self.file.part(key, range).await.with_context(|| key.to_owned())?)))
    }
}

/// Repeats the work until it needs no more bytes.
async fn work<T>(file: &File, known: &CachedFile, work: impl Fn() -> Result<T, StoreError>) -> Result<T> {
    loop {
        let result = work();
        let Some(missing) = known.lock().missing.take() else { return Ok(result?) };
        let have = known.lock().known.len() as u64 * PAGE_LEN;
        let end = missing.end.div_ceil(PAGE_LEN).saturating_mul(PAGE_LEN).min(known.len);
        if have.saturating_add(end.saturating_sub(missing.start)) > MAX_CACHED_BYTES {
            bail!("the directory of the store is larger than {} MiB", MAX_CACHED_BYTES >> 20);
        }
        let bytes = file.range(missing.start..end).await?;
        let mut pages = known.lock();
        let mut at = missing.start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let page = rest.split_to(rest.len().min(PAGE_LEN as usize));
            pages.known.insert(at, page);
            at = at.saturating_add(PAGE_LEN);
        }
        // Otherwise a file shorter than reported would be asked for the same bytes forever.
        if at < end {
            bail!("the file ends too early");
        }
    }
}

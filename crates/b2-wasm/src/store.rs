//! Stores: python-blosc2's `.b2z` archives and `.b2e` frames, opened by `b2-store`, which reads files synchronously.
//!
//! Its reads are answered from what is in memory. A read of anything else fails, the missing bytes are fetched, and the
//! work begins anew: a few times, since opening a store reads only the directory at its end.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use b2_frame::{Links, ReadAt, ReadFiles, SuperChunk};
use b2_store::{Member, Place, Store, StoreError};
use bytes::Bytes;

use crate::source::{File, Source};

/// Bytes are fetched in pages of this size.
const PAGE: u64 = 64 << 10;
/// The most that is kept of one store.
const MOST: u64 = 256 << 20;

/// What is known of a file.
#[derive(Clone, Debug)]
struct Known {
    len: u64,
    pages: Arc<Mutex<Pages>>,
}

#[derive(Debug, Default)]
struct Pages {
    known: BTreeMap<u64, Bytes>,
    /// What was read but is not known.
    missing: Option<Range<u64>>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for Known {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut pages = self.lock();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let page = at / PAGE * PAGE;
            let found = pages.known.get(&page).and_then(|bytes| bytes.get(usize::try_from(at - page).ok()?..));
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

impl ReadFiles for Known {
    fn open(&self, _: &Path, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(self.clone()))
    }
}

/// An open store.
#[derive(Debug)]
pub struct Opened {
    store: Store,
    file: Arc<File>,
    known: Known,
}

impl Opened {
    /// Opens the store in a file; `None` if it is something else.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub async fn open(file: Arc<File>) -> Result<Option<Self>> {
        let known = Known { len: file.len(), pages: Arc::default() };
        let options = SuperChunk::options().file_system(Arc::new(known.clone()));
        let store = work(&file, &known, || Store::open("store", &options)).await?;
        Ok(store.map(|store| Self { store, file, known }))
    }

    /// Returns its members.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<String, Member> {
        self.store.members()
    }

    /// Returns the bytes of a member: a part of the file, or what is decoded of the frame with small members.
    ///
    /// # Errors
    /// As for [`Store::window`] and [`Store::embedded`].
    pub async fn member(&self, key: &str) -> Result<Source> {
        if let Place::Embedded(_) = self.store.member(key)?.place {
            let bytes = work(&self.file, &self.known, || self.store.embedded(key)).await?;
            return Ok(Source::Memory(key.to_owned(), bytes.unwrap_or_default().into()));
        }
        let window = work(&self.file, &self.known, || self.store.window(key)).await?;
        let Some(window) = window else {
            let Some(Member { place: Place::Unreadable(why), .. }) = self.members().get(key) else {
                bail!("{key} is not in this file");
            };
            bail!("{key} is {why}");
        };
        Ok(Source::File(Arc::new(self.file.part(key, window).await.context(key.to_owned())?)))
    }
}

/// Does the work until it needs nothing more.
async fn work<T>(
    file: &File,
    known: &Known,
    work: impl Fn() -> Result<T, StoreError>,
) -> Result<T> {
    loop {
        let result = work();
        let Some(missing) = known.lock().missing.take() else { return Ok(result?) };
        let have = known.lock().known.len() as u64 * PAGE;
        let end = missing.end.div_ceil(PAGE).saturating_mul(PAGE).min(known.len);
        if have.saturating_add(end.saturating_sub(missing.start)) > MOST {
            bail!("the directory of the store is larger than {} MiB", MOST >> 20);
        }
        let bytes = file.range(missing.start..end).await?;
        let mut pages = known.lock();
        let mut at = missing.start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let page = rest.split_to(rest.len().min(PAGE as usize));
            pages.known.insert(at, page);
            at = at.saturating_add(PAGE);
        }
        // A file that is shorter than it says would be asked for the same bytes again and again.
        if at < end {
            bail!("the file ends too early");
        }
    }
}

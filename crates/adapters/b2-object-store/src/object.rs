//! Frames in an object store, through futures.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2_async::{OpenResponse, RangeReader, RangeResponse, Version};
use b2_frame::{FrameFile, INDEX_NAME};
use futures_util::future::join;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};

/// A frame in an object store: a single object, or a folder of objects if it is sparse.
#[derive(Clone, Debug)]
pub struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    sparse: bool,
}

impl Object {
    /// Refers to the contiguous frame at this path.
    pub fn new(store: Arc<dyn ObjectStore>, path: impl Into<Path>) -> Self {
        Self { store, path: path.into(), sparse: false }
    }

    /// Refers to the sparse frame in the folder at this path instead.
    #[must_use]
    pub fn sparse(self) -> Self {
        Self { sparse: true, ..self }
    }

    fn path_of(&self, file: FrameFile) -> Path {
        match file {
            FrameFile::Main if self.sparse => self.path.clone().join(INDEX_NAME),
            FrameFile::Main => self.path.clone(),
            FrameFile::Chunk(id) => self.path.clone().join(format!("{id:08X}.chunk")),
        }
    }

    async fn get(&self, path: &Path, range: GetRange) -> io::Result<(bytes::Bytes, ObjectMeta)> {
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let result: GetResult = self.store.get_opts(path, options).await.map_err(failed)?;
        let meta = result.meta.clone();
        Ok((result.bytes().await.map_err(failed)?, meta))
    }
}

impl RangeReader for Object {
    fn name(&self) -> String {
        self.path.to_string()
    }

    async fn open(&self, file: FrameFile, first: u64, last: u64) -> io::Result<OpenResponse> {
        let path = self.path_of(file);
        let start = self.get(&path, GetRange::Bounded(0..first));
        let (start, end) = join(start, self.get(&path, GetRange::Suffix(last))).await;
        let (first, meta) = start?;
        let (last, end) = match end {
            Ok(end) => end,
            // Some stores do not support ranges that count from the end.
            Err(_) => {
                let range = meta.size.saturating_sub(last)..meta.size;
                self.get(&path, GetRange::Bounded(range)).await?
            }
        };
        let version = version(&meta);
        let range = meta.size.saturating_sub(last.len() as u64)..meta.size;
        let last = version.accept(&range, RangeResponse::new(last, self::version(&end)))?;
        Ok(OpenResponse::new(first, last, meta.size, version))
    }

    async fn range(&self, file: FrameFile, range: Range<u64>) -> io::Result<RangeResponse> {
        let (bytes, meta) = self.get(&self.path_of(file), GetRange::Bounded(range)).await?;
        Ok(RangeResponse::new(bytes, version(&meta)))
    }
}

fn version(meta: &ObjectMeta) -> Version {
    let last_modified = Some(meta.last_modified.to_rfc3339());
    Version::default().etag(meta.e_tag.clone()).last_modified(last_modified).len(Some(meta.size))
}

pub(crate) fn failed(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        Error::Precondition { .. } => io::ErrorKind::StaleNetworkFileHandle,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

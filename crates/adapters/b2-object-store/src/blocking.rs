//! Blocking access to object stores by URL, for reading and uploading: `s3://bucket/path`,
//! `gs://bucket/path`, `az://container/path`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use b2_async::RangeReader;
use b2_core::{PerProcess, ProcessId};
use b2_frame::{
    FrameFile, INDEX_NAME, Links, OpenFiles, OpenResponse, RangeResponse, ReadAt, ReadFiles, RemoteFile,
    RemoteSource, RequestStats,
};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use tokio::runtime::{Builder, Runtime};

use crate::object::{Object, failed};

/// Number of requests of a reader in flight.
const MAX_IN_FLIGHT: usize = 64;
/// Number of parts of an upload in flight, all of which are in memory.
const MAX_PARTS_IN_FLIGHT: u64 = 4;
/// Minimum part size of an upload, in bytes. S3 requires at least 5 MiB for all parts but the last.
const MIN_PART_LEN: u64 = 8 << 20;
/// Maximum number of parts of an upload; S3 accepts 10,000.
const MAX_PARTS: u64 = 9_000;

/// Object stores accessed by URL. For [`ReadFiles`] the path of a sparse frame is that of the
/// folder with its objects. Cloning is cheap.
///
/// Buckets are opened on first use, with settings from the environment such as `AWS_ACCESS_KEY_ID` and
/// `AWS_ENDPOINT_URL`, as `object_store` reads them.
#[derive(Clone)]
pub struct Stores(Arc<StoresState>);

struct StoresState {
    process_state: PerProcess<ProcessState>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// The state of one process. A forked child has no threads of its parent and must not use its connections, so it
/// creates its own.
struct ProcessState {
    runtime: Runtime,
    buckets: Mutex<HashMap<String, Bucket>>,
    open: OpenFiles<ObjectSource>,
}

impl ProcessState {
    fn new(buckets: HashMap<String, Bucket>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(Self { runtime, buckets: Mutex::new(buckets), open: OpenFiles::default() })
    }

    /// Creates the state of a child, with the stores that were inserted in its parent. Stores from the environment are
    /// opened again on use.
    fn for_child(parent: Option<&Self>) -> io::Result<Self> {
        let Some(parent) = parent else { return Self::new(HashMap::new()) };
        // The lock may be held by a thread that does not exist in the child, so do not wait for it.
        let Ok(buckets) = parent.buckets.try_lock() else {
            return Err(io::Error::other("the process was forked while stores were being opened"));
        };
        let inserted = buckets.iter().filter(|(_, bucket)| bucket.is_inserted);
        Self::new(inserted.map(|(prefix, bucket)| (prefix.clone(), bucket.clone())).collect())
    }
}

impl StoresState {
    /// Returns the state of this process.
    fn process_state(&self) -> io::Result<&ProcessState> {
        self.process_state.get_or_try_init(ProcessState::for_child)
    }
}

#[derive(Clone)]
struct Bucket {
    objects: Arc<dyn ObjectStore>,
    parts: Arc<dyn MultipartStore>,
    /// Whether it was added by [`Stores::insert`].
    is_inserted: bool,
}

impl Bucket {
    fn new<S: ObjectStore + MultipartStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self { objects: store.clone(), parts: store, is_inserted: false }
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Creates a few threads, which requests run on.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn new() -> io::Result<Self> {
        #[cfg(feature = "cloud")]
        crate::tls::install_tls();
        let stores = Self::with(PerProcess::new());
        stores.0.process_state()?;
        Ok(stores)
    }

    fn with(process_state: PerProcess<ProcessState>) -> Self {
        Self(Arc::new(StoresState { process_state, requests: AtomicU64::new(0), bytes: AtomicU64::new(0) }))
    }

    /// Uses the given store for URLs that start with `prefix`, such as `s3://bucket`.
    pub fn insert<S: ObjectStore + MultipartStore>(&self, prefix: &str, store: S) {
        // If the threads of this process cannot be started, the next call reports the error.
        if let Ok(process_state) = self.0.process_state() {
            lock(&process_state.buckets)
                .insert(prefix.to_owned(), Bucket { is_inserted: true, ..Bucket::new(store) });
        }
    }

    /// Returns the number of requests and of bytes read so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.requests.load(Relaxed), self.0.bytes.load(Relaxed))
    }

    /// Uploads a file as an object, in parts of at least 8 MiB, of which at most four are in memory.
    /// The part with the header is sent last, and the object appears only when all parts have arrived.
    /// `going` is called after each part. An error from it, like any other error, aborts the upload, so
    /// that the store keeps no parts.
    ///
    /// Without `replace`, an existing object of that name is an error. Single-part objects are checked atomically by
    /// the store; others are checked before the upload.
    ///
    /// # Errors
    /// When the file cannot be read, the store fails, or the object exists and `replace` is not set.
    /// The object is then unchanged.
    pub fn upload(
        &self,
        url: &str,
        file: &dyn ReadAt,
        replace: bool,
        going: &mut (dyn FnMut() -> io::Result<()> + Send),
    ) -> io::Result<()> {
        let (bucket, path) = self.bucket(url)?;
        let len = file.len()?;
        let process_state = self.0.process_state()?;
        process_state.open.clear();
        process_state.runtime.block_on(async {
            going()?;
            if len <= MIN_PART_LEN {
                self.0.requests.fetch_add(1, Relaxed);
                let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
                let payload = PutPayload::from(file.read_at(0..len)?);
                return bucket.objects.put_opts(&path, payload, mode.into()).await.map(drop).map_err(failed);
            }
            if !replace {
                match bucket.objects.head(&path).await {
                    Err(Error::NotFound { .. }) => {}
                    Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
                    Err(error) => return Err(failed(error)),
                }
            }
            let id = bucket.parts.create_multipart(&path).await.map_err(failed)?;
            let sent = async {
                let size = MIN_PART_LEN.max(len.div_ceil(MAX_PARTS));
                let count = len.div_ceil(size);
                let send = |n: u64| {
                    let (bucket, path, id) = (&bucket, &path, &id);
                    async move {
                        let start = n.saturating_mul(size);
                        let bytes = file.read_at(start..len.min(start.saturating_add(size)))?;
                        let at = usize::try_from(n).unwrap_or(usize::MAX);
                        self.0.requests.fetch_add(1, Relaxed);
                        bucket.parts.put_part(path, id, at, bytes.into()).await.map_err(failed)
                    }
                };
                let in_flight = usize::try_from(MAX_PARTS_IN_FLIGHT).unwrap_or(1);
                let mut others = stream::iter(1..count).map(send).buffered(in_flight);
                let mut parts: Vec<PartId> = Vec::new();
                while let Some(part) = others.try_next().await? {
                    going()?;
                    parts.push(part);
                }
                parts.insert(0, send(0).await?);
                going()?;
                bucket.parts.complete_multipart(&path, &id, parts).await.map_err(failed)
            };
            if let Err(error) = sent.await {
                // The first error is reported, even if the abort fails.
                let _ = bucket.parts.abort_multipart(&path, &id).await;
                return Err(error);
            }
            Ok(())
        })
    }

    /// Returns the bucket of a URL and the path in it.
    fn bucket(&self, url: &str) -> io::Result<(Bucket, Path)> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("not a URL"))?;
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() || path.is_empty() {
            return Err(bad("a store URL must name a bucket and an object: s3://bucket/path"));
        }
        let path = Path::parse(path.trim_end_matches('/')).map_err(|error| bad(&error.to_string()))?;
        let prefix = format!("{}://{name}", scheme.to_ascii_lowercase());
        let mut buckets = lock(&self.0.process_state()?.buckets);
        if let Some(bucket) = buckets.get(&prefix) {
            return Ok((bucket.clone(), path));
        }
        let bucket = open_bucket(&prefix)?;
        buckets.insert(prefix, bucket.clone());
        Ok((bucket, path))
    }

    fn open_object(&self, url: &str) -> io::Result<RemoteFile<ObjectSource>> {
        let (bucket, path) = self.bucket(url)?;
        let object = Object::new(bucket.objects, path);
        self.0.requests.fetch_add(2, Relaxed);
        let opening = object.open(FrameFile::Main, OpenResponse::FIRST, OpenResponse::LAST);
        let request_stats = RequestStats::default();
        let flight = request_stats.begin();
        let opening = self.0.process_state()?.runtime.block_on(opening)?;
        let bytes = opening.first.len() as u64 + opening.last.len() as u64;
        flight.end(bytes);
        self.0.bytes.fetch_add(bytes, Relaxed);
        let (stores, process) = (self.clone(), ProcessId::current());
        Ok(RemoteFile::new(ObjectSource { stores, url: url.to_owned(), process, object }, opening)
            .with_request_stats(request_stats))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the bucket of `scheme://name`.
fn open_bucket(prefix: &str) -> io::Result<Bucket> {
    match prefix.split_once("://").map_or("", |(scheme, _)| scheme) {
        #[cfg(feature = "aws")]
        "s3" => {
            let store = object_store::aws::AmazonS3Builder::from_env().with_url(prefix).build();
            Ok(Bucket::new(store.map_err(failed)?))
        }
        #[cfg(feature = "gcp")]
        "gs" => {
            let store = object_store::gcp::GoogleCloudStorageBuilder::from_env().with_url(prefix).build();
            Ok(Bucket::new(store.map_err(failed)?))
        }
        #[cfg(feature = "azure")]
        "az" => {
            let store = object_store::azure::MicrosoftAzureBuilder::from_env().with_url(prefix).build();
            Ok(Bucket::new(store.map_err(failed)?))
        }
        scheme => {
            let what = format!("this build does not support {scheme} URLs (features aws, gcp, azure)");
            Err(io::Error::new(io::ErrorKind::Unsupported, what))
        }
    }
}

/// The source of an object's ranges.
struct ObjectSource {
    stores: Stores,
    url: String,
    /// The process that opened it.
    process: ProcessId,
    object: Object,
}

impl RemoteSource for ObjectSource {
    fn range(&self, range: Range<u64>) -> io::Result<RangeResponse> {
        let shared = &self.stores.0;
        shared.requests.fetch_add(1, Relaxed);
        let process_state = shared.process_state()?;
        let answer = if self.process.is_current() {
            process_state.runtime.block_on(self.object.range(FrameFile::Main, range))?
        } else {
            // The file was opened in the parent, whose connections must not be used here.
            let (bucket, path) = self.stores.bucket(&self.url)?;
            process_state.runtime.block_on(Object::new(bucket.objects, path).range(FrameFile::Main, range))?
        };
        shared.bytes.fetch_add(answer.bytes.len() as u64, Relaxed);
        Ok(answer)
    }

    fn in_flight(&self) -> usize {
        MAX_IN_FLIGHT
    }
}

impl ReadFiles for Stores {
    fn open(&self, path: &FsPath, _: Links) -> io::Result<Arc<dyn ReadAt>> {
        let url = url_of(path.to_str().ok_or(io::ErrorKind::InvalidInput)?, std::path::is_separator);
        Ok(self.0.process_state()?.open.get(&url, || self.open_object(&url))?)
    }
}

/// Returns the URL of an object. On Windows, paths of files in sparse frames are joined with a backslash.
fn url_of(path: &str, is_separator: fn(char) -> bool) -> Cow<'_, str> {
    let of_frame = |name: &str| name == INDEX_NAME || name.ends_with(".chunk");
    match path.rsplit_once(is_separator) {
        Some((folder, name)) if of_frame(name) => format!("{folder}/{name}").into(),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use b2_frame::{ReadTuning, SuperChunk};
    use b2nd::{ArrayBuilder, NdArray, source};
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn windows_joins_with_a_backslash() {
        let windows = |c| c == '/' || c == '\\';
        for name in [INDEX_NAME, "0000000F.chunk"] {
            assert_eq!(url_of(&format!("s3://b/a.b2nd\\{name}"), windows), format!("s3://b/a.b2nd/{name}"));
            assert_eq!(
                url_of(&format!("s3://b/a.b2nd/{name}"), |c| c == '/'),
                format!("s3://b/a.b2nd/{name}")
            );
        }
        // A backslash in the name of an object stays.
        assert_eq!(url_of("s3://b/a\\b.b2nd", windows), "s3://b/a\\b.b2nd");
    }

    /// Simulates a forked child: the state belongs to another process, whose threads do not exist here.
    #[test]
    fn another_process_makes_threads_and_connections_of_its_own() {
        let frame = ArrayBuilder::new::<u32>([300, 400])
            .to_bytes(source::by_index(|i| (i as u32).wrapping_mul(77_777)))
            .unwrap();
        let near = NdArray::from_bytes(frame.clone()).unwrap().all().read_bytes().unwrap();
        let memory = InMemory::new();
        let parent = ProcessState::new(HashMap::new()).unwrap();
        parent.runtime.block_on(memory.put(&Path::from("a.b2nd"), frame.into())).unwrap();
        lock(&parent.buckets)
            .insert("mem://b".to_owned(), Bucket { is_inserted: true, ..Bucket::new(memory) });
        let stores = Stores::with(PerProcess::inherited(parent));
        let options = SuperChunk::options().file_system(Arc::new(stores.clone())).tuning(ReadTuning::REMOTE);
        let remote = NdArray::open_with("mem://b/a.b2nd", &options).unwrap();
        assert!(remote.all().read_bytes().unwrap() == near);
        // The file is in the child's list of open files, not in its parent's.
        let open = &stores.0.process_state().unwrap().open;
        assert!(open.get("mem://b/a.b2nd", || Err(io::ErrorKind::NotFound.into())).is_ok());
        // The process was forked while a thread of the parent held the lock.
        let parent = ProcessState::new(HashMap::new()).unwrap();
        let held = parent.buckets.lock().unwrap();
        assert!(ProcessState::for_child(Some(&parent)).is_err());
        drop(held);
        assert!(ProcessState::for_child(Some(&parent)).is_ok());
    }
}

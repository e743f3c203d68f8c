//! Arrays in the stores of object_store that need no network.

use std::fs;
use std::sync::Arc;

use b2_frame::{FrameError, FrameWriter, Storage};
use b2nd::{ArrayBuilder, NdArray, NdError, range, source};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn field() -> ArrayBuilder {
    ArrayBuilder::new::<u32>([300, 400]).chunks([100, 100]).blocks([20, 20])
}

fn item(i: u64) -> u32 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u32
}

#[tokio::test]
async fn arrays_in_memory_read_as_here() {
    let frame = field().to_bytes(source::by_index(item)).unwrap();
    let near = NdArray::from_bytes(frame.clone()).unwrap();
    let store = Arc::new(InMemory::new());
    store.put(&Path::from("a/b.b2nd"), frame.clone().into()).await.unwrap();
    let remote = b2_object_store::open(store.clone(), "a/b.b2nd").await.unwrap();
    assert!(remote.is_guarded());
    // In a separate task, which may move between threads.
    let all = remote.all();
    let all = tokio::spawn(async move { all.read_bytes().await }).await.unwrap().unwrap();
    assert!(all == near.all().read_bytes().unwrap());
    let view = (range(..).step(-7), [3i64, 3, 399]);
    let found = remote.slice(view.clone()).unwrap().read_bytes().await.unwrap();
    assert_eq!(found, near.slice(view).unwrap().read_bytes().unwrap());
    // Another object of the same name.
    store.put(&Path::from("a/b.b2nd"), frame.into()).await.unwrap();
    let error = remote.all().read_bytes().await.unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Changed { .. })), "{error}");
    let error = b2_object_store::open(store, "none").await.map(drop).unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Io { .. })), "{error}");
}

#[tokio::test]
async fn sparse_frames_are_folders_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.b2nd");
    let options = FrameWriter::options().storage(Storage::Sparse);
    field().write_options(options).write(&path, source::by_index(item)).unwrap();
    let near = NdArray::open(&path).unwrap().all().read_bytes().unwrap();
    let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap());
    let remote = b2_object_store::open(local, "s.b2nd").await.unwrap();
    assert!(remote.all().read_bytes().await.unwrap() == near);
    let memory = Arc::new(InMemory::new());
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let name = Path::from(format!("x/{}", entry.file_name().display()));
        memory.put(&name, fs::read(entry.path()).unwrap().into()).await.unwrap();
    }
    let remote = b2_object_store::open(memory, "x").await.unwrap();
    assert!(remote.all().read_bytes().await.unwrap() == near);
}

/// Uploads to a store that records the order of parts.
#[cfg(feature = "blocking")]
mod uploads {
    use std::fmt;
    use std::io;
    use std::sync::Mutex;

    use b2_object_store::Stores;
    use bytes::Bytes;
    use object_store::multipart::{MultipartStore, PartId};
    use object_store::*;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct RecordingStore(Arc<InMemory>, Arc<Mutex<Vec<String>>>);

    impl fmt::Display for RecordingStore {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("noting")
        }
    }

    #[async_trait::async_trait]
    impl MultipartStore for RecordingStore {
        async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
            self.1.lock().unwrap().push("create".into());
            self.0.create_multipart(path).await
        }
        async fn put_part(
            &self,
            path: &Path,
            id: &MultipartId,
            at: usize,
            data: PutPayload,
        ) -> Result<PartId> {
            self.1.lock().unwrap().push(format!("part {at}, {}", data.content_length() >> 20));
            self.0.put_part(path, id, at, data).await
        }
        async fn complete_multipart(
            &self,
            path: &Path,
            id: &MultipartId,
            parts: Vec<PartId>,
        ) -> Result<PutResult> {
            self.1.lock().unwrap().push("complete".into());
            self.0.complete_multipart(path, id, parts).await
        }
        async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
            self.1.lock().unwrap().push("abort".into());
            self.0.abort_multipart(path, id).await
        }
    }

    #[async_trait::async_trait]
    impl ObjectStore for RecordingStore {
        async fn put_opts(&self, path: &Path, data: PutPayload, opts: PutOptions) -> Result<PutResult> {
            self.0.put_opts(path, data, opts).await
        }
        async fn put_multipart_opts(
            &self,
            path: &Path,
            opts: PutMultipartOptions,
        ) -> Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(path, opts).await
        }
        async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
            self.0.get_opts(path, options).await
        }
        fn delete_stream(
            &self,
            paths: futures_util::stream::BoxStream<'static, Result<Path>>,
        ) -> futures_util::stream::BoxStream<'static, Result<Path>> {
            self.0.delete_stream(paths)
        }
        fn list(
            &self,
            prefix: Option<&Path>,
        ) -> futures_util::stream::BoxStream<'static, Result<ObjectMeta>> {
            self.0.list(prefix)
        }
        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }
        async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    #[test]
    fn the_part_with_the_header_goes_last() {
        let (stores, store) = (Stores::new().unwrap(), RecordingStore::default());
        stores.insert("mem://x", store.clone());
        let file: Bytes = (0..30u32 << 20).map(|i| (i >> 12) as u8).collect::<Vec<_>>().into();
        stores.upload("mem://x/a", &file, false, &mut || Ok(())).unwrap();
        let noted = std::mem::take(&mut *store.1.lock().unwrap());
        assert_eq!(noted.len(), 6, "{noted:?}");
        assert_eq!((&*noted[0], &*noted[4], &*noted[5]), ("create", "part 0, 8", "complete"));
        use b2_frame::{Links, ReadFiles};
        let stored = stores.open("mem://x/a".as_ref(), Links::Follow).unwrap();
        assert!(stored.read_at(0..stored.len().unwrap()).unwrap() == file);
        let error = stores.upload("mem://x/a", &file, false, &mut || Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let stop = &mut || Err(io::Error::other("stopped"));
        assert!(stores.upload("mem://x/b", &file, false, stop).is_err());
        let mut calls = 0;
        let stop = &mut || {
            calls += 1;
            if calls > 2 { Err(io::Error::other("stopped")) } else { Ok(()) }
        };
        assert!(stores.upload("mem://x/b", &file, false, stop).is_err());
        let noted = store.1.lock().unwrap();
        assert!(noted.last().is_some_and(|last| last == "abort"), "{noted:?}");
        assert_eq!(
            stores.kind("mem://x/b".as_ref(), Links::Follow).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(stores.upload("s4://x/b", &file, false, &mut || Ok(())).is_err());
    }
}

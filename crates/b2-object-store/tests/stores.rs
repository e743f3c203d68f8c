//! Arrays in the stores of object_store that need no network.

use std::fs;
use std::sync::Arc;

use b2_frame::{FrameError, FrameWriter, Storage};
use b2nd::{ArrayBuilder, ByIndex, NdArray, NdError, range};
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
    let frame = field().to_bytes(ByIndex(item)).unwrap();
    let near = NdArray::from_bytes(frame.clone()).unwrap();
    let store = Arc::new(InMemory::new());
    store.put(&Path::from("a/b.b2nd"), frame.clone().into()).await.unwrap();
    let far = b2_object_store::open(store.clone(), "a/b.b2nd").await.unwrap();
    assert!(far.is_guarded());
    // On a task of its own, which may move between threads.
    let all = far.all();
    let all = tokio::spawn(async move { all.read_bytes().await }).await.unwrap().unwrap();
    assert!(all == near.all().read_bytes().unwrap());
    let view = (range(..).step(-7), [3i64, 3, 399]);
    let found = far.slice(view.clone()).unwrap().read_bytes().await.unwrap();
    assert_eq!(found, near.slice(view).unwrap().read_bytes().unwrap());
    // Another object of the same name.
    store.put(&Path::from("a/b.b2nd"), frame.into()).await.unwrap();
    let error = far.all().read_bytes().await.unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Changed { .. })), "{error}");
    let error = b2_object_store::open(store, "none").await.map(drop).unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Io { .. })), "{error}");
}

#[tokio::test]
async fn sparse_frames_are_folders_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.b2nd");
    let options = FrameWriter::options().storage(Storage::Sparse);
    field().write_options(options).write(&path, ByIndex(item)).unwrap();
    let near = NdArray::open(&path).unwrap().all().read_bytes().unwrap();
    let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap());
    let far = b2_object_store::open(local, "s.b2nd").await.unwrap();
    assert!(far.all().read_bytes().await.unwrap() == near);
    let memory = Arc::new(InMemory::new());
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let name = Path::from(format!("x/{}", entry.file_name().display()));
        memory.put(&name, fs::read(entry.path()).unwrap().into()).await.unwrap();
    }
    let far = b2_object_store::open(memory, "x").await.unwrap();
    assert!(far.all().read_bytes().await.unwrap() == near);
}

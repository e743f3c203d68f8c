//! Files written by C-Blosc2, read synchronously and asynchronously.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use b2_async::{AsyncNdArray, AsyncOptions, AsyncSuperChunk};
use b2_frame::{Compare, FrameError, ReadTuning, SuperChunk};
use b2_testkit::Rng;
use b2nd::{NdArray, NdError};

use crate::arrays::{points, selection};
use crate::store::Store;

/// Costs that fetch as little as possible at a time.
pub(crate) const TINY: ReadTuning =
    ReadTuning::LOCAL.whole_chunk_max(0).head_len(0).coalesce_gap(0).coalesce_max(0);
const TINY_AHEAD: ReadTuning = TINY.prefetch(true).coalesce_max(4096);

pub(crate) fn tuning(dice: &mut Rng) -> ReadTuning {
    *dice.pick(&[ReadTuning::REMOTE, ReadTuning::LOCAL, TINY, TINY_AHEAD])
}

pub(crate) fn compare(dice: &mut Rng) -> Compare {
    *dice.pick(&[Compare::Never, Compare::Once, Compare::Always])
}

fn frames(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let sparse = path.join("chunks.b2frame");
        let file = if sparse.exists() { &sparse } else { &path };
        if file.is_file() && fs::read(file).unwrap().starts_with(&b2_frame::MAGIC) {
            found.push(path);
        } else if path.is_dir() {
            frames(&path, found);
        }
    }
}

/// Asserts that both are the same value or the same error.
pub(crate) fn same<T: PartialEq + Debug, E: std::error::Error>(
    remote: Result<T, E>,
    local: Result<T, E>,
    what: impl Debug,
) {
    // The frame in memory here has no name.
    let text = |error: E| {
        let text = b2_core::Report(&error).to_string();
        match text.strip_prefix("cannot read ").and_then(|rest| rest.split_once(": ")) {
            Some((_, detail)) => detail.to_owned(),
            None => text,
        }
    };
    assert!(remote.as_ref().ok() == local.as_ref().ok(), "{what:?}: {:?} {:?}", remote.err(), local.err());
    assert_eq!(remote.err().map(text), local.err().map(text), "{what:?}");
}

#[test]
fn files_of_c_read_the_same() {
    let dice = &mut Rng::new(5);
    let mut paths = Vec::new();
    frames(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata"), &mut paths);
    let (mut narrays, mut nframes) = (0, 0);
    for path in paths {
        let store = Store::read(&path);
        let options = SuperChunk::options().tuning(tuning(dice)).compare(compare(dice));
        let local = options.open(&path).unwrap();
        let remote = store
            .in_any_order(dice, AsyncSuperChunk::open_with(store.clone(), &options.clone().into()))
            .unwrap();
        check_frame(&path, &local, &remote, &store, dice);
        nframes += 1;
        if let Ok(local) = NdArray::from_super_chunk(local) {
            let remote = AsyncOptions::from(options);
            check_array(&path, &local, &remote, &store, dice);
            narrays += 1;
        }
    }
    assert!(narrays > 60 && nframes > 130, "{narrays} {nframes}");
}

fn check_array(path: &Path, local: &NdArray, remote: &AsyncOptions, store: &Store, dice: &mut Rng) {
    let remote = store.in_rounds(AsyncNdArray::open_with(store.clone(), remote)).unwrap();
    assert_eq!((remote.shape(), remote.dtype()), (local.shape(), local.dtype()));
    assert_eq!(remote.array().attrs().names().count(), local.attrs().names().count());
    same(store.in_rounds(remote.all().read_bytes()), local.all().read_bytes(), path);
    let few = local.shape().iter().all(|n| *n > 0) && local.nbytes() < 1 << 20;
    for _ in 0..if few { 3 } else { 0 } {
        let some = selection(local.shape(), dice);
        let (one, two) = (remote.slice(&some).unwrap(), local.slice(&some).unwrap());
        same(store.in_any_order(dice, one.read_bytes()), two.read_bytes(), (path, some));
        let some = points(local.shape(), dice);
        let (one, two) = (remote.points(&some).unwrap(), local.points(&some).unwrap());
        same::<_, NdError>(store.in_rounds(one.read_bytes()), two.read_bytes(), (path, some));
    }
}

fn check_frame(
    path: &Path,
    local: &SuperChunk,
    remote: &AsyncSuperChunk<Store>,
    store: &Store,
    dice: &mut Rng,
) {
    assert_eq!((remote.nchunks(), remote.nbytes()), (local.nchunks(), local.nbytes()));
    assert!(remote.metalayers().iter().eq(local.metalayers().iter()));
    for (name, _) in local.vlmetalayers().iter() {
        same(remote.vlmetalayers().get(name), local.vlmetalayers().get(name), path);
    }
    let small = local.nbytes() < 1 << 24;
    for nchunk in (0..local.nchunks().min(3)).chain([local.nchunks()]) {
        if !small {
            break;
        }
        same(
            store.in_rounds(remote.chunk(nchunk)).map(|chunk| chunk.as_bytes().to_vec()),
            local.chunk(nchunk).read().map(|chunk| chunk.as_bytes().to_vec()),
            path,
        );
        same(
            store.in_any_order(dice, remote.decompress_chunk(nchunk)),
            local.chunk(nchunk).decompress(),
            path,
        );
        same(store.in_rounds(remote.chunk_blocks(nchunk)), local.chunk(nchunk).all_blocks(), path);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let numbers = [0, dice.below(3), 0];
        same(
            store.in_rounds(remote.blocks(nchunk, &numbers, |n, bytes| one.push((n, bytes.to_vec())))),
            local.chunk(nchunk).blocks(&numbers, |n, bytes| two.push((n, bytes.to_vec()))),
            path,
        );
        assert_eq!(one, two);
    }
    same(store.in_rounds(remote.verify_checksums()), local.verify_checksums(), path);
    same(store.in_rounds(remote.chunk_infos()), local.chunk_infos().collect(), path);
    let nbytes = local.nbytes();
    if small {
        same(store.in_any_order(dice, remote.read_bytes(0..nbytes)), local.read_bytes(0..nbytes), path);
    }
    for _ in 0..4 {
        let range = dice.range(nbytes as usize + 2);
        let range = range.start as u64..(range.end as u64).min(range.start as u64 + (1 << 20));
        same(
            store.in_any_order(dice, remote.read_bytes(range.clone())),
            local.read_bytes(range.clone()),
            (path, range),
        );
        let items: Vec<u64> =
            (0..dice.below(20)).map(|_| dice.below(local.nitems() as usize + 1) as u64).collect();
        same::<_, FrameError>(
            store.in_any_order(dice, remote.gather(&items)),
            local.gather(&items),
            (path, items),
        );
    }
}

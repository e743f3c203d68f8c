//! Counts the requests and bytes that one item of a remote file costs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use b2_core::Limits;
use b2_frame::{Disk, Links, ReadAt, ReadFiles};
use b2_hdf5::{Codec, File, Writer};
use b2nd::{ArrayBuilder, NdArray};
use bytes::Bytes;

/// Maximum for one item, in addition to its chunk or blocks.
const REQUESTS: u64 = 30;
const BYTES: u64 = 100 << 10;

/// Counts reads of a file.
struct CountingFile {
    file: Arc<dyn ReadAt>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl ReadAt for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.file.read_exact_at(offset, buf)
    }
}

/// Opens a data set, reads the item at a place, by default in the middle, and returns the item, the requests and the bytes.
fn one_item(file: Arc<dyn ReadAt>, path: &str, at: Option<&[u64]>) -> (Vec<u8>, u64, u64) {
    let counted = Arc::new(CountingFile { file, requests: AtomicU64::new(0), bytes: AtomicU64::new(0) });
    let file = File::from_reader(counted.clone(), "far", &Limits::default()).unwrap();
    let data = file.data_set(path).unwrap();
    let middle = || data.shape().iter().map(|length| length / 2).collect();
    let start: Vec<u64> = at.map_or_else(middle, <[u64]>::to_vec);
    let mut item = vec![0; data.dtype().unwrap().itemsize()];
    data.read_box(&start, &vec![1; start.len()], &mut item).unwrap();
    (item, counted.requests.load(Relaxed), counted.bytes.load(Relaxed))
}

/// As many chunks as in a file of 1 GB, but smaller.
#[test]
fn one_item_takes_few_requests() {
    let shape = [40_u64, 100, 100];
    let items: Vec<u8> =
        (0..shape.iter().product::<u64>()).flat_map(|n| (n as u32 ^ 0x5A5A_5A5A).to_le_bytes()).collect();
    let builder = ArrayBuilder::new::<u32>(shape).chunks([1, 10, 10]).blocks([1, 5, 10]);
    let array = NdArray::from_bytes(builder.to_bytes(&items[..]).unwrap()).unwrap();
    for codec in [Codec::Blosc2, Codec::Gzip(1), Codec::None] {
        let mut writer = Writer::new(io::Cursor::new(Vec::new()), "memory").unwrap();
        // Other objects before and after it.
        for n in 0..30 {
            writer.group(&format!("group{n}"), &[("units".into(), "K".into())]).unwrap();
        }
        writer.array("group7/deep/data", &array, codec).unwrap();
        let file: Arc<dyn ReadAt> = Arc::new(Bytes::from(writer.finish().unwrap().0.into_inner()));
        let (item, requests, bytes) = one_item(file, "/group7/deep/data", None);
        let n = (20 * 100 + 50) * 100 + 50_u32;
        assert_eq!(item, (n ^ 0x5A5A_5A5A).to_le_bytes(), "{codec:?}");
        println!("{codec:?}: {requests} requests, {bytes} bytes");
        assert!(requests <= REQUESTS, "{codec:?}: {requests} requests");
        // A chunk has 400 bytes.
        assert!(bytes <= BYTES + 2048, "{codec:?}: {bytes} bytes");
    }
}

/// Every kind of index, by files of h5py: the right item, and few requests for it.
#[test]
#[ignore = "needs Python with h5py (B2KIT_HDF5_PYTHON)"]
fn one_item_of_every_index_takes_few_requests() {
    let kept = crate::made::made("remote.py", &["FOLDER"]);
    let mut files: Vec<_> =
        std::fs::read_dir(kept.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let shape = File::open(&path).unwrap().data_set("group/data").unwrap().shape().to_vec();
        let whole: Arc<dyn ReadAt> = Arc::new(Bytes::from(bytes));
        let total: u64 = shape.iter().product();
        let (mut most, mut most_bytes) = (0, 0);
        // Places all over the array, both ends among them.
        for n in (0..600).map(|n| n * (total - 1) / 599) {
            let (mut at, mut rest) = (Vec::new(), n);
            for length in shape.iter().rev() {
                at.insert(0, rest % length);
                rest /= length;
            }
            let (item, requests, bytes) = one_item(whole.clone(), "group/data", Some(&at));
            let expected = if at[0] % 5 == 3 { 7 } else { n as u32 ^ 0x5A5A_5A5A };
            assert_eq!(item, expected.to_le_bytes(), "{} {at:?}", path.display());
            (most, most_bytes) = (most.max(requests), most_bytes.max(bytes));
        }
        println!("{}: at most {most} requests, {most_bytes} bytes", path.display());
        assert!(
            most <= REQUESTS && most_bytes <= BYTES + 400,
            "{}: {most} requests, {most_bytes} bytes",
            path.display()
        );
    }
}

/// Counts for files of any size, whose names and data sets are in `B2KIT_HDF5_REMOTE`: `FILE::NAME` between commas.
#[test]
#[ignore = "counts requests for the files that B2KIT_HDF5_REMOTE names"]
fn requests_for_given_files() {
    let names = std::env::var_os("B2KIT_HDF5_REMOTE").expect("B2KIT_HDF5_REMOTE names no files");
    for name in names.to_str().unwrap().split(',') {
        let (path, data) = name.split_once("::").unwrap();
        let start = Instant::now();
        let file = Disk.open(path.as_ref(), Links::Follow).unwrap();
        let (_, requests, bytes) = one_item(file, data, None);
        println!("{name}: {requests} requests, {bytes} bytes, {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
}

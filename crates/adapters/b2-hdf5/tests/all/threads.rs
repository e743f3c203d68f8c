//! Boxes that several threads read.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use b2_core::{Control, Limits};
use b2_frame::ReadAt;
use b2_hdf5::{Codec, DataSet, File, Writer};
use b2_testkit::Rng;
use b2nd::{ArrayBuilder, NdArray, Selection};
use bytes::Bytes;

/// Returns an HDF5 file with an array.
fn stored(array: &NdArray, codec: Codec) -> Bytes {
    let mut writer = Writer::new(io::Cursor::new(Vec::new()), "memory").unwrap();
    writer.array("data", array, codec).unwrap();
    writer.finish().unwrap().0.into_inner().into()
}

fn open(file: Arc<dyn ReadAt>) -> DataSet {
    File::from_reader(file, "memory", &Limits::default()).unwrap().data_set("data").unwrap()
}

fn array(shape: [u64; 3], chunks: [u32; 3]) -> NdArray {
    let items: Vec<u32> = (0..shape.iter().product::<u64>()).map(|n| n as u32 ^ (n as u32 >> 9)).collect();
    let builder = ArrayBuilder::new::<u32>(shape).chunks(chunks);
    NdArray::from_bytes(builder.to_bytes(&items).unwrap()).unwrap()
}

#[test]
fn boxes_are_the_same_with_any_number_of_threads() {
    let mut rng = Rng::new(7);
    let shape = [9, 240, 300];
    for chunks in [[9, 40, 50], [3, 240, 30], [9, 240, 1], [2, 7, 300]] {
        let array = array(shape, chunks);
        for codec in [Codec::Blosc2, Codec::Gzip(1), Codec::None] {
            let data = open(Arc::new(stored(&array, codec)));
            for _ in 0..2 {
                // Long boxes, so that there is work for several threads.
                let start = shape.map(|length| rng.below(length as usize / 10 + 1) as u64);
                let lengths: Vec<u64> = shape.iter().zip(start).map(|(length, at)| length - at).collect();
                let ranges =
                    start.iter().map(|&at| Selection::Range { start: Some(at as i64), stop: None, step: 1 });
                let expected = array.slice(ranges.collect::<Vec<_>>()).unwrap().read_bytes().unwrap();
                for threads in 1..4 {
                    let mut found = vec![0xAA; expected.len()];
                    data.read_box_with(&Control::new().threads(threads), &start, &lengths, &mut found)
                        .unwrap();
                    assert!(found == expected, "{chunks:?} {codec:?} {start:?} {threads}");
                }
            }
        }
    }
}

/// A file in which a chunk is read only while another thread reads one, too.
struct Meeting {
    file: Bytes,
    /// How many threads are reading chunks, and whether there ever were two.
    reading: Mutex<(usize, bool)>,
    changed: Condvar,
}

/// Much longer than a thread needs to start.
const START_TIMEOUT: Duration = Duration::from_secs(100);

impl ReadAt for Meeting {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&self.file)
    }
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        // Metadata is read in pages of 4 KiB.
        if buf.len() > 4096 {
            let mut reading = self.reading.lock().unwrap();
            reading.0 += 1;
            reading.1 |= reading.0 > 1;
            self.changed.notify_all();
            let (mut reading, _) =
                self.changed.wait_timeout_while(reading, START_TIMEOUT, |reading| !reading.1).unwrap();
            reading.0 -= 1;
            if !reading.1 {
                return Err(io::Error::other("no other thread reads a chunk"));
            }
        }
        ReadAt::read_exact_at(&self.file, offset, buf)
    }
}

#[test]
fn chunks_in_one_row_are_read_by_several_threads() {
    let array = array([8, 400, 400], [8, 100, 200]);
    let expected = array.all().read_bytes().unwrap();
    for codec in [Codec::Blosc2, Codec::Gzip(1), Codec::None] {
        let file =
            Meeting { file: stored(&array, codec), reading: Mutex::default(), changed: Condvar::new() };
        let data = open(Arc::new(file));
        let mut found = vec![0xAA; expected.len()];
        data.read_box_with(&Control::new().threads(2), &[0; 3], &[8, 400, 400], &mut found).unwrap();
        assert!(found == expected, "{codec:?}");
    }
}

//! Arrays whose chunks take the shape of blocks to decode are saved as others are.

use std::fs;
use std::ops::Range;
use std::path::Path;

use b2_chunk::{Compression, FilterId, FilterSlot};
use b2_frame::{Condition, FrameWriter, ReadOptions, SalvageReport, SuperChunk};
use b2nd::{ArrayBuilder, Dtype, NdArray, salvage};

/// Where the metalayers and the index are.
struct ScatterPlan {
    metalayers: Range<usize>,
    index: Range<usize>,
}

fn write(path: &Path, checksums: bool) -> (Vec<u8>, ScatterPlan) {
    let raw: Vec<u8> = (0..40 * 30u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
    let filters = [FilterSlot::new(FilterId::NDCELL, 4), FilterSlot::SHUFFLE];
    let builder = ArrayBuilder::of_dtype([40, 30], Dtype::parse("<i4").unwrap())
        .chunks([20, 15])
        .blocks([10, 7])
        .compression(Compression::new().itemsize(4).filters(filters).build().unwrap());
    let options = FrameWriter::options().checksums(checksums);
    builder.write_options(options).write(path, &raw[..]).unwrap();
    let frame = SuperChunk::open(path).unwrap();
    let index = frame.layout().index.start as usize..frame.layout().index.end as usize;
    (raw, ScatterPlan { metalayers: 88..frame.layout().header.end as usize, index })
}

fn save(path: &Path) -> SalvageReport {
    let options = FrameWriter::options().overwrite(true);
    salvage(path, path.with_extension("out"), &ReadOptions::default(), &options).unwrap()
}

#[test]
fn the_shape_of_blocks_is_taken_from_the_metalayer() {
    for checksums in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b2nd");
        let (raw, places) = write(&path, checksums);
        let report = save(&path);
        assert_eq!((report.nlost, report.recovered, report.certain), (0, 4, true), "{report:?}");
        let saved = NdArray::open(path.with_extension("out")).unwrap();
        assert!(saved.all().read_bytes().unwrap() == raw);
        // Not every system replaces a file that is open.
        drop(saved);
        // Without index they are found by decoding.
        let mut bytes = fs::read(&path).unwrap();
        bytes[places.index].fill(0xA7);
        fs::write(&path, bytes).unwrap();
        let report = save(&path);
        assert_eq!((report.nlost, report.recovered), (0, 4), "{report:?}");
        let saved = NdArray::open(path.with_extension("out")).unwrap();
        assert!(saved.all().read_bytes().unwrap() == raw);
    }
}

/// Nothing can be decoded then, but checksums tell what is as it was written.
#[test]
fn where_the_shape_is_lost_checksums_do() {
    for (checksums, index_lost, recovered) in [(true, false, 4), (true, true, 4), (false, false, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b2nd");
        let (_, places) = write(&path, checksums);
        let stored = |path: &Path| {
            let frame = SuperChunk::open(path).unwrap();
            (0..4).map(|n| frame.chunk(n).read().unwrap().as_bytes().to_vec()).collect::<Vec<_>>()
        };
        let before = stored(&path);
        let mut bytes = fs::read(&path).unwrap();
        bytes[places.metalayers].fill(0xA7);
        if index_lost {
            bytes[places.index].fill(0xA7);
        }
        // The copy of the metalayers is not used, since the frame does not end with the file.
        bytes.push(0);
        fs::write(&path, &bytes).unwrap();
        let report = save(&path);
        assert_eq!(report.metalayers, Condition::Lost);
        assert_eq!((report.recovered, report.verified), (recovered, recovered), "{report:?}");
        assert_eq!(stored(&path.with_extension("out")) == before, recovered == 4);
        // What a checksum contradicts is not saved.
        if checksums {
            let at = bytes.windows(before[2].len()).position(|window| window == before[2]).unwrap();
            bytes[at + before[2].len() - 3] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(save(&path).recovered, 3);
        }
    }
}

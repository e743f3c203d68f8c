//! Checksums help salvage: they show which data is intact and where it belongs, whatever else is destroyed.

use std::fs;
use std::ops::Range;
use std::path::Path;

use b2_chunk::{Chunk, Compression, SpecialKind};
use b2_frame::{
    Condition, Durability, FrameEditor, FrameParams, FrameWriter, ReadOptions, SalvageReport, Storage,
    SuperChunk, salvage,
};

use crate::common::stride;

const CHUNK: usize = 4000;
const NCHUNKS: usize = 120;

/// Returns the uncompressed bytes of chunk `nchunk` in state `state` of the frame. Every tenth chunk is not stored.
fn part(nchunk: usize, state: u32) -> Vec<u8> {
    if nchunk % 10 == 4 {
        return vec![0; CHUNK];
    }
    let item = |i: u32| (i.wrapping_mul(2_654_435_761) ^ (nchunk as u32 * 7919) ^ state << 20).to_le_bytes();
    (0..CHUNK as u32 / 4).flat_map(item).collect()
}

fn fast() -> ReadOptions {
    ReadOptions::default()
}

/// Writes a frame, some of whose chunks were replaced. They are stored uncompressed, so that damaged ones decode.
fn write(path: &Path, storage: Storage, specials: bool) -> Vec<Vec<u8>> {
    let cparams = Compression::new().itemsize(4).level(0).build().unwrap();
    let params = FrameParams::from_cparams(&cparams).chunksize(CHUNK).metalayer("m", b"\x01");
    let options = FrameWriter::options().durability(Durability::None);
    let mut editor = FrameEditor::create(path, params, &options.storage(storage)).unwrap();
    let chunk = |plain: &[u8]| Chunk::compress_bytes(plain, &cparams).unwrap();
    let mut plain = Vec::new();
    for nchunk in 0..NCHUNKS {
        let state = u32::from(nchunk % 7 == 3);
        let wanted = match part(nchunk, 0) {
            zeros if zeros[0] == 0 && zeros[4] == 0 && specials => {
                let zeros = Chunk::special(SpecialKind::Zeros, &[], CHUNK, 4, 0).unwrap();
                editor.append(zeros).unwrap();
                vec![0; CHUNK]
            }
            _ => {
                let there =
                    if nchunk % 10 == 4 { part(nchunk + 1000 - nchunk % 10, 0) } else { part(nchunk, 0) };
                editor.append(chunk(&there)).unwrap();
                if state == 0 { there } else { part(nchunk + 1000 - nchunk % 10, 1) }
            }
        };
        plain.push(wanted);
    }
    editor.commit().unwrap();
    for (nchunk, wanted) in plain.iter().enumerate() {
        if nchunk % 7 == 3 && wanted.iter().any(|byte| *byte != 0) {
            editor.update(nchunk, chunk(wanted)).unwrap();
        }
    }
    editor.vlmeta().set("v", b"\xa5hello").unwrap();
    editor.commit().unwrap();
    plain
}

fn rescue(input: &Path, options: &ReadOptions) -> (SalvageReport, Vec<u8>) {
    let output = input.with_extension("out");
    let write = FrameWriter::options().overwrite(true).durability(Durability::None);
    let report = salvage(input, &output, options, &write).unwrap();
    let frame = SuperChunk::open(&output).unwrap();
    let plain = frame.read_bytes(0..frame.nbytes()).unwrap();
    (report, plain)
}

/// Returns the position of each stored chunk in its file.
fn places(frame: &SuperChunk) -> Vec<Option<Range<u64>>> {
    let start = frame.layout().data.start;
    let place = |info: b2_frame::ChunkInfo| info.offset().map(|at| start + at..start + at + info.cbytes);
    frame.chunk_infos().map(|info| place(info.unwrap())).collect()
}

/// Returns how many undamaged chunks are not where they should be.
fn missed(plain: &[u8], wanted: &[Vec<u8>], hit: impl Fn(usize) -> bool) -> usize {
    let there = |nchunk: usize| plain.get(nchunk * CHUNK..(nchunk + 1) * CHUNK);
    (0..wanted.len()).filter(|n| !hit(*n) && there(*n) != Some(&wanted[*n])).count()
}

#[test]
fn damage_that_decodes_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    let wanted = write(&path, Storage::Contiguous, true);
    let places = places(&SuperChunk::open(&path).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    for nchunk in [5, 77] {
        let place = places[nchunk].clone().unwrap();
        bytes[place.end as usize - 100] ^= 4;
    }
    fs::write(&path, &bytes).unwrap();
    let (report, plain) = rescue(&path, &fast());
    assert_eq!((report.nlost, report.recovered, report.certain), (2, NCHUNKS - 2, true));
    assert_eq!(report.verified, NCHUNKS - 2 - 12);
    let lost: Vec<_> = report.lost.iter().map(|lost| lost.nchunks.clone()).collect();
    assert_eq!(lost, [5..6, 77..78]);
    assert_eq!(report.lost[0].why, "its bytes do not fit the checksum");
    assert_eq!(missed(&plain, &wanted, |n| [5, 77].contains(&n)), 0);
    assert!(plain[5 * CHUNK..6 * CHUNK].iter().all(|byte| *byte == 0));
    // Without checksums, everything that decodes is returned.
    let (report, plain) = rescue(&path, &fast().checksums(false));
    assert_eq!((report.nlost, report.verified), (0, 0));
    assert_eq!(missed(&plain, &wanted, |n| [5, 77].contains(&n)), 0);
    assert!(plain[5 * CHUNK..6 * CHUNK].iter().any(|byte| *byte != 0));
}

/// Damage that hits the checksums, too, may decode. The report says for how many chunks that cannot be ruled out.
#[test]
fn chunks_without_their_checksums_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let path = dir.path().join(format!("{storage:?}"));
        write(&path, storage, true);
        let index = if storage == Storage::Sparse { path.join("chunks.b2frame") } else { path.clone() };
        assert_eq!(rescue(&path, &fast()).0.uncompared, 0);
        // The page, then the block that lists it.
        let layout = SuperChunk::open(&path).unwrap().layout().clone();
        for at in [layout.index.end, layout.trailer.start - 20] {
            let mut bytes = fs::read(&index).unwrap();
            bytes[at as usize] ^= 1;
            fs::write(&index, &bytes).unwrap();
            let report = rescue(&path, &fast()).0;
            assert_eq!((report.nlost, report.recovered), (0, NCHUNKS), "{report:?}");
            assert_eq!((report.verified, report.uncompared), (0, NCHUNKS - 12), "{report:?}");
            assert_eq!(rescue(&path, &fast().checksums(false)).0.uncompared, 0);
        }
    }
}

/// A header that is well-formed but differs from the one that was written: its checksum locates a single wrong byte.
/// For more bytes, the report only states that something is wrong.
#[test]
fn a_changed_header_is_put_right_or_told() {
    let dir = tempfile::tempdir().unwrap();
    for storage in [Storage::Contiguous, Storage::Sparse] {
        let path = dir.path().join(format!("{storage:?}"));
        let wanted = write(&path, storage, true).concat();
        let index = if storage == Storage::Sparse { path.join("chunks.b2frame") } else { path.clone() };
        let good = fs::read(&index).unwrap();
        let first = SuperChunk::open(&path).unwrap();
        // Change the codec level, the filters, the uncompressed size.
        for at in [27, 71, 37] {
            for change in [1, 0x14] {
                let mut bad = good.clone();
                bad[at] ^= change;
                fs::write(&index, &bad).unwrap();
                let (report, plain) = rescue(&path, &fast());
                assert!(plain == wanted && report.certain, "{storage:?} {at}");
                assert_eq!((report.header, report.metalayers), (Condition::Restored, Condition::Restored));
                // Without the copy, which is only used if the frame ends with the file.
                bad.push(0);
                fs::write(&index, &bad).unwrap();
                let (report, plain) = rescue(&path, &fast());
                assert!(plain == wanted, "{storage:?} {at}");
                assert_eq!(
                    (report.header, report.metalayers),
                    (Condition::Damaged, Condition::Intact),
                    "{at}"
                );
                assert!(report.certain && report.nlost == 0);
                let saved = SuperChunk::open(path.with_extension("out")).unwrap();
                assert_eq!(saved.header().level(), first.header().level());
                assert_eq!(saved.header().filters(), first.header().filters());
                assert_eq!(saved.metalayers().get("m"), Some(&b"\x01"[..]));
                fs::remove_dir_all(path.with_extension("out"))
                    .or_else(|_| fs::remove_file(path.with_extension("out")))
                    .unwrap();
            }
        }
        let mut bad = good.clone();
        bad[27] ^= 1;
        bad[71] ^= 1;
        bad.push(0);
        fs::write(&index, &bad).unwrap();
        let (report, _) = rescue(&path, &fast());
        assert_eq!((report.header, report.metalayers), (Condition::Damaged, Condition::Damaged));
        assert!(!report.certain);
    }
}

/// Parts of the frame, and arbitrary sectors, are destroyed.
#[test]
fn all_intact_chunks_come_back_to_their_places() {
    let (mut intact, mut wrong) = (0, 0);
    let random = (60 / stride()).max(4);
    for (storage, specials) in [
        (Storage::Contiguous, false),
        (Storage::Contiguous, true),
        (Storage::Sparse, false),
        (Storage::Sparse, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        let wanted = write(&path, storage, specials);
        let frame = SuperChunk::open(&path).unwrap();
        let (places, layout) = (places(&frame), frame.layout().clone());
        let sparse = storage == Storage::Sparse;
        let main = if sparse { path.join("chunks.b2frame") } else { path.clone() };
        let good = fs::read(&main).unwrap();
        let sums = layout.index.end..layout.trailer.start;
        let (header, index, trailer) = (layout.header.clone(), layout.index.clone(), layout.trailer.clone());
        let mut cases: Vec<Vec<Range<u64>>> = vec![
            vec![header.clone()],
            vec![index.clone()],
            vec![trailer.clone()],
            vec![sums.clone()],
            vec![header.clone(), trailer.clone()],
            vec![index.clone(), trailer.clone()],
        ];
        if !sparse {
            // In a sparse frame only the file numbers are left then.
            cases.push(vec![index.clone(), sums.clone(), trailer.clone()]);
        }
        if !specials {
            // Destroying the index loses the data stored only there.
            cases.push(vec![header.clone(), index.clone()]);
            cases.push(vec![header, index, trailer]);
        }
        let mut rng = b2_testkit::Rng::new(7);
        for _ in 0..random {
            let sector = |_| {
                let start = rng.below(good.len()) as u64 / 512 * 512;
                start..(start + 512).min(good.len() as u64)
            };
            cases.push((0..3).map(sector).collect());
        }
        for case in cases {
            let mut bytes = good.clone();
            for (n, range) in case.iter().enumerate() {
                for (i, byte) in bytes[range.start as usize..range.end as usize].iter_mut().enumerate() {
                    *byte = if n % 2 == 0 { (i * 37 + 11) as u8 } else { 0 };
                }
            }
            fs::write(&main, bytes).unwrap();
            let index_hit =
                case.iter().any(|range| range.start < layout.index.end && layout.index.start < range.end);
            let hit = |nchunk: usize| match &places[nchunk] {
                None => specials && index_hit,
                Some(_) if sparse => false,
                Some(place) => case.iter().any(|range| range.start < place.end && place.start < range.end),
            };
            let (report, plain) = rescue(&path, &fast());
            let sums_hit = case.iter().any(|range| range.start < sums.end && sums.start < range.end);
            if sparse && index_hit && sums_hit {
                // Nothing is left that determines the order.
                assert!(report.nlost <= 12 && !report.certain, "{case:?} {report:?}");
                continue;
            }
            if specials && index_hit {
                // Others move up if nothing shows which ones were not stored.
                assert!(
                    report.index != Condition::Intact && !report.certain,
                    "{storage:?} {case:?} {layout:?} {report:?}"
                );
                assert!(report.verified >= NCHUNKS - 12 - 4 || report.verified == 0, "{case:?} {report:?}");
                continue;
            }
            intact += (0..NCHUNKS).filter(|nchunk| !hit(*nchunk)).count();
            let missed = missed(&plain, &wanted, hit);
            assert!(missed * 4 <= NCHUNKS, "{storage:?} {case:?}: {missed} missed, {report:?}");
            wrong += missed;
        }
    }
    assert!(intact > 333 * random && wrong * 100 <= intact, "{wrong} of {intact}");
    println!("{} of {intact} intact chunks recovered", intact - wrong);
}

/// Without index and header, the checksums show which chunks belong to the last state, and their order.
#[test]
fn replaced_chunks_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in");
    let wanted = write(&path, Storage::Contiguous, false);
    let layout = SuperChunk::open(&path).unwrap().layout().clone();
    let mut bytes = fs::read(&path).unwrap();
    // The older index and checksums, which are dead, still exist, but must not be used.
    bytes[layout.index.start as usize..layout.index.end as usize].fill(0x5A);
    fs::write(&path, &bytes).unwrap();
    let (report, plain) = rescue(&path, &fast());
    assert_eq!((report.nlost, report.verified, report.certain), (0, NCHUNKS, true), "{report:?}");
    assert_eq!(plain, wanted.concat());
}

/// Bytes that look like many checksum blocks, each of which lists the whole file as its pages.
#[test]
fn what_looks_like_many_blocks_is_not_read_over_and_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    while bytes.len() < 200_000 {
        let npages = bytes.len() / 24;
        for _ in 0..2 {
            for number in [0u64, bytes.len() as u64 / 8, 0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.extend_from_slice(b"b2sums\0\x01\x01\0\0\0");
        bytes.extend_from_slice(&(npages as u32).to_le_bytes());
        bytes.resize(bytes.len() + 40, 0);
    }
    let path = folder.path().join("f");
    std::fs::write(&path, &bytes).unwrap();
    let write = FrameWriter::options().durability(Durability::None);
    assert!(salvage(&path, folder.path().join("g"), &fast(), &write).is_err());
}

/// The index file of a sparse frame claims a terabyte, as a sparse file.
#[test]
fn a_hole_for_an_index_is_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::create_dir(&path).unwrap();
    std::fs::File::create(path.join("chunks.b2frame")).unwrap().set_len(1 << 40).unwrap();
    let write = FrameWriter::options().durability(Durability::None);
    assert!(salvage(&path, folder.path().join("g"), &fast(), &write).is_err());
}

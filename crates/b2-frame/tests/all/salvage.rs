//! Intact data is recovered, wherever the frame is damaged, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use b2_chunk::{Chunk, Compression, SpecialKind};
use b2_frame::{
    Condition, Durability, FrameError, FrameParams, FrameWriter, SalvageReport, Storage, SuperChunk, salvage,
};

const CHUNK: usize = 4000;

fn part(nchunk: usize) -> Vec<u8> {
    (0..CHUNK as u32 / 4).flat_map(|i| (i.wrapping_mul(2654435761) ^ nchunk as u32).to_le_bytes()).collect()
}

/// Writes six chunks, the last one short, the third one special, a metalayer and a vlmetalayer.
fn write(path: &Path, sparse: bool) -> Vec<u8> {
    let cparams = Compression::new().itemsize(4).build().unwrap();
    let params = FrameParams::from_cparams(&cparams).chunksize(CHUNK).metalayer("m", b"\x01");
    let mut writer = if sparse {
        FrameWriter::options().storage(Storage::Sparse).create(path, params).unwrap()
    } else {
        FrameWriter::create(path, params).unwrap()
    };
    let mut plain = Vec::new();
    for nchunk in 0..6 {
        let mut data = if nchunk == 2 { vec![0; CHUNK] } else { part(nchunk) };
        data.truncate(if nchunk == 5 { 1200 } else { CHUNK });
        if nchunk == 2 {
            writer.append_special(SpecialKind::Zeros, CHUNK).unwrap();
        } else {
            writer.append(Chunk::compress_bytes(&data, &cparams).unwrap()).unwrap();
        }
        plain.extend(data);
    }
    writer.set_vlmetalayer("v", b"\xa5hello").unwrap();
    writer.finish().unwrap();
    plain
}

struct Case {
    dir: tempfile::TempDir,
    plain: Vec<u8>,
}

impl Case {
    fn new(sparse: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plain = write(&dir.path().join("in"), sparse);
        Self { dir, plain }
    }

    fn input(&self) -> PathBuf {
        self.dir.path().join("in")
    }

    /// Returns the result and what is read from it.
    fn salvage(&self) -> (SalvageReport, SuperChunk, Vec<u8>) {
        let output = self.dir.path().join("out");
        let write = FrameWriter::options().overwrite(true).durability(Durability::None);
        let report = salvage(self.input(), &output, &SuperChunk::options(), &write).unwrap();
        let frame = SuperChunk::open(&output).unwrap();
        let plain = frame.read_bytes(0..frame.nbytes()).unwrap();
        assert_eq!((frame.nchunks(), frame.nbytes()), (report.nchunks, report.nbytes));
        (report, frame, plain)
    }

    fn damage(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = if file.is_empty() { self.input() } else { self.input().join(file) };
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }

    /// Returns the data with zeros in place of some chunks.
    fn without(&self, lost: &[usize]) -> Vec<u8> {
        let mut plain = self.plain.clone();
        for nchunk in lost {
            let end = ((nchunk + 1) * CHUNK).min(plain.len());
            plain[nchunk * CHUNK..end].fill(0);
        }
        plain
    }
}

fn layers(frame: &SuperChunk) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (frame.metalayers().get("m").map(<[u8]>::to_vec), frame.vlmetalayers().get("v").unwrap())
}

const LAYERS: (Option<&[u8]>, Option<&[u8]>) = (Some(b"\x01"), Some(b"\xa5hello"));

fn has_layers(frame: &SuperChunk) {
    let (m, v) = layers(frame);
    assert_eq!((m.as_deref(), v.as_deref()), LAYERS);
}

#[test]
fn a_sound_frame_comes_back_whole() {
    for sparse in [false, true] {
        let case = Case::new(sparse);
        let (report, frame, plain) = case.salvage();
        assert_eq!((report.nlost, report.recovered, report.certain), (0, 6, true));
        assert_eq!(report.index, Condition::Intact);
        assert!(plain == case.plain);
        has_layers(&frame);
    }
}

#[test]
fn a_damaged_chunk_alone_is_lost() {
    let case = Case::new(false);
    let at = SuperChunk::open(case.input()).unwrap();
    let offset = at.layout().data.start as usize;
    // The header of the first chunk.
    case.damage("", |bytes| bytes[offset + 4..offset + 12].fill(0xEE));
    let (report, frame, plain) = case.salvage();
    assert_eq!((report.nlost, report.recovered, report.certain), (0, 6, true));
    assert!(plain == case.plain);
    has_layers(&frame);
    // Its copy is not used if the frame does not end with the file.
    case.damage("", |bytes| bytes.push(0));
    fs::remove_file(case.dir.path().join("out")).unwrap();
    let (report, frame, plain) = case.salvage();
    assert_eq!((report.nlost, report.recovered, report.certain), (1, 5, true));
    assert_eq!((report.lost[0].nchunks.clone(), report.lost[0].filled), (0..1, true));
    assert!(plain == case.without(&[0]));
    has_layers(&frame);

    let case = Case::new(true);
    fs::remove_file(case.input().join("00000003.chunk")).unwrap();
    let (report, frame, plain) = case.salvage();
    assert_eq!((report.nlost, report.recovered), (1, 5), "{report:?}");
    // The special chunk has no file, so file 3 holds chunk 4.
    let lost = report.lost[0].nchunks.start;
    assert!(plain == case.without(&[lost]));
    has_layers(&frame);
}

#[test]
fn any_part_of_the_header_may_be_damaged() {
    let len = {
        let case = Case::new(false);
        SuperChunk::open(case.input()).unwrap().layout().header.end as usize
    };
    for sparse in [false, true] {
        let file = if sparse { "chunks.b2frame" } else { "" };
        for (start, end) in [(0, 10), (0, 20), (10, 24), (24, 48), (30, 65), (0, 87), (87, len), (0, len)] {
            let case = Case::new(sparse);
            case.damage(file, |bytes| bytes[start..end].fill(0xA7));
            let (report, frame, plain) = case.salvage();
            // The index gives the position of each chunk; the size of the last one follows from the chunk.
            assert_eq!(report.nlost, 0, "{start}..{end} {sparse} {report:?}");
            assert!(plain == case.plain, "{start}..{end} {sparse} {report:?}");
            assert_eq!(layers(&frame).1.as_deref(), LAYERS.1, "{start}..{end} {sparse}");
            if end < 87 {
                has_layers(&frame);
            }
        }
    }
}

#[test]
fn any_byte_of_the_header_may_be_wrong() {
    for sparse in [false, true] {
        let case = Case::new(sparse);
        let file = if sparse { "chunks.b2frame" } else { "" };
        for at in 0..87 {
            for flip in [0x01, 0x40, 0xFF] {
                case.damage(file, |bytes| bytes[at] ^= flip);
                let (report, frame, plain) = case.salvage();
                assert_eq!(report.nlost, 0, "{at} {flip} {sparse} {report:?}");
                assert!(plain == case.plain, "{at} {flip} {sparse} {report:?}");
                assert_eq!(frame.itemsize(), 4, "{at} {flip} {sparse}");
                has_layers(&frame);
                case.damage(file, |bytes| bytes[at] ^= flip);
            }
        }
    }
}

#[test]
fn without_index_the_order_of_the_file_counts() {
    for sparse in [false, true] {
        let case = Case::new(sparse);
        let layout = SuperChunk::open(case.input()).unwrap().layout().clone();
        let index = layout.index.start as usize..layout.index.end as usize;
        case.damage(if sparse { "chunks.b2frame" } else { "" }, |bytes| {
            let stored = bytes[index].to_vec();
            // In a small frame, the copy of the start has the index, too.
            while let Some(at) = bytes.windows(stored.len()).position(|window| window == stored) {
                bytes[at..at + stored.len()].fill(0xA7);
            }
        });
        let (report, frame, plain) = case.salvage();
        assert_eq!((report.index, report.certain), (Condition::Lost, false));
        // The zeros were only in the index: they are missing, and their position is a guess.
        assert_eq!((report.nlost, report.recovered), (1, 5), "{report:?}");
        assert_eq!(plain.len(), case.plain.len());
        assert!(plain[..2 * CHUNK] == case.plain[..2 * CHUNK]);
        assert!(plain[5 * CHUNK..] == case.plain[5 * CHUNK..]);
        has_layers(&frame);
    }
}

/// Only the header says that there were so many chunks: no entries are made up for them.
#[test]
fn far_too_many_lost_chunks_are_not_replaced() {
    for (nchunks, filled) in [(1_000_000u64, true), (10_000_000, false)] {
        let case = Case::new(false);
        let layout = SuperChunk::open(case.input()).unwrap().layout().clone();
        case.damage("", |bytes| {
            bytes[layout.index.start as usize..layout.index.end as usize].fill(0xA7);
            bytes[0x1E..0x26].copy_from_slice(&(nchunks * CHUNK as u64).to_be_bytes());
            // The copy of the header is not used, since the frame does not end with the file.
            bytes.push(0);
        });
        let output = case.dir.path().join("out");
        let report = salvage(case.input(), &output, &SuperChunk::options(), &FrameWriter::options()).unwrap();
        assert_eq!((report.recovered, report.certain), (5, false));
        assert_eq!(report.nchunks as u64, if filled { nchunks } else { 5 });
    }
}

#[test]
fn the_end_may_be_missing() {
    let case = Case::new(false);
    let whole = fs::read(case.input()).unwrap();
    let sound = SuperChunk::open(case.input()).unwrap();
    let start = sound.layout().data.start;
    let mut infos: Vec<(u64, usize)> = sound
        .chunk_infos()
        .map(Result::unwrap)
        .filter_map(|info| info.offset().map(|offset| (start + offset + info.cbytes, info.nchunk)))
        .collect();
    infos.sort_unstable();
    for len in (0..whole.len()).step_by(97) {
        fs::write(case.input(), &whole[..len]).unwrap();
        let there = infos.iter().filter(|(end, _)| *end <= len as u64).count();
        let output = case.dir.path().join("out");
        let write = FrameWriter::options().overwrite(true).durability(Durability::None);
        match salvage(case.input(), &output, &SuperChunk::options(), &write) {
            Ok(report) => {
                let recovered = if report.index == Condition::Lost { there } else { 6 };
                assert_eq!(report.recovered, recovered, "{len} bytes: {report:?}");
                assert_eq!(SuperChunk::open(&output).unwrap().nchunks(), report.nchunks);
            }
            Err(FrameError::NotAFrame) => assert!(len < 88, "{len}"),
            Err(error) => panic!("{len} bytes: {error}"),
        }
    }
}

/// Whatever is overwritten: nothing panics, and no undamaged chunk is lost if the index is intact.
#[test]
fn damage_anywhere() {
    let case = Case::new(false);
    let whole = fs::read(case.input()).unwrap();
    let output = case.dir.path().join("out");
    let write = FrameWriter::options().overwrite(true).durability(Durability::None);
    for at in (0..whole.len()).step_by(41) {
        for fill in [0x00, 0xFF, 0x94] {
            let mut bytes = whole.clone();
            let end = (at + 13).min(whole.len());
            bytes[at..end].fill(fill);
            fs::write(case.input(), &bytes).unwrap();
            let report = salvage(case.input(), &output, &SuperChunk::options(), &write).unwrap();
            assert!(report.recovered >= 4, "{at} {fill} {report:?}");
            let frame = SuperChunk::open(&output).unwrap();
            frame.read_bytes(0..frame.nbytes()).unwrap();
        }
    }
}

/// Most negative numbers are valid special values, so an index of noise could represent a frame of zeros.
#[test]
fn noise_is_no_index() {
    let case = Case::new(false);
    let mut bytes = fs::read(case.input()).unwrap();
    let at = SuperChunk::open(case.input()).unwrap().layout().index.start as usize;
    let entries: Vec<u8> =
        (0..6).flat_map(|n| (u64::MAX / 7 * 6 + n * 12_345_678_901).to_le_bytes()).collect();
    let stored = Compression::new().itemsize(8).level(0).build().unwrap();
    bytes.truncate(at);
    bytes.extend_from_slice(Chunk::compress_bytes(&entries, &stored).unwrap().as_bytes());
    fs::write(case.input(), &bytes).unwrap();
    let output = case.dir.path().join("out");
    let report = salvage(case.input(), &output, &SuperChunk::options(), &FrameWriter::options()).unwrap();
    // The zeros that were only in the index are lost with it.
    assert_eq!((report.index, report.recovered, report.nlost), (Condition::Lost, 5, 1), "{report:?}");
}

#[test]
fn noise_is_no_frame() {
    let case = Case::new(false);
    for bytes in [vec![], vec![0; 5000], part(1), b"\x05\x01\x05\x04".repeat(500)] {
        fs::write(case.input(), bytes).unwrap();
        let output = case.dir.path().join("out");
        let result = salvage(case.input(), &output, &SuperChunk::options(), &FrameWriter::options());
        assert!(matches!(result, Err(FrameError::NotAFrame)), "{result:?}");
        assert!(!output.exists());
    }
}

//! Writes small initial inputs with this library, with parameters of all kinds.

use std::path::Path;
use std::{fs, io};

use b2_chunk::{CParams, Chunk, CodecId, Compression};
use b2_codecs::{CodecContext, Encoded};
use b2_frame::{Checksums, FrameParams, FrameWriter, Storage, SuperChunk};
use b2_testkit::hostile::{FrameLayout, Seal};
use b2nd::{ArrayBuilder, Dtype};

use crate::dice::Dice;
use crate::mutate::{made, parameters};
use crate::sparse::pack;

/// The targets whose inputs are frames.
const FRAMES: [&str; 5] = ["frame", "frame_disk", "split_reads", "store", "versus_c"];
/// Number of inputs of each kind.
const SEEDS: u64 = 40;
/// Maximum size of a fixture to copy, in bytes.
const MAX_FIXTURE: u64 = 8 << 10;

/// Files of HDF5 and NetCDF, of both generations.
const HDF5: [(&str, &[u8]); 3] = [
    ("tiny.h5", include_bytes!("../../crates/adapters/b2-hdf5/tests/data/tiny.h5")),
    ("tiny_latest.h5", include_bytes!("../../crates/adapters/b2-hdf5/tests/data/tiny_latest.h5")),
    ("three.nc", include_bytes!("../../crates/adapters/b2-hdf5/tests/data/three.nc")),
];

/// Writes the seeds of each target into a directory of its name.
///
/// # Errors
/// When a file cannot be written.
pub fn write(corpus: &Path, fixtures: &Path) -> io::Result<()> {
    check_seal();
    let mut dice = Dice::new(1);
    let put = |target: &str, name: &str, bytes: &[u8]| -> io::Result<()> {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    for n in 0..SEEDS {
        let name = format!("seed-{n:02}");
        let plain: Vec<u8> = (0..20 + dice.below(300)).map(|i| (i / 7) as u8 ^ dice.below(4) as u8).collect();
        if let Some(chunk) = made(&plain, &mut dice) {
            put("chunk", &name, &chunk)?;
            put("store", &format!("chunk-{n:02}"), &chunk)?;
        }
        for (target, id) in [
            ("blosclz", CodecId::BLOSCLZ),
            ("lz4", if n % 2 == 0 { CodecId::LZ4 } else { CodecId::LZ4HC }),
            ("zlib", CodecId::ZLIB),
            ("zstd", CodecId::ZSTD),
            ("pco", CodecId::PCO),
        ] {
            let itemsize = if id == CodecId::PCO { *dice.pick(&[2, 4, 8]) } else { 1 };
            let mut plain = plain.repeat(1 + n as usize % 9);
            plain.truncate(plain.len() / itemsize * itemsize);
            put(target, &name, &stream(id, &plain, itemsize))?;
        }
        let array = array(&mut dice);
        for target in FRAMES {
            put(target, &format!("array-{n:02}"), &array)?;
            put(target, &format!("frame-{n:02}"), &frame(&plain, &mut dice))?;
        }
        let files = sparse(&plain, &mut dice)?;
        put("sparse", &name, &pack(&files))?;
        put(
            "store_dir",
            &name,
            &pack(&[(1, array.clone()), (2, array.clone()), (0, frame(&plain, &mut dice))]),
        )?;
        let noise: Vec<u8> = (0..200).map(|_| dice.next() as u8).collect();
        for target in ["slices", "edit", "cli", "roundtrip", "encoders", "filters", "zfp", "ndlz", "msgpack"]
        {
            put(target, &name, &noise)?;
        }
        // Mostly valid responses, one or two of another kind, and one that is sent verbatim.
        let mut manners = vec![n as u8; 17];
        manners[1..].iter_mut().for_each(|manner| *manner = dice.below(100) as u8);
        for _ in 0..n % 3 {
            let at = 1 + dice.below(16);
            manners[at] = 100 + dice.below(100) as u8;
        }
        manners.extend_from_slice(
            b"HTTP/1.1 206 X\r\nContent-Range: bytes 0-9/400\r\nETag: \"one\"\r\n\r\n0123456789",
        );
        put("server", &name, &manners)?;
        if let Some(meta) = metalayer(&array) {
            put("b2nd_meta", &name, &meta)?;
        }
        // A list with a number, a set, a tuple, a complex number and an array.
        let mut value = b"\x95\xCB\x3F\xF8\0\0\0\0\0\0\xD5\x2D\x91\x01\x92\xA9__tuple__\xC0".to_vec();
        value.extend(b"\xD8\x2C\x3F\xF0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0");
        value.extend(
            b"\xC7\x23\x2E\x83\xA5dtype\x81\xA3str\xA3<i2\xA5shape\x91\x02\xA4data\xC4\x04\x01\0\x02\0",
        );
        put("attributes", &name, &value)?;
        let trailer = frame_with_values(&plain, &mut dice);
        put("vlmetalayers", &name, &trailer)?;
    }
    for (name, bytes) in HDF5 {
        put("hdf5", name, bytes)?;
    }
    copy_fixtures(fixtures, corpus)
}

/// Copies the fixtures that are small enough, sorted by kind.
fn copy_fixtures(folder: &Path, corpus: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            copy_fixtures(&path, corpus)?;
            continue;
        }
        if entry.metadata()?.len() > MAX_FIXTURE {
            continue;
        }
        let bytes = fs::read(&path)?;
        let targets: &[&str] = match bytes.get(..10) {
            Some(start) if *start == b2_frame::MAGIC => &FRAMES,
            _ if path.extension().is_some_and(|e| e == "chunk") => &["chunk", "store"],
            _ if path.extension().is_some_and(|e| e == "b2z") => &["store"],
            _ => &[],
        };
        let name: Vec<_> = path.components().rev().take(3).map(|c| c.as_os_str().to_string_lossy()).collect();
        for target in targets {
            fs::write(corpus.join(target).join(name.join("-")), &bytes)?;
        }
    }
    Ok(())
}

fn stream(id: CodecId, plain: &[u8], itemsize: usize) -> Vec<u8> {
    let codec = crate::codecs::codec(id);
    let mut room = vec![0; 2 * plain.len() + 100];
    let encoded = codec
        .encoder(&CodecContext::new(5).itemsize(itemsize))
        .and_then(|mut encoder| encoder.encode(plain, &mut room));
    let Ok(Encoded::Len(len)) = encoded else { return Vec::new() };
    let mut out = vec![0];
    out.extend((plain.len() as u16).to_le_bytes());
    out.extend([0, itemsize as u8]);
    out.extend(&room[..len]);
    out
}

fn array(dice: &mut Dice) -> Vec<u8> {
    let nd = dice.below(4);
    let shape: Vec<u64> = (0..nd).map(|_| dice.below(14) as u64).collect();
    let chunks: Vec<u32> = (0..nd).map(|_| 1 + dice.below(9) as u32).collect();
    let blocks: Vec<u32> = chunks.iter().map(|chunk| 1 + dice.below(*chunk as usize) as u32).collect();
    let (text, itemsize) =
        *dice.pick(&[("<f4", 4), ("|u1", 1), (">i8", 8), ("|S3", 3), ("[('a', '<u2'), ('b', '|u1')]", 3)]);
    let nitems: u64 = shape.iter().product();
    let items: Vec<u8> = (0..nitems as usize * itemsize).map(|i| (i / 5) as u8).collect();
    let mut builder = ArrayBuilder::of_dtype(shape, Dtype::parse(text).expect("a dtype"))
        .chunks(chunks)
        .blocks(blocks)
        .write_options(FrameWriter::options().checksums(dice.one_in(2)));
    if let Some(cparams) = parameters(itemsize, dice)
        && let Ok(cparams) = cparams.to_builder().blocksize(0).build()
    {
        builder = builder.compression(cparams);
    }
    if dice.one_in(3) {
        builder = builder.vlmetalayer("note", b"\xa5hello").metalayer("unit", b"\xa1K");
    }
    builder.to_bytes(&items[..]).map(|frame| frame.to_vec()).unwrap_or_default()
}

/// Returns parameters for items of 4 bytes.
fn some_parameters(dice: &mut Dice) -> CParams {
    let any = parameters(4, dice);
    any.unwrap_or_else(|| Compression::new().itemsize(4).build().expect("the defaults"))
}

fn frame(plain: &[u8], dice: &mut Dice) -> Vec<u8> {
    let cparams = some_parameters(dice);
    let options = FrameWriter::options().checksums(dice.one_in(2));
    let mut writer = options.memory(FrameParams::from_cparams(&cparams)).expect("a frame");
    let equal = dice.one_in(2);
    for k in 0..dice.below(6) {
        let part = if equal { plain } else { &plain[..plain.len() - k] };
        writer.append(Chunk::compress_bytes(part, &cparams).expect("a chunk")).expect("room");
    }
    if dice.one_in(2) {
        writer.set_vlmetalayer("value", plain).expect("any value");
    }
    writer.finish().expect("a frame").into_bytes().to_vec()
}

/// Checks that a damaged chunk is accepted after resealing. Mutators rely on that to get past the checksums.
fn check_seal() {
    let mut writer = FrameWriter::options().memory(FrameParams::new(4)).expect("a frame");
    let cparams = Compression::new().itemsize(4).level(0).build().expect("parameters");
    for part in [[1; 80], [2; 80], [3; 80]] {
        writer.append(Chunk::compress_bytes(&part, &cparams).expect("a chunk")).expect("room");
    }
    writer.set_vlmetalayer("value", &[0x2A]).expect("any value");
    let mut frame = writer.finish().expect("a frame").into_bytes().to_vec();
    let verdict = |frame: &[u8]| SuperChunk::from_bytes(frame.to_vec())?.verify_checksums();
    let at = frame.windows(80).position(|w| w == [2; 80]).expect("a stored chunk");
    frame[at] ^= 1;
    assert!(verdict(&frame).is_err(), "damage is seen");
    crate::mutate::seal(&mut frame, Seal::Sealed).expect("a frame with checksums");
    assert_eq!(verdict(&frame).expect("sums that fit"), Checksums::Ok);
}

fn sparse(plain: &[u8], dice: &mut Dice) -> io::Result<Vec<(u32, Vec<u8>)>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("sparse");
    let cparams = some_parameters(dice);
    let options = FrameWriter::options().checksums(dice.one_in(2)).durability(b2_frame::Durability::None);
    let mut writer =
        options.storage(Storage::Sparse).create(&path, FrameParams::from_cparams(&cparams)).expect("a frame");
    let n = dice.below(5) as u32;
    for _ in 0..n {
        writer.append(Chunk::compress_bytes(plain, &cparams).expect("a chunk")).expect("room");
    }
    writer.finish().expect("a frame");
    let mut files = vec![(0, fs::read(path.join("chunks.b2frame"))?)];
    for id in 0..n {
        if let Ok(bytes) = fs::read(path.join(format!("{id:08X}.chunk"))) {
            files.push((id + 1, bytes));
        }
    }
    Ok(files)
}

fn metalayer(frame: &[u8]) -> Option<Vec<u8>> {
    let schunk = SuperChunk::from_bytes(frame.to_vec()).ok()?;
    schunk.metalayers().get("b2nd").map(<[u8]>::to_vec)
}

/// Returns a trailer without its end.
fn frame_with_values(plain: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut writer = FrameWriter::options().checksums(false).memory(FrameParams::new(4)).expect("a frame");
    for k in 0..dice.below(5) {
        writer.set_vlmetalayer(format!("v{k}"), &plain[..plain.len() - k]).expect("any value");
    }
    let frame = writer.finish().expect("a frame").into_bytes();
    let trailer = FrameLayout::of(&frame).expect("a valid frame").trailer;
    frame[trailer.start..trailer.end - 23].to_vec()
}

//! Cases of arrays and frames in memory. Each runs once uncounted and checks its result, so that the buffers and tables
//! kept between calls exist when counting starts.

use std::hint::black_box;

use b2_benches::counter_i32;
use b2kit::chunk::{CParams, Compression, FilterSlot};
use b2kit::frame::FrameParams;
use b2kit::{ArrayBuilder, ArrayEditor, Chunk, CodecId, Dtype};
use b2kit::{FrameEditor, FrameWriter, NdArray, RegionSource, Selection, SuperChunk};
use bytes::Bytes;

use crate::case::{Case, Error, counted};

const ITEM_LEN: usize = 4;

type Shape = [usize; 3];

/// Neither a multiple of the chunk shape nor, in turn, that of the block shape, so that edges count too.
const SHAPE: Shape = [50, 100, 120];
const CHUNKS: [u32; 3] = [20, 48, 64];
const BLOCKS: [u32; 3] = [8, 16, 32];

/// Bytes of a row: all items at one index of the first axis.
const ROW_LEN: usize = SHAPE[1] * SHAPE[2] * ITEM_LEN;

/// Chunks in the frame of many small chunks.
const SMALL_CHUNKS: usize = 1000;
const SMALL_CHUNK: usize = 1024;

/// The part to read.
enum ReadPart {
    Axes(Vec<Selection>),
    /// The positions along each axis.
    Points([Vec<i64>; 3]),
}

/// A part, and the positions of its items in order.
struct Reading {
    part: ReadPart,
    positions: Vec<Shape>,
}

/// The selection along one axis, and its positions.
type AxisReading = (Selection, Vec<usize>);

type MakeReading = fn() -> Reading;

pub(crate) fn cases() -> Vec<(String, Case)> {
    let mut cases: Vec<(String, Case)> = Vec::new();
    let mut add = |name: String, case: Case| cases.push((name, case));
    let readings: [(_, MakeReading); 8] = [
        ("whole", || axes([whole(0), whole(1), whole(2)])),
        ("item", || axes([31, 57, 77].map(index))),
        ("plane-first", || axes([index(31), whole(1), whole(2)])),
        ("plane-last", || axes([whole(0), whole(1), index(77)])),
        // Crosses the corner of eight chunks.
        ("box", || axes([(18, 26), (44, 52), (60, 68)].map(|(from, to)| range(from, to)))),
        ("steps-back", || axes([backwards(0, 3), range(10, 90), backwards(2, 2)])),
        ("rows", || axes([list(&[47, 3, 3, 41, 22]), whole(1), whole(2)])),
        ("points", points),
    ];
    for (name, reading) in readings {
        // Only a few for zstd, since most of its instructions come from the C compiler.
        let zstd = ["whole", "item", "box"].contains(&name).then_some(CodecId::ZSTD);
        for codec in [CodecId::LZ4].into_iter().chain(zstd) {
            add(format!("array-{codec}-read-{name}"), Box::new(move || read_case(codec, &reading())));
        }
    }
    add("array-open".into(), Box::new(open_case));
    add("array-build".into(), Box::new(build_case));
    add("array-append".into(), Box::new(|| append_case(4, 5, false)));
    add("array-append-commit-each".into(), Box::new(|| append_case(5, 1, true)));
    add("array-set".into(), Box::new(set_case));
    add("frame-open".into(), Box::new(open_frame_case));
    add("frame-write".into(), Box::new(write_frame_case));
    add("frame-edit".into(), Box::new(|| edit_frame_case(SMALL_CHUNKS, SMALL_CHUNKS)));
    add("frame-edit-commit-each".into(), Box::new(|| edit_frame_case(50, 1)));
    cases
}

fn whole(axis: usize) -> AxisReading {
    (Selection::ALL, (0..SHAPE[axis]).collect())
}

fn index(at: usize) -> AxisReading {
    ((at as i64).into(), vec![at])
}

fn range(from: usize, to: usize) -> AxisReading {
    ((from as i64..to as i64).into(), (from..to).collect())
}

/// Walks down from the last position in steps of `by`.
fn backwards(axis: usize, by: usize) -> AxisReading {
    (Selection::ALL.step(-(by as i64)), (0..SHAPE[axis]).rev().step_by(by).collect())
}

fn list(at: &[usize]) -> AxisReading {
    (at.into(), at.to_vec())
}

fn axes(axes: [AxisReading; 3]) -> Reading {
    let [a, b, c] = axes;
    let mut positions = Vec::new();
    for &i in &a.1 {
        for &j in &b.1 {
            positions.extend(c.1.iter().map(|&k| [i, j, k]));
        }
    }
    Reading { part: ReadPart::Axes(vec![a.0, b.0, c.0]), positions }
}

/// Returns points in random order, all over the array.
fn points() -> Reading {
    let place = |n: usize| std::array::from_fn(|axis| n * [37, 61, 89][axis] % SHAPE[axis]);
    let positions: Vec<Shape> = (1..=300).map(place).collect();
    let along = |axis: usize| positions.iter().map(|at| at[axis] as i64).collect();
    Reading { part: ReadPart::Points([0, 1, 2].map(along)), positions }
}

fn items() -> Vec<u8> {
    counter_i32(SHAPE.iter().product())
}

fn place([i, j, k]: Shape) -> usize {
    ((i * SHAPE[1] + j) * SHAPE[2] + k) * ITEM_LEN
}

/// The compression in all cases: for the items of arrays, and for the chunks of frames.
fn cparams(codec: CodecId) -> Result<CParams, Error> {
    Ok(Compression::new().itemsize(ITEM_LEN).codec(codec).filters([FilterSlot::SHUFFLE]).build()?)
}

/// Returns the array in memory, compressed.
fn packed(plain: &[u8], codec: CodecId) -> Result<Bytes, Error> {
    let builder = ArrayBuilder::of_dtype(SHAPE.map(|n| n as u64), Dtype::parse("<i4")?)
        .chunks(CHUNKS)
        .blocks(BLOCKS)
        .compression(cparams(codec)?);
    Ok(builder.to_bytes(plain)?)
}

/// Selects a part and reads its bytes. Selecting is part of the counted work.
fn read(array: &NdArray, part: &ReadPart, dst: &mut [u8]) -> Result<(), Error> {
    match part {
        ReadPart::Axes(axes) => array.slice(axes)?.read_bytes_into(dst)?,
        ReadPart::Points(points) => array.points(points)?.read_bytes_into(dst)?,
    }
    Ok(())
}

/// Compares the items as last committed.
fn same_items(editor: &mut ArrayEditor, expected: &[u8]) -> Result<(), Error> {
    same(&editor.snapshot()?.all().read_bytes()?, expected)
}

fn same(got: &[u8], expected: &[u8]) -> Result<(), Error> {
    if got != expected { Err("other bytes than expected".into()) } else { Ok(()) }
}

fn read_case(codec: CodecId, reading: &Reading) -> Result<(), Error> {
    let plain = items();
    let array = NdArray::from_bytes(packed(&plain, codec)?)?;
    let expected: Vec<u8> =
        reading.positions.iter().flat_map(|&at| plain[place(at)..][..ITEM_LEN].to_vec()).collect();
    let mut dst = vec![0; expected.len()];
    read(&array, &reading.part, &mut dst)?;
    same(&dst, &expected)?;
    dst.fill(0);
    counted(|| read(black_box(&array), &reading.part, &mut dst))?;
    same(&dst, &expected)
}

fn open_case() -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let open = || NdArray::from_bytes(black_box(&frame).clone());
    let mut dst = vec![0; plain.len()];
    open()?.all().read_bytes_into(&mut dst)?;
    same(&dst, &plain)?;
    counted(open)?;
    Ok(())
}

fn build_case() -> Result<(), Error> {
    let plain = items();
    let build = || packed(black_box(&plain), CodecId::LZ4);
    same(&NdArray::from_bytes(build()?)?.all().read_bytes()?, &plain)?;
    counted(build).map(drop)
}

/// Appends some rows `times` times. The chunks at the end are filled up first.
fn append_case(times: usize, rows: usize, commit_each: bool) -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let more = &plain[7 * ROW_LEN..][..times * rows * ROW_LEN];
    let append = |editor: &mut ArrayEditor| -> Result<(), Error> {
        for part in more.chunks(rows * ROW_LEN) {
            editor.append(0, black_box(part).with_length(rows as u64))?;
            if commit_each {
                editor.commit()?;
            }
        }
        editor.commit()?;
        Ok(())
    };
    edit_case(&frame, append, &[&plain, more].concat())
}

/// Sets part of one chunk.
fn set_case() -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let reading = axes([range(2, 9), range(5, 30), range(7, 40)]);
    let ReadPart::Axes(part) = &reading.part else { return Err("no box".into()) };
    let new = counter_i32(reading.positions.len());
    let mut expected = plain;
    for (&at, item) in reading.positions.iter().zip(new.chunks(ITEM_LEN)) {
        expected[place(at)..][..ITEM_LEN].copy_from_slice(item);
    }
    let set = |editor: &mut ArrayEditor| -> Result<(), Error> {
        editor.set_bytes(&part[..], black_box(&new))?;
        editor.commit()?;
        Ok(())
    };
    edit_case(&frame, set, &expected)
}

/// Runs each time on an editor of its own.
fn edit_case(
    frame: &Bytes,
    edit: impl Fn(&mut ArrayEditor) -> Result<(), Error>,
    expected: &[u8],
) -> Result<(), Error> {
    let mut editor = NdArray::edit_bytes(frame.clone())?;
    edit(&mut editor)?;
    same_items(&mut editor, expected)?;
    let mut editor = NdArray::edit_bytes(frame.clone())?;
    counted(|| edit(&mut editor))?;
    same_items(&mut editor, expected)
}

fn small_chunks(plain: &[u8]) -> Result<Vec<Chunk>, Error> {
    let cparams = cparams(CodecId::LZ4)?;
    plain.chunks(SMALL_CHUNK).map(|part| Ok(Chunk::compress_bytes(part, &cparams)?)).collect()
}

fn write_frame(chunks: Vec<Chunk>) -> Result<Bytes, Error> {
    let mut writer = FrameWriter::memory(FrameParams::new(ITEM_LEN))?;
    for chunk in chunks {
        writer.append(chunk)?;
    }
    Ok(writer.finish()?.into_bytes())
}

fn check_frame(frame: &Bytes, plain: &[u8]) -> Result<(), Error> {
    let frame = SuperChunk::from_bytes(frame.clone())?;
    let mut parts = plain.chunks(SMALL_CHUNK).enumerate();
    parts.try_for_each(|(nchunk, part)| same(&frame.chunk(nchunk).decompress()?, part))
}

fn open_frame_case() -> Result<(), Error> {
    let plain = counter_i32(SMALL_CHUNKS * SMALL_CHUNK / ITEM_LEN);
    let frame = write_frame(small_chunks(&plain)?)?;
    check_frame(&frame, &plain)?;
    counted(|| SuperChunk::from_bytes(black_box(&frame).clone()))?;
    Ok(())
}

/// Writes a frame of chunks that were compressed before.
fn write_frame_case() -> Result<(), Error> {
    frame_case(SMALL_CHUNKS, write_frame)
}

fn edit_frame_case(nchunks: usize, per_commit: usize) -> Result<(), Error> {
    frame_case(nchunks, |chunks| {
        let mut editor = FrameEditor::memory(FrameParams::new(ITEM_LEN))?;
        for (nchunk, chunk) in chunks.into_iter().enumerate() {
            editor.append(chunk)?;
            if (nchunk + 1) % per_commit == 0 {
                editor.commit()?;
            }
        }
        editor.into_bytes().ok_or_else(|| "not in memory".into())
    })
}

fn frame_case(nchunks: usize, make: impl Fn(Vec<Chunk>) -> Result<Bytes, Error>) -> Result<(), Error> {
    let plain = counter_i32(nchunks * SMALL_CHUNK / ITEM_LEN);
    let chunks = small_chunks(&plain)?;
    check_frame(&make(chunks.clone())?, &plain)?;
    let frame = counted(|| make(black_box(chunks)))?;
    check_frame(&frame, &plain)
}

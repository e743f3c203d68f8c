//! Cases of arrays and frames in memory. Each runs once uncounted and checks its result, so that the buffers and tables
//! kept between calls exist when counting starts.

use std::hint::black_box;

use b2_benches::counter_i32;
use bytes::Bytes;

use crate::api::{self, ArrayEditor, Axis, Chunk, CodecId};
use crate::{Case, Error, counted};

pub(crate) const ITEM: usize = 4;

pub(crate) type Shape = [usize; 3];

/// Neither a multiple of the chunk shape nor, in turn, that of the block shape, so that edges count too.
const SHAPE: Shape = [50, 100, 120];
pub(crate) const CHUNKS: Shape = [20, 48, 64];
pub(crate) const BLOCKS: Shape = [8, 16, 32];

/// Bytes of a row: all items at one index of the first axis.
const ROW: usize = SHAPE[1] * SHAPE[2] * ITEM;

/// Chunks in the frame of many small chunks.
const SMALL_CHUNKS: usize = 1000;
const SMALL_CHUNK: usize = 1024;

/// The part to read.
pub(crate) enum Part {
    Axes(Vec<Axis>),
    /// The positions along each axis.
    Points([Vec<i64>; 3]),
}

/// A part, and the positions of its items in order.
struct Reading {
    part: Part,
    positions: Vec<Shape>,
}

type MakeReading = fn() -> Reading;

pub(crate) fn cases() -> Vec<(String, Case)> {
    let mut cases: Vec<(String, Case)> = Vec::new();
    let mut add = |name: String, case: Case| cases.push((name, case));
    let readings: [(_, MakeReading); 8] = [
        ("whole", || axes([(api::whole(), all(0)), (api::whole(), all(1)), (api::whole(), all(2))])),
        ("item", || axes([31, 57, 77].map(|at| (api::index(at), vec![at])))),
        ("plane-first", || {
            axes([(api::index(31), vec![31]), (api::whole(), all(1)), (api::whole(), all(2))])
        }),
        ("plane-last", || axes([(api::whole(), all(0)), (api::whole(), all(1)), (api::index(77), vec![77])])),
        // Crosses the corner of eight chunks.
        ("box", || axes([(18, 26), (44, 52), (60, 68)].map(|(from, to)| range(from, to)))),
        ("steps-back", || axes([backwards(0, 3), range(10, 90), backwards(2, 2)])),
        ("rows", || axes([list(&[47, 3, 3, 41, 22]), (api::whole(), all(1)), (api::whole(), all(2))])),
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

fn all(axis: usize) -> Vec<usize> {
    (0..SHAPE[axis]).collect()
}

fn range(from: usize, to: usize) -> (Axis, Vec<usize>) {
    (api::range(from, to), (from..to).collect())
}

fn backwards(axis: usize, by: usize) -> (Axis, Vec<usize>) {
    (api::backwards(by), (0..SHAPE[axis]).rev().step_by(by).collect())
}

fn list(at: &[usize]) -> (Axis, Vec<usize>) {
    (api::list(at), at.to_vec())
}

fn axes(axes: [(Axis, Vec<usize>); 3]) -> Reading {
    let [a, b, c] = axes;
    let mut positions = Vec::new();
    for &i in &a.1 {
        for &j in &b.1 {
            positions.extend(c.1.iter().map(|&k| [i, j, k]));
        }
    }
    Reading { part: Part::Axes(vec![a.0, b.0, c.0]), positions }
}

/// Returns points in random order, all over the array.
fn points() -> Reading {
    let place = |n: usize| std::array::from_fn(|axis| n * [37, 61, 89][axis] % SHAPE[axis]);
    let positions: Vec<Shape> = (1..=300).map(place).collect();
    let along = |axis: usize| positions.iter().map(|at| at[axis] as i64).collect();
    Reading { part: Part::Points([0, 1, 2].map(along)), positions }
}

fn items() -> Vec<u8> {
    counter_i32(SHAPE.iter().product())
}

fn place([i, j, k]: Shape) -> usize {
    ((i * SHAPE[1] + j) * SHAPE[2] + k) * ITEM
}

/// Returns the array in memory, compressed.
fn packed(plain: &[u8], codec: CodecId) -> Result<Bytes, Error> {
    api::build_array(SHAPE, plain, codec)
}

fn same(got: &[u8], expected: &[u8]) -> Result<(), Error> {
    if got != expected { Err("other bytes than expected".into()) } else { Ok(()) }
}

fn read_case(codec: CodecId, reading: &Reading) -> Result<(), Error> {
    let plain = items();
    let array = api::open_array(&packed(&plain, codec)?)?;
    let expected: Vec<u8> =
        reading.positions.iter().flat_map(|&at| plain[place(at)..][..ITEM].to_vec()).collect();
    let mut dst = vec![0; expected.len()];
    api::read(&array, &reading.part, &mut dst)?;
    same(&dst, &expected)?;
    dst.fill(0);
    counted(|| api::read(black_box(&array), &reading.part, &mut dst))?;
    same(&dst, &expected)
}

fn open_case() -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let open = || api::open_array(black_box(&frame));
    let mut dst = vec![0; plain.len()];
    let whole = Part::Axes(vec![api::whole(); 3]);
    api::read(&open()?, &whole, &mut dst)?;
    same(&dst, &plain)?;
    counted(open).map(drop)
}

fn build_case() -> Result<(), Error> {
    let plain = items();
    let build = || packed(black_box(&plain), CodecId::LZ4);
    let mut editor = api::edit_array(&build()?)?;
    same(&api::items_of(&mut editor)?, &plain)?;
    counted(build).map(drop)
}

/// Appends some rows `times` times. The chunks at the end are filled up first.
fn append_case(times: usize, rows: usize, commit_each: bool) -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let more = &plain[7 * ROW..][..times * rows * ROW];
    let append = |editor: &mut ArrayEditor| {
        for part in more.chunks(rows * ROW) {
            api::append_rows(editor, rows, black_box(part))?;
            if commit_each {
                api::commit_array(editor)?;
            }
        }
        api::commit_array(editor)
    };
    edit_case(&frame, append, &[&plain, more].concat())
}

/// Sets part of one chunk.
fn set_case() -> Result<(), Error> {
    let plain = items();
    let frame = packed(&plain, CodecId::LZ4)?;
    let reading = axes([range(2, 9), range(5, 30), range(7, 40)]);
    let Part::Axes(part) = &reading.part else { return Err("no box".into()) };
    let new = counter_i32(reading.positions.len());
    let mut expected = plain;
    for (&at, item) in reading.positions.iter().zip(new.chunks(ITEM)) {
        expected[place(at)..][..ITEM].copy_from_slice(item);
    }
    let set = |editor: &mut ArrayEditor| {
        api::set(editor, part, black_box(&new))?;
        api::commit_array(editor)
    };
    edit_case(&frame, set, &expected)
}

/// Runs each time on an editor of its own.
fn edit_case(
    frame: &Bytes,
    edit: impl Fn(&mut ArrayEditor) -> Result<(), Error>,
    expected: &[u8],
) -> Result<(), Error> {
    let mut editor = api::edit_array(frame)?;
    edit(&mut editor)?;
    same(&api::items_of(&mut editor)?, expected)?;
    let mut editor = api::edit_array(frame)?;
    counted(|| edit(&mut editor))?;
    same(&api::items_of(&mut editor)?, expected)
}

fn small_chunks(plain: &[u8]) -> Result<Vec<Chunk>, Error> {
    plain.chunks(SMALL_CHUNK).map(api::compress).collect()
}

fn check_frame(frame: &Bytes, plain: &[u8]) -> Result<(), Error> {
    let frame = api::open_frame(frame)?;
    let mut parts = plain.chunks(SMALL_CHUNK).enumerate();
    parts.try_for_each(|(nchunk, part)| same(&api::chunk_of(&frame, nchunk)?, part))
}

fn open_frame_case() -> Result<(), Error> {
    let plain = counter_i32(SMALL_CHUNKS * SMALL_CHUNK / ITEM);
    let frame = api::write_frame(small_chunks(&plain)?)?;
    check_frame(&frame, &plain)?;
    counted(|| api::open_frame(black_box(&frame))).map(drop)
}

/// Writes a frame of chunks that were compressed before.
fn write_frame_case() -> Result<(), Error> {
    let plain = counter_i32(SMALL_CHUNKS * SMALL_CHUNK / ITEM);
    let chunks = small_chunks(&plain)?;
    check_frame(&api::write_frame(chunks.clone())?, &plain)?;
    let frame = counted(|| api::write_frame(black_box(chunks)))?;
    check_frame(&frame, &plain)
}

fn edit_frame_case(nchunks: usize, per_commit: usize) -> Result<(), Error> {
    let plain = counter_i32(nchunks * SMALL_CHUNK / ITEM);
    let chunks = small_chunks(&plain)?;
    let edit = |chunks: Vec<Chunk>| {
        let mut editor = api::edit_frame()?;
        for (nchunk, chunk) in chunks.into_iter().enumerate() {
            api::append_chunk(&mut editor, chunk)?;
            if (nchunk + 1) % per_commit == 0 {
                api::commit_frame(&mut editor)?;
            }
        }
        api::frame_of(editor)
    };
    check_frame(&edit(chunks.clone())?, &plain)?;
    let frame = counted(|| edit(black_box(chunks)))?;
    check_frame(&frame, &plain)
}

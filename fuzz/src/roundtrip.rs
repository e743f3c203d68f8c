//! Round trips: chunks and frames with arbitrary parameters, and edits of a frame.

use std::collections::BTreeMap;

use b2_chunk::{CParams, Chunk, CodecId, Compression, DParams, FilterSlot, SpecialKind};
use b2_filters::available_kernels;
use b2_frame::{EditOptions, FrameEditor, FrameParams, FrameWriter, SuperChunk};

use crate::checks::filled;
use crate::chunk::plugins;
use crate::dice::{Dice, Params};
use crate::internals::{kernels, loops};
use crate::mutate;

/// The input is a seed for the parameters, followed by data.
pub(crate) fn write_read(data: &[u8]) {
    let mut params = Params::new(data);
    let mut dice = Dice::new(u64::from(params.u32()));
    let typesize = usize::from(params.u8()).max(1);
    let repeats = 1 + usize::from(params.u8() % 16);
    let mut plain = params.rest().repeat(repeats);
    plain.truncate(1 << 16);
    let Some(cparams) = mutate::parameters(typesize, &mut dice) else { return };
    let filters: Vec<FilterSlot> = cparams.filters().into_iter().filter(|slot| slot.id.0 != 4).collect();
    let Ok(cparams) = cparams.to_builder().filters(filters).build() else { return };
    let chunk = Chunk::compress_bytes(&plain, &cparams).expect("any data can be compressed");
    let mut room = vec![0xAA; plain.len() + 32];
    let len = Chunk::compress_bytes_into(&plain, &mut room, &cparams).expect("there is room");
    assert!(room[..len] == chunk.as_bytes()[..], "another chunk in memory that held something");
    let (codecs, filters) = (loops::available(), available_kernels());
    loops::force(Some(*dice.pick(&codecs)));
    kernels::force(Some(*dice.pick(&filters)));
    let other = Chunk::compress_bytes(&plain, &cparams).expect("as before");
    assert!(other.as_bytes() == chunk.as_bytes(), "another chunk from other instructions");
    let dparams = DParams::default().plugins(plugins());
    let read = filled(plain.len(), |dst| chunk.decompress_bytes_into(dst, &dparams));
    assert!(read.as_deref() == Ok(&plain[..]), "{cparams:?}: {:?}", read.err());
    let range = dice.range(plain.len());
    let part = chunk.get_bytes(range.clone(), &dparams);
    assert!(part.as_deref().is_ok_and(|part| *part == plain[range]));
    loops::force(None);
    kernels::force(None);
    frame(&plain, &cparams, &mut dice);
}

fn frame(plain: &[u8], cparams: &CParams, dice: &mut Dice) {
    let size = 1 + dice.below(plain.len().max(1));
    let pieces: Vec<&[u8]> = plain.chunks(size).take(20).collect();
    let options = FrameWriter::options().checksums(dice.one_in(2));
    let params = FrameParams::from_cparams(cparams).metalayer("m", b"meta");
    let mut writer = options.memory(params).expect("parameters that a chunk could be made with");
    for piece in &pieces {
        let chunk = Chunk::compress_bytes(piece, cparams).expect("any data can be compressed");
        writer.append(chunk).expect("chunks of one size");
    }
    writer.set_vlmetalayer("v", plain).expect("any value");
    let frame = writer.finish().expect("a frame").into_bytes();
    let schunk = SuperChunk::from_bytes(frame).expect("a frame of our own");
    let whole = pieces.concat();
    assert_eq!(schunk.nbytes(), whole.len() as u64);
    assert!(schunk.read_bytes(0..schunk.nbytes()).is_ok_and(|read| read == whole));
    assert!(schunk.vlmetalayers().get("v").is_ok_and(|value| value.as_deref() == Some(plain)));
    schunk.verify_checksums().expect("sums that fit");
}

/// The size of full chunks, in bytes.
const FULL_CHUNK_LEN: usize = 120;

/// The expected content of a frame.
#[derive(Clone, Default, PartialEq)]
struct Model {
    chunks: Vec<Vec<u8>>,
    vlmetalayers: BTreeMap<u8, Vec<u8>>,
}

/// The input is a sequence of operations on a frame with chunks of equal size.
pub(crate) fn edit(data: &[u8]) {
    let mut params = Params::new(data);
    let flags = params.u8();
    let codec = [CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD][usize::from(flags / 4) % 3];
    let cparams =
        Compression::new().itemsize(4).codec(codec).level(1).blocksize(64).build().expect("parameters");
    let sums = flags & 1 != 0;
    let new = FrameWriter::options().checksums(sums);
    let new = new.memory(FrameParams::from_cparams(&cparams).chunksize(FULL_CHUNK_LEN));
    let mut frame = new.and_then(FrameWriter::finish).expect("an empty frame").into_bytes();
    let options = || SuperChunk::options().checksums(sums);
    let mut editor = EditOptions::from(SuperChunk::options().checksums(sums))
        .edit_bytes(frame)
        .expect("a frame of our own");
    let (mut model, mut committed) = (Model::default(), Model::default());
    for _ in 0..24 {
        if params.is_empty() {
            break;
        }
        let op = params.u8();
        if op % 16 == 15 {
            frame = editor.into_bytes().expect("it is in memory");
            check(&options().from_bytes(frame.clone()).expect("what was committed"), &committed);
            model = committed.clone();
            editor = EditOptions::from(SuperChunk::options().checksums(sums))
                .edit_bytes(frame)
                .expect("what was committed");
            continue;
        }
        apply(op % 16, &mut params, &mut editor, &mut model, &mut committed);
        assert_eq!(editor.nchunks(), model.chunks.len());
    }
    check(&editor.snapshot().expect("a snapshot"), &model);
    editor.commit().expect("a commit in memory");
    let frame = editor.into_bytes().expect("it is in memory");
    let schunk = options().from_bytes(frame).expect("what was committed");
    check(&schunk, &model);
    schunk.verify_checksums().expect("sums that fit");
}

fn apply(
    op: u8,
    params: &mut Params<'_>,
    editor: &mut FrameEditor,
    model: &mut Model,
    committed: &mut Model,
) {
    let n = model.chunks.len();
    let at = usize::from(params.u8());
    // The last chunk may be shorter; it must then stay the last.
    let full = model.chunks.last().is_none_or(|last| last.len() == FULL_CHUNK_LEN);
    let some = |params: &mut Params<'_>, len: usize| -> Vec<u8> {
        let seed = params.bytes(4).to_vec();
        seed.iter().copied().cycle().chain([1, 2].into_iter().cycle()).take(len).collect()
    };
    match op {
        0 | 1 if full => {
            let plain = some(params, FULL_CHUNK_LEN);
            editor
                .append(Chunk::compress_bytes(&plain, &editor.cparams().expect("cparams")).expect("a chunk"))
                .expect("room");
            model.chunks.push(plain);
        }
        2 => {
            let plain = some(params, at * 3);
            editor.append_bytes(&plain).expect("any bytes");
            let mut rest = &plain[..];
            while !rest.is_empty() {
                if model.chunks.last().is_none_or(|last| last.len() == FULL_CHUNK_LEN) {
                    model.chunks.push(Vec::new());
                }
                let last = model.chunks.last_mut().expect("one is there");
                let (part, behind) = rest.split_at(rest.len().min(FULL_CHUNK_LEN - last.len()));
                last.extend_from_slice(part);
                rest = behind;
            }
        }
        3 => {
            let plain = some(params, FULL_CHUNK_LEN);
            editor.insert_bytes(at % (n + 1).min(n.max(1)), &plain).expect("a full chunk in front");
            model.chunks.insert(at % (n + 1).min(n.max(1)), plain);
        }
        4 | 5 if n > 0 => {
            let plain = some(params, model.chunks[at % n].len());
            editor.update_bytes(at % n, &plain).expect("a chunk of the same size");
            model.chunks[at % n] = plain;
        }
        6 if n > 0 && (full || at % n == n - 1) => {
            editor.delete(at % n).expect("it is there");
            model.chunks.remove(at % n);
        }
        7 if full => {
            let chunk = Chunk::special(SpecialKind::Zeros, &[], FULL_CHUNK_LEN, 4, 0).expect("zeros");
            editor.append(chunk).expect("a full chunk");
            model.chunks.push(vec![0; FULL_CHUNK_LEN]);
        }
        8 if n > 0 => {
            let nbytes: usize = model.chunks.iter().map(Vec::len).sum();
            let start = at * 7 % nbytes;
            let plain = some(params, (nbytes - start).min(at + 1));
            editor.write_bytes(start as u64, &plain).expect("inside");
            for (k, byte) in plain.iter().enumerate() {
                model.chunks[(start + k) / FULL_CHUNK_LEN][(start + k) % FULL_CHUNK_LEN] = *byte;
            }
        }
        9 => {
            let value = some(params, at * 2);
            editor.vlmeta().set([b'a' + at as u8 % 5], &value).expect("any value");
            model.vlmetalayers.insert(b'a' + at as u8 % 5, value);
        }
        10 => {
            let was = model.vlmetalayers.remove(&(b'a' + at as u8 % 5)).is_some();
            assert_eq!(editor.vlmeta().remove([b'a' + at as u8 % 5]), was);
        }
        11 => {
            editor.rollback();
            *model = committed.clone();
        }
        12 => {
            editor.compact().expect("in memory");
            *committed = model.clone();
        }
        13 if n > 1 && full => {
            let mut order: Vec<usize> = (0..n).collect();
            order.rotate_left(at % n);
            editor.reorder(&order).expect("a permutation");
            model.chunks = order.iter().map(|i| model.chunks[*i].clone()).collect();
        }
        _ => {
            editor.commit().expect("in memory");
            *committed = model.clone();
        }
    }
}

fn check(schunk: &SuperChunk, model: &Model) {
    let whole = model.chunks.concat();
    assert_eq!((schunk.nchunks(), schunk.nbytes()), (model.chunks.len(), whole.len() as u64));
    assert!(schunk.read_bytes(0..schunk.nbytes()).is_ok_and(|read| read == whole), "other bytes");
    assert_eq!(schunk.vlmetalayers().iter().len(), model.vlmetalayers.len());
    for (name, value) in &model.vlmetalayers {
        assert!(schunk.vlmetalayers().get([*name]).is_ok_and(|got| got.as_ref() == Some(value)));
    }
}

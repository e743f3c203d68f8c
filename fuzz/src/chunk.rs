//! Reads a chunk as a whole and in parts, and checks that all ways agree.

use std::ops::Range;
use std::sync::LazyLock;

use b2_chunk::{Chunk, ChunkReader, ChunkRef, Container, DParams, LazyChunk, LazyHead, Limits, Plugins};
use b2_filters::available_kernels;

use crate::checks::{filled, same};
use crate::dice::Dice;
use crate::internals::{kernels, loops};

/// Maximum uncompressed size of a chunk, in bytes.
const MAX_PLAIN: u64 = 1 << 18;

/// All codecs and filters.
pub(crate) fn plugins() -> Plugins {
    static PLUGINS: LazyLock<Plugins> =
        LazyLock::new(|| Plugins::builtin().with_codecs(b2_zfp::codecs()).with_codec(b2_pco::Pco));
    PLUGINS.clone()
}

fn dparams(dice: &mut Dice) -> DParams {
    let limits = Limits::default().max_chunk_nbytes(MAX_PLAIN);
    let container = match dice.below(4) {
        0 => {
            let blockshape: Vec<u32> = (0..dice.below(4)).map(|_| 1 + dice.below(12) as u32).collect();
            let itemsize = Some(*dice.pick(&[1, 2, 4, 8, 12, 300]));
            let frame_blocksize = *dice.pick(&[0, 64, 1024]);
            Container::default().itemsize(itemsize).frame_blocksize(frame_blocksize).blockshape(blockshape)
        }
        _ => Container::default(),
    };
    DParams::default().limits(limits).plugins(plugins()).container(container)
}

/// The input is a chunk. Its bytes also determine which parts are read.
pub(crate) fn run(data: &[u8]) {
    let mut dice = Dice::of(data);
    let dparams = dparams(&mut dice);
    let Ok(chunk) = Chunk::from_bytes(data.to_vec()) else {
        let _ = LazyChunk::parse(data, data.len() as u64, &dparams).map_err(|error| error.to_string());
        return;
    };
    if chunk.nbytes() as u64 > MAX_PLAIN {
        assert!(chunk.decompress_bytes_with(&dparams).is_err(), "above the limit");
        assert!(chunk.lazy(&dparams).is_err(), "above the limit");
        return;
    }
    let whole = filled(chunk.nbytes(), |dst| chunk.decompress_bytes_into(dst, &dparams));
    // Use the loops and kernels of another instruction set.
    if dice.one_in(2) {
        let (codecs, filters) = (loops::available(), available_kernels());
        loops::force(Some(*dice.pick(&codecs)));
        kernels::force(Some(*dice.pick(&filters)));
        same(
            &whole,
            &filled(chunk.nbytes(), |dst| chunk.decompress_bytes_into(dst, &dparams)),
            "instruction sets",
        );
        loops::force(None);
        kernels::force(None);
    }
    parts(&chunk, &dparams, &whole, &mut dice);
    head(data, &dparams, &whole, &mut dice);
}

/// Reads ranges of the uncompressed bytes, each on its own and with a shared reader.
fn parts(chunk: &Chunk, dparams: &DParams, whole: &Result<Vec<u8>, String>, dice: &mut Dice) {
    let mut reader = ChunkReader::new(chunk.clone(), dparams.clone());
    for _ in 0..3 {
        let range = dice.range(chunk.nbytes());
        let got = filled(range.len(), |dst| chunk.get_bytes_into(range.start, dst, dparams));
        agrees(whole, &range, &got);
        if let Ok(reader) = &mut reader {
            // Read only once: a second read of a block decodes more of it, and may find more of its damage.
            let mut dst = vec![0xAA; range.len()];
            let read = reader.read(range.start, &mut dst).map_err(|error| error.to_string());
            agrees(whole, &range, &read.map(|()| dst));
        }
    }
    let items = dice.range(chunk.nbytes() / 4);
    let _ = chunk.get_items::<f32>(items, dparams);
    let borrowed = ChunkRef::from_slice(chunk.as_bytes()).map(|chunk| chunk.decompress_bytes_with(dparams));
    assert!(matches!(borrowed, Ok(bytes) if bytes.is_ok() == whole.is_ok()), "borrowed");
    assert!(chunk.get_bytes(0..chunk.nbytes() + 1, dparams).is_err());
    match (chunk.blocks(dparams), whole) {
        (Ok(blocks), Ok(whole)) => assert!(blocks.concat() == *whole, "blocks"),
        (Err(_), Err(_)) => {}
        (blocks, whole) => panic!("blocks {:?}, whole {:?}", blocks.err(), whole.as_ref().err()),
    }
}

/// Compares a partial read with the whole. If the whole chunk is damaged, an undamaged part may return anything.
fn agrees(whole: &Result<Vec<u8>, String>, range: &Range<usize>, part: &Result<Vec<u8>, String>) {
    if let Ok(whole) = whole {
        assert!(part.as_deref() == Ok(&whole[range.clone()]), "bytes {range:?}: {:?}", part.as_ref().err());
    }
}

/// Reads block by block, given only the head of the chunk.
fn head(data: &[u8], dparams: &DParams, whole: &Result<Vec<u8>, String>, dice: &mut Dice) {
    let available = data.len() as u64;
    let mut have = dice.below(40);
    let mut steps = 0;
    let lazy = loop {
        steps += 1;
        assert!(steps < 10, "the head never ends");
        match LazyChunk::parse(&data[..have.min(data.len())], available, dparams) {
            Ok(LazyHead::Need(len)) => {
                assert!(len > have, "asks for {len} bytes, has {have}");
                have = len;
                if have > data.len() {
                    assert!(whole.is_err(), "needs bytes behind the end");
                    return;
                }
            }
            Ok(LazyHead::Whole) => have = data.len(),
            Ok(LazyHead::Ready(lazy)) => break lazy,
            Err(_) if have >= 32 => return assert!(whole.is_err(), "the head of a good chunk"),
            Err(_) => return,
        }
    };
    // Each of these blocks is preceded by its length.
    let vl = lazy.header().is_vl();
    let Ok(mut decoder) = lazy.decoder(dparams) else { return assert!(whole.is_err(), "no decoder") };
    let mut block0 = None;
    if lazy.needs_block0() && lazy.nblocks() > 0 {
        let first = filled(lazy.block_range(0).len(), |dst| {
            decoder.decode_reference(0, &data[lazy.block_extent(0)], None, dst)
        });
        let Ok(first) = first else { return assert!(whole.is_err(), "block 0") };
        block0 = Some(first);
    }
    for _ in 0..3 {
        let nblock = dice.below(lazy.nblocks());
        if nblock >= lazy.nblocks() || vl && have < data.len() {
            return;
        }
        let (range, stored) = (lazy.block_range(nblock), &data[lazy.block_extent(nblock)]);
        let block0 = block0.as_deref().filter(|_| nblock > 0);
        let got = filled(range.len(), |dst| decoder.decode(nblock, stored, block0, dst));
        agrees(whole, &range, &got);
        let part = dice.range(range.len());
        let inside = range.start + part.start..range.start + part.end;
        let got = filled(part.len(), |dst| decoder.decode_part(nblock, stored, block0, part.clone(), dst));
        agrees(whole, &inside, &got);
        // Decode parts of the block, as slices of arrays do.
        if let Ok(Some(parts)) = decoder.parts(nblock, stored, part.clone()) {
            let got = filled(part.len(), |dst| parts.copy(part.clone(), dst, false));
            agrees(whole, &inside, &got);
            let itemsize = lazy.header().itemsize();
            let (first, count) = (part.start.next_multiple_of(itemsize), 1 + dice.below(3));
            let step = itemsize * (1 + dice.below(4));
            if first + (count - 1) * step + itemsize <= part.end {
                let mut items = vec![0xAA; count * itemsize];
                if parts.gather(first, step, itemsize, &mut items)
                    && let Ok(whole) = whole
                {
                    for (k, item) in items.chunks(itemsize).enumerate() {
                        let at = range.start + first + k * step;
                        assert!(item == &whole[at..at + itemsize], "gathered item {k}");
                    }
                }
            }
        }
    }
}

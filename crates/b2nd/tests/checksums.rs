//! Reading all of a chunk of an array compares its checksum; reading a small part of it does not.

use b2_chunk::{CParams, FilterSlot};
use b2_frame::{FrameError, Structure, SuperChunk};
use b2nd::{ArrayBuilder, ByIndex, NdArray, NdError, SliceDim};

/// Chunks of 100 x 100 in blocks of 25 x 25, the last ones with padding blocks. Stored as they are: damage decodes.
fn array(filters: &[FilterSlot]) -> Vec<u8> {
    let cparams = CParams::builder(4).clevel(0).filters(filters).build().unwrap();
    let builder =
        ArrayBuilder::of::<u32>([190, 220]).chunkshape([100, 100]).blockshape([25, 25]).cparams(cparams);
    builder.to_memory(&mut ByIndex(|i| (i as u32).wrapping_mul(2_654_435_761))).unwrap().to_vec()
}

fn damaged(filters: &[FilterSlot], nchunk: usize) -> NdArray {
    let mut frame = array(filters);
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    let info = schunk.chunk_infos().nth(nchunk).unwrap().unwrap();
    // In its first block.
    let at = schunk.layout().data.start + info.offset().unwrap() + 32 + 17;
    frame[at as usize] ^= 0x20;
    NdArray::from_bytes(frame).unwrap()
}

fn is_named(result: Result<Vec<u8>, NdError>, nchunk: usize) -> bool {
    match result {
        Err(NdError::Frame(FrameError::Checksum { structure: Structure::Chunk(n), .. })) => n == nchunk,
        _ => false,
    }
}

#[test]
fn reading_everything_names_the_damaged_chunk() {
    for filters in [&[][..], &[FilterSlot::SHUFFLE], &[FilterSlot::DELTA]] {
        for nchunk in 0..6 {
            let array = damaged(filters, nchunk);
            assert!(is_named(array.all().read(), nchunk), "{nchunk}");
            // All of a chunk, and all but a few of its items.
            let (row, column) = (100 * (nchunk as i64 / 3), 100 * (nchunk as i64 % 3));
            let most =
                array.slice([SliceDim::range(row..row + 100), SliceDim::range(column..column + 99)]).unwrap();
            assert!(is_named(most.read(), nchunk), "{nchunk}");
            // Backwards, and transposed.
            assert!(is_named(array.all().transpose().read(), nchunk));
            // Others are read.
            let other = (nchunk as i64 + 1) % 6;
            let (row, column) = (100 * (other / 3), 100 * (other % 3));
            let other = array
                .slice([SliceDim::range(row..row + 100), SliceDim::range(column..column + 100)])
                .unwrap();
            assert!(other.read().is_ok());
        }
    }
}

#[test]
fn a_small_part_is_not_compared() {
    let array = damaged(&[], 0);
    let one = array.slice([SliceDim::range(0..10), SliceDim::range(0..10)]).unwrap();
    assert_eq!(one.read().unwrap().len(), 400);
    let whole = NdArray::from_super_chunk(
        SuperChunk::options().checksums(false).open_bytes(self::array(&[])).unwrap(),
    );
    assert!(whole.unwrap().all().read().is_ok());
}

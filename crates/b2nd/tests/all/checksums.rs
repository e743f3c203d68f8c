//! Reading all of a chunk of an array compares its checksum; reading a small part of it does not.

use b2_chunk::{CParams, FilterSlot};
use b2_frame::{Checksums, Compare, FrameError, Structure, SuperChunk};
use b2nd::{ArrayBuilder, Axis, ByIndex, Concat, NdArray, NdError, range};

/// Chunks of 100 x 100 in blocks of 25 x 25, the last ones with padding blocks. Stored as they are: damage decodes.
fn array(filters: &[FilterSlot]) -> Vec<u8> {
    let cparams = CParams::builder(4).level(0).filters(filters).build().unwrap();
    let builder =
        ArrayBuilder::new::<u32>([190, 220]).chunks([100, 100]).blocks([25, 25]).compression(cparams);
    builder.to_bytes(ByIndex(|i| (i as u32).wrapping_mul(2_654_435_761))).unwrap().to_vec()
}

fn damaged(filters: &[FilterSlot], nchunk: usize, compare: Compare) -> NdArray {
    let options = SuperChunk::options().compare(compare);
    NdArray::from_super_chunk(options.from_bytes(damaged_frame(filters, nchunk)).unwrap()).unwrap()
}

fn damaged_frame(filters: &[FilterSlot], nchunk: usize) -> Vec<u8> {
    let mut frame = array(filters);
    let schunk = SuperChunk::from_bytes(frame.clone()).unwrap();
    let info = schunk.chunk_infos().nth(nchunk).unwrap().unwrap();
    // In its first block.
    let at = schunk.layout().data.start + info.offset().unwrap() + 32 + 17;
    frame[at as usize] ^= 0x20;
    frame
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
            let array = damaged(filters, nchunk, Compare::WholeChunks);
            assert!(is_named(array.all().read_bytes(), nchunk), "{nchunk}");
            // All of a chunk, and a few items of it: in another block than the damage.
            let (row, column) = (100 * (nchunk as i64 / 3), 100 * (nchunk as i64 % 3));
            let whole = [range(row..row + 100), range(column..column + 100)];
            assert!(is_named(array.slice(whole).unwrap().read_bytes(), nchunk), "{nchunk}");
            let careful = damaged(filters, nchunk, Compare::Always);
            let few = [range(row + 40..row + 42), range(column + 18..column + 20)];
            assert!(is_named(careful.slice(few).unwrap().read_bytes(), nchunk), "{nchunk}");
            // Backwards, and transposed.
            assert!(is_named(array.all().transpose().read_bytes(), nchunk));
            // Others are read.
            let other = (nchunk as i64 + 1) % 6;
            let (row, column) = (100 * (other / 3), 100 * (other % 3));
            let other = array.slice([range(row..row + 100), range(column..column + 100)]).unwrap();
            assert!(other.read_bytes().is_ok());
        }
    }
}

#[test]
fn a_small_part_is_not_compared() {
    let array = damaged(&[], 0, Compare::WholeChunks);
    let one = array.slice([range(0..10), range(0..10)]).unwrap();
    assert_eq!(one.read_bytes().unwrap().len(), 400);
    let whole = NdArray::from_super_chunk(
        SuperChunk::options().checksums(false).from_bytes(self::array(&[])).unwrap(),
    );
    assert!(whole.unwrap().all().read_bytes().is_ok());
}

/// What is left of a damaged chunk would get a checksum of its own, so it goes into no other array, and is not changed
/// in part.
#[test]
fn damage_is_not_copied_or_changed() {
    for nchunk in 0..6 {
        let frame = damaged_frame(&[], nchunk);
        let array = NdArray::from_bytes(frame.clone()).unwrap();
        // Copies with other chunks, joined arrays.
        for chunks in [[100, 100], [64, 37], [190, 220]] {
            let builder = ArrayBuilder::new::<u32>([190, 220]).chunks(chunks);
            assert!(builder.to_bytes(&array).is_err(), "{nchunk} {chunks:?}");
        }
        let other = NdArray::from_bytes(self::array(&[])).unwrap();
        let joined = Concat::new(vec![other.all(), array.all()], 0).unwrap();
        assert!(joined.builder().to_bytes(joined).is_err(), "{nchunk}");

        let (row, column) = (100 * (nchunk as i64 / 3), 100 * (nchunk as i64 % 3));
        let edit = || NdArray::options().edit_bytes(frame.clone()).unwrap();
        let one = [range(row + 50..row + 51), range(column + 10..column + 11)];
        assert!(edit().transaction(|editor| editor.set_bytes(one, &[1, 2, 3, 4])).is_err());
        assert!(edit().transaction(|editor| editor.insert(Axis(0), 0, &[0; 880][..])).is_err());
        assert!(edit().transaction(|editor| editor.delete(1, 0..1)).is_err());
        // All of its items may be set.
        let mut editor = edit();
        let (rows, columns) = (row..(row + 100).min(190), column..(column + 100).min(220));
        let items = vec![5; 4 * ((rows.end - rows.start) * (columns.end - columns.start)) as usize];
        editor.set_bytes([range(rows), range(columns)], &items).unwrap();
        editor.commit().unwrap();
        let healed = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
        assert_eq!(healed.verify_checksums().unwrap(), Checksums::Ok);
    }
}

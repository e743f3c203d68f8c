//! Reads of arrays are verified, both whole chunks and parts.

use b2_chunk::{Compression, FilterSlot};
use b2_frame::{Checksums, Compare, FrameError, Structure, SuperChunk};
use b2nd::{ArrayBuilder, Axis, Concat, NdArray, NdError, range, source};

/// Chunks of 100 x 100 in blocks of 25 x 25, the last ones with padding blocks. Stored uncompressed, so that damaged bytes still decode.
fn array(filters: &[FilterSlot]) -> Vec<u8> {
    let cparams = Compression::new().itemsize(4).level(0).filters(filters).build().unwrap();
    let builder =
        ArrayBuilder::new::<u32>([190, 220]).chunks([100, 100]).blocks([25, 25]).compression(cparams);
    builder.to_bytes(source::by_index(|i| (i as u32).wrapping_mul(2_654_435_761))).unwrap().to_vec()
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
        Err(NdError::Damaged { source, .. }) => matches!(
            *source,
            FrameError::Checksum { structure: Structure::Chunk(n) | Structure::Blocks { nchunk: n, .. }, .. }
                if n == nchunk
        ),
        _ => false,
    }
}

#[test]
fn reading_everything_names_the_damaged_chunk() {
    for filters in [&[][..], &[FilterSlot::SHUFFLE], &[FilterSlot::DELTA]] {
        for nchunk in 0..6 {
            let array = damaged(filters, nchunk, Compare::Once);
            assert!(is_named(array.all().read_bytes(), nchunk), "{nchunk}");
            // All of a chunk, and a few items of it: in another block than the damage.
            let (row, column) = (100 * (nchunk as i64 / 3), 100 * (nchunk as i64 % 3));
            let whole = [range(row..row + 100), range(column..column + 100)];
            assert!(is_named(array.slice(whole).unwrap().read_bytes(), nchunk), "{nchunk}");
            // In the block of the damage.
            let few = [range(row + 2..row + 4), range(column + 8..column + 20)];
            for compare in [Compare::Once, Compare::Always] {
                let array = damaged(filters, nchunk, compare);
                assert!(is_named(array.slice(few.clone()).unwrap().read_bytes(), nchunk), "{nchunk}");
            }
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
fn nothing_is_compared_on_request() {
    let array = damaged(&[], 0, Compare::Never);
    let one = array.slice([range(0..10), range(0..10)]).unwrap();
    assert_eq!(one.read_bytes().unwrap().len(), 400);
    let whole = NdArray::from_super_chunk(
        SuperChunk::options().checksums(false).from_bytes(self::array(&[])).unwrap(),
    );
    assert!(whole.unwrap().all().read_bytes().is_ok());
}

#[test]
fn errors_tell_the_items_that_are_damaged() {
    let array = damaged(&[], 5, Compare::Once);
    let error = array.all().read_bytes().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("[100:190, 200:220]") && text.contains("salvage"), "{text}");
}

/// A flipped bit anywhere leads to an error, a reported change, or the right values.
#[test]
fn no_flipped_bit_gives_wrong_values() {
    use b2_chunk::{CodecId, Compression};
    use b2_testkit::Rng;

    let rng = &mut Rng::new(21);
    for case in 0..20 {
        let shape = [40 + rng.below(100) as u64, 30 + rng.below(90) as u64];
        let codec = *rng.pick(&[CodecId::LZ4, CodecId::BLOSCLZ, CodecId::ZSTD, CodecId::ZLIB]);
        let filters: &[&[FilterSlot]] =
            &[&[], &[FilterSlot::SHUFFLE], &[FilterSlot::DELTA], &[FilterSlot::BITSHUFFLE]];
        let compression = Compression::new().codec(codec).filters(*rng.pick(filters));
        let noise = if case % 2 == 0 { u64::MAX } else { 0xff };
        let builder =
            ArrayBuilder::new::<u64>(shape).chunks([64, 96]).blocks([16, 24]).compression(compression);
        let item = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) & noise;
        let good = builder.to_bytes(source::by_index(item)).unwrap().to_vec();
        let items = NdArray::from_bytes(good.clone()).unwrap().all().read_bytes().unwrap();
        let row = 8 * shape[1] as usize;
        for _ in 0..40 {
            let mut bad = good.clone();
            bad[rng.below(good.len())] ^= 1 << rng.below(8);
            let Ok(array) = NdArray::from_bytes(bad) else { continue };
            if array.super_chunk().checksums() != Checksums::Ok {
                continue;
            }
            let at = [rng.below(shape[0] as usize), rng.below(shape[1] as usize)];
            let item = array.slice([at[0] as i64, at[1] as i64]).unwrap().read_bytes();
            let start = at[0] * row + at[1] * 8;
            assert!(item.is_err() || item.unwrap() == items[start..start + 8], "{case}");
            let plane = array.slice([range(at[0] as i64..at[0] as i64 + 1), range(..)]).unwrap().read_bytes();
            assert!(plane.is_err() || plane.unwrap() == items[at[0] * row..(at[0] + 1) * row], "{case}");
            let all = array.all().read_bytes();
            assert!(all.is_err() || all.unwrap() == items, "{case}");
        }
    }
}

/// The rest of a damaged chunk would get a valid checksum, so it is not copied to other arrays and not changed in part.
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
        let edit = || NdArray::edit_bytes(frame.clone()).unwrap();
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

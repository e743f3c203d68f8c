//! Prefilters and postfilters receive the chunk and block numbers of an array.

use std::error::Error;

use b2_chunk::{BlockInfo, CParams, CodecId, Compression};
use b2_frame::SuperChunk;
use b2nd::{ArrayBuilder, NdArray};

/// Marks each item with its chunk and block.
fn mark(info: &BlockInfo, src: &[u8], dst: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let nchunk = info.nchunk.ok_or("no chunk number")?;
    assert_eq!(info.itemsize, 2);
    let number = (100 * nchunk + info.nblock) as u16;
    for (to, from) in dst.as_chunks_mut::<2>().0.iter_mut().zip(src.as_chunks::<2>().0) {
        *to = u16::from_le_bytes(*from).wrapping_add(number).to_le_bytes();
    }
    Ok(())
}

/// Chunks of 4 x 6, blocks of 2 x 3, in an array of 7 x 20.
fn number(row: usize, column: usize) -> u16 {
    let nchunk = row / 4 * 4 + column / 6;
    let nblock = row % 4 / 2 * 2 + column % 6 / 3;
    (100 * nchunk + nblock) as u16
}

fn array(items: &[u16], cparams: CParams) -> Vec<u8> {
    let builder = ArrayBuilder::new::<u16>([7, 20]).chunks([4, 6]).blocks([2, 3]);
    builder.compression(cparams).to_bytes(items).unwrap().to_vec()
}

fn check(array: &NdArray, expected: impl Fn(usize, usize) -> u16) {
    for (rows, columns) in [(0..7, 0..20), (1..6, 5..19), (3..4, 0..20), (6..7, 17..18)] {
        let slice = array.slice((rows.clone(), columns.clone())).unwrap();
        let all = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        let expected: Vec<u16> = all.map(|(row, column)| expected(row as usize, column as usize)).collect();
        assert_eq!(slice.read::<Vec<u16>>().unwrap(), expected);
    }
}

#[test]
fn hooks_are_told_the_chunk() {
    let cparams = Compression::new().itemsize(2).codec(CodecId::LZ4);
    for items in [vec![0; 140], vec![7; 140], (0..140).map(|i| i / 3 * 11).collect::<Vec<u16>>()] {
        let item = |row: usize, column: usize| items[20 * row + column];
        let stored = array(&items, cparams.clone().build().unwrap());
        let frame = SuperChunk::from_bytes(stored).unwrap().with_postfilter(mark);
        let marked = |row: usize, column: usize| item(row, column).wrapping_add(number(row, column));
        check(&NdArray::from_super_chunk(frame).unwrap(), marked);
        let stored = array(&items, cparams.clone().prefilter(mark).build().unwrap());
        // Chunks of one repeated item become special chunks without being passed.
        if items[0] != items[139] {
            check(&NdArray::from_bytes(stored).unwrap(), marked);
        }
    }
}

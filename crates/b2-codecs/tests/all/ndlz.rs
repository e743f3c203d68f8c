//! Hand-made NDLZ tokens, valid and invalid.

use crate::common::*;
use b2_codecs::*;

fn stream(height: i32, width: i32, tokens: &[&[u8]]) -> Vec<u8> {
    [&[2][..], &height.to_le_bytes(), &width.to_le_bytes(), &tokens.concat()].concat()
}

fn decoded(meta: u8, stream: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    decode(&mut *codec(CodecId::NDLZ).decoder(&CodecContext::new(5).meta(meta)).unwrap(), stream, len)
}

fn check_malformed(meta: u8, stream: &[u8], len: usize, what: &str) {
    match decoded(meta, stream, len) {
        Err(CodecError::Malformed { what: got, .. }) => assert_eq!(got, what),
        other => panic!("{what} expected, got {other:?}"),
    }
}

/// A literal cell of bytes from `first` on.
fn literal(first: u8, len: usize) -> Vec<u8> {
    std::iter::once(0).chain((0..len).map(|i| first + i as u8)).collect()
}

/// Decodes a literal cell 0, 1, 2... and, right of it, the cell of `token`; returns the rows of the latter. The
/// payload is an offset to row 1 of the literal cell if `offsets` is 1, and one to row 0 too if it is 2, then
/// literal bytes from 200 on.
fn rows<const C: usize>(token: u8, offsets: usize) -> Result<Vec<Vec<u8>>, CodecError> {
    // The token is at 9 + 1 + C * C, the literal bytes start at 10.
    let to_row_1 = ((C * C - C) as u16).to_le_bytes();
    let to_row_0 = ((C * C) as u16).to_le_bytes();
    let fresh: Vec<u8> = (200..=255).chain([0; 16]).collect();
    let offsets = if offsets == 2 { [to_row_1, to_row_0].concat() } else { to_row_1.to_vec() };
    let stream = stream(C as i32, 2 * C as i32, &[&literal(0, C * C), &[token], &offsets, &fresh]);
    let block = decoded(C as u8, &stream, 2 * C * C)?;
    assert!(block.chunks(2 * C).enumerate().all(|(row, bytes)| bytes[0] as usize == row * C));
    Ok(block.chunks(2 * C).map(|row| row[C..].to_vec()).collect())
}

/// A row of four bytes from `first` on.
fn four(first: u8) -> Vec<u8> {
    (first..first + 4).collect()
}

#[test]
fn whole_cells() {
    // 2 x 3 cells of 4 in a block of 6 x 9: the last row and the last column are cut.
    let tokens: [&[u8]; 6] = [
        &literal(0, 16),
        &[0x40, 99],
        &literal(50, 4),
        &literal(30, 8),
        &[0xc0, 12, 0], // from the second of the four bytes from 50 on, across a token
        &[0x40, 7],
    ];
    let block = decoded(4, &stream(6, 9, &tokens), 54).unwrap();
    let expected = [
        [0, 1, 2, 3, 99, 99, 99, 99, 50],
        [4, 5, 6, 7, 99, 99, 99, 99, 51],
        [8, 9, 10, 11, 99, 99, 99, 99, 52],
        [12, 13, 14, 15, 99, 99, 99, 99, 53],
        [30, 31, 32, 33, 51, 52, 53, 0, 7],
        [34, 35, 36, 37, 30, 31, 32, 33, 7],
    ];
    assert_eq!(block, expected.concat());
}

#[test]
fn three_rows_of_four() {
    let (a, b, c, fresh) = (four(4), four(8), four(12), four(200));
    for low in 0..8 {
        assert_eq!(rows::<4>(0xe0 | low, 1).unwrap(), [&*fresh, &a, &b, &c]);
        assert_eq!(rows::<4>(0xe8 | low, 1).unwrap(), [&*a, &b, &c, &fresh]);
        assert_eq!(rows::<4>(0xf0 | low, 1).unwrap(), [&*a, &b, &fresh, &c]);
        assert_eq!(rows::<4>(0xf8 | low, 1).unwrap(), [&*a, &fresh, &b, &c]);
    }
}

#[test]
fn two_rows_of_four() {
    let (a, b, x, y) = (four(4), four(8), four(200), four(204));
    assert_eq!(rows::<4>(0x80, 1).unwrap(), [&*x, &y, &a, &b]);
    for low in 0..8 {
        assert_eq!(rows::<4>(0x88 | low, 1).unwrap(), [&*a, &b, &x, &y]);
        assert_eq!(rows::<4>(0x90 | low, 1).unwrap(), [&*a, &x, &b, &y]);
        assert_eq!(rows::<4>(0x98 | low, 1).unwrap(), [&*a, &x, &y, &b]);
        assert_eq!(rows::<4>(0xb0 | low, 1).unwrap(), [&*x, &a, &b, &y]);
        assert_eq!(rows::<4>(0xb8 | low, 1).unwrap(), [&*x, &a, &y, &b]);
    }
}

#[test]
fn two_pairs_of_rows() {
    let (a, b, x, y) = (four(4), four(8), four(0), four(4));
    for low in 0..8 {
        assert_eq!(rows::<4>(0x28 | low, 2).unwrap(), [&*a, &b, &x, &y]);
        assert_eq!(rows::<4>(0x30 | low, 2).unwrap(), [&*a, &x, &b, &y]);
        assert_eq!(rows::<4>(0x38 | low, 2).unwrap(), [&*a, &x, &y, &b]);
    }
}

#[test]
fn rows_of_eight() {
    let row = |first: u8| (first..first + 8).collect::<Vec<_>>();
    for (token, count) in [(0x88, 2), (0xa8, 3)] {
        for first in 0..=8 - count {
            let mut expected = Vec::new();
            let mut fresh = 200;
            for r in 0..8 {
                if (first..first + count).contains(&r) {
                    expected.push(row(8 + 8 * (r - first) as u8));
                } else {
                    expected.push(row(fresh));
                    fresh += 8;
                }
            }
            assert_eq!(rows::<8>(token + first as u8, 1).unwrap(), expected, "{token:x} {first}");
        }
        for first in 8 - count + 1..8 {
            assert!(rows::<8>(token + first as u8, 1).is_err(), "{token:x} {first}");
        }
    }
}

#[test]
fn every_other_byte_is_no_token() {
    let good4 = |token: u8| matches!(token, 0 | 0x40 | 0xc0 | 0x80 | 0x28..=0x3f | 0x88..=0x9f | 0xb0..=0xbf | 0xe0..=0xff);
    let good8 = |token: u8| matches!(token, 0 | 0x40 | 0xc0 | 0x88..=0x8e | 0xa8..=0xad);
    for token in 0..=255 {
        assert_eq!(rows::<4>(token, 2).is_ok(), good4(token), "{token:x}");
        assert_eq!(rows::<8>(token, 1).is_ok(), good8(token), "{token:x}");
    }
}

#[test]
fn rows_need_whole_cells() {
    let fresh = [1; 64];
    for token in [0x80, 0x88, 0xe0] {
        let short = stream(3, 4, &[&[token, 9, 0], &fresh]);
        check_malformed(4, &short, 12, "rows in a cell that is not whole");
        let narrow = stream(4, 3, &[&[token, 9, 0], &fresh]);
        check_malformed(4, &narrow, 12, "rows in a cell that is not whole");
    }
    check_malformed(8, &stream(8, 7, &[&[0x88, 9, 0], &fresh]), 56, "rows in a cell that is not whole");
}

#[test]
fn offsets_stay_inside_the_stream() {
    check_malformed(4, &stream(4, 4, &[&[0xc0, 10, 0], &[0; 30]]), 16, "offset before the stream");
    check_malformed(4, &stream(4, 4, &[&[0xe0, 0xff, 0xff], &[0; 30]]), 16, "offset before the stream");
    // Offsets may refer to bytes before the token, to the token itself and to bytes after it, but not past the end.
    assert_eq!(decoded(4, &stream(4, 4, &[&[0xc0, 0, 0], &[5; 13]]), 16).unwrap()[..4], [0xc0, 0, 0, 5]);
    check_malformed(4, &stream(4, 4, &[&[0xc0, 0, 0], &[5; 12]]), 16, "stream is truncated");
    check_malformed(4, &stream(4, 4, &[&[0x28, 0, 0, 0, 0]]), 16, "stream is truncated");
}

#[test]
fn block_shapes() {
    check_malformed(4, &stream(-1, 4, &[]), 4, "negative block shape");
    check_malformed(4, &stream(4, i32::MIN, &[]), 4, "negative block shape");
    check_malformed(4, &[&[3], &stream(4, 4, &[&[0x40, 1]])[1..]].concat(), 16, "not two-dimensional");
    for (height, width) in [(4, 5), (3, 4), (0, 4), (i32::MAX, i32::MAX), (65_536, 65_536)] {
        let result = decoded(4, &stream(height, width, &[&[0x40, 1]]), 16);
        assert!(matches!(result, Err(CodecError::WrongLength { expected: 16, .. })), "{result:?}");
    }
    for (height, width) in [(0, 0), (0, i32::MAX), (i32::MAX, 0)] {
        assert_eq!(decoded(4, &stream(height, width, &[]), 0), Ok(vec![]));
    }
    assert_eq!(decoded(4, &stream(1, 1, &[&[0x40, 9]]), 1), Ok(vec![9]));
    assert_eq!(decoded(8, &stream(1, 1, &[&[0x00, 9]]), 1), Ok(vec![9]));
}

#[test]
fn what_is_not_supported() {
    let cx = CodecContext::new(5);
    assert!(matches!(codec(CodecId::NDLZ).encoder(&cx.meta(4)), Err(CodecError::Unsupported { .. })));
    for meta in [0, 1, 5, 16, 255] {
        assert!(matches!(codec(CodecId::NDLZ).decoder(&cx.meta(meta)), Err(CodecError::Unsupported { .. })));
    }
    let dict = cx.meta(4).dict(Some(b"abc"));
    assert!(matches!(codec(CodecId::NDLZ).decoder(&dict), Err(CodecError::Unsupported { .. })));
}

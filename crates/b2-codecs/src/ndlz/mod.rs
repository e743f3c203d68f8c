//! NDLZ: the 2-D codec for single bytes, decoding only.
//!
//! ```text
//! stream = u8 2, i32 b0, i32 b1 (block shape, little-endian), then one token per cell of c x c bytes,
//!          cells in row-major order, those at the far edges smaller
//! token    any cell     00: literal bytes    40: one byte, repeated    c0: u16 offset, a whole cell there
//!          c = 4        28-3f, 80-bf, e0-ff: rows of 4 bytes from one or two offsets, the others literal
//!          c = 8        88-8f, a8-af: two or three consecutive rows from an offset, the others literal
//! ```
//!
//! An offset counts back from the token, in the *stream*: cells are copied from earlier literal bytes, not from
//! the output. The codec's parameter byte is the cell side, 4 or 8. (Chunk format, ndlz.)

use crate::{Codec, CodecContext, CodecError, CodecId, CodecProperties, Decoder, Encoder};

/// The ndlz codec, decoding only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ndlz;

impl Codec for Ndlz {
    fn id(&self) -> CodecId {
        CodecId::NDLZ
    }
    fn name(&self) -> &str {
        "ndlz"
    }
    fn properties(&self) -> CodecProperties {
        CodecProperties::UNKNOWN.lossless(true)
    }
    fn encoder(&self, _cx: &CodecContext<'_>) -> Result<Box<dyn Encoder>, CodecError> {
        Err(unsupported("encoding"))
    }
    fn decoder(&self, cx: &CodecContext<'_>) -> Result<Box<dyn Decoder>, CodecError> {
        if cx.dict.is_some() {
            return Err(unsupported("dictionaries"));
        }
        match cx.meta {
            4 => Ok(Box::new(NdlzDecoder::<4>)),
            8 => Ok(Box::new(NdlzDecoder::<8>)),
            _ => Err(unsupported("cell sides other than 4 and 8")),
        }
    }
}

/// A decoder for cells of `C` by `C` bytes.
struct NdlzDecoder<const C: usize>;

impl<const C: usize> Decoder for NdlzDecoder<C> {
    fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        let mut input = Input { src, pos: 0 };
        if input.byte()? != 2 {
            return Err(malformed(0, "not two-dimensional"));
        }
        let (height, width) = (input.dimension()?, input.dimension()?);
        if height.checked_mul(width) != Some(dst.len()) {
            let got = height.saturating_mul(width);
            return Err(CodecError::WrongLength { codec: CodecId::NDLZ, got, expected: dst.len() });
        }
        // If the height or width is 0, there are no cells.
        if dst.is_empty() {
            return Ok(());
        }
        for top in (0..height).step_by(C) {
            for left in (0..width).step_by(C) {
                let rows = C.min(height - top);
                let columns = C.min(width - left);
                let mut cell = Cell { dst, start: top * width + left, stride: width, rows, columns };
                decode_cell::<C>(&mut input, &mut cell)?;
            }
        }
        Ok(())
    }
}

fn decode_cell<const C: usize>(input: &mut Input<'_>, cell: &mut Cell<'_>) -> Result<(), CodecError> {
    let token_at = input.pos;
    let token = input.byte()?;
    match token {
        0x00 => cell.fill_from(input.take(cell.len())?),
        0x40 => cell.fill_with(input.byte()?),
        0xc0 => {
            let from = input.back_reference(token_at)?;
            cell.fill_from(input.at(from, cell.len())?);
        }
        _ => {
            let sources = row_sources::<C>(token).ok_or_else(|| malformed(token_at, "unknown token"))?;
            if cell.len() != C * C {
                return Err(malformed(token_at, "rows in a cell that is not whole"));
            }
            let mut from = [0; 2];
            for reference in &mut from[..sources.references] {
                *reference = input.back_reference(token_at)?;
            }
            for row in 0..C {
                let bytes = match sources.of[row] {
                    Row::Referred { reference, index } => input.at(from[reference] + index * C, C)?,
                    Row::Literal => input.take(C)?,
                };
                cell.row(row).copy_from_slice(bytes);
            }
        }
    }
    Ok(())
}

/// The source of a row of a cell.
#[derive(Clone, Copy)]
enum Row {
    /// Literal bytes of the token.
    Literal,
    /// Row `index` of those at an offset in the token.
    Referred { reference: usize, index: usize },
}

struct RowSources {
    /// Number of offsets in the token.
    references: usize,
    of: [Row; 8],
}

impl RowSources {
    /// The given rows come from one offset, in this order; the others are literal.
    fn one(rows: impl IntoIterator<Item = usize>) -> Self {
        let mut of = [Row::Literal; 8];
        for (index, row) in rows.into_iter().enumerate() {
            of[row] = Row::Referred { reference: 0, index };
        }
        Self { references: 1, of }
    }

    /// Rows 0 and `second` come from the first offset, the other two rows of a cell of 4 from the second.
    fn two(second: usize) -> Self {
        let mut of = [Row::Literal; 8];
        let mut index = 0;
        for (row, source) in of.iter_mut().enumerate().take(4) {
            *source = match row {
                0 => Row::Referred { reference: 0, index: 0 },
                _ if row == second => Row::Referred { reference: 0, index: 1 },
                _ => {
                    index += 1;
                    Row::Referred { reference: 1, index: index - 1 }
                }
            };
        }
        Self { references: 2, of }
    }
}

/// Returns the row sources of a token, or `None` if the token is undefined.
fn row_sources<const C: usize>(token: u8) -> Option<RowSources> {
    let kind = usize::from(token >> 3);
    if C == 8 {
        let first = usize::from(token & 7);
        let count = match kind {
            17 => 2,
            21 => 3,
            _ => return None,
        };
        return (first + count <= 8).then(|| RowSources::one(first..first + count));
    }
    // The low three bits of these tokens are ignored, except in 80.
    match kind {
        5..=7 => Some(RowSources::two(kind - 4)),
        16..=23 if token == 0x80 => Some(RowSources::one([2, 3])),
        16..=23 => {
            let (i, j) = ((kind - 16) / 4, (kind - 16) % 4);
            (i < j).then(|| RowSources::one([i, j]))
        }
        28 => Some(RowSources::one([1, 2, 3])),
        29 => Some(RowSources::one([0, 1, 2])),
        30 => Some(RowSources::one([0, 1, 3])),
        31 => Some(RowSources::one([0, 2, 3])),
        _ => None,
    }
}

/// One cell of the output.
struct Cell<'a> {
    dst: &'a mut [u8],
    start: usize,
    /// Distance between rows, in bytes.
    stride: usize,
    rows: usize,
    columns: usize,
}

impl Cell<'_> {
    fn len(&self) -> usize {
        self.rows * self.columns
    }
    fn row(&mut self, row: usize) -> &mut [u8] {
        let start = self.start + row * self.stride;
        &mut self.dst[start..start + self.columns]
    }
    fn fill_from(&mut self, bytes: &[u8]) {
        for (row, bytes) in bytes.chunks_exact(self.columns).enumerate() {
            self.row(row).copy_from_slice(bytes);
        }
    }
    fn fill_with(&mut self, byte: u8) {
        for row in 0..self.rows {
            self.row(row).fill(byte);
        }
    }
}

/// The stream, read sequentially, with random access for references.
struct Input<'a> {
    src: &'a [u8],
    pos: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let bytes = self.at(self.pos, len)?;
        self.pos += len;
        Ok(bytes)
    }
    fn at(&self, pos: usize, len: usize) -> Result<&'a [u8], CodecError> {
        pos.checked_add(len)
            .and_then(|end| self.src.get(pos..end))
            .ok_or_else(|| malformed(self.pos, "stream is truncated"))
    }
    fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.take(1)?[0])
    }
    fn dimension(&mut self) -> Result<usize, CodecError> {
        let at = self.pos;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| malformed(at, "negative block shape"))
    }
    /// Reads an offset. Returns the position that many bytes before `token_at`.
    fn back_reference(&mut self, token_at: usize) -> Result<usize, CodecError> {
        let mut bytes = [0; 2];
        bytes.copy_from_slice(self.take(2)?);
        let offset = usize::from(u16::from_le_bytes(bytes));
        token_at.checked_sub(offset).ok_or_else(|| malformed(token_at, "offset before the stream"))
    }
}

#[cold]
fn malformed(offset: usize, what: &'static str) -> CodecError {
    CodecError::Malformed { codec: CodecId::NDLZ, offset, what }
}

#[cold]
fn unsupported(what: &'static str) -> CodecError {
    CodecError::Unsupported { codec: CodecId::NDLZ, what }
}

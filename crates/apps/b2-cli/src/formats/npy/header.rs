//! The header of an `.npy` file, versions 1, 2 and 3.
//!
//! ```text
//! 93 "NUMPY" | major u8 | minor u8 | length (u16 in version 1, else u32) | text, blanks, "\n" | items
//! ```
//!
//! The text is a Python dict with the keys `descr`, `fortran_order` and `shape`: Latin-1 in versions 1 and 2, UTF-8 in
//! version 3. The length is little-endian. The items start at a multiple of 64.

use std::io::{self, Read};

use anyhow::{Context, Result, anyhow, bail, ensure};

use b2kit::Dtype;
use b2kit::nd::literal::{self, Literal};

use b2_view::npy::{MAGIC, descr};

use crate::print::{count, thousands};

/// Maximum length of the text; NumPy's own limit is 10 000 by default.
const MAX_TEXT: u32 = 1 << 20;

/// Contents of an `.npy` header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NpyHeader {
    /// The dtype, in the notation of a b2nd metalayer.
    pub(crate) dtype: Dtype,
    /// Whether the first dimension varies fastest.
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<u64>,
    /// Offset of the first item, from the start of the file.
    pub(crate) data_offset: u64,
    /// Size of all items, in bytes.
    pub(crate) nbytes: u64,
}

impl NpyHeader {
    /// Reads the header from the start of `file`.
    ///
    /// # Errors
    /// Fails with the field and its offset if the header is invalid. Also fails if the items are Python objects.
    pub(crate) fn read(file: &mut impl Read) -> Result<Self> {
        let mut start = [0u8; 8];
        file.read_exact(&mut start).map_err(truncated).context("npy magic (offset 0)")?;
        ensure!(start.starts_with(MAGIC), "npy magic (offset 0): not an .npy file");
        let [.., major, minor] = start;
        let (text_len, text_offset) = match major {
            1 => {
                let mut len = [0u8; 2];
                file.read_exact(&mut len).map_err(truncated).context("npy header length (offset 8)")?;
                (u32::from(u16::from_le_bytes(len)), 10u64)
            }
            2 | 3 => {
                let mut len = [0u8; 4];
                file.read_exact(&mut len).map_err(truncated).context("npy header length (offset 8)")?;
                (u32::from_le_bytes(len), 12)
            }
            _ => bail!("npy version (offset 6): {major}.{minor} is not known"),
        };
        ensure!(text_len <= MAX_TEXT, "npy header length (offset 8): {text_len} is above {MAX_TEXT}");
        let mut text = vec![0u8; text_len as usize];
        file.read_exact(&mut text)
            .map_err(truncated)
            .with_context(|| format!("npy header (offset {text_offset}, {text_len} bytes)"))?;
        Self::parse(major, &text, text_offset + u64::from(text_len))
            .with_context(|| format!("npy header (offset {text_offset})"))
    }

    /// Checks that a file of `len` bytes contains all items.
    pub(crate) fn check_len(&self, len: u64) -> Result<()> {
        let have = len.saturating_sub(self.data_offset);
        ensure!(
            self.nbytes <= have,
            "items: {} bytes expected at offset {}, the file ends after {have}",
            self.nbytes,
            self.data_offset
        );
        Ok(())
    }

    fn parse(major: u8, text: &[u8], data_offset: u64) -> Result<Self> {
        let text = match major {
            // Latin-1: each byte is the code point of a character.
            1 | 2 => text.iter().copied().map(char::from).collect(),
            _ => String::from_utf8(text.to_vec())?,
        };
        let dict = literal::parse(&text).map_err(|(at, what)| anyhow!("{what} at byte {at}"))?;
        let field = |key: &str| lookup(&dict, key).with_context(|| format!("{key}: missing"));
        let dtype = descr::from_npy(field("descr")?).context("descr")?;
        ensure!(dtype.itemsize() > 0, "descr: the item size of {dtype} is 0");
        let fortran_order = match field("fortran_order")? {
            Literal::Bool(b) => *b,
            other => bail!("fortran_order: {other} is neither True nor False"),
        };
        let shape = match field("shape")? {
            Literal::Tuple(dims) => dims
                .iter()
                .map(|dim| length(dim).with_context(|| format!("shape: {dim} is not a length")))
                .collect::<Result<Vec<_>>>()?,
            other => bail!("shape: {other} is not a tuple"),
        };
        let nbytes = nbytes(&shape, dtype.itemsize() as u64).context("shape: too many items")?;
        Ok(Self { dtype, fortran_order, shape, data_offset, nbytes })
    }
}

/// The error for data after an array that ends at byte `end`, in a file of `len` bytes. `another`: the data is another
/// array.
pub(crate) fn data_after(end: u64, len: u64, another: bool) -> anyhow::Error {
    let (bytes, at) = (count(len.saturating_sub(end), "byte"), thousands(end));
    match another {
        true => anyhow!(
            "{bytes} after the array, at offset {at}: another array (pack, append and insert take array by \
             array with --each)"
        ),
        false => anyhow!("{bytes} after the array, at offset {at}"),
    }
}

fn lookup<'a>(dict: &'a Literal, key: &str) -> Option<&'a Literal> {
    match dict {
        Literal::Dict(items) => {
            items.iter().find(|(k, _)| matches!(k, Literal::Str(s) if s == key)).map(|(_, value)| value)
        }
        _ => None,
    }
}

fn length(literal: &Literal) -> Option<u64> {
    match literal {
        Literal::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

/// Size of an array in bytes; `None` on overflow. 0 if any length is 0, whatever the others are.
pub(crate) fn nbytes(shape: &[u64], itemsize: u64) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(itemsize, |total, dim| total.checked_mul(*dim))
        .filter(|n| i64::try_from(*n).is_ok())
}

fn truncated(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => anyhow!("the file ends here"),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use b2_view::npy::header_bytes;

    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([version, 0]);
        let text: Vec<u8> = match version {
            1 | 2 => text.chars().map(|c| u32::from(c) as u8).collect(),
            _ => text.as_bytes().to_vec(),
        };
        match version {
            1 => out.extend((text.len() as u16).to_le_bytes()),
            _ => out.extend((text.len() as u32).to_le_bytes()),
        }
        out.extend(text);
        out
    }

    #[test]
    fn reads_all_versions() {
        for version in [1, 2, 3] {
            let bytes =
                file(version, "{'descr': [('é', '>i4')], 'fortran_order': True, 'shape': (3, 4L), }  \n");
            let header = NpyHeader::read(&mut bytes.as_slice()).unwrap();
            assert_eq!(header.dtype.as_str(), "[('é', '>i4')]");
            assert_eq!(header.nbytes, 48);
            assert!(header.fortran_order);
            assert_eq!(header.shape, [3, 4]);
            assert_eq!(header.data_offset, bytes.len() as u64);
        }
    }

    #[test]
    fn errors_name_field_and_offset() {
        let good = "{'descr': '<i4', 'fortran_order': False, 'shape': (), }";
        let cases = [
            (
                file(1, "{'descr': '|O', 'fortran_order': False, 'shape': ()}"),
                "npy header (offset 10): descr: dtype \"|O\", byte 0: Python objects cannot be stored",
            ),
            (file(1, "{'descr': '<i4', 'shape': ()}"), "npy header (offset 10): fortran_order: missing"),
            (
                file(1, "{'descr': '<i4', 'fortran_order': 0, 'shape': ()}"),
                "npy header (offset 10): fortran_order: 0 is neither True nor False",
            ),
            (
                file(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}"),
                "npy header (offset 10): shape: -1 is not a length",
            ),
            (
                file(2, "{'descr': '<i4', 'fortran_order': False, 'shape': 3}"),
                "npy header (offset 12): shape: 3 is not a tuple",
            ),
            (
                file(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
                "npy header (offset 10): shape: too many items",
            ),
            (
                file(1, "{'descr': '<U0', 'fortran_order': False, 'shape': ()}"),
                "npy header (offset 10): descr: the item size of <U0 is 0",
            ),
            (
                file(1, "{'descr': 'q', 'fortran_order': False, 'shape': ()}"),
                "npy header (offset 10): descr: dtype \"q\", byte 0: the size is missing or too large",
            ),
            (
                file(1, "os.exit()"),
                "npy header (offset 10): expected a string, number, list, tuple or dictionary at byte 0",
            ),
            (file(4, good), "npy version (offset 6): 4.0 is not known"),
            (b"NUMPY???".to_vec(), "npy magic (offset 0): not an .npy file"),
            (b"\x93NUM".to_vec(), "npy magic (offset 0): the file ends here"),
            (b"\x93NUMPY\x01\x00\x05".to_vec(), "npy header length (offset 8): the file ends here"),
            (b"\x93NUMPY\x01\x00\x05\x00abc".to_vec(), "npy header (offset 10, 5 bytes): the file ends here"),
            (
                b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(),
                "npy header length (offset 8): 4294967295 is above 1048576",
            ),
        ];
        for (bytes, message) in cases {
            let error = NpyHeader::read(&mut bytes.as_slice()).unwrap_err();
            assert_eq!(format!("{error:#}"), message);
        }
    }

    fn written(dtype: &str, shape: &[u64]) -> Vec<u8> {
        header_bytes(&Dtype::parse(dtype).unwrap(), shape).unwrap()
    }

    #[test]
    fn writes_what_numpy_writes() {
        let header = written("<f4", &[720, 1440]);
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (720, 1440), }";
        assert_eq!(header.len(), 128);
        assert_eq!(header[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(header[10..10 + text.len()], *text.as_bytes());
        assert!(header[10 + text.len()..127].iter().all(|b| *b == b' '));
        assert_eq!(header[127], b'\n');
        for (dtype, shape) in [("<f4", vec![]), ("[('é', '<i4')]", vec![0, 5]), ("[('字', '<U4')]", vec![7])]
        {
            let header = written(dtype, &shape);
            assert_eq!(header.len() % 64, 0);
            let back = NpyHeader::read(&mut header.as_slice()).unwrap();
            assert_eq!(
                (back.dtype.as_str(), back.shape, back.data_offset as usize),
                (dtype, shape, header.len())
            );
        }
        assert_eq!(written("[('字', '<U4')]", &[7])[6], 3, "Latin-1 cannot hold it");
        let long = format!("[('{}', '<i4')]", "a".repeat(70_000));
        let header = written(&long, &[7]);
        assert_eq!((header[6], header.len() % 64), (2, 0));
    }
}

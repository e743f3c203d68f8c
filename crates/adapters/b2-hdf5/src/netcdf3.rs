//! NetCDF 3: the classic format and its two variants for large files. It is simple enough to be read here: a header, then arrays.

use std::collections::BTreeSet;
use std::sync::Arc;

use b2_core::{Limits, memory};
use b2_frame::ReadAt;
use b2nd::{Dtype, Value};

use crate::boxes::{Place, product};
use crate::{Hdf5Error, attrs};

/// Bytes of the header that are read at a time.
const HEADER_STEP: u64 = 64 << 10;
const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;

/// Whether a file starts like NetCDF 3.
pub(crate) fn is_netcdf3(head: &[u8]) -> bool {
    matches!(head, [b'C', b'D', b'F', 1 | 2 | 5, ..])
}

/// The header of a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) attrs: Vec<(String, Value)>,
    pub(crate) variables: Vec<Arc<Variable>>,
}

/// A variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) dims: Vec<String>,
    pub(crate) attrs: Vec<(String, Value)>,
    begin: u64,
    /// Bytes from one record to the next, for variables that have records.
    record: Option<u64>,
}

impl Variable {
    /// Returns the size of the variable in the file.
    pub(crate) fn nbytes(&self) -> u64 {
        product(&self.shape).saturating_mul(self.dtype.itemsize() as u64)
    }

    /// Returns the maximum length of each dimension; `None` for that of the records.
    pub(crate) fn max_shape(&self) -> Vec<Option<u64>> {
        let is_record = |axis| axis == 0 && self.record.is_some();
        self.shape.iter().enumerate().map(|(axis, &length)| (!is_record(axis)).then_some(length)).collect()
    }

    /// Reads a box.
    pub(crate) fn read_box(
        &self,
        file: &dyn ReadAt,
        start: &[u64],
        shape: &[u64],
        dst: &mut [u8],
    ) -> std::io::Result<()> {
        let itemsize = self.dtype.itemsize();
        let whole = &self.shape;
        let Some(record) = self.record else {
            return Place { whole, start, shape, itemsize }.read(file, self.begin, dst);
        };
        let ([first, start @ ..], [count, shape @ ..], [_, whole @ ..]) = (start, shape, &whole[..]) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let place = Place { whole, start, shape, itemsize };
        let part = usize::try_from(product(shape)).unwrap_or(usize::MAX).saturating_mul(itemsize);
        // The records are contiguous if there is only one record variable and each record is one number.
        if whole.is_empty() && record == itemsize as u64 {
            let all = Place { whole: &self.shape, start: &[*first], shape: &[*count], itemsize };
            return all.read(file, self.begin, dst);
        }
        for (n, dst) in (*first..).zip(dst.chunks_mut(part.max(1))) {
            place.read(file, self.begin.saturating_add(n.saturating_mul(record)), dst)?;
        }
        Ok(())
    }
}

/// Reads the header of a file.
pub(crate) fn open(file: &dyn ReadAt, name: &str, limits: &Limits) -> Result<Header, Hdf5Error> {
    let len = file.len().map_err(Hdf5Error::io(name))?;
    let mut size = HEADER_STEP;
    loop {
        let nbytes = size.min(len);
        limits.check_memory("header, in bytes", nbytes).map_err(Hdf5Error::limit(name))?;
        let failed = |error: b2_core::OutOfMemory| Hdf5Error::damaged(name, error.to_string());
        let mut bytes = memory::zeroed(usize::try_from(nbytes).unwrap_or(usize::MAX)).map_err(failed)?;
        file.read_exact_at(0, &mut bytes).map_err(Hdf5Error::io(name))?;
        match parse(&bytes, len) {
            Ok(header) => return Ok(header),
            // The header may be longer than the bytes read.
            Err(HeaderError::Short) if nbytes < len => size = size.saturating_mul(4),
            Err(HeaderError::Short) => return Err(Hdf5Error::damaged(name, "the header is cut off")),
            Err(HeaderError::Contradiction(what)) => return Err(Hdf5Error::damaged(name, what)),
        }
    }
}

enum HeaderError {
    /// The header is longer than the bytes read.
    Short,
    Contradiction(&'static str),
}

type Result<T, E = HeaderError> = std::result::Result<T, E>;

struct Parser<'a> {
    rest: &'a [u8],
    /// Whether counts have 64 bits (version 5).
    is_wide: bool,
    /// Whether offsets have 64 bits (versions 2 and 5).
    has_long_offsets: bool,
}

impl<'a> Parser<'a> {
    fn bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| HeaderError::Short)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(HeaderError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(HeaderError::Short)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn count(&mut self) -> Result<u64> {
        if self.is_wide { self.u64() } else { self.u32().map(u64::from) }
    }

    fn offset(&mut self) -> Result<u64> {
        if self.has_long_offsets { self.u64() } else { self.u32().map(u64::from) }
    }

    /// Bytes that are padded to a multiple of 4.
    fn padded(&mut self, len: u64) -> Result<&'a [u8]> {
        let bytes = self.bytes(len)?;
        self.bytes(len.wrapping_neg() % 4)?;
        Ok(bytes)
    }

    fn name(&mut self) -> Result<String> {
        let len = self.count()?;
        let bytes = self.padded(len)?;
        // SciPy writes Latin-1.
        Ok(std::str::from_utf8(bytes)
            .map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned))
    }

    /// The number of entries of a list. Each takes at least 8 bytes, so that no number causes a large allocation.
    fn list(&mut self, tag: u32) -> Result<u64> {
        let (found, count) = (self.u32()?, self.count()?);
        if count == 0 {
            return Ok(0);
        }
        if found != tag {
            return Err(HeaderError::Contradiction("a list of the header has a wrong tag"));
        }
        if count > self.rest.len() as u64 / 8 {
            return Err(HeaderError::Short);
        }
        Ok(count)
    }

    fn attributes(&mut self) -> Result<Vec<(String, Value)>> {
        let count = self.list(ATTRIBUTES)?;
        (0..count)
            .map(|_| {
                let name = self.name()?;
                let (code, _) = kind(self.u32()?)?;
                let items = self.count()?;
                if code == "|S1" {
                    return Ok((name, attrs::text(self.padded(items)?)));
                }
                let dtype = dtype(code)?;
                let data = self.padded(items.saturating_mul(dtype.itemsize() as u64))?;
                Ok((name, attrs::value(&dtype, &[items], data)))
            })
            .collect()
    }
}

/// The dtype and the size of a type.
fn kind(code: u32) -> Result<(&'static str, u64)> {
    Ok(match code {
        1 => ("|i1", 1),
        2 => ("|S1", 1),
        3 => (">i2", 2),
        4 => (">i4", 4),
        5 => (">f4", 4),
        6 => (">f8", 8),
        7 => ("|u1", 1),
        8 => (">u2", 2),
        9 => (">u4", 4),
        10 => (">i8", 8),
        11 => (">u8", 8),
        _ => return Err(HeaderError::Contradiction("a type that does not exist")),
    })
}

fn dtype(code: &str) -> Result<Dtype> {
    Dtype::parse(code).map_err(|_| HeaderError::Contradiction("a type that does not exist"))
}

fn parse(bytes: &[u8], len: u64) -> Result<Header> {
    let version = bytes.get(3).copied().ok_or(HeaderError::Short)?;
    let rest = bytes.get(4..).ok_or(HeaderError::Short)?;
    let mut parser = Parser { rest, is_wide: version == 5, has_long_offsets: version != 1 };
    let records = parser.count()?;
    let is_streamed = records == if parser.is_wide { u64::MAX } else { u32::MAX.into() };
    let count = parser.list(DIMENSIONS)?;
    let dims = (0..count).map(|_| Ok((parser.name()?, parser.count()?))).collect::<Result<Vec<_>>>()?;
    let attrs = parser.attributes()?;
    let count = parser.list(VARIABLES)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let name = parser.name()?;
        let ndim = parser.count()?;
        if ndim > parser.rest.len() as u64 / 4 {
            return Err(HeaderError::Short);
        }
        let dims = (0..ndim)
            .map(|_| {
                let dim = usize::try_from(parser.count()?).ok().and_then(|id| dims.get(id));
                dim.ok_or(HeaderError::Contradiction("a dimension that does not exist"))
            })
            .collect::<Result<Vec<_>>>()?;
        let attrs = parser.attributes()?;
        let (code, size) = kind(parser.u32()?)?;
        // The stored size is that of the shape, or wrong if that does not fit.
        parser.count()?;
        let begin = parser.offset()?;
        found.push((name, dims, attrs, dtype(code)?, size, begin));
    }
    // A dimension of length 0 counts records; it is the first of a variable.
    let of_record = |dims: &[&(String, u64)]| dims.first().is_some_and(|dim| dim.1 == 0);
    let inner = |dims: &[&(String, u64)]| -> u64 {
        let lengths: Vec<u64> = dims.iter().skip(1).map(|dim| dim.1).collect();
        product(&lengths)
    };
    let recorded = found.iter().filter(|(_, dims, ..)| of_record(dims));
    let sizes: Vec<u64> = recorded.map(|(_, dims, .., size, _)| inner(dims).saturating_mul(*size)).collect();
    // Each part of a record is padded to 4 bytes, unless it is the only one.
    let record = match &sizes[..] {
        [only] => *only,
        sizes => sizes.iter().fold(0_u64, |n, &size| n.saturating_add(size.div_ceil(4).saturating_mul(4))),
    };
    let records = match is_streamed {
        true => {
            let first = found.iter().filter(|(_, dims, ..)| of_record(dims)).map(|found| found.5).min();
            first.map_or(0, |first| len.saturating_sub(first).checked_div(record).unwrap_or(0))
        }
        false => records,
    };
    let mut names = BTreeSet::new();
    let mut variables = Vec::new();
    for (name, dims, attrs, dtype, size, begin) in found {
        let is_record = of_record(&dims);
        let mut shape: Vec<u64> = dims.iter().map(|dim| dim.1).collect();
        if let (true, Some(first)) = (is_record, shape.first_mut()) {
            *first = records;
        }
        let end = match is_record && records > 0 {
            true => begin
                .saturating_add(records.saturating_sub(1).saturating_mul(record))
                .saturating_add(inner(&dims).saturating_mul(size)),
            false => begin.saturating_add(product(&shape).saturating_mul(size)),
        };
        if end > len && product(&shape) > 0 {
            return Err(HeaderError::Contradiction(
                "the data of a variable would lie after the end of the file",
            ));
        }
        if !names.insert(name.clone()) {
            return Err(HeaderError::Contradiction("two variables have the same name"));
        }
        let dims = dims.iter().map(|dim| dim.0.clone()).collect();
        let record = is_record.then_some(record);
        variables.push(Arc::new(Variable { name, dtype, shape, dims, attrs, begin, record }));
    }
    Ok(Header { attrs, variables })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// A file with a record variable of 3 shorts, and a fixed one of 2 ints.
    fn file() -> Vec<u8> {
        let mut out = b"CDF\x01".to_vec();
        let word = |out: &mut Vec<u8>, n: u32| out.extend(n.to_be_bytes());
        word(&mut out, 2);
        word(&mut out, DIMENSIONS);
        word(&mut out, 3);
        for (name, length) in [("time", 0), ("x", 3), ("y", 2)] {
            word(&mut out, name.len() as u32);
            out.extend(format!("{name:\0<4}").as_bytes());
            word(&mut out, length);
        }
        word(&mut out, ATTRIBUTES);
        word(&mut out, 1);
        word(&mut out, 5);
        out.extend(b"title\0\0\0");
        word(&mut out, 2);
        word(&mut out, 3);
        out.extend(b"abc\0");
        word(&mut out, VARIABLES);
        word(&mut out, 2);
        let fixed = 200;
        for (name, dims, kind, begin) in [("v", vec![0, 1], 3, fixed + 8), ("w", vec![2], 4, fixed)] {
            word(&mut out, 1);
            out.extend(format!("{name:\0<4}").as_bytes());
            word(&mut out, dims.len() as u32);
            for dim in dims {
                word(&mut out, dim);
            }
            word(&mut out, 0);
            word(&mut out, 0);
            word(&mut out, kind);
            word(&mut out, 8);
            word(&mut out, begin);
        }
        out.resize(fixed as usize, 0xEE);
        out.extend([0, 0, 0, 1, 0, 0, 0, 2]);
        out.extend([0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]);
        out
    }

    #[test]
    fn records_are_read() {
        let file = Bytes::from(file());
        let header = open(&file, "x.nc", &Limits::default()).unwrap();
        assert_eq!(header.attrs, [("title".to_owned(), Value::from("abc"))]);
        let variable = &header.variables[0];
        assert_eq!((&variable.shape[..], variable.dtype.as_str()), (&[2, 3][..], ">i2"));
        assert_eq!(variable.dims, ["time", "x"]);
        let mut dst = [0; 4];
        variable.read_box(&file, &[0, 1], &[2, 1], &mut dst).unwrap();
        assert_eq!(dst, [0, 2, 0, 5]);
        let mut dst = [0; 8];
        header.variables[1].read_box(&file, &[0], &[2], &mut dst).unwrap();
        assert_eq!(dst, [0, 0, 0, 1, 0, 0, 0, 2]);
    }

    #[test]
    fn damage_is_an_error() {
        let whole = file();
        for len in 0..whole.len() {
            assert!(open(&Bytes::copy_from_slice(&whole[..len]), "", &Limits::default()).is_err(), "{len}");
        }
        let mut seed = 7_u32;
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (seed >> 8) as usize % 200;
                bytes[at] = (seed >> 24) as u8;
            }
            let _ = open(&Bytes::from(bytes), "", &Limits::default());
        }
    }
}

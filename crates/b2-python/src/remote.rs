//! Arrays in stores that are read through Python, with one call for many ranges: object stores and web servers, by
//! means of fsspec or obstore.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use b2kit::frame::{Extent, FrameError, Read, ReadAt};
use b2kit::nd::{NdError, Selected};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::wrong_type;

/// No more ranges are added to a call once they have this many bytes in total.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of ranges in a call.
const MAX_RANGES: usize = 512;

/// A Python function that returns several byte ranges at once.
pub(crate) struct Remote {
    fetch: Py<PyAny>,
    len: u64,
    name: Arc<str>,
}

impl Remote {
    /// Wraps a `source` with the attributes `size` and `fetch`, a function that takes a list of pairs of offsets and
    /// returns a list of bytes.
    pub(crate) fn new(source: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let fetch = source.getattr("fetch")?.unbind();
        Ok(Self { fetch, len: source.getattr("size")?.extract()?, name: name.into() })
    }

    fn call(&self, py: Python<'_>, ranges: &[Range<u64>]) -> PyResult<Vec<Bytes>> {
        let asked = PyList::new(py, ranges.iter().map(|range| (range.start, range.end)))?;
        let answers = self.fetch.bind(py).call1((asked,))?;
        let mut found = Vec::with_capacity(ranges.len());
        for answer in answers.try_iter()? {
            let answer = answer?;
            match crate::array::bytes_of(&answer)? {
                Some(bytes) => found.push(bytes),
                None => return Err(wrong_type(format!("{} is no bytes", answer.get_type()))),
            }
        }
        Ok(found)
    }

    fn fetch(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let found = match Python::try_attach(|py| self.call(py, ranges)) {
            Some(found) => found.map_err(io::Error::other)?,
            None => return Err(io::Error::other("the interpreter has ended")),
        };
        let short = found.len() != ranges.len()
            || found.iter().zip(ranges).any(|(bytes, range)| bytes.len() as u64 != range.end - range.start);
        if short {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the store has answered fewer bytes than it was asked for",
            ));
        }
        Ok(found)
    }

    /// Returns the range of an extent, cut off at the end of the file if the extent allows that.
    fn range(&self, extent: &Extent) -> Result<Range<u64>, NdError> {
        let Range { start, end } = extent.range;
        if end > self.len && !extent.or_less {
            return Err(FrameError::OutOfRange { what: "file bytes", start, end, len: self.len })?;
        }
        Ok(start..end.min(self.len).max(start))
    }

    /// Reads a selection, fetching all ranges known to be needed with one call.
    pub(crate) fn drive(&self, read: &mut Read<'_, Selected>) -> Result<(), NdError> {
        loop {
            let (mut ids, mut ranges, mut total) = (Vec::new(), Vec::new(), 0);
            while total < MAX_BYTES
                && ranges.len() < MAX_RANGES
                && let Some(request) = read.need()?
            {
                let range = self.range(&request.extent)?;
                total += range.end - range.start;
                ids.push(request.id);
                ranges.push(range);
            }
            let (full, empty): (Vec<_>, Vec<_>) =
                ids.iter().copied().zip(&ranges).partition(|(_, range)| range.start < range.end);
            let asked: Vec<Range<u64>> = full.iter().map(|(_, range)| (*range).clone()).collect();
            let answers = self
                .fetch(&asked)
                .map_err(|source| FrameError::Io { name: self.name.to_string(), source })?;
            for (id, bytes) in full.iter().map(|(id, _)| *id).zip(answers) {
                read.put(id, bytes)?;
            }
            for (id, _) in &empty {
                read.put(*id, Bytes::new())?;
            }
            let mut worked = false;
            while let Some(job) = read.job() {
                worked = true;
                job.run()?;
            }
            if ids.is_empty() && !worked {
                return Ok(());
            }
        }
    }
}

impl ReadAt for Remote {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.read_at(offset..offset + buf.len() as u64)?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_at(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        let mut found = self.fetch(std::slice::from_ref(&range))?;
        found.pop().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

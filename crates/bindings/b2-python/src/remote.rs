//! Arrays in stores that are read through Python, with one call for many ranges: object stores and web servers, by
//! means of fsspec or obstore.

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use b2_http::Http;
use b2kit::frame::{
    FrameError, Job, OpenResponse, RangeResponse, Read, ReadAt, RemoteFile, RemoteSource, RequestBudget,
    Version,
};
use b2kit::nd::{NdError, SelectionRead};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::wrong_type;
use crate::source::bytes_of;

/// The ranges of a call.
const BUDGET: RequestBudget = RequestBudget { requests: 512, bytes: 64 << 20 };

/// A Python function that returns several byte ranges in one call.
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
            match bytes_of(&answer)? {
                Some(bytes) => found.push(bytes),
                None => return Err(wrong_type(format!("{} is not bytes", answer.get_type()))),
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

    /// Reads a selection, fetching all ranges known to be needed with one call.
    pub(crate) fn drive(&self, read: &mut Read<'_, SelectionRead>) -> Result<(), NdError> {
        loop {
            let (mut ids, mut ranges, mut worked) = (Vec::new(), Vec::new(), false);
            while let Some(request) = read.next_request(BUDGET)? {
                worked = true;
                let range = request.extent.within(self.len)?;
                match range.is_empty() {
                    true => read.put(request.id, Bytes::new())?,
                    false => {
                        ids.push(request.id);
                        ranges.push(range);
                    }
                }
            }
            let answers = self.fetch(&ranges).map_err(FrameError::io(&*self.name))?;
            for (id, bytes) in ids.into_iter().zip(answers) {
                read.put(id, bytes)?;
            }
            let jobs: Vec<_> = std::iter::from_fn(|| read.job()).collect();
            if !jobs.is_empty() {
                worked = true;
                let work = jobs.iter().map(|job| job.work()).fold(0, u64::saturating_add);
                let (control, workers) = (read.control().clone(), read.workers());
                let run = |(): &mut (), job: Job<'_, SelectionRead>| job.run();
                b2kit::base::for_each(&control, workers, jobs.into_iter(), work, || Ok(()), run)?;
            }
            if !worked {
                return Ok(());
            }
        }
    }

    /// Returns the file of which the function returns ranges.
    pub(crate) fn file(self: &Arc<Self>) -> Arc<dyn ReadAt> {
        let (none, version) = (Bytes::new(), Version::default());
        let opening = OpenResponse::new(none.clone(), none, self.len, version);
        Arc::new(RemoteFile::new(SingleRange(self.clone()), opening))
    }
}

/// Requests one range at a time, as opening does.
struct SingleRange(Arc<Remote>);

impl RemoteSource for SingleRange {
    fn range(&self, range: Range<u64>) -> io::Result<RangeResponse> {
        let bytes = self.0.fetch(&[range])?.pop().unwrap_or_default();
        Ok(RangeResponse::new(bytes, Version::default()))
    }
}

/// Returns the HTTP connections, which all arrays share.
pub(crate) fn connections() -> &'static Http {
    static CONNECTIONS: LazyLock<Http> = LazyLock::new(Http::default);
    &CONNECTIONS
}

//! The items of one or more inputs, read box by box as one array.

use std::io;
use std::sync::{Mutex, PoisonError};

use b2kit::RegionSource;
use b2kit::nd::{Region, SharedRegions};

use crate::formats::npy::RawSource;
use crate::process::{Progress, buffer, signals};

/// The items of the inputs, which follow each other along an axis.
pub(crate) struct Items {
    parts: Vec<InputPart>,
    axis: usize,
    itemsize: usize,
    progress: Mutex<Progress>,
}

/// One of the inputs.
struct InputPart {
    name: String,
    source: RawSource,
    /// Position along the axis, and length.
    start: u64,
    len: u64,
}

impl Items {
    /// Joins sources of `nbytes` in total along `axis`. Each comes with its name and its length along the axis. `None` if
    /// the lengths overflow.
    pub(crate) fn new(
        sources: Vec<(String, RawSource, u64)>,
        axis: usize,
        itemsize: usize,
        nbytes: u64,
        quiet: bool,
    ) -> Option<Self> {
        let shown = match &sources[..] {
            [] => String::new(),
            [(name, ..)] => name.clone(),
            [(name, ..), more @ ..] => format!("{name} and {} more", more.len()),
        };
        let (mut parts, mut start) = (Vec::with_capacity(sources.len()), 0_u64);
        for (name, source, len) in sources {
            parts.push(InputPart { name, source, start, len });
            start = start.checked_add(len)?;
        }
        Some(Self { parts, axis, itemsize, progress: Mutex::new(Progress::new(shown, nbytes, quiet)) })
    }

    /// Reads a box in C order, which fills `dst`, and counts it for the progress bar.
    ///
    /// # Errors
    /// Errors name the input.
    pub(crate) fn read(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        self.read_again(start, shape, dst)?;
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).add(dst.len() as u64);
        Ok(())
    }

    /// Reads a box like [`read`](Self::read) without counting it, for items that are read a second time.
    ///
    /// # Errors
    /// Errors name the input.
    pub(crate) fn read_again(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        signals::check().map_err(io::Error::other)?;
        if let [part] = &self.parts[..] {
            return part.read(start, shape, dst);
        }
        let (Some(&first), Some(&len)) = (start.get(self.axis), shape.get(self.axis)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a box of other dimensions"));
        };
        if dst.is_empty() {
            return Ok(());
        }
        let (before, after) = (&shape[..self.axis], &shape[self.axis + 1..]);
        // These fit, since `dst` holds all items of the box.
        let count = before.iter().product::<u64>() as usize;
        let step = after.iter().product::<u64>() as usize * self.itemsize;
        let row = len as usize * step;
        let mut at = 0;
        for part in self.overlapping(first, first + len) {
            let (mut start, mut shape) = (start.to_vec(), shape.to_vec());
            let from = first.max(part.start);
            start[self.axis] = from - part.start;
            shape[self.axis] = (first + len).min(part.start + part.len) - from;
            let piece = shape[self.axis] as usize * step;
            if count == 1 {
                part.read(&start, &shape, &mut dst[at..at + piece])?;
            } else {
                let mut items = buffer(count * piece).map_err(io::Error::other)?;
                part.read(&start, &shape, &mut items)?;
                for (row, items) in dst.chunks_exact_mut(row).zip(items.chunks_exact(piece)) {
                    row[at..at + piece].copy_from_slice(items);
                }
            }
            at += piece;
        }
        if at != row {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a box outside the inputs"));
        }
        Ok(())
    }

    /// The parts with positions in `start..end` along the axis.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &InputPart> {
        let first = self.parts.partition_point(|part| part.start + part.len <= start);
        let rest = self.parts[first..].iter();
        rest.take_while(move |part| part.start < end).filter(|part| part.len > 0)
    }

    fn plain(&self) -> bool {
        self.parts.iter().all(|part| part.source.is_plain()) && (self.axis == 0 || self.parts.len() < 2)
    }
}

impl InputPart {
    fn read(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> io::Result<()> {
        let read = self.source.read_box(start, shape, dst);
        read.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.name)))
    }
}

impl RegionSource for Items {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read(region.start(), region.shape(), dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(self)
    }
}

impl RegionSource for &Items {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read(region.start(), region.shape(), dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(*self)
    }
}

impl SharedRegions for Items {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read(region.start(), region.shape(), dst)
    }

    fn is_plain(&self) -> bool {
        self.plain()
    }
}

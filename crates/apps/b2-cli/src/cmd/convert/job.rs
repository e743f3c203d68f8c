//! Code shared by both directions.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Result, ensure};
use b2kit::NdArray;
use b2kit::base::Control;

use super::args::Args;
use crate::args::{Encoding, Global};
use crate::cmd::copy::ranges;
use crate::print::printable;
use crate::process::error::succeeded;
use crate::process::{Progress, signals};

/// A conversion: the input and the options.
pub(super) struct Job<'a> {
    pub(super) args: &'a Args,
    pub(super) encoding: Encoding,
    pub(super) input: &'a Path,
    pub(super) global: Global,
}

impl Job<'_> {
    /// Stops at a signal, and shows how far the work is.
    pub(super) fn control(&self, name: &str, total: u64) -> Control {
        let mut progress = Progress::new(name, total, self.global.quiet);
        let mut shown = 0;
        Control::new().progress(move |now| {
            progress.add(now.nbytes.saturating_sub(shown));
            shown = now.nbytes;
            match signals::check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
    }

    pub(super) fn note_attrs(&self, path: &str, left_out: &[String]) {
        for attr in left_out {
            self.note(&format!("{path}: attribute {attr}: left out"));
        }
    }

    /// Prints a note on standard error.
    pub(super) fn note(&self, line: &str) {
        if !self.global.quiet {
            succeeded(&printable(line));
        }
    }
}

/// Compares all items with those of the file, which `read` reads box by box.
pub(super) fn compare(array: &NdArray, read: impl Fn(&[u64], &[u64], &mut [u8]) -> Result<()>) -> Result<()> {
    let geometry = array.geometry();
    let itemsize = geometry.itemsize();
    for n in 0..geometry.nchunks() {
        signals::check()?;
        let (start, shape) = geometry.chunk_box(&geometry.chunk_coords(n));
        let nbytes = shape.iter().product::<u64>().saturating_mul(itemsize as u64);
        let mut expected = crate::process::buffer(usize::try_from(nbytes)?)?;
        read(&start, &shape, &mut expected)?;
        let found = array.slice(ranges(&start, &shape))?.read_bytes()?;
        ensure!(expected[..] == found[..], "the copy of chunk {n} differs; nothing was written");
    }
    Ok(())
}

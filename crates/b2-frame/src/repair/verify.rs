//! Verifies that all of a frame can be read, and that it is unchanged as far as checksums can show.

use b2_chunk::SpecialKind;

use crate::format::checksums::Checksums;
use crate::format::index::Entry;
use crate::{FrameError, SuperChunk};

/// The result of verifying a frame that can be read: see [`SuperChunk::verify`].
#[derive(Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The result of comparing the checksums; [`Checksums::None`] if there are none or comparing is switched off.
    pub checksums: Checksums,
    /// Findings that no known writer produces, but may be intended: the first few. Not searched for if the checksums
    /// match.
    pub odd: Vec<FrameError>,
    /// The number of further findings.
    pub more: usize,
}

impl SuperChunk {
    /// Checks the whole frame: compares the checksums, decodes every chunk and vlmetalayer, and, unless checksums
    /// match, compares the headers with each other. A frame that passes can be read.
    ///
    /// For arrays use [`NdArray::verify`](https://docs.rs/b2nd/latest/b2nd/struct.NdArray.html#method.verify), which
    /// knows their shape.
    ///
    /// # Errors
    /// The first damaged or unreadable part, as for [`ChunkRef::decompress`](crate::ChunkRef::decompress);
    /// [`FrameError::Cancelled`] if the progress callback requests it.
    pub fn verify(&self) -> Result<VerifyReport, FrameError> {
        let control = &self.dparams.control.begin(self.nbytes(), self.itemsize() as u64);
        let frame = &self.clone().with_control(control.quiet());
        frame.verify_reading(false, || {
            let mut next = 0;
            let runs = std::iter::from_fn(|| {
                if next >= self.nchunks() {
                    return None;
                }
                let run = self.index().run(next);
                next = run.as_ref().map_or(usize::MAX, |(_, run)| run.end);
                Some(run)
            });
            let init = || Ok(());
            b2_core::for_each(control, self.threads(), runs, self.nbytes(), init, |(), run| {
                let (entry, run) = run?;
                let last = run.end.saturating_sub(1).max(run.start);
                // Among equal chunks, the last one may be shorter.
                let ends = if last > run.start { vec![run.start, last] } else { vec![last] };
                for nchunk in ends {
                    match entry {
                        Entry::Special(kind) => {
                            frame.chunk(nchunk).read()?;
                            if kind == SpecialKind::NaN {
                                frame.nan_pattern(nchunk)?;
                            }
                        }
                        Entry::Stored(_) => drop(frame.chunk(nchunk).decompress()?),
                    }
                }
                let bytes = (run.len() as u64).saturating_mul(self.chunksize() as u64);
                control.advance(bytes).map_err(FrameError::from)
            })
        })
    }

    /// As [`verify`](Self::verify), but the caller reads all data, for example to hash it at the same time: `read`
    /// must decode every chunk. `uniform`: as for [`cross_check`](Self::cross_check).
    ///
    /// # Errors
    /// As for [`verify`](Self::verify), and those of `read`.
    pub fn verify_reading<E: From<FrameError>>(
        &self,
        uniform: bool,
        read: impl FnOnce() -> Result<(), E>,
    ) -> Result<VerifyReport, E> {
        let checksums = self.verify_checksums()?;
        read()?;
        let vlmetalayers = self.vlmetalayers();
        for (name, _) in vlmetalayers.iter() {
            vlmetalayers.get(name).map_err(|error| self.add_name(error))?;
        }
        if checksums == Checksums::Ok {
            return Ok(VerifyReport { checksums, odd: Vec::new(), more: 0 });
        }
        let found = self.cross_check(uniform).map_err(|error| self.add_name(error))?;
        match found.damage.into_iter().next() {
            Some(damage) => Err(self.add_name(damage).into()),
            None => Ok(VerifyReport { checksums, odd: found.odd, more: found.more }),
        }
    }
}

//! Whether all of a frame can be read, and is as it was written as far as that can be known.

use b2_chunk::SpecialKind;

use crate::format::checksums::Checksums;
use crate::format::index::Entry;
use crate::{FrameError, SuperChunk};

/// What is told of a frame that can be read: see [`SuperChunk::verify`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Verified {
    /// What the checksums say; [`Checksums::None`] if there are none, or comparing is switched off.
    pub checksums: Checksums,
    /// What no known writer does, but may have been meant: the first few. Not looked for where the checksums are right.
    pub odd: Vec<FrameError>,
    /// How many there are besides.
    pub more: usize,
}

impl SuperChunk {
    /// Checks all of the frame: compares the checksums, decodes every chunk and vlmetalayer, and without right
    /// checksums compares the headers with each other. What this accepts can be read.
    ///
    /// Arrays have [`NdArray::verify`](https://docs.rs/b2nd/latest/b2nd/struct.NdArray.html#method.verify), which
    /// knows their shape.
    ///
    /// # Errors
    /// The first thing found that is damaged, or cannot be read.
    pub fn verify(&self) -> Result<Verified, FrameError> {
        let control = &self.dparams.control.begin(self.nbytes(), self.typesize() as u64);
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
                // Of equal chunks the last one may be shorter.
                let ends = if last > run.start { vec![run.start, last] } else { vec![last] };
                for nchunk in ends {
                    match entry {
                        Entry::Special(kind) => {
                            frame.chunk(nchunk)?;
                            if kind == SpecialKind::NaN {
                                frame.nan_pattern(nchunk)?;
                            }
                        }
                        Entry::Stored(_) => drop(frame.decompress_chunk(nchunk)?),
                    }
                }
                let bytes = (run.len() as u64).saturating_mul(self.chunksize() as u64);
                control.advance(bytes).map_err(FrameError::from)
            })
        })
    }

    /// As [`verify`](Self::verify), with the caller's own way of reading all data, for example to hash it on the way:
    /// `read` must decode every chunk. `uniform`: as for [`cross_check`](Self::cross_check).
    ///
    /// # Errors
    /// As for [`verify`](Self::verify), and those of `read`.
    pub fn verify_reading<E: From<FrameError>>(
        &self,
        uniform: bool,
        read: impl FnOnce() -> Result<(), E>,
    ) -> Result<Verified, E> {
        let checksums = self.verify_checksums()?;
        read()?;
        let vlmetalayers = self.vlmetalayers();
        for (name, _) in vlmetalayers.iter() {
            vlmetalayers.get(name)?;
        }
        if checksums == Checksums::Ok {
            return Ok(Verified { checksums, odd: Vec::new(), more: 0 });
        }
        let found = self.cross_check(uniform)?;
        match found.damage.into_iter().next() {
            Some(damage) => Err(damage.into()),
            None => Ok(Verified { checksums, odd: found.odd, more: found.more }),
        }
    }
}

//! The local driver. Threads take chunks, or blocks of one chunk; each reads its next blocks, decodes
//! them in its cache, and copies the selected bytes to their places in the result.

use b2_core::Control;
use bytes::Bytes;

use crate::SuperChunk;
use crate::read::disjoint::{Destination, DisjointBuffer, SharedBuffer, UninitBuffer};
use crate::read::part_plan::{Blocks, Group, PartPlan, PartStep};
use crate::read::plan::Driver;
use crate::read::remote;
use crate::read::requests::Read;
use crate::read::scatter_plan::{ReadContext, ScatterPlan};

/// Reads selected bytes into a destination, and returns its memory. On success all of it is
/// initialised: memory that belongs to no selected byte keeps its content, or is zero if it was not
/// initialised.
///
/// # Errors
/// Any error of the places or the files.
pub fn read_places<'d, P: ScatterPlan>(
    frame: &SuperChunk,
    places: P,
    destination: Destination<'d>,
    control: &Control,
) -> Result<&'d mut [u8], P::Error> {
    if places.nparts() == 0 {
        return Ok(destination.into_slice());
    }
    if frame.files.in_flight() > 1 {
        let mut read = Read::new(frame, places, destination, control.clone());
        remote::work_off(&mut read)?;
        return read.finish();
    }
    // Whether there are neither gaps nor overlaps between selected bytes.
    let (disjoint, dense) = (places.disjoint(), places.nbytes() == destination.len() as u64);
    let streaming = frame.dparams.destination.is_streaming(destination.len());
    let reading = ReadContext { frame, places: &places, streaming };
    if destination.is_initialised() || !disjoint || !dense {
        // SAFETY: Each block of each part has its own writer, which hands out only the places of that
        // block. If `disjoint` is true, these are not those of another block, as `ScatterPlan` promises.
        // Otherwise blocks are processed one after the other.
        #[allow(unsafe_code)]
        let buffer = unsafe { DisjointBuffer::new(destination, !disjoint) };
        LocalRead { reading, control, serial: !disjoint, buffer: &buffer }.run_checked()?;
        return Ok(buffer.into_slice());
    }
    // SAFETY: As above, and each block has a filler that hands out each place once.
    #[allow(unsafe_code)]
    let buffer = unsafe { UninitBuffer::new(destination) };
    // Bytes are written twice here, so they should stay in the cache.
    let reading = ReadContext { streaming: false, ..reading };
    LocalRead { reading, control, serial: false, buffer: &buffer }.run_checked()?;
    Ok(buffer.into_slice())
}

struct LocalRead<'a, P, B> {
    reading: ReadContext<'a, P>,
    control: &'a Control,
    /// Whether several selected bytes may share a place, so that blocks must be processed one after the
    /// other.
    serial: bool,
    buffer: &'a B,
}

impl<P: ScatterPlan, B: SharedBuffer> LocalRead<'_, P, B> {
    /// Checks the guard of the frame once, after all reads, instead of after each: the result is returned only if the
    /// frame is still unchanged; if it changed, that explains any other error.
    fn run_checked(&self) -> Result<(), P::Error> {
        let result = self.run();
        self.reading.frame.check_guard()?;
        result
    }

    fn run(&self) -> Result<(), P::Error> {
        let places = self.reading.places;
        let nparts = places.nparts();
        if nparts == 1 {
            return self.part(0);
        }
        // Decode chunks in parallel. A single chunk, or the last ones, are decoded in parallel by
        // blocks.
        let threads = self.threads(places.worker_memory());
        let work = places.decode_cost()?;
        b2_core::for_each(self.control, threads, 0..nparts, work, || Ok(()), |(), npart| self.part(npart))
    }

    /// Returns how many threads may work concurrently if each needs `memory` bytes.
    fn threads(&self, memory: u64) -> usize {
        if self.serial { 1 } else { self.reading.frame.dparams.limits.threads(memory) }
    }

    fn part(&self, npart: u64) -> Result<(), P::Error> {
        let mut driver = Driver::new(&*self.reading.frame.files).guarded(!self.reading.frame.has_guard());
        let mut plan = PartPlan::new(self.reading.places, npart);
        let mut parts = Vec::new();
        loop {
            match plan.step(&self.reading, parts)? {
                PartStep::Need(extents) => parts = driver.read(&extents)?,
                PartStep::Fill(fill) => {
                    let nbytes = self.reading.places.fill(&fill, &mut self.buffer.writer());
                    return Ok(self.control.advance(nbytes as u64)?);
                }
                PartStep::Blocks(blocks) => return self.blocks(&blocks, &mut driver),
            }
        }
    }

    fn blocks(&self, blocks: &Blocks<P>, driver: &mut Driver<'_>) -> Result<(), P::Error> {
        let (reading, head) = (&self.reading, &blocks.head);
        // Each thread reads its own groups.
        let file = if head.is_stored() { Some(driver.file(head.file())?.clone()) } else { None };
        let read = |group: &Group<'_>| match (group.extent(), &file) {
            (Some(extent), Some(file)) if reading.frame.has_guard() => file.read_unguarded(extent),
            (Some(extent), Some(file)) => file.read(extent),
            _ => Ok(Bytes::new()),
        };
        let block0 = match blocks.reference(reading.frame) {
            Some(group) => {
                let stored = read(&group)?;
                let stored = head.stored(0, group.extent().as_ref(), &stored)?;
                head.decode_block0(stored, &reading.frame.dparams)?
            }
            None => None,
        };
        let nblocks = blocks.nblocks(reading.places).len();
        b2_core::for_each(
            self.control,
            self.threads(head.chunk().block_memory()),
            blocks.groups(reading),
            blocks.nbytes(nblocks),
            || blocks.worker(reading, block0.as_deref()),
            |worker, group| {
                let read = read(&group)?;
                let read = (group.extent().as_ref(), &read[..]);
                let writer = || self.buffer.writer();
                let nbytes = blocks.copy(reading.places, worker, group.nblocks(), read, writer)?;
                Ok(self.control.advance(nbytes as u64)?)
            },
        )
    }
}

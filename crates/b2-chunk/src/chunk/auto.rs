//! Chooses compression parameters from a sample of the data.
//!
//! Each candidate compresses the sample. Its score combines the compressed size with the number of bytes that the codec
//! processed. Time comes from a table of costs rather than a clock, so the same data gets the same parameters on every
//! machine and in every run.

use std::ops::Range;

use b2_codecs::{Codec, CodecId, Trial};
use b2_filters::{FilterId, FilterSlot};

use crate::{CParams, Chunk, ChunkError, Compression, DParams, Plugins, SplitMode};

/// The objective of [`Compression::auto`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Goal {
    /// Fast writing and reading; smaller files where that costs little time.
    Speed,
    /// Small files that are fast to read.
    #[default]
    Balance,
    /// The smallest files, even if writing takes long.
    Size,
}

/// Maximum size of a sample, in bytes.
const SAMPLE: u64 = 4 << 20;
/// Length of each contiguous piece of a sample, in bytes.
const SAMPLE_PIECE_LEN: u64 = 512 << 10;

/// Returns the byte ranges to use as a sample for [`Compression::auto`], in ascending order.
///
/// Up to 4 MiB of data are used in full, otherwise eight pieces at equal distances. Each starts at a multiple of `unit`
/// bytes (the size of an item or a block).
///
/// ```
/// let ranges = b2_chunk::sample_ranges(1 << 30, 4);
/// assert_eq!(ranges.len(), 8);
/// assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), 4 << 20);
/// ```
pub fn sample_ranges(nbytes: u64, unit: usize) -> Vec<Range<u64>> {
    if nbytes <= SAMPLE {
        return std::iter::once(0..nbytes).collect();
    }
    let unit = (unit as u64).max(1);
    let piece = (SAMPLE_PIECE_LEN - SAMPLE_PIECE_LEN % unit).max(unit).min(nbytes);
    let npieces = (SAMPLE / piece).max(1);
    // Spread the pieces from the first to the last position at which one fits.
    let room = nbytes - piece;
    let starts = (0..npieces).map(|i| room / (npieces - 1).max(1) * i).map(|at| at - at % unit);
    starts.map(|at| at..at + piece).collect()
}

impl Compression {
    /// Chooses codec, level, filters, split mode and block size for data like `sample`.
    ///
    /// Set [`itemsize`](Self::itemsize) first. Plugins, block shape, limits, and a block size other than 0 are kept.
    /// For an array, the sample is a sequence of its blocks, each in C order.
    ///
    /// Only the parts of the sample named by [`sample_ranges`] are used. The result is never lossy. The choice depends
    /// on the sample, the goal and the codecs of this build, never on the machine or on timing.
    ///
    /// ```
    /// use b2_chunk::{Chunk, Compression, Goal};
    /// let ramp: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    /// let cparams = Compression::new().itemsize(4).auto(&ramp, Goal::Size)?;
    /// assert!(Chunk::compress_bytes(&ramp, &cparams)?.cbytes() < ramp.len() / 50);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    ///
    /// # Errors
    /// [`ChunkError::Argument`] if a parameter is out of range; otherwise as [`build`](Self::build) and
    /// [`Chunk::compress_bytes`], since the sample is compressed.
    pub fn auto(self, sample: &[u8], goal: Goal) -> Result<CParams, ChunkError> {
        let base = self.codec(CodecId::BLOSCLZ).no_filters().use_dict(false).build()?;
        let unit = if base.blocksize() > 0 { base.blocksize() } else { base.itemsize() };
        let pieces: Vec<&[u8]> = sample_ranges(sample.len() as u64, unit)
            .into_iter()
            // The ranges are inside the sample, so they fit a usize.
            .map(|range| &sample[range.start as usize..range.end as usize])
            .collect();
        Search { base, pieces, goal }.run()
    }
}

/// A codec at one level, as a candidate.
#[derive(Clone, Copy)]
struct Cost {
    codec: CodecId,
    trial: Trial,
}

impl Goal {
    /// Returns the weights of a byte written, a byte compressed and a byte decompressed. The weight of a written byte
    /// models the speed of a store: 330 MB/s, 33 MB/s (or 100 MB/s and three reads), and infinitely slow.
    fn weights(self) -> (f64, f64, f64) {
        match self {
            Self::Speed => (3.0, 1.0, 1.0),
            Self::Balance => (30.0, 1.0, 2.0),
            Self::Size => (1000.0, 0.0, 1.0),
        }
    }

    /// Returns the candidates, cheapest first.
    fn costs(self, plugins: &Plugins) -> Vec<Cost> {
        let encode_up_to = match self {
            Self::Speed => 1.5,
            Self::Balance => 12.0,
            Self::Size => f64::MAX,
        };
        let of = |codec: &dyn Codec| {
            let (id, properties) = (codec.id(), codec.properties());
            let trials = if properties.lossless { properties.trials } else { &[] };
            trials.iter().map(move |&trial| Cost { codec: id, trial })
        };
        let mut costs: Vec<Cost> = plugins.codecs().flat_map(of).collect();
        // If only size counts, fast codecs cannot win.
        costs.retain(|Cost { trial, .. }| {
            trial.encode < encode_up_to && (self != Self::Size || trial.smallest)
        });
        costs.sort_by(|a, b| a.trial.encode.total_cmp(&b.trial.encode));
        costs
    }
}

struct Search<'a> {
    base: CParams,
    pieces: Vec<&'a [u8]>,
    goal: Goal,
}

/// A candidate with its score.
struct ScoredCandidate {
    cparams: CParams,
    score: f64,
}

impl Search<'_> {
    fn run(&self) -> Result<CParams, ChunkError> {
        // The fallback if nothing shrinks: stored chunks, which cost nothing to read.
        let mut best = self.score(self.base.to_builder().level(0).build()?, None)?;
        let costs = self.goal.costs(self.base.plugins());
        let Some(probe) = costs.first() else { return Ok(best.cparams) };

        // Try all filters with a fast codec first, then all codecs with the two best pipelines.
        let mut pipelines = Vec::new();
        for filters in self.pipelines() {
            let candidate = self.candidate(probe, &filters, SplitMode::Auto, self.base.blocksize());
            let Ok(cparams) = candidate else { continue };
            pipelines.push((self.score(cparams, Some(probe))?, filters));
        }
        pipelines.sort_by(|(a, _), (b, _)| a.score.total_cmp(&b.score));
        pipelines.truncate(2);
        let mut winner = None;
        for (scored, filters) in pipelines {
            keep_better(&mut best, &mut winner, scored, (*probe, filters.clone()));
            for cost in &costs[1..] {
                let cparams = self.candidate(cost, &filters, SplitMode::Auto, self.base.blocksize())?;
                let scored = self.score(cparams, Some(cost))?;
                keep_better(&mut best, &mut winner, scored, (*cost, filters.clone()));
            }
        }

        // Finally try other split modes and block sizes for the winner.
        let Some((cost, filters)) = winner else { return Ok(best.cparams) };
        let mut cuts = vec![(SplitMode::Always, best.cparams.blocksize())];
        if self.base.blocksize() == 0 && self.goal == Goal::Size {
            cuts.push((SplitMode::Auto, 2 << 20));
        }
        for (splitmode, blocksize) in cuts {
            let cparams = self.candidate(&cost, &filters, splitmode, blocksize)?;
            keep_better(&mut best, &mut None, self.score(cparams, Some(&cost))?, (cost, filters.clone()));
        }
        Ok(best.cparams)
    }

    fn pipelines(&self) -> Vec<Vec<FilterSlot>> {
        let typesize = self.base.itemsize();
        // Where the item size is not a parameter, 0 gets one that C-Blosc2 reads.
        let planes = i8::try_from(typesize).map_or(0, i8::cast_unsigned);
        let bytedelta = FilterSlot { id: FilterId::BYTEDELTA, meta: planes };
        let mut pipelines = vec![vec![], vec![FilterSlot::BITSHUFFLE]];
        if typesize > 1 {
            pipelines.insert(0, vec![FilterSlot::SHUFFLE]);
        }
        if self.goal != Goal::Speed {
            let shuffle = if typesize > 1 { vec![FilterSlot::SHUFFLE] } else { vec![] };
            pipelines.push([shuffle, vec![bytedelta]].concat());
        }
        pipelines
    }

    fn candidate(
        &self,
        cost: &Cost,
        filters: &[FilterSlot],
        splitmode: SplitMode,
        blocksize: usize,
    ) -> Result<CParams, ChunkError> {
        let builder = self.base.to_builder().codec(cost.codec).level(cost.trial.level);
        builder.filters(filters).splitmode(splitmode).blocksize(blocksize).build()
    }

    fn score(&self, cparams: CParams, cost: Option<&Cost>) -> Result<ScoredCandidate, ChunkError> {
        let (mut plain, mut stored, mut coded) = (0, 0, 0);
        for piece in &self.pieces {
            let chunk = Chunk::compress_bytes(piece, &cparams)?;
            plain += piece.len();
            stored += chunk.cbytes();
            coded += coded_bytes(&chunk)?;
        }
        let plain = plain.max(1) as f64;
        let (per_stored, per_encode, per_decode) = self.goal.weights();
        let (encode, decode) = cost.map_or((0.0, 0.0), |cost| (cost.trial.encode, cost.trial.decode));
        let filters = cparams.filters().iter().filter(|slot| slot.id != FilterId::NONE).count() as f64 * 0.05;
        // Streams that end up stored were tried as well, but codecs give up early on them.
        let tried = coded as f64 + 0.2 * (plain - coded as f64);
        let time = per_encode * (encode * tried + filters * plain)
            + per_decode * (decode * coded as f64 + filters * plain);
        Ok(ScoredCandidate { cparams, score: (per_stored * stored as f64 + time) / plain })
    }
}

fn keep_better<T>(best: &mut ScoredCandidate, winner: &mut Option<T>, scored: ScoredCandidate, with: T) {
    if scored.score < best.score {
        *best = scored;
        *winner = Some(with);
    }
}

/// Counts the uncompressed bytes of a chunk that its codec decodes: streams that are neither stored nor runs.
fn coded_bytes(chunk: &Chunk) -> Result<usize, ChunkError> {
    let lazy = chunk.lazy(&DParams::default())?;
    let header = chunk.header();
    let mut coded = 0;
    for nblock in 0..lazy.nblocks() {
        let len = lazy.block_range(nblock).len();
        let split = header.is_split() && len == lazy.blocksize();
        let stream_len = if split { len / header.itemsize() } else { len };
        let mut rest = chunk.as_bytes().get(lazy.block_extent(nblock)).unwrap_or_default();
        // Blocks of stored and special chunks have no streams, so their first word is not a length.
        if rest.len() >= len {
            continue;
        }
        while let Some((csize, after)) = rest.split_first_chunk::<4>() {
            let csize = i32::from_le_bytes(*csize);
            let len = usize::try_from(csize).unwrap_or(usize::from(csize < 0));
            coded += if csize > 0 && len < stream_len { stream_len } else { 0 };
            rest = after.get(len..).unwrap_or_default();
        }
    }
    Ok(coded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        b2_testkit::Rng::new(1).bytes(len)
    }

    fn waves(len: usize) -> Vec<u8> {
        (0..len / 4).flat_map(|i| (i as f32 * 0.001).sin().to_le_bytes()).collect()
    }

    #[test]
    fn noise_is_stored() {
        for goal in [Goal::Speed, Goal::Balance, Goal::Size] {
            let cparams = Compression::new().itemsize(4).auto(&noise(300_000), goal).unwrap();
            assert_eq!(cparams.level(), 0, "{goal:?}");
        }
    }

    #[test]
    fn goals_order_sizes_and_beat_the_default() {
        let data = waves(300_000);
        let size = |cparams: &CParams| Chunk::compress_bytes(&data, cparams).unwrap().cbytes();
        let of = |goal| size(&Compression::new().itemsize(4).auto(&data, goal).unwrap());
        let default = size(&Compression::new().itemsize(4).build().unwrap());
        assert!(of(Goal::Size) <= of(Goal::Balance) && of(Goal::Balance) <= of(Goal::Speed));
        assert!(of(Goal::Size) < default, "{} {default}", of(Goal::Size));
    }

    #[test]
    fn same_sample_same_choice_and_parts_stand_for_the_whole() {
        let data = waves(8 << 20);
        let first = Compression::new().itemsize(4).auto(&data, Goal::Balance).unwrap();
        let again = Compression::new().itemsize(4).auto(&data, Goal::Balance).unwrap();
        let parts: Vec<u8> = sample_ranges(data.len() as u64, 4)
            .into_iter()
            .flat_map(|range| data[range.start as usize..range.end as usize].to_vec())
            .collect();
        assert_eq!(parts.len(), 4 << 20);
        let of_parts = Compression::new().itemsize(4).auto(&parts, Goal::Balance).unwrap();
        let choice = |p: &CParams| (p.codec(), p.level(), p.filters(), p.splitmode(), p.blocksize());
        assert_eq!(choice(&first), choice(&again));
        assert_eq!(choice(&first), choice(&of_parts));
    }

    #[test]
    fn ranges_lie_inside_at_whole_units() {
        for (nbytes, unit) in
            [(0, 1), (1, 8), (SAMPLE, 3), (SAMPLE + 1, 7), (1 << 40, 12), (SAMPLE + 9, 6 << 20)]
        {
            let ranges = sample_ranges(nbytes, unit);
            assert!(
                ranges.iter().all(|range| range.end <= nbytes && range.start % unit as u64 == 0),
                "{ranges:?}"
            );
            assert!(ranges.is_sorted_by_key(|range| range.start));
        }
    }

    #[test]
    fn odd_samples_are_fine() {
        for typesize in [1, 3, 8, 200, 300] {
            for len in [0, 1, 7, 100, 5000] {
                let cparams =
                    Compression::new().itemsize(typesize).auto(&waves(8000)[..len], Goal::Balance).unwrap();
                assert_eq!(cparams.itemsize(), typesize);
            }
        }
        assert!(Compression::new().itemsize(0).auto(&[], Goal::Balance).is_err());
        let kept = Compression::new().itemsize(4).blocksize(4096).auto(&waves(100_000), Goal::Size).unwrap();
        assert_eq!(kept.blocksize(), 4096);
    }
}

//! Parameters chosen from a sample of the data.
//!
//! Each candidate compresses the sample; what is counted is its size and how many bytes went through the codec. Time
//! is taken from a table of costs, not from a clock: the same data gets the same parameters on every machine and in
//! every run.

use std::ops::Range;

use b2_codecs::CodecId;
use b2_filters::{FilterId, FilterSlot};

use crate::{CParams, CParamsBuilder, Chunk, ChunkError, DParams, SplitMode};

/// What [`CParams::auto`] aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Goal {
    /// Quick writing and reading; smaller where that costs little.
    Speed,
    /// Small files that are read quickly.
    #[default]
    Balance,
    /// The smallest files; writing may take long.
    Size,
}

/// Bytes that a sample has at most.
const SAMPLE: u64 = 4 << 20;
/// Bytes of a sample that lie side by side.
const PIECE: u64 = 512 << 10;

/// Which parts of `nbytes` of data to take as a sample for [`CParams::auto`], in ascending order: all of them up to
/// 4 MiB, else eight pieces at equal distances. They start at multiples of `unit` bytes (an item, or a block).
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
    let piece = (PIECE - PIECE % unit).max(unit).min(nbytes);
    let npieces = (SAMPLE / piece).max(1);
    // From the first to the last place where a piece fits.
    let room = nbytes - piece;
    let starts = (0..npieces).map(|i| room / (npieces - 1).max(1) * i).map(|at| at - at % unit);
    starts.map(|at| at..at + piece).collect()
}

impl CParams {
    /// Chooses codec, level, filters, split mode and block size for data like `sample`: items of `typesize` bytes.
    ///
    /// Of a long sample only the parts named by [`sample_ranges`] are used. Nothing lossy is ever chosen. The choice
    /// depends on the sample, the goal and the codecs of this build, never on the machine or the moment.
    ///
    /// ```
    /// use b2_chunk::{CParams, Chunk, Goal};
    /// let ramp: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    /// let cparams = CParams::auto(4, &ramp, Goal::Size)?;
    /// assert!(Chunk::compress(&ramp, &cparams)?.cbytes() < ramp.len() / 50);
    /// # Ok::<(), b2_chunk::ChunkError>(())
    /// ```
    ///
    /// # Errors
    /// When `typesize` is out of range.
    pub fn auto(typesize: usize, sample: &[u8], goal: Goal) -> Result<Self, ChunkError> {
        Self::builder(typesize).auto(sample, goal)
    }
}

impl CParamsBuilder {
    /// As [`CParams::auto`], with the plugins, block shape and, unless it is 0, block size of this builder. The
    /// sample of an array is a row of its blocks, each in C order.
    ///
    /// # Errors
    /// When a parameter of the builder is out of range.
    pub fn auto(self, sample: &[u8], goal: Goal) -> Result<CParams, ChunkError> {
        let base = self.codec(CodecId::BLOSCLZ).filters([]).use_dict(false).build()?;
        let unit = if base.blocksize() > 0 { base.blocksize() } else { base.typesize() };
        let pieces: Vec<&[u8]> = sample_ranges(sample.len() as u64, unit)
            .into_iter()
            // Inside the sample, whose length is a usize.
            .map(|range| &sample[range.start as usize..range.end as usize])
            .collect();
        Search { base, pieces, goal }.run()
    }
}

/// What a byte costs, in nanoseconds on one core of a recent machine. Rounded: only the order of candidates counts.
struct Cost {
    codec: CodecId,
    clevel: u8,
    /// Per byte that the codec compressed, or tried to.
    encode: f64,
    /// Per byte that comes out of the codec.
    decode: f64,
}

const fn cost(codec: CodecId, clevel: u8, encode: f64, decode: f64) -> Cost {
    Cost { codec, clevel, encode, decode }
}

/// The candidates, cheapest first.
const COSTS: [Cost; 10] = [
    cost(CodecId::LZ4, 1, 0.6, 0.15),
    cost(CodecId::LZ4, 5, 0.7, 0.17),
    cost(CodecId::LZ4, 9, 0.9, 0.2),
    cost(CodecId::ZSTD, 1, 1.2, 0.5),
    cost(CodecId::ZSTD, 3, 4.0, 0.55),
    cost(CodecId::LZ4HC, 5, 11.0, 0.2),
    cost(CodecId::ZSTD, 5, 7.0, 0.6),
    cost(CodecId::LZ4HC, 9, 20.0, 0.2),
    cost(CodecId::ZSTD, 7, 40.0, 0.6),
    cost(CodecId::ZSTD, 9, 200.0, 0.6),
];

impl Goal {
    /// What a byte written, a byte compressed and a byte decompressed weigh. Sizes count as the time that a store
    /// takes: one of 330 MB/s, one of 33 MB/s (or 100 MB/s read three times), one that takes for ever.
    fn weights(self) -> (f64, f64, f64) {
        match self {
            Self::Speed => (3.0, 1.0, 1.0),
            Self::Balance => (30.0, 1.0, 2.0),
            Self::Size => (1000.0, 0.0, 1.0),
        }
    }

    /// The candidates worth trying.
    fn costs(self) -> impl Iterator<Item = &'static Cost> {
        let encode_up_to = match self {
            Self::Speed => 1.5,
            Self::Balance => 12.0,
            Self::Size => f64::MAX,
        };
        // Where only the size counts, the quick ones are beaten anyway.
        let from = if self == Self::Size { 6 } else { 0 };
        COSTS[from..].iter().filter(move |cost| cost.encode < encode_up_to)
    }
}

struct Search<'a> {
    base: CParams,
    pieces: Vec<&'a [u8]>,
    goal: Goal,
}

/// A candidate and what it costs.
struct Scored {
    cparams: CParams,
    score: f64,
}

impl Search<'_> {
    fn run(&self) -> Result<CParams, ChunkError> {
        // The way out when nothing shrinks: stored bytes, that cost nothing to read.
        let mut best = self.score(self.base.to_builder().clevel(0).build()?, None)?;
        let available = |cost: &&Cost| self.base.plugins().codec(cost.codec).is_ok();
        let costs: Vec<&Cost> = self.goal.costs().filter(available).collect();
        let Some(probe) = costs.first() else { return Ok(best.cparams) };

        // First the filters with a quick codec, then the codecs with the two best pipelines.
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

        // At last how the winner is cut.
        let Some((cost, filters)) = winner else { return Ok(best.cparams) };
        let mut cuts = vec![(SplitMode::Always, best.cparams.blocksize())];
        if self.base.blocksize() == 0 && self.goal == Goal::Size {
            cuts.push((SplitMode::Auto, 2 << 20));
        }
        for (splitmode, blocksize) in cuts {
            let cparams = self.candidate(cost, &filters, splitmode, blocksize)?;
            keep_better(&mut best, &mut None, self.score(cparams, Some(cost))?, (cost, filters.clone()));
        }
        Ok(best.cparams)
    }

    fn pipelines(&self) -> Vec<Vec<FilterSlot>> {
        let typesize = self.base.typesize();
        let bytedelta = FilterSlot { id: FilterId::BYTEDELTA, meta: u8::try_from(typesize).unwrap_or(0) };
        let mut pipelines = vec![vec![], vec![FilterSlot::BITSHUFFLE]];
        if typesize > 1 {
            pipelines.insert(0, vec![FilterSlot::SHUFFLE]);
        }
        // Its parameter is a signed byte for C-Blosc2.
        if typesize <= 127 && self.goal != Goal::Speed {
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
        let builder = self.base.to_builder().codec(cost.codec).clevel(cost.clevel);
        builder.filters(filters).splitmode(splitmode).blocksize(blocksize).build()
    }

    fn score(&self, cparams: CParams, cost: Option<&Cost>) -> Result<Scored, ChunkError> {
        let (mut plain, mut stored, mut coded) = (0, 0, 0);
        for piece in &self.pieces {
            let chunk = Chunk::compress(piece, &cparams)?;
            plain += piece.len();
            stored += chunk.cbytes();
            coded += coded_bytes(&chunk)?;
        }
        let plain = plain.max(1) as f64;
        let (per_stored, per_encode, per_decode) = self.goal.weights();
        let (encode, decode) = cost.map_or((0.0, 0.0), |cost| (cost.encode, cost.decode));
        let filters = cparams.filters().iter().filter(|slot| slot.id != FilterId::NONE).count() as f64 * 0.05;
        // Bytes that end up stored were tried as well, but codecs give up early on them.
        let tried = coded as f64 + 0.2 * (plain - coded as f64);
        let time = per_encode * (encode * tried + filters * plain)
            + per_decode * (decode * coded as f64 + filters * plain);
        Ok(Scored { cparams, score: (per_stored * stored as f64 + time) / plain })
    }
}

fn keep_better<T>(best: &mut Scored, winner: &mut Option<T>, scored: Scored, with: T) {
    if scored.score < best.score {
        *best = scored;
        *winner = Some(with);
    }
}

/// Plain bytes of a chunk that come out of its codec: not of streams that are stored or runs.
fn coded_bytes(chunk: &Chunk) -> Result<usize, ChunkError> {
    let lazy = chunk.lazy(&DParams::default())?;
    let header = chunk.header();
    let mut coded = 0;
    for nblock in 0..lazy.nblocks() {
        let len = lazy.block_range(nblock).len();
        let split = header.is_split() && len == lazy.blocksize();
        let stream_len = if split { len / header.typesize() } else { len };
        let mut rest = chunk.as_bytes().get(lazy.block_extent(nblock)).unwrap_or_default();
        // Blocks of stored chunks and fills have no streams: their first word does not lead anywhere.
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
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn waves(len: usize) -> Vec<u8> {
        (0..len / 4).flat_map(|i| (i as f32 * 0.001).sin().to_le_bytes()).collect()
    }

    #[test]
    fn noise_is_stored() {
        for goal in [Goal::Speed, Goal::Balance, Goal::Size] {
            let cparams = CParams::auto(4, &noise(300_000), goal).unwrap();
            assert_eq!(cparams.clevel(), 0, "{goal:?}");
        }
    }

    #[test]
    fn goals_order_sizes_and_beat_the_default() {
        let data = waves(300_000);
        let size = |cparams: &CParams| Chunk::compress(&data, cparams).unwrap().cbytes();
        let of = |goal| size(&CParams::auto(4, &data, goal).unwrap());
        let default = size(&CParams::builder(4).build().unwrap());
        assert!(of(Goal::Size) <= of(Goal::Balance) && of(Goal::Balance) <= of(Goal::Speed));
        assert!(of(Goal::Size) < default, "{} {default}", of(Goal::Size));
    }

    #[test]
    fn same_sample_same_choice_and_parts_stand_for_the_whole() {
        let data = waves(8 << 20);
        let first = CParams::auto(4, &data, Goal::Balance).unwrap();
        let again = CParams::auto(4, &data, Goal::Balance).unwrap();
        let parts: Vec<u8> = sample_ranges(data.len() as u64, 4)
            .into_iter()
            .flat_map(|range| data[range.start as usize..range.end as usize].to_vec())
            .collect();
        assert_eq!(parts.len(), 4 << 20);
        let of_parts = CParams::auto(4, &parts, Goal::Balance).unwrap();
        let told = |p: &CParams| (p.codec(), p.clevel(), p.filters(), p.splitmode(), p.blocksize());
        assert_eq!(told(&first), told(&again));
        assert_eq!(told(&first), told(&of_parts));
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
                let cparams = CParams::auto(typesize, &waves(8000)[..len], Goal::Balance).unwrap();
                assert_eq!(cparams.typesize(), typesize);
            }
        }
        assert!(CParams::auto(0, &[], Goal::Balance).is_err());
        let kept = CParams::builder(4).blocksize(4096).auto(&waves(100_000), Goal::Size).unwrap();
        assert_eq!(kept.blocksize(), 4096);
    }
}

//! Random compression parameters for the written cases.

use anyhow::{Context, Result};
use b2_testkit::Rng;
use b2kit::chunk::{CParams, FilterSlot, SplitMode};
use b2kit::{Chunk, CodecId, Compression, FilterId};

use super::draft::Draft;

const TYPESIZES: &[usize] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20, 24, 31, 32, 33, 48, 64, 100, 127, 128, 200,
    254, 255, 256, 257, 300, 511, 1000, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 4, 8,
];

const CODECS: [CodecId; 5] = [CodecId::BLOSCLZ, CodecId::LZ4, CodecId::LZ4HC, CodecId::ZLIB, CodecId::ZSTD];

pub(crate) const SPLITS: [(&str, SplitMode); 4] = [
    ("always", SplitMode::Always),
    ("never", SplitMode::Never),
    ("auto", SplitMode::Auto),
    ("forward", SplitMode::ForwardCompat),
];

/// Returns a random item size from 1 to 1000.
pub(crate) fn itemsize(rng: &mut Rng) -> usize {
    *rng.pick(TYPESIZES)
}

/// Returns a random pipeline: its name and filters.
fn pipeline(rng: &mut Rng, typesize: usize, lossless: bool) -> (&'static str, Vec<FilterSlot>) {
    // 0 becomes a parameter that suits larger items.
    let small = if typesize <= 127 { typesize as u8 } else { 0 };
    let (shuffle, bitshuffle, delta) = (FilterSlot::SHUFFLE, FilterSlot::BITSHUFFLE, FilterSlot::DELTA);
    let bytedelta = FilterSlot::new(FilterId::BYTEDELTA, small);
    // python-blosc2 cannot open frames with a parameter above 127 in the header.
    let any_shuffle = FilterSlot::new(FilterId::SHUFFLE, rng.within(1..=127) as u8);
    let any_bytedelta = FilterSlot::new(FilterId::BYTEDELTA, rng.within(1..=127) as u8);
    let mut options: Vec<(&'static str, Vec<FilterSlot>)> = vec![
        ("none", vec![]),
        ("shuffle", vec![shuffle]),
        ("shuffle", vec![shuffle]),
        ("bitshuffle", vec![bitshuffle]),
        ("delta", vec![delta]),
        ("delta+shuffle", vec![delta, shuffle]),
        ("delta+bitshuffle", vec![delta, bitshuffle]),
        ("shuffle+delta", vec![shuffle, delta]),
        ("shuffle+bytedelta", vec![shuffle, bytedelta]),
        ("bytedelta", vec![any_bytedelta]),
        ("shuffle-meta", vec![any_shuffle]),
        ("three", vec![shuffle, any_bytedelta, bitshuffle]),
        // Delta comes first: C-Blosc2 3.3.5 does not undo it correctly after several other filters.
        ("three with delta", vec![delta, shuffle, bytedelta]),
        ("six", vec![any_shuffle, bytedelta, bitshuffle, bytedelta, shuffle, any_bytedelta]),
    ];
    if !lossless {
        // The precision is a signed byte: the number of bits to keep, or if negative, to clear.
        let top = match typesize {
            4 => 23,
            8 => 52,
            _ => 0,
        };
        if top > 0 {
            let keep = FilterSlot::new(FilterId::TRUNC_PREC, rng.within(1..=top - 1) as u8);
            let clear = FilterSlot::new(FilterId::TRUNC_PREC, (rng.within(1..=top - 1) as u8).wrapping_neg());
            options.push(("trunc_prec+shuffle", vec![keep, shuffle]));
            options.push(("trunc_prec-negative+bitshuffle", vec![clear, bitshuffle]));
            options.push(("trunc_prec+delta+shuffle", vec![keep, delta, shuffle]));
        }
        if matches!(typesize, 1 | 2 | 4 | 8) {
            let clear =
                FilterSlot::new(FilterId::INT_TRUNC, (rng.within(1..=8 * typesize - 1) as u8).wrapping_neg());
            options.push(("int_trunc+shuffle", vec![clear, shuffle]));
        }
    }
    options.swap_remove(rng.within(0..=options.len() - 1))
}

/// Returns random parameters, and records them in the labels and, as in a frame header, in the fields of the case.
pub(crate) fn builder(draft: &mut Draft, typesize: usize, lossless: bool) -> Compression {
    let rng = &mut draft.rng;
    let (pipe, filters) = pipeline(rng, typesize, lossless);
    let codec = *rng.pick(&CODECS);
    let clevel = rng.within(0..=9) as u8;
    let (split, mode) = *rng.pick(&SPLITS);
    let use_dict = matches!(codec, CodecId::LZ4 | CodecId::LZ4HC | CodecId::ZSTD) && rng.chance(25);
    draft.label("codec", codec);
    draft.label("pipe", pipe);
    draft.label("clevel", clevel);
    draft.label("split", split);
    draft.label("dict", if use_dict { "yes" } else { "no" });
    draft.label("typesize", typesize);
    // C reads parts of delta chunks incorrectly, and refuses parts of chunks with a dictionary.
    let delta = filters.iter().any(|slot| slot.id == FilterId::DELTA);
    draft.set("partial", !delta && !use_dict);
    Compression::new()
        .itemsize(typesize)
        .codec(codec)
        .level(clevel)
        .filters(filters)
        .splitmode(mode)
        .use_dict(use_dict)
}

/// Records these parameters in the case as a frame header shows them.
pub(crate) fn header_facts(draft: &mut Draft, cparams: &CParams) {
    draft.set("codec", cparams.codec().0);
    draft.set("clevel", cparams.level());
    draft.set("split", cparams.splitmode().code());
    draft.set("use_dict", cparams.use_dict());
    let slots: Vec<Vec<u8>> = cparams.filters().iter().map(|slot| vec![slot.id.0, slot.meta]).collect();
    draft.set("filters", slots);
}

/// Returns the parameters without the delta filter.
pub(crate) fn without_delta(cparams: &CParams) -> Result<CParams> {
    let mut filters = Vec::from_iter(cparams.filters());
    filters.retain(|slot| slot.id != FilterId::DELTA);
    cparams.to_builder().filters(&filters).build().context("parameters")
}

/// Whether C can change what these filters wrote: with three or more, it overwrites its input.
pub(crate) fn few_filters(cparams: &CParams) -> bool {
    cparams.filters().iter().filter(|slot| slot.id != FilterId::NONE).count() <= 2
}

/// Returns random blocks of individual lengths.
pub(crate) fn blocks(rng: &mut Rng, n: usize, longest: usize) -> Vec<Vec<u8>> {
    let block = |_| {
        let nbytes = rng.magnitude(1, longest);
        rng.data(nbytes).1
    };
    (0..n).map(block).collect()
}

pub(crate) fn compress_vl(blocks: &[Vec<u8>], cparams: &CParams) -> Result<Chunk> {
    let slices: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    Chunk::compress_vl(&slices, cparams).context("compressing")
}

/// Returns the data as lossy filters leave them: with the low bits of little-endian items cleared.
pub(crate) fn truncated(raw: &[u8], typesize: usize, filters: &[FilterSlot]) -> Vec<u8> {
    let mut out = raw.to_vec();
    for slot in filters {
        let p = i32::from(slot.meta as i8);
        let bits = match (slot.id, typesize) {
            (FilterId::TRUNC_PREC, 4) => 23,
            (FilterId::TRUNC_PREC, _) => 52,
            (FilterId::INT_TRUNC, _) => 8 * typesize as i32,
            _ => continue,
        };
        let cleared = if p >= 0 { bits - p } else { -p };
        for item in out.chunks_exact_mut(typesize) {
            for bit in 0..cleared as usize {
                item[bit / 8] &= !(1 << (bit % 8));
            }
        }
    }
    out
}

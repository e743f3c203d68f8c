//! Writes random arrays.

use anyhow::{Context, Result, ensure};
use b2_testkit::Rng;
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::frame::Storage;
use b2kit::{ArrayBuilder, CodecId, Dtype, FilterId, NdArray, SuperChunk};

use super::draft::Draft;
use super::params;
use super::session::plugins;
use super::write_frame::{random_layers, save, storage};

/// Dtypes, those in use more often several times.
const DTYPES: &[&str] = &[
    "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f4", "<f8", "<f8", "<c8", "<c16", "|b1",
    ">i2", ">i4", ">u8", ">f4", ">f8", ">c16", "|S1", "|S7", "<U1", "<U5", "<M8[ns]", "<M8[D]", "<m8[s]",
    "|V3", "|V300",
];

const RECORDS: &[&str] = &[
    "[('a', '<i4'), ('b', '<f8')]",
    "[('x', '|u1'), ('y', '>i2', (3,)), ('s', '|S5')]",
    "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16, 'aligned': True}",
];

/// Writes an array of random items.
pub(crate) fn array(draft: &mut Draft) -> Result<()> {
    let plugin = *draft.rng.pick(&["", "", "", "", "", "", "", "", "", "ndcell", "ndmean", "zfp"]);
    let floats = matches!(plugin, "ndmean" | "zfp");
    let text =
        if floats { *draft.rng.pick(&["<f4", "<f8"]) } else { *draft.rng.pick(&[DTYPES, RECORDS].concat()) };
    let dtype = Dtype::parse(text).with_context(|| format!("dtype {text}"))?;
    let itemsize = dtype.itemsize();
    let (shape, chunkshape, blockshape) = shapes(&mut draft.rng, itemsize, plugin);
    let mut cparams = params::builder(draft, itemsize, true).build().context("parameters")?;
    if !plugin.is_empty() {
        cparams = with_plugin(draft, &cparams, plugin, &blockshape)?;
    }
    params::header_facts(draft, &cparams);
    draft.label("ndim", shape.len());
    draft.label("dtype", if text.starts_with(['[', '{']) { "record" } else { text });
    draft.label("size", if shape.contains(&0) { "zero" } else { "some" });
    let few = params::few_filters(&cparams);
    // Recompressing lossy data loses more. C cannot compress items above 255 bytes with these filters either.
    draft.set("change", few && !floats && (plugin.is_empty() || itemsize <= 255));

    let nbytes = shape.iter().product::<u64>() as usize * itemsize;
    let raw = items(&mut draft.rng, text, nbytes);
    let mut builder = ArrayBuilder::of_dtype(shape.clone(), dtype).compression(cparams);
    if draft.rng.chance(85) || !plugin.is_empty() {
        builder = builder.chunks(chunkshape).blocks(blockshape);
    }
    for (name, value) in random_layers(draft, 15, "meta", 200) {
        builder = builder.metalayer(name, value);
    }
    for (name, value) in random_layers(draft, 16, "vlmeta", 9000) {
        builder = builder.vlmetalayer(name, value);
    }

    let geometry = builder.geometry().context("geometry")?;
    draft.set("shape", shape.clone());
    draft.set("chunkshape", geometry.chunkshape().to_vec());
    draft.set("blockshape", geometry.blockshape().to_vec());
    draft.set("dtype", text);
    draft.set("itemsize", itemsize);

    let source: &[u8] = &raw;
    let place = storage(draft);
    let path = draft.path(".b2nd");
    match place {
        "contiguous" => builder.write(&path, source).context("create")?,
        "sparse" => builder.storage(Storage::Sparse).write(&path, source).context("create_sparse")?,
        _ => {
            let frame = builder.to_bytes(source).context("to_memory")?;
            save(draft, place, &frame, ".b2nd")?;
        }
    }
    if !floats {
        return draft.raw(&raw);
    }
    // Lossy results are not defined here; both sides must read the same values.
    let offset = draft.field("offset").as_u64().unwrap_or(0);
    let options = SuperChunk::options().offset(offset).plugins(plugins());
    let array = NdArray::open_with(&path, &options).context("opening what was written")?;
    let read = array.all().read_bytes().context("reading what was written")?;
    ensure!(read.len() == raw.len(), "reads back with another length");
    draft.raw(&read)
}

/// Adds an N-dimensional filter in first place, or uses an N-dimensional codec.
fn with_plugin(draft: &mut Draft, cparams: &CParams, plugin: &str, blockshape: &[u32]) -> Result<CParams> {
    // None of these pipelines contains delta.
    draft.set("partial", plugin == "zfp" || !cparams.use_dict());
    if plugin == "zfp" {
        let modes = [
            (CodecId::ZFP_FIXED_ACCURACY, *draft.rng.pick(&[250, 253, 255, 0, 2])),
            (CodecId::ZFP_FIXED_PRECISION, draft.rng.within(3..=40) as u8),
            (CodecId::ZFP_FIXED_RATE, draft.rng.within(10..=90) as u8),
        ];
        let (codec, meta) = *draft.rng.pick(&modes);
        draft.label("codec", codec);
        draft.label("pipe", "none");
        draft.label("dict", "no");
        draft.label("plugin", codec);
        // C-Blosc2 3.3.5 refuses most slices of fixed-rate arrays in files, even of those it wrote.
        draft.set("partial", codec != CodecId::ZFP_FIXED_RATE);
        let builder = cparams.to_builder().plugins(plugins()).codec(codec).codec_meta(meta).use_dict(false);
        return builder.no_filters().build().context("parameters with zfp");
    }
    let smallest = blockshape.iter().copied().min().unwrap_or(1).min(100) as usize;
    let side = draft.rng.within(1..=smallest) as u8;
    let id = if plugin == "ndcell" { FilterId::NDCELL } else { FilterId::NDMEAN };
    let mut filters = vec![FilterSlot::new(id, side)];
    if draft.rng.chance(50) {
        filters.push(FilterSlot::SHUFFLE);
    }
    draft.label("pipe", if filters.len() > 1 { format!("{plugin}+shuffle") } else { plugin.to_owned() });
    draft.label("plugin", plugin);
    cparams.to_builder().filters(&filters).build().context("parameters with a plugin")
}

/// Returns a random shape, chunk shape and block shape.
fn shapes(rng: &mut Rng, itemsize: usize, plugin: &str) -> (Vec<u64>, Vec<u32>, Vec<u32>) {
    let ndim = match plugin {
        "" => *rng.pick(&[0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16]),
        _ => rng.within(1..=4),
    };
    let least = if plugin == "zfp" { 4 } else { 1 };
    let top = [1, 6000, 120, 30, 13, 8, 6, 5, 4].get(ndim).copied().unwrap_or(if ndim > 9 { 2 } else { 3 });
    let mut shape: Vec<u64> = (0..ndim).map(|_| rng.within(least..=top) as u64).collect();
    while shape.iter().product::<u64>() as usize * itemsize > 250_000
        || ndim > 9 && shape.iter().product::<u64>() > 512
    {
        let k = rng.within(0..=ndim - 1);
        shape[k] = (shape[k] / 2).max(1);
    }
    let zero = plugin.is_empty() && ndim > 0 && rng.chance(6);
    if zero {
        let k = rng.within(0..=ndim - 1);
        shape[k] = 0;
    }
    loop {
        // A chunk may be longer than the array, but a block must not be longer than a chunk.
        let part = |rng: &mut Rng, n: u32| match (n as usize).max(least) {
            n if rng.chance(70) => rng.within(least..=n) as u32,
            n => n as u32,
        };
        let chunks: Vec<u32> = shape.iter().map(|n| part(rng, *n as u32 + u32::from(*n % 3 == 1))).collect();
        let blocks: Vec<u32> = chunks.iter().map(|n| part(rng, *n)).collect();
        let chunks_of = shape.iter().zip(&chunks).map(|(s, c)| (*s as f64 / f64::from(*c)).ceil());
        let blocks_of = chunks.iter().zip(&blocks).map(|(c, b)| f64::from(c.div_ceil(*b)));
        let (nchunks, nblocks): (f64, f64) = (chunks_of.product(), blocks_of.product());
        if nchunks <= 300.0 && nblocks <= 2000.0 && nchunks * nblocks <= 6000.0 {
            return (shape, chunks, blocks);
        }
    }
}

/// Returns items of the dtype as bytes: booleans are 0 or 1, characters are assigned code points.
fn items(rng: &mut Rng, dtype: &str, nbytes: usize) -> Vec<u8> {
    let mut raw = rng.data(nbytes).1;
    match dtype.get(..2) {
        Some("|b") => raw.iter_mut().for_each(|byte| *byte &= 1),
        Some("<U") => raw
            .chunks_exact_mut(4)
            .for_each(|c| c.copy_from_slice(&u32::from(b'a' + c[0] % 26).to_le_bytes())),
        _ => (),
    }
    raw
}

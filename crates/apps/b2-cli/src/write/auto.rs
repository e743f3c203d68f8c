//! `--codec auto`: compression parameters chosen from a sample of the input.

use std::borrow::Cow;

use anyhow::{Context, Result};
use b2kit::Compression;
use b2kit::chunk::sample_ranges;
use b2kit::nd::Geometry;

use crate::args::{Codec, Encoding, Filters, Level, plugins};
use crate::process::{Usage, buffer};
use crate::read::block_box;

/// Size of the sample of an array, in bytes.
const SAMPLE: u64 = 4 << 20;

/// Resolves `--codec auto` for `nbytes` uncompressed bytes. `read` fills a buffer from the given position.
pub(crate) fn for_bytes(
    encoding: &Encoding,
    typesize: usize,
    nbytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<Cow<'_, Encoding>> {
    if !is_auto(encoding)? {
        return Ok(Cow::Borrowed(encoding));
    }
    let mut sample = Vec::new();
    for range in sample_ranges(nbytes, typesize) {
        let at = sample.len();
        sample.resize(at + usize::try_from(range.end - range.start)?, 0);
        read(range.start, &mut sample[at..])?;
    }
    let blocksize = usize::try_from(encoding.blocksize.unwrap_or(0))?;
    choose(encoding, plugins::cparams(typesize).blocksize(blocksize), &sample)
}

/// Resolves `--codec auto` for an array. `read` fills a buffer with the box of items at the given start and of the
/// given shape.
pub(crate) fn for_array<'a>(
    encoding: &'a Encoding,
    geometry: &Geometry,
    mut read: impl FnMut(&[u64], &[u64], &mut [u8]) -> Result<()>,
) -> Result<Cow<'a, Encoding>> {
    if !is_auto(encoding)? {
        return Ok(Cow::Borrowed(encoding));
    }
    // Sample whole, evenly spaced blocks, laid out as they will be compressed.
    let block = geometry.block_nbytes().max(1);
    let all = geometry.nchunks() * geometry.nblocks() as u64;
    let wanted = (SAMPLE / block as u64).clamp(1, all.max(1));
    let mut sample = Vec::new();
    for i in 0..wanted.min(all) {
        let number = u64::try_from(u128::from(all) * u128::from(i) / u128::from(wanted))?;
        let nblocks = geometry.nblocks() as u64;
        let (start, shape) = block_box(geometry, number / nblocks, number % nblocks);
        let nitems = usize::try_from(shape.iter().product::<u64>())?;
        if nitems > 0 {
            let mut items = buffer(block)?;
            read(&start, &shape, &mut items[..nitems * geometry.itemsize()])?;
            sample.extend_from_slice(&items);
        }
    }
    let base = plugins::cparams(geometry.itemsize()).blocksize(block).blockshape(geometry.blockshape());
    choose(encoding, base, &sample)
}

/// Whether `--codec auto` was given. Fails if parameters that it chooses were given as well.
fn is_auto(encoding: &Encoding) -> Result<bool> {
    if encoding.codec != Some(Codec::Auto) {
        return match encoding.goal {
            Some(_) => Err(Usage("--goal needs --codec auto".into()).into()),
            None => Ok(false),
        };
    }
    let given = [
        ("--clevel", encoding.clevel.is_some()),
        ("--filters", encoding.filters.is_some()),
        ("--splitmode", encoding.splitmode.is_some()),
        ("--dict", encoding.dict.is_some()),
        ("--codec-meta", encoding.codec_meta.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Usage(format!("{name} conflicts with --codec auto, which chooses it")).into()),
        None => Ok(true),
    }
}

fn choose<'a>(encoding: &Encoding, base: Compression, sample: &[u8]) -> Result<Cow<'a, Encoding>> {
    let fixed = base.clone().build()?.blocksize();
    let goal = encoding.goal.map_or(b2kit::chunk::Goal::default(), Into::into);
    let chosen = base.auto(sample, goal).context("--codec auto")?;
    Ok(Cow::Owned(Encoding {
        codec: Some(Codec::Id(chosen.codec())),
        goal: None,
        clevel: Level(Some(chosen.level())),
        filters: Some(Filters::used(chosen.filters())),
        splitmode: Some(chosen.splitmode()),
        // Keep the block size if it is already fixed.
        blocksize: encoding.blocksize.or((fixed == 0).then_some(chosen.blocksize() as u64)),
        ..encoding.clone()
    }))
}

//! Filters with arbitrary parameters on blocks of any size, with every kernel.

use b2_filters::{FilterContext, FilteredBlock, available_kernels, builtin};

use crate::checks::{filled, same};
use crate::dice::{Dice, Params};
use crate::internals::kernels;

/// The input holds filter, parameters and shape, followed by the block.
pub(crate) fn run(data: &[u8]) {
    let filters = builtin();
    let mut params = Params::new(data);
    let filter = &filters[params.up_to(filters.len() - 1)];
    let meta = params.u8();
    let flags = params.u8();
    let typesize = usize::from(params.u8()).max(1);
    let version = if flags & 1 != 0 { 2 } else { 5 };
    let itemsize = match flags >> 1 & 3 {
        0 => None,
        1 => Some(typesize),
        2 => Some(usize::from(params.u16())),
        _ => Some(params.u32() as usize),
    };
    let ndim = if flags & 8 != 0 { params.up_to(9) } else { 0 };
    let shape: Vec<u32> =
        (0..ndim).map(|_| if flags & 64 != 0 { params.u32() } else { u32::from(params.u8() % 16) }).collect();
    let repeats = if flags & 128 != 0 { 1 + usize::from(params.u8() % 32) } else { 1 };
    let mut block = params.rest().repeat(repeats);
    // Choose a shape that fits the block.
    let wanted = shape.iter().try_fold(typesize, |n, dim| n.checked_mul(*dim as usize));
    if let Some(wanted @ 1..=65536) = wanted
        && flags & 16 != 0
        && ndim > 0
    {
        block.resize(wanted, 0x55);
    }
    let reference: Vec<u8> = block.iter().rev().copied().collect();
    let cx = FilterContext::new(typesize)
        .full_itemsize(itemsize)
        .chunk_version(version)
        .blockshape(&shape)
        .reference((flags & 32 != 0).then_some(&reference[..]));
    let dice = &mut Dice::of(data);
    let (mut backward, mut forward) = (None, None);
    for kernel in available_kernels() {
        kernels::force(Some(kernel));
        let streaming = cx.streaming(dice.one_in(3));
        let back = filled(block.len(), |dst| filter.backward(&streaming, meta, &block, dst));
        let forth = filled(block.len(), |dst| filter.forward(&streaming, meta, &block, dst));
        if let Ok(back) = &back {
            part(&**filter, &streaming, meta, &block, back, dice);
        }
        if let Ok(forth) = &forth
            && filter.properties(&cx, meta).lossless
            && version == 5
        {
            let plain = filled(block.len(), |dst| filter.backward(&streaming, meta, forth, dst));
            assert!(plain.as_deref() == Ok(&block[..]), "{filter:?} does not come back: {:?}", plain.err());
        }
        agree(&mut backward, back, kernel);
        agree(&mut forward, forth, kernel);
    }
    kernels::force(None);
}

type FilterResult = Result<Vec<u8>, String>;

fn agree(first: &mut Option<FilterResult>, outcome: FilterResult, kernel: &str) {
    match first {
        None => *first = Some(outcome),
        Some(first) => same(first, &outcome, kernel),
    }
}

/// Decodes parts of the block, from the block and from its planes.
fn part(
    filter: &dyn b2_filters::Filter,
    cx: &FilterContext<'_>,
    meta: u8,
    block: &[u8],
    whole: &[u8],
    dice: &mut Dice,
) {
    let range = dice.range(block.len());
    let got = filled(range.len(), |dst| {
        filter.backward_part(cx, meta, FilteredBlock::Block(block), range.clone(), dst)
    });
    assert!(got.as_deref() == Ok(&whole[range.clone()]), "{filter:?}: bytes {range:?} are others");
    let Some(planes) = filter.properties(cx, meta).planes_of(block.len()) else { return };
    let (count, prefix) = (planes.count, planes.prefix(block.len(), range.end));
    let len = block.len() / count;
    // Bytes after the prefix must not matter.
    let planes: Vec<Vec<u8>> = (0..count)
        .map(|j| {
            let mut plane = block[j * len..(j + 1) * len].to_vec();
            plane[prefix.min(len)..].fill(0x77);
            plane
        })
        .collect();
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    let src = FilteredBlock::Planes(&planes);
    let got = filled(range.len(), |dst| filter.backward_part(cx, meta, src, range.clone(), dst));
    assert!(got.as_deref() == Ok(&whole[range.clone()]), "{filter:?}: bytes {range:?} of planes are others");
}

//! Byte delta (id 35) and its historic form (id 34): differences of neighbouring bytes, modulo 256, within each byte
//! plane of a shuffled block. Bytes after the last whole item are copied.

use crate::error::Result;
use crate::filter::same_length;
use crate::kernels::{self, Scan};
use crate::{Effect, Filter, FilterContext, FilterError, FilterId, FilterProperties};

/// The byte delta filter (id 35), for use after byte shuffle.
///
/// The parameter byte is the number of planes; 0 means the item size of the container.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteDelta;

impl Filter for ByteDelta {
    fn id(&self) -> FilterId {
        FilterId::BYTEDELTA
    }
    fn name(&self) -> &str {
        "bytedelta"
    }
    fn properties(&self, _cx: &FilterContext<'_>, _meta: u8) -> FilterProperties {
        FilterProperties {
            lossless: true,
            shapeless: true,
            effect: Effect::KeepsZeros,
            // If 0 were stored, only the container would determine the number of planes, and a chunk without container
            // could not be decoded. python-blosc2 cannot open files with values above 127.
            zero_is_itemsize: true,
            ..FilterProperties::UNKNOWN
        }
    }
    fn forward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        crate::filter::may_apply(self.id())?;
        for_each_plane(self.id(), cx, meta, src, dst, differences)
    }
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        for_each_plane(self.id(), cx, meta, src, dst, prefix_sums)
    }
}

/// The historic byte delta (id 34), read only. C-Blosc2 wrote it where it used SIMD: differences restart in the last
/// bytes of each plane, after the last multiple of 16.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoricByteDelta;

impl Filter for HistoricByteDelta {
    fn id(&self) -> FilterId {
        FilterId::BYTEDELTA_HISTORIC
    }
    fn name(&self) -> &str {
        "filter:34"
    }
    fn forward(&self, _cx: &FilterContext<'_>, _meta: u8, _src: &[u8], _dst: &mut [u8]) -> Result<()> {
        Err(FilterError::ReadOnly { filter: self.id() })
    }
    fn backward(&self, cx: &FilterContext<'_>, meta: u8, src: &[u8], dst: &mut [u8]) -> Result<()> {
        for_each_plane(self.id(), cx, meta, src, dst, |src, dst| {
            let run = src.len() & !15;
            prefix_sums(&src[..run], &mut dst[..run]);
            prefix_sums(&src[run..], &mut dst[run..]);
        })
    }
}

fn for_each_plane(
    filter: FilterId,
    cx: &FilterContext<'_>,
    meta: u8,
    src: &[u8],
    dst: &mut [u8],
    plane: impl Fn(&[u8], &mut [u8]),
) -> Result<()> {
    same_length(filter, src, dst)?;
    let nplanes = match (meta, cx.full_itemsize) {
        (0, Some(itemsize)) if itemsize > 0 => itemsize,
        (0, _) => {
            let what = "parameter 0 means the container's item size, which is unknown";
            return Err(FilterError::Container { filter, what });
        }
        (meta, _) => meta.into(),
    };
    let q = src.len() / nplanes;
    if q > 0 {
        let body = q * nplanes;
        for (s, d) in src[..body].chunks_exact(q).zip(dst[..body].chunks_exact_mut(q)) {
            plane(s, d);
        }
    }
    let body = q * nplanes;
    dst[body..].copy_from_slice(&src[body..]);
    Ok(())
}

fn differences(src: &[u8], dst: &mut [u8]) {
    kernels::best().differences(Scan::Sum, src, dst);
}

fn prefix_sums(src: &[u8], dst: &mut [u8]) {
    kernels::best().scan(Scan::Sum, src, dst);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(meta: u8, itemsize: Option<usize>, plain: &[u8], stored: &[u8]) {
        let cx = FilterContext::new(4).full_itemsize(itemsize);
        let (mut out, mut back) = (vec![0xEE; plain.len()], vec![0x55; plain.len()]);
        ByteDelta.forward(&cx, meta, plain, &mut out).unwrap();
        assert_eq!(out, stored, "forward");
        ByteDelta.backward(&cx, meta, stored, &mut back).unwrap();
        assert_eq!(back, plain, "backward");
    }

    #[test]
    fn by_hand() {
        check(1, None, &[], &[]);
        check(1, None, &[5, 7, 4, 4], &[5, 2, 253, 0]);
        check(2, None, &[1, 2, 200, 100], &[1, 1, 200, 156]);
        // Two planes of three, and a tail.
        check(2, None, &[1, 2, 4, 9, 9, 8, 77], &[1, 1, 2, 9, 0, 255, 77]);
        check(0, Some(3), &[1, 2, 1, 2, 1, 2, 5, 6], &[1, 1, 1, 1, 1, 1, 5, 6]);
        // More planes than bytes: everything is tail.
        check(255, None, &[1, 2, 3], &[1, 2, 3]);
        check(0, Some(usize::MAX), &[1, 2, 3], &[1, 2, 3]);
        check(1, None, &(0..=20).map(|k| k * 11).collect::<Vec<u8>>(), &[&[0][..], &[11; 20]].concat());
    }

    #[test]
    fn parameter_zero_needs_a_container() {
        for itemsize in [None, Some(0)] {
            let cx = FilterContext::new(4).full_itemsize(itemsize);
            let err = ByteDelta.backward(&cx, 0, &[0; 4], &mut [0; 4]).unwrap_err();
            assert!(matches!(err, FilterError::Container { filter: FilterId::BYTEDELTA, .. }));
        }
    }

    #[test]
    fn historic_form_restarts_after_the_last_sixteen() {
        let cx = FilterContext::new(4);
        // One plane of 19: a run of 16, then a run of 3.
        let stored: Vec<u8> = [[1; 16].as_slice(), &[100, 1, 1]].concat();
        let plain: Vec<u8> = (1..=16).chain([100, 101, 102]).collect();
        let mut out = [0xEE; 19];
        HistoricByteDelta.backward(&cx, 1, &stored, &mut out).unwrap();
        assert_eq!(out.as_slice(), plain);
        // A plane shorter than 16 bytes is a single run, and the tail is copied.
        let mut out = [0xEE; 7];
        HistoricByteDelta.backward(&cx, 2, &[1, 1, 1, 5, 5, 5, 9], &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 5, 10, 15, 9]);
        let err = HistoricByteDelta.forward(&cx, 1, &plain, &mut [0; 19]).unwrap_err();
        assert_eq!(err, FilterError::ReadOnly { filter: FilterId::BYTEDELTA_HISTORIC });
    }
}

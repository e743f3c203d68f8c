//! Transposes in vectors that consist of lanes of 16 bytes: one in SSE2, two in AVX2.
//!
//! A group is 16 items per lane, items 0 to 15 in the first lane. `C` is the number of bytes of an item, `P` that number
//! rounded up to a power of two: `P` registers hold the group, 16 / P items per lane. All is done by zips, which
//! interleave two registers lane by lane: what distinguishes these two (one bit of their numbers) becomes the lowest
//! bit of the position in the lane, and what was the highest bit of the position distinguishes them from then on.
//! Columns from `C` up to `P` hold rubbish and are not stored.

/// Room for one group of dense items and what a register holds beyond the last one.
pub(super) const EDGE: usize = 2 * 16 * 16 + 16;

/// Bytes that a register holds beyond its last item.
pub(super) const fn overshoot(c: usize, p: usize) -> usize {
    16 - 16 / p * c
}

/// The kernels, for an instruction set with the vector `$Vector`. A macro rather than a generic function, since these
/// must be functions of that instruction set. It finds where it is used:
///
/// - `NARROWER`, the kernels for what is less than a group;
/// - `load(bytes, 0)`, `store(bytes, 0, v)` and `zero()` for whole vectors;
/// - `load_items::<C, P>(from, pitch)`: a group of items, into `P` registers; sorted by byte number if `$sorted`;
/// - `store_items::<C, P>(r, to, pitch)`: the inverse for items that are not sorted;
/// - `zip::<WIDTH>(a, b)`: interleaves elements of `WIDTH` bytes, those of the first half lanes and of the second;
/// - `swap_bits::<D>(a, b, low)`: swaps the high bits of `a`, `D` further up, with the low bits (`low`) of `b`.
macro_rules! lane_kernels {
    ($feature:literal, $Vector:ty, $sorted:literal) => {
        /// Items per group.
        const GROUP: usize = size_of::<$Vector>();

        #[target_feature(enable = $feature)]
        pub(super) fn gather(items: &[u8], tile: Tile, planes: &mut [u8]) {
            match tile.cols {
                _ if tile.n < GROUP => NARROWER.gather(items, tile, planes),
                2 => gather_by::<2, 2, true, false>(items, tile, planes),
                3 => gather_by::<3, 4, true, false>(items, tile, planes),
                4 => gather_by::<4, 4, true, false>(items, tile, planes),
                5 => gather_by::<5, 8, true, false>(items, tile, planes),
                6 => gather_by::<6, 8, true, false>(items, tile, planes),
                7 => gather_by::<7, 8, true, false>(items, tile, planes),
                8 if tile.pitch > 8 => gather_by::<8, 8, false, false>(items, tile, planes),
                8 => gather_by::<8, 8, true, false>(items, tile, planes),
                9 => gather_by::<9, 16, true, false>(items, tile, planes),
                10 => gather_by::<10, 16, true, false>(items, tile, planes),
                11 => gather_by::<11, 16, true, false>(items, tile, planes),
                12 => gather_by::<12, 16, true, false>(items, tile, planes),
                13 => gather_by::<13, 16, true, false>(items, tile, planes),
                14 => gather_by::<14, 16, true, false>(items, tile, planes),
                15 => gather_by::<15, 16, true, false>(items, tile, planes),
                16 if tile.pitch > 16 => gather_by::<16, 16, false, false>(items, tile, planes),
                16 => gather_by::<16, 16, true, false>(items, tile, planes),
                _ => Generic.gather(items, tile, planes),
            }
        }

        #[target_feature(enable = $feature)]
        pub(super) fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
            match tile.cols {
                _ if tile.n < GROUP => NARROWER.scatter(planes, tile, items),
                2 => scatter_by::<2, 2, true, false>(planes, tile, items),
                3 => scatter_by::<3, 4, true, false>(planes, tile, items),
                4 => scatter_by::<4, 4, true, false>(planes, tile, items),
                5 => scatter_by::<5, 8, true, false>(planes, tile, items),
                6 => scatter_by::<6, 8, true, false>(planes, tile, items),
                7 => scatter_by::<7, 8, true, false>(planes, tile, items),
                8 if tile.pitch > 8 => scatter_by::<8, 8, false, false>(planes, tile, items),
                8 => scatter_by::<8, 8, true, false>(planes, tile, items),
                9 => scatter_by::<9, 16, true, false>(planes, tile, items),
                10 => scatter_by::<10, 16, true, false>(planes, tile, items),
                11 => scatter_by::<11, 16, true, false>(planes, tile, items),
                12 => scatter_by::<12, 16, true, false>(planes, tile, items),
                13 => scatter_by::<13, 16, true, false>(planes, tile, items),
                14 => scatter_by::<14, 16, true, false>(planes, tile, items),
                15 => scatter_by::<15, 16, true, false>(planes, tile, items),
                16 if tile.pitch > 16 => scatter_by::<16, 16, false, false>(planes, tile, items),
                16 => scatter_by::<16, 16, true, false>(planes, tile, items),
                _ => Generic.scatter(planes, tile, items),
            }
        }

        #[target_feature(enable = $feature)]
        pub(super) fn gather_bits(items: &[u8], tile: Tile, planes: &mut [u8]) {
            if tile.n < GROUP {
                return NARROWER.gather_bits(items, tile, planes);
            }
            gather_by::<8, 8, true, true>(items, tile, planes)
        }

        #[target_feature(enable = $feature)]
        pub(super) fn scatter_bits(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
            if tile.n < GROUP {
                return NARROWER.scatter_bits(planes, tile, items);
            }
            scatter_by::<8, 8, true, true>(planes, tile, items)
        }

        /// At least one group. `DENSE`: no gaps between items. `BITS`: the bits of each item are transposed first.
        #[target_feature(enable = $feature)]
        fn gather_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
            items: &[u8],
            tile: Tile,
            planes: &mut [u8],
        ) {
            let pitch = if DENSE { C } else { tile.pitch };
            let mut planes = PlanesMut::<C>::new(planes, tile.stride, tile.n);
            let mut edge = [0; EDGE];
            let mut i = 0;
            while i < tile.n {
                // The last group reaches back into items already done.
                i = i.min(tile.n - GROUP);
                let mut from = &items[i * pitch..];
                let over = overshoot(C, P);
                if over > 0 && from.len() < GROUP * C + over {
                    edge[..from.len()].copy_from_slice(from);
                    from = &edge;
                }
                let mut r = to_planes(load_items::<C, P>(from, pitch));
                if BITS {
                    transpose_bits(&mut r);
                }
                for (j, &v) in r.iter().enumerate().take(C) {
                    store(planes.get::<GROUP>(j, i), 0, v);
                }
                i += GROUP;
            }
        }

        /// At least one group. `DENSE`: no gaps between items. `BITS`: the bits of each item are transposed last.
        #[target_feature(enable = $feature)]
        fn scatter_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
            planes: &[&[u8]],
            tile: Tile,
            items: &mut [u8],
        ) {
            let pitch = if DENSE { C } else { tile.pitch };
            let items = &mut items[..tile.items_len()];
            let planes = Planes::<P>::new(&planes[..C], tile.n);
            let mut edge = [0; EDGE];
            let mut i = 0;
            while i < tile.n {
                i = i.min(tile.n - GROUP);
                let mut r = [zero(); P];
                for (j, v) in r.iter_mut().enumerate().take(C) {
                    *v = load(planes.get::<GROUP>(j, i), 0);
                }
                if BITS {
                    transpose_bits(&mut r);
                }
                let r = to_items(r);
                let to = &mut items[i * pitch..];
                let over = overshoot(C, P);
                if over == 0 || to.len() >= GROUP * C + over {
                    store_items::<C, P>(r, to, pitch);
                } else {
                    store_items::<C, P>(r, &mut edge, pitch);
                    to.copy_from_slice(&edge[..to.len()]);
                }
                i += GROUP;
            }
        }

        /// Items to planes, within lanes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn to_planes<const P: usize>(mut r: [$Vector; P]) -> [$Vector; P] {
            // Each zip leaves one bit of the byte number in the register number, not always where it belongs.
            match P {
                2 if $sorted => zips::<P, 8, 1>(&mut r),
                4 if $sorted => {
                    zips::<P, 4, 1>(&mut r);
                    zips::<P, 8, 2>(&mut r);
                    r.swap(1, 2);
                }
                8 if $sorted => {
                    zips::<P, 2, 1>(&mut r);
                    zips::<P, 4, 2>(&mut r);
                    zips::<P, 8, 4>(&mut r);
                    r.swap(1, 4);
                    r.swap(3, 6);
                }
                2 => {
                    zips::<P, 1, 1>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                }
                4 => {
                    zips::<P, 1, 2>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                    zips::<P, 1, 2>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                }
                8 => {
                    zips::<P, 1, 4>(&mut r);
                    zips::<P, 1, 2>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                    zips::<P, 1, 4>(&mut r);
                    // Byte b0 b2 b1 in register b2 b1 b0.
                    r.swap(1, 4);
                    r.swap(2, 4);
                    r.swap(3, 5);
                    r.swap(5, 6);
                }
                _ => {
                    zips::<P, 1, 8>(&mut r);
                    zips::<P, 1, 4>(&mut r);
                    zips::<P, 1, 2>(&mut r);
                    zips::<P, 1, 1>(&mut r);
                }
            }
            r
        }

        /// Planes to items `P` bytes apart, within lanes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn to_items<const P: usize>(mut r: [$Vector; P]) -> [$Vector; P] {
            zips::<P, 1, 8>(&mut r);
            zips::<P, 1, 4>(&mut r);
            zips::<P, 1, 2>(&mut r);
            zips::<P, 1, 1>(&mut r);
            r
        }

        /// Zips the registers whose numbers differ in the bit `BIT`, if there are any.
        #[inline]
        #[target_feature(enable = $feature)]
        fn zips<const P: usize, const WIDTH: usize, const BIT: usize>(r: &mut [$Vector; P]) {
            for k in 0..P {
                if BIT < P && k & BIT == 0 {
                    (r[k], r[k | BIT]) = zip::<WIDTH>(r[k], r[k | BIT]);
                }
            }
        }

        /// The bytes at one place in 8 registers as an 8 x 8 bit matrix: swaps single bits across the diagonal, then
        /// 2 x 2, then 4 x 4 bits. Across registers this takes half the steps that it takes within each item.
        #[inline]
        #[target_feature(enable = $feature)]
        fn transpose_bits<const P: usize>(r: &mut [$Vector; P]) {
            for k in [0, 2, 4, 6] {
                (r[k], r[k + 1]) = swap_bits::<1>(r[k], r[k + 1], 0x55);
            }
            for k in [0, 1, 4, 5] {
                (r[k], r[k + 2]) = swap_bits::<2>(r[k], r[k + 2], 0x33);
            }
            for k in [0, 1, 2, 3] {
                (r[k], r[k + 4]) = swap_bits::<4>(r[k], r[k + 4], 0x0F);
            }
        }
    };
}

pub(super) use lane_kernels;

//! Transposes with vectors that consist of lanes of 16 bytes: one in SSE2, two in AVX2.
//!
//! A group is 16 items per lane, with items 0 to 15 in the first lane. `C` is the item size in bytes, and `P` is `C`
//! rounded up to a power of two. `P` registers hold a group, 16 / P items per lane. Everything is done by zips, which
//! interleave two registers lane by lane: the bit in which their register numbers differ becomes the lowest bit of the
//! position in the lane, and the highest bit of the position becomes that bit of the register number. Columns from `C`
//! up to `P` hold arbitrary bytes and are not stored.

/// Returns how many items past a group are touched by registers of 16 / `p` items. It is 0 if `c` equals `p`.
pub(super) const fn beyond(c: usize, p: usize) -> usize {
    16usize.div_ceil(c) - 16 / p
}

/// Buffer size for a group and the items past it that are touched.
pub(super) const EDGE_LEN: usize = (32 + 2) * 16;

/// Calls the kernel for the number of columns of a tile. There is one function per number, and a fallback.
macro_rules! by_columns {
    ($tile:ident, $kernel:ident($($arg:expr),*), $other:expr) => {
        match $tile.cols {
            2 => $kernel::<2, 2, true, false>($($arg),*),
            3 => $kernel::<3, 4, true, false>($($arg),*),
            4 => $kernel::<4, 4, true, false>($($arg),*),
            5 => $kernel::<5, 8, true, false>($($arg),*),
            6 => $kernel::<6, 8, true, false>($($arg),*),
            7 => $kernel::<7, 8, true, false>($($arg),*),
            8 if $tile.pitch > 8 => $kernel::<8, 8, false, false>($($arg),*),
            8 => $kernel::<8, 8, true, false>($($arg),*),
            9 => $kernel::<9, 16, true, false>($($arg),*),
            10 => $kernel::<10, 16, true, false>($($arg),*),
            11 => $kernel::<11, 16, true, false>($($arg),*),
            12 => $kernel::<12, 16, true, false>($($arg),*),
            13 => $kernel::<13, 16, true, false>($($arg),*),
            14 => $kernel::<14, 16, true, false>($($arg),*),
            15 => $kernel::<15, 16, true, false>($($arg),*),
            16 if $tile.pitch > 16 => $kernel::<16, 16, false, false>($($arg),*),
            16 => $kernel::<16, 16, true, false>($($arg),*),
            _ => $other,
        }
    };
}

/// Defines the kernels for an instruction set with the vector `$Vector`. It is a macro rather than a generic function,
/// because the kernels must be functions of that instruction set. It requires at the call site:
///
/// - `NARROWER`, the kernels for less than a group;
/// - `load(bytes, 0)`, `store(bytes, 0, v)` and `zero()` for whole vectors;
/// - `load_items::<C, P, DENSE>(items, i)`: loads a group of items into `P` registers, sorted by byte number if
///   `$sorted`;
/// - `store_items::<C, P, DENSE>(r, items, i)`: stores items that are not sorted;
/// - `zip::<WIDTH>(a, b)`: interleaves elements of `WIDTH` bytes of the first half lanes, and of the second;
/// - `swap_bits::<D>(a, b, low)`: swaps the high bits of `a`, `D` further up, with the low bits (`low`) of `b`.
macro_rules! lane_kernels {
    ($feature:literal, $Vector:ty, $sorted:literal) => {
        /// Items per group.
        const GROUP: usize = size_of::<$Vector>();

        #[target_feature(enable = $feature)]
        pub(super) fn gather(items: &[u8], tile: Tile, planes: &mut [u8]) {
            if tile.n < GROUP {
                return NARROWER.gather(items, tile, planes);
            }
            by_columns!(tile, gather_by(items, tile, planes), Generic.gather(items, tile, planes))
        }

        #[target_feature(enable = $feature)]
        pub(super) fn scatter(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
            if tile.n < GROUP {
                return NARROWER.scatter(planes, tile, items);
            }
            by_columns!(tile, scatter_by(planes, tile, items), Generic.scatter(planes, tile, items))
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

        /// Gathers at least one group. `DENSE`: items are adjacent. `BITS`: transposes the bits of each item first.
        #[inline(never)]
        #[target_feature(enable = $feature)]
        fn gather_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
            items: &[u8],
            tile: Tile,
            planes: &mut [u8],
        ) {
            let mut planes = PlanesMut::<C>::new(planes, tile.stride, tile.n);
            let source = Items::<C, DENSE>::new(items, tile.pitch, tile.n);
            let mut edge = [0; EDGE_LEN];
            for part in groups(tile.n, GROUP) {
                for i in part {
                    if !BITS && DENSE {
                        prefetch_ahead(source.address(i), GROUP * C);
                    }
                    let r = if beyond(C, P) == 0 || i + GROUP + beyond(C, P) <= tile.n {
                        load_items::<C, P, DENSE>(&source, i)
                    } else {
                        let last = &items[i * tile.pitch..tile.items_len()];
                        edge[..last.len()].copy_from_slice(last);
                        load_items::<C, P, DENSE>(&Items::new(&edge, tile.pitch, GROUP + beyond(C, P)), 0)
                    };
                    let mut r = to_planes(r);
                    if BITS {
                        transpose_bits(&mut r);
                    }
                    for (j, &v) in r.iter().enumerate().take(C) {
                        store(planes.get::<GROUP>(j, i), 0, v);
                    }
                }
            }
        }

        /// Scatters at least one group. `DENSE`: items are adjacent. `BITS`: transposes the bits of each item last.
        #[inline(never)]
        #[target_feature(enable = $feature)]
        fn scatter_by<const C: usize, const P: usize, const DENSE: bool, const BITS: bool>(
            planes: &[&[u8]],
            tile: Tile,
            items: &mut [u8],
        ) {
            let planes = Planes::<P>::new(&planes[..C], tile.n);
            let mut target = ItemsMut::<C, DENSE>::new(items, tile.pitch, tile.n);
            let mut edge = [0; EDGE_LEN];
            for part in groups(tile.n, GROUP) {
                for i in part {
                    let plane = |j| if j < C { load(planes.get::<GROUP>(j, i), 0) } else { zero() };
                    let r = if P == 16 && GROUP > 16 {
                        halves_to_items(plane)
                    } else {
                        let mut r = [zero(); P];
                        for (j, v) in r.iter_mut().enumerate() {
                            *v = plane(j);
                        }
                        if BITS {
                            transpose_bits(&mut r);
                        }
                        to_items(r)
                    };
                    if beyond(C, P) == 0 || i + GROUP + beyond(C, P) <= tile.n {
                        store_items::<C, P, DENSE>(r, &mut target, i);
                    } else {
                        let mut view = ItemsMut::<C, DENSE>::new(&mut edge, tile.pitch, GROUP + beyond(C, P));
                        store_items::<C, P, DENSE>(r, &mut view, 0);
                        let last = target.rest(i);
                        last.copy_from_slice(&edge[..last.len()]);
                    }
                }
            }
        }

        /// Transposes items to planes within lanes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn to_planes<const P: usize>(mut r: [$Vector; P]) -> [$Vector; P] {
            // Each zip leaves one bit of the byte number in the register number, but not always at its final position.
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

        /// Transposes planes to items `P` bytes apart, within lanes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn to_items<const P: usize>(mut r: [$Vector; P]) -> [$Vector; P] {
            zips::<P, 1, 8>(&mut r);
            zips::<P, 1, 4>(&mut r);
            zips::<P, 1, 2>(&mut r);
            zips::<P, 1, 1>(&mut r);
            r
        }

        /// Runs [`to_items`] for 16 registers in two halves, since more than 8 at a time would not fit the register
        /// file. This form of loops and arrays keeps compilers from interleaving the halves, which would be a quarter
        /// slower.
        #[inline]
        #[target_feature(enable = $feature)]
        fn halves_to_items<const P: usize>(get: impl Fn(usize) -> $Vector) -> [$Vector; P] {
            let mut r = [zero(); P];
            for half in [0, 1] {
                let mut h = [zero(); 8];
                for (k, v) in h.iter_mut().enumerate() {
                    *v = get(2 * k + half);
                }
                let h = to_items(h);
                for (k, v) in h.into_iter().enumerate() {
                    r[2 * k + half] = v;
                }
            }
            zips::<P, 1, 1>(&mut r);
            r
        }

        /// Zips the registers whose numbers differ in the bit `BIT`, if there are any.
        #[inline]
        #[target_feature(enable = $feature)]
        fn zips<const P: usize, const WIDTH: usize, const BIT: usize>(r: &mut [$Vector; P]) {
            for k in 0..if BIT < P { P / 2 } else { 0 } {
                // Iterates over all numbers without the bit. Written without branches, so that the loop is unrolled.
                let k = k + (k & !(BIT - 1));
                (r[k], r[k + BIT]) = zip::<WIDTH>(r[k], r[k + BIT]);
            }
        }

        /// Transposes the bytes at one position in 8 registers as an 8 x 8 bit matrix: swaps single bits across the
        /// diagonal, then 2 x 2, then 4 x 4 bits. Across registers this takes half the steps of transposing each item.
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

pub(super) use {by_columns, lane_kernels};

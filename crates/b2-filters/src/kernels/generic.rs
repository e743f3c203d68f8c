//! Portable kernels without `unsafe`: 8 x 8 transposes in eight `u64`. Items of 2 and 4 bytes use loops that compilers
//! vectorise, especially on CPUs with interleaving loads and stores.

use super::kernel::{Kernels, Tile};

/// The portable kernels.
#[derive(Debug)]
pub(crate) struct Generic;

impl Kernels for Generic {
    fn name(&self) -> &'static str {
        "generic"
    }

    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        let items = &items[..tile.items_len()];
        match tile.cols {
            2 if tile.pitch == 2 => return gather2(items, tile, planes),
            4 if tile.pitch == 4 => return gather4(items, tile, planes),
            _ => {}
        }
        let done = whole_groups(tile, items.len());
        for col in (0..tile.cols).step_by(8) {
            for i in (0..done).step_by(8) {
                let rows = transpose_bytes(std::array::from_fn(|k| {
                    load(items, (i + k) * tile.pitch + first_col(tile, col))
                }));
                for (k, row) in rows.into_iter().enumerate().take(tile.cols) {
                    store(planes, (first_col(tile, col) + k) * tile.stride + i, row);
                }
            }
        }
        for i in done..tile.n {
            for j in 0..tile.cols {
                planes[j * tile.stride + i] = items[i * tile.pitch + j];
            }
        }
    }

    fn scatter(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        let items = &mut items[..tile.items_len()];
        match tile.cols {
            2 if tile.pitch == 2 => return scatter2(planes, tile, items),
            4 if tile.pitch == 4 => return scatter4(planes, tile, items),
            _ => {}
        }
        let done = whole_groups(tile, items.len());
        for i in (0..done).step_by(8) {
            for col in (0..tile.cols).step_by(8) {
                let col = first_col(tile, col);
                let rows = transpose_bytes(std::array::from_fn(|k| {
                    if k < tile.cols { load(planes[col + k], i) } else { 0 }
                }));
                // Items of fewer than 8 bytes overwrite the start of the next one, which is written later.
                for (k, row) in rows.into_iter().enumerate() {
                    store(items, (i + k) * tile.pitch + col, row);
                }
            }
        }
        for i in done..tile.n {
            for j in 0..tile.cols {
                items[i * tile.pitch + j] = planes[j][i];
            }
        }
    }

    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        let done = tile.n & !7;
        for i in (0..done).step_by(8) {
            let words = transpose_bytes(std::array::from_fn(|k| load(items, (i + k) * 8)));
            for (j, row) in transpose_bits(words).into_iter().enumerate() {
                store(planes, j * tile.stride + i, row);
            }
        }
        for i in done..tile.n {
            let words = std::array::from_fn(|j| items[i * 8 + j].into());
            for (j, row) in transpose_bits(words).into_iter().enumerate() {
                planes[j * tile.stride + i] = row as u8;
            }
        }
    }

    fn scatter_bits(&self, planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
        let done = tile.n & !7;
        for i in (0..done).step_by(8) {
            let words = transpose_bits(std::array::from_fn(|j| load(planes[j], i)));
            for (k, word) in transpose_bytes(words).into_iter().enumerate() {
                store(items, (i + k) * 8, word);
            }
        }
        for i in done..tile.n {
            let words = transpose_bits(std::array::from_fn(|j| planes[j][i].into()));
            for (j, word) in words.into_iter().enumerate() {
                items[i * 8 + j] = word as u8;
            }
        }
    }
}

fn gather2(items: &[u8], tile: Tile, planes: &mut [u8]) {
    let (a, b) = planes.split_at_mut(tile.stride);
    for ((item, a), b) in items.as_chunks().0.iter().zip(a).zip(b) {
        [*a, *b] = *item;
    }
}

fn scatter2(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    let (a, b) = (&planes[0][..tile.n], &planes[1][..tile.n]);
    for ((item, a), b) in items.as_chunks_mut().0.iter_mut().zip(a).zip(b) {
        *item = [*a, *b];
    }
}

fn gather4(items: &[u8], tile: Tile, planes: &mut [u8]) {
    let (a, rest) = planes.split_at_mut(tile.stride);
    let (b, rest) = rest.split_at_mut(tile.stride);
    let (c, d) = rest.split_at_mut(tile.stride);
    for ((((item, a), b), c), d) in items.as_chunks().0.iter().zip(a).zip(b).zip(c).zip(d) {
        [*a, *b, *c, *d] = *item;
    }
}

fn scatter4(planes: &[&[u8]], tile: Tile, items: &mut [u8]) {
    let [a, b, c, d] = std::array::from_fn(|j| &planes[j][..tile.n]);
    for ((((item, a), b), c), d) in items.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *item = [*a, *b, *c, *d];
    }
}

/// Returns how many items can be processed in groups of 8 with 8-byte accesses inside `len` bytes.
fn whole_groups(tile: Tile, len: usize) -> usize {
    // Below 8 columns an access extends up to 7 bytes past its item.
    let spare = 8usize.saturating_sub(tile.cols).div_ceil(tile.pitch);
    debug_assert!(tile.cols >= 8 || tile.cols == tile.pitch);
    debug_assert!(len >= tile.n * tile.cols);
    tile.n.saturating_sub(spare) & !7
}

/// Returns the first column of each group of 8. The last group overlaps the one before rather than pass the item's end.
fn first_col(tile: Tile, col: usize) -> usize {
    col.min(tile.cols.saturating_sub(8))
}

fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn store(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Transposes an 8 x 8 byte matrix: swaps the off-diagonal 4 x 4 quarters, then 2 x 2, then single bytes.
fn transpose_bytes(mut x: [u64; 8]) -> [u64; 8] {
    swap::<4, 32>(&mut x, 0x0000_0000_FFFF_FFFF);
    swap::<2, 16>(&mut x, 0x0000_FFFF_0000_FFFF);
    swap::<1, 8>(&mut x, 0x00FF_00FF_00FF_00FF);
    x
}

/// Transposes the bits: bit `c` of word `r` becomes bit `r` of word `c` in each byte, least significant first.
fn transpose_bits(mut x: [u64; 8]) -> [u64; 8] {
    swap::<4, 4>(&mut x, 0x0F0F_0F0F_0F0F_0F0F);
    swap::<2, 2>(&mut x, 0x3333_3333_3333_3333);
    swap::<1, 1>(&mut x, 0x5555_5555_5555_5555);
    x
}

/// Swaps the high parts of words with the low parts (`low`), `BITS` wide, of the words `D` later.
fn swap<const D: usize, const BITS: u32>(x: &mut [u64; 8], low: u64) {
    for group in x.chunks_exact_mut(2 * D) {
        let (top, bottom) = group.split_at_mut(D);
        for (a, b) in top.iter_mut().zip(bottom) {
            let t = ((*a >> BITS) ^ *b) & low;
            *a ^= t << BITS;
            *b ^= t;
        }
    }
}

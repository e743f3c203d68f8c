//! Kernels for any CPU: 8 x 8 transposes in eight `u64`, no `unsafe`.

use super::{Kernels, Tile};

/// Runs everywhere.
#[derive(Debug)]
pub(crate) struct Generic;

impl Kernels for Generic {
    fn name(&self) -> &'static str {
        "generic"
    }

    fn gather(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        let items = &items[..tile.items_len()];
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

    fn scatter(&self, planes: &[u8], tile: Tile, items: &mut [u8]) {
        let items = &mut items[..tile.items_len()];
        let done = whole_groups(tile, items.len());
        for i in (0..done).step_by(8) {
            for col in (0..tile.cols).step_by(8) {
                let col = first_col(tile, col);
                let rows = transpose_bytes(std::array::from_fn(|k| {
                    if k < tile.cols { load(planes, (col + k) * tile.stride + i) } else { 0 }
                }));
                // Items of fewer than 8 bytes spill into the next one, which is written after.
                for (k, row) in rows.into_iter().enumerate() {
                    store(items, (i + k) * tile.pitch + col, row);
                }
            }
        }
        for i in done..tile.n {
            for j in 0..tile.cols {
                items[i * tile.pitch + j] = planes[j * tile.stride + i];
            }
        }
    }

    fn gather_bits(&self, items: &[u8], tile: Tile, planes: &mut [u8]) {
        let done = tile.n & !7;
        for i in (0..done).step_by(8) {
            let words = std::array::from_fn(|k| transpose_bits(load(items, (i + k) * 8)));
            for (j, row) in transpose_bytes(words).into_iter().enumerate() {
                store(planes, j * tile.stride + i, row);
            }
        }
        for i in done..tile.n {
            for (j, byte) in transpose_bits(load(items, i * 8)).to_le_bytes().into_iter().enumerate() {
                planes[j * tile.stride + i] = byte;
            }
        }
    }

    fn scatter_bits(&self, planes: &[u8], tile: Tile, items: &mut [u8]) {
        let done = tile.n & !7;
        for i in (0..done).step_by(8) {
            let words = transpose_bytes(std::array::from_fn(|j| load(planes, j * tile.stride + i)));
            for (k, word) in words.into_iter().enumerate() {
                store(items, (i + k) * 8, transpose_bits(word));
            }
        }
        for i in done..tile.n {
            let word = u64::from_le_bytes(std::array::from_fn(|j| planes[j * tile.stride + i]));
            store(items, i * 8, transpose_bits(word));
        }
    }
}

/// Items that can be done in groups of 8 with 8-byte accesses that stay inside `len` bytes of items.
fn whole_groups(tile: Tile, len: usize) -> usize {
    // Below 8 columns an access reaches up to 7 bytes beyond its item.
    let spare = 8usize.saturating_sub(tile.cols).div_ceil(tile.pitch);
    debug_assert!(tile.cols >= 8 || tile.cols == tile.pitch);
    debug_assert!(len >= tile.n * tile.cols);
    tile.n.saturating_sub(spare) & !7
}

/// The last group of 8 columns reaches back rather than beyond the item.
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

/// Byte `c` of word `r` becomes byte `r` of word `c`.
fn transpose_bytes(mut x: [u64; 8]) -> [u64; 8] {
    // Swaps the off-diagonal 4 x 4 quarters, then 2 x 2, then single bytes.
    swap::<4>(&mut x, 0x0000_0000_FFFF_FFFF);
    swap::<2>(&mut x, 0x0000_FFFF_0000_FFFF);
    swap::<1>(&mut x, 0x00FF_00FF_00FF_00FF);
    x
}

fn swap<const D: usize>(x: &mut [u64; 8], low: u64) {
    for group in x.chunks_exact_mut(2 * D) {
        let (top, bottom) = group.split_at_mut(D);
        for (a, b) in top.iter_mut().zip(bottom) {
            let t = ((*a >> (8 * D)) ^ *b) & low;
            *a ^= t << (8 * D);
            *b ^= t;
        }
    }
}

/// Bit `c` of byte `r` becomes bit `r` of byte `c`, least significant first.
fn transpose_bits(mut x: u64) -> u64 {
    let mut t = (x ^ (x >> 7)) & 0x00AA_00AA_00AA_00AA;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000_CCCC_0000_CCCC;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x0000_0000_F0F0_F0F0;
    x ^ t ^ (t << 28)
}

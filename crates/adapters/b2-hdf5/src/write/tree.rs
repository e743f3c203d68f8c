//! The B-tree (version 1) over the chunks of a data set.

use super::bytes::{Bytes, UNDEFINED};

/// Children of a node, the default of HDF5 unless the superblock states another number.
const MAX_CHILDREN: usize = 64;

/// A chunk that is stored.
#[derive(Clone, Debug)]
pub(super) struct WrittenChunk {
    /// The first item of the chunk.
    pub(super) start: Vec<u64>,
    pub(super) address: u64,
    pub(super) len: u32,
    /// The filters that were not applied, one bit each.
    pub(super) skipped: u32,
}

/// Returns the address of the root and the bytes of all nodes, the first of which is at `start`. There is at least one chunk, and chunks
/// are sorted by position.
pub(super) fn write(
    chunks: &[WrittenChunk],
    chunkshape: &[u32],
    itemsize: u32,
    start: u64,
) -> (u64, Vec<u8>) {
    let key_size = 8 + 8 * (chunkshape.len() + 1);
    let node_size = (24 + (MAX_CHILDREN + 1) * key_size + MAX_CHILDREN * 8) as u64;
    // The children of the level below: their first chunks, and their addresses.
    let mut below: Vec<(usize, u64)> =
        chunks.iter().enumerate().map(|(first, chunk)| (first, chunk.address)).collect();
    let (mut out, mut at, mut level) = (Bytes::default(), start, 0);
    let key = |out: &mut Bytes, n: usize| match chunks.get(n) {
        Some(chunk) => {
            out.u32(chunk.len).u32(chunk.skipped);
            chunk.start.iter().for_each(|&first| {
                out.u64(first);
            });
            out.u64(0);
        }
        // A key after the last chunk.
        None => {
            out.u32(0).u32(0);
            let last = chunks.last().map(|chunk| &chunk.start[..]).unwrap_or_default();
            last.iter().zip(chunkshape).for_each(|(&first, &length)| {
                out.u64(first + u64::from(length));
            });
            out.u64(itemsize.into());
        }
    };
    loop {
        let nodes = below.len().div_ceil(MAX_CHILDREN);
        let mut above = Vec::with_capacity(nodes);
        for (n, children) in below.chunks(MAX_CHILDREN).enumerate() {
            let own = at;
            at += node_size;
            let begin = out.0.len();
            let left = if n == 0 { UNDEFINED } else { own - node_size };
            let right = if n + 1 == nodes { UNDEFINED } else { own + node_size };
            out.put(b"TREE").u8(1).u8(level).u16(children.len() as u16).u64(left).u64(right);
            for (first, address) in children {
                key(&mut out, *first);
                out.u64(*address);
            }
            let next = below.get((n + 1) * MAX_CHILDREN).map_or(usize::MAX, |(first, _)| *first);
            key(&mut out, next);
            out.fill(begin + node_size as usize);
            above.push((children.first().map_or(0, |(first, _)| *first), own));
        }
        match &above[..] {
            [(_, root)] => return (*root, out.0),
            _ => below = above,
        }
        level += 1;
    }
}

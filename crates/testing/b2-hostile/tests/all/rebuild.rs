//! A frame as a list of its parts, which can be changed and reassembled: for damage that changes the length of a part,
//! and for frames that no program would write.

use std::ops::Range;

use b2_testkit::hostile::{self, FrameLayout, Seal};

use super::base::{Base, BaseKind};
use super::content::{Content, Node};

/// The name and the value of a metalayer.
pub(crate) type Layer = (Vec<u8>, Vec<u8>);

/// The parts of a frame, or of an index file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameParts {
    /// The fixed part of the header. Lengths, type and the flag for vlmetalayers are set when the frame is assembled.
    pub(crate) fixed: Vec<u8>,
    pub(crate) metalayers: Vec<Layer>,
    /// The chunks; empty for sparse frames.
    pub(crate) data: Vec<u8>,
    /// The index chunk; empty for frames without chunks.
    pub(crate) index: Vec<u8>,
    pub(crate) vlmetalayers: Vec<Layer>,
    /// Sums of the stored chunks; `None` for a frame without checksums.
    pub(crate) sums: Option<Vec<u64>>,
    /// The block of checksums and the end of the trailer of the original frame.
    stale: (Vec<u8>, Vec<u8>),
}

impl FrameParts {
    /// Returns the parts of a base that is a frame.
    pub(crate) fn of(base: &Base) -> Option<Self> {
        let layout = base.layout.as_ref()?;
        let bytes = base.bytes(0);
        let data = match base.kind {
            BaseKind::Contiguous if !layout.index.is_empty() => layout.header.end..layout.index.start,
            _ => 0..0,
        };
        let take = |range: &Range<usize>| bytes.get(range.clone()).map(<[u8]>::to_vec);
        let layers = |layers: &[hostile::Layer]| -> Option<Vec<Layer>> {
            layers.iter().map(|(name, range)| Some((name.clone(), take(range)?))).collect()
        };
        let end = layout.trailer.end;
        let sums = if layout.sums.is_empty() { 0..0 } else { layout.index.end..layout.sums.end };
        Some(Self {
            fixed: take(&(0..87))?,
            metalayers: layers(&layout.metalayers)?,
            data: take(&data)?,
            index: take(&layout.index)?,
            vlmetalayers: layers(&layout.vlmetalayers)?,
            sums: base.has_sums().then(|| base.chunk_sums(&base.content)),
            stale: (take(&sums)?, take(&(end.checked_sub(17)?..end))?),
        })
    }

    /// Creates an empty frame, to be filled.
    pub(crate) fn empty(typesize: u32, chunksize: u32, nbytes: u64) -> Self {
        let mut fixed = b"\x9e\xa8b2frame\0\xd2\0\0\0\0\xcf\0\0\0\0\0\0\0\0\xa4\x12\0\x55\x02".to_vec();
        for number in [nbytes, 0] {
            extend(&mut fixed, &[&[0xD3], &number.to_be_bytes()]);
        }
        for number in [typesize, 0, chunksize] {
            extend(&mut fixed, &[&[0xD2], &number.to_be_bytes()]);
        }
        fixed.extend_from_slice(b"\xd1\0\x01\xd1\0\x01\xc2\xd8\x06\0\0\0\0\0\x01\x05\0\0\0\0\0\0\0\0\0");
        Self { fixed, stale: (Vec::new(), vec![0; 17]), ..Self::default() }
    }

    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.fixed.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    /// Replaces the index by one with these entries.
    pub(crate) fn set_entries(&mut self, entries: &[i64]) {
        let plain: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        self.index = memcpyed(&plain, 8);
    }

    /// Assembles the frame.
    pub(crate) fn encode(&self, seal: Seal) -> Vec<u8> {
        let mut bytes = self.fixed.clone();
        let metalayers = section(&self.metalayers, 87, true, &mut bytes);
        let header_len = bytes.len();
        extend(&mut bytes, &[&self.data, &self.index]);
        let index = header_len + self.data.len()..bytes.len();
        let mut pages = Vec::new();
        match (&self.sums, seal) {
            (Some(_), Seal::Stale) => bytes.extend_from_slice(&self.stale.0),
            (Some(sums), Seal::Sealed) if !self.index.is_empty() => {
                let start = bytes.len();
                bytes.resize(start + 8 * sums.len(), 0);
                // As in b2kit: up to 512 sums per page.
                pages = (start..bytes.len()).step_by(4096).map(|at| at..bytes.len().min(at + 4096)).collect();
                bytes.resize(bytes.len() + 24 * pages.len() + 56, 0);
            }
            _ => {}
        }
        let start = bytes.len();
        let mut trailer = vec![0x94, 0x01];
        section(&self.vlmetalayers, 2, false, &mut trailer);
        let trailer_len = (trailer.len() as u32 + 23).to_be_bytes();
        let end: &[u8] = if seal == Seal::Stale { &self.stale.1 } else { &[0; 17] };
        extend(&mut bytes, &[&trailer, &[0xCE], &trailer_len, &[0xD8], end]);
        bytes[11..15].copy_from_slice(&(header_len as u32).to_be_bytes());
        let frame_len = bytes.len() as u64;
        bytes[16..24].copy_from_slice(&frame_len.to_be_bytes());
        bytes[68] = if self.vlmetalayers.is_empty() { 0xC2 } else { 0xC3 };
        if let (Some(sums), Seal::Sealed) = (&self.sums, seal) {
            let layout = FrameLayout {
                header: 0..header_len,
                sums: pages.last().map_or(index.end, |page: &Range<usize>| page.end)..start,
                pages,
                index,
                trailer: start..bytes.len(),
                metalayers,
                ..FrameLayout::default()
            };
            seal.apply(&mut bytes, &layout, sums);
        }
        bytes
    }

    /// Returns a contiguous frame with the right `cbytes`.
    pub(crate) fn encode_plain(mut self) -> Vec<u8> {
        let cbytes = self.data.len() as u64;
        self.set(39, &cbytes.to_be_bytes());
        self.encode(Seal::Zeroed)
    }

    /// Returns the base with this frame in place of its own.
    pub(crate) fn into_content(self, base: &Base, seal: Seal) -> Content {
        let mut content = base.content.clone();
        content.set(&base.files[0], Node::File(self.encode(seal)));
        content
    }
}

/// Appends a section of metalayers. `start` is the position of its first byte in the header or trailer, from which its
/// offsets count. Returns the places of the values.
fn section(layers: &[Layer], start: usize, in_header: bool, out: &mut Vec<u8>) -> Vec<hostile::Layer> {
    let names: usize = layers.iter().map(|(name, _)| 6 + (name.len() & 0x1F)).sum();
    let count = (layers.len() as u16).to_be_bytes();
    let size = names + if in_header { 7 } else { 6 };
    extend(out, &[&[0x93, 0xCD], &(size as u16).to_be_bytes(), &[0xDE], &count]);
    let mut offset = start + 7 + names + 3;
    let mut places = Vec::new();
    for (name, value) in layers {
        let name = &name[..name.len() & 0x1F];
        extend(out, &[&[0xA0 | name.len() as u8], name, &[0xD2], &(offset as u32).to_be_bytes()]);
        places.push((name.to_vec(), offset + 5..offset + 5 + value.len()));
        offset += 5 + value.len();
    }
    extend(out, &[&[0xDC], &count]);
    for (_, value) in layers {
        extend(out, &[&[0xC6], &(value.len() as u32).to_be_bytes(), value]);
    }
    places
}

/// Appends these pieces.
pub(crate) fn extend(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// Returns an extended chunk header.
pub(crate) fn chunk_header(flags: u8, typesize: u8, nbytes: u32, blocksize: u32, cbytes: u32) -> Vec<u8> {
    let mut out = vec![5, 1, flags, typesize];
    for number in [nbytes, blocksize, cbytes] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.resize(32, 0);
    out
}

/// Returns a chunk that stores its data uncompressed.
pub(crate) fn memcpyed(plain: &[u8], typesize: u8) -> Vec<u8> {
    let (nbytes, blocksize) = (plain.len() as u32, plain.len().max(1) as u32);
    let mut out = chunk_header(7, typesize, nbytes, blocksize, nbytes + 32);
    out.extend_from_slice(plain);
    out
}

/// The same in the layout of Blosc1.
pub(crate) fn blosc1(plain: &[u8], typesize: u8) -> Vec<u8> {
    let mut out = memcpyed(plain, typesize);
    out.drain(16..32);
    out[2] = 2;
    out[12..16].copy_from_slice(&(plain.len() as u32 + 16).to_le_bytes());
    out
}

/// Returns a chunk of special values: kind 1 is zeros, 2 NaN, 3 `value`, 4 uninitialised.
pub(crate) fn special(kind: u8, value: &[u8], typesize: u8, nbytes: u32, blocksize: u32) -> Vec<u8> {
    let mut out = chunk_header(5, typesize, nbytes, blocksize, 32 + value.len() as u32);
    out[31] = kind << 4;
    out.extend_from_slice(value);
    out
}

/// Returns a chunk whose blocks are one stream each, in this codec format. All blocks may share one stream.
pub(crate) fn streams(format: u8, nbytes: u32, blocksize: u32, parts: &[&[u8]], shared: bool) -> Vec<u8> {
    let nblocks = nbytes.div_ceil(blocksize.max(1)) as usize;
    let mut out = chunk_header(0x15 | format << 5, 1, nbytes, blocksize, 0);
    let mut at = 32 + 4 * nblocks;
    let mut payload = Vec::new();
    let mut starts = Vec::new();
    for part in parts {
        starts.push(at as u32);
        payload.extend_from_slice(part);
        at += part.len();
    }
    for n in 0..nblocks {
        let start = starts.get(if shared { 0 } else { n }).or(starts.last()).copied().unwrap_or(0);
        out.extend_from_slice(&start.to_le_bytes());
    }
    out.extend_from_slice(&payload);
    let cbytes = out.len() as u32;
    out[12..16].copy_from_slice(&cbytes.to_le_bytes());
    out
}

/// Returns a stream: its size, then its bytes.
pub(crate) fn stream(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

/// Returns the value of the metalayer of arrays.
pub(crate) fn b2nd(shape: &[u64], chunks: &[u32], blocks: &[u32], dtype: &[u8]) -> Vec<u8> {
    let ndim = shape.len() as u8;
    let mut out = vec![0x97, 0, ndim, 0x90u8.wrapping_add(ndim)];
    for n in shape {
        extend(&mut out, &[&[0xD3], &n.to_be_bytes()]);
    }
    for dims in [chunks, blocks] {
        out.push(0x90u8.wrapping_add(ndim));
        for n in dims {
            extend(&mut out, &[&[0xD2], &n.to_be_bytes()]);
        }
    }
    extend(&mut out, &[&[0, 0xDB], &(dtype.len() as u32).to_be_bytes(), dtype]);
    out
}

/// Returns the index entry for a kind of special value.
pub(crate) fn entry(kind: u8) -> i64 {
    i64::from_be_bytes([0x80 | kind, 0, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use b2kit::SuperChunk;
    use b2kit::chunk::DParams;

    use super::*;
    use crate::generated;

    /// Parts that are reassembled unchanged give the same file, with recomputed checksums.
    #[test]
    fn parts_make_the_same_frame() {
        let folder = tempfile::tempdir().unwrap();
        let mut same = 0;
        for base in generated::bases(3, folder.path()).unwrap() {
            let Some(parts) = FrameParts::of(&base) else { continue };
            if base.holes {
                continue;
            }
            for seal in [Seal::Stale, Seal::Sealed] {
                if base.has_sums() || seal == Seal::Stale {
                    let again = parts.encode(seal);
                    assert!(again == base.bytes(0), "{} {seal:?}", base.name);
                    same += 1;
                }
            }
        }
        // Except those with tables of blocks behind the index, which are not rebuilt.
        assert!(same >= 50, "{same}");
    }

    #[test]
    fn what_is_made_from_nothing_is_read() {
        let mut parts = FrameParts::empty(4, 400, 1000);
        parts.set_entries(&[entry(1), entry(2), entry(4)]);
        let frame = SuperChunk::from_bytes(parts.encode_plain()).unwrap();
        let plain = frame.read_bytes(0..1000).unwrap();
        assert_eq!((frame.nchunks(), &plain[400..404]), (3, &[0, 0, 0xC0, 0x7F][..]));
        let chunk = streams(4, 100, 30, &[&stream(&[7; 30]), &stream(&[9; 10])], false);
        let chunk = b2kit::Chunk::from_bytes(chunk).unwrap();
        assert!(chunk.decompress_bytes_with(&DParams::default()).is_err());
        let chunk = streams(4, 90, 30, &[&stream(&[7; 30])], true);
        assert_eq!(b2kit::Chunk::from_bytes(chunk).unwrap().decompress_bytes().unwrap(), [7; 90]);
    }
}

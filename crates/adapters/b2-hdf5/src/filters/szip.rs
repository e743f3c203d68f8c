//! Szip (filter 4): the lossless coding of CCSDS 121.0-B, as HDF5 stores it.
//!
//! Samples form blocks, and blocks form lines. A line starts with an unpredicted sample if samples are predicted
//! from their neighbours (option NN). The first bits of a block select its coding.

use super::bits::Bits;

/// Option: samples are predicted from the one before.
const NEIGHBOUR: u32 = 32;
/// Option: samples are big-endian.
const BIG_ENDIAN: u32 = 16;
/// Blocks in a segment; a run of zero blocks may reach to its end.
const SEGMENT: usize = 64;
/// The code for "zero blocks up to the end of the segment".
const REST: u64 = 5;

/// Decodes a chunk into `dst`, whose length is that of the chunk. Returns `None` for data or parameters that
/// no encoder produces.
pub(super) fn decode(params: &[u32], src: &[u8], dst: &mut [u8]) -> Option<()> {
    let &[options, per_block, bits, per_line, ..] = params else { return None };
    let (per_block, per_line) = (usize::try_from(per_block).ok()?, usize::try_from(per_line).ok()?);
    if !(2..=64).contains(&per_block) || per_line == 0 || per_line > 1 << 20 {
        return None;
    }
    if decoded_len(src)? != dst.len() {
        return None;
    }
    let src = src.get(4..)?;
    // Samples of 32 and 64 bits are coded as planes of bytes.
    let planes = match bits {
        32 => 4,
        64 => 8,
        _ => 1,
    };
    let bits = if planes > 1 { 8 } else { bits };
    let size = match bits {
        1..=8 => 1,
        9..=16 => 2,
        17..=24 => 4,
        _ => return None,
    };
    if !dst.len().is_multiple_of(size * planes) {
        return None;
    }
    let line = Line { per_block, samples: per_line, is_predicted: options & NEIGHBOUR != 0, bits };
    let mut bits = Bits::new(src);
    let mut rest = dst.len() / size;
    let total = rest;
    let mut samples = Vec::new();
    while rest > 0 {
        line.decode(&mut bits, rest.min(per_line), &mut samples)?;
        let done = total.checked_sub(rest)?;
        let taken = samples.len().min(rest).min(per_line);
        for (n, sample) in (done..).zip(samples.iter().take(taken)) {
            let bytes = sample.to_le_bytes();
            let place = dst.get_mut(n.checked_mul(size)?..n.checked_add(1)?.checked_mul(size)?)?;
            place.copy_from_slice(bytes.get(..size)?);
            if options & BIG_ENDIAN != 0 {
                place.reverse();
            }
        }
        rest = rest.checked_sub(taken)?;
    }
    if planes > 1 {
        let coded = dst.to_vec();
        let items = coded.len() / planes;
        for (n, item) in dst.chunks_exact_mut(planes).enumerate() {
            for (byte, plane) in item.iter_mut().zip(coded.chunks_exact(items.max(1))) {
                *byte = *plane.get(n)?;
            }
        }
    }
    Some(())
}

/// Returns the length of the result, which precedes the stream.
pub(super) fn decoded_len(src: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*src.first_chunk()?)).ok()
}

/// How the samples of a line are coded. A line is filled up to whole blocks.
struct Line {
    per_block: usize,
    samples: usize,
    is_predicted: bool,
    bits: u32,
}

impl Line {
    /// Decodes the blocks of a line that contain its first samples.
    fn decode(&self, bits: &mut Bits<'_>, wanted: usize, out: &mut Vec<u64>) -> Option<()> {
        out.clear();
        let blocks = self.samples.div_ceil(self.per_block);
        while out.len() < wanted {
            self.block(bits, blocks, out)?;
        }
        if self.is_predicted {
            self.undo_prediction(out);
        }
        Some(())
    }

    fn block(&self, bits: &mut Bits<'_>, blocks: usize, out: &mut Vec<u64>) -> Option<()> {
        let width = match self.bits {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let id = bits.take(width)?;
        let is_first = self.is_predicted && out.is_empty();
        let first = usize::from(is_first);
        let end = out.len().checked_add(self.per_block)?;
        if id == (1 << width) - 1 {
            for _ in 0..self.per_block {
                out.push(bits.take(self.bits)?);
            }
            return Some(());
        }
        if id == 0 {
            let is_second_extension = bits.take(1)? == 1;
            if is_first {
                out.push(bits.take(self.bits)?);
            }
            return match is_second_extension {
                true => pairs(bits, first, end, out),
                false => self.zeros(bits, blocks, first, out),
            };
        }
        if is_first {
            out.push(bits.take(self.bits)?);
        }
        let low = u32::try_from(id).ok()?.checked_sub(1)?;
        let start = out.len();
        while out.len() < end {
            out.push(bits.unary()?.checked_shl(low)?);
        }
        for sample in out.iter_mut().skip(start) {
            *sample |= bits.take(low)?;
        }
        Some(())
    }

    /// Blocks of zeros, up to the end of the line or of a segment.
    fn zeros(&self, bits: &mut Bits<'_>, blocks: usize, first: usize, out: &mut Vec<u64>) -> Option<()> {
        let coded = bits.unary()?.checked_add(1)?;
        let done = out.len().checked_sub(first)? / self.per_block;
        let left = blocks.checked_sub(done)?;
        let count = match coded {
            REST => left.min(SEGMENT - done % SEGMENT),
            coded => usize::try_from(coded - u64::from(coded > REST)).ok()?,
        };
        if count > left {
            return None;
        }
        out.resize(done.checked_add(count)?.checked_mul(self.per_block)?, 0);
        Some(())
    }

    /// Converts differences, mapped to unsigned numbers, back to samples.
    fn undo_prediction(&self, samples: &mut [u64]) {
        let most = (1_u64 << self.bits) - 1;
        let middle = most / 2 + 1;
        let Some((&mut first, rest)) = samples.split_first_mut() else { return };
        let mut before = first;
        for sample in rest {
            let folded = *sample;
            // The distance to the nearer end of the range: differences up to it have both signs.
            let mask = if before & middle == 0 { 0 } else { most };
            before = if folded.div_ceil(2) <= mask ^ before {
                match folded % 2 {
                    0 => before.wrapping_add(folded / 2),
                    _ => before.wrapping_sub(folded.div_ceil(2)),
                }
            } else {
                mask ^ folded
            } & most;
            *sample = before;
        }
    }
}

/// Pairs of small samples, each coded as one number. The first pair of a line lacks its first sample.
fn pairs(bits: &mut Bits<'_>, first: usize, end: usize, out: &mut Vec<u64>) -> Option<()> {
    let mut is_half = first == 1;
    while out.len() < end {
        let coded = bits.unary()?;
        // The numbers count the pairs in the order of their sums; no encoder uses larger ones.
        if coded > 90 {
            return None;
        }
        let (mut sum, mut start) = (0, 0);
        while start + sum < coded {
            start += sum + 1;
            sum += 1;
        }
        let second = coded - start;
        if !std::mem::take(&mut is_half) {
            out.push(sum - second);
        }
        out.push(second);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_no_panic() {
        let mut rng = b2_testkit::Rng::new(1);
        for _ in 0..20_000 {
            let mut src = rng.bytes(24);
            src[..4].copy_from_slice(&64_u32.to_le_bytes());
            for bits in [8, 16, 24, 32, 64, 70] {
                let _ = decode(&[NEIGHBOUR, 8, bits, 32], &src, &mut [0; 64]);
            }
        }
    }
}

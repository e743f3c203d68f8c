//! The numbers in files, and the values that replace them.

use crate::Rng;

/// A number: its offset, width and name.
pub type Row = (usize, usize, &'static str);

/// The numbers of a frame header, big-endian.
pub const FRAME_HEADER: &[Row] = &[
    (0, 1, "marker"),
    (1, 1, "marker of magic"),
    (2, 4, "magic"),
    (10, 1, "marker of header_len"),
    (11, 4, "header_len"),
    (15, 1, "marker of frame_len"),
    (16, 8, "frame_len"),
    (24, 1, "marker of flags"),
    (25, 1, "flags"),
    (26, 1, "frame type"),
    (27, 1, "codec and clevel"),
    (28, 1, "split mode"),
    (29, 1, "marker of nbytes"),
    (30, 8, "nbytes"),
    (38, 1, "marker of cbytes"),
    (39, 8, "cbytes"),
    (47, 1, "marker of typesize"),
    (48, 4, "typesize"),
    (52, 1, "marker of blocksize"),
    (53, 4, "blocksize"),
    (57, 1, "marker of chunksize"),
    (58, 4, "chunksize"),
    (62, 1, "marker of threads"),
    (63, 2, "threads to compress"),
    (65, 1, "marker of threads"),
    (66, 2, "threads to decompress"),
    (68, 1, "has vlmetalayers"),
    (69, 1, "marker of filters"),
    (70, 1, "number of filters"),
    (71, 1, "filter 0"),
    (72, 1, "filter 1"),
    (74, 1, "filter 3"),
    (76, 1, "filter 5"),
    (77, 1, "codec"),
    (78, 1, "codec meta"),
    (79, 1, "filter meta 0"),
    (84, 1, "filter meta 5"),
    (85, 1, "dictionaries"),
    (86, 1, "reserved"),
];

/// The numbers of a chunk header, little-endian.
pub const CHUNK_HEADER: &[Row] = &[
    (0, 1, "version"),
    (1, 1, "versionlz"),
    (2, 1, "flags"),
    (3, 1, "typesize"),
    (4, 4, "nbytes"),
    (8, 4, "blocksize"),
    (12, 4, "cbytes"),
];

/// The numbers that follow in an extended chunk header.
pub const EXTENDED_HEADER: &[Row] = &[
    (16, 1, "filter 0"),
    (17, 1, "filter 1"),
    (18, 1, "filter 2"),
    (19, 1, "filter 3"),
    (20, 1, "filter 4"),
    (21, 1, "filter 5"),
    (22, 1, "udcodec"),
    (23, 1, "codec meta"),
    (24, 1, "filter meta 0"),
    (28, 1, "filter meta 4"),
    (29, 1, "filter meta 5"),
    (30, 1, "flags2"),
    (31, 1, "blosc2 flags"),
];

/// A number of 1, 2, 4 or 8 bytes at some offset.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Offset of the first byte.
    pub at: usize,
    /// Size in bytes.
    pub width: usize,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

impl Number {
    /// Returns the number in `bytes`.
    pub fn get(&self, bytes: &[u8]) -> Option<u64> {
        let stored = bytes.get(self.at..self.at.checked_add(self.width)?)?;
        let fold = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        Some(if self.big_endian { stored.iter().fold(0, fold) } else { stored.iter().rev().fold(0, fold) })
    }

    /// Stores a number, truncated to the width. Returns whether anything changed.
    pub fn set(&self, bytes: &mut [u8], value: u64) -> bool {
        let end = self.at.saturating_add(self.width);
        let Some(stored) = bytes.get_mut(self.at..end) else { return false };
        let before = stored.to_vec();
        let value = value.to_le_bytes();
        stored.copy_from_slice(&value[..self.width]);
        if self.big_endian {
            stored.reverse();
        }
        stored != before
    }

    /// Returns how many kinds of values [`Number::value`] supports.
    pub fn nvalues(&self) -> u32 {
        if self.width == 1 { 256 } else { KINDS.len() as u32 }
    }

    /// Returns the value of kind `kind` to try. `others` are the numbers of the same file.
    pub fn value(&self, kind: u32, bytes: &[u8], others: &[Self], rng: &mut Rng) -> u64 {
        let old = self.get(bytes).unwrap_or(0);
        if self.width == 1 {
            return u64::from(kind);
        }
        let bits = self.width * 8;
        let sign = 1u64 << (bits - 1);
        let len = bytes.len() as u64;
        let others: Vec<&Self> =
            others.iter().filter(|other| other.width == self.width && other.at != self.at).collect();
        match KINDS[kind as usize % KINDS.len()] {
            Kind::Plain(value) => value,
            Kind::Add(n) => old.wrapping_add_signed(n),
            Kind::Max => sign - 1,
            Kind::Min => sign,
            Kind::SignBit => old ^ sign,
            Kind::Double => old.wrapping_mul(2),
            Kind::Half => old / 2,
            Kind::Negative => old.wrapping_neg(),
            Kind::Inverted => !old,
            Kind::Swapped => old.swap_bytes() >> (64 - bits),
            Kind::Neighbour => {
                let next = others.iter().min_by_key(|other| other.at.abs_diff(self.at));
                next.and_then(|other| other.get(bytes)).unwrap_or(old)
            }
            Kind::Other => match others.len() {
                0 => old,
                _ => rng.pick(&others).get(bytes).unwrap_or(old),
            },
            Kind::Own => self.at as u64,
            Kind::Len(n) => len.wrapping_add_signed(n),
            Kind::Rest => len.saturating_sub(self.at as u64),
            Kind::Near => rng.next() % (len.max(1) * 2),
            Kind::Random => rng.next(),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Plain(u64),
    Add(i64),
    Max,
    Min,
    SignBit,
    Double,
    Half,
    Negative,
    Inverted,
    /// The same number with its bytes in reverse order.
    Swapped,
    /// The value of the nearest field.
    Neighbour,
    /// The value of any other field.
    Other,
    /// The offset of the field itself.
    Own,
    /// The length of the file, plus this.
    Len(i64),
    /// The number of bytes from the field to the end of the file.
    Rest,
    /// A number up to twice the length of the file.
    Near,
    Random,
}

const KINDS: &[Kind] = &[
    Kind::Plain(0),
    Kind::Plain(1),
    Kind::Plain(u64::MAX),
    Kind::Add(1),
    Kind::Add(-1),
    Kind::Add(4),
    Kind::Add(-4),
    Kind::Add(8),
    Kind::Add(-8),
    Kind::Add(32),
    Kind::Add(-32),
    Kind::Max,
    Kind::Min,
    Kind::SignBit,
    Kind::Double,
    Kind::Half,
    Kind::Negative,
    Kind::Inverted,
    Kind::Swapped,
    Kind::Neighbour,
    Kind::Other,
    Kind::Other,
    Kind::Own,
    Kind::Len(0),
    Kind::Len(1),
    Kind::Len(-1),
    Kind::Rest,
    Kind::Near,
    Kind::Near,
    Kind::Random,
    // Limits of the format: the largest chunk and the next number, the largest block and the next number; 2^20, 2^28,
    // 2^32.
    Kind::Plain(2_147_483_615),
    Kind::Plain(2_147_483_616),
    Kind::Plain(536_866_816),
    Kind::Plain(536_866_817),
    Kind::Plain(1 << 20),
    Kind::Plain(1 << 28),
    Kind::Plain(1 << 32),
    Kind::Plain(255),
    Kind::Plain(256),
    Kind::Plain(2),
    Kind::Plain(16),
    Kind::Plain(17),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_the_width() {
        let bytes = [0u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        let places = [(0, 4), (4, 4), (8, 2), (10, 1)];
        let numbers = places.map(|(at, width)| Number { at, width, big_endian: true });
        for number in &numbers {
            let mut changed = 0;
            for kind in 0..number.nvalues() {
                let mut copy = bytes;
                let value = number.value(kind, &bytes, &numbers, &mut Rng::case(1, u64::from(kind)));
                changed += u32::from(number.set(&mut copy, value));
                assert_eq!(copy[..number.at], bytes[..number.at]);
                assert_eq!(copy[number.at + number.width..], bytes[number.at + number.width..]);
            }
            assert!(changed > 25, "{number:?}: {changed}");
        }
        assert_eq!(numbers[1].get(&bytes), Some(0x0405_0607));
        let outside = Number { at: usize::MAX, width: 8, big_endian: false };
        assert!(outside.get(&bytes).is_none() && !outside.set(&mut bytes.clone(), 1));
    }

    #[test]
    fn rows_do_not_overlap() {
        for table in [FRAME_HEADER, CHUNK_HEADER, EXTENDED_HEADER] {
            assert!(table.is_sorted_by(|a, b| a.0 + a.1 <= b.0), "{table:?}");
        }
    }
}

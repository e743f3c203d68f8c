//! The numbers in files, and the values that replace them.

use crate::Rng;

/// A number of a structure: its offset there, width and name.
pub(super) type NumberField = (usize, usize, &'static str);

/// The numbers of a frame header, big-endian.
pub(super) const FRAME_HEADER: &[NumberField] = &[
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
pub(super) const CHUNK_HEADER: &[NumberField] = &[
    (0, 1, "version"),
    (1, 1, "versionlz"),
    (2, 1, "flags"),
    (3, 1, "typesize"),
    (4, 4, "nbytes"),
    (8, 4, "blocksize"),
    (12, 4, "cbytes"),
];

/// The numbers that follow in an extended chunk header.
pub(super) const EXTENDED_HEADER: &[NumberField] = &[
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

    /// Sets one of the numbers, if there are any, to a value of any kind.
    pub fn damage_one(numbers: &[Self], bytes: &mut [u8], rng: &mut Rng) {
        if let Some(number) = rng.pick_some(numbers) {
            number.damage(rng.next() as u32 % number.nvalues(), bytes, numbers, rng);
        }
    }

    /// Sets the number to its value of kind `kind`. Returns whether anything changed.
    pub fn damage(&self, kind: u32, bytes: &mut [u8], others: &[Self], rng: &mut Rng) -> bool {
        let value = self.value(kind, bytes, others, rng);
        self.set(bytes, value)
    }

    /// Returns how many kinds of values [`Number::value`] supports.
    pub fn nvalues(&self) -> u32 {
        if self.width == 1 { 256 } else { 30 + LIMITS.len() as u32 }
    }

    /// Returns the value of kind `kind` to try: any for a byte, for others values that break readers. `others` are the
    /// numbers of the same file.
    pub fn value(&self, kind: u32, bytes: &[u8], others: &[Self], rng: &mut Rng) -> u64 {
        if self.width == 1 {
            return u64::from(kind);
        }
        let old = self.get(bytes).unwrap_or(0);
        let bits = self.width * 8;
        let sign = 1u64 << (bits - 1);
        let len = bytes.len() as u64;
        let others = || others.iter().filter(|other| other.width == self.width && other.at != self.at);
        let get = |other: Option<&Self>| other.and_then(|other| other.get(bytes)).unwrap_or(old);
        let kind = kind as usize % (30 + LIMITS.len());
        match kind {
            0..=2 => [0, 1, u64::MAX][kind],
            3..=10 => old.wrapping_add_signed([1, -1, 4, -4, 8, -8, 32, -32][kind - 3]),
            11 => sign - 1,
            12 => sign,
            13 => old ^ sign,
            14 => old.wrapping_mul(2),
            15 => old / 2,
            16 => old.wrapping_neg(),
            17 => !old,
            // Its bytes in reverse order.
            18 => old.swap_bytes() >> (64 - bits),
            // The nearest number, and any other one.
            19 => get(others().min_by_key(|other| other.at.abs_diff(self.at))),
            20 | 21 => get(rng.pick_some(&others().collect::<Vec<_>>()).copied()),
            // Its own offset, the length of the file, and the length of the rest.
            22 => self.at as u64,
            23..=25 => len.wrapping_add_signed([0, 1, -1][kind - 23]),
            26 => len.saturating_sub(self.at as u64),
            27 | 28 => rng.next() % (len.max(1) * 2),
            29 => rng.next(),
            _ => LIMITS[kind - 30],
        }
    }
}

/// Limits of the format (the largest chunk and block, each plus one), and limits of types and tables.
const LIMITS: [u64; 12] =
    [2_147_483_615, 2_147_483_616, 536_866_816, 536_866_817, 1 << 20, 1 << 28, 1 << 32, 255, 256, 2, 16, 17];

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
                let rng = &mut Rng::case(1, u64::from(kind));
                changed += u32::from(number.damage(kind, &mut copy, &numbers, rng));
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

//! Fields of a file, and the values that are put in their place.

use super::groups::Group;
use crate::rng::Rng;

/// A number at a place.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) group: Group,
    pub(crate) name: String,
    /// Which file of a sparse frame, by its place in the list of the base.
    pub(crate) file: usize,
    /// The first byte.
    pub(crate) at: usize,
    /// 1, 2, 4 or 8 bytes.
    pub(crate) width: usize,
    pub(crate) big_endian: bool,
}

impl Field {
    /// What is there.
    pub(crate) fn get(&self, bytes: &[u8]) -> Option<u64> {
        let stored = bytes.get(self.at..self.at + self.width)?;
        let fold = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        Some(if self.big_endian { stored.iter().fold(0, fold) } else { stored.iter().rev().fold(0, fold) })
    }

    /// Puts a number there, cut to the width. Whether anything changed.
    pub(crate) fn set(&self, bytes: &mut [u8], value: u64) -> bool {
        let Some(stored) = bytes.get_mut(self.at..self.at + self.width) else { return false };
        let before = stored.to_vec();
        let value = value.to_le_bytes();
        stored.copy_from_slice(&value[..self.width]);
        if self.big_endian {
            stored.reverse();
        }
        stored != before
    }
}

/// How many values [`value`] knows for fields of this width.
pub(crate) fn nvalues(width: usize) -> u32 {
    if width == 1 { 256 } else { KINDS.len() as u32 }
}

/// What else is known about the file.
pub(crate) struct Around<'a> {
    pub(crate) bytes: &'a [u8],
    /// All fields of the same file.
    pub(crate) fields: &'a [Field],
}

/// A value for a field: number `kind` of those it is tried with.
pub(crate) fn value(field: &Field, kind: u32, around: &Around<'_>, rng: &mut Rng) -> u64 {
    let old = field.get(around.bytes).unwrap_or(0);
    if field.width == 1 {
        return u64::from(kind);
    }
    let bits = field.width * 8;
    let sign = 1u64 << (bits - 1);
    let len = around.bytes.len() as u64;
    let others: Vec<&Field> =
        around.fields.iter().filter(|f| f.width == field.width && f.at != field.at).collect();
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
            let next = others.iter().min_by_key(|f| f.at.abs_diff(field.at));
            next.and_then(|f| f.get(around.bytes)).unwrap_or(old)
        }
        Kind::Other => match others.len() {
            0 => old,
            _ => rng.pick(&others).get(around.bytes).unwrap_or(old),
        },
        Kind::Own => field.at as u64,
        Kind::Len(n) => len.wrapping_add_signed(n),
        Kind::Rest => len.saturating_sub(field.at as u64),
        Kind::Near => rng.next() % (len.max(1) * 2),
        Kind::Random => rng.next(),
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
    /// With its bytes in the other order.
    Swapped,
    /// The field that is nearest.
    Neighbour,
    /// Any other field.
    Other,
    /// Its own place.
    Own,
    /// Of the file.
    Len(i64),
    /// From the field to the end of the file.
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
    // Edges of the format: largest chunk, the next number, the largest block, the next; 2^20, 2^28, 2^32.
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
        let field = |at, width| Field {
            group: Group::Header,
            name: String::new(),
            file: 0,
            at,
            width,
            big_endian: true,
        };
        let fields = [field(0, 4), field(4, 4), field(8, 2), field(10, 1)];
        let around = Around { bytes: &bytes, fields: &fields };
        for field in &fields {
            let mut changed = 0;
            for kind in 0..nvalues(field.width) {
                let mut copy = bytes;
                let value = value(field, kind, &around, &mut Rng::new(1, u64::from(kind)));
                changed += u32::from(field.set(&mut copy, value));
                assert_eq!(copy[..field.at], bytes[..field.at]);
                assert_eq!(copy[field.at + field.width..], bytes[field.at + field.width..]);
            }
            assert!(changed > 25, "{field:?}: {changed}");
        }
        assert_eq!(fields[1].get(&bytes), Some(0x0405_0607));
    }
}

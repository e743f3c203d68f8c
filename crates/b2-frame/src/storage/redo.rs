//! The redo record of a commit (docs/format/frame-contiguous.md, section 8.1). A commit overwrites
//! only the header, and a crash can tear that write: at any byte if the process is killed, and into
//! any pieces if the power fails. Before the header is written, a record with the old and the new
//! version of the changed bytes is written and synced at the end of the file. It is removed
//! afterwards.
//!
//! ```text
//! magic[16]  u64 start  u64 n  old[n]  new[n]  u64 hash of all before  u64 record length  end magic[8]
//! ```
//!
//! All integers are little-endian. The record ends at the end of the file. Readers apply it only if
//! the header is a mix of the two versions: each byte is that of one of them. With the old version
//! the commit did not happen, with the new one it did, and with any other content another program
//! has changed the frame since.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::header::FIXED_HEADER_LEN;
use crate::storage::traits::ReadAt;

/// The start of a record, and of everything else that is staged behind a committed frame. It marks
/// the bytes as ours.
pub(crate) const MAGIC: [u8; 16] = *b"b2kit staged v1\n";
const END_MAGIC: [u8; 8] = *b"b2kit/hr";
/// Length of a record without the two versions, in bytes.
const FIXED: u64 = 16 + 8 + 8 + 8 + 8 + 8;

/// The change of a header.
#[derive(Debug)]
pub(crate) struct Redo {
    /// Offset of the first byte of the header that changes.
    pub(crate) start: usize,
    pub(crate) old: Bytes,
    pub(crate) new: Bytes,
}

impl Redo {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(self.start as u64).to_le_bytes());
        out.extend_from_slice(&(self.new.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.old);
        out.extend_from_slice(&self.new);
        out.extend_from_slice(&hash(&out).to_le_bytes());
        out.extend_from_slice(&(out.len() as u64 + 16).to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
        out
    }

    /// Finds the record at the end of a file, if there is one of at most `limit` bytes.
    pub(crate) fn find(file: &dyn ReadAt, limit: u64) -> io::Result<Option<Self>> {
        let len = file.len()?;
        if len < FIXED + FIXED_HEADER_LEN as u64 {
            return Ok(None);
        }
        let end = file.read_at(len - 16..len)?;
        let (record_len, magic) = end.split_at(8);
        let record_len = u64::from_le_bytes(record_len.try_into().unwrap_or_default());
        if magic != END_MAGIC || record_len < FIXED || record_len > limit.min(len) {
            return Ok(None);
        }
        Ok(Self::decode(&file.read_at(len - record_len..len)?))
    }

    fn decode(record: &Bytes) -> Option<Self> {
        let number = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let n = usize::try_from(number(24)?).ok()?;
        let start = usize::try_from(number(16)?).ok()?;
        let both = u64::try_from(n).ok()?.checked_mul(2)?;
        if !record.starts_with(&MAGIC) || (record.len() as u64).checked_sub(FIXED)? != both {
            return None;
        }
        // Headers are shorter than 2 GiB.
        if start.checked_add(n)? > i32::MAX as usize {
            return None;
        }
        let body = 32 + 2 * n;
        if number(body)? != hash(record.get(..body)?) {
            return None;
        }
        Some(Self { start, old: record.slice(32..32 + n), new: record.slice(32 + n..body) })
    }

    /// Returns whether `header` was left half changed. It must reach at least to the end of the
    /// change.
    pub(crate) fn applies(&self, header: &[u8]) -> bool {
        let Some(found) = header.get(self.start..self.start + self.new.len()) else { return false };
        if found == self.old || found == self.new {
            return false;
        }
        // Disks, and persistent memory in particular, guarantee neither order nor size of the pieces of a write. So
        // any mix counts as a torn write. C-Blosc2 truncates the file, and the record with it, whenever it changes
        // chunks or vlmetalayers. If it changes only metalayers, it also writes its own thread counts, which both
        // versions share.
        let versions = self.old.iter().zip(&self.new);
        found.iter().zip(versions).all(|(byte, (old, new))| byte == old || byte == new)
    }

    /// Returns the record of a file whose header was left half changed.
    pub(crate) fn pending(file: &dyn ReadAt, limit: u64) -> io::Result<Option<Self>> {
        let Some(redo) = Self::find(file, limit)? else { return Ok(None) };
        let end = (redo.start + redo.new.len()) as u64;
        if end > file.len()? {
            return Ok(None);
        }
        let header = file.read_at(0..end)?;
        Ok(redo.applies(&header).then_some(redo))
    }
}

/// A file with some bytes replaced on the fly, for readers that cannot write.
pub(crate) struct RepairedFile {
    pub(crate) file: Arc<dyn ReadAt>,
    /// Offset of the replaced bytes.
    pub(crate) start: usize,
    /// What takes their place.
    pub(crate) bytes: Bytes,
}

impl RepairedFile {
    /// Applies the redo record of the file.
    pub(crate) fn by(redo: Redo, file: Arc<dyn ReadAt>) -> Self {
        Self { file, start: redo.start, bytes: redo.new }
    }
}

impl ReadAt for RepairedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(offset, buf)?;
        let start = self.start as u64;
        for (at, byte) in (start..).zip(&self.bytes) {
            let place = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
            if let Some(slot) = place.and_then(|at| buf.get_mut(at)) {
                *slot = *byte;
            }
        }
        Ok(())
    }

    fn identity(&self) -> io::Result<Option<crate::FileId>> {
        self.file.identity()
    }
}

/// FNV-1a, which detects a record that was not written completely.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redo() -> Redo {
        Redo { start: 11, old: vec![1; 1400].into(), new: vec![2; 1400].into() }
    }

    #[test]
    fn records_come_back_and_damaged_ones_do_not() {
        let record = redo().encode();
        let file = Bytes::from([vec![0; 200], record.clone()].concat());
        let found = Redo::find(&file, 1 << 20).unwrap().unwrap();
        assert_eq!((found.start, &found.old, &found.new), (11, &redo().old, &redo().new));
        assert!(Redo::find(&file, 100).unwrap().is_none());
        for at in 0..record.len() {
            let mut damaged = file.to_vec();
            damaged[200 + at] ^= 1;
            assert!(Redo::find(&Bytes::from(damaged), 1 << 20).unwrap().is_none(), "byte {at}");
        }
        for len in 0..file.len() {
            assert!(Redo::find(&file.slice(..len), 1 << 20).unwrap().is_none(), "{len} bytes");
        }
    }

    #[test]
    fn hostile_numbers_are_refused() {
        for (start, n) in
            [(11, u64::MAX), (11, u64::MAX / 2 + 1), (u64::MAX, 0), (u64::MAX - 4, 4), (1 << 31, 4)]
        {
            let mut record = Redo { start: 11, old: vec![1; 4].into(), new: vec![2; 4].into() }.encode();
            record[16..24].copy_from_slice(&start.to_le_bytes());
            record[24..32].copy_from_slice(&n.to_le_bytes());
            let hash = hash(&record[..40]);
            record[40..48].copy_from_slice(&hash.to_le_bytes());
            let file = Bytes::from([vec![0; 200], record].concat());
            assert!(Redo::find(&file, 1 << 20).unwrap().is_none(), "{start}, {n}");
            assert!(Redo::pending(&file, 1 << 20).unwrap().is_none());
        }
    }

    #[test]
    fn any_mix_is_repaired_and_nothing_else() {
        let whole = |middle: &[u8]| [&[9; 11], middle, &[9; 50]].concat();
        let check = |middle: &[u8], expected| assert_eq!(redo().applies(&whole(middle)), expected);
        check(&[1; 1400], false);
        check(&[2; 1400], false);
        check(&[3; 1400], false);
        for cut in 1..1400 {
            check(&[vec![2; cut], vec![1; 1400 - cut]].concat(), true);
            check(&[vec![1; cut], vec![2; 1400 - cut]].concat(), true);
        }
        let mut rng = b2_testkit::Rng::case(1, 0);
        for piece in [1, 8, 64, 512] {
            for _ in 0..100 {
                let pick: Vec<u8> =
                    (0..1400_usize.div_ceil(piece)).map(|_| 1 + u8::from(rng.chance(50))).collect();
                let mut mix: Vec<u8> = (0..1400).map(|at| pick[at / piece]).collect();
                let torn = mix.contains(&1) && mix.contains(&2);
                check(&mix, torn);
                // One byte matches neither version: another program has changed the frame.
                mix[rng.below(1400)] = 3;
                check(&mix, false);
            }
        }
        assert!(!redo().applies(&[1; 100]));
    }
}

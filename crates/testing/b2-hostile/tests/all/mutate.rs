//! Turns a base into a damaged file.

use b2_testkit::Rng;
use b2_testkit::hostile::{self, Number, Seal};

use super::base::{Base, BaseField, BaseKind};
use super::content::Content;
use super::expect::Expect;
use super::groups::Group;
use super::rebuild::FrameParts;
use super::{relations, sparse};

/// One change to one base.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mutation {
    /// No change: the file must be readable.
    Valid,
    /// Set a field to its value number `kind`.
    Set { field: u32, kind: u32, seal: Seal },
    /// Set two or three fields together.
    Pair { number: u32, seal: Seal },
    /// Change the index, metalayers or vlmetalayers.
    Relation { kind: u32, seal: Seal },
    /// Truncate a file.
    Truncate { file: u32, len: u32 },
    /// Append bytes to a file.
    Trailing { file: u32, kind: u32 },
    /// Flip a bit, by number.
    Flip { file: u32, bit: u32, seal: Seal },
    /// Change one or more bytes.
    Byte { number: u32, seal: Seal },
    /// Change bytes of a codec stream.
    Stream { number: u32, seal: Seal },
    /// Overwrite, copy, swap, remove or duplicate a piece.
    Damage { number: u32, seal: Seal },
    /// Replace a file of a sparse frame.
    Sparse { kind: u32 },
}

/// Number of variants of data appended to a file.
pub(crate) const APPENDED_VARIANTS: u32 = 8;

/// Returns the case, or `None` if nothing changes. `seed` is that of the run.
pub(crate) fn apply(base: &Base, mutation: Mutation, seed: u64) -> Option<(Content, Expect)> {
    let rng = |number: u32| Rng::case(seed ^ 0x5EED, u64::from(number) << 20 ^ base.name.len() as u64);
    let mut content = base.content.clone();
    let seal = match mutation {
        Mutation::Valid => return Some((content, Expect::Same)),
        Mutation::Set { field, kind, seal } => {
            let field = base.fields.get(field as usize)?;
            set(base, &mut content, field, kind, &mut rng(kind + (field.number.at as u32) * 64));
            seal
        }
        Mutation::Pair { number, seal } => {
            let rng = &mut rng(number);
            for _ in 0..rng.within(2..=3) {
                let field = rng.pick(&base.fields);
                let kind = rng.next() as u32 % field.number.nvalues();
                set(base, &mut content, field, kind, rng);
            }
            seal
        }
        Mutation::Relation { kind, seal } => {
            let parts = relations::change(base, FrameParts::of(base)?, kind, &mut rng(kind))?;
            content = parts.into_content(base, seal);
            if content.bytes(&base.files[0]).map(Vec::as_slice) == Some(base.bytes(0)) {
                return None;
            }
            let stale = base.has_sums() && seal == Seal::Stale;
            return Some((content, if stale { Expect::NotOk(None) } else { Expect::Any }));
        }
        Mutation::Truncate { file, len } => {
            let name = base.files.get(file as usize)?;
            let bytes = content.bytes_mut(name)?;
            if bytes.len() <= len as usize {
                return None;
            }
            bytes.truncate(len as usize);
            return Some((content, truncated(base)));
        }
        Mutation::Trailing { file, kind } => {
            return trailing(base, content, file as usize, kind, &mut rng(kind));
        }
        Mutation::Flip { file, bit, seal } => {
            let bytes = content.bytes_mut(base.files.get(file as usize)?)?;
            *bytes.get_mut(bit as usize / 8)? ^= 1 << (bit % 8);
            seal
        }
        Mutation::Byte { number, seal } => {
            let rng = &mut rng(number);
            let name = base.files.get(rng.within(0..=base.files.len() - 1))?;
            let bytes = content.bytes_mut(name).filter(|bytes| !bytes.is_empty())?;
            // Change several in one of three cases.
            for _ in 0..if rng.chance(33) { rng.within(2..=20) } else { 1 } {
                hostile::overwrite(bytes, 1, rng);
            }
            seal
        }
        Mutation::Stream { number, seal } => {
            let rng = &mut rng(number);
            let (file, range) = rng.pick_some(&base.streams)?;
            let bytes = content.bytes_mut(&base.files[*file])?.get_mut(range.clone())?;
            // The start of a stream contains its sizes for zlib and zstd.
            let end = bytes.len().min(if rng.one_in(8) { 9 } else { usize::MAX });
            hostile::overwrite(&mut bytes[..end], 40, rng);
            seal
        }
        Mutation::Damage { number, seal } => {
            let rng = &mut rng(number);
            let name = &base.files[rng.within(0..=base.files.len() - 1)];
            hostile::damage(content.bytes_mut(name)?, 512, rng);
            seal
        }
        Mutation::Sparse { kind } => return sparse::change(base, kind, &mut rng(kind)),
    };
    let expect = expect(base, &content, seal)?;
    if let Some(layout) = base.layout.as_ref().filter(|_| base.has_sums()) {
        let sums = base.chunk_sums(&content);
        seal.apply(content.bytes_mut(&base.files[0])?, layout, &sums);
    }
    Some((content, expect))
}

/// Returns the required result for a truncated file: it must be refused.
fn truncated(base: &Base) -> Expect {
    // Only the loss of the last bytes of a tail may go unnoticed.
    let tail = base.layout.as_ref().is_some_and(|layout| layout.trailer.end < base.bytes(0).len());
    if tail { Expect::Any } else { Expect::Reject }
}

fn set(base: &Base, content: &mut Content, field: &BaseField, kind: u32, rng: &mut Rng) {
    let numbers: Vec<Number> =
        base.fields.iter().filter(|f| f.file == field.file).map(|f| f.number).collect();
    let Some(bytes) = base.files.get(field.file).and_then(|name| content.bytes_mut(name)) else { return };
    field.number.damage(kind, bytes, &numbers, rng);
}

/// Returns the required result for damage; `None` if nothing changed. If the length of a file changed, the damaged
/// chunk is unknown.
fn expect(base: &Base, content: &Content, seal: Seal) -> Option<Expect> {
    let mut changed = false;
    let mut covered = false;
    let mut chunks: Vec<Option<usize>> = Vec::new();
    for (file, name) in base.files.iter().enumerate() {
        let (old, new) = (base.bytes(file), content.bytes(name)?);
        if old.len() != new.len() {
            // Bytes after the end are not part of the frame.
            (changed, covered) = (true, !new.starts_with(old));
            chunks.push(None);
            continue;
        }
        for (at, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            changed = true;
            let chunk = base.chunks.iter().find(|(_, f, range)| *f == file && range.contains(&at));
            let chunk = chunk.map(|(n, ..)| *n);
            covered |= chunk.is_some() || in_frame(base, file, at);
            if chunks.last() != Some(&chunk) {
                chunks.push(chunk);
            }
        }
    }
    if !changed {
        return None;
    }
    let seen = base.has_sums() && seal == Seal::Stale && covered;
    Some(match (seen, chunks.as_slice()) {
        (true, [chunk]) => Expect::NotOk(*chunk),
        (true, _) => Expect::NotOk(None),
        _ => Expect::Any,
    })
}

/// Whether the byte is part of the header, index, checksums or trailer.
fn in_frame(base: &Base, file: usize, at: usize) -> bool {
    let Some(layout) = base.layout.as_ref().filter(|_| file == 0) else { return false };
    let parts = [&layout.header, &layout.index, &layout.sums, &layout.trailer];
    parts.into_iter().chain(&layout.pages).any(|range| range.contains(&at))
}

fn trailing(
    base: &Base,
    mut content: Content,
    file: usize,
    kind: u32,
    rng: &mut Rng,
) -> Option<(Content, Expect)> {
    let whole = content.clone();
    let bytes = content.bytes_mut(base.files.get(file)?)?;
    let more = match kind {
        0 => vec![0],
        1 => vec![0; 4096],
        2 => rng.bytes(1),
        3 => rng.bytes(700),
        // A copy of the file, and of its last bytes.
        4 => bytes.clone(),
        5 => bytes[bytes.len().saturating_sub(35)..].to_vec(),
        6 => [vec![0xFF; 512], b"PK\x05\x06".to_vec()].concat(),
        _ => whole.0.iter().map(|(name, _)| name.as_bytes().to_vec()).collect::<Vec<_>>().concat(),
    };
    if more.is_empty() {
        return None;
    }
    bytes.extend_from_slice(&more);
    // A frame in a file, and a chunk, may be followed by any bytes.
    Some((content, if base.kind == BaseKind::Sparse { Expect::Any } else { Expect::Same }))
}

/// Returns the row of the table for a mutation.
pub(crate) fn group(base: &Base, mutation: Mutation) -> Group {
    match mutation {
        Mutation::Valid => Group::Valid,
        Mutation::Set { field, .. } => base.fields.get(field as usize).map_or(Group::Valid, |f| f.group),
        Mutation::Pair { .. } => Group::Pairs,
        Mutation::Relation { .. } => Group::Relations,
        Mutation::Truncate { .. } => Group::Truncation,
        Mutation::Trailing { .. } => Group::Trailing,
        Mutation::Flip { .. } | Mutation::Byte { .. } => Group::Flips,
        Mutation::Stream { .. } => Group::Codec,
        Mutation::Damage { .. } => Group::Damage,
        Mutation::Sparse { .. } => Group::Sparse,
    }
}

/// Describes the mutation in words.
pub(crate) fn describe(base: &Base, mutation: Mutation) -> String {
    match mutation {
        Mutation::Set { field, kind, seal } => {
            let name = base.fields.get(field as usize).map_or("", |f| &f.name);
            format!("{name}, value {kind}, {seal:?}")
        }
        Mutation::Truncate { file, len } => {
            format!("{} cut at {len}", base.files.get(file as usize).map_or("", String::as_str))
        }
        Mutation::Relation { kind, seal } => format!("{}, {seal:?}", relations::describe(kind)),
        Mutation::Sparse { kind } => format!("{} ({kind})", sparse::describe(kind)),
        other => format!("{other:?}"),
    }
}

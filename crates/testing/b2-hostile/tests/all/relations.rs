//! Well-formed index, metalayers and vlmetalayers that contradict each other or the chunks.

use b2_testkit::Rng;
use b2_testkit::hostile::Number;

use super::base::Base;
use super::rebuild::{self, FrameParts, Layer, b2nd, chunk_header, entry, memcpyed};

/// What is changed, and the number of variants.
const CHANGES: &[(&str, u32)] = &[
    ("an index entry", 60),
    ("the entries", 24),
    ("the index chunk", 26),
    ("the array's shapes", 60),
    ("the array's metalayer", 60),
    ("the dtype", DTYPES.len() as u32),
    ("metalayers", 14),
    ("vlmetalayers", 34),
];

/// Returns the total number of changes.
pub(crate) fn count() -> u32 {
    CHANGES.iter().map(|(_, n)| n).sum()
}

fn split(mut kind: u32) -> (usize, u32) {
    for (n, (_, count)) in CHANGES.iter().enumerate() {
        if kind < *count {
            return (n, kind);
        }
        kind -= count;
    }
    (CHANGES.len(), kind)
}

pub(crate) fn describe(kind: u32) -> String {
    let (what, kind) = split(kind);
    let dtype = DTYPES.get(kind as usize).filter(|_| what == 5);
    let what = CHANGES.get(what).map_or("", |(name, _)| name);
    format!("{what} ({kind}{}{})", if dtype.is_some() { ": " } else { "" }, dtype.unwrap_or(&""))
}

/// Applies change number `kind`. Returns `None` if it is not possible for this base.
pub(crate) fn change(base: &Base, mut parts: FrameParts, kind: u32, rng: &mut Rng) -> Option<FrameParts> {
    let (what, kind) = split(kind);
    let entries = &base.entries;
    match what {
        0..=2 if entries.is_empty() => return None,
        0 => {
            let mut entries = entries.clone();
            let at = rng.within(0..=entries.len() - 1);
            entries[at] = one_entry(&entries, at, kind, &parts);
            parts.set_entries(&entries);
        }
        1 => parts.set_entries(&all_entries(entries.clone(), kind, rng)),
        2 => parts.index = index_chunk(&parts.index, entries, kind),
        3..=5 => {
            let (at, value) = array_value(base, &parts, what, kind, rng)?;
            parts.metalayers[at].1 = value;
        }
        6 => metalayers(&mut parts, kind, rng),
        _ => vlmetalayers(&mut parts, kind, rng),
    }
    Some(parts)
}

/// Returns the new value of an index entry.
fn one_entry(entries: &[i64], at: usize, kind: u32, parts: &FrameParts) -> i64 {
    let (old, data) = (entries[at], parts.data.len() as i64);
    let other = entries[(at + 1) % entries.len()];
    match kind {
        // All kinds of special values, including invalid ones.
        0..=15 => entry(kind as u8),
        16 => entry(1) | 1,
        17 => entry(2) | 0xFF,
        18 => i64::MIN,
        19 => -1,
        20 => -2,
        21 => i64::MAX,
        22 => i64::MAX - 31,
        23 => other,
        24 => old.wrapping_add(1),
        25 => old.wrapping_sub(1),
        26 => old.wrapping_neg(),
        27 => data,
        28 => data - 1,
        29 => data - 31,
        30 => data - 32,
        31 => data + 1,
        32 => data + 32,
        33 => 1 << 32,
        34 => (1 << 32) - 1,
        35 => 1 << 31,
        36 => (1 << 31) - 1,
        37 => 1 << 40,
        38 => 0,
        39 => old ^ (1 << 56),
        40 => old.swap_bytes(),
        // An offset inside the same chunk, where another chunk may be nested.
        41..=50 => old.wrapping_add(i64::from(kind - 40) * 4),
        _ => old.wrapping_add(32 << (kind - 51)),
    }
}

fn all_entries(mut entries: Vec<i64>, kind: u32, rng: &mut Rng) -> Vec<i64> {
    let (first, n) = (entries[0], entries.len());
    match kind {
        0 => entries.push(first),
        1 => drop(entries.pop()),
        2 => entries.clear(),
        3 => entries.extend(entries.clone()),
        4 => entries.reverse(),
        5 => entries.fill(first),
        6 => entries.fill(entry(1)),
        7 => entries.fill(entry(2)),
        8 => entries.fill(entry(4)),
        9 => entries.fill(entry(0)),
        10 => entries.fill(-1),
        11 => entries.fill(i64::MAX),
        12 => entries.rotate_left(1),
        13 => entries.swap(0, n - 1),
        14 => entries.resize(n + 1000, entry(1)),
        15 => entries.resize(100_000, first),
        16 => entries.truncate(1),
        17 => entries.iter_mut().for_each(|entry| *entry += 1),
        18 => entries.iter_mut().for_each(|entry| *entry = entry.swap_bytes()),
        19 => entries.insert(0, entry(4)),
        20 => entries.iter_mut().step_by(2).for_each(|e| *e = entry(1)),
        21 => entries.resize(n.saturating_sub(2).max(1), first),
        22 => entries = entries.iter().enumerate().map(|(k, _)| k as i64).collect(),
        _ => entries.iter_mut().for_each(|entry| *entry ^= 1 << rng.within(0..=62)),
    }
    entries
}

/// Returns another chunk for the index, which may be invalid.
fn index_chunk(old: &[u8], entries: &[i64], kind: u32) -> Vec<u8> {
    let plain: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let n = plain.len() as u32;
    let mut chunk = memcpyed(&plain, 8);
    match kind {
        0..=3 => chunk[3] = [0, 1, 4, 255][kind as usize],
        4 => chunk = rebuild::special(1, b"", 8, n, n),
        5 => chunk = rebuild::special(2, b"", 8, n, n),
        6 => chunk = rebuild::special(4, b"", 8, n, n),
        7 => chunk = rebuild::special(3, &plain[..8], 8, n, 8),
        8 => chunk = rebuild::special(3, &plain[..4], 8, n, 8),
        9 => chunk = rebuild::special(3, &plain[..1], 8, n, 1),
        10 => chunk = rebuild::special(1, b"", 8, n + 8, n),
        11 => chunk = rebuild::special(1, b"", 8, 2_147_483_608, 8),
        12 => chunk = rebuild::special(3, &entry(1).to_le_bytes(), 8, 2_147_483_608, 8),
        13 => chunk = memcpyed(&plain[..plain.len() - 4], 8),
        14 => chunk = memcpyed(&[], 8),
        15 => chunk[8..12].copy_from_slice(&1u32.to_le_bytes()),
        16 => chunk = rebuild::blosc1(&plain, 8),
        17 => chunk[31] |= 8,
        18 => chunk[30] |= 1,
        19 => chunk[31] |= 1,
        20 => chunk = rebuild::streams(4, n, n.max(1), &[&rebuild::stream(&[0; 4])], true),
        // Runs of zeros and of ones.
        21 => chunk = rebuild::streams(0, n, n.max(1), &[&[0; 4]], true),
        22 => chunk = rebuild::streams(0, n, n.max(1), &[&[0xFF, 0xFF, 0xFF, 0xFF, 1]], true),
        23 => chunk = rebuild::streams(0, n, 1, &[&[0; 4]], true),
        24 => chunk = [old, old].concat(),
        _ => chunk = old[..old.len().min(31)].to_vec(),
    }
    chunk
}

/// Changes the value of the array's metalayer.
fn array_value(
    base: &Base,
    parts: &FrameParts,
    what: usize,
    kind: u32,
    rng: &mut Rng,
) -> Option<(usize, Vec<u8>)> {
    let range = base.layout.as_ref()?.array()?;
    let at = parts.metalayers.iter().position(|(name, _)| name == b"b2nd")?;
    let value = base.bytes(0).get(range)?.to_vec();
    let ndim = usize::from(*value.get(2)?);
    let dims = |from: usize, width: usize| -> Vec<u64> {
        let number = |k: usize| Number { at: from + (1 + width) * k + 1, width, big_endian: true };
        (0..ndim).map(|k| number(k).get(&value).unwrap_or(0)).collect()
    };
    let shape = dims(4, 8);
    let chunks = dims(5 + 9 * ndim, 4).into_iter().map(|n| n as u32).collect::<Vec<_>>();
    let blocks = dims(6 + 14 * ndim, 4).into_iter().map(|n| n as u32).collect::<Vec<_>>();
    let dtype = value.get(6 + 19 * ndim + 6..).unwrap_or_default().to_vec();
    Some((
        at,
        match what {
            3 => shapes(shape, chunks, blocks, &dtype, kind, rng),
            4 => layer(value, kind, &shape, &chunks, &blocks, &dtype),
            _ => b2nd(&shape, &chunks, &blocks, DTYPES.get(kind as usize)?.as_bytes()),
        },
    ))
}

fn shapes(
    mut shape: Vec<u64>,
    mut chunks: Vec<u32>,
    mut blocks: Vec<u32>,
    dtype: &[u8],
    kind: u32,
    rng: &mut Rng,
) -> Vec<u8> {
    let top = i32::MAX as u32;
    let ndim = shape.len();
    if ndim == 0 && kind >= 20 {
        (shape, chunks, blocks) = (vec![1; 2], vec![1; 2], vec![1; 2]);
    }
    let at = rng.within(0..=shape.len().max(1) - 1);
    match kind {
        // Products that overflow, also to zero.
        0 => (shape, chunks, blocks) = (vec![1 << 32; 2], vec![1 << 16; 2], vec![1 << 15; 2]),
        1 => (shape, chunks, blocks) = (vec![i64::MAX as u64], vec![top], vec![top]),
        2 => (shape, chunks, blocks) = (vec![1 << 62; 4], vec![1; 4], vec![1; 4]),
        3 => (shape, chunks, blocks) = (vec![1 << 16; 4], vec![1 << 16; 4], vec![1 << 16; 4]),
        4 => (shape, chunks, blocks) = (vec![2; 16], vec![2; 16], vec![2; 16]),
        5 => (shape, chunks, blocks) = (vec![16; 16], vec![16; 16], vec![16; 16]),
        6 => (shape, chunks, blocks) = (vec![1; 17], vec![1; 17], vec![1; 17]),
        7 => (shape, chunks, blocks) = (vec![1; 255], vec![1; 255], vec![1; 255]),
        8 => (shape, chunks, blocks) = (vec![], vec![], vec![]),
        9 => (shape, chunks, blocks) = (vec![0], vec![0], vec![0]),
        10 => (shape, chunks, blocks) = (vec![0, 1 << 62, 1 << 62], vec![0, top, top], vec![0, top, top]),
        11 => (shape, chunks, blocks) = (vec![0; 16], vec![1; 16], vec![1; 16]),
        12 => (shape, chunks, blocks) = (vec![1 << 40], vec![1], vec![1]),
        13 => (shape, chunks, blocks) = (vec![1 << 30, 1 << 30], vec![1 << 15; 2], vec![1; 2]),
        14 => blocks.fill(1),
        15 => chunks.fill(1),
        16 => shape.fill(0),
        17 => shape.fill(1),
        18 => chunks.fill(0),
        19 => blocks.fill(0),
        20 => chunks.fill(top),
        21 => blocks.fill(top),
        22 => shape.fill(i64::MAX as u64),
        23 => shape.fill(u64::MAX),
        24 => shape.reverse(),
        25 => chunks.reverse(),
        26 => blocks.reverse(),
        27 => std::mem::swap(&mut chunks, &mut blocks),
        28 => shape[at] = shape[at].wrapping_mul(2),
        29 => shape[at] += 1,
        30 => shape[at] = shape[at].wrapping_sub(1),
        31 => chunks[at] = chunks[at].wrapping_mul(2),
        32 => chunks[at] += 1,
        33 => chunks[at] = chunks[at].wrapping_sub(1),
        34 => blocks[at] = blocks[at].wrapping_mul(2),
        35 => blocks[at] += 1,
        36 => blocks[at] = blocks[at].wrapping_sub(1),
        37 => shape[at] = 0,
        38 => chunks[at] = 0,
        39 => blocks[at] = 0,
        40 => (chunks[at], blocks[at]) = (0, 0),
        41 => chunks[at] = u32::MAX,
        42 => blocks[at] = u32::MAX,
        43 => chunks[at] = 1 << 31,
        44 => shape[at] = 1 << 63,
        45 => shape[at] = i64::MAX as u64 - u64::from(chunks[at]),
        46 => shape[at] = i64::MAX as u64 - u64::from(chunks[at]) + 1,
        47 => chunks[at] = shape[at] as u32,
        48 => blocks[at] = chunks[at],
        49 => shape.push(1),
        50 => drop(shape.pop()),
        // Another shape with the same number of items, which is consistent with the frame.
        51 if shape.len() > 1 => {
            let product: u64 = chunks.iter().map(|n| u64::from(*n)).product();
            chunks.fill(1);
            chunks[0] = product as u32;
        }
        _ => {
            for (s, c) in shape.iter_mut().zip(&mut chunks) {
                (*s, *c) = (rng.next() % 9, rng.next() as u32 % 9);
            }
            if rng.chance(50) {
                blocks.iter_mut().for_each(|b| *b = rng.next() as u32 % 5);
            }
        }
    }
    b2nd(&shape, &chunks, &blocks, dtype)
}

/// Changes the array's metalayer as a whole.
fn layer(
    mut value: Vec<u8>,
    kind: u32,
    shape: &[u64],
    chunks: &[u32],
    blocks: &[u32],
    dtype: &[u8],
) -> Vec<u8> {
    match kind {
        0 => value.clear(),
        1 => value.push(0),
        2 => value.extend_from_slice(&[0xC1; 40]),
        3 => value[0] = 0x95,
        // Shapes of different lengths.
        4 => value = b2nd(shape, &chunks[..chunks.len().saturating_sub(1)], blocks, dtype),
        5 => value = [b2nd(shape, chunks, blocks, dtype), b2nd(shape, chunks, blocks, dtype)].concat(),
        // Small numbers in their shortest encoding.
        6 => value = vec![0x97, 0, 1, 0x91, 5, 0x91, 5, 0x91, 5, 0, 0xA3, b'<', b'i', b'4'],
        7 => value = vec![0x97, 0, 0, 0x90, 0x90, 0x90],
        8 => value = vec![0x97; 100],
        9 => value = vec![0xFF; 100],
        10 => value = vec![0; 100],
        11 => value = b2nd(shape, chunks, blocks, b""),
        // Truncated at many positions.
        _ => value.truncate((kind - 11) as usize * value.len() / 48),
    }
    value
}

fn metalayers(parts: &mut FrameParts, kind: u32, rng: &mut Rng) {
    let layers = &mut parts.metalayers;
    let add = |layers: &mut Vec<Layer>, n: usize| {
        layers.extend((0..n).map(|k| (format!("n{k}").into_bytes(), vec![k as u8; k % 7])));
    };
    match kind {
        0 => layers.clear(),
        1 => layers.extend(layers.clone()),
        2 => layers.reverse(),
        3 => add(layers, 16_usize.saturating_sub(layers.len())),
        4 => add(layers, 17_usize.saturating_sub(layers.len())),
        5 => add(layers, 1000),
        6 => layers.push((b"\xff\xfe\0\n".to_vec(), vec![0xC1; 9])),
        7 => layers.push((vec![b'x'; 31], vec![0x91; 4000])),
        8 => layers.push((Vec::new(), Vec::new())),
        9 => layers.push((b"caterva".to_vec(), vec![0x95, 0, 0, 0x90, 0x90, 0x90])),
        10 => layers.push((b"b2nd".to_vec(), b2nd(&[4], &[4], &[4], b"<i4"))),
        11 => layers.insert(0, (b"b2nd".to_vec(), b2nd(&[4], &[4], &[4], b"<i4"))),
        12 => layers.insert(0, (b"b2embed".to_vec(), b"\x81\xa7version\x01".to_vec())),
        _ => layers.push((b"vlarray".to_vec(), rng.bytes(20))),
    }
}

fn vlmetalayers(parts: &mut FrameParts, kind: u32, rng: &mut Rng) {
    let layers = &mut parts.vlmetalayers;
    let plain = b"\x93\x01\x02\x03".repeat(20);
    let value = match kind {
        0 => return layers.clear(),
        1 => return layers.extend(layers.clone()),
        2 => return layers.extend((0..17u8).map(|k| (vec![b'v', k], memcpyed(&[k; 5], 1)))),
        3 => return layers.extend((0..8193u16).map(|k| (k.to_be_bytes().to_vec(), memcpyed(&[1], 1)))),
        4 => {
            let same = vec![(b"same".to_vec(), memcpyed(b"\x01", 1)); 8192];
            return layers.extend(same);
        }
        5 => Vec::new(),
        6 => vec![0; 15],
        7 => vec![0; 16],
        8 => memcpyed(&plain, 1)[..31].to_vec(),
        9 => memcpyed(&plain, 1)[..60].to_vec(),
        10 => rebuild::special(1, b"", 1, 2_147_483_615, 1 << 20),
        11 => rebuild::special(3, b"\xc0", 1, 2_147_483_615, 1 << 20),
        12 => rebuild::special(2, b"", 8, 2_147_483_608, 1 << 20),
        13 => rebuild::special(4, b"", 1, 1000, 100),
        14 => rebuild::special(1, b"", 1, 0, 1),
        // All blocks share one run of zeros.
        15 => rebuild::streams(0, 1 << 30, 1 << 20, &[&[0; 4]], true),
        16 => rebuild::streams(0, 1 << 20, 1, &[&[0; 4]], true),
        17 => {
            let mut lazy = memcpyed(&plain, 1);
            lazy[31] |= 8;
            lazy
        }
        18 => rebuild::blosc1(&plain, 1),
        19 => chunk_header(5, 1, 100, 100, 32),
        20 => chunk_header(7, 1, 100, 100, 132),
        21 => [memcpyed(&plain, 1), vec![7; 9]].concat(),
        // Msgpack with false lengths or deep nesting.
        22 => memcpyed(b"\xdd\xff\xff\xff\xff", 1),
        23 => memcpyed(b"\xdf\xff\xff\xff\xff\x01", 1),
        24 => memcpyed(b"\xc6\xff\xff\xff\xff", 1),
        25 => memcpyed(b"\xdb\x7f\xff\xff\xff", 1),
        26 => memcpyed(&vec![0x91; 200_000], 1),
        27 => memcpyed(&[[0x81, 0xC0].repeat(100_000), vec![0xC0]].concat(), 1),
        28 => memcpyed(&b"\xdd\0\0\0\x01".repeat(50_000), 1),
        29 => memcpyed(b"\xc1", 1),
        30 => memcpyed(b"\xd6\xff\0\0\0\0", 1),
        31 => rebuild::streams(4, 1000, 1000, &[&rebuild::stream(&plain)], true),
        32 => memcpyed(&rng.bytes(300), 1),
        _ => rebuild::streams(3, 1000, 10, &[&rebuild::stream(&plain)], true),
    };
    layers.push((b"hostile".to_vec(), value.clone()));
    if let Some((_, first)) = layers.first_mut().filter(|_| rng.chance(50)) {
        *first = value;
    }
}

/// Texts that are invalid dtypes, or valid ones that do not match the array.
const DTYPES: &[&str] = &[
    "",
    "O",
    "|O",
    "<O8",
    "object",
    "<i4",
    "<f8",
    "|u1",
    "|V0",
    "|S0",
    "|V2147483647",
    "|S99999999999999999999",
    "<U536870912",
    "<i-4",
    "<i4\0",
    "\0",
    "<i4,<i4",
    "(2,3)<i4",
    "(2147483647,2147483647)<i4",
    "[('a', 'O')]",
    "[('a', '<i4')]",
    "[('a', '<i4'), ('a', '<i4')]",
    "[('', '<i4')]",
    "[('a', '<i4', (2147483647,))]",
    "[('a', '<i4', (4294967296, 4294967296))]",
    "[('a', '<i4', (-1,))]",
    "[('a', '<i4', 0)]",
    "[('a', '<i4', ())]",
    "[('a', [('b', [('c', '<i4')])])]",
    "[('a', '|V4'), ('b', '|S300')]",
    "[]",
    "[",
    "[(",
    "[('",
    "[('a',",
    "[('a', '<i4'",
    "{}",
    "{'names': ['a'], 'formats': ['<i4']}",
    "{'names': ['a'], 'formats': ['<i4'], 'offsets': [-4], 'itemsize': 4}",
    "{'names': ['a'], 'formats': ['<i4'], 'offsets': [4294967296], 'itemsize': 4}",
    "{'names': ['a', 'b'], 'formats': ['<i4'], 'offsets': [0, 0]}",
    "{'names': ['a'], 'formats': ['<i4'], 'itemsize': 99999999999999}",
    "{'names': ['a'], 'formats': ['<i4'], 'aligned': __import__('os').system('true')}",
    "__import__('os').abort()",
    "numpy.dtype('<i4')",
    "'<i4'",
    "[('a\\x00b', '<i4')]",
    "[('\\U0010FFFF', '<i4')]",
    "[('\\UFFFFFFFF', '<i4')]",
    "[('a', '<i4'), *[]]",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "((((((((((((((((((((((((((((((((",
    "{1: {1: {1: {1: {1: {1: {1: 1}}}}}}}",
    "<M8[ns]",
    "<M8[99999999999999999999ns]",
    "<m8[",
    "<é4",
    "1e999",
    "0x7fffffffffffffffffffffff",
    "[('a', '<i4')]     ",
    ">>i4",
    "=i4",
    "\u{202e}4i<",
];

/// Returns dtypes that are too long for the list above: deeply nested, or with many fields.
pub(crate) fn long_dtypes() -> Vec<Vec<u8>> {
    let nested = |n: usize| [b"[('a', ".repeat(n), b"'<i4'".to_vec(), b")]".repeat(n)].concat();
    let many = |n: usize| {
        let fields: Vec<String> = (0..n).map(|k| format!("('f{k}', '|u1')")).collect();
        format!("[{}]", fields.join(", ")).into_bytes()
    };
    vec![
        nested(20),
        nested(1000),
        nested(100_000),
        vec![b'['; 1_000_000],
        vec![b'('; 1_000_000],
        b"{'a':".repeat(200_000),
        many(100),
        many(50_000),
        [b"(".to_vec(), b"2,".repeat(300_000), b")<i4".to_vec()].concat(),
        vec![b'9'; 1_000_000],
        [b"|S".to_vec(), vec![b'9'; 100_000]].concat(),
        vec![b'-'; 500_000],
        [b"'".to_vec(), b"\\x41".repeat(250_000), b"'".to_vec()].concat(),
        vec![0xFF; 1_000_000],
    ]
}

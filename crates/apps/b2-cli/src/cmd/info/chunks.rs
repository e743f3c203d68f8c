//! The list of chunks.

use std::io::Write;

use anyhow::{Context, Result};
use b2kit::SuperChunk;
use b2kit::chunk::{ChunkHeader, SpecialKind};
use b2kit::frame::Entry;
use serde_json::{Value, json};

use crate::files::Output;
use crate::print::ratio;

/// The kinds of special chunks and their names.
pub(super) const SPECIAL_KINDS: [(SpecialKind, &str); 4] = [
    (SpecialKind::Zeros, "zero"),
    (SpecialKind::NaN, "nan"),
    (SpecialKind::Value, "value"),
    (SpecialKind::Uninit, "uninit"),
];

/// Facts about one chunk.
struct ChunkFacts {
    nbytes: u64,
    cbytes: u64,
    special: Option<&'static str>,
}

impl ChunkFacts {
    fn gather(frame: &SuperChunk, nchunk: usize) -> Result<Self> {
        let header = frame.chunk(nchunk).header()?;
        let special = match (frame.chunk(nchunk).entry()?, &header) {
            (Entry::Special(kind), _) => Some(kind),
            (_, header) => header.as_ref().and_then(ChunkHeader::special),
        };
        Ok(Self {
            nbytes: frame.chunk(nchunk).nbytes()?,
            cbytes: header.map_or(0, |header| header.cbytes() as u64),
            special: special
                .and_then(|kind| SPECIAL_KINDS.iter().find(|(known, _)| *known == kind))
                .map(|(_, name)| *name),
        })
    }
}

/// Calls `each` with the number and the `row` of each chunk. Runs of equal chunks, of which a small frame may have many
/// millions, are looked up only once.
fn each_chunk(
    frame: &SuperChunk,
    row: impl Fn(&ChunkFacts) -> String,
    mut each: impl FnMut(usize, &str) -> Result<()>,
    named: &dyn Fn() -> String,
) -> Result<()> {
    let facts = |nchunk| ChunkFacts::gather(frame, nchunk).with_context(named);
    // The last chunk may be shorter than the others.
    let last = frame.nchunks().saturating_sub(1);
    let mut nchunk = 0;
    while nchunk < frame.nchunks() {
        let alike = match frame.chunksize() {
            0 => nchunk + 1,
            _ => frame.chunk(nchunk).run().with_context(named)?.1.end.min(last),
        };
        let text = row(&facts(nchunk)?);
        each(nchunk, &text)?;
        (nchunk + 1..alike).try_for_each(|nchunk| each(nchunk, &text))?;
        nchunk = alike.max(nchunk + 1);
    }
    Ok(())
}

/// Appends the list of chunks to a JSON object. It is streamed, since a frame may have many millions of chunks.
pub(super) fn send_json(output: &mut Output, frame: &SuperChunk, named: &dyn Fn() -> String) -> Result<()> {
    output.send(b",\n  \"chunk_list\": [")?;
    let mut lines = Vec::new();
    let row = |&ChunkFacts { nbytes, cbytes, special }: &ChunkFacts| {
        json!({"nbytes": nbytes, "cbytes": cbytes, "ratio": json_ratio(nbytes, cbytes), "special": special})
            .to_string()
    };
    let send = |nchunk: usize, row: &str| {
        let before = if nchunk == 0 { "\n    " } else { ",\n    " };
        lines.extend_from_slice(before.as_bytes());
        lines.extend_from_slice(row.as_bytes());
        send_when_long(output, &mut lines)
    };
    each_chunk(frame, row, send, named)?;
    output.send(&lines)?;
    output.send(b"\n  ]")
}

/// Prints the chunks as a table.
pub(super) fn send_table(output: &mut Output, frame: &SuperChunk, named: &dyn Fn() -> String) -> Result<()> {
    let mut lines = Vec::new();
    writeln!(lines, "  {:>8}  {:>12}  {:>12}  {:>9}  special", "chunk", "bytes", "compressed", "ratio")?;
    let row = |&ChunkFacts { nbytes, cbytes, special }: &ChunkFacts| {
        let ratio = ratio(nbytes, cbytes);
        let row = format!("{nbytes:>12}  {cbytes:>12}  {ratio:>9}  {}", special.unwrap_or_default());
        row.trim_end().to_owned()
    };
    let send = |nchunk: usize, row: &str| {
        writeln!(lines, "  {nchunk:>8}  {row}")?;
        send_when_long(output, &mut lines)
    };
    each_chunk(frame, row, send, named)?;
    output.send(&lines)
}

fn send_when_long(output: &mut Output, lines: &mut Vec<u8>) -> Result<()> {
    if lines.len() > 1 << 16 {
        output.send(lines)?;
        lines.clear();
    }
    Ok(())
}

pub(super) fn json_ratio(nbytes: u64, cbytes: u64) -> Value {
    if cbytes == 0 { Value::Null } else { (nbytes as f64 / cbytes as f64).into() }
}

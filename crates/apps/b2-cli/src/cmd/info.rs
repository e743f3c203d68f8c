//! `b2kit info`

mod chunks;

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::chunk::{ChunkHeader, SpecialKind};
use b2kit::frame::Checksums;
use b2kit::frame::{Entry, Storage};
use b2kit::{NdArray, SuperChunk};
use serde_json::{Map, Value, json};

use self::chunks::{SPECIAL_KINDS, json_ratio};
use super::convert::Listing;
use crate::args::{Global, Source, Sources, values};
use crate::files::Output;
use crate::print::{
    Table, count, dims, joined, json, printable, printable_json, printable_name, ratio, short_size, size,
    thousands,
};
use crate::process::{batch, error};
use crate::read::{Hdf5, Input, Store, store};
use crate::write::{checksums_text, codec_text, filter_text, lossy, one_line};

const EXAMPLES: &str = "\
Examples:
  b2kit info data.b2nd                 a summary
  b2kit info *.b2nd                    one line per file
  b2kit info data.b2nd --meta          with metalayers
  b2kit info data.b2nd --chunks        with a list of the chunks
  b2kit info data.b2nd --json | jq .shape
  b2kit info store.b2z --tree          the members of a store
  b2kit info store.b2z --key /a        one of them
  b2kit info ocean.nc                  what is in it (NetCDF, HDF5, Zarr, .npz)
  b2kit info x.h5::/group/dataset      one data set
  b2kit info data.bin --offset 1234    a frame inside another file

In JSON, metalayers with names that are not UTF-8 are {\"$map\": [[name, value], ...]},
such a name {\"$bin\": \"BASE64\"}. If the name of the file is not UTF-8, `file_bytes`
is its exact form.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Print everything as one JSON object (several files: one per line)
    #[arg(long)]
    json: bool,
    /// Add metalayers and vlmetalayers
    #[arg(long)]
    meta: bool,
    /// Show the members of a store as a tree
    #[arg(long, conflicts_with_all = ["json", "key", "chunks"])]
    tree: bool,
    /// List the chunks: size, ratio, special kind
    #[arg(long)]
    chunks: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let mut output = Output::stdout();
    let files = args.sources.listed.and(&args.sources.files)?;
    // The number of names in a list does not change the form of the output.
    if let ([file], None) = (&files[..], &args.sources.listed.files_from) {
        report(args, &args.sources.one(file).inside(), &mut output, global)?;
        return output.finish();
    }
    batch::all(&files, |file| {
        let source = args.sources.one(file).inside();
        let mut text = Output::Buffer(Vec::new());
        let line = if args.json {
            report(args, &source, &mut text, global)?;
            json_line(file, &text)?
        } else if args.meta || args.chunks || args.tree {
            report(args, &source, &mut text, global)?;
            text.bytes().to_vec()
        } else {
            one_line_of(file, &source, global)?.into_bytes()
        };
        output.send(&line)?;
        output.flush_now()
    })?;
    output.finish()
}

/// The JSON object for one of several files, on one line and with the name of the file.
fn json_line(file: &Path, text: &Output) -> Result<Vec<u8>> {
    let mut facts = serde_json::from_slice::<Map<String, Value>>(text.bytes())?;
    // As given, possibly with the name of a member.
    facts.retain(|key, _| !key.starts_with("file"));
    Ok(format!("{}\n", json::of_file(file, facts.into())).into_bytes())
}

/// Summary of one of several files, on one line.
fn one_line_of(file: &Path, source: &Source, global: Global) -> Result<String> {
    let named = || file.display().to_string();
    let described = || -> Result<String> {
        let store = store_of(source, global);
        if let Ok(Some(store)) = &store {
            if let [table] = &store.tables()?[..]
                && table.key == "/"
            {
                return Ok(table.describe());
            }
            return Ok(format!("store, {}", count(store.keys().count() as u64, "member")));
        }
        let error = match store.and_then(|_| Input::open_source(source, global)) {
            Ok(input) => return Ok(describe(&input)),
            Err(error) if source.offset > 0 => return Err(error),
            Err(error) => error,
        };
        if let Some(listing) = Listing::open(&source.file, source.key.as_deref(), global)? {
            let arrays = count(listing.arrays().count() as u64, "array");
            return Ok(format!("{}, {arrays}", listing.format));
        }
        Ok(printable(&Hdf5::open_or(&source.file, global, error)?.one_line(source.key.as_deref())?))
    };
    Ok(format!("{}: {}\n", printable(&named()), described().with_context(named)?))
}

/// A JSON object that starts with the name of the file.
fn with_file(source: &Source, facts: Value) -> Value {
    json::of_file(&source.file, facts)
}

/// The store that a file is, unless a member of it is asked for.
fn store_of(source: &Source, global: Global) -> Result<Option<Store>> {
    match source.key {
        None => Store::open(&source.file, source.offset, global),
        Some(_) => Ok(None),
    }
}

/// Prints everything that was requested about one file.
fn report(args: &Args, source: &Source, output: &mut Output, global: Global) -> Result<()> {
    let named = || source.file.display().to_string();
    let store = store_of(source, global);
    if let Ok(Some(store)) = &store {
        return output.send(store_text(args, source, store)?.as_bytes());
    }
    let input = match store.and_then(|_| Input::open_source(source, global)) {
        Ok(_) if args.tree => return Err(anyhow!("--tree: not a store").context(named())),
        Ok(input) => input,
        Err(error) if source.offset > 0 => return Err(error.context(named())),
        Err(error) => {
            let other = Listing::open(&source.file, source.key.as_deref(), global).with_context(named)?;
            if let Some(listing) = other {
                return tell_other(args, source, &listing, output).with_context(named);
            }
            let file = Hdf5::open_or(&source.file, global, error).with_context(named)?;
            return tell_hdf5(args, source, &file, output).with_context(named);
        }
    };
    let facts =
        FileInfo { sums_ignored: global.no_checksums, ..FileInfo::gather(&input).with_context(named)? };
    let frame = input.frame().filter(|_| args.chunks);
    if args.json {
        check_vlmetalayers(&input).with_context(named)?;
        let object = with_file(source, facts.to_json(&input));
        let text = printable_json(&serde_json::to_string_pretty(&object)?);
        // Chunks and metalayers may be long, so they are written directly to the output.
        output.send(text.strip_suffix("\n}").unwrap_or(&text).as_bytes())?;
        send_layers(output, input.frame(), &named)?;
        if let Some(frame) = frame {
            chunks::send_json(output, frame, &named)?;
        }
        return output.send(b"\n}\n");
    }
    let mut text = format!("{}\n{}", printable(&named()), facts.to_table(&input).render(2));
    if args.meta {
        text.push_str(&metalayer_tables(&input).with_context(named)?);
    }
    output.send(text.as_bytes())?;
    if let Some(frame) = frame {
        chunks::send_table(output, frame, &named)?;
    }
    Ok(())
}

/// Lists what is in a file of another format.
fn tell_other(args: &Args, source: &Source, listing: &Listing, output: &mut Output) -> Result<()> {
    ensure!(!args.chunks, "--chunks: the chunks of {} are not listed", listing.format);
    if args.json {
        let object = with_file(source, listing.to_json()?);
        let text = printable_json(&serde_json::to_string_pretty(&object)?);
        return output.send(format!("{text}\n").as_bytes());
    }
    let mut table = Table::default();
    table.row("kind", format!("{} (b2kit convert makes arrays of it)", listing.format));
    table.row("arrays", listing.arrays().count().to_string());
    let name = printable(&source.file.display().to_string());
    let lines: String = listing.text()?.lines().map(|line| format!("    {line}\n")).collect();
    output.send(format!("{name}\n{}{lines}", table.render(2)).as_bytes())
}

/// Prints the requested information about an HDF5 or NetCDF file, or an object in it.
fn tell_hdf5(args: &Args, source: &Source, file: &Hdf5, output: &mut Output) -> Result<()> {
    ensure!(!args.chunks, "--chunks: the chunks of HDF5 are not listed");
    let key = source.key.as_deref();
    if args.json {
        let object = with_file(source, Value::Object(file.facts_json(key)?));
        let text = printable_json(&serde_json::to_string_pretty(&object)?);
        return output.send(format!("{text}\n").as_bytes());
    }
    let name = printable(&source.file.display().to_string());
    let inside = key.map(|key| format!("::{}", printable(key))).unwrap_or_default();
    let facts = file.facts(key, args.meta, args.tree)?;
    output.send(format!("{name}{inside}\n{facts}").as_bytes())
}

/// Describes a store: its keys, or its members as a tree.
fn store_text(args: &Args, source: &Source, store: &Store) -> Result<String> {
    let name = printable(&source.file.display().to_string());
    let keys: Vec<&str> = store.keys().collect();
    let tables = store.tables().with_context(|| source.file.display().to_string())?;
    let root = tables.iter().find(|table| table.key == "/");
    if args.json {
        let mut object = json!({"kind": "store", "keys": keys});
        if let Some(table) = root {
            object["table"] = table.to_json();
        }
        if !tables.is_empty() {
            let all = tables.iter().map(|table| (table.key.clone(), table.to_json()));
            object["tables"] = Value::Object(all.collect());
        }
        let object = with_file(source, object);
        return Ok(format!("{}\n", printable_json(&serde_json::to_string_pretty(&object)?)));
    }
    let mut text = format!("{name}\n");
    if args.tree {
        text.push_str(&store::tree(keys.into_iter(), |key| match store.member(key) {
            Ok(input) => describe(&input),
            Err(error) => printable(&error::one_line_below(&error)),
        }));
    } else {
        let mut table = Table::default();
        match root {
            Some(root) => {
                table.row("kind", "table (ctable)");
                table.row("rows", root.rows.to_string());
                let columns = root.columns.iter().map(|(name, kind)| format!("{name} ({kind})"));
                table.row("columns", printable(&columns.collect::<Vec<_>>().join(", ")));
            }
            None => table.row("kind", "store"),
        }
        for inner in tables.iter().filter(|table| table.key != "/") {
            table.row("table", format!("{} ({})", printable(&inner.key), inner.describe()));
        }
        table.row("members", keys.len().to_string());
        text.push_str(&table.render(2));
        keys.iter().for_each(|key| text.push_str(&format!("    {}\n", printable(key))));
    }
    Ok(text)
}

/// A member in a few words.
fn describe(input: &Input) -> String {
    let compressed = || one_line(input);
    match input {
        Input::Array(array) => {
            let dtype = stored_dtype(array).unwrap_or_default();
            format!("array ({}) {}, {}", joined(array.shape(), ", "), printable(&dtype), compressed())
        }
        _ => format!("{}, {}", kind(input), compressed()),
    }
}

/// Facts about any kind of file.
struct FileInfo {
    /// Whether checksums were ignored (`--no-checksums`).
    sums_ignored: bool,
    nbytes: u64,
    cbytes: u64,
    special: Special,
    /// Unused bytes in the frame.
    dead: Option<u64>,
    /// Bytes after the frame, left by an interrupted change.
    leftover: Option<u64>,
}

/// Number of chunks with special values, by kind.
#[derive(Default)]
struct Special([usize; SPECIAL_KINDS.len()]);

impl Special {
    fn count(&mut self, kind: SpecialKind, n: usize) {
        if let Some(at) = SPECIAL_KINDS.iter().position(|(known, _)| *known == kind) {
            self.0[at] += n;
        }
    }

    /// The number of chunks of each kind, with its name.
    fn named(&self) -> impl Iterator<Item = (&'static str, usize)> {
        SPECIAL_KINDS.into_iter().zip(self.0).map(|((_, name), n)| (name, n))
    }

    fn of_frame(frame: &SuperChunk) -> Result<Self> {
        let mut special = Self::default();
        let mut nchunk = 0;
        while nchunk < frame.nchunks() {
            let (entry, run) = frame.chunk(nchunk).run()?;
            match entry {
                Entry::Special(kind) => special.count(kind, run.len()),
                Entry::Stored(_) => {
                    if let Some(kind) = frame.chunk(nchunk).header()?.and_then(|header| header.special()) {
                        special.count(kind, 1);
                    }
                }
            }
            nchunk = run.end;
        }
        Ok(special)
    }
}

impl FileInfo {
    fn gather(input: &Input) -> Result<Self> {
        let (cbytes, special) = match input.frame() {
            Some(frame) => (frame.cbytes(), Special::of_frame(frame)?),
            None => (0, Special::default()),
        };
        let dead = input.frame().map(SuperChunk::dead_bytes).transpose()?;
        let leftover = input.frame().map(SuperChunk::leftover_bytes).transpose()?;
        let nbytes = input.nbytes();
        let mut facts = Self { sums_ignored: false, nbytes, cbytes, special, dead, leftover };
        if let Input::Chunk(chunk) = input {
            facts.cbytes = chunk.cbytes() as u64;
            if let Some(kind) = chunk.header().special() {
                facts.special.count(kind, 1);
            }
        }
        Ok(facts)
    }

    /// Every kind of file has the same keys, except for those of metalayers; null if a key does not apply.
    fn to_json(&self, input: &Input) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| {
            out.insert(key.to_owned(), value);
        };
        let array = match input {
            Input::Array(array) => Some(array.as_ref()),
            _ => None,
        };
        let chunk = match input {
            Input::Chunk(chunk) => Some(chunk.header()),
            _ => None,
        };
        let frame = input.frame();
        let header = frame.map(SuperChunk::header);
        put("kind", kind(input).into());
        put("storage", frame.map(storage).into());
        put("nbytes", self.nbytes.into());
        put("cbytes", self.cbytes.into());
        put("ratio", json_ratio(self.nbytes, self.cbytes));
        let typesize = header.map_or_else(|| input.itemsize(), |header| header.itemsize());
        put("typesize", typesize.into());
        put("nchunks", frame.map(SuperChunk::nchunks).into());
        put("chunksize", header.map(|header| header.stored_chunksize()).into());
        put("blocksize", chunk.filter(|header| !header.is_vl()).map(ChunkHeader::blocksize).into());
        let codec = input.codec().map(|(codec, _)| codec);
        put("codec", codec.map(|codec| codec.to_string()).into());
        put("codec_meta", header.map(|header| header.codec_meta()).into());
        put("clevel", header.map(|header| header.level()).into());
        let filters = input.filters();
        put(
            "filters",
            filters.iter().map(|slot| json!({"name": slot.id.to_string(), "meta": slot.meta})).collect(),
        );
        if lossy::of_input(input).is_some() {
            put("lossy", true.into());
        }
        put("splitmode", header.map(|header| values::split_name(header.splitmode())).into());
        let use_dict = header.map(|header| header.use_dict()).or(chunk.map(ChunkHeader::has_dict));
        put("use_dict", use_dict.into());
        put("special", self.special.named().collect());
        put("dead", self.dead.into());
        if let Some(leftover) = self.leftover.filter(|leftover| *leftover > 0) {
            put("leftover", leftover.into());
        }
        let looked_at = frame.filter(|_| !self.sums_ignored);
        put("checksums", looked_at.map(|frame| checksums_text(frame.checksums())).into());
        if frame.is_some_and(SuperChunk::is_restored) {
            put("restored", true.into());
        }
        if let Some(len) = frame.and_then(SuperChunk::block_starts_len) {
            put("block_starts", len.into());
        }
        put("shape", array.map(NdArray::shape).into_json());
        put("chunks", array.map(NdArray::chunkshape).into_json());
        put("blocks", array.map(NdArray::blockshape).into_json());
        put("dtype", array.and_then(stored_dtype).into());
        Value::Object(out)
    }

    fn to_table(&self, input: &Input) -> Table {
        let mut table = Table::default();
        let what = match input {
            Input::Array(_) => "array",
            Input::SuperChunk(_) => "super-chunk",
            Input::Chunk(_) => "chunk",
        };
        table.row(
            "kind",
            match input.frame() {
                Some(frame) => format!("{what}, {} frame", storage(frame)),
                None => what.to_owned(),
            },
        );
        match input {
            Input::Array(array) => {
                let geometry = array.geometry();
                table.row("shape", dims(array.shape()));
                table.row("dtype", printable(&stored_dtype(array).unwrap_or("none".into())));
                // Excludes the padding of blocks at the edges.
                let chunk = array.chunkshape().iter().map(|n| u64::from(*n)).product::<u64>();
                let chunk = short_size(chunk.saturating_mul(array.itemsize() as u64));
                let nchunks = geometry.nchunks();
                table.row(
                    "chunks",
                    format!("{} ({} of {chunk})", dims(array.chunkshape()), count(nchunks, "chunk")),
                );
                let block = short_size(geometry.block_nbytes() as u64);
                table.row("blocks", format!("{} ({block})", dims(array.blockshape())));
            }
            Input::SuperChunk(frame) => table.row(
                "chunks",
                match (frame.nchunks(), frame.chunksize()) {
                    (0, _) => "none".into(),
                    (n, 0) => format!("{n} of different sizes"),
                    (n, chunksize) => format!("{n} of {}", short_size(chunksize as u64)),
                },
            ),
            Input::Chunk(chunk) => {
                let nblocks = count(chunk.header().nblocks() as u64, "block");
                table.row(
                    "blocks",
                    match chunk.header().is_vl() {
                        true => format!("of different sizes ({nblocks})"),
                        false => format!("{} ({nblocks})", short_size(chunk.header().blocksize() as u64)),
                    },
                );
            }
        }
        table.row("item size", short_size(input.itemsize() as u64));
        table.row("uncompressed", size(self.nbytes));
        let file = input.frame().map(|frame| frame.header().frame_len());
        match file {
            // There are only special chunks, so only the file itself takes space.
            Some(file) if self.cbytes == 0 && self.nbytes > 0 && file > 0 => {
                table.row("compressed", format!("file {file} bytes, {}x", thousands(self.nbytes / file)));
            }
            _ => {
                table.row("compressed", size(self.cbytes));
                table.row("ratio", ratio(self.nbytes, self.cbytes));
            }
        }
        table.row("codec", codec_text(input));
        let filters: Vec<String> = input.filters().iter().map(filter_text).collect();
        table.row("filters", if filters.is_empty() { "none".into() } else { filters.join(", ") });
        if let Some(what) = lossy::of_input(input) {
            table.row("lossy", what);
        }
        let kinds = self.special.named().filter(|(_, n)| *n > 0);
        let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{n} {kind}")).collect();
        table.row("special chunks", if kinds.is_empty() { "none".into() } else { kinds.join(", ") });
        if let Some(dead) = self.dead {
            table.row("dead space", if dead == 0 { "none".into() } else { size(dead) });
        }
        if let Some(leftover) = self.leftover.filter(|leftover| *leftover > 0) {
            let whose = "left after the frame by an interrupted change (b2kit compact removes it)";
            table.row("leftover", format!("{} {whose}", size(leftover)));
        }
        if let Some(frame) = input.frame() {
            table.row(
                "checksums",
                match frame.checksums() {
                    _ if self.sums_ignored => "not looked for (--no-checksums)",
                    Checksums::None => "none",
                    Checksums::Ok => "present, data not compared (b2kit verify does)",
                    Checksums::Changed => "present, but another program changed the file since",
                },
            );
            if frame.is_restored() {
                table.row("header", "damaged, read from its copy; salvage writes an intact file");
            }
            if let Some(len) = frame.block_starts_len() {
                table.row("block starts", format!("{} for remote readers", size(len)));
            }
        }
        table
    }
}

fn kind(input: &Input) -> &'static str {
    match input {
        Input::Array(_) => "ndarray",
        Input::SuperChunk(_) => "schunk",
        Input::Chunk(_) => "chunk",
    }
}

fn storage(frame: &SuperChunk) -> &'static str {
    match frame.storage() {
        Storage::Contiguous => "contiguous",
        Storage::Sparse => "sparse",
    }
}

/// The dtype as stored, lossily converted to UTF-8. Arrays of the old format have none.
fn stored_dtype(array: &NdArray) -> Option<String> {
    array.meta().dtype.as_deref().map(|text| String::from_utf8_lossy(text).into_owned())
}

trait IntoJson {
    fn into_json(self) -> Value;
}

impl<T: Copy + Into<Value>> IntoJson for Option<&[T]> {
    fn into_json(self) -> Value {
        self.map(|items| items.iter().map(|item| (*item).into()).collect::<Vec<Value>>()).into()
    }
}

/// Reads all vlmetalayers, so that a damaged one is an error before anything is printed.
fn check_vlmetalayers(input: &Input) -> Result<()> {
    let layers = input.frame().map(SuperChunk::vlmetalayers);
    layers.into_iter().flat_map(|layers| layers.iter().map(move |(name, _)| layers.get(name))).try_for_each(
        |value| {
            value?;
            Ok(())
        },
    )
}

/// Appends the metalayers to a JSON object.
fn send_layers(output: &mut Output, frame: Option<&SuperChunk>, named: &dyn Fn() -> String) -> Result<()> {
    let Some(frame) = frame else {
        return output.send(b",\n  \"metalayers\": null,\n  \"vlmetalayers\": null");
    };
    const GAPS: [&str; 3] = ["\n    ", "\n    ", "\n  "];
    let mut send = |text: &str| output.send(text.as_bytes());
    send(",\n  \"metalayers\": ")?;
    let fixed = frame.metalayers();
    let names: Vec<&[u8]> = fixed.iter().map(|(name, _)| name).collect();
    json::show_layers(names.into_iter(), |name| Ok(fixed.get(name).unwrap_or_default()), GAPS, &mut send)?;
    send(",\n  \"vlmetalayers\": ")?;
    json::show_layers(
        vlnames(frame).into_iter(),
        |name| vlmetalayer(frame, name).with_context(named),
        GAPS,
        &mut send,
    )
}

pub(super) fn vlnames(frame: &SuperChunk) -> Vec<&[u8]> {
    frame.vlmetalayers().iter().map(|(name, _)| name).collect()
}

/// The content of an existing vlmetalayer.
pub(super) fn vlmetalayer(frame: &SuperChunk, name: &[u8]) -> Result<Vec<u8>> {
    Ok(frame.vlmetalayers().get(name)?.unwrap_or_default())
}

pub(super) fn metalayer_tables(input: &Input) -> Result<String> {
    let Some(frame) = input.frame() else { return Ok(String::new()) };
    let row = |table: &mut Table, name: &[u8], content: &[u8]| {
        table.row(&printable_name(name), printable(&json::show_for_people(content, LONG)));
    };
    let (mut fixed, mut variable) = (Table::default(), Table::default());
    for (name, content) in frame.metalayers().iter() {
        row(&mut fixed, name, content);
    }
    for name in vlnames(frame) {
        row(&mut variable, name, &vlmetalayer(frame, name)?);
    }
    let mut text = String::new();
    for (heading, table) in [("metalayers", fixed), ("vlmetalayers", variable)] {
        let rows = table.render(4);
        text.push_str(&format!("  {heading}{}\n{rows}", if rows.is_empty() { "  none" } else { "" }));
    }
    Ok(text)
}

/// Maximum number of characters to print of the content of a metalayer.
const LONG: usize = 1024;

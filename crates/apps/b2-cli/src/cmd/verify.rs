//! `b2kit verify`

mod oddities;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use b2kit::base::LimitExceeded;
use b2kit::frame::Checksums;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::args::{FilesFrom, Global, Source};
use crate::files::{Output, retry_read};
use crate::print::{count, json, printable, printable_json};
use crate::process::error::exceeds_output;
use crate::process::{AlreadyReported, PartlyChecked, Progress, one_line_for, say, signals};
use crate::read::external::ExternalArray;
use crate::read::{Hdf5, Input, Selection, Store, View, damage, without_items};
use crate::write::checksums_text;

const EXAMPLES: &str = "\
Examples:
  b2kit verify *.b2nd
  find . -name '*.b2*' -print0 | b2kit verify -0 --files-from -
  b2kit verify data.b2nd --json | jq .sha256
  b2kit verify ocean.nc x.h5::/group/dataset

Prints one line per file, in order, with tabs between: ok, uncompressed bytes,
SHA-256 of what `cat` prints (of a store, of all members in the order of their
keys), and the name; or FAIL, -, -, the name and why. Control characters in names
are escaped.
`changed` instead of ok: the file was changed without updating its checksums, so
damage in the changed parts cannot be detected; `b2kit checksum add` writes new ones.
`skipped` instead of ok: some parts could not be checked; the others are intact. The
size and the hash are those of the checked parts, or - if there are none. The
skipped parts follow the name: more than --max-output bytes of zeros and repeated
values, and data sets of HDF5 that cannot be decoded, such as virtual and external
ones, references, and data of variable length.
A lazy expression or a proxy of python-blosc2 stores no items: the bytes of the file
are compared, size and hash are -, and after the name follows what it is.
Exit code 1 if any file failed; 3 if none failed but something was skipped.

In files without checksums it also compares the headers with each other, and
warns on standard error about values that readers accept but no known writer
produces: such a file may be damaged. -q silences that.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Frames, directories of sparse frames, chunks, stores, HDF5 and NetCDF files
    #[arg(value_name = "FILE", required_unless_present = "files_from")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    listed: FilesFrom,
    /// Print one line of JSON for each file
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let mut output = Output::stdout();
    let mut tally = Tally::default();
    for file in &args.files {
        answer(file, &mut output, &mut tally, args.json, global)?;
    }
    for name in args.listed.names()? {
        answer(&name?, &mut output, &mut tally, args.json, global)?;
    }
    output.finish()?;
    if !global.quiet && !args.json {
        tally.report();
    }
    match () {
        () if tally.failed => Err(AlreadyReported.into()),
        () if tally.skipped > 0 => Err(PartlyChecked.into()),
        () => Ok(()),
    }
}

/// Number of verified files by checksum state.
#[derive(Default)]
struct Tally {
    compared: u64,
    changed: u64,
    without: u64,
    /// Files whose checksums were ignored (`--no-checksums`).
    unseen: u64,
    /// Number of members and data sets that were skipped.
    skipped: u64,
    /// Whether a file failed.
    failed: bool,
}

impl Tally {
    fn count(&mut self, checksums: Checksums, global: Global) {
        *match checksums {
            _ if global.no_checksums => &mut self.unseen,
            Checksums::Ok => &mut self.compared,
            Checksums::Changed => &mut self.changed,
            Checksums::None => &mut self.without,
        } += 1;
    }

    /// Prints a summary line on standard error.
    fn report(&self) {
        let parts = [
            (self.unseen, "not compared with checksums (--no-checksums): decoded only"),
            (self.compared, "with checksums: all data compared"),
            (self.changed, "changed by another program since the checksums were written"),
            (self.without, "without checksums: decoded, but damage that still decodes is not detected"),
        ];
        let mut parts: Vec<String> = parts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{} {what}", count(*n, "file")))
            .collect();
        if self.skipped > 0 {
            parts.push(format!("{} skipped", count(self.skipped, "array")));
        }
        if !parts.is_empty() {
            say(&parts.join("; "));
        }
    }
}

/// Verifies a file and prints its result line.
fn answer(file: &Path, output: &mut Output, tally: &mut Tally, json: bool, global: Global) -> Result<()> {
    let verified = retry_read(|| verify(file, global));
    match &verified {
        Ok(found) => {
            tally.skipped += found.skipped.len() as u64;
            if found.checked {
                tally.count(found.checksums, global);
            }
        }
        Err(_) => tally.failed = true,
    }
    if let (Ok(VerifyResult { notes, .. }), false) = (&verified, global.quiet) {
        for note in notes {
            let name = printable(&file.display().to_string());
            say(&format!("{name}: odd: {}", printable(note)));
        }
    }
    let mut line = match &verified {
        _ if json => printable_json(&to_json(file, &verified, global).to_string()).into_bytes(),
        Ok(verified) if verified.has_hash() => {
            format!("{}\t{}\t{}\t", verified.verdict(), verified.nbytes, verified.hash).into_bytes()
        }
        Ok(verified) => format!("{}\t-\t-\t", verified.verdict()).into_bytes(),
        Err(_) => b"FAIL\t-\t-\t".to_vec(),
    };
    if !json {
        line.extend(escaped(file.as_os_str().as_encoded_bytes()));
        match &verified {
            Ok(verified) if verified.is_whole() => {}
            Ok(verified) => line.extend(format!("\t{}", printable(&verified.parts_text())).into_bytes()),
            Err(error) => {
                let name = file.display().to_string();
                line.extend(format!("\t{}", one_line_for(&name, error)).into_bytes());
            }
        }
    }
    line.push(b'\n');
    output.send(&line)?;
    output.flush_now()
}

/// Escapes characters of a name that could fake columns, lines or other names, or change colours.
fn escaped(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name);
    let safe = printable(&text);
    // Bytes that are not UTF-8 are unchanged.
    if safe == text { name.to_vec() } else { safe.into_bytes() }
}

/// The result for one file as a JSON object. Keys that do not apply are null.
fn to_json(file: &Path, verified: &Result<VerifyResult>, global: Global) -> Value {
    let message = verified.as_ref().err().map(|error| one_line_for(&file.display().to_string(), error));
    let facts = match verified {
        Ok(found) => json!({
            "verdict": found.verdict(),
            "nbytes": found.has_hash().then_some(found.nbytes),
            "sha256": found.has_hash().then_some(&found.hash),
            // None if checksums were ignored.
            "checksums": (!global.no_checksums).then(|| checksums_text(found.checksums)),
            "notes": found.notes,
            "skipped": found.skipped.iter()
                .map(|NamedPart { key, what }| json!({"key": key, "reason": what}))
                .collect::<Vec<_>>(),
            "without_items": found.without_items.iter()
                .map(|NamedPart { key, what }| json!({"key": key, "what": what}))
                .collect::<Vec<_>>(),
            "message": null,
        }),
        Err(_) => json!({
            "verdict": "FAIL",
            "nbytes": null,
            "sha256": null,
            "checksums": null,
            "notes": [],
            "skipped": [],
            "without_items": [],
            "message": message,
        }),
    };
    json::of_file(file, facts)
}

/// Result for a file that can be decoded.
pub(crate) struct VerifyResult {
    /// Checksum state; for a store, the worst of its members.
    pub(crate) checksums: Checksums,
    /// Uncompressed bytes.
    pub(crate) nbytes: u64,
    /// SHA-256 of the uncompressed bytes.
    pub(crate) hash: String,
    /// Oddities found in a file without checksums.
    pub(crate) notes: Vec<String>,
    /// Whether anything was checked.
    checked: bool,
    /// The parts that were not decoded.
    skipped: Vec<NamedPart>,
    /// The intact parts whose items python-blosc2 computes or fetches.
    without_items: Vec<NamedPart>,
}

/// A part, and what it is or why it was not decoded.
struct NamedPart {
    /// The key of a member; `None` for the whole file.
    key: Option<String>,
    what: String,
}

impl VerifyResult {
    fn new(checksums: Checksums) -> Self {
        let (hash, notes) = (String::new(), Vec::new());
        Self {
            checksums,
            nbytes: 0,
            hash,
            notes,
            checked: false,
            skipped: Vec::new(),
            without_items: Vec::new(),
        }
    }

    /// Whether there are items, of which size and hash are known.
    fn has_hash(&self) -> bool {
        self.checked && self.without_items.iter().all(|part| part.key.is_some())
    }

    /// Whether size and hash are those of everything in the file.
    fn is_whole(&self) -> bool {
        self.skipped.is_empty() && self.without_items.is_empty()
    }

    fn verdict(&self) -> &'static str {
        match self.checksums {
            Checksums::Changed => "changed",
            _ if !self.skipped.is_empty() => "skipped",
            _ => "ok",
        }
    }

    /// Names what was skipped, and what has no items.
    fn parts_text(&self) -> String {
        let named = |NamedPart { key, what }: &NamedPart| match key {
            Some(key) => format!("{key} ({what})"),
            None => what.clone(),
        };
        let lists = [("skipped", &self.skipped), ("without items", &self.without_items)];
        let lists = lists.into_iter().filter(|(_, parts)| !parts.is_empty()).map(|(title, parts)| {
            format!("{title}: {}", parts.iter().map(named).collect::<Vec<_>>().join(", "))
        });
        lists.collect::<Vec<_>>().join("; ")
    }

    /// Adds something that was not decoded.
    fn skip(&mut self, key: Option<&str>, file: &Path, error: &anyhow::Error) {
        let named = key.map_or_else(|| file.display().to_string(), str::to_owned);
        self.skipped.push(NamedPart { key: key.map(str::to_owned), what: one_line_for(&named, error) });
    }
}

/// Compares all checksums and decodes everything; for a store, all its members.
///
/// # Errors
/// Errors do not name the file; callers add its name.
pub(crate) fn verify(path: &Path, global: Global) -> Result<VerifyResult> {
    let global = global.with_output_limit().opening_itemless();
    let mut hasher = Sha256::new();
    let source = Source::of(path).inside();
    let file = &*source.file;
    let mut verified = match Input::open_source(&source, global) {
        Ok(input) => {
            let mut verified = match verify_input(&input, file, global, &mut hasher) {
                Err(error) if exceeds_output(&error) => {
                    let mut verified = VerifyResult::new(Checksums::None);
                    verified.skip(None, path, &error);
                    verified
                }
                verified => verified?,
            };
            if let Some(store) = Store::of(&input, file, global)? {
                // The hash covers the frame that contains the members, as `cat` prints it, not the members.
                let members = verify_members(&store, file, global, &mut Sha256::new())?;
                verified.skipped.extend(members.skipped);
                verified.without_items.extend(members.without_items);
                verified.notes.extend(members.notes);
                if members.checksums == Checksums::Changed {
                    verified.checksums = Checksums::Changed;
                }
            }
            verified
        }
        Err(error) => match Store::open(file, 0, global)? {
            Some(store) if source.key.is_none() => verify_members(&store, file, global, &mut hasher)?,
            Some(_) => return Err(error),
            None => {
                let inside = Hdf5::open_or(file, global, error)?;
                verify_hdf5(&inside, source.key.as_deref(), path, global, &mut hasher)?
            }
        },
    };
    verified.hash = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(verified)
}

/// Verifies all members of a store, one after the other.
fn verify_members(store: &Store, file: &Path, global: Global, hasher: &mut Sha256) -> Result<VerifyResult> {
    let mut all = VerifyResult::new(Checksums::Ok);
    let limit = global.max_output.unwrap_or(u64::MAX);
    let mut unstored = 0_u64;
    store.verify_directory()?;
    for key in store.every_key() {
        let named = || format!("key {key}");
        let input = match store.member(key) {
            Err(error) if Store::is_unsupported(&error) => {
                all.skip(Some(key), file, &anyhow!("{}", error.root_cause()));
                continue;
            }
            input => input?,
        };
        // The limit applies to the whole store; each member alone may be below it.
        let own = input.unstored(limit).with_context(named)?;
        let before = hasher.clone();
        let verified = match unstored.saturating_add(own) {
            sum if sum > limit => Err(LimitExceeded::check(
                "bytes of zeros and repeated values in all members",
                sum,
                "max_output",
                limit,
            )
            .err()
            .map_or_else(|| anyhow!("too many bytes"), anyhow::Error::from)),
            sum => {
                unstored = sum;
                verify_input(&input, file, global, hasher)
            }
        };
        let member = match verified {
            Err(error) if exceeds_output(&error) => {
                *hasher = before;
                all.skip(Some(key), file, &error);
                continue;
            }
            member => member.with_context(named)?,
        };
        all.checked = true;
        all.nbytes = all.nbytes.saturating_add(member.nbytes);
        all.without_items.extend(
            member.without_items.into_iter().map(|part| NamedPart { key: Some(key.to_owned()), ..part }),
        );
        all.notes.extend(member.notes.into_iter().map(|note| format!("{key}: {note}")));
        all.checksums = match (all.checksums, member.checksums) {
            (Checksums::Ok, other) | (other, Checksums::Ok) => other,
            (Checksums::Changed, _) | (_, Checksums::Changed) => Checksums::Changed,
            (Checksums::None, Checksums::None) => Checksums::None,
        };
    }
    all.checked |= all.skipped.is_empty();
    Ok(all)
}

/// Decodes an HDF5 data set, or all data sets of a file or group in order.
fn verify_hdf5(
    file: &Hdf5,
    name: Option<&str>,
    path: &Path,
    global: Global,
    hasher: &mut Sha256,
) -> Result<VerifyResult> {
    let mut verified = VerifyResult::new(Checksums::None);
    for (key, array) in file.arrays(name)? {
        let before = hasher.clone();
        match array.and_then(|array| verify_plain(&*array, path, global, hasher)) {
            Ok(nbytes) => {
                verified.nbytes = verified.nbytes.saturating_add(nbytes);
                verified.checked = true;
            }
            Err(error) if Hdf5::is_unsupported(&error) || exceeds_output(&error) => {
                *hasher = before;
                verified.skip(Some(&key), path, &error);
            }
            Err(error) => return Err(error.context(key)),
        }
    }
    verified.checked |= verified.skipped.is_empty();
    Ok(verified)
}

/// Decodes a data set. Returns the bytes of its items.
fn verify_plain(array: &dyn ExternalArray, path: &Path, global: Global, hasher: &mut Sha256) -> Result<u64> {
    array.check_output()?;
    let view = View::of(array, &[])?;
    let mut progress = Progress::new(path.display().to_string(), view.nbytes(), global.quiet);
    let mut buffer = Vec::new();
    for piece in view.pieces() {
        signals::check()?;
        view.read(&piece, &mut buffer)?;
        hasher.update(&buffer);
        progress.add(buffer.len() as u64);
    }
    Ok(view.nbytes())
}

/// Feeds the data to the hasher; the caller finishes the hash.
fn verify_input(input: &Input, file: &Path, global: Global, hasher: &mut Sha256) -> Result<VerifyResult> {
    verify_parts(input, file, global, hasher).map_err(|error| damage::locate(input, error))
}

fn verify_parts(input: &Input, file: &Path, global: Global, hasher: &mut Sha256) -> Result<VerifyResult> {
    if let Some((frame, what)) = input.frame().and_then(|frame| Some((frame, without_items(frame)?))) {
        // Chunks of special values stand for items that are elsewhere, and are not expanded.
        let verified = VerifyResult { checked: true, ..VerifyResult::new(frame.verify()?.checksums) };
        let part = NamedPart { key: None, what: format!("{what} of python-blosc2") };
        return Ok(VerifyResult { without_items: vec![part], ..verified });
    }
    input.check_output()?;
    let selection = Selection::all(input);
    let mut progress = Progress::new(file.display().to_string(), selection.nbytes(), global.quiet);
    let mut read = || {
        selection.stream(
            |piece| {
                hasher.update(piece);
                Ok(())
            },
            &mut progress,
        )
    };
    let (checksums, notes) = match input {
        Input::Array(array) => {
            let found = array.verify_reading(read)?;
            (found.checksums, oddities::notes(input, &found))
        }
        Input::SuperChunk(frame) => {
            let found = frame.verify_reading(false, read)?;
            (found.checksums, oddities::notes(input, &found))
        }
        Input::Chunk(_) => {
            read()?;
            (Checksums::None, Vec::new())
        }
    };
    Ok(VerifyResult { nbytes: selection.nbytes(), notes, checked: true, ..VerifyResult::new(checksums) })
}

//! The commands that each case goes through, and checks that their results agree.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use b2_testkit::Rng;
use serde_json::Value;

use super::content::Node;
use super::groups::Group;
use super::plan::Case;
use super::worker::{Answer, Death, Worker};

/// The result of `verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok {
        changed: bool,
        nbytes: u64,
        sha256: String,
    },
    Fail(String),
    /// Any other output, or an exit code that contradicts the output.
    Strange(String),
}

impl Verdict {
    fn of(answer: &Answer) -> Self {
        let line = String::from_utf8_lossy(&answer.out).trim_end_matches('\n').to_owned();
        let words: Vec<&str> = line.split('\t').collect();
        match (answer.rc, words.as_slice()) {
            (0, [word @ ("ok" | "changed"), nbytes, sha256, _name]) if sha256.len() == 64 => {
                match nbytes.parse() {
                    Ok(nbytes) => {
                        Self::Ok { changed: *word == "changed", nbytes, sha256: (*sha256).to_owned() }
                    }
                    Err(_) => Self::Strange(line),
                }
            }
            (1, ["FAIL", "-", "-", _name, message]) if !message.is_empty() => {
                Self::Fail((*message).to_owned())
            }
            _ => Self::Strange(format!("rc {}: {line} {}", answer.rc, answer.err)),
        }
    }

    pub(crate) fn is_ok(&self) -> bool {
        matches!(self, Self::Ok { .. })
    }
}

/// The results of one worker for a case.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) answers: Vec<(Vec<String>, Answer)>,
    pub(crate) death: Option<(Vec<String>, Death)>,
    /// The first contradiction.
    pub(crate) odd: Option<String>,
    pub(crate) stderr: String,
    pub(crate) over_kib: u64,
    pub(crate) millis: u128,
}

/// Frames with more chunks than this are not listed or written.
const WRITTEN: u64 = 1 << 20;
/// Data larger than this are not printed, in bytes.
const PRINTED: u64 = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    Cat,
    Slice,
    Chunk,
    Copy,
    Salvage,
    Append,
    VlMeta,
    Diff,
    Checksum,
    Set,
    Keys,
    Items,
}

const EXTRAS: [Extra; 12] = [
    Extra::Cat,
    Extra::Slice,
    Extra::Chunk,
    Extra::Copy,
    Extra::Salvage,
    Extra::Append,
    Extra::VlMeta,
    Extra::Diff,
    Extra::Checksum,
    Extra::Set,
    Extra::Keys,
    Extra::Items,
];

/// Returns the additional commands to run: for few cases in general, and for more of those built from scratch.
fn extras(case: &Case) -> Vec<Extra> {
    let mut rng = Rng::case(case.id, 9);
    match case.group {
        Group::Stores | Group::Garbage | Group::Sparse | Group::Valid | Group::Nesting => EXTRAS.to_vec(),
        Group::Bombs => (0..4).map(|_| *rng.pick(&EXTRAS)).collect(),
        _ if rng.chance(40) => vec![*rng.pick(&EXTRAS)],
        _ => Vec::new(),
    }
}

struct Session<'a> {
    worker: &'a mut Worker,
    folder: &'a Path,
    name: String,
    ran: Ran,
}

/// Runs all commands of a case, which is stored in `folder` under `name`.
pub(crate) fn run(worker: &mut Worker, folder: &Path, name: &str, case: &Case) -> Result<Ran> {
    let ran = Ran {
        verdict: None,
        answers: Vec::new(),
        death: None,
        odd: None,
        stderr: String::new(),
        over_kib: 0,
        millis: 0,
    };
    worker.mark()?;
    let started = Instant::now();
    let mut session = Session { worker, folder, name: name.to_owned(), ran };
    session.all(case)?;
    let Session { worker, mut ran, .. } = session;
    ran.millis = started.elapsed().as_millis();
    ran.over_kib = worker.over_kib(KEPT_KIB);
    ran.stderr = worker.said();
    Ok(ran)
}

/// Runs `verify` on a file; returns `None` if it killed the worker.
pub(crate) fn verify(worker: &mut Worker, name: &str) -> Result<Option<Verdict>> {
    let answer = worker.run(&["verify".to_owned(), name.to_owned()])?;
    Ok(answer.ok().map(|answer| Verdict::of(&answer)))
}

/// A process that uses more memory than this after a case is ended.
const KEPT_KIB: u64 = 96 << 10;

impl Session<'_> {
    fn all(&mut self, case: &Case) -> Result<()> {
        let name = self.name.clone();
        let Some(answer) = self.ask(&["verify", &name], &[0, 1])? else { return Ok(()) };
        let verdict = Verdict::of(&answer);
        if let Verdict::Strange(line) = &verdict {
            self.odd(format!("verify answers {line:?}"));
        }
        self.ran.verdict = Some(verdict.clone());
        let extras = extras(case);
        if extras.is_empty() {
            return Ok(());
        }
        let Some(info) = self.ask(&["info", &name, "--json"], &[0, 1])? else { return Ok(()) };
        if verdict.is_ok() && info.rc != 0 {
            self.odd(format!("verify is content, info is not: {}", info.err));
        }
        let info = serde_json::from_slice::<Value>(&info.out).unwrap_or(Value::Null);
        for extra in extras {
            if self.ran.death.is_some() {
                return Ok(());
            }
            self.extra(extra, case, &verdict, &info)?;
        }
        Ok(())
    }

    fn extra(&mut self, extra: Extra, case: &Case, verdict: &Verdict, info: &Value) -> Result<()> {
        let name = self.name.clone();
        let out = format!("{name}.out");
        let nbytes = info["nbytes"].as_u64().unwrap_or(u64::MAX);
        // Listing or writing takes time and memory for each chunk, whether it is stored or not.
        if info["nchunks"].as_u64().is_some_and(|n| n > WRITTEN)
            && !matches!(extra, Extra::Cat | Extra::Slice | Extra::Diff)
        {
            return Ok(());
        }
        match extra {
            Extra::Cat if nbytes <= PRINTED || info.is_null() => {
                let Some(answer) = self.ask(&["cat", &name, "--raw"], &[0, 1])? else { return Ok(()) };
                if let Verdict::Ok { sha256, .. } = verdict
                    && (answer.rc != 0 || *sha256 != answer.sha256)
                {
                    self.odd(format!("verify is content, cat is not: {}", answer.err));
                }
            }
            Extra::Cat => {}
            Extra::Slice => {
                let slice = format!("--slice={}", slice(info, case.id));
                self.ask(&["cat", &name, "--raw", &slice], &[0, 1])?;
            }
            Extra::Chunk => {
                let nchunk = (case.id % 3).to_string();
                if info["chunksize"].as_u64().is_none_or(|n| n <= PRINTED) {
                    self.ask(&["cat", &name, "--chunk", &nchunk], &[0, 1])?;
                }
            }
            Extra::Copy if nbytes <= PRINTED => {
                let copied = self.ask(&["copy", &name, &out, "--force"], &[0, 1])?;
                if let (Verdict::Ok { nbytes, .. }, Some(0)) = (verdict, copied.map(|answer| answer.rc)) {
                    let nbytes = *nbytes;
                    self.must_hold(&out, |now| now == nbytes, "a copy of what is fine is not")?;
                }
            }
            Extra::Copy => {}
            // Salvage searches every byte of a file, including holes.
            Extra::Salvage if is_long(case) => {}
            Extra::Salvage => {
                let Some(answer) = self.ask(&["salvage", &name, &out, "--force"], &[0, 1])? else {
                    return Ok(());
                };
                let saved = answer.rc == 0;
                if saved {
                    let report = String::from_utf8_lossy(&answer.out).into_owned();
                    let guessed = report.lines().any(|line| line.split_whitespace().eq(["index", "lost"]));
                    self.salvaged(&out, verdict, guessed)?;
                } else if case.group == Group::Valid && verdict.is_ok() && info["kind"] != "chunk" {
                    self.odd(format!("salvage does not save what is valid: {}", answer.err));
                }
            }
            Extra::Append => self.append(verdict, info)?,
            Extra::VlMeta => {
                let layers = info["vlmetalayers"].as_object();
                let known = layers.and_then(|layers| layers.keys().next().cloned());
                self.ask(&["vlmeta", "get", &name, known.as_deref().unwrap_or("none")], &[0, 1])?;
            }
            Extra::Diff if nbytes <= PRINTED => {
                self.ask(&["diff", &name, "../more.b2nd"], &[0, 1, 2])?;
            }
            Extra::Diff => {}
            Extra::Checksum if nbytes <= PRINTED => {
                let word = if case.id.is_multiple_of(2) { "add" } else { "remove" };
                if !self.copy_to(&out)? {
                    return Ok(());
                }
                let Some(answer) = self.ask(&["checksum", word, &out], &[0, 1])? else { return Ok(()) };
                // Without checksums, headers are compared with each other; recomputed checksums had prevented that.
                let exposed = word == "remove" && case.name.contains("Sealed");
                if answer.rc == 0 && verdict.is_ok() && !exposed {
                    self.must_hold(&out, |_| true, "checksums broke what was fine")?;
                }
                let limit = matches!(verdict, Verdict::Fail(message) if message.contains("limit"));
                if answer.rc == 0 && word == "add" && !verdict.is_ok() && !limit {
                    let after = self.ask(&["verify", &out], &[0, 1])?;
                    if after.is_some_and(|after| after.rc == 0) {
                        self.odd("checksums bless what verify refuses".into());
                    }
                }
            }
            Extra::Checksum => {}
            Extra::Set => {
                if self.copy_to(&out)? {
                    self.ask(&["vlmeta", "set", &out, "new", "[1,2,3]"], &[0, 1])?;
                    self.ask(&["chunk", "delete", &out, "0"], &[0, 1])?;
                }
            }
            Extra::Keys => {
                let Some(answer) = self.ask(&["ls", &name], &[0, 1])? else { return Ok(()) };
                let keys = String::from_utf8_lossy(&answer.out).into_owned();
                for key in keys.lines().take(3) {
                    self.ask(&["info", &name, "--json", "--key", key], &[0, 1])?;
                    self.ask(&["cat", &name, "--slice=0:3", "--key", key], &[0, 1])?;
                }
                self.ask(&["info", &name, "--tree"], &[0, 1])?;
            }
            Extra::Items => {
                self.ask(&["items", &name], &[0, 1])?;
                self.ask(&["info", &name, "--meta", "--chunks"], &[0, 1])?;
            }
        }
        Ok(())
    }

    /// Appends to a copy of the case.
    fn append(&mut self, verdict: &Verdict, info: &Value) -> Result<()> {
        let out = format!("{}.out", self.name);
        let typesize = info["typesize"].as_u64().unwrap_or(1);
        let shape = info["shape"].as_array();
        let row = shape.into_iter().flatten().skip(1).filter_map(Value::as_u64);
        let nbytes = row.fold(typesize.saturating_mul(3), u64::saturating_mul);
        if nbytes > 1 << 20 || !self.copy_to(&out)? {
            return Ok(());
        }
        let more = format!("{}.more", self.name);
        fs::write(self.folder.join(&more), vec![7; nbytes as usize])?;
        let Some(answer) = self.ask(&["append", &out, &more], &[0, 1])? else { return Ok(()) };
        if let (Verdict::Ok { nbytes: before, .. }, 0) = (verdict, answer.rc) {
            let after = before + nbytes;
            self.must_hold(&out, |now| now == after, "appending broke what was fine")?;
        }
        Ok(())
    }

    /// Copies the case if it consists of files.
    fn copy_to(&mut self, out: &str) -> Result<bool> {
        let (from, to) = (self.folder.join(&self.name), self.folder.join(out));
        remove(&to)?;
        let there = fs::symlink_metadata(&from)?;
        if there.is_file() && there.len() < 64 << 20 {
            fs::copy(&from, &to)?;
            return Ok(true);
        }
        if !there.is_dir() {
            return Ok(false);
        }
        fs::create_dir(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let there = entry.metadata()?;
            if !there.is_file() || there.len() > 64 << 20 {
                return Ok(false);
            }
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(true)
    }

    /// Records a contradiction if the result is not as required.
    fn must_hold(&mut self, out: &str, nbytes: impl Fn(u64) -> bool, odd: &str) -> Result<()> {
        let Some(answer) = self.ask(&["verify", out], &[0, 1])? else { return Ok(()) };
        match Verdict::of(&answer) {
            Verdict::Ok { nbytes: now, .. } if nbytes(now) => {}
            other => self.odd(format!("{odd}: {other:?}")),
        }
        Ok(())
    }

    /// Records a contradiction if a complete salvage is invalid or lost data. If the original is invalid, three faults
    /// may remain: chunks that match their checksum are saved even if they need a missing plug-in, more bytes may be
    /// special values than `verify` expands, and the frame of a store is saved as it is, whatever its members are.
    fn salvaged(&mut self, out: &str, before: &Verdict, guessed: bool) -> Result<()> {
        let Some(answer) = self.ask(&["verify", out], &[0, 1])? else { return Ok(()) };
        match (before, Verdict::of(&answer)) {
            (Verdict::Ok { sha256, .. }, Verdict::Ok { sha256: now, .. }) if *sha256 == now => {}
            (Verdict::Fail(_), Verdict::Ok { .. }) => {}
            // An index with inconsistent entries is not trusted.
            (Verdict::Ok { .. }, Verdict::Ok { .. }) if guessed => {}
            (Verdict::Fail(_), Verdict::Fail(why))
                if why.contains("is not registered") || why.contains("max_output") => {}
            (Verdict::Fail(before), Verdict::Fail(why))
                if *before == why && ["key ", "estore_metadata"].iter().any(|at| why.starts_with(at)) => {}
            (_, now) => self.odd(format!("what salvage wrote is not fine: {now:?}, it was {before:?}")),
        }
        Ok(())
    }

    fn odd(&mut self, text: String) {
        self.ran.odd.get_or_insert(text);
    }

    /// Runs a command; returns `None` if it killed the worker.
    fn ask(&mut self, args: &[&str], allowed: &[u8]) -> Result<Option<Answer>> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match self.worker.run(&args)? {
            Ok(answer) => {
                if !allowed.contains(&answer.rc) {
                    self.odd(format!("{} ends with code {}: {}", args.join(" "), answer.rc, answer.err));
                }
                self.ran.answers.push((args, answer.clone()));
                Ok(Some(answer))
            }
            Err(death) => {
                self.ran.death = Some((args, death));
                Ok(None)
            }
        }
    }
}

/// Whether most of the case's own file is a hole.
fn is_long(case: &Case) -> bool {
    matches!(case.content.0.first(), Some((_, Node::Hole(..))))
}

/// Removes a file or folder if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

/// Chooses a small slice that fits the output of `info`.
fn slice(info: &Value, id: u64) -> String {
    let one = |n: u64, k: u64| match (id / 7 + k) % 4 {
        // Few items, whatever the number of dimensions.
        _ if k > 5 => "0:1".into(),
        0 => format!("{}:{}", n / 2, (n / 2).saturating_add(3)),
        1 => "0:4".into(),
        2 => "-3:".into(),
        _ => format!("0:{}:{}", n, (n / 3).max(1)),
    };
    match info["shape"].as_array() {
        Some(shape) if !shape.is_empty() => {
            let parts = shape.iter().enumerate();
            let parts = parts.map(|(k, n)| one(n.as_u64().unwrap_or(1), k as u64));
            parts.collect::<Vec<_>>().join(",")
        }
        Some(_) => String::new(),
        None => one(info["nbytes"].as_u64().unwrap_or(10) / info["typesize"].as_u64().unwrap_or(1).max(1), 0),
    }
}

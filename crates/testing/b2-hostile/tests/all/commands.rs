//! The commands that each case goes through, and checks that their results agree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use b2_testkit::Rng;
use serde_json::Value;

use super::content::Node;
use super::groups::Group;
use super::plan::Case;
use super::worker::{CommandOutput, ProcessDeath, Worker};

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
    fn of(answer: &CommandOutput) -> Self {
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
#[derive(Debug, Default)]
pub(crate) struct CommandResults {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) answers: Vec<(Vec<String>, CommandOutput)>,
    pub(crate) death: Option<(Vec<String>, ProcessDeath)>,
    /// The first contradiction.
    pub(crate) odd: Option<String>,
    pub(crate) stderr: String,
    pub(crate) over_kib: u64,
}

/// Frames with more chunks than this are not listed or written, which takes time and memory for each chunk, whether it is
/// stored or not.
const MAX_WRITTEN_CHUNKS: u64 = 1 << 20;
/// Data larger than this are not printed, in bytes.
const MAX_PRINTED_BYTES: u64 = 32 << 20;

/// Keys for all that the screen of `view` does: the crosshair, zoom and planes; other dimensions, an index and values;
/// histogram, chunks and colours; a member of a store, fields, and reading again.
pub(crate) const VIEW_KEYS: [&str; 4] =
    ["i\u{2193}\u{2192}+.\u{1b}-", "xdog-1\n2\u{2192}", "34clp1", "\u{2193}\nnr?\u{1b}i\u{2191}2"];

/// Up to how many chunks it runs, and a command, or some, with what must hold then.
type ExtraCheck = (u64, fn(&mut Session<'_>) -> Result<()>);

const EXTRA_CHECKS: [ExtraCheck; 13] = [
    (u64::MAX, |s| s.cat()),
    (u64::MAX, |s| s.slice()),
    (u64::MAX, |s| s.view()),
    (MAX_WRITTEN_CHUNKS, |s| s.chunk()),
    (MAX_WRITTEN_CHUNKS, |s| s.copy()),
    (MAX_WRITTEN_CHUNKS, |s| s.salvage()),
    (MAX_WRITTEN_CHUNKS, |s| s.append()),
    (MAX_WRITTEN_CHUNKS, |s| s.vlmeta()),
    (u64::MAX, |s| s.diff()),
    (MAX_WRITTEN_CHUNKS, |s| s.checksum()),
    (MAX_WRITTEN_CHUNKS, |s| s.set()),
    (MAX_WRITTEN_CHUNKS, |s| s.keys()),
    (MAX_WRITTEN_CHUNKS, |s| s.items()),
];

/// Returns the additional commands to run: for few cases in general, and for more of those built from scratch.
fn extras(case: &Case) -> Vec<ExtraCheck> {
    let mut rng = Rng::case(case.id, 9);
    match case.group {
        Group::Stores | Group::Garbage | Group::Sparse | Group::Valid | Group::Nesting => {
            EXTRA_CHECKS.to_vec()
        }
        Group::Bombs => (0..4).map(|_| *rng.pick(&EXTRA_CHECKS)).collect(),
        _ if rng.chance(40) => vec![*rng.pick(&EXTRA_CHECKS)],
        _ => Vec::new(),
    }
}

struct Session<'a> {
    worker: &'a mut Worker,
    folder: PathBuf,
    case: &'a Case,
    /// The name of the case, and that of what commands write.
    name: &'a str,
    out: &'a str,
    /// The results of `verify` and `info`.
    verdict: Verdict,
    info: Value,
    ran: CommandResults,
}

/// Runs all commands of a case, which is stored in the folder of the worker.
pub(crate) fn run(worker: &mut Worker, name: &str, case: &Case) -> Result<CommandResults> {
    worker.mark()?;
    let folder = worker.setup.folder.clone();
    let (verdict, out) = (Verdict::Fail(String::new()), &format!("{name}.out"));
    let ran = CommandResults::default();
    let mut session = Session { worker, folder, case, name, out, verdict, info: Value::Null, ran };
    session.all()?;
    let Session { worker, mut ran, .. } = session;
    ran.over_kib = worker.over_kib(MAX_IDLE_KIB);
    ran.stderr = worker.said();
    Ok(ran)
}

/// Runs `verify` on a file; returns `None` if it killed the worker.
pub(crate) fn verify(worker: &mut Worker, name: &str) -> Result<Option<Verdict>> {
    let answer = worker.run(&["verify".to_owned(), name.to_owned()])?;
    Ok(answer.ok().map(|answer| Verdict::of(&answer)))
}

/// A process that uses more memory than this after a case is ended.
const MAX_IDLE_KIB: u64 = 96 << 10;

impl Session<'_> {
    fn all(&mut self) -> Result<()> {
        let Some(answer) = self.ask(&["verify", self.name])? else { return Ok(()) };
        self.verdict = Verdict::of(&answer);
        if let Verdict::Strange(line) = &self.verdict {
            let odd = format!("verify answers {line:?}");
            self.odd(odd);
        }
        self.ran.verdict = Some(self.verdict.clone());
        let extras = extras(self.case);
        if extras.is_empty() {
            return Ok(());
        }
        let Some(info) = self.ask(&["info", self.name, "--json"])? else { return Ok(()) };
        if self.verdict.is_ok() && info.rc != 0 {
            self.odd(format!("verify is content, info is not: {}", info.err));
        }
        self.info = serde_json::from_slice(&info.out).unwrap_or_default();
        let nchunks = self.info["nchunks"].as_u64().unwrap_or(0);
        for (_, extra) in extras.into_iter().filter(|(most, _)| nchunks <= *most) {
            if self.ran.death.is_none() {
                extra(self)?;
            }
        }
        Ok(())
    }

    /// Whether the data are few enough to be printed or written.
    fn is_short(&self) -> bool {
        self.info["nbytes"].as_u64().is_some_and(|nbytes| nbytes <= MAX_PRINTED_BYTES)
    }

    fn cat(&mut self) -> Result<()> {
        if !self.is_short() && !self.info.is_null() {
            return Ok(());
        }
        let Some(answer) = self.ask(&["cat", self.name, "--raw"])? else { return Ok(()) };
        if let Verdict::Ok { sha256, .. } = &self.verdict
            && (answer.rc != 0 || *sha256 != answer.sha256)
        {
            self.odd(format!("verify is content, cat is not: {}", answer.err));
        }
        Ok(())
    }

    fn slice(&mut self) -> Result<()> {
        let slice = format!("--slice={}", slice(&self.info, self.case.id));
        self.ask(&["cat", self.name, "--raw", &slice]).map(drop)
    }

    /// Draws a picture, which reads few blocks of large data, and presses keys on the screen that a terminal would have.
    fn view(&mut self) -> Result<()> {
        let format = if self.case.id.is_multiple_of(2) { "png" } else { "svg" };
        self.ask(&["view", self.name, "--format", format, "-q"])?;
        let keys = VIEW_KEYS[self.case.id as usize / 2 % VIEW_KEYS.len()];
        self.ask(&["view", self.name, "--keys", keys, "-q"]).map(drop)
    }

    fn chunk(&mut self) -> Result<()> {
        if self.info["chunksize"].as_u64().is_none_or(|n| n <= MAX_PRINTED_BYTES) {
            self.ask(&["cat", self.name, "--chunk", &(self.case.id % 3).to_string()])?;
        }
        Ok(())
    }

    fn copy(&mut self) -> Result<()> {
        if self.is_short() {
            let copied = self.ask(&["copy", self.name, self.out, "--force"])?;
            if let (Verdict::Ok { nbytes, .. }, Some(0)) = (&self.verdict, copied.map(|answer| answer.rc)) {
                let nbytes = *nbytes;
                self.must_hold(|now| now == nbytes, "a copy of what is fine is not")?;
            }
        }
        Ok(())
    }

    fn salvage(&mut self) -> Result<()> {
        // Salvage searches every byte of a file, including holes.
        if matches!(self.case.content.0.first(), Some((_, Node::Hole(..)))) {
            return Ok(());
        }
        let Some(answer) = self.ask(&["salvage", self.name, self.out, "--force"])? else { return Ok(()) };
        if answer.rc == 0 {
            let report = String::from_utf8_lossy(&answer.out).into_owned();
            let guessed = report.lines().any(|line| line.split_whitespace().eq(["index", "lost"]));
            self.salvaged(guessed)?;
        } else if self.case.group == Group::Valid && self.verdict.is_ok() && self.info["kind"] != "chunk" {
            self.odd(format!("salvage does not save what is valid: {}", answer.err));
        }
        Ok(())
    }

    fn vlmeta(&mut self) -> Result<()> {
        let layers = self.info["vlmetalayers"].as_object();
        let known = layers.and_then(|layers| layers.keys().next().cloned());
        self.ask(&["vlmeta", "get", self.name, known.as_deref().unwrap_or("none")]).map(drop)
    }

    fn diff(&mut self) -> Result<()> {
        if self.is_short() {
            self.ask_for(&["diff", self.name, "../more.b2nd"], 2)?;
        }
        Ok(())
    }

    fn checksum(&mut self) -> Result<()> {
        let word = if self.case.id.is_multiple_of(2) { "add" } else { "remove" };
        if !self.is_short() || !self.copy_to_out()? {
            return Ok(());
        }
        let Some(answer) = self.ask(&["checksum", word, self.out])? else { return Ok(()) };
        // Without checksums, headers are compared with each other; recomputed checksums had prevented that.
        let exposed = word == "remove" && self.case.name.contains("Sealed");
        if answer.rc == 0 && self.verdict.is_ok() && !exposed {
            self.must_hold(|_| true, "checksums broke what was fine")?;
        }
        let limit = matches!(&self.verdict, Verdict::Fail(message) if message.contains("limit"));
        if answer.rc == 0 && word == "add" && !self.verdict.is_ok() && !limit {
            let after = self.ask(&["verify", self.out])?;
            if after.is_some_and(|after| after.rc == 0) {
                self.odd("checksums bless what verify refuses".into());
            }
        }
        Ok(())
    }

    fn set(&mut self) -> Result<()> {
        if self.copy_to_out()? {
            self.ask(&["vlmeta", "set", self.out, "new", "[1,2,3]"])?;
            self.ask(&["chunk", "delete", self.out, "0"])?;
        }
        Ok(())
    }

    fn keys(&mut self) -> Result<()> {
        let Some(answer) = self.ask(&["ls", self.name])? else { return Ok(()) };
        for key in String::from_utf8_lossy(&answer.out).lines().take(3) {
            self.ask(&["info", self.name, "--json", "--key", key])?;
            self.ask(&["cat", self.name, "--slice=0:3", "--key", key])?;
        }
        self.ask(&["info", self.name, "--tree"]).map(drop)
    }

    fn items(&mut self) -> Result<()> {
        self.ask(&["items", self.name])?;
        self.ask(&["info", self.name, "--meta", "--chunks"]).map(drop)
    }

    /// Appends to a copy of the case.
    fn append(&mut self) -> Result<()> {
        let typesize = self.info["typesize"].as_u64().unwrap_or(1);
        let shape = self.info["shape"].as_array();
        let row = shape.into_iter().flatten().skip(1).filter_map(Value::as_u64);
        let nbytes = row.fold(typesize.saturating_mul(3), u64::saturating_mul);
        if nbytes > 1 << 20 || !self.copy_to_out()? {
            return Ok(());
        }
        let more = format!("{}.more", self.name);
        fs::write(self.folder.join(&more), vec![7; nbytes as usize])?;
        let Some(answer) = self.ask(&["append", self.out, &more])? else { return Ok(()) };
        if let (Verdict::Ok { nbytes: before, .. }, 0) = (&self.verdict, answer.rc) {
            let after = before + nbytes;
            self.must_hold(|now| now == after, "appending broke what was fine")?;
        }
        Ok(())
    }

    /// Copies the case if it consists of files.
    fn copy_to_out(&mut self) -> Result<bool> {
        let (from, to) = (self.folder.join(self.name), self.folder.join(self.out));
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
    fn must_hold(&mut self, nbytes: impl Fn(u64) -> bool, odd: &str) -> Result<()> {
        let Some(answer) = self.ask(&["verify", self.out])? else { return Ok(()) };
        match Verdict::of(&answer) {
            Verdict::Ok { nbytes: now, .. } if nbytes(now) => {}
            other => self.odd(format!("{odd}: {other:?}")),
        }
        Ok(())
    }

    /// Records a contradiction if a complete salvage is invalid or lost data. If the original is invalid, three faults
    /// may remain: chunks that match their checksum are saved even if they need a missing plug-in, more bytes may be
    /// special values than `verify` expands, and the frame of a store is saved as it is, whatever its members are.
    fn salvaged(&mut self, guessed: bool) -> Result<()> {
        let Some(answer) = self.ask(&["verify", self.out])? else { return Ok(()) };
        let odd = match (&self.verdict, Verdict::of(&answer)) {
            (Verdict::Ok { sha256, .. }, Verdict::Ok { sha256: now, .. }) if *sha256 == now => return Ok(()),
            (Verdict::Fail(_), Verdict::Ok { .. }) => return Ok(()),
            // An index with inconsistent entries is not trusted.
            (Verdict::Ok { .. }, Verdict::Ok { .. }) if guessed => return Ok(()),
            (Verdict::Fail(_), Verdict::Fail(why))
                if why.contains("is not registered") || why.contains("max_output") =>
            {
                return Ok(());
            }
            (Verdict::Fail(before), Verdict::Fail(why))
                if *before == why && ["key ", "estore_metadata"].iter().any(|at| why.starts_with(at)) =>
            {
                return Ok(());
            }
            (before, now) => format!("what salvage wrote is not fine: {now:?}, it was {before:?}"),
        };
        self.odd(odd);
        Ok(())
    }

    fn odd(&mut self, text: String) {
        self.ran.odd.get_or_insert(text);
    }

    /// Runs a command; returns `None` if it killed the worker.
    fn ask(&mut self, args: &[&str]) -> Result<Option<CommandOutput>> {
        self.ask_for(args, 1)
    }

    /// The same for a command whose exit codes go up to `most`.
    fn ask_for(&mut self, args: &[&str], most: u8) -> Result<Option<CommandOutput>> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        match self.worker.run(&args)? {
            Ok(answer) => {
                if answer.rc > most {
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

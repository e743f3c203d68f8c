//! A store in memory that counts requests, answers late and in any order, and can misbehave.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use b2_async::{OpenResponse, RangeReader, RangeResponse, Version};
use b2_frame::FrameFile;
use b2_testkit::Rng;
use bytes::Bytes;

/// Counts of the requests to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How often nothing could proceed without a response.
    pub(crate) rounds: usize,
    pub(crate) requests: usize,
    pub(crate) bytes: u64,
    /// Maximum requests and bytes in flight.
    pub(crate) most: usize,
    pub(crate) most_bytes: u64,
}

/// How responses to range requests are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misbehavior {
    Nothing,
    Short,
    Long,
    Error,
    /// Another version, visible in the ETag.
    Etag,
    /// Another version, visible in the modification time.
    Modified,
    /// Another version, visible only in the length.
    Length,
    /// The bytes are those of the next range.
    Moved,
}

struct State {
    counts: Counts,
    next: u64,
    /// Pending requests and their sizes.
    waiting: BTreeMap<u64, u64>,
    released: HashSet<u64>,
    flying: HashMap<u64, u64>,
    wrong: Misbehavior,
    /// Number of correct responses before the wrong ones begin.
    good: usize,
}

#[derive(Clone)]
pub(crate) struct Store {
    files: Arc<HashMap<FrameFile, Bytes>>,
    state: Arc<Mutex<State>>,
    pub(crate) most: usize,
    pub(crate) version: Version,
}

impl Store {
    pub(crate) fn new(frame: impl Into<Bytes>) -> Self {
        Self::of(HashMap::from([(FrameFile::Main, frame.into())]))
    }

    /// A file, or the directory of a sparse frame.
    pub(crate) fn read(path: &Path) -> Self {
        if path.is_file() {
            return Self::new(std::fs::read(path).unwrap());
        }
        let mut files = HashMap::new();
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let file = match name.strip_suffix(".chunk") {
                Some(id) => FrameFile::Chunk(u32::from_str_radix(id, 16).unwrap()),
                None if name == "chunks.b2frame" => FrameFile::Main,
                None => continue,
            };
            files.insert(file, std::fs::read(entry.path()).unwrap().into());
        }
        Self::of(files)
    }

    fn of(files: HashMap<FrameFile, Bytes>) -> Self {
        let state = State {
            counts: Counts::default(),
            next: 0,
            waiting: BTreeMap::new(),
            released: HashSet::new(),
            flying: HashMap::new(),
            wrong: Misbehavior::Nothing,
            good: 0,
        };
        let version = Version::default().etag(Some("\"1\"".to_owned()));
        Self { files: Arc::new(files), state: Arc::new(Mutex::new(state)), most: 16, version }
    }

    /// The main file.
    pub(crate) fn bytes(&self) -> Bytes {
        self.files[&FrameFile::Main].clone()
    }

    /// Misbehaves after `good` correct responses.
    pub(crate) fn spoil(&self, wrong: Misbehavior, good: usize) {
        let mut state = self.state.lock().unwrap();
        (state.wrong, state.good) = (wrong, good);
    }

    /// Returns the counts since the last call.
    pub(crate) fn counts(&self) -> Counts {
        std::mem::take(&mut self.state.lock().unwrap().counts)
    }

    pub(crate) fn flying(&self) -> usize {
        self.state.lock().unwrap().flying.len()
    }

    /// Completes all pending requests.
    fn answer_all(&self) {
        let mut state = self.state.lock().unwrap();
        assert!(!state.waiting.is_empty(), "the future is pending without a request");
        state.counts.rounds += 1;
        let waiting = std::mem::take(&mut state.waiting);
        state.released.extend(waiting.into_keys());
    }

    /// Completes a random pending request.
    fn answer_any(&self, dice: &mut Rng) {
        let mut state = self.state.lock().unwrap();
        assert!(!state.waiting.is_empty(), "the future is pending without a request");
        let at = dice.below(state.waiting.len());
        let id = *state.waiting.keys().nth(at).unwrap();
        state.waiting.remove(&id);
        state.released.insert(id);
    }

    /// Runs a future; answers all requests whenever it is pending.
    pub(crate) fn in_rounds<T>(&self, future: impl Future<Output = T>) -> T {
        run(future, || self.answer_all())
    }

    /// Runs a future; answers one request whenever it is pending.
    pub(crate) fn in_any_order<T>(&self, dice: &mut Rng, future: impl Future<Output = T>) -> T {
        run(future, || self.answer_any(dice))
    }

    async fn wait(&self, bytes: u64) {
        let mut guard = RequestInFlight { state: &self.state, id: None };
        poll_fn(|_| {
            let mut state = self.state.lock().unwrap();
            let id = *guard.id.get_or_insert_with(|| {
                let id = state.next;
                state.next += 1;
                state.waiting.insert(id, bytes);
                state.flying.insert(id, bytes);
                state.counts.requests += 1;
                state.counts.most = state.counts.most.max(state.flying.len());
                let all = state.flying.values().sum();
                state.counts.most_bytes = state.counts.most_bytes.max(all);
                id
            });
            if state.released.remove(&id) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn part(&self, file: FrameFile, range: Range<u64>) -> io::Result<Bytes> {
        let bytes = self.files.get(&file).ok_or(io::ErrorKind::NotFound)?;
        let at = |at: u64| (at as usize).min(bytes.len());
        let part = bytes.slice(at(range.start)..at(range.end));
        self.state.lock().unwrap().counts.bytes += part.len() as u64;
        Ok(part)
    }
}

/// Counts a request as in flight until its future ends or is dropped.
struct RequestInFlight<'a> {
    state: &'a Mutex<State>,
    id: Option<u64>,
}

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.state.lock().unwrap().flying.remove(&id);
        }
    }
}

impl RangeReader for Store {
    fn name(&self) -> String {
        "store".to_owned()
    }

    fn in_flight(&self) -> usize {
        self.most
    }

    async fn open(&self, file: FrameFile, first: u64, last: u64) -> io::Result<OpenResponse> {
        // Two concurrent requests, as a web server needs.
        let (mut one, mut two) = (pin!(self.wait(first)), pin!(self.wait(last)));
        let (mut first_done, mut last_done) = (false, false);
        poll_fn(|context| {
            first_done = first_done || one.as_mut().poll(context).is_ready();
            last_done = last_done || two.as_mut().poll(context).is_ready();
            if first_done && last_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let len = self.files.get(&file).ok_or(io::ErrorKind::NotFound)?.len() as u64;
        let (first, last) = (self.part(file, 0..first)?, self.part(file, len.saturating_sub(last)..len)?);
        Ok(OpenResponse::new(first, last, len, self.version.clone()))
    }

    async fn range(&self, file: FrameFile, range: Range<u64>) -> io::Result<RangeResponse> {
        self.wait(range.end - range.start).await;
        let wrong = {
            let mut state = self.state.lock().unwrap();
            let wrong = if state.good == 0 { state.wrong } else { Misbehavior::Nothing };
            state.good = state.good.saturating_sub(1);
            wrong
        };
        let mut bytes = self.part(file, range.clone())?;
        let len = self.files[&file].len() as u64;
        let mut version = self.version.clone().len(Some(len));
        match wrong {
            Misbehavior::Nothing => {}
            Misbehavior::Short => bytes.truncate(bytes.len() - 1),
            Misbehavior::Long => bytes = [&bytes[..], &[0]].concat().into(),
            Misbehavior::Error => return Err(io::ErrorKind::ConnectionReset.into()),
            Misbehavior::Etag => version.etag = Some("\"2\"".to_owned()),
            Misbehavior::Modified => version = version.last_modified(Some("later".to_owned())),
            Misbehavior::Length => version.len = Some(len + 1),
            Misbehavior::Moved => bytes = [&bytes[1..], &[0]].concat().into(),
        }
        Ok(RangeResponse::new(bytes, version))
    }
}

/// Polls a future until it is done; calls `answer` whenever it is pending.
fn run<T>(future: impl Future<Output = T>, mut answer: impl FnMut()) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        answer();
    }
}

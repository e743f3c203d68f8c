//! Reads for the screen on a separate thread, so that no key waits for a file.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use b2_view::edges::Coordinates;
use b2kit::chunk::SpecialKind;
use b2kit::frame::Entry;
use b2kit::{Dtype, ErrorKind};

use super::request::{Cell, Chunks, FileFacts, Item, ViewData, ViewRequest, ViewResponse, ViewSource};
use crate::args::Source;
use crate::cmd::info;
use crate::files::urls;
use crate::formats::npy;
use crate::print::{count, dims, items, joined, printable, short_size};
use crate::process::{one_line, threads};
use crate::read::dims::points;
use crate::read::sample::{self, Cost, line, plane};
use crate::read::{Axis, Data, Input, Store, resolve};
use crate::write::codec_text;

/// Bytes of blocks to decode for a picture: few for an immediate first picture, then more for better ones.
const LOCAL: [u64; 4] = [2 << 20, 24 << 20, 256 << 20, 2 << 30];
const REMOTE: [u64; 3] = [1 << 20, 8 << 20, 64 << 20];

/// Maximum number of chunks whose headers are all read.
const MANY: u64 = 1_000_000;

/// Largest grid of values, in bytes of its items.
const LARGE: u64 = 16 << 20;

/// The thread that reads.
#[derive(Debug)]
pub(super) struct Worker {
    asks: Sender<(u64, ViewRequest)>,
    pub(super) responses: Receiver<ViewResponse>,
    newest: Arc<AtomicU64>,
}

impl Worker {
    pub(super) fn start(opening: ViewSource) -> Result<Self> {
        let (asks, looks) = channel::<(u64, ViewRequest)>();
        let (answers, responses) = channel();
        let newest = Arc::new(AtomicU64::new(0));
        let threads = opening.global.threads;
        let mut reader =
            Reader { opening, newest: newest.clone(), answers, store: None, open: None, seen: None };
        let work = move || {
            // The pool includes the thread that starts it, which must be the one that reads.
            if let Some(threads) = threads
                && let Err(error) = threads::begin(usize::from(threads))
            {
                let _ = reader.answers.send(ViewResponse::Failed(one_line(&error)));
                return;
            }
            while let Ok(mut look) = looks.recv() {
                // Only the newest one counts.
                while let Ok(newer) = looks.try_recv() {
                    look = newer;
                }
                let (number, look) = look;
                let response = match reader.answer(number, &look) {
                    // Another one follows.
                    _ if reader.newest.load(Ordering::Relaxed) != number => continue,
                    Ok(()) => ViewResponse::Done,
                    Err(error) => ViewResponse::Failed(one_line(&error)),
                };
                if reader.answers.send(response).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("b2kit-view".into()).spawn(work).context("a thread for reading")?;
        Ok(Self { asks, responses, newest })
    }

    /// Requests a look, and cancels the previous one.
    pub(super) fn ask(&self, look: ViewRequest) {
        let number = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        // The thread ends only with this value.
        let _ = self.asks.send((number, look));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.newest.fetch_add(1, Ordering::Relaxed);
    }
}

struct Reader {
    opening: ViewSource,
    newest: Arc<AtomicU64>,
    answers: Sender<ViewResponse>,
    /// The store, if the file is one; `None` before it was opened.
    store: Option<Option<Store>>,
    open: Option<OpenInput>,
    /// The last request for the open file.
    seen: Option<ViewedItem>,
}

/// Progress of a request, so that moving the crosshair does not restart it.
struct ViewedItem {
    what: ViewData,
    /// Number of completed steps of [`LOCAL`] or [`REMOTE`]; all of them if there are no steps.
    steps: usize,
    /// The last of these steps read one of this many blocks.
    every: u64,
}

struct OpenInput {
    key: Option<String>,
    refresh: u64,
    data: Data,
    source: Source,
    /// The coordinates, once they were looked up.
    points: HashMap<usize, Option<Coordinates>>,
}

impl Reader {
    fn answer(&mut self, number: u64, look: &ViewRequest) -> Result<()> {
        let ViewSource { source, global, .. } = &self.opening;
        if self.store.is_none() {
            let store = match source.key {
                Some(_) => None,
                None => Store::open(&source.file, source.offset, *global)?,
            };
            if let Some(store) = &store {
                let _ = self.answers.send(ViewResponse::Members(store.keys().map(str::to_owned).collect()));
            }
            self.store = Some(store);
        }
        let known = self.open.as_mut().filter(|open| open.key == look.key);
        match known {
            Some(open) if open.refresh == look.refresh => {}
            Some(open) => {
                open.refresh = look.refresh;
                open.points.clear();
                self.seen = None;
                let changed = match &mut open.data {
                    Data::Blosc(Input::Array(array)) => array.refresh()?,
                    Data::Blosc(Input::SuperChunk(frame)) => frame.refresh()?,
                    _ => false,
                };
                if changed {
                    // The requested items may no longer exist.
                    return self.tell_facts();
                }
            }
            None => {
                (self.open, self.seen) = (None, None);
                let mut source = source.clone();
                let data = match (&self.store, &look.key) {
                    (Some(Some(store)), Some(key)) => {
                        source.key = Some(key.clone());
                        Data::Blosc(store.member(key)?)
                    }
                    // The next request names one of its members.
                    (Some(Some(_)), None) => return Ok(()),
                    _ => Data::open(&source, *global)?,
                };
                let (key, points) = (look.key.clone(), HashMap::new());
                self.open = Some(OpenInput { key, refresh: look.refresh, data, source, points });
                self.tell_facts()?;
            }
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Some(axes) = &look.item {
            let value = item(&open.data, self.opening.dtype.as_deref(), axes);
            let value = value.unwrap_or_else(|error| format!("cannot be read: {}", one_line(&error)));
            let labels = open.data.labels();
            let points = axes.iter().enumerate().map(|(dim, axis)| {
                let find = || points(&open.source, &open.data, &labels, dim, *global);
                let points = open.points.entry(dim).or_insert_with(find);
                Some(printable(&points.as_ref()?.label(axis.start)))
            });
            let points = points.collect();
            let _ = self.answers.send(ViewResponse::Item(Item { axes: axes.clone(), value, points }));
        }
        let mut seen = self.seen.take().filter(|seen| seen.what == look.what).unwrap_or_else(|| ViewedItem {
            what: look.what.clone(),
            steps: 0,
            every: u64::MAX,
        });
        let result = match &self.open {
            Some(open) => self.read(open, number, &mut seen),
            None => Ok(()),
        };
        self.seen = Some(seen).filter(|_| result.is_ok() || self.newest.load(Ordering::Relaxed) != number);
        result
    }

    fn tell_facts(&self) -> Result<()> {
        let Some(OpenInput { key, data, .. }) = &self.open else { return Ok(()) };
        let dtype = data.dtype_or(self.opening.dtype.as_deref())?;
        let labels = data.labels();
        let drawn = |field: &Option<String>| sample::numbers(&dtype, field.as_deref(), Vec::new()).is_ok();
        let named = dtype.fields().into_iter().flatten().map(|field| Some(field.name.clone()));
        let fields: Vec<_> = [None].into_iter().chain(named).filter(drawn).collect();
        let first =
            fields.first().and_then(|field| sample::numbers(&dtype, field.as_deref(), Vec::new()).ok());
        let facts = FileFacts {
            axes: resolve(&self.opening.parts, &data.shape())?,
            names: labels.names.iter().map(|name| printable(name)).collect(),
            is_float: first.is_some_and(|numbers| numbers.is_float()),
            fields,
            unit: printable(&labels.unit),
            about: about(data, dtype.as_str())?,
        };
        let _ = self.answers.send(ViewResponse::Opened(key.clone(), Box::new(facts)));
        Ok(())
    }

    /// Performs the remaining steps of a request, coarse ones first.
    fn read(&self, open: &OpenInput, number: u64, seen: &mut ViewedItem) -> Result<()> {
        let OpenInput { data, source, .. } = open;
        let budgets: &[u64] = if urls::is_url(&source.file) { &REMOTE } else { &LOCAL };
        // Tests of damaged files do not wait for better pictures.
        let budgets = if cfg!(feature = "headless") { &budgets[..2] } else { budgets };
        let Some(budgets) = budgets.get(seen.steps..).filter(|budgets| !budgets.is_empty()) else {
            return Ok(());
        };
        let numbers = |field: &Option<String>| {
            let dtype = data.dtype_or(self.opening.dtype.as_deref())?;
            sample::numbers(&dtype, field.as_deref(), data.labels().fills)
        };
        let cost = |decoded: u64| Cost { decoded, looks: Some((number, self.newest.clone())) };
        match &seen.what {
            ViewData::Facts => {}
            ViewData::Plane { field, axes, dims, windows, most } => {
                let numbers = numbers(field)?;
                for decoded in budgets {
                    let cost = cost(*decoded);
                    cost.check()?;
                    let plane = plane(data, &numbers, axes, *dims, windows, *most, &cost)?;
                    let every = plane.every;
                    seen.steps += 1;
                    if every < seen.every {
                        seen.every = every;
                        let (dims, windows, axes) = (*dims, windows.clone(), axes.clone());
                        let _ = self.answers.send(ViewResponse::Plane { dims, windows, axes, plane });
                    }
                    if every == 1 {
                        break;
                    }
                }
            }
            ViewData::Line { field, axes, dim, window, most } => {
                let numbers = numbers(field)?;
                for decoded in budgets {
                    let cost = cost(*decoded);
                    let line = line(data, &numbers, axes, *dim, window, *most, &cost)?;
                    let every = line.every;
                    seen.steps += 1;
                    let _ = self.answers.send(ViewResponse::Line { window: window.clone(), line });
                    if every == 1 {
                        break;
                    }
                }
            }
            ViewData::PixelGrid { axes } => {
                let dtype = data.dtype_or(self.opening.dtype.as_deref())?;
                let mut buffer = Vec::new();
                let nbytes = axes.iter().fold(dtype.itemsize() as u64, |n, axis| n.saturating_mul(axis.len));
                ensure!(nbytes <= LARGE, "items of {} bytes are too large for a grid", dtype.itemsize());
                data.view(&[])?.read(axes, &mut buffer)?;
                let texts = buffer.chunks_exact(dtype.itemsize().max(1)).map(|item| text(&dtype, item));
                let _ =
                    self.answers.send(ViewResponse::PixelGrid { axes: axes.clone(), texts: texts.collect() });
            }
            ViewData::Chunks { most } => {
                let cost = cost(budgets.iter().fold(0, |most, budget| most.max(*budget)));
                let mut chunks = self.chunks(data, *most, &cost)?;
                let _ = self.answers.send(ViewResponse::Chunks(chunks.clone()));
                self.find_damage(data, &mut chunks, &cost)?;
                let _ = self.answers.send(ViewResponse::Chunks(chunks));
            }
        }
        seen.steps = usize::MAX;
        Ok(())
    }

    /// Reads the headers of chunks, or of every n-th chunk if there are many.
    fn chunks(&self, data: &Data, most: usize, cost: &Cost) -> Result<Chunks> {
        let input = match data {
            Data::Blosc(input) => input,
            Data::ExternalArray(array) => {
                return Err(anyhow!("the chunks of {} are not shown", array.what()));
            }
        };
        let Some(frame) = input.frame() else {
            return Err(anyhow!("a bare chunk has no other chunks"));
        };
        let count = frame.nchunks() as u64;
        let each = count.div_ceil((most as u64).max(1)).max(1);
        let special = |kind: SpecialKind| match kind {
            SpecialKind::Zeros => Cell::Zero,
            SpecialKind::NaN => Cell::Nan,
            SpecialKind::Value => Cell::Value,
            _ => Cell::Uninit,
        };
        let mut cells = Vec::new();
        for n in (0..count).step_by(usize::try_from(each)?) {
            cost.check()?;
            let chunk = frame.chunk(usize::try_from(n)?);
            let cell = match chunk.entry() {
                Ok(Entry::Special(kind)) => special(kind),
                Ok(_) => match chunk.header() {
                    Ok(Some(header)) => match header.special() {
                        Some(kind) => special(kind),
                        None => {
                            Cell::Stored { ratio: header.nbytes() as f64 / header.cbytes().max(1) as f64 }
                        }
                    },
                    _ => Cell::Damaged,
                },
                Err(_) => Cell::Damaged,
            };
            cells.push(cell);
        }
        // Finding dead space needs the header of each chunk.
        let is_remote = urls::is_url(&self.opening.source.file);
        let dead = match is_remote || count > MANY {
            true => None,
            false => frame.dead_bytes().ok(),
        };
        let undecoded = cells.iter().filter(|cell| matches!(cell, Cell::Stored { .. })).count() as u64;
        Ok(Chunks { count, each, cells, undecoded, dead })
    }

    /// Decodes the chunks of the map, as many as `cost` allows, and marks those that are damaged.
    fn find_damage(&self, data: &Data, chunks: &mut Chunks, cost: &Cost) -> Result<()> {
        let Data::Blosc(input) = data else { return Ok(()) };
        let Some(frame) = input.frame() else { return Ok(()) };
        let mut left = cost.decoded;
        for k in 0..chunks.cells.len() {
            if !matches!(chunks.cells[k], Cell::Stored { .. }) {
                continue;
            }
            cost.check()?;
            let chunk = frame.chunk(usize::try_from(k as u64 * chunks.each)?);
            let Some(rest) = left.checked_sub(chunk.nbytes().unwrap_or(0)) else { return Ok(()) };
            left = rest;
            chunks.undecoded -= 1;
            if chunk.decompress().is_err_and(|error| error.kind() == ErrorKind::Damaged) {
                chunks.cells[k] = Cell::Damaged;
                let _ = self.answers.send(ViewResponse::Chunks(chunks.clone()));
            }
        }
        Ok(())
    }
}

/// An item at one position in each dimension, as text.
fn item(data: &Data, dtype: Option<&str>, axes: &[Axis]) -> Result<String> {
    let dtype = data.dtype_or(dtype)?;
    ensure!(dtype.itemsize() as u64 <= LARGE, "an item of {} bytes is too large", dtype.itemsize());
    let mut buffer = Vec::new();
    data.view(&[])?.read(axes, &mut buffer)?;
    Ok(text(&dtype, &buffer))
}

/// Maximum number of characters shown for an item.
const LONGEST: usize = 64;

/// The first characters of an item as text, with a mark if there are more.
fn text(dtype: &Dtype, item: &[u8]) -> String {
    // A long text would take much memory, most of which is never shown.
    let part = item.get(..item.len().min(4096)).filter(|_| dtype.fields().is_none()).unwrap_or(item);
    let text = items::item(dtype, part);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => printable(&format!("{}\u{2026}", &text[..end])),
        None => printable(&text),
    }
}

/// Lines about a file: kind, shape, compression, metalayers.
fn about(data: &Data, dtype: &str) -> Result<Vec<String>> {
    let mut lines = vec![format!("{} ({})", printable(dtype), joined(&data.shape(), ", "))];
    let input = match data {
        Data::Blosc(input) => input,
        Data::ExternalArray(array) => {
            lines.push(array.what());
            if let Some(chunks) = array.chunkshape() {
                lines.push(format!("chunks {}", dims(chunks)));
            }
            let nbytes = npy::nbytes(array.shape(), array.dtype().itemsize() as u64).unwrap_or(u64::MAX);
            lines.push(format!("{} in {}", short_size(nbytes), short_size(array.stored())));
            return Ok(lines);
        }
    };
    if let Input::Array(array) = input {
        lines.push(format!("chunks {}", dims(array.chunkshape())));
        lines.push(format!("blocks {}", dims(array.blockshape())));
    }
    lines.push(printable(&codec_text(input)));
    let stored = input.frame().map_or_else(|| input.stored(), |frame| frame.cbytes());
    lines.push(format!("{} in {}", short_size(input.nbytes()), short_size(stored)));
    if let Some(frame) = input.frame() {
        lines.push(count(frame.nchunks() as u64, "chunk"));
    }
    // The texts of metalayers are printable already.
    lines.extend(
        info::metalayer_tables(input)?.lines().map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned()),
    );
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{array, opening};
    use super::*;

    /// All responses to a request.
    fn all(worker: &Worker, what: ViewData) -> Vec<ViewResponse> {
        worker.ask(ViewRequest { key: None, refresh: 0, what, item: None });
        let mut responses = Vec::new();
        loop {
            match worker.responses.recv().unwrap() {
                ViewResponse::Done => return responses,
                answer => responses.push(answer),
            }
        }
    }

    #[test]
    fn chunks_are_what_their_headers_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = array(folder.path());
        let worker = Worker::start(opening(&path)).unwrap();
        let responses = all(&worker, ViewData::Chunks { most: 100 });
        let Some(ViewResponse::Chunks(chunks)) = responses.last() else { panic!("{responses:?}") };
        assert_eq!((chunks.count, chunks.each, chunks.cells.len()), (8, 1, 8));
        assert!(
            chunks.cells.iter().all(|cell| matches!(cell, Cell::Stored { ratio } if *ratio > 1.0)),
            "{chunks:?}"
        );
        let responses = all(&worker, ViewData::Chunks { most: 3 });
        let Some(ViewResponse::Chunks(chunks)) = responses.last() else { panic!("{responses:?}") };
        assert_eq!((chunks.count, chunks.each, chunks.cells.len()), (8, 3, 3));
    }
}

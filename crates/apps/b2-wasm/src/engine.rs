//! The engine: runs commands of the page as tasks, and requests ranges of files from the page.
//!
//! A command is a text: its name, and lines such as `key=value`. A task ends with JSON and bytes, or with an error
//! message. Nothing blocks: a task that waits for bytes continues after the page has responded.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use anyhow::{Context, Result, bail};
use b2_core::Report;
use b2_view::edges::Coordinates;
use serde_json::{Value, json};

use crate::file::OpenFile;
use crate::host::{Host, HostRequest};
use crate::look::{self, LookRequest, Picture};
use crate::npy;

/// The result of a task: its number, and its output or an error message.
pub type TaskResult = (u32, Result<TaskOutput, String>);

/// The output of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutput {
    /// An object.
    pub json: Value,
    /// Pixels or items.
    pub bytes: Vec<u8>,
}

impl TaskOutput {
    fn json(json: Value) -> Self {
        Self { json, bytes: Vec::new() }
    }

    fn bytes(bytes: Vec<u8>) -> Self {
        Self { json: json!({}), bytes }
    }
}

type Task = Pin<Box<dyn Future<Output = Result<TaskOutput>>>>;

/// Open files, and what was last read from each.
#[derive(Debug, Default)]
struct OpenFiles {
    next: u32,
    open: HashMap<u32, Rc<OpenFile>>,
    looks: HashMap<u32, Rc<Picture>>,
    /// The coordinates of dimensions of files.
    points: HashMap<(u32, usize), Coordinates>,
}

/// The engine.
#[derive(Default)]
pub struct Engine {
    host: Host,
    files: Rc<RefCell<OpenFiles>>,
    /// In order, so that earlier tasks finish first.
    tasks: BTreeMap<u32, Task>,
    done: Vec<TaskResult>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("host", &self.host).field("files", &self.files).finish_non_exhaustive()
    }
}

impl Engine {
    /// Returns the page's side of the engine.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the next request for the page.
    #[must_use]
    pub fn ask(&self) -> Option<HostRequest> {
        self.host.next()
    }

    /// Returns a finished task.
    pub fn done(&mut self) -> Option<TaskResult> {
        self.done.pop()
    }

    /// Starts a task. Its number must be unused.
    pub fn call(&mut self, task: u32, command: &str) {
        let command = Command::parse(command);
        let future = run(self.host.clone(), self.files.clone(), command);
        self.tasks.insert(task, Box::pin(future));
    }

    /// Cancels a task; it has no result.
    pub fn cancel(&mut self, task: u32) {
        self.tasks.remove(&task);
    }

    /// Polls all tasks.
    pub fn poll(&mut self) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let done = &mut self.done;
        self.tasks.retain(|number, task| match task.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                done.push((*number, result.map_err(|error| words(&error))));
                false
            }
        });
    }
}

/// Formats an error with its causes.
fn words(error: &anyhow::Error) -> String {
    let text = Report(error.as_ref() as &(dyn std::error::Error + 'static)).to_string();
    // The page has no options.
    text.replace("--slice=", "slice ").replace("--slice", "slice")
}

/// A command of the page.
#[derive(Clone, Debug, Default)]
struct Command {
    name: String,
    values: HashMap<String, String>,
}

impl Command {
    fn parse(text: &str) -> Self {
        let mut lines = text.split('\n');
        let name = lines.next().unwrap_or_default().to_owned();
        let values = lines.filter_map(|line| line.split_once('='));
        Self { name, values: values.map(|(key, value)| (key.to_owned(), value.to_owned())).collect() }
    }

    fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    fn numbers<T: std::str::FromStr>(&self, key: &str) -> Result<Vec<T>> {
        let number = |text: &str| text.parse().ok().with_context(|| format!("{key}: {text} is not a number"));
        self.text(key).split(',').filter(|text| !text.is_empty()).map(number).collect()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        self.numbers(key)?.pop().with_context(|| format!("{key} is missing"))
    }

    /// Pairs of numbers: `0,10,5,20` are two windows.
    fn look_request(&self) -> Result<LookRequest> {
        let windows: Vec<u64> = self.numbers("windows")?;
        let most: Vec<usize> = self.numbers("most")?;
        let [high, wide] = most[..] else { bail!("two numbers of pixels are needed") };
        Ok(LookRequest {
            slice: self.text("slice").to_owned(),
            dims: self.numbers("dims")?,
            windows: windows.chunks_exact(2).filter_map(|pair| Some(*pair.first()?..*pair.last()?)).collect(),
            // No screen has more pixels.
            most: [high.clamp(1, 4096), wide.clamp(1, 4096)],
            decoded: self.number("decoded")?,
            field: self.numbers("field")?.pop(),
        })
    }
}

async fn run(host: Host, files: Rc<RefCell<OpenFiles>>, command: Command) -> Result<TaskOutput> {
    let handle = || command.number::<u32>("handle");
    let opened_as = |key: &str| {
        let open = files.borrow().open.get(&command.number(key)?).cloned();
        open.context("this file is not open")
    };
    let opened = || opened_as("handle");
    let seen = || {
        let look = files.borrow().looks.get(&handle()?).cloned();
        look.context("nothing has been drawn yet")
    };
    let scale = |look: &Picture| {
        let map = look::map(command.text("map"))?;
        look.scale(command.text("range"), map, command.text("log") == "1")
    };
    let keep = |opened: OpenFile| {
        let described = opened.describe();
        let mut files = files.borrow_mut();
        files.next = files.next.wrapping_add(1);
        let handle = files.next;
        files.open.insert(handle, Rc::new(opened));
        TaskOutput::json(json!({"handle": handle, "file": described}))
    };
    Ok(match command.name.as_str() {
        "open" => keep(OpenFile::open(&host, command.number("file")?, command.text("name")).await?),
        "member" => {
            let OpenFile::Store(store) = &*opened()? else { bail!("this file is not a store") };
            let key =
                store.members().keys().nth(command.number("member")?).context("there is no such member")?;
            keep(OpenFile::frame(store.member(key).await?).await?)
        }
        "close" => {
            let mut files = files.borrow_mut();
            files.open.remove(&handle()?);
            files.looks.remove(&handle()?);
            let closed = handle()?;
            files.points.retain(|(of, _), _| *of != closed);
            TaskOutput::bytes(Vec::new())
        }
        "axes" => TaskOutput::json(look::describe(command.text("slice"), &opened()?.items()?.2)?),
        "look" => {
            let opened = opened()?;
            let look = Picture::read(&opened, &command.look_request()?).await?;
            let answer = TaskOutput::json(look.describe());
            files.borrow_mut().looks.insert(handle()?, Rc::new(look));
            answer
        }
        "paint" => {
            let (json, bytes) = seen()?.paint(scale(&*seen()?)?);
            TaskOutput { json, bytes }
        }
        "values" => {
            let (look, scale) = (seen()?, scale(&*seen()?)?);
            TaskOutput::bytes(look.values(scale).flat_map(f64::to_le_bytes).collect())
        }
        "points" => {
            let dim = command.number("dim")?;
            let len = opened()?.items()?.2.get(dim).copied().context("there is no such dimension")?;
            let points = opened_as("of")?.points(len).await?;
            files.borrow_mut().points.insert((handle()?, dim), points);
            TaskOutput::bytes(Vec::new())
        }
        "edges" => {
            let (look, handle, names) = (seen()?, handle()?, opened()?.items()?.1.names);
            let files = files.borrow();
            let points = |dim| files.points.get(&(handle, dim));
            TaskOutput::json(look.edges(&names, &command.numbers("most")?, points))
        }
        "cell" => {
            let (look, handle) = (seen()?, handle()?);
            let files = files.borrow();
            let points = |dim| files.points.get(&(handle, dim));
            TaskOutput::json(look.cell(command.number("row")?, command.number("column")?, points)?)
        }
        "item" => TaskOutput::json(json!({"value": opened()?.item().await?})),
        "chunks" => {
            TaskOutput::bytes(opened()?.chunks()?.iter().flat_map(|size| size.to_le_bytes()).collect())
        }
        "npy" => {
            let part = npy::part(&*opened()?, command.text("slice"), command.number("part")?).await?;
            TaskOutput { json: json!({"more": part.more}), bytes: part.bytes }
        }
        name => bail!("the page asks for {name}, which this engine does not know"),
    })
}

//! How calls run: without the interpreter's lock, with a number of threads, interruptible by signals and callbacks.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use b2kit::Control;
use pyo3::prelude::*;

use crate::errors::{EngineError, exception, raise};
use crate::remote::Remote;

/// Default number of threads, set by `b2kit.set_threads`; 0 means all available.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Interval of checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(25);
/// Interval of progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn set_threads(threads: usize) -> usize {
    THREADS.swap(threads, Relaxed)
}

thread_local! {
    /// Whether a progress callback is running on this thread.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this is called from a progress callback, which a call of this package is waiting for.
pub(crate) fn in_callback() -> bool {
    IN_CALLBACK.get()
}

/// How a call is to run.
#[derive(Default)]
pub(crate) struct How {
    pub(crate) threads: Option<usize>,
    /// Called with the number of bytes done and in total.
    pub(crate) progress: Option<Py<PyAny>>,
    /// Whether the call is so short that it need not be interruptible.
    pub(crate) short: bool,
    /// The source of the items, if many ranges are fetched concurrently.
    pub(crate) remote: Option<Arc<Remote>>,
    /// Whether the items come from a server, and the call may wait for it.
    pub(crate) on_server: bool,
}

impl How {
    pub(crate) fn threads(threads: Option<usize>) -> Self {
        Self { threads, ..Self::default() }
    }

    /// Returns settings for a part of this call, without its progress callback.
    pub(crate) fn part(&self) -> Self {
        Self {
            threads: self.threads,
            remote: self.remote.clone(),
            on_server: self.on_server,
            ..Self::default()
        }
    }

    pub(crate) fn short(threads: Option<usize>) -> Self {
        Self { threads, short: true, ..Self::default() }
    }

    /// Runs `work` without the interpreter's lock.
    pub(crate) fn run<T: Send, E: EngineError + Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(Control) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        let raised = Arc::new(Mutex::new(None));
        let control = self.control(Some(thread::current().id()), &raised, None);
        let result = py.detach(|| work(control));
        converted(py, result, &raised)
    }

    /// Runs `work` on a separate thread, because it may block where a signal does not interrupt it. On a signal this
    /// returns immediately; the thread ends when its wait does, and holds its resources until then.
    pub(crate) fn run_apart<T: Send + 'static, E: EngineError + Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(Control) -> Result<T, E> + Send + 'static,
    ) -> PyResult<T> {
        let (raised, given_up) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let control = self.control(None, &raised, Some(Arc::clone(&given_up)));
        let (sender, mut answer) = sync_channel(1);
        // After a signal the receiver is gone, so sending may fail.
        let run = move || drop(sender.send(work(control)));
        thread::Builder::new().name("b2kit-apart".to_owned()).spawn(run)?;
        loop {
            let waited;
            (answer, waited) = py.detach(move || {
                let waited = answer.recv_timeout(SIGNAL_INTERVAL);
                (answer, waited)
            });
            match waited {
                Ok(result) => return converted(py, result, &raised),
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                    given_up.store(true, Relaxed);
                })?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(exception(py, "Error", "the reading thread failed"));
                }
            }
        }
    }

    /// Runs `work` on a separate thread if it may wait for a server, else on this one.
    pub(crate) fn run_near_or_apart<T: Send + 'static, E: EngineError + Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(Control) -> Result<T, E> + Send + 'static,
    ) -> PyResult<T> {
        if self.on_server { self.run_apart(py, work) } else { self.run(py, work) }
    }

    /// Creates the control of a call. `caller` is the thread that checks for signals.
    fn control(
        self,
        caller: Option<thread::ThreadId>,
        raised: &Arc<Mutex<Option<PyErr>>>,
        given_up: Option<Arc<AtomicBool>>,
    ) -> Control {
        let mut control = Control::new();
        match self.threads.unwrap_or(0).max(if self.threads.is_none() { THREADS.load(Relaxed) } else { 0 }) {
            0 => {}
            threads => control = control.threads(threads),
        }
        if self.short && given_up.is_none() {
            return control;
        }
        let raised = Arc::clone(raised);
        let looked = Instant::now();
        watched(
            control,
            CallMonitor { caller, looked, reported: None, progress: self.progress, raised, given_up },
        )
    }
}

fn converted<T, E: EngineError>(
    py: Python<'_>,
    result: Result<T, E>,
    raised: &Mutex<Option<PyErr>>,
) -> PyResult<T> {
    let stopped = raised.lock().ok().and_then(|mut raised| raised.take());
    match (result, stopped) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(raise(py, &error)),
    }
}

struct CallMonitor {
    caller: Option<thread::ThreadId>,
    looked: Instant,
    reported: Option<Instant>,
    progress: Option<Py<PyAny>>,
    raised: Arc<Mutex<Option<PyErr>>>,
    /// Set when the caller no longer waits for the result.
    given_up: Option<Arc<AtomicBool>>,
}

fn watched(control: Control, mut watch: CallMonitor) -> Control {
    control.progress(move |progress| {
        if watch.given_up.as_ref().is_some_and(|given_up| given_up.load(Relaxed)) {
            return ControlFlow::Break(());
        }
        // Only the calling thread can check for signals.
        let here = watch.caller.is_some_and(|caller| caller == thread::current().id());
        let look = here && watch.looked.elapsed() >= SIGNAL_INTERVAL;
        let report = watch.progress.is_some()
            && (watch.reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
                || progress.nbytes >= progress.total);
        if !look && !report {
            return ControlFlow::Continue(());
        }
        let result = Python::try_attach(|py| {
            if look {
                py.check_signals()?;
            }
            match &watch.progress {
                Some(callback) if report => {
                    let outer = IN_CALLBACK.replace(true);
                    let called = callback.call1(py, (progress.nbytes, progress.total));
                    IN_CALLBACK.set(outer);
                    called.map(drop)
                }
                _ => Ok(()),
            }
        });
        if look {
            watch.looked = Instant::now();
        }
        if report {
            watch.reported = Some(Instant::now());
        }
        match result {
            Some(Err(error)) => {
                if let Ok(mut raised) = watch.raised.lock() {
                    *raised = Some(error);
                }
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    })
}

//! Runs C-Blosc2 in a separate Python process, because the C library may crash or hang.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// Timeout for a response of the peer. A case takes milliseconds, so longer silence is a deadlock.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// The response of the peer.
pub(crate) enum Reply {
    Line(Value),
    /// It closed its output: it has finished or crashed, as the exit status shows.
    Ended(String),
    /// It did not respond in time and was killed.
    Silent,
}

impl Peer {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting the peer")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no pipe from the peer")?;
        // Bounded, so that a peer that only writes does not fill the disk faster than the checks read.
        let (sender, lines) = sync_channel(16);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, stdin, lines })
    }

    /// Sends one line. A broken pipe is left for [`receive`](Self::receive) to report.
    pub(crate) fn send(&mut self, request: &Value) {
        self.send_line(&request.to_string());
    }

    /// Sends a line that is not JSON.
    pub(crate) fn send_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin
            && writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_err()
        {
            self.stdin = None;
        }
    }

    pub(crate) fn receive(&mut self) -> Result<Reply> {
        match self.lines.recv_timeout(REPLY_TIMEOUT) {
            Ok(line) => {
                let value = serde_json::from_str(&line).with_context(|| format!("the peer said {line:?}"))?;
                Ok(Reply::Line(value))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(Reply::Ended(self.child.wait()?.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill()?;
                self.child.wait()?;
                Ok(Reply::Silent)
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stdin = None;
        // Usually it has ended already, and killing it does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A web server on the loopback interface that serves ranges of files in memory. It counts requests, delays them,
//! limits its speed and misbehaves.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How the server responds to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misbehavior {
    /// Responds correctly.
    Good,
    /// Sends the whole file with status 200.
    Whole,
    /// Sends the range after the requested one.
    Other,
    /// Sends fewer bytes than it announces, and closes the connection.
    Short,
    /// Announces and sends more bytes than requested.
    Long,
    /// Never stops sending bytes.
    Endless,
    /// Sends one byte at a time, with pauses.
    Slow,
    /// Sends half of the bytes, and then nothing until the client closes the connection.
    Freeze,
    /// Claims that the bytes are compressed.
    Compressed,
    /// Does not send the range in the response.
    Silent,
    /// Refuses ranges that count from the end of the file.
    NoSuffix,
    /// Does not send the length of the file.
    NoLength,
    /// Responds with this status, and with `Retry-After: 0` if the flag is set.
    Status(u16, bool),
    /// Redirects to this URL.
    Redirect(String),
    /// Sends another ETag and another modification time.
    Changed,
    /// Sends neither an ETag nor a modification time.
    Unguarded,
    /// Sends noise instead of HTTP.
    Noise,
    /// Closes the connection without a response.
    Close,
}

/// Counts of client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Number of requests.
    pub requests: u64,
    /// Number of bytes of files sent.
    pub bytes: u64,
    /// Maximum number of requests handled at the same time.
    pub most: u64,
}

#[derive(Default)]
struct ServerState {
    files: HashMap<String, Arc<[u8]>>,
    manner: Option<Misbehavior>,
    /// Number of requests to serve correctly before misbehaving.
    good: usize,
    /// Number of requests to misbehave for; afterwards the server is correct again.
    bad: usize,
    /// The delays between requests and responses, used in turn.
    delays: Vec<Duration>,
    /// Bytes per second for each connection, and for all together.
    speed: (Option<u64>, Option<u64>),
    /// When everything sent so far will have passed the link.
    link: Option<Instant>,
    counts: RequestCounts,
    now: u64,
    heads: Vec<String>,
    /// Headers of all responses, each with its end of line.
    headers: String,
}

/// The server. It runs until the process ends.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<ServerState>>,
    port: u16,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server without files.
    ///
    /// # Errors
    /// When the loopback interface has no free port.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let server = Self { state: Arc::default(), port };
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = accepting.clone();
                // Errors are ignored, since clients may disconnect at any time.
                thread::spawn(move || server.serve(&stream));
            }
        });
        Ok(server)
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds or replaces a file, and returns its URL.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) -> String {
        self.lock().files.insert(format!("/{path}"), bytes.into().into());
        self.url(path)
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Sets the time between a request and its response.
    pub fn delay(&self, delay: Duration) {
        self.delays(&[delay]);
    }

    /// Sets the delays between requests and responses, used in turn. With different delays, responses arrive out of
    /// order.
    pub fn delays(&self, delays: &[Duration]) {
        self.lock().delays = delays.to_vec();
    }

    /// Sets the bytes per second for each connection, and for all together.
    pub fn speed(&self, connection: Option<u64>, link: Option<u64>) {
        self.lock().speed = (connection, link);
    }

    /// Serves the next `good` requests correctly, then misbehaves for `bad` requests.
    pub fn spoil(&self, manner: Misbehavior, good: usize, bad: usize) {
        let mut state = self.lock();
        (state.manner, state.good, state.bad) = (Some(manner), good, bad);
    }

    /// Sets headers of all responses with a file, such as `access-control-allow-origin: *`, each with `\r\n` at its end.
    pub fn headers(&self, headers: &str) {
        self.lock().headers = headers.to_owned();
    }

    /// Returns the counts since the last call.
    pub fn counts(&self) -> RequestCounts {
        std::mem::take(&mut self.lock().counts)
    }

    /// Returns the heads of the requests since the last call.
    pub fn heads(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().heads)
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = String::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            self.lock().now += 1;
            let answered = self.answer(&head, stream);
            self.lock().now -= 1;
            if !answered? {
                return Ok(());
            }
        }
    }

    /// Responds to a request. Returns whether the connection stays open.
    fn answer(&self, head: &str, mut stream: &TcpStream) -> io::Result<bool> {
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let (file, manner, delay, speed, headers) = {
            let mut state = self.lock();
            state.counts.requests += 1;
            state.counts.most = state.counts.most.max(state.now);
            state.heads.push(head.to_owned());
            let manner = if state.good > 0 {
                state.good -= 1;
                Misbehavior::Good
            } else if state.bad > 0 {
                state.bad -= 1;
                state.manner.clone().unwrap_or(Misbehavior::Good)
            } else {
                Misbehavior::Good
            };
            let delay = match state.delays.len() {
                0 => Duration::ZERO,
                len => state.delays[state.counts.requests as usize % len],
            };
            (state.files.get(path).cloned(), manner, delay, state.speed.0, state.headers.clone())
        };
        thread::sleep(delay);
        let mut plain = |status: &str, more: &str| -> io::Result<bool> {
            write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n{headers}{more}\r\n")?;
            Ok(true)
        };
        match &manner {
            Misbehavior::Status(status, retry) => {
                return plain(&format!("{status} Wait"), if *retry { "retry-after: 0\r\n" } else { "" });
            }
            Misbehavior::Redirect(to) => return plain("302 Found", &format!("location: {to}\r\n")),
            Misbehavior::Noise => {
                stream.write_all(&[0xFF; 100_000])?;
                return Ok(false);
            }
            Misbehavior::Close => return Ok(false),
            _ => {}
        }
        let Some(file) = file else { return plain("404 Not Found", "") };
        let len = file.len() as u64;
        let Some(mut range) = range(head, len, manner != Misbehavior::NoSuffix) else {
            return plain("416 Range Not Satisfiable", &format!("content-range: bytes */{len}\r\n"));
        };
        if manner == Misbehavior::Other {
            let len_of = range.end - range.start;
            range = (range.start + 1).min(len - 1)..(range.start + 1 + len_of).min(len);
        }
        if manner == Misbehavior::Whole {
            range = 0..len;
        }
        let (whole, header_only) = (range_header(head).is_none(), head.starts_with("HEAD "));
        let status = if whole || manner == Misbehavior::Whole { "200 OK" } else { "206 Partial Content" };
        let mut reply = format!("HTTP/1.1 {status}\r\n{headers}");
        if let Some(kind) = content_type(path) {
            reply += &format!("content-type: {kind}\r\n");
        }
        match manner {
            Misbehavior::Silent | Misbehavior::Whole => {}
            _ if whole => reply += "accept-ranges: bytes\r\n",
            Misbehavior::NoLength => {
                reply += &format!("content-range: bytes {}-{}/*\r\n", range.start, range.end - 1)
            }
            _ => reply += &format!("content-range: bytes {}-{}/{len}\r\n", range.start, range.end - 1),
        }
        match manner {
            Misbehavior::Unguarded => {}
            Misbehavior::Changed => {
                reply += "etag: \"2\"\r\nlast-modified: Tue, 02 Jan 2024 00:00:00 GMT\r\n";
            }
            _ => reply += "etag: \"1\"\r\nlast-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
        }
        if manner == Misbehavior::Compressed {
            // The second header counts too.
            reply += "content-encoding: identity\r\ncontent-encoding: gzip\r\n";
        }
        let body = &file[range.start as usize..range.end as usize];
        match manner {
            Misbehavior::Endless => reply += "connection: close\r\n",
            Misbehavior::Long => reply += &format!("content-length: {}\r\n", body.len() + 10),
            _ => reply += &format!("content-length: {}\r\n", body.len()),
        }
        reply += "\r\n";
        stream.write_all(reply.as_bytes())?;
        if header_only {
            return Ok(true);
        }
        if !matches!(manner, Misbehavior::Short | Misbehavior::Freeze | Misbehavior::Endless) {
            // Counted before sending: the client may ask immediately after reading all of it.
            self.lock().counts.bytes += body.len() as u64;
        }
        match manner {
            Misbehavior::Short => {
                stream.write_all(&body[..body.len() / 2])?;
                return Ok(false);
            }
            Misbehavior::Freeze => {
                stream.write_all(&body[..body.len() / 2])?;
                while io::Read::read(&mut stream, &mut [0; 64])? > 0 {}
                return Ok(false);
            }
            Misbehavior::Endless => loop {
                stream.write_all(&[0; 1 << 16])?;
            },
            Misbehavior::Slow => {
                for byte in body {
                    stream.write_all(&[*byte])?;
                    thread::sleep(Duration::from_millis(20));
                }
            }
            Misbehavior::Long => {
                stream.write_all(body)?;
                stream.write_all(&[0; 10])?;
            }
            _ => self.send(body, stream, speed)?,
        }
        Ok(true)
    }

    /// Sends bytes at the configured speed.
    fn send(&self, body: &[u8], mut stream: &TcpStream, speed: Option<u64>) -> io::Result<()> {
        let begun = Instant::now();
        let mut sent = 0;
        for part in body.chunks(64 << 10) {
            stream.write_all(part)?;
            sent += part.len() as u64;
            if let Some(speed) = speed {
                let due = Duration::from_nanos(sent * 1_000_000_000 / speed);
                thread::sleep(due.saturating_sub(begun.elapsed()));
            }
            let until = {
                let mut state = self.lock();
                state.speed.1.map(|speed| {
                    let from = state.link.unwrap_or(begun).max(begun);
                    let until = from + Duration::from_nanos(part.len() as u64 * 1_000_000_000 / speed);
                    state.link = Some(until);
                    until
                })
            };
            if let Some(until) = until {
                thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        }
        Ok(())
    }
}

/// The content type of the parts of a page.
fn content_type(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "wasm" => Some("application/wasm"),
        _ => None,
    }
}

/// Returns the requested range, clipped to the file.
fn range(head: &str, len: u64, suffix: bool) -> Option<Range<u64>> {
    let Some(asked) = range_header(head) else { return Some(0..len) };
    let (first, last) = asked.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) => first..last.saturating_add(1).min(len),
        (Ok(first), Err(_)) => first..len,
        (Err(_), Ok(last)) if suffix => len.saturating_sub(last)..len,
        _ => return None,
    };
    (range.start < range.end).then_some(range)
}

fn range_header(head: &str) -> Option<&str> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("range").then(|| value.trim())
    })
}

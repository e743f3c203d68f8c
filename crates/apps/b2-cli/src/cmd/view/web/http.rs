//! A server on the loopback interface, for one user: the page and a few files, with range requests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::files::{Files, OpenFile};
use super::link::encoded;
use super::page::Page;
use crate::print::figure::escaped;

/// Maximum length of the head of a request, in bytes.
const HEAD: u64 = 16 << 10;
/// Maximum number of connections. Browsers open six.
const MAX_CONNECTIONS: usize = 64;
/// Bytes that are read and sent at a time.
const SEND_LEN: usize = 1 << 20;
/// Idle connections are closed after this time.
const IDLE: Duration = Duration::from_secs(60);

/// Headers of all responses: no caching, no sniffing, no framing by other pages, and nothing loaded from other hosts.
const HEADERS: &str = "cache-control: no-store\r\n\
    x-content-type-options: nosniff\r\n\
    referrer-policy: no-referrer\r\n\
    cross-origin-resource-policy: same-origin\r\n\
    cross-origin-opener-policy: same-origin\r\n\
    x-frame-options: DENY\r\n\
    content-security-policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    img-src 'self' blob: data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'\r\n";

/// The server.
#[derive(Clone)]
pub(super) struct Server(Arc<State>);

struct State {
    page: &'static Page,
    files: Files,
    port: u16,
    /// The first part of all paths, a secret.
    token: String,
    connections: Mutex<Vec<Connection>>,
}

/// An open connection. Connections that wait for a request are ordered by the start of their wait.
struct Connection {
    stream: Arc<TcpStream>,
    is_waiting: bool,
}

/// A response: status, its own headers, and the body.
struct HttpResponse {
    status: &'static str,
    headers: String,
    body: Body,
}

enum Body {
    Bytes(Vec<u8>),
    Static(&'static [u8]),
    /// Bytes of a file.
    File(OpenFile, Range<u64>),
}

impl Server {
    pub(super) fn new(page: &'static Page, files: Files, port: u16) -> Self {
        Self(Arc::new(State { page, files, port, token: token(), connections: Mutex::default() }))
    }

    /// The address of the page for the file, or of the list of files. `more`: further parameters of a link to a file.
    pub(super) fn address(&self, more: &str) -> String {
        let State { files, port, token, .. } = &*self.0;
        let mut names = files.names();
        let start = match (names.next(), names.len()) {
            (Some(name), 0) => format!("index.html?url={}{more}", encoded(&path_of(0, name))),
            _ => String::new(),
        };
        format!("http://127.0.0.1:{port}/{token}/{start}")
    }

    /// Serves requests until the process ends.
    pub(super) fn serve(&self, listener: &TcpListener) -> Result<()> {
        loop {
            let (stream, _) = match listener.accept() {
                // The client has already disconnected.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                accepted => accepted?,
            };
            let (server, stream) = (self.clone(), Arc::new(stream));
            let mut open = self.connections();
            if open.len() >= MAX_CONNECTIONS {
                // Close the one that has waited longest, so that connections without requests do not block others.
                let Some(k) = open.iter().position(|connection| connection.is_waiting) else { continue };
                let _ = open.remove(k).stream.shutdown(Shutdown::Both);
            }
            open.push(Connection { stream: stream.clone(), is_waiting: true });
            drop(open);
            thread::spawn(move || {
                // Browsers close connections at any time.
                let _ = server.connection(&stream);
                server.connections().retain(|connection| !Arc::ptr_eq(&connection.stream, &stream));
            });
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether a connection waits for a request.
    fn set_waiting(&self, stream: &Arc<TcpStream>, is_waiting: bool) {
        let mut open = self.connections();
        if let Some(k) = open.iter().position(|connection| Arc::ptr_eq(&connection.stream, stream)) {
            let connection = open.remove(k);
            open.push(Connection { is_waiting, ..connection });
        }
    }

    fn connection(&self, stream: &Arc<TcpStream>) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(&**stream);
        loop {
            let mut head = String::new();
            loop {
                let mut line = String::new();
                let room = HEAD.saturating_sub(head.len() as u64);
                if (&mut reader).take(room).read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            self.set_waiting(stream, false);
            let answer = self.answer(&head);
            send(stream, answer, head.starts_with("HEAD "))?;
            self.set_waiting(stream, true);
        }
    }

    fn answer(&self, head: &str) -> HttpResponse {
        let State { page, files, port, token, .. } = &*self.0;
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // A different host means that another site's name resolves to this server (DNS rebinding).
        let own = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}"));
        if !header(head, "host").is_some_and(|host| own.iter().any(|own| own == host)) {
            return plain("403 Forbidden");
        }
        if !matches!(method, "GET" | "HEAD") {
            return plain("405 Method Not Allowed");
        }
        let path = target.split('?').next().unwrap_or_default();
        let Some(path) = path.strip_prefix('/').and_then(|path| path.strip_prefix(token.as_str())) else {
            return plain("404 Not Found");
        };
        let part = |kind: &str, bytes: &'static [u8]| HttpResponse {
            status: "200 OK",
            headers: format!("content-type: {kind}\r\n"),
            body: Body::Static(bytes),
        };
        match path {
            "/" => self.listing(),
            "/index.html" => part("text/html; charset=utf-8", page.index.as_bytes()),
            "/style.css" => part("text/css; charset=utf-8", page.style.as_bytes()),
            "/worker.js" => part("text/javascript; charset=utf-8", page.worker.as_bytes()),
            "/engine.wasm" => part("application/wasm", page.engine),
            _ => {
                if let Some((_, script)) = page.scripts.iter().find(|(name, _)| path.get(1..) == Some(*name))
                {
                    return part("text/javascript; charset=utf-8", script.as_bytes());
                }
                let mut parts = path.strip_prefix("/files/").unwrap_or_default().split('/');
                let Some(number) = parts.next().and_then(|number| number.parse().ok()) else {
                    return plain("404 Not Found");
                };
                match files.open(number, parts.next().unwrap_or_default()) {
                    Ok(open) => range(head, open),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => plain("404 Not Found"),
                    Err(_) => plain("500 Internal Server Error"),
                }
            }
        }
    }

    /// A page with the names of all files.
    fn listing(&self) -> HttpResponse {
        let item = |(number, name): (usize, &str)| {
            let link = escaped(&format!("index.html?url={}", encoded(&path_of(number, name))));
            format!("<li><a href=\"{link}\">{}</a></li>\n", escaped(name))
        };
        let items: String = self.0.files.names().enumerate().map(item).collect();
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>Blosc2 files</title><link rel=\"stylesheet\" href=\"style.css\"></head>\n\
             <body><header><h1>Blosc2 files</h1></header><main><ul>\n{items}</ul></main></body></html>\n"
        );
        HttpResponse {
            status: "200 OK",
            headers: "content-type: text/html; charset=utf-8\r\n".into(),
            body: Body::Bytes(page.into_bytes()),
        }
    }
}

/// The path of a file in an address. The number identifies it; the name is for people.
fn path_of(number: usize, name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    format!("files/{number}/{}", encoded(last))
}

fn plain(status: &'static str) -> HttpResponse {
    let body = Body::Bytes(format!("{status}\n").into_bytes());
    HttpResponse { status, headers: "content-type: text/plain\r\n".into(), body }
}

/// The value of a header, if it is there exactly once.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut values = head.lines().skip(1).filter_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    });
    values.next().filter(|_| values.next().is_none())
}

/// The requested range of a file.
fn range(head: &str, open: OpenFile) -> HttpResponse {
    let OpenFile { len, ref etag, .. } = open;
    let headers =
        format!("content-type: application/octet-stream\r\naccept-ranges: bytes\r\netag: {etag}\r\n");
    let Some(asked) = header(head, "range") else {
        return HttpResponse { status: "200 OK", headers, body: Body::File(open, 0..len) };
    };
    let parse = || {
        let (first, last) = asked.strip_prefix("bytes=")?.split_once('-')?;
        let first: u64 = first.parse().ok()?;
        let end = if last.is_empty() { len } else { last.parse::<u64>().ok()?.saturating_add(1).min(len) };
        (first < end).then_some(first..end)
    };
    match parse() {
        Some(range) => {
            let headers =
                format!("{headers}content-range: bytes {}-{}/{len}\r\n", range.start, range.end - 1);
            HttpResponse { status: "206 Partial Content", headers, body: Body::File(open, range) }
        }
        None => {
            let headers = format!("content-range: bytes */{len}\r\n");
            HttpResponse { status: "416 Range Not Satisfiable", headers, body: Body::Bytes(Vec::new()) }
        }
    }
}

fn send(mut stream: &TcpStream, answer: HttpResponse, only_head: bool) -> io::Result<()> {
    let HttpResponse { status, headers, body } = answer;
    let len = match &body {
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Static(bytes) => bytes.len() as u64,
        Body::File(_, range) => range.end - range.start,
    };
    stream.write_all(
        format!("HTTP/1.1 {status}\r\n{HEADERS}{headers}content-length: {len}\r\n\r\n").as_bytes(),
    )?;
    if only_head {
        return Ok(());
    }
    match body {
        Body::Bytes(bytes) => stream.write_all(&bytes),
        Body::Static(bytes) => stream.write_all(bytes),
        Body::File(open, range) => {
            let mut buffer = vec![0; SEND_LEN.min(usize::try_from(len).unwrap_or(SEND_LEN))];
            let mut at = range.start;
            while at < range.end {
                let count = usize::try_from(range.end - at).unwrap_or(SEND_LEN).min(SEND_LEN);
                let piece = &mut buffer[..count];
                // A failure closes the connection, which the page detects.
                open.file.read_exact_at(at, piece)?;
                stream.write_all(piece)?;
                at += count as u64;
            }
            Ok(())
        }
    }
}

/// 128 random bits. The keys of the hashers come from the operating system.
fn token() -> String {
    let bits = |n: u8| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u8(n);
        hasher.finish()
    };
    format!("{:016x}{:016x}", bits(0), bits(1))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    static PAGE: Page = Page {
        index: "index",
        style: "style",
        scripts: &[("a.js", "script")],
        worker: "worker",
        engine: b"engine",
    };

    fn server(path: &Path) -> Server {
        Server::new(&PAGE, Files::find(path).unwrap(), 1234)
    }

    /// The status and the body of the response to a request for a path below the token.
    fn ask(server: &Server, path: &str, more: &str) -> (&'static str, Vec<u8>) {
        ask_for(server, &format!("/{}{path}", server.0.token), &format!("host: 127.0.0.1:1234\r\n{more}"))
    }

    fn ask_for(server: &Server, path: &str, headers: &str) -> (&'static str, Vec<u8>) {
        let answer = server.answer(&format!("GET {path} HTTP/1.1\r\n{headers}"));
        let body = match answer.body {
            Body::Bytes(bytes) => bytes,
            Body::Static(bytes) => bytes.to_vec(),
            Body::File(open, range) => {
                let mut out = vec![0; (range.end - range.start) as usize];
                open.file.read_exact_at(range.start, &mut out).unwrap();
                out
            }
        };
        (&answer.status[..3], body)
    }

    #[test]
    fn ranges_of_the_named_file_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.b2nd");
        std::fs::write(&path, b"0123456789").unwrap();
        std::fs::write(folder.path().join("secret"), b"secret").unwrap();
        let server = server(&path);
        let address = server.address("&slice=1");
        assert!(address.ends_with("/index.html?url=files%2F0%2Fa%2520b.b2nd&slice=1"), "{address}");
        assert_eq!(server.0.token.len(), 32);
        assert_ne!(token(), token());
        let of = |more: &str| ask(&server, "/files/0/a%20b.b2nd", more);
        assert_eq!(of("range: bytes=2-4\r\n"), ("206", b"234".to_vec()));
        assert_eq!(of("Range: bytes=8-99\r\n"), ("206", b"89".to_vec()));
        assert_eq!(of("range: bytes=7-\r\n"), ("206", b"789".to_vec()));
        assert_eq!(of(""), ("200", b"0123456789".to_vec()));
        for wrong in ["bytes=10-12", "bytes=-3", "bytes=5-2", "bytes=0-1,4-5", "items=0-1", "bytes=a-b", ""] {
            assert_eq!(of(&format!("range: {wrong}\r\n")).0, "416", "{wrong}");
        }
        assert_eq!(ask(&server, "/index.html?url=x", "").1, b"index");
        assert_eq!(ask(&server, "/a.js", "").1, b"script");
        for path in [
            "/files/1/secret",
            "/files/../secret",
            "/secret",
            "/files/0x",
            "/files/",
            "",
            "/index.html/..",
            "/%2e%2e/secret",
        ] {
            assert_eq!(ask(&server, path, "").0, "404", "{path}");
        }
    }

    #[test]
    fn others_get_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b2nd");
        std::fs::write(&path, b"0123").unwrap();
        let server = server(&path);
        let good = format!("/{}/index.html", server.0.token);
        assert_eq!(ask_for(&server, &good, "host: localhost:1234\r\n").0, "200");
        for host in [
            "",
            "host: evil.example\r\n",
            "host: 127.0.0.1\r\n",
            "host: 127.0.0.1:1\r\n",
            "host: 127.0.0.1:1234\r\nhost: evil.example\r\n",
            "host: 127.0.0.1:1234.evil.example\r\n",
        ] {
            assert_eq!(ask_for(&server, &good, host).0, "403", "{host}");
        }
        for path in
            ["/", "/index.html", "/0/index.html", &good[..good.len() / 2], "", "*", "http://127.0.0.1:1234/"]
        {
            assert_eq!(ask_for(&server, path, "host: 127.0.0.1:1234\r\n").0, "404", "{path}");
        }
        for method in ["POST", "PUT", "OPTIONS", "DELETE"] {
            let answer = server.answer(&format!("{method} {good} HTTP/1.1\r\nhost: 127.0.0.1:1234\r\n"));
            assert_eq!(&answer.status[..3], "405", "{method}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn folders_are_listed_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.b2nd"), b"secret").unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/<b>.b2nd"), b"in").unwrap();
        std::fs::write(folder.path().join("a.b2z"), b"a").unwrap();
        std::fs::write(folder.path().join("notes.txt"), b"no").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.b2nd"), folder.path().join("l.b2nd")).unwrap();
        let server = server(folder.path());
        assert_eq!(server.0.files.names().collect::<Vec<_>>(), ["a.b2z", "inner/<b>.b2nd"]);
        let (status, page) = ask(&server, "/", "");
        let page = String::from_utf8(page).unwrap();
        assert!(status == "200" && page.contains("inner/&lt;b&gt;.b2nd") && !page.contains("<b>"), "{page}");
        assert_eq!(ask(&server, "/files/1/x", ""), ("200", b"in".to_vec()));
        // A file that is later replaced by a link.
        std::fs::remove_file(folder.path().join("a.b2z")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.b2nd"), folder.path().join("a.b2z")).unwrap();
        let (status, body) = ask(&server, "/files/0/a.b2z", "");
        assert!(status != "200" && !body.starts_with(b"secret"), "{status}");
    }

    #[test]
    fn connections_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b2nd");
        std::fs::write(&path, b"0123456789").unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server::new(&PAGE, Files::find(&path).unwrap(), port);
        let token = server.0.token.clone();
        thread::spawn(move || server.serve(&listener));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let ask =
            format!("GET /{token}/files/0/a HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nrange: bytes=1-3\r\n");
        write!(stream, "{ask}\r\n{ask}connection: close\r\n\r\nHEAD / HTTP/1.1\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("HTTP/1.1 206 Partial Content").count(), 2, "{text}");
        assert_eq!(text.matches("\r\n\r\n123").count(), 2, "{text}");
        assert!(
            text.ends_with("\r\n\r\n")
                && text.contains("HTTP/1.1 403")
                && text.contains("connect-src 'self'"),
            "{text}"
        );
        // Connections without a request do not block others.
        let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "{ask}connection: close\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\r\n\r\n123"), "{text}");
        drop(silent);
        // A head that does not end.
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(&vec![b'a'; 1 << 20]);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 10_000);
    }
}

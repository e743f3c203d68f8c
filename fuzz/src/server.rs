//! A hostile web server. The input determines statuses, ranges, lengths, versions and whole responses, which are sent
//! over a real connection.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use b2_frame::{Compare, FrameWriter, ReadTuning, SuperChunk};
use b2_http::{Http, HttpOptions};
use b2nd::{ArrayBuilder, NdArray, Selection, source};

/// Two versions of a file, of equal length.
struct FileVersions {
    frames: [Vec<u8>; 2],
    items: [Vec<u8>; 2],
    port: u16,
}

/// The current behaviour of the server.
#[derive(Default)]
struct ServerScript {
    number: u64,
    manners: Vec<u8>,
    raw: Vec<u8>,
    /// Whether the server sends a version at all.
    guarded: bool,
}

static SCRIPT: Mutex<ServerScript> =
    Mutex::new(ServerScript { number: 0, manners: Vec::new(), raw: Vec::new(), guarded: true });
/// Whether any response had content that does not match the version it claims.
static VERSION_MISMATCH: AtomicBool = AtomicBool::new(false);

fn files() -> &'static FileVersions {
    static FILES: OnceLock<FileVersions> = OnceLock::new();
    FILES.get_or_init(|| {
        let made = |n: u64| {
            let item = move |i: u64| ((i + n).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
            let builder = ArrayBuilder::new::<u32>([256, 256]).chunks([64, 128]).blocks([16, 32]);
            let builder = builder.write_options(FrameWriter::options().block_starts(true));
            let frame = builder.to_bytes(source::by_index(item)).expect("an array");
            let items = NdArray::from_bytes(frame.clone()).and_then(|array| array.all().read_bytes());
            (frame.to_vec(), items.expect("its items"))
        };
        let ((mut one, items), (mut two, others)) = (made(0), made(1 << 20));
        // Only the version may differ: bytes after a frame do not matter.
        let len = one.len().max(two.len());
        [&mut one, &mut two].into_iter().for_each(|frame| frame.resize(len, 0));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("a port").port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        FileVersions { frames: [one, two], items: [items, others], port }
    })
}

/// Handles the requests of a connection.
fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut head = Vec::new();
    loop {
        let mut byte = [0; 1024];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(n) if n > 0 && head.len() < 1 << 16 => head.extend_from_slice(&byte[..n]),
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let asked = text.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let asked = asked.unwrap_or("0-").trim().to_owned();
        let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
        head.clear();
        if !answer(&mut stream, &path, &asked) {
            return;
        }
    }
}

/// Responds to one request. Returns whether to keep the connection open.
fn answer(stream: &mut TcpStream, path: &str, asked: &str) -> bool {
    // The order of requests varies, so choose the behaviour by range.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(asked) as usize;
    let (manner, guarded, raw) = {
        let script = SCRIPT.lock().expect("no panic");
        // A late request of an earlier input.
        if path.trim_start_matches('/').split('/').next() != Some(&script.number.to_string()) {
            return false;
        }
        let manner = script.manners.get(hash % script.manners.len().max(1)).copied().unwrap_or(0);
        (manner, script.guarded, script.raw.clone())
    };
    let files = files();
    let version = usize::from((100..120).contains(&manner));
    let frame = &files.frames[version];
    let len = frame.len();
    let number = |text: &str| text.parse::<usize>().ok();
    let (mut start, mut end) = match asked.split_once('-') {
        Some(("", last)) => (len.saturating_sub(number(last).unwrap_or(0)), len),
        Some((first, last)) => {
            (number(first).unwrap_or(0).min(len), number(last).map_or(len, |last| (last + 1).min(len)))
        }
        None => (0, len),
    };
    let mut body = frame.get(start..end).unwrap_or_default().to_vec();
    let (mut status, mut more, mut stated) = ("206 Partial Content".to_owned(), String::new(), len);
    let mut tag = ["\"one\"", "\"two\""][version].to_owned();
    let mut length = body.len() as i64;
    match manner {
        120..=135 => {
            let statuses = [200, 204, 301, 302, 304, 307, 400, 401, 403, 404, 412, 416, 429, 500, 503, 999];
            status = format!("{} X", statuses[usize::from(manner) - 120]);
        }
        136..=139 => start += usize::from(manner) - 135,
        140..=143 => end = end.saturating_sub(usize::from(manner) - 139),
        144..=147 => stated = [0, 1, usize::MAX, len + 1][usize::from(manner) - 144],
        148..=151 => drop(body.split_off(body.len() / 2)),
        152..=155 => body.extend([7; 3000]),
        156 => length = -1,
        157 => length += 1,
        158 => length = i64::MAX,
        159 => length = 0,
        160 => more.push_str("Content-Encoding: gzip\r\n"),
        161 => more.push_str("Transfer-Encoding: chunked\r\n"),
        162 => tag.insert_str(0, "W/"),
        163 => tag.clear(),
        164 => (0..3000).for_each(|n| more.push_str(&format!("X-{n}: y\r\n"))),
        165..=172 => {
            let places =
                ["/", "ftp://127.0.0.1/", "http://127.0.0.1:1/", "//", "", "x", "https://a", "\u{7f}"];
            status = "302 Found".to_owned();
            more = format!("Location: {}\r\n", places[usize::from(manner) - 165]);
        }
        173 => {
            status = "503 X".to_owned();
            more.push_str("Retry-After: 99999999999999999999\r\n");
        }
        174 => return false,
        175..=179 => {
            // Send the other version's body with this version's tag, so the server lies.
            VERSION_MISMATCH.store(true, SeqCst);
            body = files.frames[1 - version].get(start..end).unwrap_or_default().to_vec();
        }
        180.. => {
            VERSION_MISMATCH.store(true, SeqCst);
            let from = usize::from(manner - 180) * 7 % raw.len().max(1);
            let _ = stream.write_all(raw.get(from..).unwrap_or_default());
            return false;
        }
        _ => {}
    }
    if !guarded {
        tag.clear();
    }
    let tag = if tag.is_empty() { String::new() } else { format!("ETag: {tag}\r\n") };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Range: bytes {start}-{}/{stated}\r\nContent-Length: {length}\r\n{tag}{more}\r\n",
        end.wrapping_sub(1)
    );
    // Send exactly the announced length, or the rest would be taken for the next response.
    let mut all = head.into_bytes();
    all.extend_from_slice(&body);
    stream.write_all(&all).is_ok() && manner < 120
}

/// The first byte chooses what is read and how, the next 16 how each request is answered. The rest is sent verbatim.
pub(crate) fn run(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    let (manners, raw) = rest.split_at(rest.len().min(16));
    let files = files();
    let number = {
        let mut script = SCRIPT.lock().expect("no panic");
        script.number += 1;
        script.manners = manners.to_vec();
        script.raw = raw.to_vec();
        script.guarded = how & 1 == 0;
        script.number
    };
    VERSION_MISMATCH.store(false, SeqCst);
    let http = HttpOptions::default().proxy(false).in_flight(4).pause(Duration::from_millis(1));
    let http = Http::new(http.timeout(Duration::from_millis(300)));
    let tuning =
        if how & 2 == 0 { ReadTuning::REMOTE } else { ReadTuning::REMOTE.whole_chunk_max(1000).head_len(64) };
    let compare = [Compare::Once, Compare::Never, Compare::Always];
    let options = SuperChunk::options().file_system(Arc::new(http.clone())).tuning(tuning);
    let options = options.compare(compare[usize::from(how >> 2) % 3]).checksums(how & 16 == 0);
    let url = format!("http://127.0.0.1:{}/{number}", files.port);
    let Ok(array) = NdArray::open_with(&url, &options) else { return };
    let sound = |found: &[u8], expected: [&[u8]; 2]| {
        if !VERSION_MISMATCH.load(SeqCst) && how & 1 == 0 {
            assert!(expected.contains(&found), "items of neither version, or of both");
        }
    };
    let [one, two] = &files.items;
    let row = 256 * 4;
    if let Ok(found) = array.slice(200).and_then(|slice| slice.read_bytes()) {
        let at = 200 * row;
        sound(&found, [&one[at..at + row], &two[at..at + row]]);
    }
    if how & 32 == 0
        && let Ok(found) =
            array.slice([Selection::from(3..4), Selection::from(5)]).and_then(|s| s.read_bytes())
    {
        let at = 3 * row + 20;
        sound(&found, [&one[at..at + 4], &two[at..at + 4]]);
    }
    if how & 64 == 0
        && let Ok(found) = array.all().read_bytes()
    {
        sound(&found, [one, two]);
    }
    if how & 128 != 0 {
        let _ = array.super_chunk().verify_checksums();
    }
}

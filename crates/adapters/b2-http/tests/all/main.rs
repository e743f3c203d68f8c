//! Reading from a local server that counts requests and misbehaves.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use b2_frame::{Compare, FrameError, FrameWriter, ReadOptions, ReadTuning, Storage, SuperChunk};
use b2_http::{Http, HttpOptions};
use b2_testkit::web::{Misbehavior, Server};
use b2nd::{ArrayBuilder, NdArray, NdError, range, source};

fn mix(i: u64) -> u32 {
    let x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((x ^ x >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as u32
}

/// An array of 12 chunks of 300 KB.
fn field() -> ArrayBuilder {
    ArrayBuilder::new::<u32>([300, 400]).chunks([100, 100]).blocks([20, 20])
}

fn client(timeout: u64) -> Http {
    let options = HttpOptions::default().timeout(Duration::from_millis(timeout)).proxy(false);
    Http::new(options.pause(Duration::from_millis(1)))
}

fn options(http: &Http) -> ReadOptions {
    SuperChunk::options().file_system(Arc::new(http.clone())).tuning(ReadTuning::REMOTE)
}

fn open(http: &Http, url: &str) -> Result<NdArray, NdError> {
    NdArray::open_with(url, &options(http))
}

#[test]
fn arrays_are_read_in_few_requests() {
    let server = Server::start().unwrap();
    let items = source::by_index(mix);
    let frame = field().to_bytes(items).unwrap();
    let url = server.put("a.b2nd", frame.to_vec());
    let (near, http) = (NdArray::from_bytes(frame.clone()).unwrap(), client(60_000));
    let remote = open(&http, &url).unwrap();
    let counts = server.counts();
    assert_eq!(counts.requests, 2);
    assert!(counts.bytes <= 96 << 10);
    assert_eq!(remote.slice((150, 250)).unwrap().read::<Vec<u32>>().unwrap(), [mix(150 * 400 + 250)]);
    assert!(server.counts().requests <= 2);
    let all = remote.all().read::<Vec<u32>>().unwrap();
    assert!(all == near.all().read::<Vec<u32>>().unwrap());
    let counts = server.counts();
    assert!(counts.requests <= 13 && counts.bytes <= frame.len() as u64 / 100 * 101, "{counts:?}");
    let view = (range(..).step(-7), [3i64, 3, 399, 0]);
    assert_eq!(
        remote.slice(view.clone()).unwrap().read_bytes().unwrap(),
        near.slice(view).unwrap().read_bytes().unwrap()
    );
    // The client counts the same.
    server.counts();
    let before = http.counts();
    remote.slice((10, ..)).unwrap().read_bytes().unwrap();
    let (after, counts) = (http.counts(), server.counts());
    assert_eq!(
        (after.requests - before.requests, after.bytes - before.bytes),
        (counts.requests, counts.bytes)
    );
    assert!(counts.requests > 0);
}

/// Requests overlap: in sequence they would take twelve delays.
#[test]
fn requests_are_in_flight_together() {
    let server = Server::start().unwrap();
    let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
    let remote = open(&client(60_000), &url).unwrap();
    server.counts();
    server.delay(Duration::from_millis(100));
    remote.all().read_bytes().unwrap();
    let counts = server.counts();
    assert!(counts.most >= 6, "{counts:?}");
}

/// A distant server gets more concurrent requests than a nearby one.
#[test]
fn requests_in_flight_follow_the_latency() {
    let server = Server::start().unwrap();
    let builder = ArrayBuilder::new::<u32>([100, 10_000]).chunks([1, 10_000]).blocks([1, 1000]);
    let url = server.put("a.b2nd", builder.to_bytes(source::by_index(mix)).unwrap().to_vec());
    let most = |delay: u64, limit: Option<usize>| {
        server.delay(Duration::from_millis(delay));
        let options = HttpOptions::default().proxy(false);
        let http = Http::new(limit.map_or(options.clone(), |limit| options.in_flight(limit)));
        let remote = open(&http, &url).unwrap();
        server.counts();
        remote.all().read_bytes().unwrap();
        let counts = server.counts();
        // Opening read two chunks already.
        assert_eq!(counts.requests, 98);
        counts.most
    };
    // All requests of a round are sent before the first response.
    let very_far = most(400, None);
    assert!(very_far > 16 && very_far <= 64, "{very_far}");
    assert!(most(400, Some(40)) <= 40);
}

/// Responses arrive in another order than the requests were sent, some late.
#[test]
fn responses_may_come_in_any_order() {
    let server = Server::start().unwrap();
    let frame = field().to_bytes(source::by_index(mix)).unwrap();
    let url = server.put("a.b2nd", frame.to_vec());
    let near = NdArray::from_bytes(frame).unwrap();
    server.delays(&[60, 0, 30, 5, 90, 0, 1].map(Duration::from_millis));
    let remote = open(&client(60_000), &url).unwrap();
    for view in [(0i64..300, 0i64..400), (90..210, 7..333), (150..151, 0..400)] {
        server.counts();
        let found = remote.slice(view.clone()).unwrap().read_bytes().unwrap();
        assert!(found == near.slice(view).unwrap().read_bytes().unwrap());
        assert!(server.counts().requests <= 13);
    }
    // One response never ends: an error after the time limit, not wrong bytes.
    let remote = open(&client(1500), &url).unwrap();
    server.spoil(Misbehavior::Freeze, 5, 1);
    let error = remote.all().read_bytes().unwrap_err();
    assert!(report(&error).contains("timed out"), "{}", report(&error));
    assert!(remote.all().read_bytes().unwrap() == near.all().read_bytes().unwrap());
}

#[test]
fn super_chunks_are_read_and_verified() {
    let server = Server::start().unwrap();
    let frame = field().to_bytes(source::by_index(mix)).unwrap();
    let url = server.put("a.b2nd", frame.to_vec());
    let near = SuperChunk::from_bytes(frame.clone()).unwrap();
    let remote = options(&client(60_000)).open(&url).unwrap();
    let nbytes = near.nbytes();
    assert!(remote.read_bytes(0..nbytes).unwrap() == near.read_bytes(0..nbytes).unwrap());
    assert_eq!(remote.gather(&[7, 100_000, 3]).unwrap(), near.gather(&[7, 100_000, 3]).unwrap());
    server.delay(Duration::from_millis(50));
    server.counts();
    remote.verify_checksums().unwrap();
    assert!(server.counts().most >= 6);
    server.delay(Duration::ZERO);
    let mut bad = frame.to_vec();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    let url = server.put("bad.b2nd", bad);
    let remote = options(&client(60_000)).open(&url).unwrap();
    assert!(matches!(remote.verify_checksums().unwrap_err().detail(), FrameError::Checksum { .. }));
    let remote = NdArray::from_super_chunk(remote.with_compare(Compare::Always)).unwrap();
    assert!(remote.all().read_bytes().is_err());
}

#[test]
fn sparse_frames_are_folders() {
    let server = Server::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse.b2nd");
    let builder = field().write_options(FrameWriter::options().storage(Storage::Sparse));
    builder.write(&path, source::by_index(mix)).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let name = format!("s.b2nd/{}", entry.file_name().display());
        server.put(&name, fs::read(entry.path()).unwrap());
    }
    let near = NdArray::open(&path).unwrap();
    for url in [server.url("s.b2nd"), server.url("s.b2nd/"), server.url("s.b2nd?signed=1")] {
        let remote = open(&client(60_000), &url).unwrap();
        assert!(remote.all().read_bytes().unwrap() == near.all().read_bytes().unwrap());
    }
}

/// Each of these is an error that describes the problem, in bounded time and memory.
#[test]
fn servers_that_misbehave_are_errors() {
    let cases = [
        (Misbehavior::Whole, "does not support range requests"),
        (Misbehavior::Other, "a different range"),
        (Misbehavior::Short, "connection"),
        (Misbehavior::Long, "more or less"),
        (Misbehavior::Endless, "more than the range"),
        (Misbehavior::Slow, "timed out"),
        (Misbehavior::Freeze, "timed out"),
        (Misbehavior::Compressed, "compressed"),
        (Misbehavior::Silent, "does not state which range"),
        (Misbehavior::Status(404, false), "no such file"),
        (Misbehavior::Status(403, false), "refuses access"),
        (Misbehavior::Status(503, true), "temporarily unavailable"),
        (Misbehavior::Status(418, false), "418"),
        (Misbehavior::Redirect("file:///etc/passwd".to_owned()), "redirects to something"),
        (Misbehavior::Redirect("/a.b2nd".to_owned()), "redirects too often"),
        (Misbehavior::Noise, ""),
        (Misbehavior::Close, ""),
    ];
    for (manner, what) in cases {
        let server = Server::start().unwrap();
        let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
        let text = |error: NdError| report(&error);
        // Short only where the test waits for it, since a machine may be slow.
        let timeout = if matches!(manner, Misbehavior::Slow | Misbehavior::Freeze) { 1_500 } else { 60_000 };
        // While opening.
        server.spoil(manner.clone(), 0, usize::MAX);
        let error = text(open(&client(timeout), &url).map(drop).unwrap_err());
        assert!(error.contains(what), "{manner:?}: {error}");
        // While reading.
        server.spoil(manner.clone(), 0, 0);
        let remote = open(&client(timeout), &url).unwrap();
        server.spoil(manner.clone(), 2, usize::MAX);
        let error = text(remote.all().read_bytes().map(drop).unwrap_err());
        assert!(error.contains(what), "{manner:?}: {error}");
    }
}

/// A file truncated by a local writer is read again, but not one whose responses end too early.
#[test]
fn responses_that_always_end_early_are_not_requested_over_and_over() {
    for manner in [Misbehavior::Short, Misbehavior::Close] {
        for good in [0, 1, 2] {
            let server = Server::start().unwrap();
            let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
            server.spoil(manner.clone(), good, usize::MAX);
            let opened = open(&client(60_000), &url).and_then(|remote| remote.all().read_bytes());
            assert!(opened.is_err(), "{manner:?} {good}");
            let requests = server.counts().requests;
            assert!(requests <= 80, "{manner:?} {good}: {requests} requests");
        }
    }
}

fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn failures_that_pass_are_tried_again() {
    for manner in [
        Misbehavior::Status(503, true),
        Misbehavior::Status(429, false),
        Misbehavior::Short,
        Misbehavior::Close,
    ] {
        let server = Server::start().unwrap();
        let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
        server.spoil(manner.clone(), 0, 2);
        let remote = open(&client(60_000), &url).unwrap();
        server.spoil(manner, 1, 3);
        assert_eq!(remote.all().read::<Vec<u32>>().unwrap()[77], mix(77));
    }
}

#[test]
fn a_changed_file_is_an_error() {
    let server = Server::start().unwrap();
    let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
    let remote = open(&client(60_000), &url).unwrap();
    server.spoil(Misbehavior::Changed, 3, usize::MAX);
    let error = remote.all().read_bytes().map(drop).unwrap_err();
    assert!(matches!(error, NdError::Frame(FrameError::Changed { .. })), "{error}");
    // Between the two requests of opening.
    server.spoil(Misbehavior::Changed, 1, 1);
    assert!(open(&client(60_000), &url).is_err());
    // Changes cannot be detected here.
    server.spoil(Misbehavior::Unguarded, 0, usize::MAX);
    let http = client(60_000);
    open(&http, &url).unwrap().all().read_bytes().unwrap();
    assert!(!http.open_file(Path::new(&url)).unwrap().version().is_guarded());
    // The end is requested by its offsets if the server does not support suffix ranges.
    server.spoil(Misbehavior::NoSuffix, 0, usize::MAX);
    open(&client(60_000), &url).unwrap().all().read_bytes().unwrap();
    // The last bytes reveal the file's length if the server does not report it (`a-b/*`).
    server.spoil(Misbehavior::NoLength, 0, usize::MAX);
    let remote = open(&client(60_000), &url).unwrap();
    assert_eq!(remote.all().read::<Vec<u32>>().unwrap()[77], mix(77));
}

#[test]
fn credentials_are_sent_once_and_never_shown() {
    let (server, other) = (Server::start().unwrap(), Server::start().unwrap());
    let frame = field().to_bytes(source::by_index(mix)).unwrap().to_vec();
    let url = server.put("a.b2nd", frame.clone());
    let target = other.put("b.b2nd", frame);
    let secret = format!("{}?X-Signature=secret", url.replace("127", "me:secret@127"));
    let http = client(60_000);
    server.spoil(Misbehavior::Redirect(target), 0, usize::MAX);
    open(&http, &secret).unwrap();
    let heads = server.heads();
    assert!(heads.iter().all(|head| head.contains("uthorization: Basic") && head.contains("X-Signature")));
    let heads = other.heads();
    assert!(
        !heads.is_empty()
            && heads.iter().all(|head| !head.contains("uthorization") && !head.contains("secret"))
    );
    // Its name does not show the secret.
    let name = http.hide(&secret);
    assert!(!name.contains("secret"), "{name}");
    open(&http, &name).unwrap();
    server.spoil(Misbehavior::Status(500, false), 0, usize::MAX);
    let http = client(300);
    let error = report(&open(&http, &http.hide(&secret)).map(drop).unwrap_err());
    assert!(!error.contains("secret"), "{error}");
    // An expired target is requested again.
    server.spoil(Misbehavior::Redirect(other.url("b.b2nd")), 0, usize::MAX);
    let remote = open(&client(60_000), &secret).unwrap();
    other.spoil(Misbehavior::Status(403, false), 0, 1);
    remote.all().read_bytes().unwrap();
}

/// An unreachable host and a missing file have different error kinds.
#[test]
fn hosts_that_cannot_be_reached_have_a_kind() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = open(&client(60_000), &format!("http://{free}/a.b2nd")).map(drop).unwrap_err();
    let NdError::Frame(FrameError::Io { source, .. }) = error.detail() else { panic!("{error:?}") };
    assert!(matches!(source.kind(), ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable), "{source:?}");
}

/// With the default pauses, six retries would take 18 s.
#[test]
fn hosts_that_cannot_be_reached_are_told_soon() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{free}/a.b2nd"), "http://no-such-host.invalid/a.b2nd".to_owned()] {
        let http = Http::new(HttpOptions::default().proxy(false));
        let error = open(&http, &url).map(drop).unwrap_err();
        // Opening sends two concurrent requests.
        assert!(http.counts().requests <= 6, "{url}: {:?}", http.counts());
        assert!(matches!(error.detail(), NdError::Frame(FrameError::Io { .. })), "{error:?}");
    }
}

#[test]
fn redirects_to_other_hosts_can_be_refused() {
    let (server, other) = (Server::start().unwrap(), Server::start().unwrap());
    let frame = field().to_bytes(source::by_index(mix)).unwrap().to_vec();
    let url = server.put("a.b2nd", frame.clone());
    server.put("b.b2nd", frame.clone());
    let options = HttpOptions::default().proxy(false).pause(Duration::from_millis(1));
    let http = Http::new(options.other_hosts(false));
    server.spoil(Misbehavior::Redirect(other.put("b.b2nd", frame)), 0, usize::MAX);
    let error = report(&open(&http, &url).map(drop).unwrap_err());
    assert!(error.contains("another host"), "{error}");
    assert!(other.heads().is_empty());
    server.spoil(Misbehavior::Redirect("/b.b2nd".to_owned()), 0, 1);
    open(&http, &url).unwrap();
}

/// A file system assumes that files it has opened are unchanged.
#[test]
fn a_file_system_that_begins_afresh_sees_the_new_file() {
    let server = Server::start().unwrap();
    let url = server.put("a.b2nd", field().to_bytes(source::by_index(mix)).unwrap().to_vec());
    let http = client(60_000);
    assert_eq!(open(&http, &url).unwrap().slice((0, 0)).unwrap().read::<Vec<u32>>().unwrap(), [mix(0)]);
    server.put("a.b2nd", field().to_bytes(source::by_index(|i| mix(i + 1))).unwrap().to_vec());
    let again = http.reopened();
    assert!(again.open_file(Path::new(&url)).unwrap().version().is_guarded());
    let array = open(&again, &url).unwrap();
    assert_eq!(array.slice((0, 0)).unwrap().read::<Vec<u32>>().unwrap(), [mix(1)]);
    // Both share one client, so they count together.
    assert_eq!(http.counts(), again.counts());
}

//! Stores that point elsewhere or contain false information, and paths that are not files.

use b2_testkit::Rng;

use super::base::Base;
use super::bombs::BuiltCase;
use super::content::{Content, Node};
use super::expect::Expect;
use super::groups::Group;
use super::rebuild::{FrameParts, extend, memcpyed};

/// Returns all cases, built around a valid frame.
pub(crate) fn all(bases: &[Base], seed: u64) -> Vec<BuiltCase> {
    let mut rng = Rng::case(seed, 78);
    let frame = bases.iter().find(|base| base.name == "array-2d").map(|base| base.bytes(0).to_vec());
    let frame = frame.unwrap_or_default();
    let mut out = Vec::new();
    let mut add = |group: Group, name: String, content: Content, expect: Expect| {
        out.push(BuiltCase { group, name, content, expect });
    };
    for (name, content) in archives(&frame, &mut rng) {
        add(Group::Stores, format!("archive: {name}"), content, Expect::Any);
    }
    for (name, content) in folders(&frame) {
        add(Group::Stores, format!("folder: {name}"), content, Expect::Any);
    }
    for (name, map) in maps(frame.len() as u64) {
        add(Group::Stores, format!("frame: {name}"), Content::file(embedded(&frame, &map)), Expect::Any);
    }
    for (name, content, expect) in garbage(&frame, &mut rng) {
        add(Group::Garbage, name, content, expect);
    }
    out
}

/// One member of an archive.
struct Member<'a> {
    name: Vec<u8>,
    method: u16,
    bytes: &'a [u8],
    /// The size stored in the header.
    size: u32,
    /// Added to the stored offset.
    shift: i64,
}

impl<'a> Member<'a> {
    fn new(name: impl AsRef<[u8]>, bytes: &'a [u8]) -> Self {
        Self { name: name.as_ref().to_vec(), method: 0, bytes, size: bytes.len() as u32, shift: 0 }
    }
}

fn zip(members: &[Member<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for member in members {
        let at = out.len() as i64 + member.shift;
        let (size, name_len) = (member.size.to_le_bytes(), (member.name.len() as u16).to_le_bytes());
        let shared = [&member.method.to_le_bytes()[..], &[0; 8], &size, &size, &name_len, &[0; 2]].concat();
        extend(&mut out, &[b"PK\x03\x04\x14\0\0\0", &shared, &member.name, member.bytes]);
        let place = (at as u32).to_le_bytes();
        let entry: [&[u8]; 5] = [b"PK\x01\x02\x14\0\x14\0\0\0", &shared, &[0; 10], &place, &member.name];
        extend(&mut directory, &entry);
    }
    let (at, count) = ((out.len() as u32).to_le_bytes(), (members.len() as u16).to_le_bytes());
    let len = (directory.len() as u32).to_le_bytes();
    extend(&mut out, &[&directory, b"PK\x05\x06\0\0\0\0", &count, &count, &len, &at, &[0; 2]]);
    out
}

fn archives(frame: &[u8], rng: &mut Rng) -> Vec<(String, Content)> {
    let mut out: Vec<(String, Vec<u8>)> = Vec::new();
    for name in [
        &b"a/x.b2nd"[..],
        b"../x.b2nd",
        b"a/../../x.b2nd",
        b"/etc/x.b2nd",
        b"a\\..\\x.b2nd",
        b"a\0/x.b2nd",
        b"./x.b2nd",
        b"a//x.b2nd",
        b".b2nd",
        b"\xff\xfe.b2nd",
        b"C:x.b2nd",
        b"embed.b2e",
        b"\x1b[2J.b2nd",
    ] {
        out.push((String::from_utf8_lossy(name).into_owned(), zip(&[Member::new(name, frame)])));
    }
    let long = "d/".repeat(20_000) + "x.b2nd";
    out.push(("a long name".into(), zip(&[Member::new(long, frame)])));
    let one = || Member::new("x.b2nd", frame);
    out.push(("the same name twice".into(), zip(&[one(), one()])));
    for method in [8, 93, 99, 0xFFFF] {
        out.push((format!("method {method}"), zip(&[Member { method, ..one() }])));
    }
    for size in [0, 1, frame.len() as u32 + 1, u32::MAX, u32::MAX - 1, 1 << 31] {
        out.push((format!("size {size}"), zip(&[Member { size, ..one() }])));
    }
    for shift in [1, 30, 1000, 1 << 31, 0xFFFF_FFFF] {
        out.push((format!("place moved by {shift}"), zip(&[Member { shift, ..one() }])));
    }
    let names: Vec<String> = (0..20_000).map(|n| format!("m{n}.b2nd")).collect();
    out.push((
        "20,000 members".into(),
        zip(&names.iter().map(|name| Member::new(name, b"")).collect::<Vec<_>>()),
    ));
    let whole = zip(&[one(), Member::new("y.b2nd", frame)]);
    for n in 0..60 {
        out.push((format!("cut ({n})"), whole[..whole.len() - 1 - n * 3].to_vec()));
        let mut flipped = whole.clone();
        // Damage the directory and the headers, not the members.
        let at = if n % 3 == 0 { rng.within(0..=40) } else { whole.len() - 1 - rng.within(0..=120) };
        flipped[at] = rng.next() as u8;
        out.push((format!("byte {at} changed ({n})"), flipped));
    }
    out.into_iter().map(|(name, bytes)| (name, Content::file(bytes))).collect()
}

fn folders(frame: &[u8]) -> Vec<(String, Content)> {
    let with = |name: &str, node: Node| {
        let mut content = Content::folder([("a/x.b2nd".to_owned(), frame.to_vec())]);
        content.set(name, node);
        content
    };
    let deep = "d/".repeat(100) + "x.b2nd";
    vec![
        ("fine".into(), with("y.b2nd", Node::File(frame.to_vec()))),
        ("a link out of it".into(), with("y.b2nd", Node::Link("../../../../../../../../etc/passwd".into()))),
        ("a link to its parent".into(), with("b", Node::Link("..".into()))),
        ("a link to itself".into(), with("y.b2nd", Node::Link("y.b2nd".into()))),
        ("a link to /dev/zero".into(), with("y.b2nd", Node::Link("/dev/zero".into()))),
        ("a FIFO".into(), with("y.b2nd", Node::Fifo)),
        ("a socket".into(), with("y.b2nd", Node::Socket)),
        ("a member that is not readable".into(), with("y.b2nd", Node::Locked(frame.to_vec()))),
        ("an embedding FIFO".into(), with("embed.b2e", Node::Fifo)),
        ("an embedding link".into(), with("embed.b2e", Node::Link("/etc/passwd".into()))),
        ("an empty embedding".into(), with("embed.b2e", Node::File(Vec::new()))),
        ("an embedding folder".into(), with("embed.b2e", Node::Folder)),
        ("a name with control characters".into(), with("\u{1b}[2J\n.b2nd", Node::File(frame.to_vec()))),
        ("deep".into(), Content::folder([(deep, frame.to_vec())])),
        ("garbage".into(), with("y.b2nd", Node::File(vec![0xC1; 999]))),
    ]
}

/// Returns a frame that contains other frames, with this map of them.
fn embedded(frame: &[u8], map: &[u8]) -> Vec<u8> {
    let plain = frame.repeat(2);
    let mut parts = FrameParts::empty(1, plain.len() as u32, plain.len() as u64);
    parts.metalayers.push((b"b2embed".to_vec(), b"\x81\xa7version\x01".to_vec()));
    parts.data = memcpyed(&plain, 1);
    parts.set_entries(&[0]);
    parts.vlmetalayers.push((b"estore_metadata".to_vec(), memcpyed(map, 1)));
    parts.encode_plain()
}

fn maps(len: u64) -> Vec<(String, Vec<u8>)> {
    let number = |n: u64| [&[0xCF][..], &n.to_be_bytes()].concat();
    let place = |offset: u64, len: u64| {
        [b"\x82\xa6offset".to_vec(), number(offset), b"\xa6length".to_vec(), number(len)].concat()
    };
    let map = |entries: &[(&str, Vec<u8>)]| {
        let mut out = b"\x81\xa9embed_map\xde".to_vec();
        out.extend_from_slice(&(entries.len() as u16).to_be_bytes());
        for (key, value) in entries {
            extend(&mut out, &[&[0xD9, key.len() as u8], key.as_bytes(), value]);
        }
        out
    };
    let mut out: Vec<(String, Vec<u8>)> = Vec::new();
    for (offset, length) in [
        (0, len),
        (len, len),
        (len / 2, len),
        (0, 2 * len),
        (0, 0),
        (0, 1),
        (1, len),
        (2 * len, 0),
        (2 * len, 1),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
        (1 << 63, 1 << 63),
        (0, u64::MAX),
    ] {
        out.push((format!("member at {offset} of {length}"), map(&[("/x", place(offset, length))])));
    }
    for key in ["../x", "/../x", "", "/", "\u{0}", "//x", "x", "/embed", "\u{1b}[2J"] {
        out.push((format!("key {key:?}"), map(&[(key, place(0, len))])));
    }
    out.push(("the same key twice".into(), map(&[("/x", place(0, len)), ("/x", place(len, len))])));
    out.push(("a place that is none".into(), map(&[("/x", vec![0xC0])])));
    out.push(("a place without length".into(), map(&[("/x", b"\x81\xa6offset\x01".to_vec())])));
    out.push(("negative".into(), map(&[("/x", b"\x82\xa6offset\xff\xa6length\xff".to_vec())])));
    out.push(("no map".into(), vec![0xC0]));
    out.push(("nothing".into(), vec![]));
    out.push(("a list".into(), b"\x81\xa9embed_map\x93\x01\x02\x03".to_vec()));
    out.push(("many keys".into(), {
        let keys: Vec<String> = (0..9000).map(|n| format!("/k{n}")).collect();
        map(&keys.iter().map(|key| (key.as_str(), place(0, len))).collect::<Vec<_>>())
    }));
    out
}

fn garbage(frame: &[u8], rng: &mut Rng) -> Vec<(String, Content, Expect)> {
    let mut out = Vec::new();
    let mut add = |name: String, content: Content, expect: Expect| out.push((name, content, expect));
    for len in (0..=40).chain([100, 1000, 100_000]) {
        add(format!("{len} zeros"), Content::file(vec![0; len]), Expect::Reject);
        add(format!("{len} bytes of noise"), Content::file(rng.bytes(len)), Expect::Any);
        add(format!("{len} times 0xFF"), Content::file(vec![0xFF; len]), Expect::Reject);
        add(
            format!("the first {len} bytes of a frame"),
            Content::file(frame[..len.min(150)].to_vec()),
            Expect::Reject,
        );
    }
    add(
        "a text".into(),
        Content::file(b"The quick brown fox jumps over the lazy dog.\n".repeat(9)),
        Expect::Reject,
    );
    add("a NumPy file".into(), Content::file(b"\x93NUMPY\x01\0v\0{'descr': '<i4'}".to_vec()), Expect::Reject);
    for (name, node) in [
        ("a FIFO", Node::Fifo),
        ("a socket", Node::Socket),
        ("a folder", Node::Folder),
        ("a link to /dev/zero", Node::Link("/dev/zero".into())),
        ("a link to /dev/null", Node::Link("/dev/null".into())),
        ("a link to /dev/tty", Node::Link("/dev/tty".into())),
        ("a link to nothing", Node::Link("nothing".into())),
        ("a link to /proc/self/mem", Node::Link("/proc/self/mem".into())),
        ("a link to /proc/kmsg", Node::Link("/proc/kmsg".into())),
    ] {
        add(name.into(), Content::node(node), Expect::Reject);
    }
    // This is a store if that folder contains frames.
    add("a link to the folder above".into(), Content::node(Node::Link("..".into())), Expect::Any);
    add("not readable".into(), Content::node(Node::Locked(frame.to_vec())), Expect::Any);
    let folder = |name: &str, node: Node| {
        let mut content = Content::node(Node::Folder);
        content.set(name, node);
        content
    };
    for (name, node) in [
        ("chunks.b2frame", Node::File(frame.to_vec())),
        ("chunks.b2frame", Node::Link("chunks.b2frame".into())),
        ("00000000.chunk", Node::File(frame.to_vec())),
        ("chunks.b2frame", Node::Folder),
    ] {
        add(
            format!("a folder with {name}, {}", matches!(node, Node::File(_))),
            folder(name, node),
            Expect::Reject,
        );
    }
    out
}

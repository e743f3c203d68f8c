//! The command line with arbitrary arguments on a few files, and with arbitrary input files.
//!
//! Arguments are restricted so that they cannot name anything outside this process's directory, or request an amount of
//! work that legitimately takes long.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use b2_chunk::{Chunk, CodecId, Compression};
use b2_frame::{FrameParams, FrameWriter};
use b2nd::{ArrayBuilder, Dtype};

use crate::frame::scratch;

/// Words used to build arguments.
const WORDS: &[&str] = &[
    "info",
    "cat",
    "verify",
    "pack",
    "copy",
    "append",
    "set",
    "resize",
    "insert",
    "delete",
    "chunk",
    "vlmeta",
    "checksum",
    "compact",
    "diff",
    "salvage",
    "ls",
    "items",
    "completions",
    "batch",
    "help",
    "a.b2nd",
    "f.b2frame",
    "c.chunk",
    "n.npy",
    "r.raw",
    "s.b2d",
    "x.b2nd",
    "d.b2nd",
    "--json",
    "--meta",
    "--vlmeta",
    "--chunks",
    "--slice",
    "--slice=1:3",
    "--slice=::2,0",
    "--npy",
    "-o",
    "--force",
    "--format",
    "sframe",
    "cframe",
    "--codec",
    "lz4",
    "zstd",
    "auto",
    "--clevel",
    "9",
    "--filters",
    "shuffle",
    "none",
    "bitshuffle,delta",
    "--dtype",
    "<f4",
    "--shape",
    "4,5",
    "--typesize",
    "--blocksize",
    "--chunksize",
    "1K",
    "--key",
    "k",
    "--offset",
    "1",
    "0",
    "-1",
    "--quiet",
    "--verbose",
    "--no-checksums",
    "--files-from",
    "add",
    "remove",
    "get",
    "update",
    "--axis",
    "--at",
    "--value",
    "3.5",
    "u=1",
    "u=\"x\"",
    "--",
    "--help",
    "--dict",
    "--splitmode",
    "always",
    "bash",
    "2,3",
    ":",
    "1:2",
    "...",
];

fn files() -> &'static BTreeMap<&'static str, Vec<u8>> {
    static FILES: LazyLock<BTreeMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
        let items: Vec<u8> = (0..20u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let cparams = Compression::new().itemsize(4).codec(CodecId::LZ4).build().expect("parameters");
        let dtype = Dtype::parse("<f4").expect("a dtype");
        let array = ArrayBuilder::of_dtype([4, 5], dtype)
            .chunks([2, 3])
            .blocks([1, 2])
            .compression(cparams.clone())
            .vlmetalayer("u", b"\x01")
            .to_bytes(&items[..])
            .expect("an array");
        let chunk = Chunk::compress_bytes(&items, &cparams).expect("a chunk");
        let mut frame = FrameWriter::memory(FrameParams::from_cparams(&cparams)).expect("a frame");
        frame.append(chunk.clone()).expect("a chunk");
        let frame = frame.finish().expect("a frame").into_bytes();
        let mut npy = b"\x93NUMPY\x01\0".to_vec();
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 5), }\n";
        npy.extend((header.len() as u16).to_le_bytes());
        npy.extend(header.bytes());
        npy.extend(&items);
        BTreeMap::from([
            ("a.b2nd", array.to_vec()),
            ("f.b2frame", frame.to_vec()),
            ("c.chunk", chunk.into_bytes().to_vec()),
            ("n.npy", npy),
            ("r.raw", items),
        ])
    });
    &FILES
}

/// Changes to a new directory with fresh files.
fn folder() {
    let folder = scratch().join("cli");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("s.b2d")).expect("a folder");
    for (name, bytes) in files() {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    fs::write(folder.join("s.b2d").join("k.b2nd"), &files()["a.b2nd"]).expect("a member");
    std::env::set_current_dir(&folder).expect("the folder is there");
}

fn is_fresh() -> bool {
    let Ok(dir) = fs::read_dir(".") else { return false };
    let mut count = 0;
    for entry in dir.flatten() {
        let name = entry.file_name();
        let Some(wanted) = name.to_str().and_then(|name| files().get(name)) else {
            if name == "s.b2d" {
                continue;
            }
            return false;
        };
        if fs::read(entry.path()).is_ok_and(|bytes| bytes != *wanted) {
            return false;
        }
        count += 1;
    }
    count == files().len() && std::env::current_dir().is_ok_and(|dir| dir.starts_with(scratch()))
}

/// The input is a list of arguments. Bytes from 128 on stand for words, a zero byte ends an argument, and any other
/// byte stands for itself.
pub(crate) fn arguments(data: &[u8]) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock();
    let mut args: Vec<String> = vec![String::new()];
    for byte in data.iter().take(120) {
        let Some(last) = args.last_mut() else { return };
        match byte {
            0 => args.push(String::new()),
            128.. => {
                if !last.is_empty() && !last.ends_with('=') && !last.ends_with(',') {
                    args.push(String::new());
                }
                let word = WORDS[usize::from(byte - 128) % WORDS.len()];
                args.last_mut().expect("one was pushed").push_str(word);
            }
            // Words beyond those that fit in 128 values.
            1 => args.last_mut().expect("one is there").push_str("x.b2nd"),
            byte => last.push(char::from(*byte)),
        }
    }
    let args: Vec<String> = args.into_iter().filter(|arg| !arg.is_empty()).map(|arg| tame(&arg)).collect();
    if !is_fresh() {
        folder();
    }
    let line = serde_json::to_vec(&args).expect("strings");
    let (rc, _out, err) = b2_cli::batch_line(&line);
    assert!(rc <= 2, "exit code {rc}");
    assert!(!err.contains("panicked"), "{err}");
}

/// Removes directories, numbers of more than three digits, and options that set the number of threads.
fn tame(arg: &str) -> String {
    let mut out = String::new();
    let mut digits = 0;
    for c in arg.chars() {
        digits = if c.is_ascii_digit() || c.is_ascii_alphabetic() && digits > 0 { digits + 1 } else { 0 };
        match c {
            '/' | '\\' | '~' => out.push('_'),
            '.' if out.ends_with("..") => {}
            // 9e300, 9G, 9T, 0x...
            'e' | 'E' | 'g' | 'G' | 't' | 'T' | 'm' | 'M' | 'x' | 'X' | 'k' | 'K' if digits > 1 => {
                out.push('_')
            }
            c if c.is_ascii_digit() && digits > 3 => {}
            c => out.push(c),
        }
    }
    if out == ".." || out == "." { "_".into() } else { out }
}

/// The input is a file: an archive, a frame with others inside, a `.npy` file, or a chunk. It is passed to every
/// command that reads.
pub(crate) fn file(data: &[u8]) {
    let folder = scratch().join("store");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("input");
    fs::write(&path, data).expect("a file");
    commands(&path);
}

/// The input holds several files, which become the members of a directory.
pub(crate) fn directory(data: &[u8]) {
    let folder = scratch().join("store.b2d");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("g")).expect("a folder");
    const NAMES: [&str; 6] = ["embed.b2e", "a.b2nd", "g/b.b2nd", "c.b2f", "g/embed.b2e", "note.txt"];
    for (id, file) in crate::sparse::unpack(data).take(8) {
        fs::write(folder.join(NAMES[id as usize % NAMES.len()]), file).expect("a member");
    }
    commands(&folder);
}

fn commands(path: &Path) {
    let run = |args: &[&str]| -> (u8, Vec<u8>) {
        let line = serde_json::to_vec(args).expect("strings");
        let (rc, out, err) = b2_cli::batch_line(&line);
        assert!(rc <= 1, "{args:?}: exit code {rc}: {err}");
        (rc, out)
    };
    let path = path.to_str().expect("our own name");
    let (_, listed) = run(&["ls", path]);
    let (_, info) = run(&["info", "--json", path]);
    let small = tells_small(&info);
    if small {
        run(&["verify", path]);
        run(&["items", path]);
    }
    let keys = String::from_utf8_lossy(&listed);
    for key in keys.lines().filter_map(|line| line.split_whitespace().next()).take(4) {
        let (_, info) = run(&["info", "--json", path, "--key", key]);
        if tells_small(&info) {
            run(&["cat", path, "--key", key]);
        }
    }
}

/// Returns whether the output of `info` shows data small enough to decode quickly.
fn tells_small(info: &[u8]) -> bool {
    let Ok(info) = serde_json::from_slice::<serde_json::Value>(info) else { return true };
    let nbytes = info.get("nbytes").and_then(serde_json::Value::as_u64);
    nbytes.is_none_or(|nbytes| nbytes < 1 << 20)
}

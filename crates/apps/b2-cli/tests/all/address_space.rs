//! Small files that expand to large data, and large inputs, in a limited address space.
//!
//! `--skip=address_space::` skips these tests where the address space cannot be limited: sanitizers and emulators
//! reserve large amounts themselves.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use crate::common::{Folder, npy, sha256};
use b2kit::chunk::SpecialKind;
use b2kit::frame::FrameParams;
use b2kit::nd::{ArrayMeta, METALAYER};
use b2kit::{FrameWriter, SuperChunk};

/// Replaces an i64 wherever it occurs in a frame's header or metalayers.
fn patch(frame: &mut [u8], from: u64, to: u64) {
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let mut found = 0;
    for at in 0..frame.len() - 8 {
        if frame[at] == 0xD3 && frame[at + 1..at + 9] == from {
            frame[at + 1..at + 9].copy_from_slice(&to);
            found += 1;
        }
    }
    assert!(found > 0);
}

/// Creates an array of two chunks of zeros that claims to have `n` of them.
fn zeros(folder: &Folder, name: &str, chunk: u64, n: u64) -> usize {
    let meta = ArrayMeta {
        shape: vec![2 * chunk],
        chunkshape: vec![chunk as u32],
        blockshape: vec![chunk as u32],
        dtype_format: 0,
        dtype: Some(b"|u1".to_vec()),
    };
    let params = FrameParams::new(1).chunksize(chunk as usize).blocksize(chunk as usize);
    let params = params.metalayer(METALAYER, meta.to_bytes());
    let mut writer = FrameWriter::options().checksums(false).memory(params).unwrap();
    for _ in 0..2 {
        writer.append_special(SpecialKind::Zeros, chunk as usize).unwrap();
    }
    let frame = writer.finish().unwrap().into_bytes();
    let index = SuperChunk::from_bytes(frame.clone()).unwrap().layout().index.start as usize;
    let mut frame = frame.to_vec();
    patch(&mut frame, 2 * chunk, n * chunk);
    // The index is a chunk that repeats one entry; its size is at byte 4.
    assert_eq!(frame[index + 4..index + 8], 16i32.to_le_bytes());
    frame[index + 4..index + 8].copy_from_slice(&(n as i32 * 8).to_le_bytes());
    folder.write(name, &frame);
    frame.len()
}

/// Runs with an address space of `kib` KiB.
fn run_within(folder: &Folder, kib: u64, args: &[&str]) -> Output {
    assert!(
        std::env::var_os("B2KIT_TEST_RUNNER").is_none(),
        "the limit would be the emulator's: leave this test out with --skip=address_space::"
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {kib} && exec \"$@\"")).arg("sh");
    shell.arg(env!("CARGO_BIN_EXE_b2kit")).args(args);
    shell.current_dir(folder.path("")).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a chunk of 41 bytes with one block of half a gigabyte: a run of one byte, with a filter.
fn large_block(filter: u8, meta: u8) -> Vec<u8> {
    const NBYTES: i32 = 536_866_816;
    let mut chunk = vec![5, 1, 0x95, 8];
    for field in [NBYTES, NBYTES, 41] {
        chunk.extend(field.to_le_bytes());
    }
    chunk.extend([0, 0, 0, 0, 0, filter, 5, 0, 0, 0, 0, 0, 0, meta, 0, 0]);
    chunk.extend(36i32.to_le_bytes());
    chunk.extend((-7i32).to_le_bytes());
    chunk.push(1);
    chunk
}

#[test]
fn a_tiny_file_of_zeros_is_told_at_once_and_in_little_memory() {
    let folder = Folder::new();
    let len = zeros(&folder, "bomb", 1 << 20, 1 << 27);
    assert!(len < 400, "{len}");
    let info = run_within(&folder, 150 << 10, &["-t", "1", "info", "--json", "bomb"]);
    assert_eq!(info.status.code(), Some(0), "{}", text(&info.stderr));
    let facts: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(facts["nbytes"], 1u64 << 47);
    assert_eq!(facts["special"]["zero"], 1u64 << 27);
    let verify = run_within(&folder, 150 << 10, &["-t", "1", "verify", "bomb"]);
    assert_eq!(verify.status.code(), Some(3), "{}", text(&verify.stderr));
    let line = text(&verify.stdout);
    assert!(line.starts_with("skipped\t-\t-\tbomb\t"), "{line}");
    assert!(line.contains("max_output of 2147483648 (--max-output BYTES raises it)"), "{line}");
    // Commands that write have to keep an index in memory.
    for command in ["copy", "salvage"] {
        let output = run_within(&folder, 300 << 10, &["-t", "1", command, "bomb", "new"]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(text(&output.stderr).contains("max_memory"), "{command}: {}", text(&output.stderr));
    }
    // `cat` writes data while they are read.
    let mut cat = folder.command(&["cat", "bomb"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut start = vec![1; 40 << 20];
    cat.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert!(start.iter().all(|&byte| byte == 0));
    assert_eq!(cat.wait().unwrap().code(), Some(0));
}

#[test]
fn very_many_tiny_chunks_of_zeros_are_no_work() {
    let folder = Folder::new();
    for chunk in [1, 8] {
        zeros(&folder, "many", chunk, 1 << 22);
        let info = run_within(&folder, 150 << 10, &["-t", "1", "info", "many"]);
        assert_eq!(info.status.code(), Some(0), "{}", text(&info.stderr));
        let verify = run_within(&folder, 200 << 10, &["-t", "1", "verify", "many"]);
        let nbytes = chunk << 22;
        let expected = format!("ok\t{nbytes}\t{}\tmany\n", sha256(&vec![0; nbytes as usize]));
        assert_eq!(text(&verify.stdout), expected, "{}", text(&verify.stderr));
    }
}

/// Chunks of a few bytes that claim to be gigabytes, in blocks of half a gigabyte.
#[test]
fn lies_about_sizes_cost_no_memory() {
    let folder = Folder::new();
    let raw: Vec<u8> = (0..4000u32).flat_map(|i| (i * i).to_le_bytes()).collect();
    for codec in ["zstd", "lz4", "blosclz", "zlib"] {
        for filters in ["none", "shuffle", "bitshuffle", "delta,shuffle"] {
            folder.pack(
                "c",
                &raw,
                &["--format", "chunk", "--codec", codec, "--filters", filters, "--typesize", "4"],
            );
            let mut chunk = folder.read("c");
            std::fs::remove_file(folder.path("c")).unwrap();
            for (nbytes, blocksize) in [(i32::MAX, 1 << 29), (i32::MAX - 3, 16_000), (1 << 29, 1 << 29)] {
                chunk[4..8].copy_from_slice(&nbytes.to_le_bytes());
                chunk[8..12].copy_from_slice(&i32::min(blocksize, 536_866_816).to_le_bytes());
                folder.write("lie", &chunk);
                let verify = run_within(&folder, 3 << 20, &["-t", "1", "verify", "lie"]);
                assert_eq!(verify.status.code(), Some(1), "{codec} {filters}: {}", text(&verify.stderr));
                assert!(text(&verify.stdout).starts_with("FAIL\t"));
            }
        }
    }
}

#[test]
fn buffers_for_large_blocks_are_counted() {
    let folder = Folder::new();
    // Bytedelta undoes whole blocks; delta needs the words before the part.
    for (filter, meta) in [(35, 8), (34, 8), (3, 0)] {
        folder.write("b", &large_block(filter, meta));
        for command in [&["verify", "b"][..], &["cat", "b"], &["cat", "--slice=-1", "b"], &["diff", "b", "b"]]
        {
            let output = run_within(&folder, 900 << 10, &[&["-t", "1"], command].concat());
            let message = text(&output.stdout) + &text(&output.stderr);
            let expected = if command[0] == "diff" { 2 } else { 1 };
            assert_eq!(output.status.code(), Some(expected), "{filter} {command:?}: {message}");
            assert!(message.contains("max_memory of 805306368"), "{filter} {command:?}: {message}");
        }
    }
}

/// Only the part that `verify` would read is compared.
#[test]
fn files_of_zeros_are_not_compared_for_ever() {
    let folder = Folder::new();
    zeros(&folder, "bomb", 1 << 20, 1 << 27);
    let diff = run_within(&folder, 200 << 10, &["-t", "1", "diff", "bomb", "bomb"]);
    assert_eq!(diff.status.code(), Some(2));
    assert!(text(&diff.stderr).contains("max_output of 2147483648"), "{}", text(&diff.stderr));
}

/// Chunks that are large for their file are processed in pieces.
#[test]
fn a_large_chunk_takes_little_memory() {
    let folder = Folder::new();
    zeros(&folder, "large", 500 << 20, 2);
    let cat = run_within(&folder, 400 << 10, &["-t", "1", "cat", "large", "--chunk", "1", "-o", "out"]);
    assert_eq!(cat.status.code(), Some(0), "{}", text(&cat.stderr));
    assert_eq!(fs::metadata(folder.path("out")).unwrap().len(), 500 << 20);
}

/// Memory stays below the size of the input, for raw bytes and for arrays in either order.
#[test]
fn large_inputs_need_little_memory() {
    let folder = Folder::new();
    // Sparse files: zeros that can be read but take no disk space.
    let items = 400_000_000;
    let files = [
        ("c.npy", npy("<i4", false, "(10000, 10000)", b""), "ndarray"),
        ("fortran.npy", npy("<i4", true, "(10000, 10000)", b""), "ndarray"),
        ("raw", vec![1], "schunk"),
    ];
    for (name, start, kind) in files {
        let path = folder.write(name, &start);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(start.len() as u64 + items).unwrap();
        // 300 MB, including program and thread stacks.
        for command in [
            &["-q", "-t", "2", "pack", "--force", name, "out", "--codec", "blosclz", "--clevel", "1"][..],
            &["-t", "2", "cat", "out", "-o", "/dev/null", "--force"],
        ] {
            let output = run_within(&folder, 300_000, command);
            assert_eq!(text(&output.stderr), "", "{command:?}");
            assert!(output.status.success(), "{command:?}");
        }
        assert_eq!(folder.info(&["out"])["kind"], kind);
    }
}

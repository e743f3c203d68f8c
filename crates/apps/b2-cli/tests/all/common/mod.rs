//! Runs the built command on files in a temporary directory.

#[cfg(all(target_os = "linux", feature = "terminal"))]
pub(crate) mod screen;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

/// Returns messages with Unix's texts for system errors.
pub(crate) fn plain(stderr: &[u8]) -> String {
    let mut text = String::from_utf8(stderr.to_vec()).unwrap();
    if cfg!(windows) {
        // No such file, and no such folder.
        for code in [2, 3] {
            let other = std::io::Error::from_raw_os_error(code).to_string();
            text = text.replace(&other, "No such file or directory (os error 2)");
        }
    }
    text
}

/// Returns a text with its paths in Unix form.
pub(crate) fn slashes(text: String) -> String {
    if cfg!(windows) { text.replace('\\', "/") } else { text }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns the names of everything in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = b2_storage_sim::program(env!("CARGO_BIN_EXE_b2kit"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs to the end, whatever the exit code.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed and print nothing to standard error (`pack`, `copy` and `verify` get `-q`).
    /// Returns standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> Vec<u8> {
        // These report what they did.
        let reports = matches!(args.first(), Some(&("pack" | "copy" | "verify")));
        let output = if reports { self.run(&[&["-q"], args].concat()) } else { self.run(args) };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert_eq!(stderr, "", "{args:?}");
        output.stdout
    }

    pub(crate) fn ok_text(&self, args: &[&str]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    /// Runs a command that changes a file. It must succeed and print nothing to standard output. Returns its messages.
    #[track_caller]
    pub(crate) fn change(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert_eq!(output.stdout, b"", "{args:?}");
        stderr
    }

    /// Copies a file, or a directory of files, from `testdata/` to this name.
    pub(crate) fn fixture<'a>(&self, name: &'a str, from: &str) -> &'a str {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata").join(from);
        if from.is_dir() {
            fs::create_dir(self.path(name)).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), self.path(name).join(entry.file_name())).unwrap();
            }
        } else {
            fs::copy(from, self.path(name)).unwrap();
        }
        name
    }

    /// Runs a command that must end with this exit code and print nothing to standard output. Returns the message.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = plain(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert_eq!(output.stdout, b"", "{args:?}");
        assert!(!stderr.is_empty(), "{args:?} says why");
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        stderr
    }

    /// Runs a command that must end with exit code 1 and exactly this message.
    #[track_caller]
    pub(crate) fn refuses(&self, args: &[&str], message: &str) {
        let expected = format!("b2kit: {message}\n");
        assert_eq!(slashes(self.fails(1, args)), slashes(expected), "{args:?}");
    }

    pub(crate) fn with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The child may not read all of it.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// Returns the facts about a file, without its name.
    pub(crate) fn info(&self, args: &[&str]) -> Value {
        let mut all = vec!["info", "--json"];
        all.extend(args);
        let mut facts: Value = serde_json::from_slice(&self.ok(&all)).unwrap();
        let name = facts.as_object_mut().unwrap().shift_remove("file");
        assert!(name.is_some_and(|name| name.is_string()), "{args:?}");
        facts
    }

    /// Packs arbitrary `bytes` under this name, replacing any existing file. Returns the name.
    pub(crate) fn pack<'a>(&self, name: &'a str, bytes: &[u8], options: &[&str]) -> &'a str {
        let input = self.write(&format!("{name}.in"), bytes);
        let mut args = vec!["pack", input.to_str().unwrap(), name, "--force"];
        if !bytes.starts_with(b"\x93NUMPY") {
            args.push("--raw");
        }
        args.extend(options);
        assert_eq!(self.ok(&args), b"");
        fs::remove_file(input).unwrap();
        name
    }
}

/// Returns an `.npy` file as NumPy writes it (version 1.0), with these item bytes.
pub(crate) fn npy(descr: &str, fortran_order: bool, shape: &str, items: &[u8]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    let descr = if descr.starts_with('[') { descr.to_owned() } else { format!("'{descr}'") };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    let dims: Vec<&str> = shape.trim_matches(['(', ')']).split(',').map(str::trim).collect();
    let growing = if fortran_order { dims.iter().rfind(|d| !d.is_empty()) } else { dims.first() };
    if let Some(dim) = growing.filter(|d| !d.is_empty()) {
        text.push_str(&" ".repeat(21 - dim.len()));
    }
    text.push_str(&" ".repeat(64 - (10 + text.chars().count() + 1) % 64));
    text.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.chars().count() as u16).to_le_bytes());
    out.extend(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()));
    out.extend(items);
    out
}

/// The formats of frames.
pub(crate) const FORMATS: [&str; 2] = ["cframe", "sframe"];
/// Options that add a metalayer of each kind.
pub(crate) const META: [&str; 4] = ["--meta", "m=[1,2]", "--vlmeta", "v={\"a\":1.5}"];

/// Returns these numbers as little-endian i32.
pub(crate) fn ints(items: impl IntoIterator<Item = i32>) -> Vec<u8> {
    items.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Returns `n` little-endian i32 that count up from 0.
pub(crate) fn counting(n: i32) -> Vec<u8> {
    ints(0..n)
}

/// Returns bytes that hardly compress (a linear congruential generator).
pub(crate) fn noise(n: usize) -> Vec<u8> {
    let mut state = 12345u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Formats a number with commas between thousands.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

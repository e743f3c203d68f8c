//! `b2kit view` in a terminal: it opens, answers keys, and gives the terminal back, whatever happens.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::common::{Folder, counting, npy};
use crate::view::pack_damaged;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that runs in a terminal.
struct Session {
    child: Child,
    ours: File,
    /// Keeps the terminal, whose modes are looked at when the command has ended.
    theirs: File,
    pieces: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

/// Starts a command in a new terminal, of which it returns both ends.
fn start(folder: &Folder, args: &[&str]) -> (Child, File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs: File = rustix::fs::open(name, flags, Mode::empty()).unwrap().into();
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let mut command = folder.command(args);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    (child, File::from(ours), theirs)
}

impl Session {
    fn start(folder: &Folder, args: &[&str]) -> Self {
        let (child, ours, theirs) = start(folder, args);
        let (sender, pieces) = channel();
        let mut from = ours.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut piece) {
                if sender.send(piece[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, ours, theirs, pieces, seen: Vec::new() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits until the screen has got this text since the last wait.
    #[track_caller]
    fn wait(&mut self, text: &str) {
        let start = Instant::now();
        while !self.text().contains(text) {
            assert!(start.elapsed() < PATIENCE, "no {text:?} in {:?}", self.text());
            if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(100)) {
                self.seen.extend(piece);
            }
        }
        self.seen.clear();
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the command. Returns what the screen got, after checking that the terminal is as before.
    #[track_caller]
    fn end(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end: {:?}", self.text());
            }
            if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(20)) {
                self.seen.extend(piece);
            }
        };
        while let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(200)) {
            self.seen.extend(piece);
        }
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
        let text = self.text();
        assert!(!text.contains("panicked"), "{text:?}");
        (status, text)
    }
}

const LEFT: &str = "\x1b[?1049l";

#[test]
fn open_move_and_quit() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(9, 40, 60)", &counting(9 * 2400)), &["--chunks", "1,20,60"]);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.wait("\x1b[?1049h");
    session.wait("[<4>, :, :]");
    session.wait("\u{2580}");
    session.press(".");
    session.wait("5");
    session.press("2");
    session.wait("12001");
    session.press("4");
    session.wait("ratio from");
    session.press("?");
    session.wait("quit");
    session.press("xq");
    let (status, text) = session.end();
    assert!(status.success(), "{text:?}");
    assert!(text.contains(LEFT) && text.contains("\x1b[?25h"), "{text:?}");
}

#[test]
fn control_c_and_signals_give_the_terminal_back() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.wait("\u{2580}");
    session.press("\x03");
    let (status, text) = session.end();
    assert_eq!(status.code(), Some(0), "{text:?}");
    assert!(text.contains(LEFT), "{text:?}");
    let mut session = Session::start(&folder, &["view", "a"]);
    session.wait("\u{2580}");
    let pid = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (status, text) = session.end();
    assert_eq!(status.code(), Some(143), "{text:?}");
    assert!(text.contains(LEFT), "{text:?}");
}

#[test]
fn the_end_of_the_terminal_is_the_end() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    // Without a session of its own the command gets no signal when the terminal is closed.
    let (mut child, mut ours, theirs) = start(&folder, &["view", "a"]);
    drop(theirs);
    let (mut piece, mut seen) = ([0; 4096], String::new());
    while !seen.contains('\u{2580}') {
        let len = ours.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..len]));
    }
    drop(ours);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(1));
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let folder = Folder::new();
    folder.write("text", b"no compressed file, not at all");
    for (args, words) in [(&["view", "text"][..], "not a Blosc2 file"), (&["view", "none"], "No such file")] {
        let (status, text) = Session::start(&folder, args).end();
        assert_eq!(status.code(), Some(1), "{args:?}: {text:?}");
        assert!(text.contains(words), "{args:?}: {text:?}");
        let behind = text.rsplit(LEFT).next().unwrap();
        assert!(behind.contains(words), "it is said after the terminal is given back: {text:?}");
    }
    // Damage that is found later is told in the last line, and the viewer goes on.
    pack_damaged(&folder);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.wait("damaged");
    session.press("4");
    session.wait("chunks:");
    session.press("q");
    assert!(session.end().0.success());
}

#[test]
fn members_of_stores_are_listed() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("s.b2d")).unwrap();
    folder.pack("s.b2d/one.b2nd", &npy("<i4", false, "(5, 6)", &counting(30)), &[]);
    folder.pack("s.b2d/two.b2nd", &npy("<i4", false, "(70,)", &counting(70)), &[]);
    let mut session = Session::start(&folder, &["view", "s.b2d"]);
    session.wait("one");
    session.press("\x1b[B\r");
    session.wait("(70)");
    session.press("q");
    assert!(session.end().0.success());
}

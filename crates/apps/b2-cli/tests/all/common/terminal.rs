//! Runs programs in a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Runs a command in a terminal with this many columns, types `typed`, and returns the output.
pub(crate) fn run(command: &mut Command, columns: u16, typed: &[u8]) -> (ExitStatus, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs: File = rustix::fs::open(name, flags, Mode::empty()).unwrap().into();
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let mut child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    // `Command` holds copies of the terminal until it is dropped.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(theirs);
    let mut ours = File::from(ours);
    ours.write_all(typed).unwrap();
    let mut screen = Vec::new();
    let mut piece = [0; 4096];
    // Reading fails when the last program has closed the terminal.
    while let Ok(n @ 1..) = ours.read(&mut piece) {
        screen.extend(&piece[..n]);
    }
    (child.wait().unwrap(), String::from_utf8_lossy(&screen).into_owned())
}

//! Runs programs in a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Starts a command in a new terminal with this many columns and rows. Returns both ends of the terminal: ours and that of the
/// command.
pub(crate) fn start(command: &mut Command, [columns, rows]: [u16; 2]) -> (Child, File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    // Cells of 8 x 16 pixels.
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 8 * columns, ws_ypixel: 16 * rows };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs: File = rustix::fs::open(name, flags, Mode::empty()).unwrap().into();
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    // `Command` holds copies of the terminal until it is dropped.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    (child, File::from(ours), theirs)
}

/// Runs a command in a terminal with this many columns, types `typed`, and returns the output.
pub(crate) fn run(command: &mut Command, columns: u16, typed: &[u8]) -> (ExitStatus, String) {
    let (mut child, mut ours, theirs) = start(command, [columns, 24]);
    drop(theirs);
    ours.write_all(typed).unwrap();
    let mut screen = Vec::new();
    let mut piece = [0; 4096];
    // Reading fails when the last program has closed the terminal.
    while let Ok(n @ 1..) = ours.read(&mut piece) {
        screen.extend(&piece[..n]);
    }
    (child.wait().unwrap(), String::from_utf8_lossy(&screen).into_owned())
}

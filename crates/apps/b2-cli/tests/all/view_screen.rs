//! `b2kit view` in a terminal: it opens, responds to keys, and always restores the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, tcgetattr};

use crate::common::screen::Screen;
use crate::common::{Folder, counting, npy, terminal};
use crate::show::picture;
use crate::view::pack_damaged;

/// Much longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A command that runs in a terminal.
pub(crate) struct Session {
    child: Child,
    ours: File,
    /// Keeps the terminal open, whose modes are checked after the command has ended.
    theirs: File,
    pieces: Receiver<Vec<u8>>,
    /// The output since the last wait, and all output.
    seen: Vec<u8>,
    all: Vec<u8>,
    size: [u16; 2],
}

/// Columns and rows.
const SIZE: [u16; 2] = [100, 24];

/// Starts a command in a new terminal.
fn start(folder: &Folder, args: &[&str], size: [u16; 2]) -> (Child, File, File) {
    let mut command = folder.command(args);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    for name in ["TMUX", "STY", "TERM_PROGRAM", "KONSOLE_VERSION"] {
        command.env_remove(name);
    }
    terminal::start(&mut command, size)
}

impl Session {
    pub(crate) fn start(folder: &Folder, args: &[&str]) -> Self {
        Self::sized(folder, args, SIZE)
    }

    fn sized(folder: &Folder, args: &[&str], size: [u16; 2]) -> Self {
        let (child, ours, theirs) = start(folder, args, size);
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
        Self { child, ours, theirs, pieces, seen: Vec::new(), all: Vec::new(), size }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Receives output, for up to this duration.
    pub(crate) fn take(&mut self, wait: Duration) {
        if let Ok(piece) = self.pieces.recv_timeout(wait) {
            self.all.extend(&piece);
            self.seen.extend(piece);
        }
    }

    /// The contents of the screen.
    fn screen(&self) -> Screen {
        Screen::of(self.size.map(usize::from), &self.all)
    }

    /// Waits until the screen satisfies a condition.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, is_there: impl Fn(&Screen) -> bool) -> Screen {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                self.seen.clear();
                return screen;
            }
            assert!(start.elapsed() < TIMEOUT, "no {what} in\n{}", screen.text());
            self.take(Duration::from_millis(100));
        }
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    fn shows(&mut self, text: &str) -> Screen {
        self.until(text, |screen| screen.text().contains(text))
    }

    /// Waits until this text was output since the last wait.
    #[track_caller]
    fn wait(&mut self, text: &str) {
        let start = Instant::now();
        while !self.text().contains(text) {
            assert!(start.elapsed() < TIMEOUT, "no {text:?} in {:?}", self.text());
            self.take(Duration::from_millis(100));
        }
        self.seen.clear();
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the command, and checks that the terminal was restored. Returns the output.
    #[track_caller]
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > TIMEOUT {
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

/// Ctrl-Z restores the terminal and stops the process; afterwards the screen is drawn again.
#[test]
fn suspended_and_continued() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.shows("?: keys");
    session.press("\x1a");
    session.wait(LEFT);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", session.child.id())).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    };
    let start = Instant::now();
    while !state() {
        assert!(start.elapsed() < TIMEOUT, "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    let modes = tcgetattr(&session.theirs).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
    let id = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(id, rustix::process::Signal::CONT).unwrap();
    session.wait("\x1b[?1049h");
    session.shows("?: keys");
    session.press("q");
    session.wait(LEFT);
    assert!(session.child.wait().unwrap().success());
}

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
    // Without a separate session, the command gets no signal when the terminal is closed.
    let (mut child, mut ours, theirs) = start(&folder, &["view", "a"], SIZE);
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
        if start.elapsed() > TIMEOUT {
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
        let after = text.rsplit(LEFT).next().unwrap();
        assert!(after.contains(words), "it is said after the terminal is given back: {text:?}");
    }
    // Damage found later is reported in the last line, and the viewer continues.
    pack_damaged(&folder);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.wait("damaged");
    session.press("4");
    session.shows("4 chunks: 3 stored, 1 damaged");
    session.press("q");
    assert!(session.end().0.success());
    // A message longer than a line takes several lines.
    let message = folder.fails(1, &["cat", "a"]);
    let message = message.trim_start_matches("b2kit: a: ").trim_end();
    let mut session = Session::sized(&folder, &["view", "a"], [40, 20]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    session.until("the whole message", |screen| words(&screen.text()).contains(&words(message)));
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

/// The base64 of the pictures that were sent to Kitty, without those that were removed or replaced.
fn kitty(text: &str) -> String {
    let mut data = String::new();
    for message in text.split("\x1b_G").skip(1) {
        let (head, part) = message.split_once("\x1b\\").unwrap().0.split_once(';').unwrap_or(("a=d", ""));
        if head.contains("a=T") {
            data.clear();
        }
        data.push_str(part);
    }
    data
}

/// The base64 of the last picture that was sent to iTerm2.
fn iterm2(text: &str) -> String {
    let message = text.rsplit("\x1b]1337;File=").next().unwrap();
    message.split_once('\x07').unwrap().0.rsplit_once(':').unwrap().1.to_owned()
}

/// Rows and columns of a picture, and the colour of each pixel that is not transparent.
fn pixels(png: &[u8]) -> ([usize; 2], Vec<Option<[u8; 3]>>) {
    let (width, height, bytes) = picture(png);
    let pixels = bytes.chunks(4).map(|c| (c[3] > 0).then_some([c[0], c[1], c[2]])).collect();
    ([height as usize, width as usize], pixels)
}

#[test]
fn terminals_with_pixels_get_the_colours_of_all_items() {
    type Data = fn(&str) -> String;
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    let (size, items) = pixels(&folder.ok(&["cat", "a", "--png"]));
    assert_eq!(size, [40, 60]);
    for (how, end, data) in [("kitty", "\x1b\\", kitty as Data), ("iterm2", "\x07", iterm2 as Data)] {
        let mut session = Session::start(&folder, &["view", "a", "--pixels", how]);
        let begin = if how == "kitty" { "a=T" } else { "]1337;File=" };
        let start = Instant::now();
        // The picture, and the screen after it.
        while !(session.text().contains(begin) && session.text().rsplit(begin).next().unwrap().contains(end))
        {
            assert!(start.elapsed() < TIMEOUT, "no picture in {:?}", session.text());
            if let Ok(piece) = session.pieces.recv_timeout(Duration::from_millis(100)) {
                session.seen.extend(piece);
            }
        }
        session.press("q");
        let (status, text) = session.end();
        assert!(status.success() && !text.contains('\u{2580}'), "{how}: {text:?}");
        let png = data_encoding::BASE64.decode(data(&text).as_bytes()).unwrap();
        let ([rows, columns], shown) = pixels(&png);
        // Cells at the edges may have transparent pixels beyond the picture.
        let is_there = |row: usize, column: usize| shown[row * columns + column].is_some();
        let high = (0..rows).take_while(|row| is_there(*row, 0)).count();
        let wide = (0..columns).take_while(|column| is_there(0, *column)).count();
        assert!(high >= 200 && wide >= 300, "{how}: {high} x {wide}");
        for row in 0..rows {
            for column in 0..columns {
                let item = (row < high && column < wide).then(|| {
                    let at = |k: usize, size: usize, len: usize| (2 * k + 1) * len / (2 * size);
                    items[at(row, high, 40) * 60 + at(column, wide, 60)].unwrap()
                });
                assert_eq!(shown[row * columns + column], item, "{how}: {row}, {column}");
            }
        }
        if how == "kitty" {
            assert!(text.contains("a=d,d=I"), "it is removed in the end");
        }
    }
}

#[test]
fn sixels_are_sent_where_the_terminal_is_known_to_have_them() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    let mut session = Session::start(&folder, &["view", "a", "--pixels", "sixel"]);
    session.wait("\x1bP0;1;0q\"1;1;");
    // Help covers the picture, which reappears afterwards.
    session.press("?");
    session.wait("swap rows");
    session.press("?");
    session.wait("\x1bP0;1;0q\"1;1;");
    session.press("q");
    assert!(session.end().0.success());
}

/// The colour of a value from 0 to `last` in pictures.
fn colours(folder: &Folder, name: &str) -> Vec<[u8; 3]> {
    pixels(&folder.ok(&["cat", name, "--png"])).1.into_iter().map(Option::unwrap).collect()
}

#[test]
fn keys_and_the_mouse_point_to_items() {
    let folder = Folder::new();
    // Coordinates of the rows, and names for all dimensions.
    let latitudes: Vec<u8> = (0..40).flat_map(|k| (f64::from(k) - 20.0).to_le_bytes()).collect();
    folder.pack("lat.b2nd", &npy("<f8", false, "(40,)", &latitudes), &[]);
    folder.change(&["vlmeta", "set", "lat.b2nd", "units", "\"degrees_north\""]);
    folder.pack("a.b2nd", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    folder.change(&["vlmeta", "set", "a.b2nd", "_ARRAY_DIMENSIONS", "[\"lat\", \"lon\"]"]);
    folder.change(&["vlmeta", "set", "a.b2nd", "units", "\"K\""]);
    let colours = colours(&folder, "a.b2nd");
    let mut session = Session::start(&folder, &["view", "a.b2nd"]);
    session.shows("down: lat, across: lon");
    session.press("i");
    let run = |row: usize, column: usize| {
        format!("[{row}, {column}]  lat {}.0 degrees_north: {} K", row as i32 - 20, row * 60 + column)
    };
    session.shows(&run(20, 30));
    session.press("\x1b[A\x1b[A\x1b[D");
    // The arms surround the item and do not cover it.
    let screen = session.until("the item above", |screen| {
        screen.text().contains(": ") && screen.text().contains('\u{2500}') && screen.text().contains("[18,")
    });
    let column = screen.text().lines().find(|line| line.contains('\u{2500}')).unwrap().to_owned();
    assert_eq!(column.matches('\u{2500}').count(), 6, "{column}");
    // It stops at the edge, and Escape hides it.
    session.press(&"\x1b[D".repeat(70));
    session.until("the first column", |screen| screen.text().contains(", 0]  lat -"));
    session.press("\x1b[C");
    session.press("\x1b");
    session.shows("down: lat, across: lon");
    // The mouse: column 31 and row 2 of the screen are those of the first item of the picture.
    session.press("\x1b[<35;31;2M");
    let screen = session.shows("[1, 0]  lat -19.0 degrees_north: 60 K");
    assert_eq!(screen.halves(1, 30).unwrap()[0], Some(colours[0]));
    let [column, row] = [40, 10];
    session.press(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"));
    let screen = session.until("another item", |screen| !screen.text().contains("[1, 0]  lat"));
    let line = screen.text().lines().find(|line| line.contains("degrees_north: ")).map(str::to_owned);
    let line = match line {
        Some(line) => line,
        None => session.shows("degrees_north: ").text(),
    };
    let value = line.split("degrees_north: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let value: usize = value.parse().unwrap();
    let shown = session.screen().halves(row - 1, column - 1).unwrap();
    assert!(shown.contains(&Some(colours[value])), "{value}: {shown:?}");
    // The wheel zooms around it.
    session.press(&format!("\x1b[<64;{column};{row}M"));
    session.until("a part", |screen| screen.line(0).contains("[") && !screen.line(0).contains("[:, :]"));
    // An index shows its item.
    session.press("0g39,59\r");
    session.shows(&run(39, 59));
    session.press("q");
    let (status, text) = session.end();
    assert!(status.success(), "{text:?}");
    for mode in ["1000", "1003", "1006"] {
        assert!(text.contains(&format!("\x1b[?{mode}l")), "the mouse is given back: {text:?}");
    }
}

#[test]
fn help_names_all_keys() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(9, 40, 60)", &counting(9 * 2400)), &[]);
    let mut session = Session::start(&folder, &["view", "a"]);
    session.shows("?: keys  q: quit");
    session.press("?");
    let screen = session.shows("  q         quit").text();
    for key in ["1 2 3 4", "arrows", ", .", "d o", "x ", "g ", "i ", "c l p", "n ", "r f", "Tab"] {
        assert!(screen.lines().any(|line| line.contains(&format!("  {key}"))), "{key}:\n{screen}");
    }
    session.press("?q");
    assert!(session.end().0.success());
}

#[cfg(not(feature = "web"))]
#[test]
fn a_build_without_the_page_says_how_to_get_it() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(40, 60)", &counting(2400)), &[]);
    for args in [
        &["view", "--web", "a"][..],
        &["view", "--html", "a.html", "a"],
        &["view", "--web", "--no-open", "a"],
    ] {
        let message = folder.fails(2, args);
        assert!(message.contains("--features web"), "{message}");
    }
    assert!(!folder.ok_text(&["view", "--help"]).contains("--web"));
}

/// The picture of the terminal in the documentation is up to date; `B2KIT_BLESS=1` writes it.
#[test]
fn screenshot_of_the_documentation() {
    let folder = Folder::new();
    let array = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../testdata/arrays/sea_surface_temperature.npy");
    folder.ok(&["pack", array.to_str().unwrap(), "sst.b2nd"]);
    let mut session = Session::sized(&folder, &["view", "sst.b2nd", "--slice=:,::-1"], [122, 28]);
    session.shows("[<6>, :, :]");
    session.press("\x1b[Hg0,20,83\r");
    let screen = session.until("the item, and a complete picture", |screen| {
        let text = screen.text();
        text.contains("[0, 69, 83]: ") && !text.contains("reading") && screen.halves(1, 60).is_some()
    });
    session.press("q");
    assert!(session.end().0.success());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/images/terminal.svg");
    let svg = screen.svg();
    if std::env::var_os("B2KIT_BLESS").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == svg, "{} is another picture: run this with B2KIT_BLESS=1", path.display());
}

/// Values are complete, or end with a mark at the edge of the screen.
#[test]
fn values_are_not_cut_without_a_mark() {
    let folder = Folder::new();
    let limits: Vec<u8> = [i64::MIN, i64::MAX].repeat(6).into_iter().flat_map(i64::to_le_bytes).collect();
    folder.pack("i", &npy("<i8", false, "(2, 6)", &limits), &[]);
    let numbers = [1.234_567_890_123_456_7e-15_f64, -0.1, 2e300, 1.0 / 3.0];
    let numbers: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
    folder.pack("f", &npy("<f8", false, "(2, 2)", &numbers), &[]);
    folder.pack("c", &npy("<c16", false, "(1, 2)", &numbers), &[]);
    folder.pack("r", &npy("[('a', '<f8'), ('b', '<f8')]", false, "(2,)", &numbers), &[]);
    let words = |name: &str| {
        let mut session = Session::sized(&folder, &["view", name], [100, 30]);
        session.shows("?: keys");
        session.press("2");
        let screen = session.until("values", |screen| {
            let text = screen.text();
            text.contains("values  ") && !text.contains("reading")
        });
        session.press("q");
        assert!(session.end().0.success());
        let screen = screen.text();
        let right = screen.lines().filter_map(|line| line.get(30..).map(str::to_owned));
        right
            .collect::<Vec<String>>()
            .join(" ")
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let found = words("i");
    for limit in [i64::MIN, i64::MAX] {
        assert!(found.contains(&limit.to_string()), "{found:?}");
    }
    for word in found.iter().filter(|word| word.len() > 9 && !word.ends_with('\u{2026}')) {
        assert!([i64::MIN, i64::MAX].iter().any(|limit| *word == limit.to_string()), "{word}");
    }
    let found = words("f");
    for number in ["1.2345678901234568e-15", "-0.1", "2e+300", "0.3333333333333333"] {
        assert!(found.iter().any(|word| word == number), "{number}: {found:?}");
    }
    assert!(words("c").contains(&"(1.2345678901234568e-15-0.1j)".to_owned()), "{:?}", words("c"));
    assert!(words("r").join(" ").contains("(1.2345678901234568e-15, -0.1)"), "{:?}", words("r"));
}

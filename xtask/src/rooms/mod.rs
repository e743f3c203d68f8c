//! Checks how the files of each crate import each other.
//!
//! Files must not import each other in a circle, in any crate. And imports between rooms (top-level
//! modules) go one way: ARCHITECTURE.md lists the rooms of a crate in one line, lowest first, as
//! `b2-frame: error < format < storage`. A module may use those listed before it; modules separated by commas must not
//! use each other. What counts as an import is described in `imports.rs`.

mod imports;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use imports::Imports;

use crate::root;

/// Start of the list in ARCHITECTURE.md.
const FENCE: &str = "```rooms\n";
/// Matches all modules that the line does not name.
const OTHERS: &str = "*";

/// Check that files import each other without circles, and rooms only in the order of ARCHITECTURE.md.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the repository, if not this one.
    root: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    check(args.root.as_deref().unwrap_or(root::workspace()))
}

/// Checks all crates in the repository, and prints the number of imports.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let (_, list) = text.split_once(FENCE).context("ARCHITECTURE.md has no block of rooms")?;
    let (list, _) = list.split_once("```").context("the block of rooms has no end")?;
    let mut rooms = BTreeMap::new();
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        let line = Rooms::parse(line)?;
        rooms.insert(line.name.clone(), line);
    }
    let mut folders = root::packages(root)?;
    folders.extend(["xtask", "fuzz", "benches"].map(|name| root.join(name)));
    let (mut files, mut found, mut problems) = (0, 0, Vec::new());
    for folder in &folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let imports = Imports::of(folder)?;
        problems.extend(circles(&name, &imports));
        if let Some(rooms) = rooms.remove(&*name) {
            problems.extend(rooms.check(&imports));
        }
        files += imports.files.len();
        found += imports.edges.len();
    }
    problems.extend(
        rooms.into_keys().map(|name| format!("ARCHITECTURE.md has rooms of {name}, which is no crate")),
    );
    problems.iter().for_each(|problem| eprintln!("rooms: {problem}"));
    ensure!(problems.is_empty(), "{} problems with the imports of files", problems.len());
    let crates = folders.len();
    ensure!(
        crates >= 18 && files >= 400 && found >= 1500,
        "only {crates} crates, {files} files and {found} imports were found: the check does not see what it should"
    );
    println!("rooms: {crates} crates, {files} files, {found} imports between them, all one way");
    Ok(())
}

/// Describes the circles of one crate with the imports that make them.
fn circles(name: &str, imports: &Imports) -> Vec<String> {
    let show = |file: usize| imports.files[file].display();
    let describe = |circle: Vec<usize>| {
        let mut text = format!("{} files in {name}/src import each other in a circle:", circle.len());
        for ((from, to), path) in &imports.edges {
            if circle.contains(from) && circle.contains(to) {
                text += &format!("\n    {} uses {path}, of {}", show(*from), show(*to));
            }
        }
        text
    };
    imports.circles().into_iter().map(describe).collect()
}

/// The line of one crate in the list.
struct Rooms {
    name: String,
    /// Level and position of each room: it may use only itself and lower levels.
    levels: BTreeMap<String, (usize, usize)>,
}

impl Rooms {
    fn parse(line: &str) -> Result<Self> {
        let (name, rooms) = line.split_once(':').with_context(|| format!("no crate in {line:?}"))?;
        let mut levels = BTreeMap::new();
        for (level, names) in rooms.split('<').enumerate() {
            for (place, room) in names.split(',').enumerate() {
                let room = room.trim().to_owned();
                ensure!(!room.is_empty(), "an empty name in {line:?}");
                ensure!(levels.insert(room, (level, place)).is_none(), "a room twice in {line:?}");
            }
        }
        Ok(Self { name: name.trim().to_owned(), levels })
    }

    /// Returns what is wrong with the imports of this crate.
    fn check(&self, imports: &Imports) -> Vec<String> {
        let rooms: Vec<String> = imports.files.iter().map(|file| room_of(file)).collect();
        let show = |file: usize| format!("{}/src/{}", self.name, imports.files[file].display());
        let level = |room: &str| self.levels.get(room).or_else(|| self.levels.get(OTHERS));
        // The root is below all rooms for the items that it defines, and above them for what it uses.
        let root = |room: &str| room == "lib" || room == "main";
        let mut problems = Vec::new();
        for room in self.levels.keys().filter(|room| *room != OTHERS && !rooms.contains(*room)) {
            problems.push(format!("ARCHITECTURE.md has a room {room} of {}, which is no module", self.name));
        }
        for (file, room) in rooms.iter().enumerate().filter(|(_, room)| !root(room) && level(room).is_none())
        {
            problems.push(format!("{} is in no room ({room})", show(file)));
        }
        for ((from, to), path) in &imports.edges {
            let (room, other) = (&rooms[*from], &rooms[*to]);
            let (Some(here), Some(there)) = (level(room), level(other)) else { continue };
            let lower = there.0 < here.0 || there == here;
            if room != other && !lower && !root(room) && !root(other) {
                problems.push(format!("{} uses {path}, of room {other}", show(*from)));
            }
        }
        problems
    }
}

/// Returns the first folder, or the name of a file that is in no folder.
fn room_of(file: &Path) -> String {
    let first = file.iter().next().unwrap_or_default().to_string_lossy();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate with these files.
    fn imports(files: &[(&str, &str)]) -> Result<Imports> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Cargo.toml"), "[[bin]]\npath = \"src/tool.rs\"\n").unwrap();
        for (name, text) in files {
            let path = dir.path().join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Imports::of(dir.path())
    }

    /// Importing file, path, and defining file.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let found = imports(files).unwrap();
        let show = |file: usize| found.files[file].display();
        found.edges.iter().map(|((from, to), path)| format!("{} {path} {}", show(*from), show(*to))).collect()
    }

    #[test]
    fn imports_lead_to_the_defining_file() {
        let found = edges(&[
            (
                "lib.rs",
                "mod a;\npub mod b;\nmod c;\npub use b::{low::{Low as L, f}, *};\nfn g() { c::h::<u8>() }\nfn c() {}",
            ),
            (
                "a.rs",
                "use crate::{L, c::{self, Own}};\nfn x() { c::deep(); super::f(); self::y(1) }\nfn y(c: u8) {}",
            ),
            (
                "b/mod.rs",
                "mod low;\nmod top;\npub use top::Top;\npub(in crate::b) use self::low::Low as Short;",
            ),
            ("b/low.rs", "pub struct Low;\npub fn f() {}\n#[cfg(test)]\nmod tests { use crate::a::y; }"),
            (
                "b/top.rs",
                "use super::Short;\n// use crate::c;\nconst T: &str = \"crate::c::h\";\nimpl crate::Top {}\npub struct Top;",
            ),
            (
                "c.rs",
                "pub struct Own;\nmod in_it { pub fn deep(_: crate::Top) { say!(a, crate::b::f()) } }\npub use in_it::*;\n#[cfg(test)]\nmod check;\nfn h() {}",
            ),
            ("c/check.rs", "use crate::a::x;"),
        ]);
        assert_eq!(
            found,
            [
                "lib.rs c::h c.rs",
                "a.rs crate::L b/low.rs",
                "a.rs crate::c::Own c.rs",
                "b/top.rs super::Short b/low.rs",
                "c.rs crate::b::f b/mod.rs",
                "c.rs crate::Top b/top.rs",
            ]
        );
    }

    #[test]
    fn circles_are_found_through_exports() {
        let found = imports(&[
            ("lib.rs", "mod a;\nmod b;\npub use b::{B, C};"),
            ("a.rs", "pub fn a(b: crate::B) {}"),
            ("b/mod.rs", "mod one;\nmod two;\npub use {one::B, two::C};"),
            ("b/one.rs", "use super::C;\npub struct B(C);"),
            ("b/two.rs", "use crate::a;\npub struct C;\nfn f() { a::a() }"),
        ])
        .unwrap();
        assert_eq!(
            circles("x", &found),
            ["3 files in x/src import each other in a circle:\n    a.rs uses crate::B, of b/one.rs\
              \n    b/one.rs uses super::C, of b/two.rs\n    b/two.rs uses a::a, of a.rs"]
        );
        // Re-exports alone make none, and two circles are told apart.
        assert!(
            imports(&[
                ("lib.rs", "mod a;\npub use a::A;\npub struct B;"),
                ("a.rs", "use super::B;\npub struct A;")
            ])
            .unwrap()
            .circles()
            .is_empty()
        );
        let two = [
            ("main.rs", "mod a;\nmod b;\nfn x() { a::y() }"),
            ("a.rs", "fn y() { crate::x() }"),
            ("b.rs", "mod c;\nfn z() { c::c() }"),
            ("b/c.rs", "use super::*;\npub fn c() { z() }"),
        ];
        assert_eq!(imports(&two).unwrap().circles().len(), 2);
    }

    #[test]
    fn no_file_is_overlooked() {
        let error =
            imports(&[("lib.rs", "mod a;"), ("a.rs", ""), ("b.rs", ""), ("tool.rs", "")]).err().unwrap();
        assert!(error.to_string().ends_with("b.rs is in no module"), "{error}");
        assert!(imports(&[("lib.rs", "mod a;")]).is_err());
    }

    #[test]
    fn an_import_against_the_order_is_found() {
        let found = imports(&[
            ("lib.rs", "mod error;\nmod low;\nmod left;\nmod right;\npub use right::up::Up;\n"),
            ("error.rs", "pub enum Error {}"),
            ("low/mod.rs", "mod odd;\nuse crate::error::Error;\n// use crate::right::up;\npub struct Low;"),
            ("low/odd.rs", "use crate::Up;"),
            ("left.rs", "use crate::low::Low;\nfn f() { crate::right::up::g() }"),
            ("right/mod.rs", "pub mod up;"),
            (
                "right/up.rs",
                "use crate::low::Low;\npub struct Up;\n#[cfg(test)]\nmod tests { use crate::left; }",
            ),
        ])
        .unwrap();
        let rooms = Rooms::parse("x: error < low < left, right").unwrap();
        let problems = [
            "x/src/low/odd.rs uses crate::Up, of room right",
            "x/src/left.rs uses crate::right::up::g, of room right",
        ];
        assert_eq!(rooms.check(&found), problems);
        let problems = Rooms::parse("x: error < low < right < top").unwrap().check(&found);
        assert_eq!(
            problems[..2],
            ["ARCHITECTURE.md has a room top of x, which is no module", "x/src/left.rs is in no room (left)"]
        );
    }

    #[test]
    fn this_repository_keeps_its_order() {
        check(root::workspace()).unwrap();
    }
}

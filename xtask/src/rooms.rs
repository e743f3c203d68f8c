//! Checks the rooms (top-level modules) of each crate: imports between them must go one way.
//!
//! ARCHITECTURE.md lists the rooms of each crate in one line, lowest first: `b2-frame: error < format < storage`. A
//! module may use those listed before it; modules separated by commas must not use each other. This check reads that
//! list and the paths that start with `crate::`. A name that the crate root re-exports counts as part of its original
//! room.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::root;

/// Start of the list in ARCHITECTURE.md.
const FENCE: &str = "```rooms\n";
/// Matches all modules that the line does not name.
const OTHERS: &str = "*";

/// Checks all crates that ARCHITECTURE.md lists, and prints the number of imports.
pub(crate) fn check() -> Result<()> {
    let root = root::workspace();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let (_, list) = text.split_once(FENCE).context("ARCHITECTURE.md has no block of rooms")?;
    let (list, _) = list.split_once("```").context("the block of rooms has no end")?;
    let mut problems = Vec::new();
    let (mut crates, mut imports) = (0, 0);
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        let rooms = Rooms::parse(line)?;
        imports += rooms.check(&root.join("crates").join(&rooms.name).join("src"), &mut problems)?;
        crates += 1;
    }
    problems.iter().for_each(|problem| eprintln!("rooms: {problem}"));
    ensure!(problems.is_empty(), "{} imports run against the order of ARCHITECTURE.md", problems.len());
    ensure!(imports > 100, "only {imports} imports were found: the check does not see what it should");
    println!("rooms: {crates} crates, {imports} imports, all one way");
    Ok(())
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

    fn level(&self, room: &str) -> Option<(usize, usize)> {
        self.levels.get(room).or_else(|| self.levels.get(OTHERS)).copied()
    }

    /// Checks all files under `src` and returns the number of imports.
    fn check(&self, src: &Path, problems: &mut Vec<String>) -> Result<usize> {
        let root = fs::read_to_string(src.join("lib.rs"))?;
        let exported = exports(&without_comments(&root));
        let mut count = 0;
        for file in files(src)? {
            let inside = file.strip_prefix(src)?;
            let room = room_of(inside);
            // Tests may use any room.
            if room == "lib" || room == "main" || file.ends_with("tests.rs") {
                continue;
            }
            let shown = format!("{}/src/{}", self.name, inside.display());
            let Some(from) = self.level(&room) else {
                problems.push(format!("{shown} is in no room"));
                continue;
            };
            let text = without_tests(&without_comments(&fs::read_to_string(&file)?));
            for name in imports(&text) {
                count += 1;
                let to = exported.get(&name).unwrap_or(&name);
                // Items defined in the crate root are below all rooms.
                let Some(level) = self.level(to) else { continue };
                if !exported.contains_key(&name) && !is_module(src, &name) {
                    continue;
                }
                if *to != room && (level.0 > from.0 || level.0 == from.0 && level.1 != from.1) {
                    problems.push(format!("{shown} uses {name}, of room {to}"));
                }
            }
        }
        Ok(count)
    }
}

fn is_module(src: &Path, name: &str) -> bool {
    src.join(name).is_dir() || src.join(format!("{name}.rs")).is_file()
}

/// Returns the first folder, or the name of a file that is in no folder.
fn room_of(inside: &Path) -> String {
    let first = inside.iter().next().unwrap_or_default().to_string_lossy();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.collect::<Vec<_>>().join("\n")
}

/// Removes the tests, which are at the end.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Returns the original room of each name that the crate root re-exports.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root.split("use ").skip(1) {
        let Some((path, _)) = statement.split_once(';') else { continue };
        let path = path.trim();
        let Some((room, rest)) = path.split_once("::") else { continue };
        for leaf in leaves(rest) {
            exports.insert(leaf, room.trim().to_owned());
        }
    }
    exports
}

/// Returns the names that a use tree imports.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    if let Some((before, inside)) = tree.split_once('{') {
        let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
        return split_top(inside).into_iter().flat_map(|item| leaves(&format!("{before}{item}"))).collect();
    }
    let last = tree.rsplit("::").next().unwrap_or(tree);
    let name = last.rsplit(" as ").next().unwrap_or(last).trim();
    match name {
        "self" => leaves(tree.trim_end_matches("::self")),
        "" => Vec::new(),
        name => vec![name.to_owned()],
    }
}

/// Splits at commas outside braces.
fn split_top(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[start..].trim());
    items.retain(|item| !item.is_empty());
    items
}

/// Returns the first name of each path that starts with `crate::`.
fn imports(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        // Skip `$crate` and longer names that end in `crate`.
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        if let Some(inside) = rest.strip_prefix('{') {
            let mut depth = 1;
            let end = inside.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            let inside = end.map_or(inside, |end| &inside[..end]);
            names.extend(split_top(inside).into_iter().map(first_name));
        } else {
            names.push(first_name(rest));
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_imports_are_found() {
        let text = "use crate::a::{X, b::Y};\nuse crate::{Error, c::{D, e}, f};\nlet g = crate::g::h();\n$crate::no!();";
        assert_eq!(imports(text), ["a", "Error", "c", "f", "g"]);
        let root = "mod a;\npub use a::b::{X, Y as Z};\npub use c::D;\npub(crate) use e::{f::{G, self}};";
        let exported = exports(root);
        let of = |name: &str| exported.get(name).map(String::as_str);
        assert_eq!((of("X"), of("Z"), of("Y")), (Some("a"), Some("a"), None));
        assert_eq!((of("D"), of("G"), of("f")), (Some("c"), Some("e"), Some("e")));
    }

    #[test]
    fn an_import_against_the_order_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod error;\nmod low;\nmod left;\nmod right;\npub use right::up::Up;\n");
        write("error.rs", "pub enum Error {}");
        write("low/mod.rs", "use crate::error::Error;\n// use crate::right::up;\n");
        write("low/odd.rs", "use crate::Up;");
        write("left.rs", "use crate::low::odd;\nfn f() { crate::right::up::g() }");
        write("right/up.rs", "use crate::low;\npub struct Up;\n#[cfg(test)]\nmod tests { use crate::left; }");
        let rooms = Rooms::parse("x: error < low < left, right").unwrap();
        let mut problems = Vec::new();
        assert_eq!(rooms.check(dir.path(), &mut problems).unwrap(), 5);
        assert_eq!(
            problems,
            ["x/src/left.rs uses right, of room right", "x/src/low/odd.rs uses Up, of room right"]
        );
        let mut problems = Vec::new();
        Rooms::parse("x: error < low < right").unwrap().check(dir.path(), &mut problems).unwrap();
        assert_eq!(problems[0], "x/src/left.rs is in no room");
    }

    #[test]
    fn this_repository_keeps_its_order() {
        check().unwrap();
    }
}

//! Which file of a crate imports from which other, read from the tokens of the sources.
//!
//! An import is a private `use`, or a path in code, and leads to the file that defines the item. `mod` and `pub use`
//! are no imports themselves; names are followed through them. Code under `#[cfg(test)]` is skipped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::{TokenStream, TokenTree};

/// The files of one crate and their imports.
#[derive(Default)]
pub(super) struct Imports {
    /// Files in `src`, as paths relative to it.
    pub(super) files: Vec<PathBuf>,
    /// Importing and defining file, and the path by which the first names an item of the second.
    pub(super) edges: BTreeMap<(usize, usize), String>,
    modules: Vec<Module>,
    /// Files and folders of modules that exist only for tests.
    tests: Vec<PathBuf>,
}

#[derive(Default)]
struct Module {
    file: usize,
    root: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// Names that `use` brings into scope, and where they lead; `*` for all names of a module.
    uses: Vec<(String, Vec<String>)>,
    /// Imports, as they are written.
    paths: BTreeSet<Vec<String>>,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// An item that this file defines.
    Item(usize),
}

/// How many re-exports a name is followed through.
const FOLLOWED: usize = 16;

impl Imports {
    /// Reads the files in `src` of the crate in this folder: the modules of each `lib.rs`, `main.rs` and other program.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let src = &folder.join("src");
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        let programs = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("path = ")?.trim_matches('"').strip_prefix("src/"));
        let programs: Vec<_> = programs.map(|file| src.join(file)).collect();
        let mut graph = Self::default();
        let all = files(src)?;
        let is_root = |path: &Path| {
            path.ends_with("lib.rs") || path.ends_with("main.rs") || programs.iter().any(|p| p == path)
        };
        for root in all.iter().filter(|path| is_root(path)) {
            let module = Module { root: graph.modules.len(), ..Module::default() };
            graph.read(src, module, root, root.parent().unwrap_or(src))?;
        }
        for file in &all {
            let known = graph.files.iter().any(|seen| *file == src.join(seen));
            let test = graph.tests.iter().any(|tests| file.starts_with(tests));
            ensure!(known || test, "{} is in no module", file.display());
        }
        for (at, module) in graph.modules.iter().enumerate() {
            let mut paths: Vec<_> = module.paths.iter().collect();
            // To show what is in `use` rather than a name from there.
            paths.sort_by_key(|path| Reverse(path.len()));
            for path in paths {
                for found in graph.walk(at, path, FOLLOWED) {
                    // A module is followed where a path goes on from it.
                    if let Found::Item(to) = found
                        && to != module.file
                    {
                        graph.edges.entry((module.file, to)).or_insert_with(|| path.join("::"));
                    }
                }
            }
        }
        Ok(graph)
    }

    /// The groups of two or more files that import each other, directly or through others of the group.
    pub(super) fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len())
            .map(|file| {
                let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
                while let Some(from) = next.pop() {
                    let to = self.edges.range((from, 0)..=(from, usize::MAX)).map(|((_, to), _)| *to);
                    next.extend(to.filter(|to| reached.insert(*to)));
                }
                reached
            })
            .collect();
        let circle = |file: usize| -> Vec<usize> {
            reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect()
        };
        (0..self.files.len())
            .map(circle)
            .filter(|circle| circle.len() > 1)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Reads the module in `path`, whose children are in `folder`.
    fn read(&mut self, src: &Path, mut module: Module, path: &Path, folder: &Path) -> Result<usize> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let stream: TokenStream = text.parse().map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
        let mut code = Vec::new();
        flatten(stream, &mut code);
        module.file = self.files.len();
        self.files.push(path.strip_prefix(src)?.to_owned());
        self.add(src, module, folder, &code.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Adds a module with this code, and the modules in it.
    fn add(&mut self, src: &Path, module: Module, folder: &Path, code: &[&str]) -> Result<usize> {
        let (file, root) = (module.file, module.root);
        let me = self.modules.len();
        self.modules.push(module);
        let (mut at, mut depth) = (0_usize, 0_i32);
        while at < code.len() {
            at += match &code[at..] {
                rest @ (["#", "[", "cfg", "(", "test", ..]
                | ["#", "[", "cfg", "(", "all", "(", "test", ..]) => {
                    let item = item(rest);
                    if let [.., "mod", name, ";"] = item {
                        self.tests.extend([folder.join(name), folder.join(format!("{name}.rs"))]);
                    }
                    item.len()
                }
                ["use", rest @ ..] if rest.first() != Some(&"<") => {
                    let end = rest.iter().position(|token| *token == ";").context("a use without end")?;
                    let public = matches!(code[..at], [.., "pub" | ")"]);
                    for (name, path) in leaves(&rest[..end], &[]) {
                        if !public {
                            self.modules[me].paths.insert(path.clone());
                        }
                        self.modules[me].uses.push((name, path));
                    }
                    end + 1
                }
                ["mod", name, rest @ ..] if matches!(rest, [";" | "{", ..]) => {
                    let module = Module { file, root, parent: Some(me), ..Module::default() };
                    let (folder, flat) = (folder.join(name), folder.join(format!("{name}.rs")));
                    let body = if rest[0] == "{" { group(rest) } else { &rest[..1] };
                    let child = match (rest[0], folder.join("mod.rs")) {
                        ("{", _) => self.add(src, module, &folder, &body[1..body.len() - 1])?,
                        (_, nested) if nested.is_file() => self.read(src, module, &nested, &folder)?,
                        _ => self.read(src, module, &flat, &folder)?,
                    };
                    self.modules[me].children.insert((*name).to_owned(), child);
                    2 + body.len()
                }
                // The same module on other systems.
                ["path", "=", file, ..] if file.ends_with(".rs\"") => {
                    let module = Module { root, parent: Some(me), ..Module::default() };
                    self.read(src, module, &folder.join(file.trim_matches('"')), folder)?;
                    3
                }
                ["*", "const", ..] | ["." | "'" | "::", ..] => 2,
                ["$", name, ..] => 1 + usize::from(*name != "crate"),
                ["const", "fn", ..] => 1,
                ["macro_rules", "!", name, ..]
                | ["fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static", name, ..]
                    if is_name(name) =>
                {
                    if depth == 0 {
                        self.modules[me].items.insert((*name).to_owned());
                    }
                    2
                }
                // A field, or what a binding is called.
                [name, ":", ..] if is_name(name) => 2,
                [name, rest @ ..] if is_name(name) => {
                    let mut path = vec![(*name).to_owned()];
                    path.extend(rest.chunks_exact(2).map_while(|pair| match pair {
                        ["::", name] if is_name(name) => Some((*name).to_owned()),
                        _ => None,
                    }));
                    let length = 2 * path.len() - 1;
                    self.modules[me].paths.insert(path);
                    length
                }
                [token, ..] => {
                    depth += i32::from(matches!(*token, "{" | "(" | "["));
                    depth -= i32::from(matches!(*token, "}" | ")" | "]"));
                    1
                }
                [] => bail!("no code"),
            };
        }
        Ok(me)
    }

    /// Follows a path that is written in module `at`.
    fn walk(&self, at: usize, path: &[String], fuel: usize) -> Vec<Found> {
        let (Some((first, rest)), Some(fuel)) = (path.split_first(), fuel.checked_sub(1)) else {
            return Vec::new();
        };
        let mut found = match first.as_str() {
            "crate" => vec![Found::Module(self.modules[at].root)],
            _ => self.lookup(at, first, fuel),
        };
        for name in rest {
            let next = |found| match found {
                Found::Item(_) => vec![found],
                Found::Module(at) => match self.lookup(at, name, fuel) {
                    // The module as a whole (`*`), or what a macro defines there.
                    none if none.is_empty() => vec![Found::Item(self.modules[at].file)],
                    found => found,
                },
            };
            found = found.into_iter().flat_map(next).collect();
        }
        found
    }

    /// What a name stands for in module `at`: nothing if it is a local one, or of another crate.
    fn lookup(&self, at: usize, name: &str, fuel: usize) -> Vec<Found> {
        let module = &self.modules[at];
        match name {
            "self" => return vec![Found::Module(at)],
            "super" => return module.parent.map(Found::Module).into_iter().collect(),
            // Before a function of that name: mostly it is the module.
            _ if module.children.contains_key(name) => return vec![Found::Module(module.children[name])],
            _ => {}
        }
        let item = module.items.contains(name).then_some(Found::Item(module.file));
        let mut found: Vec<Found> = item.into_iter().collect();
        let paths = |name| module.uses.iter().filter(move |(known, _)| known == name).map(|(_, path)| path);
        found.extend(paths(name).flat_map(|path| self.walk(at, path, fuel)));
        if found.is_empty() && name != "*" {
            let all = paths("*").flat_map(|path| self.walk(at, &path[..path.len() - 1], fuel));
            found.extend(all.flat_map(|found| match (found, fuel.checked_sub(1)) {
                (Found::Module(all), Some(fuel)) => self.lookup(all, name, fuel),
                _ => Vec::new(),
            }));
        }
        found
    }
}

/// All sources in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
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

/// Appends the tokens of a stream, those of groups too. `::` and `..` are one token each, and literals
/// start with a quote.
fn flatten(stream: TokenStream, code: &mut Vec<String>) {
    let mut joint = false;
    for token in stream {
        let before = std::mem::take(&mut joint);
        match token {
            TokenTree::Group(group) => {
                let mut ends = match group.delimiter() {
                    proc_macro2::Delimiter::Brace => ["{", "}"],
                    proc_macro2::Delimiter::Bracket => ["[", "]"],
                    _ => ["(", ")"],
                }
                .map(str::to_owned);
                code.push(std::mem::take(&mut ends[0]));
                flatten(group.stream(), code);
                code.push(std::mem::take(&mut ends[1]));
            }
            TokenTree::Punct(punct) => match (punct.as_char(), code.last_mut()) {
                (c @ (':' | '.'), Some(last)) if before && last.len() == 1 && last.starts_with(c) => {
                    last.push(c)
                }
                (c, _) => {
                    code.push(c.to_string());
                    joint = punct.spacing() == proc_macro2::Spacing::Joint;
                }
            },
            TokenTree::Ident(name) => code.push(name.to_string()),
            TokenTree::Literal(literal) => {
                code.push(format!("\"{}", literal.to_string().trim_start_matches('"')))
            }
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The group that the code starts with, and its ends.
fn group<'a, 'b>(code: &'a [&'b str]) -> &'a [&'b str] {
    let mut depth = 0;
    let end = code.iter().position(|token| {
        depth += i32::from(matches!(*token, "{" | "(" | "["));
        depth -= i32::from(matches!(*token, "}" | ")" | "]"));
        depth == 0
    });
    &code[..end.map_or(code.len(), |end| end + 1)]
}

/// The item that the code starts with, and its attributes: up to a semicolon or a body.
fn item<'a, 'b>(code: &'a [&'b str]) -> &'a [&'b str] {
    let mut end = 0;
    while let Some(token) = code.get(end) {
        let length = group(&code[end..]).len();
        match *token {
            ";" => return &code[..=end],
            "{" => return &code[..end + length],
            // The end of a list of fields or arms.
            "}" | ")" | "]" => return &code[..end],
            "(" | "[" => end += length,
            _ => end += 1,
        }
    }
    code
}

/// The names of a use tree, and where they lead.
fn leaves(tree: &[&str], before: &[&str]) -> Vec<(String, Vec<String>)> {
    match tree {
        ["{", inside @ .., "}"] => {
            let mut depth = 0;
            let items = inside.split(|token| {
                depth += i32::from(*token == "{") - i32::from(*token == "}");
                depth == 0 && *token == ","
            });
            items.flat_map(|item| leaves(item, before)).collect()
        }
        [name, "::", rest @ ..] => leaves(rest, &[before, &[*name]].concat()),
        ["self", "as", name] => leaf(name, before),
        ["self"] => leaf(before.last().unwrap_or(&"self"), before),
        [last, "as", name] => leaf(name, &[before, &[*last]].concat()),
        [name] => leaf(name, &[before, &[*name]].concat()),
        // Nothing after a last comma, and names of other crates after leading colons.
        _ => Vec::new(),
    }
}

fn leaf(name: &str, path: &[&str]) -> Vec<(String, Vec<String>)> {
    vec![(name.to_owned(), path.iter().map(|&name| name.to_owned()).collect())]
}

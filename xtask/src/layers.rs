//! Tests which files of each crate import which: never in a circle, and between layers only as ARCHITECTURE.md allows.
//!
//! An import is a `use` that is not public, or a path that starts with `crate` or `super`, followed through re-exports.
//! Test modules and their submodules are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

type ModulePath = Vec<String>;

/// A file, its paths in `use` and in code, and whether each is a re-export.
type File = (String, Vec<(ModulePath, bool)>);

/// Reads a path or a tree of paths, and returns the rest.
fn paths<'a>(mut code: &'a str, mut path: ModulePath, found: &mut Vec<ModulePath>) -> &'a str {
    if let Some(inside) = code.strip_prefix('{') {
        code = inside.trim_start();
        while !code.starts_with('}') && !code.is_empty() {
            code = paths(code, path.clone(), found).trim_start().trim_start_matches(',').trim_start();
        }
        return code.get(1..).unwrap_or_default();
    }
    let name = code.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(code.len());
    path.extend((&code[..name] != "self" || path.is_empty()).then(|| code[..name].to_owned()));
    match code[name..].strip_prefix("::") {
        Some(rest) if name > 0 => paths(rest, path, found),
        _ => {
            found.push(path);
            let rest = &code[name.max(1).min(code.len())..];
            rest.strip_prefix(" as ")
                .map_or(rest, |alias| alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'))
        }
    }
}

/// Reads the modules of a crate, by their paths from its root.
fn modules(src: &Path, folder: &Path, modules: &mut BTreeMap<ModulePath, File>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            self::modules(src, &path, modules);
        }
        if path.extension().is_none_or(|end| end != "rs")
            || path.ends_with("tests.rs")
            || path.to_string_lossy().contains("/tests/")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .take_while(|line| !line.starts_with("mod tests"))
            .map(|line| line.split("//").next().unwrap());
        let code = lines.map(|line| format!("{}\n", line.trim())).collect::<String>();
        let place: PathBuf = path.strip_prefix(src).unwrap().with_extension("");
        let mut module: ModulePath = place.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        module.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
        let mut found = Vec::new();
        let starts = ["use ", "crate::", "super::"]
            .iter()
            .flat_map(|start| code.match_indices(start).map(|(at, _)| at));
        for at in starts.filter(|&at| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')) {
            let (line, mut all) = (code[..at].rsplit('\n').next().unwrap(), Vec::new());
            paths(code[at..].trim_start_matches("use "), ModulePath::new(), &mut all);
            let public = line.starts_with("pub") && (line.contains("use ") || code[at..].starts_with("use "));
            for path in all {
                let up = path.iter().take_while(|part| *part == "super").count();
                let base = match path.first().map(String::as_str) {
                    Some("crate") => Vec::new(),
                    _ => module[..module.len().saturating_sub(up)].to_vec(),
                };
                let rest =
                    path.into_iter().skip_while(|part| ["crate", "self", "super"].contains(&part.as_str()));
                found.push((base.into_iter().chain(rest).collect(), public));
            }
        }
        modules.insert(module, (code, found));
    }
}

/// Returns the module that defines the target of a path from the root, if it is in this crate.
fn defining(modules: &BTreeMap<ModulePath, File>, path: &[String], depth: usize) -> Option<ModulePath> {
    let known = (0..=path.len()).rev().find(|&len| modules.contains_key(&path[..len]))?;
    let module = path[..known].to_vec();
    // A module as a whole.
    let Some(name) = path.get(known) else { return Some(module) };
    let (code, uses) = &modules[&module];
    let exported = uses.iter().filter(|(path, public)| *public && depth > 0 && path[..] != module[..]);
    let mut exported = exported.filter_map(|(path, _)| match path.split_last()? {
        (last, _) if last == name => defining(modules, path, depth - 1),
        (last, all) if last == "*" => {
            let to = defining(modules, &[all, std::slice::from_ref(name)].concat(), depth - 1)?;
            defines(&modules[&to].0, name).then_some(to)
        }
        _ => None,
    });
    if defines(code, name) { Some(module) } else { exported.next().or_else(|| (known > 0).then_some(module)) }
}

fn defines(code: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union"].iter().any(|kind| {
        let item = format!("{kind} {name}");
        code.match_indices(&item).any(|(at, _)| ends(&code[at + item.len()..]))
    })
}

/// Adds the problems of a crate, and returns its numbers of files and imports. `layers` is its line, lowest first.
fn check(name: &str, src: &Path, layers: Option<&str>, problems: &mut Vec<String>) -> (usize, usize) {
    let mut all = BTreeMap::new();
    modules(src, src, &mut all);
    let mut imports = BTreeMap::<&ModulePath, BTreeSet<ModulePath>>::new();
    for (from, (_, paths)) in &all {
        let to = paths.iter().filter(|(_, public)| !public).filter_map(|(path, _)| defining(&all, path, 9));
        imports.insert(from, to.filter(|to| to != from).collect());
    }
    let levels = layers.unwrap_or("*").split('<').enumerate();
    let levels = levels.flat_map(|(level, names)| {
        names.split(',').enumerate().map(move |(n, name)| (name.trim(), (level, n)))
    });
    let levels: BTreeMap<&str, (usize, usize)> = levels.collect();
    let level =
        |module: &ModulePath| levels.get(module.first()?.as_str()).or_else(|| levels.get("*")).copied();
    for (from, to) in imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, to))) {
        let line = format!("{name}: {} imports {}", from.join("::"), to.join("::"));
        let (mut reached, mut next) = (BTreeSet::new(), vec![to]);
        while let Some(module) = next.pop() {
            next.extend(imports[module].iter().filter(|to| reached.insert(*to)));
        }
        if reached.contains(from) {
            problems.push(format!("{line}, in a circle"));
        }
        if let (Some(here), Some(there)) = (level(from), level(to))
            && from.first() != to.first()
            && layers.is_some()
        {
            let below = there.0 < here.0 || there == here;
            problems.extend((!below).then(|| format!("{line}, which is in no lower layer")));
        }
    }
    let without = all.keys().filter(|module| !module.is_empty() && level(module).is_none());
    problems.extend(without.map(|module| format!("{name}: {} is in no layer", module.join("::"))));
    let unknown = levels.keys().filter(|layer| {
        **layer != "*" && !all.keys().any(|module| module.first().is_some_and(|first| first == *layer))
    });
    problems.extend(unknown.map(|layer| format!("{name}: the layer {layer} is not a module")));
    (all.len(), imports.values().map(BTreeSet::len).sum())
}

/// Returns the folders of all crates.
fn packages(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    entries
        .flat_map(|path| if path.join("Cargo.toml").is_file() { vec![path] } else { packages(&path) })
        .collect()
}

#[test]
fn files_import_what_is_below_them() {
    let architecture = fs::read_to_string(root::workspace().join("ARCHITECTURE.md")).unwrap();
    let list = architecture.split("```layers\n").nth(1).unwrap().split("```").next().unwrap();
    let mut layers: BTreeMap<&str, &str> = list.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let mut folders = packages(&root::workspace().join("crates"));
    folders.extend(["xtask", "fuzz", "benches"].map(|name| root::workspace().join(name)));
    let (mut problems, mut files, mut imports) = (Vec::new(), 0, 0);
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let counts = check(name, &folder.join("src"), layers.remove(name), &mut problems);
        (files, imports) = (files + counts.0, imports + counts.1);
    }
    assert_eq!(layers, BTreeMap::new(), "no such crates");
    println!("{} crates, {files} files, {imports} imports", folders.len());
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(folders.len() >= 18 && files >= 400 && imports >= 1500, "the test does not see what it should");
}

#[test]
fn circles_and_wrong_layers_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::B;\n");
    file("a.rs", "use crate::B;\npub struct A;\n");
    file("b.rs", "pub struct B(super::c::C);\n");
    file(
        "c.rs",
        "use crate::{b::{B}, a::A};\npub struct C(A, B);\n#[cfg(test)]\nmod tests {\nuse crate::x;\n}\n",
    );
    let mut problems = Vec::new();
    assert_eq!(check("x", folder.path(), Some("b < a < c"), &mut problems), (4, 4));
    let circle = |from, to| format!("x: {from} imports {to}, in a circle");
    let wrong = "x: b imports c, which is in no lower layer".to_owned();
    assert_eq!(problems, [circle("a", "b"), circle("b", "c"), wrong, circle("c", "a"), circle("c", "b")]);
    problems.clear();
    check("x", folder.path(), Some("b, c < d"), &mut problems);
    assert_eq!(problems.iter().filter(|problem| problem.contains("no lower layer")).count(), 2);
    assert!(
        problems.contains(&"x: a is in no layer".to_owned())
            && problems.contains(&"x: the layer d is not a module".to_owned())
    );
}

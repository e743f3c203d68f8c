//! The address of the repository: a placeholder until there is a public one. `Cargo.toml` has it, and from there it comes
//! wherever else it is named.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::metadata;

/// The host of the placeholders. A release needs real ones.
const HOST: &str = "example.org";
/// How a path in the repository follows its address in a link.
#[cfg(test)]
const FILE: &str = "/blob/main/";

/// The address that stands for that of the repository.
fn placeholder() -> String {
    format!("https://{HOST}/b2kit")
}

/// Puts the address that `Cargo.toml` has in the place of the placeholder, in all files that git knows.
pub(super) fn set(tree: &Path) -> Result<()> {
    let address = metadata::repository(tree)?;
    if address == placeholder() {
        return Ok(());
    }
    for name in files_with(tree, &placeholder())? {
        let path = tree.join(&name);
        let text = fs::read_to_string(&path).with_context(|| name.clone())?;
        fs::write(&path, text.replace(&placeholder(), address.trim_end_matches('/')))?;
    }
    Ok(())
}

/// Says which placeholders are left: of the address of the repository, and of addresses for letters.
pub(super) fn left(tree: &Path) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for what in [placeholder(), format!("@{HOST}")] {
        left.extend(
            files_with(tree, &what)?.into_iter().map(|name| format!("{name} has the placeholder {what}")),
        );
    }
    Ok(left)
}

/// Returns the files with this text that git knows, but for those of the tasks, which make and test it.
fn files_with(tree: &Path, text: &str) -> Result<Vec<String>> {
    let mut grep = Command::new("git");
    grep.current_dir(tree).args(["grep", "-lzF", "-e", text, "--", ".", ":!xtask"]);
    let output = grep.output().context("cannot start git")?;
    // It ends with 1 where there is none.
    let good = matches!(output.status.code(), Some(0 | 1)) && output.stderr.is_empty();
    ensure!(good, "git grep: {}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(output.stdout)?;
    Ok(list.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{root, sh};

    #[test]
    fn one_address_replaces_all_placeholders() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        let text = format!("see [it]({}{FILE}docs/a.md), not https://{HOST}/field.b2nd\n", placeholder());
        fs::create_dir(tree.join("b")).unwrap();
        fs::write(tree.join("b/README.md"), &text).unwrap();
        fs::write(tree.join("control"), format!("Maintainer: b2kit@{HOST}\n")).unwrap();
        let manifest = |address: &str| {
            fs::write(tree.join("Cargo.toml"), format!("[workspace.package]\nrepository = \"{address}\"\n"))
        };
        manifest(&placeholder()).unwrap();
        sh::git(tree, &["init", "--quiet"]).unwrap();
        sh::git(tree, &["add", "--all"]).unwrap();
        set(tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("b/README.md")).unwrap(), text);
        assert_eq!(left(tree).unwrap().len(), 3, "{:?}", left(tree));
        manifest("https://forge.test/we/it").unwrap();
        set(tree).unwrap();
        let new = fs::read_to_string(tree.join("b/README.md")).unwrap();
        assert_eq!(
            new,
            format!(
                "see [it](https://forge.test/we/it/blob/main/docs/a.md), not https://{HOST}/field.b2nd\n"
            )
        );
        let left = left(tree).unwrap();
        assert!(left.len() == 1 && left[0].starts_with("control "), "{left:?}");
    }

    /// Pages that are shown outside of the repository, where a relative link is dead.
    const SHOWN_ELSEWHERE: &[&str] = &["crates/b2-python/README.md"];

    #[test]
    fn links_into_the_repository_lead_to_files() {
        let tree = root::workspace();
        let mut seen = 0;
        for name in files_with(tree, &placeholder()).unwrap() {
            let text = fs::read_to_string(tree.join(&name)).unwrap();
            for link in text.split(&placeholder()).skip(1).filter(|rest| rest.starts_with('/')) {
                let path = link.strip_prefix(FILE).unwrap_or_else(|| panic!("{name} links to {link:.30}"));
                let path = path.split([')', '#', '"', '>', ' ', '\n']).next().unwrap();
                assert!(tree.join(path).exists(), "{name} links to {path}");
                seen += 1;
            }
        }
        assert!(seen >= 6 || !metadata::repository(tree).unwrap().contains(HOST), "only {seen} links");
        for name in SHOWN_ELSEWHERE {
            let text = fs::read_to_string(tree.join(name)).unwrap();
            let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
            let dead: Vec<_> =
                links.filter(|link| !link.starts_with("https://") && !link.starts_with('#')).collect();
            assert!(dead.is_empty(), "{name}: {dead:?}");
        }
    }
}

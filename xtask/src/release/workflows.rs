//! What the workflow files of the forge must say. Nothing here can run them.

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::notices;
    use crate::root;

    /// The oldest Python 3 without the interpreter's lock that PyO3 builds for.
    const OLDEST_WITHOUT_LOCK: u32 = 14;

    fn workflow(name: &str) -> String {
        fs::read_to_string(root::workspace().join(".github/workflows").join(name)).unwrap()
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
}

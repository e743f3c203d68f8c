//! Tells the command which commit it is built from, where that is known: `B2KIT_COMMIT`.

use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=B2KIT_COMMIT");
    println!("cargo:rerun-if-changed=.cargo_vcs_info.json");
    let given = env::var("B2KIT_COMMIT").ok();
    let commit = given.or_else(of_package).or_else(of_checkout).unwrap_or_default();
    println!("cargo:rustc-env=B2KIT_COMMIT={}", commit.trim());
}

/// The commit that a published package was made from, as `cargo package` notes it.
fn of_package() -> Option<String> {
    let info = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash = info.split("\"sha1\": \"").nth(1)?.split('"').next()?;
    hash.get(..10).map(str::to_owned)
}

/// The commit that is checked out, if git is there and this file is in its repository, not only inside of another one.
fn of_checkout() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // The logs have a line for each commit and checkout, also in linked work trees.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(path) =
            git(&["rev-parse", "--git-path", name]).filter(|path| fs::exists(path).unwrap_or(false))
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

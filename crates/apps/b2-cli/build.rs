//! Sets `B2KIT_COMMIT`, the commit that the command is built from, if known, and, with the feature `web`, the paths of
//! the page for browsers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=B2KIT_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = env::var("B2KIT_COMMIT").ok();
    let commit = given.or_else(of_package).or_else(of_checkout).unwrap_or_default();
    println!("cargo:rustc-env=B2KIT_COMMIT={}", commit.trim());
    if env::var_os("CARGO_FEATURE_WEB").is_some() {
        page();
    }
}

/// Sets the paths of the parts of the page. In a clone they are next to its engine, which is compiled here; in a package all
/// are in `page`.
fn page() {
    let engine = Path::new("../b2-wasm");
    if !engine.join("viewer").is_dir() {
        let folder =
            Path::new("page").canonicalize().expect("this package was made without the page for browsers");
        return located(&folder, &folder.join("engine.wasm"));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let target = out.ancestors().nth(4).expect("it is in the target folder").join("web");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--locked", "--profile=web", "--target=wasm32-unknown-unknown", "--target-dir"]);
    cargo.arg(&target).current_dir(engine);
    // Those of the command are not for the engine, and would replace those of its folder.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(name);
    }
    let built = cargo.status().is_ok_and(|status| status.success());
    assert!(
        built,
        "the page for browsers was not compiled. If the target is missing (\"can't find crate for `core`\"), run: \
         rustup target add wasm32-unknown-unknown"
    );
    let crates = ["b2-chunk", "b2-codecs", "b2-core", "b2-filters", "b2-frame", "b2-msgpack", "b2nd"];
    let others = ["adapters/b2-async", "adapters/b2-store", "apps/b2-view", "apps/b2-wasm"];
    for name in crates.iter().chain(&others) {
        println!("cargo:rerun-if-changed=../../{name}/src");
    }
    let viewer = engine.join("viewer").canonicalize().expect("it is a folder");
    // A copy: to watch a file that this script makes would mean that the command is built a second time.
    let engine = out.join("engine.wasm");
    fs::copy(target.join("wasm32-unknown-unknown/web/b2_wasm.wasm"), &engine).expect("it was compiled");
    located(&viewer, &engine);
}

fn located(viewer: &Path, engine: &Path) {
    println!("cargo:rustc-env=B2KIT_VIEWER={}", viewer.display());
    println!("cargo:rustc-env=B2KIT_ENGINE={}", engine.display());
}

/// The commit that a published package was made from, as `cargo package` notes it. This file never changes; where it is missing, as
/// in a clone, to name it would mean that the command is built again each time.
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

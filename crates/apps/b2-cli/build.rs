//! Tells the command which commit it is built from, where that is known: `B2KIT_COMMIT`; and puts the page for browsers into
//! it, with the feature `web`.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=B2KIT_COMMIT");
    println!("cargo:rerun-if-changed=.cargo_vcs_info.json");
    let given = env::var("B2KIT_COMMIT").ok();
    let commit = given.or_else(of_package).or_else(of_checkout).unwrap_or_default();
    println!("cargo:rustc-env=B2KIT_COMMIT={}", commit.trim());
    if env::var_os("CARGO_FEATURE_WEB").is_some() {
        page();
    }
}

/// Writes a constant with the parts of the page: of the folder `B2KIT_WEB_PAGE`, which then must be complete, or of that in
/// which `cargo xtask web` of this repository makes it. Without a page the command says that it has none.
fn page() {
    println!("cargo:rerun-if-env-changed=B2KIT_WEB_PAGE");
    let given = env::var_os("B2KIT_WEB_PAGE").map(PathBuf::from);
    let folder = given.clone().unwrap_or_else(|| PathBuf::from("../../../target/web/page"));
    let parts =
        ["index.html", "style.css", "page.js", "worker.js", "engine.wasm"].map(|name| folder.join(name));
    parts.iter().for_each(|part| println!("cargo:rerun-if-changed={}", part.display()));
    let there: Option<Vec<PathBuf>> = parts.iter().map(|part| part.canonicalize().ok()).collect();
    let text = match there.as_deref() {
        Some([index, style, script, worker, engine]) => format!(
            "pub(super) static PAGE: Option<Page> = Some(Page {{ index: include_str!({index:?}), style: include_str!({style:?}), \
             script: include_str!({script:?}), worker: include_str!({worker:?}), engine: include_bytes!({engine:?}) }});\n"
        ),
        _ if given.is_some() => panic!("B2KIT_WEB_PAGE: {} holds no complete page", folder.display()),
        _ => {
            println!(
                "cargo:warning=there is no page for `b2kit view --web` to show; `cargo xtask web` makes it"
            );
            "pub(super) static PAGE: Option<Page> = None;\n".to_owned()
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("page.rs");
    fs::write(out, text).expect("the output folder can be written");
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

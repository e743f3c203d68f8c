//! `cargo xtask web`: builds the page that shows Blosc2 files in a browser, and tests it in Chromium.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::sh::{Counts, Outcome};

mod build;
mod chromium;
mod data;
mod driver;
mod place;
mod tests;

/// What nobody notices if it does not run.
pub(crate) const UNNOTICED: &str = "a fault of the page in a browser would not have been noticed";

/// Build the page that shows Blosc2 files in a browser, in target/web/page.
///
/// The engine of `crates/apps/b2-wasm` is compiled to wasm (rustup adds the target), and must not be larger than 650 KB with
/// gzip. Its lints and native tests run, too.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test the page in a headless Chromium: that of PATH or B2KIT_CHROMIUM (with chromedriver beside it or in PATH),
    /// otherwise packages of Debian, unpacked in target/web
    #[arg(long)]
    test: bool,
    /// Run only the tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Draw the pictures of the page in docs/images anew
    #[arg(long)]
    images: bool,
    /// Measure: requests of a first picture, and the speed of decoding beside the native code
    #[arg(long)]
    bench: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.test && args.only.is_none() {
        let checked = check()?;
        checked.native.print("b2-wasm");
        checked.command.print("view --web");
        checked.browser.print("page", UNNOTICED);
        checked.native.verdict()?;
        checked.command.verdict()?;
        return checked.browser.verdict();
    }
    let page = build::page()?;
    if args.images {
        tests::images(&page, &chromium::find().context("no Chromium")?)?;
    }
    if args.bench {
        tests::bench(&page, &chromium::find().context("no Chromium")?)?;
    }
    if args.test {
        let outcome = browser(&page, args.only.as_deref())?;
        outcome.print("page", UNNOTICED);
        outcome.verdict()?;
    }
    Ok(())
}

/// The results of all checks.
pub(crate) struct Checked {
    /// Native tests of the engine.
    pub(crate) native: Counts,
    /// Those of the command with the page inside.
    pub(crate) command: Counts,
    /// Those in the browser.
    pub(crate) browser: Outcome,
}

/// Builds the page, and runs all checks that can run on this machine.
pub(crate) fn check() -> Result<Checked> {
    let page = build::page()?;
    let native = build::check()?;
    let command = build::command(&page)?;
    Ok(Checked { native, command, browser: browser(&page, None)? })
}

fn browser(page: &Path, only: Option<&str>) -> Result<Outcome> {
    match chromium::find() {
        Ok(browser) => {
            let counts = tests::all(page, &browser, only)?;
            ensure!(counts.passed + counts.failed > 0, "no test of the page ran");
            Ok(Outcome::Ran(counts))
        }
        Err(error) => Ok(Outcome::NotRun(format!("no Chromium: {error:#}"))),
    }
}

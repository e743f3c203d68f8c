//! `b2kit view --web` and `--html`: the page of `crates/b2-wasm`, which is built into the command.

mod files;
mod html;
mod http;
mod page;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use self::files::Files;
pub(super) use self::html::write;
use self::http::Server;
use self::page::{PAGE, Page};
use super::Args;
use crate::args::Global;
use crate::files::is_stdin;
use crate::process::{Usage, say};

/// The page.
///
/// # Errors
/// Fails if it was not there when the command was built.
fn page() -> Result<&'static Page> {
    let absent =
        "this command was built without the page: `cargo xtask web` makes it, before the command is built";
    PAGE.as_ref().context(absent)
}

/// Serves the page and the files, until Ctrl-C.
///
/// # Errors
/// Fails if there is nothing to show, or no port is free.
pub(super) fn serve(args: &Args, global: Global) -> Result<()> {
    let page = page()?;
    if is_stdin(&args.source.file) || args.source.offset > 0 {
        return Err(Usage("--web shows a file, a folder or a URL, without --offset".into()).into());
    }
    let files = Files::find(&args.source.file)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    let server = Server::new(page, files, listener.local_addr()?.port());
    let address = server.address(&link(args));
    // The address is all that this command prints, so that others can use it.
    crate::files::print(&format!("{address}\n"))?;
    std::io::stdout().flush()?;
    if !args.no_open && !open(&address) && !global.quiet {
        say("no browser could be opened: open the address in one");
    }
    if !global.quiet {
        say("Ctrl-C stops serving it");
    }
    server.serve(&listener)
}

/// What a link says besides the address of the file.
fn link(args: &Args) -> String {
    let Args { source, slice, field, log, .. } = args;
    let mut out = String::new();
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.push_str(&format!("&{name}={}", http::encoded(value)));
        }
    };
    add("key", source.key.as_deref());
    add("slice", slice.as_deref());
    add("field", field.as_deref());
    add("log", Some("1").filter(|_| *log));
    out
}

/// Opens an address in a browser. Returns whether a program for that could be started.
fn open(address: &str) -> bool {
    let candidates: &[(&str, &[&str])] = if cfg!(target_os = "macos") {
        &[("open", &[])]
    } else if cfg!(windows) {
        &[("rundll32", &["url.dll,FileProtocolHandler"])]
    } else {
        &[("xdg-open", &[]), ("sensible-browser", &[])]
    };
    candidates.iter().any(|(program, words)| {
        let mut command = Command::new(program);
        command.args(*words).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    })
}

/// Checks that a name is that of a file.
fn name_of(path: &Path) -> Result<String> {
    match path.file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => bail!("a file has a name"),
    }
}

//! `b2kit view --web` and `--html`: the page of `crates/apps/b2-wasm`, which is built into the command.

mod files;
mod html;
mod http;
mod input;
mod link;
mod page;
mod shown;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use self::files::Files;
pub(super) use self::html::write;
use self::http::Server;
use self::input::Input;
use self::page::PAGE;
pub(super) use self::shown::BrowserView;
use crate::args::Global;
use crate::files::is_stdin;
use crate::process::{Usage, say};

/// Serves the page and the files, until Ctrl-C.
pub(super) fn serve(shown: &BrowserView<'_>, global: Global) -> Result<()> {
    if is_stdin(&shown.source.file) || shown.source.offset > 0 {
        return Err(Usage("--web shows a file, a folder or a URL, without --offset".into()).into());
    }
    let input = Input::of(&shown.source.file)?;
    let files = Files::find(&input.path)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    let server = Server::new(&PAGE, files, listener.local_addr()?.port());
    let address = server.address(&shown.link());
    // Print only the address, so that other programs can use it.
    crate::files::print(&format!("{address}\n"))?;
    std::io::stdout().flush()?;
    if shown.opens && !open(&address) && !global.quiet {
        say("no browser could be opened: open the address in one");
    }
    if !global.quiet {
        say("Ctrl-C stops serving it");
    }
    server.serve(&listener)
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

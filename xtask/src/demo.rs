//! The main use case with a real array: pack it, show its summary, read it back, draw a slice of it.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::root::{self, target, workspace};
use crate::sh;

/// Pack a real array, show its summary, read it back and draw it.
///
/// Takes testdata/arrays/sea_surface_temperature.npy (12 months of sea surface temperature on a grid of 2
/// degrees) through the command `b2kit`, as a user would. Results go to target/demo/.
#[derive(clap::Args)]
pub(crate) struct Args {}

const ARRAY: &str = "testdata/arrays/sea_surface_temperature.npy";

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    let dir = target().join("demo");
    root::empty(&dir)?;
    let text = |path: &Path| path.strip_prefix(workspace()).unwrap_or(path).display().to_string();
    let [packed, back, picture] = ["sst.b2nd", "sst.npy", "sst.png"].map(|name| text(&dir.join(name)));
    let tool = target().join("debug/b2kit");
    match tool.exists() {
        true => println!("this takes some seconds, or a minute if the command must be built"),
        false => {
            println!("this takes about a minute on two cores to build the command; the rest takes seconds")
        }
    }
    // Without --package, what xtask was built from is not built again. A debug build is fast enough for a small array.
    sh::run(sh::cargo(&["build", "--bin", "b2kit"]))?;
    let b2kit = |args: &[&str]| {
        let mut command = Command::new(&tool);
        command.args(args).current_dir(workspace());
        sh::run(command)
    };
    b2kit(&["pack", ARRAY, &packed])?;
    b2kit(&["info", &packed])?;
    b2kit(&["cat", &packed, "-o", &back])?;
    let (before, after) = (std::fs::read(workspace().join(ARRAY))?, std::fs::read(workspace().join(&back))?);
    ensure!(before == after, "{back} differs from {ARRAY}");
    println!("{back} is {ARRAY} again, byte for byte.");
    // January, with north at the top.
    if std::io::stdout().is_terminal() {
        b2kit(&["show", &packed, "--slice=0,::-1"])?;
    }
    b2kit(&["cat", &packed, "--png", "--slice=0,::-1", "--range=-2:32", "-o", &picture])?;
    println!("\n{picture} shows January, drawn from a slice of the packed array.");
    Ok(())
}

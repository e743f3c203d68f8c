//! `b2kit vlmeta`

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::args::Global;
use crate::change::Target;
use crate::input::Input;
use crate::json;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  b2kit vlmeta set data.b2nd unit '\"K\"'
  b2kit vlmeta set data.b2nd range '[-90, 90]'
  b2kit vlmeta get data.b2nd unit
  b2kit vlmeta del data.b2nd unit

Vlmetalayers are msgpack, given and shown as JSON; see b2kit info --meta for all
of them. {\"$bin\": \"BASE64\"}, {\"$float\": \"nan\"}, {\"$map\": [[key, value], ...]},
{\"$ext\": [code, \"BASE64\"]} and {\"$raw\": \"BASE64\"} stand for what JSON lacks.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add or replace a vlmetalayer
    Set {
        #[command(flatten)]
        target: Target,
        /// Its name, 1 to 31 bytes
        #[arg(value_name = "NAME")]
        name: String,
        /// Its value
        #[arg(value_name = "JSON", allow_hyphen_values = true)]
        json: String,
        /// Allow more than 16 of them: C-Blosc2 reads such a file, but destroys it when it changes it
        #[arg(long)]
        many: bool,
    },
    /// Print a vlmetalayer as JSON
    Get {
        /// A frame, or the directory of a sparse frame
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Its name, 1 to 31 bytes
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a vlmetalayer
    Del {
        #[command(flatten)]
        target: Target,
        /// Its name, 1 to 31 bytes
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    match &args.action {
        Action::Set { target, name, json, many } => set(target, name, json, *many, global),
        Action::Get { file, name } => {
            let value = get(file, name, global).with_context(|| file.display().to_string())?;
            let mut output = Output::create(None, false)?;
            json::show(&value, &mut |text| output.send(text.as_bytes()))?;
            output.send(b"\n")?;
            output.finish()
        }
        Action::Del { target, name } => del(target, name, global),
    }
}

fn set(target: &Target, name: &str, json: &str, many: bool, global: Global) -> Result<()> {
    let named = || target.named();
    let value = json::to_msgpack(json).with_context(|| format!("vlmetalayer {name:?}"))?;
    let mut frame = target.frame(many, global).with_context(named)?;
    let new = !frame.vlmetalayers().iter().any(|(there, _)| there == name.as_bytes());
    frame.set_vlmetalayer(name, &value).with_context(named)?;
    let committed = frame.commit().with_context(named)?;
    let what = if new { "added" } else { "replaced" };
    target.tell(global, &format!("vlmetalayer {name:?} {what}"), committed);
    Ok(())
}

fn get(file: &std::path::Path, name: &str, global: Global) -> Result<Vec<u8>> {
    let input = Input::open(file, 0, global)?;
    let frame = input.frame().context("a bare chunk has no vlmetalayers")?;
    let value = frame.vlmetalayers().get(name)?;
    value.with_context(|| missing(name))
}

fn del(target: &Target, name: &str, global: Global) -> Result<()> {
    let named = || target.named();
    let mut frame = target.frame(false, global).with_context(named)?;
    let removed = frame.remove_vlmetalayer(name);
    ensure!(removed, "{}: {}", named(), missing(name));
    let committed = frame.commit().with_context(named)?;
    target.tell(global, &format!("vlmetalayer {name:?} removed"), committed);
    Ok(())
}

fn missing(name: &str) -> String {
    format!("no vlmetalayer {name:?}")
}

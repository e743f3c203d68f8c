//! `b2kit vlmeta`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::info::{vlmetalayer, vlnames};
use crate::args::{Global, Source};
use crate::files::Output;
use crate::print::{json, printable_name};
use crate::read::Input;
use crate::write::{Target, VlmetaLimit};

const EXAMPLES: &str = "\
Examples:
  b2kit vlmeta set data.b2nd unit K
  b2kit vlmeta set data.b2nd range '[-90, 90]'
  b2kit vlmeta list data.b2nd
  b2kit vlmeta get data.b2nd unit
  b2kit vlmeta del data.b2nd unit

Vlmetalayers hold metadata of variable size in msgpack, given and shown as JSON.
A plain word is taken as a string. JSON has no form for some values; they are
{\"$bin\": \"BASE64\"}, {\"$float\": \"nan\"}, {\"$map\": [[key, value], ...]},
{\"$ext\": [code, \"BASE64\"]} and {\"$raw\": \"BASE64\"}.";

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
        /// Its value: JSON, or a plain word, which is taken as a string
        #[arg(value_name = "JSON", allow_hyphen_values = true)]
        json: String,
        /// Allow more than 16 vlmetalayers
        ///
        /// C-Blosc2 reads such a file, but destroys it when it changes it.
        #[arg(long)]
        many: bool,
    },
    /// Print names and values, one line each: name, tab, JSON
    #[command(visible_alias = "ls")]
    List {
        /// A frame, the directory of a sparse frame, FILE::KEY in a store (-: standard input)
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print a vlmetalayer as JSON
    Get {
        /// A frame, the directory of a sparse frame, FILE::KEY in a store (-: standard input)
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
        Action::Set { target, name, json, many } => {
            let limit = if *many { VlmetaLimit::None } else { VlmetaLimit::Shared };
            set(target, name, json, limit, global)
        }
        Action::Get { file, name } => {
            let value = get(file, name, global).with_context(|| file.display().to_string())?;
            let mut output = Output::stdout();
            json::show(&value, &mut |text| output.send(text.as_bytes()))?;
            output.send(b"\n")?;
            output.finish()
        }
        Action::List { file, json } => list(file, *json, global),
        Action::Del { target, name } => del(target, name, global),
    }
}

fn set(target: &Target, name: &str, json: &str, limit: VlmetaLimit, global: Global) -> Result<()> {
    let (value, plain) = value_of(json).with_context(|| format!("vlmetalayer {name:?}"))?;
    target.change(global, || {
        let mut frame = target.frame(limit, global)?;
        let new = !frame.vlmetalayers().iter().any(|(there, _)| there == name.as_bytes());
        frame.vlmeta().set(name, &value)?;
        let committed = frame.commit()?;
        let what = if new { "added" } else { "replaced" };
        let note = if plain { format!(", as the string {json:?} (it is not JSON)") } else { String::new() };
        Ok((format!("vlmetalayer {name:?} {what}{note}"), committed))
    })
}

/// Converts a value to msgpack. Also returns whether it is a plain word that was taken as a string.
///
/// # Errors
/// Fails if the value is neither JSON nor looks like a word: a typo in a list or number should not become a string.
fn value_of(text: &str) -> Result<(Vec<u8>, bool)> {
    let is_word = text.starts_with(|c: char| c.is_alphabetic() || "°%€$/_".contains(c));
    match json::to_msgpack(text) {
        Err(_) if is_word => Ok((json::to_msgpack(&serde_json::Value::from(text).to_string())?, true)),
        Err(error) => {
            let quoted = serde_json::Value::from(text);
            Err(error.context(format!("{text} (as a string: '{quoted}')")))
        }
        Ok(value) => Ok((value, false)),
    }
}

fn list(file: &Path, as_json: bool, global: Global) -> Result<()> {
    let named = || file.display().to_string();
    let input = Input::open_source(&Source::of(file), global.opening_itemless()).with_context(named)?;
    let frame = input.frame().context("a bare chunk has no vlmetalayers").with_context(named)?;
    let mut output = Output::stdout();
    if as_json {
        let content = |name| vlmetalayer(frame, name).with_context(named);
        let mut send = |text: &str| output.send(text.as_bytes());
        json::show_layers(vlnames(frame).into_iter(), content, ["", " ", ""], &mut send)?;
        output.send(b"\n")?;
        return output.finish();
    }
    for name in vlnames(frame) {
        let value = vlmetalayer(frame, name).with_context(named)?;
        output.send(format!("{}\t", printable_name(name)).as_bytes())?;
        json::show(&value, &mut |text| output.send(text.as_bytes()))?;
        output.send(b"\n")?;
    }
    output.finish()
}

fn get(file: &Path, name: &str, global: Global) -> Result<Vec<u8>> {
    let input = Input::open_source(&Source::of(file), global.opening_itemless())?;
    let frame = input.frame().context("a bare chunk has no vlmetalayers")?;
    let value = frame.vlmetalayers().get(name)?;
    value.with_context(|| missing(name))
}

fn del(target: &Target, name: &str, global: Global) -> Result<()> {
    target.change(global, || {
        let mut frame = target.frame(VlmetaLimit::Shared, global)?;
        ensure!(frame.vlmeta().remove(name), "{}", missing(name));
        let committed = frame.commit()?;
        Ok((format!("vlmetalayer {name:?} removed"), committed))
    })
}

fn missing(name: &str) -> String {
    format!("no vlmetalayer {name:?}")
}

//! Values on the command line: lists, sizes, codecs, filters, metalayers.

use b2kit::chunk::{FilterSlot, SplitMode};
use b2kit::{CodecId, FilterId};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, ValueEnum};

use crate::json;
use crate::plugins;

/// `10,20`: lengths, separated by commas without blanks. Empty if there are no dimensions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dims(pub(crate) Vec<u64>);

impl std::str::FromStr for Dims {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(vec![]));
        }
        let dims = text.split(',').map(|part| part.parse().map_err(|_| format!("'{part}' is not a length")));
        Ok(Self(dims.collect::<Result<_, _>>()?))
    }
}

/// Parses a size in bytes: a number, with `K`, `M` or `G` (or `KiB`...) for powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        unit => return Err(format!("unit '{unit}' is not K, M or G")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("'{digits}' is not a number of bytes"))?;
    count.checked_mul(unit).ok_or_else(|| "too large".into())
}

/// Parses a limit in bytes; `none` or 0 for no limit.
pub(crate) fn parse_limit(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(u64::MAX),
        text => parse_size(text).map(|limit| if limit == 0 { u64::MAX } else { limit }),
    }
}

pub(crate) fn parse_codec(name: &str) -> Result<Codec, String> {
    if name == "auto" {
        return Ok(Codec::Auto);
    }
    let built_in = || plugins::plugins().codecs().find(|codec| codec.name() == name).map(|codec| codec.id());
    CodecId::from_name(name).or_else(built_in).map(Codec::Id).ok_or_else(|| {
        format!(
            "no codec '{name}': blosclz, lz4, lz4hc, zlib, zstd, zfp_acc, zfp_prec, zfp_rate, codec:ID, or auto"
        )
    })
}

/// A codec by name, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Codec {
    /// Chosen from a sample of the data.
    Auto,
    /// A codec by its number.
    Id(CodecId),
}

/// The compression level: `--clevel N`, or as in gzip `-1` to `-9`, `--fast` and `--best`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Level(pub(crate) Option<u8>);

impl std::ops::Deref for Level {
    type Target = Option<u8>;

    fn deref(&self) -> &Option<u8> {
        &self.0
    }
}

impl Level {
    /// Flags and their levels.
    const FLAGS: [(&str, char, u8); 9] = [
        ("level-1", '1', 1),
        ("level-2", '2', 2),
        ("level-3", '3', 3),
        ("level-4", '4', 4),
        ("level-5", '5', 5),
        ("level-6", '6', 6),
        ("level-7", '7', 7),
        ("level-8", '8', 8),
        ("level-9", '9', 9),
    ];
}

impl clap::Args for Level {
    fn augment_args(command: Command) -> Command {
        let clevel = Arg::new("clevel")
            .long("clevel")
            .value_name("0..9")
            .value_parser(clap::value_parser!(u8).range(0..=9))
            .help("Level, from 0 (store) to 9 (smallest); short: -1 to -9");
        let long = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
        };
        let flag = |(id, short, _): (&'static str, char, u8)| {
            Arg::new(id).short(short).action(ArgAction::SetTrue).hide(true)
        };
        let args = [clevel, long("fast", "Level 1, as -1"), long("best", "Level 9, as -9")];
        let args: Vec<Arg> = args.into_iter().chain(Self::FLAGS.into_iter().map(flag)).collect();
        let ids: Vec<clap::Id> = args.iter().map(|arg| arg.get_id().clone()).collect();
        command
            .args(args.into_iter().map(|arg| arg.help_heading("Compression")))
            .group(ArgGroup::new("level").args(ids).multiple(false))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Level {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let long = [("fast", 1), ("best", 9)].into_iter();
        let flags = Self::FLAGS.into_iter().map(|(id, _, level)| (id, level)).chain(long);
        let given = flags.into_iter().find_map(|(id, level)| matches.get_flag(id).then_some(level));
        Ok(Self(given.or_else(|| matches.get_one("clevel").copied())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What `--codec auto` aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// Quick writing and reading
    Speed,
    /// Small files that are read quickly
    Balance,
    /// The smallest files; writing may take long
    Size,
}

impl From<Goal> for b2kit::chunk::Goal {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Speed => Self::Speed,
            Goal::Balance => Self::Balance,
            Goal::Size => Self::Size,
        }
    }
}

/// A filter pipeline in order of application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filters(pub(crate) Vec<FilterSlot>);

impl std::str::FromStr for Filters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(vec![])),
            text => Ok(Self(text.split(',').map(parse_filter).collect::<Result<_, _>>()?)),
        }
    }
}

/// Parses `NAME` or `NAME:META`. `filter:ID` is a name, too.
fn parse_filter(text: &str) -> Result<FilterSlot, String> {
    let by_name = |name: &str| {
        let built_in =
            || plugins::plugins().filters().find(|filter| filter.name() == name).map(|filter| filter.id());
        FilterId::from_name(name).or_else(built_in).filter(|id| *id != FilterId::NONE)
    };
    if let Some(id) = by_name(text) {
        return Ok(FilterSlot::new(id, 0));
    }
    let unknown = || {
        format!(
            "no filter '{text}': shuffle, bitshuffle, delta, trunc_prec, ndcell, ndmean, bytedelta, \
             int_trunc or filter:ID, with :META after it where needed"
        )
    };
    let (name, meta) = text.rsplit_once(':').ok_or_else(unknown)?;
    let id = by_name(name).ok_or_else(unknown)?;
    Ok(FilterSlot::new(id, parse_meta(meta)?))
}

/// Parses a parameter byte; negative ones are stored as two's complement.
pub(crate) fn parse_meta(text: &str) -> Result<u8, String> {
    let meta = text.parse::<u8>().or_else(|_| text.parse::<i8>().map(i8::cast_unsigned));
    meta.map_err(|_| format!("parameter '{text}' is not -128 to 255"))
}

/// When blocks are split into one stream per byte of the item.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Split {
    Always,
    Never,
    Auto,
    Forward,
}

impl From<Split> for SplitMode {
    fn from(split: Split) -> Self {
        match split {
            Split::Always => Self::Always,
            Split::Never => Self::Never,
            Split::Auto => Self::Auto,
            Split::Forward => Self::ForwardCompat,
        }
    }
}

impl From<SplitMode> for Split {
    fn from(mode: SplitMode) -> Self {
        match mode {
            SplitMode::Always => Self::Always,
            SplitMode::Never => Self::Never,
            SplitMode::Auto => Self::Auto,
            SplitMode::ForwardCompat => Self::Forward,
        }
    }
}

/// The name of a split mode, as `--splitmode` takes it.
pub(crate) fn split_name(mode: SplitMode) -> &'static str {
    match mode {
        SplitMode::Always => "always",
        SplitMode::Never => "never",
        SplitMode::Auto => "auto",
        SplitMode::ForwardCompat => "forward",
    }
}

/// What a file is written as.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// One file: a contiguous frame
    Cframe,
    /// A directory with a file per chunk: a sparse frame
    Sframe,
    /// One bare chunk: no metalayers, no array
    Chunk,
}

/// `NAME=JSON`: a metalayer, its content already in msgpack.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, json) = text.split_once('=').ok_or("expected NAME=JSON")?;
        if name.is_empty() || name.len() > 31 {
            return Err(format!("the name '{name}' has {} bytes, expected 1 to 31", name.len()));
        }
        let content = json::to_msgpack(json).map_err(|e| crate::error::one_line(&e))?;
        Ok(Self { name: name.into(), content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims_and_sizes() {
        assert_eq!("10,20".parse(), Ok(Dims(vec![10, 20])));
        assert_eq!("".parse(), Ok(Dims(vec![])));
        for text in ["10,", "a", "1, 2", "-1", "1.5"] {
            assert!(text.parse::<Dims>().is_err(), "{text}");
        }
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("2MiB"), Ok(2 << 20));
        for text in ["", "K", "4k", "-1", "18446744073709551615G", "1.5M", "4KB", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn filters_with_parameters() {
        let slots = |text: &str| text.parse::<Filters>().unwrap().0;
        assert_eq!(slots("none"), []);
        assert_eq!(slots("shuffle"), [FilterSlot::SHUFFLE]);
        assert_eq!(
            slots("trunc_prec:-10,bitshuffle:0,filter:34:255,filter:200"),
            [
                FilterSlot::new(FilterId::TRUNC_PREC, 246),
                FilterSlot::BITSHUFFLE,
                FilterSlot::new(FilterId(34), 255),
                FilterSlot::new(FilterId(200), 0),
            ]
        );
        for text in [
            "",
            "x",
            "shuffle,",
            "shuffle:",
            "shuffle:256",
            "shuffle:-129",
            "filter:0",
            "none,shuffle",
            "filter:",
        ] {
            assert!(text.parse::<Filters>().is_err(), "{text}");
        }
    }

    #[test]
    fn metalayers_are_msgpack() {
        assert_eq!("a=b=1".parse::<Named>().map_err(|_| ()), Err(()));
        assert_eq!("a=[1]".parse(), Ok(Named { name: "a".into(), content: vec![0x91, 1] }));
        assert_eq!(r#"a="x=y""#.parse(), Ok(Named { name: "a".into(), content: b"\xa3x=y".to_vec() }));
        for text in ["a", "=1", "a=", "a=1 2", &format!("{}=1", "n".repeat(32))] {
            assert!(text.parse::<Named>().is_err(), "{text}");
        }
    }
}

//! Values on the command line: lists, sizes, codecs, filters, metalayers.

use std::ffi::OsStr;
use std::fmt;

use anyhow::Context;
use b2kit::chunk::{FilterSlot, SplitMode};
use b2kit::filters::FilterContext;
use b2kit::{CodecId, FilterId};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, ValueEnum};

use super::plugins;
use crate::print::json;

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

/// `10,-1`: the shape of an array. One length may be -1 and follows from the number of items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape(pub(crate) Vec<Option<u64>>);

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(vec![]));
        }
        let length = |part: &str| match part {
            "-1" => Ok(None),
            part => part.parse().map(Some).map_err(|_| format!("'{part}' is not a length")),
        };
        let lengths: Vec<_> = text.split(',').map(length).collect::<Result<_, _>>()?;
        match lengths.iter().filter(|length| length.is_none()).count() {
            0 | 1 => Ok(Self(lengths)),
            _ => Err("only one length can be -1".into()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> =
            self.0.iter().map(|length| length.map_or_else(|| "-1".into(), |n| n.to_string())).collect();
        f.write_str(&lengths.join(","))
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

/// A parser with the named values that completion offers. Help texts describe the values.
#[derive(Clone)]
struct SuggestingParser<P> {
    parser: P,
    names: &'static [&'static str],
}

impl<P: TypedValueParser> TypedValueParser for SuggestingParser<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// The codecs that compress any bytes.
const CODECS: [&str; 5] = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"];
const ALL_CODECS: [&str; 10] =
    ["blosclz", "lz4", "lz4hc", "zlib", "zstd", "pco", "auto", "zfp_acc", "zfp_prec", "zfp_rate"];
const FILTERS: [&str; 9] =
    ["shuffle", "bitshuffle", "delta", "trunc_prec", "bytedelta", "int_trunc", "ndcell", "ndmean", "none"];

/// Parses a codec, or `auto`.
pub(crate) fn codec_parser() -> impl TypedValueParser<Value = Codec> {
    SuggestingParser { parser: parse_codec, names: &ALL_CODECS }
}

/// Parses a codec with `parser`, which accepts codecs for any bytes.
pub(crate) fn plain_codec_parser<P: TypedValueParser>(parser: P) -> impl TypedValueParser<Value = P::Value> {
    SuggestingParser { parser, names: &CODECS }
}

/// Parses a list of filters.
pub(crate) fn filters_parser() -> impl TypedValueParser<Value = Filters> {
    SuggestingParser { parser: |text: &str| text.parse::<Filters>(), names: &FILTERS }
}

pub(crate) fn parse_codec(name: &str) -> Result<Codec, String> {
    if name == "auto" {
        return Ok(Codec::Auto);
    }
    // Snappy is only read.
    let built_in = || plugins::plugins().codecs().find(|codec| codec.name() == name).map(|codec| codec.id());
    CodecId::from_name(name).or_else(built_in).filter(|&id| id != CodecId::SNAPPY).map(Codec::Id).ok_or_else(|| {
        format!(
            "no codec '{name}': blosclz, lz4, lz4hc, zlib, zstd, pco, zfp_acc, zfp_prec, zfp_rate, codec:ID, or auto"
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
    /// The flags of the levels from 1 on.
    const FLAGS: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
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
        let flag = |digit: &'static str| {
            Arg::new(digit).short(digit.chars().next()).action(ArgAction::SetTrue).hide(true)
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
        let flags = Self::FLAGS.into_iter().zip(1..).chain(long);
        let given = flags.into_iter().find_map(|(id, level)| matches.get_flag(id).then_some(level));
        Ok(Self(given.or_else(|| matches.get_one("clevel").copied())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The goal of `--codec auto`.
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

impl Filters {
    /// The filters of these slots without the empty ones.
    pub(crate) fn used(slots: impl IntoIterator<Item = FilterSlot>) -> Self {
        Self(slots.into_iter().filter(|slot| slot.id != FilterId::NONE).collect())
    }
}

impl std::str::FromStr for Filters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(vec![])),
            text => Ok(Self(text.split(',').map(parse_filter).collect::<Result<_, _>>()?)),
        }
    }
}

impl Filters {
    /// Checks the parameters of the filters for items of this size.
    ///
    /// # Errors
    /// Fails if the parameter of a filter is missing or invalid.
    pub(crate) fn check(&self, typesize: usize) -> anyhow::Result<()> {
        let needed = [FilterId::TRUNC_PREC, FilterId::INT_TRUNC, FilterId::NDCELL, FilterId::NDMEAN];
        for slot in self.0.iter().filter(|slot| needed.contains(&slot.id)) {
            let id = slot.id;
            if slot.meta == 0 {
                let what = match id {
                    FilterId::NDCELL | FilterId::NDMEAN => ("the side of a cell, in items", 4),
                    _ => ("the number of bits to keep", 10),
                };
                anyhow::bail!("--filters {id}: add {}, for example {id}:{}", what.0, what.1);
            }
            if matches!(id, FilterId::TRUNC_PREC | FilterId::INT_TRUNC) {
                // Applying it to one item finds the same errors as applying it to all.
                let item = vec![0; typesize];
                let cx = FilterContext::new(typesize);
                let tried = plugins::plugins().filter(id)?.forward(&cx, slot.meta, &item, &mut item.clone());
                tried.context("--filters")?;
            }
        }
        Ok(())
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

pub(crate) fn parse_tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(x),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x <= 64.0 => Ok(x),
        _ => Err(format!("'{text}' is not a number of bits above 0 and at most 64")),
    }
}

/// When blocks are split into one stream per byte of the item, by the names that `--splitmode` takes.
const SPLIT_MODES: [(&str, SplitMode); 4] = [
    ("always", SplitMode::Always),
    ("never", SplitMode::Never),
    ("auto", SplitMode::Auto),
    ("forward", SplitMode::ForwardCompat),
];

/// Parses the name of a split mode.
pub(crate) fn split_parser() -> impl TypedValueParser<Value = SplitMode> {
    PossibleValuesParser::new(SPLIT_MODES.map(|(name, _)| name)).map(|given| {
        let named = SPLIT_MODES.iter().find(|(name, _)| *name == given);
        named.map_or(SplitMode::ForwardCompat, |(_, mode)| *mode)
    })
}

/// The name of a split mode, as `--splitmode` takes it.
pub(crate) fn split_name(mode: SplitMode) -> &'static str {
    SPLIT_MODES.iter().find(|(_, known)| *known == mode).map_or("forward", |(name, _)| name)
}

/// The format of a new file.
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
pub(crate) struct MetaArg {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

impl std::str::FromStr for MetaArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, json) = text.split_once('=').ok_or("expected NAME=JSON")?;
        if name.is_empty() || name.len() > 31 {
            return Err(format!("the name '{name}' has {} bytes, expected 1 to 31", name.len()));
        }
        let content = json::to_msgpack(json).map_err(|e| crate::process::error::one_line(&e))?;
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
        assert_eq!("10,-1".parse(), Ok(Shape(vec![Some(10), None])));
        assert_eq!("".parse(), Ok(Shape(vec![])));
        for text in ["-1,-1", "-2", "1,", "a", "--force"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
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
        assert_eq!("a=b=1".parse::<MetaArg>().map_err(|_| ()), Err(()));
        assert_eq!("a=[1]".parse(), Ok(MetaArg { name: "a".into(), content: vec![0x91, 1] }));
        assert_eq!(r#"a="x=y""#.parse(), Ok(MetaArg { name: "a".into(), content: b"\xa3x=y".to_vec() }));
        for text in ["a", "=1", "a=", "a=1 2", &format!("{}=1", "n".repeat(32))] {
            assert!(text.parse::<MetaArg>().is_err(), "{text}");
        }
    }
}

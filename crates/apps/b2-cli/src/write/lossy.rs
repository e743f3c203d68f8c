//! Codecs and filters that lose data: the user must ask for them explicitly, and the command measures and reports the
//! largest error afterwards.

use std::fmt;
use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::nd::DtypeKind;
use b2kit::{CodecId, Dtype, FilterId};

use crate::args::{Codec, Encoding, Global};
use crate::print::{Simple, count, items::double, joined, printable};
use crate::process::{Usage, buffer, say, signals};
use crate::read::{Axis, Input, Selection, coordinates};

/// A value this many times as large as all others counts as a fill value.
const FAR_OUTSIDE: f64 = 32.0;
/// Minimum length of a block along each dimension for zfp, in items.
pub(crate) const MIN_ZFP_SIDE: u32 = 4;
/// Maximum block size, in bytes, after short sides were extended for zfp.
const ZFP_BLOCK: u64 = 256 << 10;

/// A codec that loses data.
struct LossyCodec {
    id: CodecId,
    /// The option with the accepted loss, and its description.
    option: &'static str,
    hint: &'static str,
    /// The parameter of the codec that this option asks for, for items of this size.
    given: fn(&Encoding, usize) -> Option<u8>,
    /// Describes the codec with its parameter.
    describe: fn(u8) -> String,
    /// The largest error that it allows.
    most: fn(u8) -> Option<f64>,
}

const CODECS: [LossyCodec; 3] = [
    LossyCodec {
        id: CodecId::ZFP_FIXED_ACCURACY,
        option: "--tolerance",
        hint: "--tolerance X, the largest error you accept (such as 0.001), or --codec-meta",
        given: |encoding, _| encoding.tolerance.map(tolerance_meta),
        describe: |meta| format!("zfp_acc, tolerance 1e{}", meta.cast_signed()),
        most: |meta| Some(10f64.powi(i32::from(meta.cast_signed()))),
    },
    LossyCodec {
        id: CodecId::ZFP_FIXED_PRECISION,
        option: "--precision",
        hint: "--precision BITS, or --codec-meta",
        given: |encoding, _| encoding.precision,
        describe: |meta| format!("zfp_prec, {meta} bits of precision"),
        most: |_| None,
    },
    LossyCodec {
        id: CodecId::ZFP_FIXED_RATE,
        option: "--rate",
        hint: "--rate BITS, for each value, or --codec-meta",
        given: |encoding, itemsize| encoding.rate.map(|bits| rate_meta(bits, itemsize)),
        describe: |meta| format!("zfp_rate, {meta} % of the bits"),
        most: |_| None,
    },
];

/// The filters that lose data: the bits they keep or clear, and the kind of their items.
const FILTERS: [(FilterId, &str, char); 2] =
    [(FilterId::TRUNC_PREC, "mantissa bits", 'f'), (FilterId::INT_TRUNC, "bits", 'u')];

fn lossy_codec(codec: CodecId) -> Option<&'static LossyCodec> {
    CODECS.iter().find(|lossy| lossy.id == codec)
}

fn lossy_filter(slot: &FilterSlot) -> Option<&'static (FilterId, &'static str, char)> {
    FILTERS.iter().find(|(id, ..)| *id == slot.id)
}

pub(crate) fn is_zfp(codec: CodecId) -> bool {
    lossy_codec(codec).is_some()
}

/// Describes the lossy codec, with its parameter, and the lossy filters; `None` if there are none.
pub(crate) fn what_loses(codec: Option<(CodecId, u8)>, filters: &[FilterSlot]) -> Option<String> {
    let filters = filters.iter().filter_map(|slot| {
        let (id, what, _) = lossy_filter(slot)?;
        Some(match slot.meta.cast_signed() {
            bits @ 0.. => format!("{id} keeps {bits} {what}"),
            bits => format!("{id} clears {} {what}", bits.unsigned_abs()),
        })
    });
    let codec = codec.and_then(|(codec, meta)| Some((lossy_codec(codec)?.describe)(meta)));
    let all: Vec<String> = filters.chain(codec).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Describes the lossy codec and filters of these parameters.
pub(crate) fn of_params(cparams: &CParams) -> Option<String> {
    what_loses(Some((cparams.codec(), cparams.codec_meta())), &cparams.filters())
}

/// Describes the lossy codec and filters of resolved options.
pub(crate) fn of_options(settled: &Encoding) -> Option<String> {
    let codec = match settled.codec {
        Some(Codec::Id(codec)) => Some((codec, settled.codec_meta.unwrap_or(0))),
        _ => None,
    };
    let filters = settled.filters.as_ref().map_or(&[][..], |filters| &filters.0);
    let means = filters.iter().any(|slot| slot.id == FilterId::NDMEAN);
    what_loses(codec, filters).or_else(|| means.then(|| "ndmean keeps means of cells".into()))
}

/// Describes the lossy codec and filters of an open file.
pub(crate) fn of_input(input: &Input) -> Option<String> {
    what_loses(input.codec(), &input.filters())
}

/// Replaces `--tolerance`, `--precision` and `--rate` by a codec and its parameter, for items of `itemsize` bytes.
/// `old` is the codec of the file that is copied; its parameter is kept if nothing else is given.
///
/// # Errors
/// Returns [`Usage`] if they are out of range or conflict, or if a zfp codec has none of them.
pub(crate) fn settle(encoding: &Encoding, itemsize: usize, old: Option<CodecId>) -> Result<Encoding> {
    let mut settled = encoding.clone();
    let given = CODECS.iter().filter_map(|codec| Some((codec, (codec.given)(encoding, itemsize)?)));
    for (&LossyCodec { id, option, .. }, meta) in given {
        match encoding.codec {
            None => settled.codec = Some(Codec::Id(id)),
            Some(Codec::Id(given)) if given == id => {}
            Some(_) => return Err(Usage(format!("{option} is for --codec {id}")).into()),
        }
        settled.codec_meta = Some(meta);
    }
    if let Some(Codec::Id(codec)) = settled.codec
        && let Some(LossyCodec { hint, .. }) = lossy_codec(codec)
        && settled.codec_meta.is_none()
        && old != Some(codec)
    {
        return Err(Usage(format!("--codec {codec} loses data: specify how much with {hint}")).into());
    }
    Ok(settled)
}

/// The exponent of the largest power of ten that does not exceed the tolerance.
fn tolerance_meta(tolerance: f64) -> u8 {
    let mut power = tolerance.log10().floor().clamp(-128.0, 127.0) as i8;
    // Correct rounding errors in either direction.
    if power < i8::MAX && 10f64.powi(i32::from(power) + 1) <= tolerance {
        power += 1;
    }
    if power > i8::MIN && 10f64.powi(i32::from(power)) > tolerance * (1.0 + 1e-12) {
        power -= 1;
    }
    power.cast_unsigned()
}

/// The parameter of zfp for a rate: bits per value as a percentage of the size of an item, rounded up.
fn rate_meta(bits: f64, itemsize: usize) -> u8 {
    (bits / (itemsize as f64 * 8.0) * 100.0).ceil().clamp(1.0, 255.0) as u8
}

/// Checks that codecs and filters for numbers get numbers. Other data would be destroyed.
pub(crate) fn check_dtype(cparams: &CParams, dtype: &Dtype) -> Result<()> {
    dtype.check_compression(cparams)?;
    let codec = cparams.codec();
    // Bytes without a type are not treated as floats: --dtype can define the type.
    if is_zfp(codec) && !matches!(dtype.kind(), DtypeKind::Simple { code: 'f', .. }) {
        bail!("{codec} needs floats of 4 or 8 bytes, the dtype is {dtype}");
    }
    Ok(())
}

/// Rejects zfp for super-chunks and bare chunks, whose blocks have no shape.
pub(crate) fn check_array(cparams: &CParams) -> Result<()> {
    if is_zfp(cparams.codec()) {
        bail!("{} takes arrays of floats: --dtype and --shape make one of raw bytes", cparams.codec());
    }
    Ok(())
}

/// Adapts chunk and block shape to the requirements of zfp, unless the user chose them.
pub(crate) fn fit_blocks(
    shape: &[u64],
    itemsize: usize,
    chunks: Option<Vec<u32>>,
    blocks: Vec<u32>,
) -> (Vec<u32>, Vec<u32>) {
    let mut fit = blocks;
    // A block must not be longer than a chunk that the user chose.
    let most = |dim: usize| chunks.as_ref().and_then(|chunks| chunks.get(dim).copied()).unwrap_or(u32::MAX);
    for (dim, n) in fit.iter_mut().enumerate() {
        *n = (*n).max(MIN_ZFP_SIDE).min(most(dim).max(1));
    }
    let nbytes = |fit: &[u32]| fit.iter().fold(itemsize as u64, |all, n| all.saturating_mul(u64::from(*n)));
    while nbytes(&fit) > ZFP_BLOCK {
        let Some(longest) = fit.iter_mut().filter(|n| **n >= 2 * MIN_ZFP_SIDE).max() else { break };
        *longest = longest.div_ceil(2).next_multiple_of(MIN_ZFP_SIDE);
    }
    let chunks = chunks.unwrap_or_else(|| {
        let chunks = b2kit::nd::default_chunkshape(shape, &fit, itemsize);
        chunks.iter().zip(&fit).map(|(chunk, block)| *chunk.max(block)).collect()
    });
    (chunks, fit)
}

/// How the items of a file are read as numbers; `None` if they can only be compared for equality.
fn numbers(input: &Input) -> Option<Simple> {
    let size = input.itemsize();
    let (code, big_endian) = match input {
        Input::Array(array) => match array.dtype().kind() {
            DtypeKind::Simple { code: code @ ('f' | 'i' | 'u'), big_endian } => (*code, *big_endian),
            _ => return None,
        },
        // In super-chunks and chunks only the filter implies what type the items have.
        _ => (input.filters().iter().find_map(lossy_filter)?.2, false),
    };
    let fits = if code == 'f' { size == 4 || size == 8 } else { size <= 8 };
    fits.then(|| Simple::number_of(code, big_endian, size))
}

/// Values of about the same magnitude.
#[derive(Clone, Copy, Default)]
struct Magnitude {
    count: u64,
    /// The largest of them.
    value: f64,
    /// Whether there are different values among them.
    differ: bool,
}

/// How much the data of a file differs from the original.
pub(crate) struct Loss {
    /// How to read the items, if they are numbers.
    numbers: Option<Simple>,
    itemsize: usize,
    nitems: u64,
    changed: u64,
    /// Number of NaN and infinite values that became something else.
    broken: u64,
    /// The largest error: its size, the coordinates, the original and the new value.
    worst: Option<(f64, Vec<u64>, f64, f64)>,
    /// Indexed by binary exponent.
    magnitudes: Vec<Magnitude>,
    not_finite: u64,
}

impl Loss {
    fn new(input: &Input) -> Self {
        let (numbers, itemsize) = (numbers(input), input.itemsize().max(1));
        let magnitudes = vec![Magnitude::default(); 2048];
        Self { numbers, itemsize, nitems: 0, changed: 0, broken: 0, worst: None, magnitudes, not_finite: 0 }
    }

    /// Compares items. `axes` are their positions in the file.
    fn add(&mut self, axes: &[Axis], before: &[u8], after: &[u8]) {
        let (numbers, size) = (self.numbers.clone(), self.itemsize);
        let number = |item: &[u8]| numbers.as_ref()?.value(item).number();
        for (k, (a, b)) in before.chunks_exact(size).zip(after.chunks_exact(size)).enumerate() {
            self.nitems += 1;
            let value = number(a);
            if let Some(value) = value.filter(|value| *value != 0.0) {
                self.count(value);
            }
            if a == b {
                continue;
            }
            self.changed += 1;
            let (Some(x), Some(y)) = (value, number(b)) else { continue };
            if !x.is_finite() {
                self.broken += u64::from(!(x.is_nan() && y.is_nan()));
                continue;
            }
            // A number that became NaN is the worst possible error.
            let error = if y.is_nan() { f64::INFINITY } else { (x - y).abs() };
            if self.worst.as_ref().is_none_or(|(largest, ..)| error > *largest) {
                self.worst = Some((error, position(axes, k as u64), x, y));
            }
        }
    }

    fn count(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        let exponent = (value.to_bits() >> 52 & 0x7FF) as usize;
        let there = &mut self.magnitudes[exponent];
        if there.count == 0 {
            there.value = value;
        }
        there.differ |= there.value != value;
        if value.abs() > there.value.abs() {
            there.value = value;
        }
        there.count += 1;
    }

    /// Finds values far above all others in magnitude, each with its count, and the largest magnitude of the others.
    fn fill_values(&self) -> Option<(Vec<(f64, u64)>, f64)> {
        let mut found = Vec::new();
        let mut used = self.magnitudes.iter().rev().filter(|there| there.count > 0).peekable();
        while let Some(there) = used.next().filter(|there| !there.differ) {
            found.push((there.value, there.count));
            let next = used.peek()?;
            let others = next.value.abs();
            if there.value.abs() > FAR_OUTSIDE * others {
                let rest: u64 = used.map(|there| there.count).sum();
                // If there is only one other value, there is no range to be far outside of.
                return (rest > 1).then_some((found, others));
            }
        }
        None
    }
}

/// The coordinates of the `k`-th item of a selection.
fn position(axes: &[Axis], k: u64) -> Vec<u64> {
    let at = coordinates(k, axes.iter().map(|axis| axis.len));
    // The whole file is compared, so there are no steps.
    axes.iter().zip(at).map(|(axis, at)| axis.start + at).collect()
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worst {
            Some((error, at, before, after)) => {
                write!(f, "largest error {}", short(*error))?;
                let texts = differently(*before, *after);
                write!(f, " (item [{}]: {} became {})", joined(at, ","), texts.0, texts.1)?;
            }
            None if self.numbers.is_none() && self.changed > 0 => {
                f.write_str("the items are not numbers, so their error is not measured")?;
            }
            None => f.write_str("largest error 0")?,
        }
        write!(f, "; {} of {} items changed", self.changed, self.nitems)?;
        if self.broken > 0 {
            write!(f, "; {} NaN or infinite values became others", self.broken)?;
        }
        Ok(())
    }
}

/// Formats two numbers with enough digits to differ.
fn differently(before: f64, after: f64) -> (String, String) {
    let texts = (4..17).map(|digits| (rounded(before, digits), rounded(after, digits)));
    texts
        .chain([(double(before), double(after))])
        .find(|(a, b)| a != b)
        .unwrap_or_else(|| (short(before), short(after)))
}

/// Formats a number with four digits.
fn short(x: f64) -> String {
    rounded(x, 4)
}

/// Formats a number with about this many digits.
fn rounded(x: f64, digits: i32) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if (1e-4..1e7).contains(&x.abs()) {
        let decimals = (digits - 1 - x.abs().log10().floor() as i32).clamp(0, digits + 4) as usize;
        let text = format!("{x:.decimals$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let text = format!("{x:.0$e}", (digits - 1) as usize);
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => {
            format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// The loss that is allowed for a new file, and how to report it.
pub(crate) struct Promise<'a> {
    /// Name of the file for messages.
    name: &'a Path,
    /// Describes the lossy codec and filters.
    what: String,
    /// The largest error allowed.
    most: Option<f64>,
    /// Whether to accept a larger loss.
    allow: bool,
    quiet: bool,
}

impl<'a> Promise<'a> {
    /// `None` if nothing is lost. `encoding`: as given on the command line.
    pub(crate) fn of(name: &'a Path, cparams: &CParams, encoding: &Encoding, global: Global) -> Option<Self> {
        let what = of_params(cparams)?;
        let most = lossy_codec(cparams.codec()).and_then(|codec| (codec.most)(cparams.codec_meta()));
        let most = most.map(|most| encoding.tolerance.unwrap_or(most));
        Some(Self { name, what, most, allow: encoding.allow_lossy, quiet: global.quiet })
    }

    /// Explains why this loss is more than allowed; `None` if it is not.
    fn broken(&self, loss: &Loss) -> Option<String> {
        let kept = self.most.is_none_or(|most| loss.worst.as_ref().is_none_or(|(error, ..)| *error <= most));
        match (kept, loss.broken) {
            (true, 0) => None,
            (true, n) => Some(format!("{n} NaN or infinite values would become others ({loss})")),
            (false, _) => {
                let most = self.most.map_or_else(String::new, short);
                Some(format!("the tolerance {most} is not kept: {loss}"))
            }
        }
    }

    /// Compares a new file, before it gets its name, with the original data, which `original` reads. Reports the
    /// difference on standard error.
    ///
    /// # Errors
    /// Fails if either cannot be read, or if more is lost than allowed.
    pub(crate) fn check(
        &self,
        written: &Input,
        mut original: impl FnMut(&[Axis], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut loss = Loss::new(written);
        let all = Selection::all(written);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for axes in all.pieces() {
            signals::check()?;
            all.read(&axes, &mut after)?;
            if before.len() != after.len() {
                before = buffer(after.len())?;
            }
            original(&axes, &mut before)?;
            let of_items = in_items(written, &axes);
            loss.add(&of_items, &before, &after);
        }
        let named = printable(&self.name.display().to_string());
        match (self.broken(&loss), self.allow) {
            (Some(why), false) => bail!(
                "{named}: not written: lossy ({}), and {why}; --allow-lossy accepts that, a lossless codec keeps all",
                self.what
            ),
            (Some(why), true) if !self.quiet => say(&format!("{named}: warning: {why}")),
            _ => {}
        }
        if !self.quiet {
            report(&named, &self.what, &loss);
        }
        Ok(())
    }
}

/// Compares a new lossy array with the original items, which `read` returns by start and shape of a box.
pub(crate) fn check_boxes(
    promise: Option<Promise<'_>>,
    written: &Input,
    read: impl Fn(&[u64], &[u64], &mut [u8]) -> io::Result<()>,
) -> Result<()> {
    let Some(promise) = promise else { return Ok(()) };
    promise.check(written, |axes, dst| {
        let (start, shape): (Vec<u64>, Vec<u64>) = axes.iter().map(|axis| (axis.start, axis.len)).unzip();
        Ok(read(&start, &shape, dst)?)
    })
}

/// Compares a new lossy super-chunk or chunk with the original bytes, which `read` returns by position.
pub(crate) fn check_bytes(
    promise: Option<Promise<'_>>,
    written: impl FnOnce() -> Result<Input>,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let Some(promise) = promise else { return Ok(()) };
    promise.check(&written()?, |axes, dst| read(axes.first().map_or(0, |axis| axis.start), dst))
}

/// Reports the loss of a file.
fn report(named: &str, what: &str, loss: &Loss) {
    say(&format!("{named}: lossy ({what}): {loss}"));
    // Only zfp compresses neighbouring values together.
    if let Some((fills, others)) = loss.fill_values().filter(|_| what.contains("zfp_")) {
        let of: Vec<String> =
            fills.iter().map(|(value, n)| format!("{} ({})", short(*value), count(*n, "item"))).collect();
        say(&format!(
            "{named}: warning: {} far outside of the other values (up to {}): what is near such a fill value loses \
             most; a codec without loss keeps all",
            of.join(", "),
            short(others)
        ));
    }
    if loss.not_finite > 0 && loss.changed > 0 {
        say(&format!("{named}: warning: {} NaN or infinite values, which zfp cannot keep", loss.not_finite));
    }
}

/// Converts selections of super-chunks and chunks from bytes to items.
fn in_items(input: &Input, axes: &[Axis]) -> Vec<Axis> {
    let size = input.itemsize().max(1) as u64;
    match (input, axes) {
        (Input::Array(_), _) => axes.to_vec(),
        (_, [axis]) => vec![Axis { start: axis.start / size, len: (axis.len / size).max(1), ..*axis }],
        _ => axes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_become_powers_of_ten() {
        for (tolerance, power) in [
            (1.0, 0),
            (0.001, -3),
            (0.002, -3),
            (0.0099, -3),
            (1e-7, -7),
            (50.0, 1),
            (1e300, 127),
            (1e-300, -128),
        ] {
            assert_eq!(tolerance_meta(tolerance).cast_signed(), power, "{tolerance}");
        }
        assert_eq!([rate_meta(8.0, 4), rate_meta(16.0, 8), rate_meta(0.01, 4)], [25, 25, 1]);
    }

    #[test]
    fn blocks_are_fitted() {
        assert_eq!(fit_blocks(&[100, 720, 1440], 4, None, vec![1, 45, 1440]).1.iter().min(), Some(&4));
        assert_eq!(fit_blocks(&[2, 3], 8, None, vec![2, 3]), (vec![4, 4], vec![4, 4]));
        assert_eq!(fit_blocks(&[9, 9], 8, Some(vec![2, 9]), vec![1, 9]), (vec![2, 9], vec![2, 9]));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.001, -0.965_012, 34.455, 1.7e26, -1e34, 123_456.0, 9.765_625e-4, 1e-9].map(short);
        assert_eq!(
            shown,
            ["0", "0.001", "-0.965", "34.45", "1.7e26", "-1e34", "123456", "0.0009766", "1e-9"]
        );
    }
}

//! Codecs and filters that lose data: the user must ask for them explicitly, and the command measures and reports the
//! largest error afterwards.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::nd::DtypeKind;
use b2kit::{CodecId, Dtype, FilterId};

use crate::args::{Encoding, Global};
use crate::encode::buffer;
use crate::error::{Usage, say};
use crate::input::{Input, Selection};
use crate::signals;
use crate::slice::Axis;
use crate::table::{dims, printable};
use crate::values::Codec;

/// A value this many times as large as all others counts as a fill value.
const FAR_OUTSIDE: f64 = 32.0;
/// Minimum length of a block along each dimension for zfp, in items.
pub(crate) const ZFP_LEAST: u32 = 4;
/// Maximum block size, in bytes, after short sides were extended for zfp.
const ZFP_BLOCK: u64 = 256 << 10;

pub(crate) fn is_zfp(codec: CodecId) -> bool {
    [CodecId::ZFP_FIXED_ACCURACY, CodecId::ZFP_FIXED_PRECISION, CodecId::ZFP_FIXED_RATE].contains(&codec)
}

/// Describes what loses data in a codec, with its parameter, and in filters; `None` if nothing does.
pub(crate) fn what_loses(codec: Option<(CodecId, u8)>, filters: &[FilterSlot]) -> Option<String> {
    let mut all = Vec::new();
    for slot in filters.iter().filter(|slot| [FilterId::TRUNC_PREC, FilterId::INT_TRUNC].contains(&slot.id)) {
        let bits = slot.meta.cast_signed();
        let kind = if slot.id == FilterId::TRUNC_PREC { "mantissa bits" } else { "bits" };
        all.push(match bits {
            0.. => format!("{} keeps {bits} {kind}", slot.id),
            _ => format!("{} clears {} {kind}", slot.id, bits.unsigned_abs()),
        });
    }
    match codec {
        Some((CodecId::ZFP_FIXED_ACCURACY, meta)) => {
            all.push(format!("zfp_acc, tolerance 1e{}", meta.cast_signed()));
        }
        Some((CodecId::ZFP_FIXED_PRECISION, meta)) => all.push(format!("zfp_prec, {meta} bits of precision")),
        Some((CodecId::ZFP_FIXED_RATE, meta)) => all.push(format!("zfp_rate, {meta} % of the bits")),
        _ => {}
    }
    (!all.is_empty()).then(|| all.join(", "))
}

/// Describes what loses data with these parameters.
pub(crate) fn of_params(cparams: &CParams) -> Option<String> {
    what_loses(Some((cparams.codec(), cparams.codec_meta())), &cparams.filters())
}

/// Describes what lost data, or may have, in an open file.
pub(crate) fn of_input(input: &Input) -> Option<String> {
    match (input.frame(), input) {
        (Some(frame), _) => {
            let header = frame.header();
            what_loses(Some((header.codec(), header.codec_meta())), &header.filters())
        }
        (None, Input::Chunk(chunk)) => {
            let header = chunk.header();
            what_loses(header.codec().map(|codec| (codec, header.codec_meta())), &header.filters())
        }
        (None, _) => None,
    }
}

/// Replaces `--tolerance`, `--precision` and `--rate` by a codec and its parameter, for items of `itemsize` bytes.
/// `old` is the codec of the file that is copied; its parameter is kept if nothing else is given.
///
/// # Errors
/// Returns [`Usage`] if they are out of range or conflict, or if a zfp codec has none of them.
pub(crate) fn settle(encoding: &Encoding, itemsize: usize, old: Option<CodecId>) -> Result<Encoding> {
    let mut settled = encoding.clone();
    let named = [
        encoding.tolerance.map(|x| ("--tolerance", CodecId::ZFP_FIXED_ACCURACY, tolerance_meta(x))),
        encoding.precision.map(|bits| ("--precision", CodecId::ZFP_FIXED_PRECISION, bits)),
        encoding.rate.map(|bits| ("--rate", CodecId::ZFP_FIXED_RATE, rate_meta(bits, itemsize))),
    ];
    for (option, codec, meta) in named.into_iter().flatten() {
        match encoding.codec {
            None => settled.codec = Some(Codec::Id(codec)),
            Some(Codec::Id(given)) if given == codec => {}
            Some(_) => return Err(Usage(format!("{option} is for --codec {codec}")).into()),
        }
        settled.codec_meta = Some(meta);
    }
    if let Some(Codec::Id(codec)) = settled.codec
        && is_zfp(codec)
        && settled.codec_meta.is_none()
        && old != Some(codec)
    {
        let how = match codec {
            CodecId::ZFP_FIXED_ACCURACY => {
                "--tolerance X, the largest error you accept (such as 0.001), or --codec-meta"
            }
            CodecId::ZFP_FIXED_PRECISION => "--precision BITS, or --codec-meta",
            _ => "--rate BITS, for each value, or --codec-meta",
        };
        return Err(Usage(format!("--codec {codec} loses data: say how much with {how}")).into());
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

pub(crate) fn parse_tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(x),
        _ => Err(format!("'{text}' is not a number above 0")),
    }
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x <= 64.0 => Ok(x),
        _ => Err(format!("'{text}' is not a number of bits above 0, and 64 at most")),
    }
}

/// Checks that zfp gets floats of a size that it supports, and `int_trunc` integers. Other data would be destroyed.
///
/// # Errors
/// Fails if the dtype does not fit.
pub(crate) fn check_dtype(cparams: &CParams, dtype: &Dtype) -> Result<()> {
    let kind = dtype.kind();
    if cparams.filters().iter().any(|slot| slot.id == FilterId::INT_TRUNC)
        && matches!(kind, DtypeKind::Simple { code: 'f' | 'c', .. })
    {
        bail!("int_trunc clears bits of integers, the dtype is {dtype}: trunc_prec is for floats");
    }
    let codec = cparams.codec();
    if !is_zfp(codec) {
        return Ok(());
    }
    match (dtype.kind(), dtype.itemsize()) {
        (DtypeKind::Simple { code: 'f', big_endian: false }, 4 | 8) => Ok(()),
        (DtypeKind::Simple { code: 'f', big_endian: true }, 4 | 8) => {
            bail!("{codec} takes little-endian floats, the dtype is {dtype}")
        }
        _ => bail!("{codec} takes floats of 4 or 8 bytes, the dtype is {dtype}"),
    }
}

/// Rejects zfp for super-chunks and bare chunks, whose blocks have no shape.
///
/// # Errors
/// Fails if the codec is zfp.
pub(crate) fn check_array(cparams: &CParams) -> Result<()> {
    if is_zfp(cparams.codec()) {
        bail!("{} takes arrays of floats: --dtype and --shape make one of raw bytes", cparams.codec());
    }
    Ok(())
}

/// Adapts chunk and block shape to the requirements of zfp, where the user did not choose them.
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
        *n = (*n).max(ZFP_LEAST).min(most(dim).max(1));
    }
    let nbytes = |fit: &[u32]| fit.iter().fold(itemsize as u64, |all, n| all.saturating_mul(u64::from(*n)));
    while nbytes(&fit) > ZFP_BLOCK {
        let Some(longest) = fit.iter_mut().filter(|n| **n >= 2 * ZFP_LEAST).max() else { break };
        *longest = longest.div_ceil(2).next_multiple_of(ZFP_LEAST);
    }
    let chunks = chunks.unwrap_or_else(|| {
        let chunks = b2kit::nd::default_chunkshape(shape, &fit, itemsize);
        chunks.iter().zip(&fit).map(|(chunk, block)| *chunk.max(block)).collect()
    });
    (chunks, fit)
}

/// How items are compared.
#[derive(Clone, Copy, Debug)]
enum Items {
    Float {
        size: usize,
        big_endian: bool,
    },
    Int {
        size: usize,
        signed: bool,
        big_endian: bool,
    },
    /// Compared only for equality.
    Bytes {
        size: usize,
    },
}

impl Items {
    fn of(input: &Input) -> Self {
        let size = input.itemsize().max(1);
        if let Input::Array(array) = input {
            return match array.dtype().kind() {
                DtypeKind::Simple { code: 'f', big_endian } if size == 4 || size == 8 => {
                    Self::Float { size, big_endian: *big_endian }
                }
                DtypeKind::Simple { code: code @ ('i' | 'u'), big_endian } if size <= 8 => {
                    Self::Int { size, signed: *code == 'i', big_endian: *big_endian }
                }
                _ => Self::Bytes { size },
            };
        }
        // In super-chunks and chunks only the filter implies what type the items have.
        let filters = match (input.frame(), input) {
            (Some(frame), _) => frame.header().filters(),
            (None, Input::Chunk(chunk)) => chunk.header().filters(),
            (None, _) => return Self::Bytes { size },
        };
        if filters.iter().any(|slot| slot.id == FilterId::TRUNC_PREC) && (size == 4 || size == 8) {
            return Self::Float { size, big_endian: false };
        }
        if filters.iter().any(|slot| slot.id == FilterId::INT_TRUNC) && size <= 8 {
            return Self::Int { size, signed: false, big_endian: false };
        }
        Self::Bytes { size }
    }

    fn size(self) -> usize {
        let (Self::Float { size, .. } | Self::Int { size, .. } | Self::Bytes { size }) = self;
        size
    }

    /// The item as a number, if it is one.
    fn value(self, item: &[u8]) -> Option<f64> {
        let big_endian = match self {
            Self::Float { big_endian, .. } | Self::Int { big_endian, .. } => big_endian,
            Self::Bytes { .. } => return None,
        };
        let mut bytes = [0; 8];
        for (k, byte) in item.iter().take(8).enumerate() {
            bytes[if big_endian { item.len() - 1 - k } else { k }] = *byte;
        }
        let bits = u64::from_le_bytes(bytes);
        Some(match self {
            Self::Float { size: 4, .. } => f64::from(f32::from_bits(bits as u32)),
            Self::Float { .. } => f64::from_bits(bits),
            Self::Int { size, signed: true, .. } => {
                let unused = 64 - 8 * size as u32;
                ((bits << unused).cast_signed() >> unused) as f64
            }
            _ => bits as f64,
        })
    }
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
    items: Items,
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
    fn new(items: Items) -> Self {
        let magnitudes = vec![Magnitude::default(); 2048];
        Self { items, nitems: 0, changed: 0, broken: 0, worst: None, magnitudes, not_finite: 0 }
    }

    /// Compares items. `axes` tells where they are in the file.
    fn add(&mut self, axes: &[Axis], before: &[u8], after: &[u8]) {
        let size = self.items.size();
        for (k, (a, b)) in before.chunks_exact(size).zip(after.chunks_exact(size)).enumerate() {
            self.nitems += 1;
            let value = self.items.value(a);
            if let Some(value) = value.filter(|value| *value != 0.0) {
                self.count(value);
            }
            if a == b {
                continue;
            }
            self.changed += 1;
            let (Some(x), Some(y)) = (value, self.items.value(b)) else { continue };
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
    let mut rest = k;
    let mut out: Vec<u64> = axes
        .iter()
        .rev()
        .map(|axis| {
            let at = rest % axis.len.max(1);
            rest /= axis.len.max(1);
            // The whole file is compared, so there are no steps.
            axis.start + at
        })
        .collect();
    out.reverse();
    out
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worst {
            Some((error, at, before, after)) => {
                write!(f, "largest error {}", short(*error))?;
                write!(
                    f,
                    " (item [{}]: {} became {})",
                    dims(at).replace(", ", ","),
                    short(*before),
                    short(*after)
                )?;
            }
            None if matches!(self.items, Items::Bytes { .. }) && self.changed > 0 => {
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

/// Formats a number with four digits.
fn short(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if (1e-4..1e7).contains(&x.abs()) {
        let decimals = (3 - x.abs().log10().floor() as i32).clamp(0, 8) as usize;
        let text = format!("{x:.decimals$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let text = format!("{x:.3e}");
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
    /// Describes what loses data.
    what: String,
    /// The largest error allowed.
    most: Option<f64>,
    /// Whether to accept a larger loss.
    force: bool,
    quiet: bool,
}

impl<'a> Promise<'a> {
    /// `None` if nothing is lost. `tolerance`: as given on the command line.
    pub(crate) fn of(
        name: &'a Path,
        cparams: &CParams,
        tolerance: Option<f64>,
        force: bool,
        global: Global,
    ) -> Option<Self> {
        let what = of_params(cparams)?;
        let most = (cparams.codec() == CodecId::ZFP_FIXED_ACCURACY)
            .then(|| tolerance.unwrap_or_else(|| 10f64.powi(i32::from(cparams.codec_meta().cast_signed()))));
        Some(Self { name, what, most, force, quiet: global.quiet })
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
        let mut loss = Loss::new(Items::of(written));
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
        match (self.broken(&loss), self.force) {
            (Some(why), false) => bail!(
                "{named}: not written: lossy ({}), and {why}; --force accepts that, a codec without loss keeps all",
                self.what
            ),
            (Some(why), true) if !self.quiet => say(&format!("{named}: warning: {why}")),
            _ => {}
        }
        if !self.quiet {
            tell(&named, &self.what, &loss);
        }
        Ok(())
    }
}

/// Reports what a file has lost.
fn tell(named: &str, what: &str, loss: &Loss) {
    say(&format!("{named}: lossy ({what}): {loss}"));
    // Only zfp compresses neighbouring values together.
    if let Some((fills, others)) = loss.fill_values().filter(|_| what.contains("zfp_")) {
        let of: Vec<String> =
            fills.iter().map(|(value, n)| format!("{} ({n} items)", short(*value))).collect();
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

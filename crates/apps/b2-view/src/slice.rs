//! Selections in NumPy's notation.

use std::ops::Range;

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2nd::Selection;

use crate::text::count;

/// Parses `2, :10, ..., -3:, ::-5`. Numbers beyond 64 bits saturate, since ranges are clipped anyway.
///
/// # Errors
/// Fails if the syntax is invalid.
pub fn parse(spec: &str) -> Result<Vec<Selection>> {
    parse_named("--slice", spec)
}

/// Like [`parse`], for an option with another name.
///
/// # Errors
/// Same as [`parse`].
pub fn parse_named(option: &str, spec: &str) -> Result<Vec<Selection>> {
    let text = spec.trim();
    // As in Python, a trailing comma is allowed.
    let text = text.strip_suffix(',').filter(|parts| !parts.trim().is_empty()).unwrap_or(text);
    let parts: Vec<Selection> =
        text.split(',').map(|part| parse_part(part.trim(), option, spec)).collect::<Result<_>>()?;
    let ellipses = parts.iter().filter(|part| **part == Selection::Ellipsis).count();
    ensure!(ellipses <= 1, "{option}={spec}: '...' may occur only once");
    Ok(parts)
}

fn parse_part(part: &str, option: &str, spec: &str) -> Result<Selection> {
    let bad = || anyhow!("{option}={spec}: '{part}' is neither an index nor start:stop:step");
    match part {
        "..." | "Ellipsis" => return Ok(Selection::Ellipsis),
        "None" | "newaxis" | "np.newaxis" | "numpy.newaxis" => {
            bail!("{option}={spec}: '{part}' would add a dimension, which a slice cannot do")
        }
        _ if part.starts_with(['[', '(']) || matches!(part, "True" | "False") => {
            bail!("{option}={spec}: lists and masks are not supported, only an index or start:stop:step")
        }
        _ => {}
    }
    let fields: Vec<&str> = part.split(':').map(str::trim).collect();
    let bound = |text: &str| -> Result<Option<i64>> {
        match text {
            "" => Ok(None),
            text => saturating(text).map(Some).ok_or_else(bad),
        }
    };
    match fields.as_slice() {
        [index] => Ok(Selection::Index(saturating(index).ok_or_else(bad)?)),
        [start, stop] => Ok(Selection::Range { start: bound(start)?, stop: bound(stop)?, step: 1 }),
        [start, stop, step] => {
            let step = bound(step)?.unwrap_or(1);
            ensure!(step != 0, "{option}={spec}: the step of '{part}' is 0");
            Ok(Selection::Range { start: bound(start)?, stop: bound(stop)?, step })
        }
        _ => Err(bad()),
    }
}

fn saturating(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// The items `start`, `start + step`, ... of one dimension, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Position of the first item.
    pub start: u64,
    /// Negative for descending order; 1 for a single item.
    pub step: i64,
    /// Number of items.
    pub len: u64,
    /// Given as an index, so it is not a dimension of the result.
    pub dropped: bool,
}

impl Axis {
    /// All items of a dimension.
    pub fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, len, dropped: false }
    }

    /// The position in the dimension of item `k` of this selection.
    pub fn position(self, k: u64) -> u64 {
        // Cannot overflow: the position is inside the dimension, whose length fits in 63 bits.
        self.start.wrapping_add_signed((k as i64).wrapping_mul(self.step))
    }

    /// Items `from..to` of this selection.
    #[must_use]
    pub fn part(self, from: u64, to: u64) -> Self {
        Self { start: self.position(from), len: to - from, ..self }
    }

    /// The range from the lowest to the highest selected position.
    pub fn span(self) -> Range<u64> {
        match self.len.checked_sub(1).map(|last| self.position(last)) {
            Some(last) => self.start.min(last)..self.start.max(last) + 1,
            None => self.start..self.start,
        }
    }

    /// Converts the range to a selection of the library.
    ///
    /// # Errors
    /// Fails if the dimension is longer than 2^63 items.
    pub fn selection(self) -> Result<Selection> {
        let Some(last) = self.len.checked_sub(1).map(|last| self.position(last)) else {
            return Ok(Selection::Range { start: Some(0), stop: Some(0), step: 1 });
        };
        let (start, last) = (i64::try_from(self.start)?, i64::try_from(last)?);
        // The position after the last item; going down to item 0, there is none.
        let stop = if self.step > 0 {
            Some(last.saturating_add(1))
        } else {
            last.checked_sub(1).filter(|at| *at >= 0)
        };
        Ok(Selection::Range { start: Some(start), stop, step: self.step })
    }
}

/// Applies the parts to a shape. Dimensions without a part are taken whole.
///
/// # Errors
/// Fails if there are too many parts or an index is out of range.
pub fn resolve(parts: &[Selection], shape: &[u64]) -> Result<Vec<Axis>> {
    let given = parts.iter().filter(|part| **part != Selection::Ellipsis).count();
    let Some(missing) = shape.len().checked_sub(given) else {
        bail!(
            "--slice: {} given, but there {}",
            count(given as u64, "part"),
            match shape.len() {
                0 => "are no dimensions".to_owned(),
                1 => "is 1 dimension".to_owned(),
                n => format!("are {n} dimensions"),
            }
        );
    };
    let mut full = Vec::with_capacity(shape.len());
    for part in parts {
        match part {
            Selection::Ellipsis => full.extend(vec![Selection::ALL; missing]),
            part => full.push(part.clone()),
        }
    }
    full.resize(shape.len(), Selection::ALL);
    full.iter().zip(shape).enumerate().map(|(k, (part, len))| resolve_one(part, *len, k)).collect()
}

fn resolve_one(part: &Selection, length: u64, dimension: usize) -> Result<Axis> {
    if *part == Selection::ALL {
        return Ok(Axis::whole(length));
    }
    let positions = part.positions(length);
    let (start, step, len) = match part {
        Selection::Index(i) => positions.map_err(|_| {
            anyhow!("--slice: index {i} is out of range for dimension {dimension}, which has {length} items")
        })?,
        _ => positions.context("--slice")?,
    };
    let dropped = matches!(part, Selection::Index(_));
    // For a single item the step is unused and may have any size.
    Ok(Axis { start, step: if len > 1 { step } else { 1 }, len, dropped })
}

//! Named comparisons. A panic counts as a failure.

use std::fmt::Debug;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, anyhow, bail, ensure};
use b2_testkit::Rng;
use serde_json::Value;

/// Collects the failures of one case.
#[derive(Default)]
pub(crate) struct Checker {
    /// The failures: check and message. Empty if everything was right.
    pub(crate) failures: Vec<(String, String)>,
    /// Number of comparisons made.
    pub(crate) checks: usize,
}

impl Checker {
    /// Runs one check, whose value later checks may need.
    pub(crate) fn run<T>(&mut self, name: &str, check: impl FnOnce() -> Result<T>) -> Option<T> {
        self.checks += 1;
        caught(check).map_err(|error| self.failures.push((name.to_owned(), format!("{error:#}")))).ok()
    }

    /// Counts a check that failed.
    pub(crate) fn fail(&mut self, name: &str, message: String) {
        self.run(name, || -> Result<()> { bail!(message) });
    }

    /// Compares two values.
    pub(crate) fn same<T: PartialEq + Debug>(&mut self, name: &str, found: T, wanted: T) {
        self.run(name, || {
            ensure!(found == wanted, "found {found:?}, expected {wanted:?}");
            Ok(())
        });
    }

    /// Compares a value with a field of the case.
    pub(crate) fn field(&mut self, case: &Value, field: &str, found: impl Into<Value>) {
        let (found, wanted) = (found.into(), &case[field]);
        self.run(field, || {
            ensure!(found == *wanted, "found {found}, expected {wanted}");
            Ok(())
        });
    }

    /// Compares a value with a field of the case, if the case has it.
    pub(crate) fn field_if_known(&mut self, case: &Value, field: &str, found: impl Into<Value>) {
        if !case[field].is_null() {
            self.field(case, field, found);
        }
    }

    /// Compares random parts with the whole. Positions are in units of `unit` bytes.
    pub(crate) fn parts(
        &mut self,
        name: &str,
        (rng, n): (&mut Rng, usize),
        (plain, unit): (&[u8], usize),
        read: impl Fn(Range<usize>) -> Result<Vec<u8>>,
    ) {
        self.run(name, || {
            for range in ranges(rng, plain.len() / unit, n) {
                let wanted = &plain[range.start * unit..range.end * unit];
                let same = read(range.clone()).and_then(|found| same_bytes(&found, wanted));
                same.with_context(|| format!("{name} {range:?}"))?;
            }
            Ok(())
        });
    }
}

/// Returns random parts of `0..len`, including the empty and the whole range.
fn ranges(rng: &mut Rng, len: usize, n: usize) -> Vec<Range<usize>> {
    let mut out = vec![0..len, len..len];
    for _ in 0..n {
        let start = rng.within(0..=len);
        let end =
            if rng.chance(50) { rng.within(start..=len) } else { (start + rng.within(1..=20)).min(len) };
        out.push(start..end);
    }
    out
}

/// Turns a panic into an error. The state after a panic must be dropped.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err(anyhow!("PANIC: {}", text.unwrap_or("without a text")))
    })
}

/// Compares bytes and reports the first difference.
pub(crate) fn same_bytes(found: &[u8], wanted: &[u8]) -> Result<()> {
    ensure!(found.len() == wanted.len(), "{} bytes, expected {}", found.len(), wanted.len());
    let mut wrong = found.iter().zip(wanted).enumerate().filter(|(_, (a, b))| a != b);
    if let Some((at, (a, b))) = wrong.next() {
        let n = 1 + wrong.count();
        bail!("{n} of {} bytes differ, the first at {at}: {a}, expected {b}", wanted.len());
    }
    Ok(())
}

/// Compares the lengths of blocks with a list in the case.
pub(crate) fn same_lengths(blocks: &[impl AsRef<[u8]>], wanted: &Value) -> Result<()> {
    let found: Value = blocks.iter().map(|block| block.as_ref().len()).collect();
    ensure!(found == *wanted, "lengths {found}, expected {wanted}");
    Ok(())
}

/// Fields of a case in the form that the scripts write.
pub(crate) trait Fields {
    fn number(&self, key: &str) -> Option<u64>;
    fn text(&self, key: &str) -> Option<&str>;
    /// Parses a map from names to bytes in hexadecimal.
    fn layers(&self, key: &str) -> Vec<(String, Vec<u8>)>;
}

impl Fields for Value {
    fn number(&self, key: &str) -> Option<u64> {
        self[key].as_u64()
    }
    fn text(&self, key: &str) -> Option<&str> {
        self[key].as_str()
    }
    fn layers(&self, key: &str) -> Vec<(String, Vec<u8>)> {
        let layers = self[key].as_object().into_iter().flatten();
        let mut out: Vec<_> = layers
            .map(|(name, value)| (name.clone(), from_hex(value.as_str().unwrap_or_default())))
            .collect();
        out.sort();
        out
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).filter_map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()).collect()
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

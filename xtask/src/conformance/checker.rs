//! Named comparisons. A panic counts as a failure.

use std::any::Any;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

/// Collects the failures of one case.
#[derive(Default)]
pub(crate) struct Checker {
    pub(crate) failures: Vec<(String, String)>,
    pub(crate) checks: usize,
}

/// The result of a check: nothing, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

impl Checker {
    /// Runs one check.
    pub(crate) fn run(&mut self, name: &str, check: impl FnOnce() -> Verdict) {
        self.get(name, check);
    }

    /// Runs one check that returns a value for later checks.
    pub(crate) fn get<T>(&mut self, name: &str, check: impl FnOnce() -> Result<T, String>) -> Option<T> {
        self.checks += 1;
        // The state after a panic is dropped with the case.
        let verdict = catch_unwind(AssertUnwindSafe(check))
            .unwrap_or_else(|panic| Err(format!("PANIC: {}", panic_text(&*panic))));
        verdict.map_err(|message| self.failures.push((name.to_owned(), message))).ok()
    }

    /// Compares two values.
    pub(crate) fn same<T: PartialEq + Debug>(&mut self, name: &str, found: T, wanted: T) {
        self.run(name, || match found == wanted {
            true => Ok(()),
            false => Err(format!("found {found:?}, expected {wanted:?}")),
        });
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

/// Compares bytes and reports the first difference.
pub(crate) fn same_bytes(found: &[u8], wanted: &[u8]) -> Verdict {
    if found == wanted {
        return Ok(());
    }
    if found.len() != wanted.len() {
        return Err(format!("{} bytes, expected {}", found.len(), wanted.len()));
    }
    let at = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let wrong = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
    Err(format!(
        "{wrong} of {} bytes differ, the first at {at}: {}, expected {}",
        wanted.len(),
        found[at],
        wanted[at]
    ))
}

/// Returns the text of an error with all its sources.
pub(crate) fn text(error: impl std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some errors include their cause in their own text.
        let cause_text = cause.to_string();
        if !out.contains(&cause_text) {
            out += &format!(": {cause_text}");
        }
        source = cause.source();
    }
    out
}

/// Fields of a case in the form that the scripts write.
pub(crate) trait Fields {
    fn number(&self, key: &str) -> Option<u64>;
    fn numbers(&self, key: &str) -> Option<Vec<u64>>;
    fn text(&self, key: &str) -> Option<&str>;
    /// Parses a map from names to bytes in hexadecimal.
    fn layers(&self, key: &str) -> Vec<(String, Vec<u8>)>;
}

impl Fields for Value {
    fn number(&self, key: &str) -> Option<u64> {
        self[key].as_u64()
    }
    fn numbers(&self, key: &str) -> Option<Vec<u64>> {
        self[key].as_array().map(|list| list.iter().filter_map(Value::as_u64).collect())
    }
    fn text(&self, key: &str) -> Option<&str> {
        self[key].as_str()
    }
    fn layers(&self, key: &str) -> Vec<(String, Vec<u8>)> {
        let mut out: Vec<_> = self[key]
            .as_object()
            .into_iter()
            .flatten()
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

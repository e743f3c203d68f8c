//! Classifies a case from the results of two workers.

use super::commands::{CommandResults, Verdict};
use super::expect::Expect;
use super::plan::Case;
use super::worker::ProcessDeath;

/// The verdict on a case. From `Panic` on, all are failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Rejected,
    Accepted,
    Panic,
    Signal,
    Timeout,
    Memory,
    /// An undefined exit code or output line.
    Code,
    /// The results of two runs differ.
    Undefined,
    /// Damage that checksums should have detected.
    Unseen,
    /// Damage inside a chunk that the message does not name.
    Unlocated,
    /// A file that must be readable is refused.
    Refused,
    /// A file that must be refused is read.
    Credulous,
    /// Commands that contradict each other.
    Odd,
}

impl Class {
    pub(crate) fn is_failure(self) -> bool {
        self >= Self::Panic
    }
}

/// The classification of a case.
#[derive(Clone, Debug)]
pub(crate) struct Classification {
    pub(crate) class: Class,
    pub(crate) why: String,
    /// The command to repeat alone.
    pub(crate) command: Vec<String>,
}

/// Judges the results of both workers.
pub(crate) fn classify(case: &Case, ran: &[CommandResults; 2], limit_kib: u64) -> Classification {
    let verify = || ran[0].answers.first().map(|(args, _)| args.clone()).unwrap_or_default();
    let judged = |class, why: String, command: Vec<String>| Classification { class, why, command };
    for ran in ran {
        let said = ran.stderr.trim();
        if let Some((args, death)) = &ran.death {
            let class = match death {
                ProcessDeath::Timeout => Class::Timeout,
                ProcessDeath::Signal(_) => Class::Signal,
                ProcessDeath::Code(_) => Class::Panic,
            };
            return judged(class, format!("{death:?} {said}"), args.clone());
        }
        if said.contains("panicked") || said.contains("memory allocation of") {
            let last = ran.answers.last().map(|(args, _)| args.clone()).unwrap_or_default();
            return judged(Class::Panic, said.to_owned(), last);
        }
    }
    for ran in ran {
        if let Some(odd) = &ran.odd {
            let class = if odd.contains("ends with code") || odd.contains("answers") {
                Class::Code
            } else {
                Class::Odd
            };
            return judged(class, odd.clone(), verify());
        }
        if ran.over_kib > limit_kib {
            return judged(Class::Memory, format!("{} KiB above an idle process", ran.over_kib), verify());
        }
    }
    if let Some(why) = differ(&ran[0], &ran[1]) {
        return judged(Class::Undefined, why, verify());
    }
    let Some(verdict) = &ran[0].verdict else {
        return judged(Class::Code, "no verdict".into(), verify());
    };
    let (class, why) = match (verdict, &case.expect) {
        (Verdict::Strange(line), _) => (Class::Code, line.clone()),
        (Verdict::Fail(why), Expect::Same) => (Class::Refused, why.clone()),
        (Verdict::Fail(why), Expect::NotOk(Some(chunk))) if !names(why, *chunk) => {
            (Class::Unlocated, format!("chunk {chunk} is damaged: {why}"))
        }
        (Verdict::Fail(why), _) => (Class::Rejected, why.clone()),
        (Verdict::Ok { changed: false, .. }, Expect::NotOk(_)) => (Class::Unseen, "ok".into()),
        (Verdict::Ok { .. }, Expect::Reject) => (Class::Credulous, "ok".into()),
        (Verdict::Ok { sha256, .. }, expect) => match &case.sha256 {
            Some(base) if base != sha256 && *expect == Expect::Same => (Class::Refused, "other data".into()),
            _ => (Class::Accepted, String::new()),
        },
    };
    judged(class, why, verify())
}

/// Whether a message names the chunk.
fn names(message: &str, chunk: usize) -> bool {
    let needle = format!("chunk {chunk}");
    message
        .match_indices(&needle)
        .any(|(at, _)| !message[at + needle.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// Returns the difference between two runs. Messages may differ: with several errors in a file, either can be found
/// first.
fn differ(a: &CommandResults, b: &CommandResults) -> Option<String> {
    let same = match (&a.verdict, &b.verdict) {
        (Some(Verdict::Fail(_)), Some(Verdict::Fail(_))) => true,
        (a, b) => a == b,
    };
    if !same {
        return Some(format!("{:?} and {:?}", a.verdict, b.verdict));
    }
    for ((args, a), (other, b)) in a.answers.iter().zip(&b.answers) {
        let same_output = a.rc != 0 || a.len == b.len && a.sha256 == b.sha256;
        if args != other || a.rc != b.rc || !same_output {
            return Some(format!("{}: {} and {}, {} and {} bytes", args.join(" "), a.rc, b.rc, a.len, b.len));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_named_by_its_whole_number() {
        assert!(names("chunk 1: damaged", 1));
        assert!(names("the sum of chunk 1", 1));
        assert!(!names("chunk 12: damaged", 1));
        assert!(names("chunk 12, chunk 1", 1));
        assert!(!names("the header", 0));
    }
}

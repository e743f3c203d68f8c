//! The table, and the file with all failures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::groups::{GROUPS, Group};
use super::judge::{CLASSES, Class, Judged};
use super::plan::Case;
use super::worker::Alone;

/// A case that failed.
struct Failure {
    id: u64,
    group: Group,
    name: String,
    judged: Judged,
    alone: Option<Alone>,
}

/// Counts and failures.
#[derive(Default)]
pub(crate) struct Report {
    counts: BTreeMap<(Group, Class), u64>,
    failures: Vec<Failure>,
    /// Why files were refused, with the numbers removed from the messages.
    reasons: BTreeMap<String, u64>,
    /// Number of failures that did not occur again when the case ran alone.
    pub(crate) not_repeated: u64,
    pub(crate) commands: u64,
    /// The most memory above that of an idle process, and the longest case.
    pub(crate) most_kib: (u64, String),
    pub(crate) longest: (u128, String),
}

impl Report {
    pub(crate) fn add(&mut self, case: &Case, judged: Judged, alone: Option<Alone>) {
        *self.counts.entry((case.group, judged.class)).or_default() += 1;
        if judged.class == Class::Rejected {
            let reason: String =
                judged.why.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
            *self.reasons.entry(reason).or_default() += 1;
        }
        if judged.class.is_failure() {
            let Case { id, group, name, .. } = case;
            self.failures.push(Failure { id: *id, group: *group, name: name.clone(), judged, alone });
        }
    }

    pub(crate) fn ncases(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn nfailures(&self) -> u64 {
        self.failures.len() as u64
    }

    /// Returns the table of groups by classes. Kinds of failures that never occurred share one column.
    pub(crate) fn table(&self) -> String {
        let count = |group: Option<Group>, class: Class| -> u64 {
            self.counts
                .iter()
                .filter(|((g, c), _)| group.is_none_or(|group| group == *g) && *c == class)
                .map(|(_, n)| n)
                .sum()
        };
        let columns: Vec<Class> = CLASSES
            .iter()
            .map(|(class, _)| *class)
            .filter(|c| !c.is_failure() || count(None, *c) > 0)
            .collect();
        let mut out = format!("{:<28}{:>8}", "group", "n");
        for class in &columns {
            let _ = write!(out, "{:>11}", class.name());
        }
        out.push_str("   failures\n");
        let mut row = |name: &str, group: Option<Group>| {
            let all: u64 = CLASSES.iter().map(|(class, _)| count(group, *class)).sum();
            let failed: u64 =
                CLASSES.iter().filter(|(c, _)| c.is_failure()).map(|(c, _)| count(group, *c)).sum();
            if all == 0 {
                return;
            }
            let _ = write!(out, "{name:<28}{all:>8}");
            for class in &columns {
                let n = count(group, *class);
                let _ = write!(out, "{:>11}", if n == 0 { ".".into() } else { n.to_string() });
            }
            let _ = writeln!(out, "{failed:>11}");
        };
        for (group, name, _) in GROUPS {
            row(name, Some(*group));
        }
        row("total", None);
        out
    }

    /// Returns the table, and each failure with the command that repeats it.
    pub(crate) fn text(&self, seed: u64) -> String {
        let mut out = format!("seed {seed}\n\n{}\n", self.table());
        for failure in &self.failures {
            let Failure { id, group, name, judged, alone } = failure;
            let _ = writeln!(out, "{}: {name} ({})", judged.class.name(), group.name());
            let _ = writeln!(out, "    cargo xtask hostile --seed {seed} --only {id} --keep FOLDER");
            let _ = writeln!(out, "    b2kit {}", judged.command.join(" "));
            let _ = writeln!(out, "    {}", judged.why.replace('\n', " "));
            if let Some(Alone { death, peak_kib, millis, stderr }) = alone {
                let _ = writeln!(
                    out,
                    "    alone: {death:?}, {peak_kib} KiB, {millis} ms {}",
                    stderr.replace('\n', " ")
                );
            }
        }
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1));
        let _ = writeln!(out, "\nreasons for refusing, without numbers:");
        for (reason, count) in reasons {
            let _ = writeln!(out, "{count:>8}  {reason}");
        }
        out
    }

    /// Returns the first failures, for the terminal.
    pub(crate) fn first_failures(&self, count: usize) -> String {
        let line = |f: &Failure| {
            format!(
                "{} {}: {} -- {}\n",
                f.judged.class.name(),
                f.id,
                f.name,
                f.judged.why.chars().take(300).collect::<String>()
            )
        };
        self.failures.iter().take(count).map(line).collect()
    }
}

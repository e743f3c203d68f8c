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

/// How many cases of each group belong to each class.
pub(crate) struct Tally<C>(BTreeMap<(Group, C), u64>);

impl<C> Default for Tally<C> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<C: Copy + Ord> Tally<C> {
    pub(crate) fn add(&mut self, group: Group, class: C) {
        *self.0.entry((group, class)).or_default() += 1;
    }

    /// Returns the number of cases in a group, or in all, whose class `is` wanted.
    pub(crate) fn count(&self, group: Option<Group>, is: impl Fn(C) -> bool) -> u64 {
        let fits = |(g, c): &(Group, C)| group.is_none_or(|group| group == *g) && is(*c);
        self.0.iter().filter(|(key, _)| fits(key)).map(|(_, n)| n).sum()
    }

    /// Returns the table of groups by columns of this width, each with its heading, the classes it counts, and what stands
    /// for no case.
    pub(crate) fn table(&self, columns: &[(&str, Vec<C>, &str)], width: usize) -> String {
        let mut out = format!("{:<28}{:>8}", "group", "n");
        for (heading, ..) in columns {
            let _ = write!(out, "{heading:>width$}");
        }
        out.push('\n');
        let rows = GROUPS.iter().map(|(group, name, _)| (Some(*group), *name));
        for (group, name) in rows.chain([(None, "total")]) {
            let all = self.count(group, |_| true);
            if all == 0 {
                continue;
            }
            let _ = write!(out, "{name:<28}{all:>8}");
            for (_, classes, none) in columns {
                let n = self.count(group, |class| classes.contains(&class));
                let _ = write!(out, "{:>width$}", if n == 0 { (*none).into() } else { n.to_string() });
            }
            out.push('\n');
        }
        out
    }
}

/// Counts and failures.
#[derive(Default)]
pub(crate) struct Report {
    counts: Tally<Class>,
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
        self.counts.add(case.group, judged.class);
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
        self.counts.count(None, |_| true)
    }

    pub(crate) fn nfailures(&self) -> u64 {
        self.failures.len() as u64
    }

    /// Returns the table of groups by classes. Kinds of failures that never occurred share one column.
    pub(crate) fn table(&self) -> String {
        let (failures, fine): (Vec<_>, Vec<_>) = CLASSES.iter().partition(|(class, _)| class.is_failure());
        let seen = failures.iter().filter(|(class, _)| self.counts.count(None, |c| c == *class) > 0);
        let mut columns: Vec<_> =
            fine.iter().chain(seen).map(|(class, name)| (*name, vec![*class], ".")).collect();
        columns.push(("failures", failures.iter().map(|(class, _)| *class).collect(), "0"));
        self.counts.table(&columns, 11)
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

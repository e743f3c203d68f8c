//! Lists all cases, and chooses which of them run.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::{Context, Result};
use b2_testkit::Rng;
use b2_testkit::hostile::Seal;

use super::base::{Base, BaseKind};
use super::bombs::{self, BuiltCase};
use super::content::Content;
use super::expect::Expect;
use super::groups::{GROUPS, Group};
use super::mutate::{self, APPENDED_VARIANTS, Mutation};
use super::{fixtures, generated, relations, sparse, stores};

/// The source of a case.
#[derive(Clone, Copy, Debug)]
enum CaseSource {
    Damaged(u32, Mutation),
    BuiltCase(u32),
}

/// All bases, and all cases that can be made from them.
pub(crate) struct CasePlan {
    seed: u64,
    bases: Vec<Base>,
    made: Vec<BuiltCase>,
    all: Vec<(Group, CaseSource)>,
}

/// A case, ready to be written.
pub(crate) struct Case {
    /// Its number among all cases of the seed.
    pub(crate) id: u64,
    pub(crate) group: Group,
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) expect: Expect,
    /// SHA-256 of the base's data.
    pub(crate) sha256: Option<String>,
}

/// Frames and bare chunks larger than this are damaged only at selected positions, in bytes.
const MAX_FULLY_DAMAGED_LEN: usize = 900;

impl CasePlan {
    /// Lists all cases of a seed. `folder` is for intermediate files.
    pub(crate) fn new(seed: u64, folder: &Path) -> Result<Self> {
        let mut bases = generated::bases(seed, folder).context("writing bases")?;
        bases.extend(fixtures::bases(seed).context("reading fixtures")?);
        let mut made = bombs::all(seed).context("bombs")?;
        made.extend(stores::all(&bases, seed));
        let mut all = Vec::new();
        let mut rng = Rng::case(seed, 3);
        for (at, base) in bases.iter().enumerate() {
            for mutation in mutations(base, &mut rng) {
                all.push((mutate::group(base, mutation), CaseSource::Damaged(at as u32, mutation)));
            }
        }
        all.extend(made.iter().enumerate().map(|(at, made)| (made.group, CaseSource::BuiltCase(at as u32))));
        Ok(Self { seed, bases, made, all })
    }

    /// Returns the number of cases.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn bases(&self) -> &[Base] {
        &self.bases
    }

    /// Makes a case; returns `None` if the mutation changes nothing.
    pub(crate) fn case(&self, id: u64) -> Option<Case> {
        let (group, what) = *self.all.get(usize::try_from(id).ok()?)?;
        Some(match what {
            CaseSource::BuiltCase(at) => {
                let made = self.made.get(at as usize)?;
                let (content, expect) = (made.content.clone(), made.expect.clone());
                Case { id, group, name: made.name.clone(), content, expect, sha256: None }
            }
            CaseSource::Damaged(at, mutation) => {
                let base = self.bases.get(at as usize)?;
                let (content, expect) = mutate::apply(base, mutation, self.seed)?;
                let name = format!("{}: {}", base.name, mutate::describe(base, mutation));
                // The data of some fixtures are unknown.
                let sha256 = Some(base.sha256.clone()).filter(|hash| !hash.is_empty());
                Case { id, group, name, content, expect, sha256 }
            }
        })
    }

    fn ids(&self, group: Group) -> impl Iterator<Item = u64> {
        self.all.iter().enumerate().filter(move |(_, (g, _))| *g == group).map(|(id, _)| id as u64)
    }

    /// Returns all cases of a group.
    pub(crate) fn cases_of(&self, group: Group) -> impl Iterator<Item = Case> {
        self.ids(group).filter_map(|id| self.case(id))
    }

    /// Chooses about `count` cases, group by group, followed by substitutes for cases that change nothing.
    pub(crate) fn choose(&self, count: usize) -> Queue {
        let mut queues: Vec<(Group, VecDeque<u64>)> =
            GROUPS.iter().map(|(group, _)| (*group, self.ids(*group).collect())).collect();
        let mut rng = Rng::case(self.seed, 4);
        let mut wanted: Vec<usize> = Vec::new();
        for ((group, queue), (_, share)) in queues.iter_mut().zip(GROUPS) {
            if *group != Group::Valid {
                rng.shuffle(queue.make_contiguous());
            }
            // Groups without a share are meant for full runs.
            let full = if count >= FULL_RUN_CASES || *group == Group::Valid {
                queue.len()
            } else {
                queue.len() * count / FULL_RUN_CASES
            };
            wanted.push(if *share == 0 { full } else { queue.len().min(count * *share as usize / 1000) });
        }
        // Other groups get the remainder of small groups.
        let mut left = count.saturating_sub(wanted.iter().sum());
        while left > 0 {
            let before = left;
            for ((_, queue), wanted) in queues.iter().zip(&mut wanted) {
                let more = (queue.len() - *wanted).min(left.min(100));
                *wanted += more;
                left -= more;
            }
            if left == before {
                break;
            }
        }
        let queues = queues.into_iter().zip(wanted).map(|((_, queue), wanted)| (queue, wanted)).collect();
        Queue { queues, at: 0 }
    }
}

/// Number of cases in a full run.
pub(crate) const FULL_RUN_CASES: usize = 50_000;

/// The cases to run.
pub(crate) struct Queue {
    queues: Vec<(VecDeque<u64>, usize)>,
    at: usize,
}

impl Queue {
    /// Returns the next cases, alternating between the groups.
    pub(crate) fn take(&mut self, plan: &CasePlan, count: usize) -> Vec<Case> {
        let mut out = Vec::new();
        let mut dry = 0;
        while out.len() < count && dry < self.queues.len() {
            let at = self.at;
            self.at = (self.at + 1) % self.queues.len();
            let (queue, wanted) = &mut self.queues[at];
            let case = loop {
                match queue.pop_front() {
                    Some(id) if *wanted > 0 => match plan.case(id) {
                        Some(case) => break Some(case),
                        None => continue,
                    },
                    _ => break None,
                }
            };
            match case {
                Some(case) => {
                    *wanted -= 1;
                    out.push(case);
                    dry = 0;
                }
                None => dry += 1,
            }
        }
        out
    }
}

/// Returns all mutations of a base.
fn mutations(base: &Base, rng: &mut Rng) -> Vec<Mutation> {
    let mut out = vec![Mutation::Valid];
    let sums = base.has_sums();
    let any = |rng: &mut Rng| match sums {
        true => *rng.pick(&[Seal::Stale, Seal::Sealed, Seal::Sealed, Seal::Zeroed]),
        false => Seal::Stale,
    };
    for (n, field) in base.fields.iter().enumerate() {
        let old = field.number.get(base.bytes(field.file)).unwrap_or(0) as u32;
        let kinds: Vec<u32> = match field.number.width {
            1 => {
                let mut kinds: Vec<u32> = (0..8).map(|bit| old ^ 1 << bit).collect();
                kinds.extend([old.wrapping_add(1) & 0xFF, old.wrapping_sub(1) & 0xFF, 127, 128, 255]);
                kinds.extend([0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32, 33, 34, 35, 36, 160]);
                kinds.extend((0..6).map(|_| rng.next() as u32 & 0xFF));
                kinds.sort_unstable();
                kinds.dedup();
                kinds
            }
            _ => (0..field.number.nvalues()).collect(),
        };
        out.extend(kinds.into_iter().map(|kind| Mutation::Set { field: n as u32, kind, seal: any(rng) }));
    }
    for (file, name) in base.files.iter().enumerate() {
        let file = file as u32;
        let len = base.content.bytes(name).map_or(0, Vec::len);
        let few = |rng: &mut Rng, len: usize, count: usize| -> Vec<u32> {
            match len {
                len if len <= count => (0..len as u32).collect(),
                _ => (0..count).map(|_| rng.within(0..=len - 1) as u32).collect(),
            }
        };
        out.extend(
            few(rng, len, MAX_FULLY_DAMAGED_LEN).into_iter().map(|len| Mutation::Truncate { file, len }),
        );
        out.extend((0..APPENDED_VARIANTS).map(|kind| Mutation::Trailing { file, kind }));
        let bits = few(rng, len * 8, MAX_FULLY_DAMAGED_LEN * 2);
        out.extend(bits.into_iter().map(|bit| Mutation::Flip { file, bit, seal: any(rng) }));
    }
    out.extend((0..300).map(|number| Mutation::Byte { number, seal: any(rng) }));
    out.extend((0..300).map(|number| Mutation::Damage { number: number + 1000, seal: any(rng) }));
    out.extend((0..300).map(|number| Mutation::Pair { number: number + 2000, seal: any(rng) }));
    if !base.streams.is_empty() {
        out.extend((0..200).map(|number| Mutation::Stream { number: number + 3000, seal: any(rng) }));
    }
    if base.layout.is_some() {
        for kind in 0..relations::count() {
            let seal = if sums { Seal::Sealed } else { Seal::Stale };
            out.push(Mutation::Relation { kind, seal });
            if sums && rng.chance(10) {
                out.push(Mutation::Relation { kind, seal: Seal::Stale });
            }
        }
    }
    if base.kind == BaseKind::Sparse {
        out.extend((0..sparse::count()).map(|kind| Mutation::Sparse { kind }));
    }
    out
}

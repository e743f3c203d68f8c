//! Runs the cases in pairs of workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::classify::{Class, Classification, classify};
use crate::commands::{self, CommandResults, remove};
use crate::groups::Group;
use crate::plan::{Case, CasePlan, Queue};
use crate::worker::{ProcessDeath, Worker, WorkerSetup, alone};

/// Number of cases that a pair of workers handles at a time.
const CASES_PER_BLOCK: usize = 64;
/// Memory that a command may take above that of an idle process, and for bombs, whose blocks may be as large, in KiB.
const MEMORY_KIB: u64 = 256 << 10;
const BOMB_KIB: u64 = 768 << 10;
/// CPU time that a command may take. A picture of 1024 chunks of 2 GiB takes half of that in a build for tests.
pub(crate) const CPU_TIMEOUT: Duration = Duration::from_secs(60);

/// The command under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_b2-hostile");

/// Returns where to write cases: in memory if there is space, because a sync costs nothing there.
pub(crate) fn playground() -> &'static Path {
    const MIN_FREE_BYTES: u64 = 1 << 30;
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if free > MIN_FREE_BYTES { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) }
}

/// Locks a mutex, also after a panic of another thread: what it guards is still counted.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs tasks concurrently, each in its own thread. Returns their results in order.
fn concurrently<T: Send>(tasks: impl Iterator<Item = impl FnOnce() -> Result<T> + Send>) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}

/// What became of the cases.
#[derive(Default)]
pub(crate) struct LabReport {
    pub(crate) cases: u64,
    pub(crate) accepted: u64,
    /// A report of each case that failed, with the command that repeats it.
    pub(crate) failures: Vec<String>,
}

/// Where cases are run.
pub(crate) struct Lab(PathBuf);

impl Lab {
    /// `folder` also gets a file to compare with, next to the folders of the workers.
    pub(crate) fn new(folder: &Path, plan: &CasePlan) -> Result<Self> {
        let base =
            plan.bases().iter().find(|base| base.name == "array-2d").context("no base to compare with")?;
        base.content.write(&folder.join("more.b2nd"))?;
        Ok(Self(folder.to_owned()))
    }

    /// Returns a worker, which writes errors next to its folder.
    pub(crate) fn worker(&self, name: &str, perturb: u8, threads: u16) -> Result<Worker> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Worker::new(WorkerSetup { folder, perturb, threads, address_kib: 6 << 20 }))
    }

    fn pair_of_workers(&self, job: usize) -> Result<[Worker; 2]> {
        Ok([self.worker(&format!("{job}a"), 0x55, 1)?, self.worker(&format!("{job}b"), 0xAA, 2)?])
    }

    pub(crate) fn all(&self, plan: &CasePlan, queue: Queue) -> Result<LabReport> {
        let jobs = thread::available_parallelism().map_or(1, |cores| usize::from(cores).div_ceil(2));
        let shared = Mutex::new((queue, LabReport::default()));
        let shared = &shared;
        concurrently((0..jobs).map(|job| move || self.pair(plan, job, shared)))?;
        Ok(std::mem::take(&mut lock(shared).1))
    }

    /// Runs one pair of workers until no cases are left.
    fn pair(&self, plan: &CasePlan, job: usize, shared: &Mutex<(Queue, LabReport)>) -> Result<()> {
        let mut workers = self.pair_of_workers(job)?;
        loop {
            let cases = lock(shared).0.take(plan, CASES_PER_BLOCK);
            if cases.is_empty() {
                return Ok(());
            }
            for (case, ran) in cases.iter().zip(block(&mut workers, &cases)?) {
                let judged = classify(case, &ran, limit_kib(case));
                let failure = match judged.class.is_failure() {
                    true => report(case, &ran, &judged, &workers[0].setup, plan.seed())?,
                    false => None,
                };
                let done = &mut lock(shared).1;
                done.cases += 1;
                done.accepted += u64::from(judged.class == Class::Accepted);
                done.failures.extend(failure);
            }
            for worker in &workers {
                // Remove only its contents, because the worker runs in this folder.
                for entry in fs::read_dir(&worker.setup.folder)? {
                    remove(&entry?.path())?;
                }
            }
        }
    }

    /// Runs one case and prints everything about it. Its file stays.
    pub(crate) fn only(&self, plan: &CasePlan, id: u64) -> Result<()> {
        let case = plan.case(id).context("no such case, or it changes nothing")?;
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{id}"));
        remove(&file)?;
        case.content.write(&file)?;
        println!("{}, expected: {:?}, {}", case.name, case.expect, file.display());
        let mut workers = self.pair_of_workers(0)?;
        let both = block(&mut workers, std::slice::from_ref(&case))?.pop().context("no result")?;
        for (args, answer) in &both[0].answers {
            let out = String::from_utf8_lossy(&answer.out[..answer.out.len().min(400)]).into_owned();
            println!("b2kit {}: {}, {} bytes {}", args.join(" "), answer.rc, answer.len, answer.err);
            println!("    {}", out.escape_debug());
        }
        let judged = classify(&case, &both, limit_kib(&case));
        println!("{} KiB; b2kit {}, alone: {}", both[0].over_kib, judged.command.join(" "), {
            alone(&workers[0].setup, &judged.command)?
        });
        ensure!(!judged.class.is_failure(), "{:?}: {}", judged.class, judged.why);
        Ok(())
    }
}

/// Returns the memory limit for a case: the allowed amount plus twice the size of the files.
fn limit_kib(case: &Case) -> u64 {
    let allowed = if case.group == Group::Bombs { BOMB_KIB } else { MEMORY_KIB };
    allowed + (case.content.len() as u64 >> 9)
}

/// Runs some cases in both workers, forwards in one and backwards in the other.
fn block(workers: &mut [Worker; 2], cases: &[Case]) -> Result<Vec<[CommandResults; 2]>> {
    let side = |worker: &mut Worker, order: Vec<usize>| -> Result<Vec<CommandResults>> {
        let mut out: Vec<(usize, CommandResults)> = Vec::new();
        for at in order {
            let name = format!("c{at}");
            cases[at].content.write(&worker.setup.folder.join(&name))?;
            out.push((at, commands::run(worker, &name, &cases[at])?));
        }
        out.sort_by_key(|(at, _)| *at);
        Ok(out.into_iter().map(|(_, ran)| ran).collect())
    };
    let orders = [(0..cases.len()).collect(), (0..cases.len()).rev().collect()];
    let both =
        concurrently(workers.iter_mut().zip(orders).map(|(worker, order)| move || side(worker, order)))?;
    let [first, second] = <[_; 2]>::try_from(both).map_err(|_| anyhow!("two sides"))?;
    Ok(first.into_iter().zip(second).map(|(first, second)| [first, second]).collect())
}

/// Returns the report of a case that failed. `None` if it took too long or too much memory, but does not when it runs
/// alone: then other load, or memory that was left by an earlier case, was the cause.
fn report(
    case: &Case,
    ran: &[CommandResults; 2],
    judged: &Classification,
    setup: &WorkerSetup,
    seed: u64,
) -> Result<Option<String>> {
    let name = judged.command.get(1).cloned().unwrap_or_default();
    let mut commands = vec![judged.command.clone()];
    if judged.class == Class::Memory {
        // Any of them may be the cause; commands that read something other than the case itself are left out.
        let all = ran.iter().flat_map(|ran| ran.answers.iter().map(|(args, _)| args.clone()));
        commands = all.filter(|args| args.contains(&name)).collect();
        commands.sort();
        commands.dedup();
    }
    let mut shown = !matches!(judged.class, Class::Timeout | Class::Memory);
    let mut details = String::new();
    for command in if shown { vec![] } else { commands } {
        remove(&setup.folder.join(&name))?;
        case.content.write(&setup.folder.join(&name))?;
        let alone = alone(setup, &command)?;
        let again = match judged.class {
            Class::Timeout => alone.death == ProcessDeath::Timeout,
            _ => alone.peak_kib > limit_kib(case) + 16_384,
        };
        if again {
            (shown, details) = (true, format!("\n    b2kit {}, alone: {alone}", command.join(" ")));
            break;
        }
    }
    Ok(shown.then(|| {
        format!(
            "{:?}: case {}, {}\n    b2kit {}: {}{details}\n    B2KIT_HOSTILE_SEED={seed} B2KIT_HOSTILE_CASE={} \
             cargo nextest run -p b2-hostile --no-capture no_file_harms",
            judged.class,
            case.id,
            case.name,
            judged.command.join(" "),
            judged.why.replace('\n', " "),
            case.id
        )
    }))
}

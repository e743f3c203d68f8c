//! `cargo xtask hostile`: damaged and hostile files through the command `b2kit`, in processes with limits.

mod base;
mod bombs;
mod commands;
mod content;
mod expect;
mod fixtures;
mod groups;
mod judge;
mod made;
mod mutate;
mod peer;
mod plan;
mod rebuild;
mod relations;
mod report;
mod sparse;
mod stores;
mod worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub(crate) use self::commands::KEYS;
use self::commands::{Ran, remove};
use self::content::Content;
use self::judge::{Class, Judged, judge};
use self::plan::{Case, FULL, Plan, Queue};
use self::report::Report;
use self::worker::{Alone, Death, alone};
pub(crate) use self::worker::{Answer, Setup, Worker};
use crate::root;
use crate::sh::{self, Counts, lock};

/// Run damaged and hostile files through the command b2kit: changed fields, cuts, flips, bombs, special files.
///
/// Each case is verified in two processes with memory and time limits, one behind the other in different order, with
/// other bytes in fresh memory and another number of threads; some go through other commands as well. All cases come
/// from the seed. docs/hostile.md tells how to read the table.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many cases; the bombs and special files are among them in full from 50,000 on.
    #[arg(long, default_value_t = FULL)]
    cases: usize,
    /// Seed of bases and damage.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only groups whose name begins so.
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// A sample for continuous integration: at most two minutes.
    #[arg(long, conflicts_with = "cases")]
    ci: bool,
    /// Only the case with this number, alone and in detail.
    #[arg(long, value_name = "ID")]
    only: Option<u64>,
    /// With --only: where the file is left.
    #[arg(long, value_name = "FOLDER", requires = "only")]
    keep: Option<PathBuf>,
    /// Let C-Blosc2 judge this many of the cases, too, and compare (needs Python).
    #[arg(long, value_name = "N")]
    peer: Option<usize>,
    /// Test the debug build, which checks for overflows.
    #[arg(long)]
    debug: bool,
    /// Test this program instead of building one.
    #[arg(long, value_name = "PATH", conflicts_with = "debug")]
    program: Option<PathBuf>,
    /// Memory a command may take above that of an idle process, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: u64,
    /// Address space of a process, in MiB (0: no limit, as the address sanitizer needs it).
    #[arg(long, value_name = "MIB", default_value_t = 6144)]
    address_space: u64,
    /// Seconds a command may take.
    #[arg(long, value_name = "S", default_value_t = 10)]
    patience: u64,
    /// Pairs of processes [default: half of the cores].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Number of cases in the sample, and its time limit.
const SAMPLE: usize = 12_000;
const SAMPLE_TIME: Duration = Duration::from_secs(100);

/// Cases that take longer than this are reported at once.
const SLOW_MILLIS: u128 = 5000;

/// Number of cases that a pair of workers handles at a time.
const BLOCK: usize = 64;

/// Runs the task; returns an error if a case failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let counts = counted(args)?;
    ensure!(counts.failed == 0, "{} failures", counts.failed);
    Ok(())
}

fn counted(args: &Args) -> Result<Counts> {
    let program = program(args)?;
    // Building may take minutes and must not count as time spent on files.
    let started = Instant::now();
    let home = root::target().join("xtask");
    fs::create_dir_all(&home)?;
    let folder = tempfile::Builder::new().prefix("hostile-").tempdir_in(playground(&home))?;
    let plan = Plan::new(args.seed, folder.path())?;
    let (nbases, nall) = (plan.bases().len(), plan.len());
    println!("hostile: {nbases} bases, {nall} possible cases, --seed {}", args.seed);
    let lab = Lab {
        args,
        program,
        folder: folder.path().to_owned(),
        deadline: args.ci.then(|| started + SAMPLE_TIME),
    };
    if let Some(id) = args.only {
        return lab.only(&plan, id);
    }
    if let Some(count) = args.peer {
        lab.write_other(&plan)?;
        return peer::run(&lab.setup("peer", 0, 1)?, &plan, plan.choose(count, &args.group), args.seed);
    }
    let count = if args.ci { SAMPLE } else { args.cases };
    let report = lab.all(&plan, plan.choose(count, &args.group))?;
    print!("{}", report.table());
    print!("{}", report.first_failures(40));
    let path = home.join("hostile.txt");
    fs::write(&path, report.text(args.seed))?;
    let (ncases, nfailures) = (report.ncases(), report.nfailures());
    println!(
        "most memory: {} KiB above an idle process ({}); longest: {} ms ({})",
        report.most_kib.0, report.most_kib.1, report.longest.0, report.longest.1
    );
    println!(
        "{} commands, {} suspicions not repeated, {:.0} s; details in {}",
        report.commands,
        report.not_repeated,
        started.elapsed().as_secs_f64(),
        path.display()
    );
    println!("hostile: {ncases} cases, {nfailures} failures");
    ensure!(ncases > 0, "no case was run");
    Ok(Counts { passed: ncases - nfailures, failed: nfailures })
}

/// Returns where to write cases: in memory if there is space, because a sync costs nothing there.
fn playground(home: &Path) -> &Path {
    const ROOM: u64 = 1 << 30;
    let memory = Path::new("/dev/shm");
    if root::free(memory).is_some_and(|bytes| bytes > ROOM) { memory } else { home }
}

/// Returns the command to test.
fn program(args: &Args) -> Result<PathBuf> {
    if let Some(program) = &args.program {
        return program.canonicalize().with_context(|| program.display().to_string());
    }
    let mut build = vec!["build", "-p", "b2kit-cli", "--bin", "b2kit"];
    // Build it together with a package that uses the same profile anyway: other features would rebuild everything.
    build.extend(if args.debug { ["-p", "xtask"].as_slice() } else { &["-p", "b2-benches", "--release"] });
    sh::run(sh::cargo(&build))?;
    let profile = if args.debug { "debug" } else { "release" };
    Ok(root::target().join(profile).join("b2kit").canonicalize()?)
}

/// Where and how to run cases.
struct Lab<'a> {
    args: &'a Args,
    program: PathBuf,
    folder: PathBuf,
    deadline: Option<Instant>,
}

impl Lab<'_> {
    fn setup(&self, name: &str, perturb: u8, threads: u16) -> Result<Setup> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        let address_kib = match self.args.address_space {
            0 => "unlimited".into(),
            mib => (mib << 10).to_string(),
        };
        let patience = Duration::from_secs(self.args.patience);
        Ok(Setup { program: self.program.clone(), folder, perturb, threads, address_kib, patience })
    }

    /// Returns the memory limit for a case: the allowed amount plus twice the size of the files. Bombs may use as much
    /// as the command promises for small files, since blocks may have hundreds of megabytes.
    fn limit_kib(&self, case: &Case) -> u64 {
        let allowed =
            if case.group == groups::Group::Bombs { self.args.memory.max(768) } else { self.args.memory };
        (allowed << 10) + (case.content.len() as u64 >> 9)
    }

    /// Writes a file to compare with, beside the folders of the workers.
    fn write_other(&self, plan: &Plan) -> Result<()> {
        let base =
            plan.bases().iter().find(|base| base.name == "array-2d").context("no base to compare with")?;
        base.content.write(&self.folder.join("more.b2nd"))
    }

    fn all(&self, plan: &Plan, queue: Queue) -> Result<Report> {
        self.write_other(plan)?;
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let jobs = self.args.jobs.unwrap_or(cores.div_ceil(2)).max(1);
        let shared = Mutex::new((queue, Report::default()));
        sh::at_once((0..jobs).map(|job| {
            let shared = &shared;
            move || self.pair(plan, job, shared)
        }))?;
        Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Runs one pair of workers until no cases are left.
    fn pair(&self, plan: &Plan, job: usize, shared: &Mutex<(Queue, Report)>) -> Result<()> {
        let setups = [self.setup(&format!("{job}a"), 0x55, 1)?, self.setup(&format!("{job}b"), 0xAA, 2)?];
        let mut workers = Vec::new();
        for (setup, side) in setups.iter().zip(["a", "b"]) {
            workers.push(Worker::new(setup.clone(), self.folder.join(format!("{job}{side}.stderr"))));
        }
        loop {
            let cases = lock(shared).0.take(plan, BLOCK);
            if cases.is_empty() || self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Ok(());
            }
            let cases = &cases;
            let sides = workers.iter_mut().zip(&setups).zip([false, true]);
            let both =
                sh::at_once(sides.map(|((worker, setup), backwards)| {
                    move || block(worker, &setup.folder, cases, backwards)
                }))?;
            let mut both = both.into_iter().map(Vec::into_iter);
            let (Some(first), Some(second)) = (both.next(), both.next()) else { return Ok(()) };
            for ((case, first), second) in cases.iter().zip(first).zip(second) {
                self.enter(case, &[first, second], &setups[0], shared)?;
            }
            self.tell(&lock(shared).1);
            for setup in &setups {
                // Remove only its contents, because the worker runs in this folder.
                for entry in fs::read_dir(&setup.folder)? {
                    remove(&entry?.path())?;
                }
            }
        }
    }

    /// Prints the progress from time to time.
    fn tell(&self, report: &Report) {
        const EVERY: u64 = 50 * BLOCK as u64;
        if report.ncases() % EVERY < BLOCK as u64 {
            eprintln!("{} cases, {} failures", report.ncases(), report.nfailures());
        }
    }

    /// Judges a case, repeats it alone if necessary, and records the result.
    fn enter(
        &self,
        case: &Case,
        ran: &[Ran; 2],
        setup: &Setup,
        shared: &Mutex<(Queue, Report)>,
    ) -> Result<()> {
        let mut judged = judge(case, ran, self.limit_kib(case));
        let mut again = None;
        if matches!(judged.class, Class::Panic | Class::Signal | Class::Timeout | Class::Memory) {
            let (now, repeated) = self.repeat(case, ran, &mut judged, setup)?;
            if !repeated && matches!(judged.class, Class::Timeout | Class::Memory) {
                // Other load, or memory kept from an earlier case, was the cause.
                judged.class = Class::Rejected;
                lock(shared).1.not_repeated += 1;
            }
            again = now;
        }
        let mut shared = lock(shared);
        let report = &mut shared.1;
        for ran in ran {
            report.commands += ran.answers.len() as u64;
            if ran.over_kib > report.most_kib.0 {
                report.most_kib = (ran.over_kib, case.name.clone());
            }
            if ran.millis > SLOW_MILLIS {
                let last = ran.answers.last().map(|(args, _)| args.join(" ")).unwrap_or_default();
                eprintln!("case {} took {} ms, up to {last}: {}", case.id, ran.millis, case.name);
            }
            if ran.millis > report.longest.0 {
                report.longest = (ran.millis, case.name.clone());
            }
        }
        report.add(case, judged, again);
        Ok(())
    }

    /// Repeats the commands of a case alone. Returns whether the failure occurs again, with the first command that
    /// shows it.
    fn repeat(
        &self,
        case: &Case,
        ran: &[Ran; 2],
        judged: &mut Judged,
        setup: &Setup,
    ) -> Result<(Option<Alone>, bool)> {
        let name = judged.command.get(1).cloned().unwrap_or_default();
        let mut commands = vec![judged.command.clone()];
        if judged.class == Class::Memory {
            // Any of them may be the cause; commands that read something other than the case itself are left out.
            let all = ran.iter().flat_map(|ran| ran.answers.iter().map(|(args, _)| args.clone()));
            commands = all.filter(|args| args.contains(&name)).collect();
            commands.sort();
            commands.dedup();
        }
        let mut last = None;
        for command in commands {
            remove(&setup.folder.join(&name))?;
            case.content.write(&setup.folder.join(&name))?;
            let alone = alone(setup, &command)?;
            let shown = match judged.class {
                Class::Timeout => alone.death == Death::Timeout,
                Class::Memory => alone.peak_kib > self.limit_kib(case) + 16_384,
                _ => !matches!(alone.death, Death::Code(0..=2)),
            };
            last = Some(alone);
            if shown {
                judged.command = command;
                return Ok((last, true));
            }
        }
        Ok((last, false))
    }

    /// Runs one case alone and prints everything about it.
    fn only(&self, plan: &Plan, id: u64) -> Result<Counts> {
        self.write_other(plan)?;
        let case = plan.case(id).context("no such case, or it changes nothing")?;
        println!(
            "{} ({}), {} bytes, expected: {:?}",
            case.name,
            case.group.name(),
            case.content.len(),
            case.expect
        );
        if let Some(keep) = &self.args.keep {
            fs::create_dir_all(keep)?;
            case.content.write(&keep.join(format!("case-{id}")))?;
        }
        let setups = [self.setup("a", 0x55, 1)?, self.setup("b", 0xAA, 2)?];
        let mut both = Vec::new();
        for setup in &setups {
            let mut worker = Worker::new(setup.clone(), self.folder.join("stderr"));
            both.extend(block(&mut worker, &setup.folder, std::slice::from_ref(&case), false)?);
        }
        let both: [Ran; 2] = both.try_into().map_err(|_| anyhow::anyhow!("two runs"))?;
        for (args, answer) in &both[0].answers {
            println!("b2kit {}: {}, {} bytes {}", args.join(" "), answer.rc, answer.len, answer.err);
            println!(
                "    {}",
                String::from_utf8_lossy(&answer.out[..answer.out.len().min(400)]).escape_debug()
            );
        }
        println!("{} KiB, {} ms", both[0].over_kib, both[0].millis);
        let judged = judge(&case, &both, self.limit_kib(&case));
        println!("{}: {}", judged.class.name(), judged.why);
        println!("b2kit {}, alone: {:?}", judged.command.join(" "), alone(&setups[0], &judged.command)?);
        let failed = u64::from(judged.class.is_failure());
        Ok(Counts { passed: 1 - failed, failed })
    }
}

/// Runs some cases one after the other. Returns their results in the order of the cases.
fn block(worker: &mut Worker, folder: &Path, cases: &[Case], backwards: bool) -> Result<Vec<Ran>> {
    let name = |at: usize| format!("c{at}");
    let write = |at: usize, content: &Content| content.write(&folder.join(name(at)));
    let mut out: Vec<(usize, Ran)> = Vec::new();
    for k in 0..cases.len() {
        let at = if backwards { cases.len() - 1 - k } else { k };
        write(at, &cases[at].content)?;
        out.push((at, commands::run(worker, folder, &name(at), &cases[at])?));
    }
    out.sort_by_key(|(at, _)| *at);
    Ok(out.into_iter().map(|(_, ran)| ran).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_the_defaults_of_the_task() -> Result<()> {
        let args: Args = sh::parsed(&["--ci", "--patience", "30"])?;
        assert!(args.ci && args.group.is_empty() && args.only.is_none() && args.peer.is_none());
        assert_eq!((args.cases, args.seed, args.patience), (FULL, 1, 30));
        assert_eq!((args.memory, args.address_space, args.jobs), (256, 6144, None));
        assert!(!args.debug && args.program.is_none() && args.keep.is_none());
        Ok(())
    }
}

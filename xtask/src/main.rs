//! Tasks of this repository: `cargo xtask <task>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod api;
mod bench;
mod c;
mod conformance;
mod crash;
mod cross;
mod demo;
mod digest;
mod faults;
mod fixtures;
mod flips;
mod fuzz;
mod hdf5;
mod hostile;
mod notices;
mod pingpong;
mod programs;
mod python;
mod pythonpkg;
mod rooms;
mod root;
mod salvage;
mod sh;
mod steps;
mod test;
mod windows;

/// Tasks of this repository. All of them need only cargo and, for C-Blosc2 as the peer, python3 with venv and pip.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Test(test::Args),
    Api(api::Args),
    Fixtures(fixtures::Args),
    Flips(flips::Args),
    Fuzz(fuzz::Args),
    Conformance(conformance::Args),
    Crash(crash::Args),
    Faults(faults::Args),
    Hostile(hostile::Args),
    Salvage(salvage::Args),
    Cross(cross::Args),
    Windows(windows::Args),
    Pingpong(pingpong::Args),
    Python(pythonpkg::Args),
    Notices(notices::Args),
    Hdf5(hdf5::Args),
    C(c::Args),
    Demo(demo::Args),
    Rooms(rooms::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Flips(args) => flips::run(&args),
        Task::Fixtures(args) => fixtures::run(&args),
        Task::Conformance(args) => conformance::run(&args).and_then(|counts| counts.verdict()),
        Task::Crash(args) => crash::run(&args),
        Task::Faults(args) => faults::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Hostile(args) => hostile::run(&args),
        Task::Salvage(args) => salvage::run(&args),
        Task::Cross(args) => cross::run(&args),
        Task::Windows(args) => windows::run(&args),
        Task::Pingpong(args) => pingpong::run(&args).and_then(|counts| counts.verdict()),
        Task::Python(args) => pythonpkg::run(&args),
        Task::Notices(args) => notices::run(&args),
        Task::Hdf5(args) => hdf5::run(&args),
        Task::C(args) => c::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Rooms(args) => rooms::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Api(args) => api::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}

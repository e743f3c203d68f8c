//! Tasks of this repository: `cargo xtask <task>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod conformance;
mod crash;
mod demo;
mod digest;
mod faults;
mod fixtures;
mod flips;
mod hostile;
#[cfg(test)]
mod layers;
mod pingpong;
mod python;
mod root;
mod salvage;
mod sh;
mod steps;
mod test;
mod web;

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
    Fixtures(fixtures::Args),
    Flips(flips::Args),
    Conformance(conformance::Args),
    Crash(crash::Args),
    Faults(faults::Args),
    Hostile(hostile::Args),
    Salvage(salvage::Args),
    Pingpong(pingpong::Args),
    Demo(demo::Args),
    Web(web::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Flips(args) => flips::run(&args),
        Task::Fixtures(args) => fixtures::run(&args),
        Task::Conformance(args) => conformance::run(&args).and_then(|counts| counts.verdict()),
        Task::Crash(args) => crash::run(&args),
        Task::Faults(args) => faults::run(&args),
        Task::Hostile(args) => hostile::run(&args),
        Task::Salvage(args) => salvage::run(&args),
        Task::Pingpong(args) => pingpong::run(&args).and_then(|counts| counts.verdict()),
        Task::Web(args) => web::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Test(args) => test::run(&args),
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

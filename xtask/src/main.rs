//! Tasks of this repository: `cargo xtask <task>`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod conformance;
mod demo;
mod digest;
mod fixtures;
#[cfg(test)]
mod layers;
mod pingpong;
mod python;
mod root;
mod sh;
mod test;

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
    Conformance(conformance::Args),
    Pingpong(pingpong::Args),
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Fixtures(args) => fixtures::run(&args),
        Task::Conformance(args) => conformance::run(&args).and_then(|counts| counts.verdict("conformance")),
        Task::Pingpong(args) => pingpong::run(&args).and_then(|counts| counts.verdict("sequences")),
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

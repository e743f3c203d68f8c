//! Tasks of this repository: `cargo xtask <task>`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod digest;
mod fixtures;
mod python;
mod root;

/// Tasks of this repository. All of them need only cargo and, for C-Blosc2 as the peer, python3 with venv and pip.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Fixtures(fixtures::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().task {
        Task::Fixtures(args) => fixtures::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

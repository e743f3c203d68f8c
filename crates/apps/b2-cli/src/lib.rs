//! The `b2kit` command: inspect, read and write Blosc2 files.
//!
//! This is a library only for the fuzz targets and the Python package; it is not a public interface.
#![forbid(unsafe_code)]

mod args;
mod cli;
mod cmd;
mod files;
mod formats;
mod print;
mod process;
mod read;
mod write;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    ExitCode::from(run_from(std::env::args_os()))
}

/// Runs a command line, including the name of the program, and returns the exit code. Signals are handled as in the
/// command itself.
#[doc(hidden)]
pub fn run_from<T: Into<OsString> + Clone>(args: impl IntoIterator<Item = T>) -> u8 {
    process::signals::ignore_file_size();
    let code = match cli::parse(args) {
        Ok(cli) => process::error::report(&cli.run()),
        Err(error) => {
            // Ignore errors: the output may be closed.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    };
    // Flush explicitly: only a Rust program does so at exit, and this may run in another program.
    let _ = std::io::stdout().flush();
    code
}

/// Runs one line of a batch in this process. Returns the exit code, standard output and the error message.
#[doc(hidden)]
pub fn batch_line(line: &[u8]) -> (u8, Vec<u8>, String) {
    cmd::batch::one(line, cli::in_batch)
}

//! The command `b2kit` for the tests of this crate.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    b2_cli::main()
}

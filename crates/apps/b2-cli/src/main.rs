//! The `b2kit` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    b2_cli::main()
}

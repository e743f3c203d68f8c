//! The command `b2kit`, as the tests of this crate run it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    b2_cli::main()
}

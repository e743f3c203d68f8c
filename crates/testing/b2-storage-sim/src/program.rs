//! Starts programs that were built for tests.

use std::ffi::OsStr;
use std::process::Command;

/// The environment variable that names an emulator.
const RUNNER: &str = "B2KIT_TEST_RUNNER";

/// Returns a command that runs a program built for this test.
///
/// On another architecture cargo starts the tests in an emulator, but not the programs that the
/// tests start. The environment variable `B2KIT_TEST_RUNNER` names the emulator for these.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    under(std::env::var_os(RUNNER).as_deref(), path.as_ref())
}

fn under(runner: Option<&OsStr>, path: &OsStr) -> Command {
    match runner {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(path);
            command
        }
        None => Command::new(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_comes_first() {
        let command = under(Some("qemu".as_ref()), "b2kit".as_ref());
        assert_eq!(
            (command.get_program(), command.get_args().next()),
            ("qemu".as_ref(), Some("b2kit".as_ref()))
        );
        let command = under(None, "b2kit".as_ref());
        assert_eq!((command.get_program(), command.get_args().count()), ("b2kit".as_ref(), 0));
    }
}

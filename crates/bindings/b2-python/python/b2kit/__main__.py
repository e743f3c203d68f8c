"""The command-line program ``b2kit``, also available as ``python -m b2kit``."""

from __future__ import annotations

import os
import signal
import sys

from b2kit import _b2kit


def main() -> None:
    """Runs the program with the arguments of this process, and exits."""
    # Python's handler for Ctrl-C must not interfere: the program itself undoes what it was writing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The next file would get the number of a closed standard stream, and messages would be written into it.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.exit(_b2kit.run_command(["b2kit", *sys.argv[1:]]))


if __name__ == "__main__":
    main()

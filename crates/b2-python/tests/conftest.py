"""What all tests need."""

import os
import signal

# A program that was started in the background ignores Ctrl-C, and so would the tests of it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def many(examples):
    """How many examples hypothesis tries: eight times as many with `cargo xtask python --full`."""
    return examples * (8 if os.environ.get("B2KIT_FULL") else 1)

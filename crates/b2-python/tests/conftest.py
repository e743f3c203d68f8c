"""Fixtures and settings for all tests."""

import os
import signal

# A program started in the background ignores Ctrl-C, and so would the tests for it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def many(examples):
    """The number of examples that hypothesis tries: eight times as many with `cargo xtask python --full`."""
    return examples * (8 if os.environ.get("B2KIT_FULL") else 1)

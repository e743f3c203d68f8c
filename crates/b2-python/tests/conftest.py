"""What all tests need."""

import signal

# A program that was started in the background ignores Ctrl-C, and so would the tests of it.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""Progress reports of long operations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Union, runtime_checkable

Progress = Union[bool, Callable[..., Any], "Bar", None]
"""``True`` for a bar on standard error, a class of tqdm or one of its bars, or a function that is called with the
number of bytes done and in total."""


@runtime_checkable
class Bar(Protocol):
    """A progress bar of tqdm, or one like it."""

    n: Any
    total: Any

    def update(self, n: Any = ..., /) -> Any:
        """Adds to the number of bytes done."""

    def close(self) -> Any:
        """Ends the bar."""


@contextmanager
def progress_callback(progress: Progress, what: str) -> Iterator[Callable[[int, int], object] | None]:
    """Provides the progress callback of an operation while it runs."""
    if progress is None or progress is False:
        yield None
    elif isinstance(progress, Bar) and not isinstance(progress, type):
        yield _Tqdm(progress).show
    elif callable(progress) and not _makes_bars(progress):
        yield progress
    else:
        bar = _bar(what) if progress is True else _Tqdm(_opened(progress, what))
        try:
            yield bar.show
        finally:
            bar.close()


def _bar(what: str) -> _Tqdm | _Line:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return _Line(what)
    return _Tqdm(_opened(tqdm, what))


def _makes_bars(progress: Any) -> bool:
    """Returns whether this is a class of bars, or ``functools.partial`` of one."""
    made = getattr(progress, "func", progress)
    return isinstance(made, type) and hasattr(made, "update")


def _opened(tqdm: Any, what: str) -> Any:
    return tqdm(desc=what, unit="B", unit_scale=True, unit_divisor=1024)


class _Tqdm:
    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def show(self, done: int, total: int) -> None:
        if self.bar.total != total:
            self.bar.total = total
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        self.bar.close()


class _Line:
    """A progress line on standard error, used if tqdm is not installed."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.start = time.monotonic()
        self.is_shown = False

    def show(self, done: int, total: int) -> None:
        share = 100 * done // total if total else 100
        seconds = time.monotonic() - self.start
        sys.stderr.write(f"\r{self.what}: {share} % of {total / 2**20:.0f} MiB, {seconds:.0f} s")
        sys.stderr.flush()
        self.is_shown = True

    def close(self) -> None:
        if self.is_shown:
            sys.stderr.write("\n")

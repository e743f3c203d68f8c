"""Directories next to a store, for files that replace it when they are complete."""

from __future__ import annotations

import os
import shutil
import uuid
import zlib
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where leftovers are not cleaned up
    fcntl = None  # type: ignore[assignment]

__all__ = ["Stage"]

# Longer names of stores are replaced by their checksum, because a name has at most 255 bytes.
_LONGEST = 150


class Stage:
    """A temporary directory next to a store: ``.b2kit-NAME-ID.tmp``.

    The process holds a lock on the directory while it is in use. Creating one removes those of the same store that killed
    processes left.
    """

    def __init__(self, target: str) -> None:
        folder, name = os.path.split(target)
        start = _start(name)
        for left in _leftovers(folder, start):
            _remove_unused(left)
        for _ in range(4):
            self.path = os.path.join(folder, f"{start}{uuid.uuid4().hex[:12]}.tmp")
            os.mkdir(self.path)
            self._lock = _locked(self.path)
            if self._lock is not None and os.path.isdir(self.path):
                break
            # Another process took it for a leftover, since it was not locked yet, or locks are not supported.
        # The store itself, under its own name.
        self.new = os.path.join(self.path, name)

    def remove(self) -> None:
        """Removes the directory and its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _start(name: str) -> str:
    encoded = os.fsencode(name)
    return f".b2kit-{name if len(encoded) <= _LONGEST else format(zlib.crc32(encoded), '08x')}-"


def _leftovers(folder: str, start: str) -> Iterator[str]:
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return
    for name in names:
        rest = name.removeprefix(start)
        if rest != name and len(rest) == 16 and rest.endswith(".tmp") and not set(rest[:12]) - set("0123456789abcdef"):
            yield os.path.join(folder, name)


def _locked(path: str) -> int | None:
    """Takes the lock on a directory; ``None`` if another process has it, or the system has no such locks."""
    if fcntl is None:
        return None
    try:
        held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _remove_unused(path: str) -> None:
    """Removes a leftover, unless a process holds it, or it has the only copy of a store."""
    held = _locked(path)
    if held is None:
        return
    try:
        # If names cannot be swapped, the old store is moved here, and is briefly in no other place.
        if not any(name.endswith(".old") for name in os.listdir(path)):
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(held)

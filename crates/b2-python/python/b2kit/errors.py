"""What goes wrong, as exceptions.

All of them are :class:`Error`. Each is also what Python people catch in such a case: an ``OSError`` where a file is at
fault, a ``ValueError`` where its content or an argument is, an ``IndexError`` where a selection is, a ``KeyError``
where a name is.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ChangedError",
    "DamagedError",
    "Error",
    "ExistsError",
    "IoError",
    "LimitError",
    "NewerVersionError",
    "NoPermissionError",
    "NoSuchKeyError",
    "NotBloscError",
    "NotFoundError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "SelectionError",
    "UnsupportedError",
]


class Error(Exception):
    """Any error of this package."""


class NotBloscError(Error, ValueError):
    """The input is no Blosc2 chunk, frame or array at all."""


class NewerVersionError(Error, ValueError):
    """The input was written by a newer version of the format."""


class UnsupportedError(Error, ValueError):
    """It is valid, but needs a codec, a filter or something else that is not there."""


class DamagedError(Error, ValueError):
    """The input is cut off, malformed, contradicts itself or does not fit its checksums."""


class LimitError(Error, ValueError):
    """It needs more than the limits allow."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


class ArgumentError(Error, ValueError):
    """An argument is out of range, or does not fit the others."""


class ReadOnlyError(ArgumentError):
    """The array is open for reading only."""


class SelectionError(Error, IndexError):
    """What stands in the brackets does not fit the array."""


class NoSuchKeyError(Error, KeyError):
    """A store or its attributes have nothing of that name."""


class CancelledError(Error):
    """A callback asked to stop; nothing was changed."""


class IoError(Error, OSError):
    """The operating system or the storage failed."""


class NotFoundError(IoError, FileNotFoundError):
    """There is no such file."""


class ExistsError(IoError, FileExistsError):
    """There is something of that name already."""


class NoPermissionError(IoError, PermissionError):
    """The operating system does not allow it."""


class ChangedError(Error, OSError):
    """Somebody else has changed the file meanwhile."""


def of_system(error: OSError, path: str) -> IoError:
    """An error of the operating system as one of this package."""
    kinds: list[tuple[type[OSError], type[IoError]]] = [
        (FileNotFoundError, NotFoundError),
        (FileExistsError, ExistsError),
        (PermissionError, NoPermissionError),
    ]
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), IoError)
    return kind(f"{path}: {error.strerror or error}")

"""Exceptions.

All of them derive from :class:`Error`. Each also derives from the usual Python exception for its cause: ``OSError``
for files, ``ValueError`` for their content and for arguments, ``IndexError`` for selections, ``KeyError`` for names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ChangedError",
    "ChangedWarning",
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
    "RangeError",
    "ReadOnlyError",
    "SelectionError",
    "UnsupportedError",
    "WrongTypeError",
]


class Error(Exception):
    """Base class of the exceptions of this package."""


class NotBloscError(Error, ValueError):
    """The input is not a Blosc2 chunk, frame or array."""


class NewerVersionError(Error, ValueError):
    """The input was written by a newer version of the format."""


class UnsupportedError(Error, ValueError):
    """The input is valid, but needs a codec, a filter or another feature that is not available."""


class DamagedError(Error, ValueError):
    """The input is truncated, malformed or inconsistent, or does not match its checksums."""


class LimitError(Error, ValueError):
    """The input needs more memory or other resources than the limits allow."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory."""


class ArgumentError(Error, ValueError):
    """An argument is out of range or inconsistent with the others."""


class WrongTypeError(Error, TypeError):
    """An argument has an unsupported type."""


class RangeError(ArgumentError, OverflowError):
    """A number does not fit into its type."""


class ReadOnlyError(ArgumentError):
    """The array is open for reading only."""


class SelectionError(Error, IndexError):
    """An index or a selection is invalid for the array."""


class NoSuchKeyError(Error, KeyError):
    """A store has no member, or an array or a group no attribute, of this name."""


class CancelledError(Error):
    """A callback requested to stop; nothing was changed."""


class IoError(Error, OSError):
    """The operating system or the storage failed."""


class NotFoundError(IoError, FileNotFoundError):
    """The file does not exist."""


class ExistsError(IoError, FileExistsError):
    """A file, directory or member of this name already exists."""


class NoPermissionError(IoError, PermissionError):
    """The operating system denied access."""


class ChangedWarning(UserWarning):
    """Another program has changed the file since its checksums were written, so they do not cover all of it."""


class ChangedError(Error, OSError):
    """Another program changed the file in the meantime."""


def of_python(error: BaseException) -> BaseException:
    """Converts an exception that NumPy or Python raises for invalid arguments to one of this package.

    The result also derives from the matching built-in class. Other exceptions, such as those of callbacks, are returned
    unchanged.
    """
    kinds: list[tuple[tuple[type[BaseException], ...], type[Error]]] = [
        ((OverflowError,), RangeError),
        ((TypeError,), WrongTypeError),
        ((ValueError, UnicodeEncodeError, UnicodeDecodeError), ArgumentError),
        ((MemoryError,), OutOfMemoryError),
    ]
    if type(error) is TypeError and str(error).startswith("failed to extract field Options."):
        # The cause describes the problem with the field.
        cause = error.__cause__ or error
        error = type(cause)(f"{str(error).rpartition('.')[2]}: {cause}")
    # Exactly these classes: a subclass has a meaning for the code that raised it.
    ours = next((ours for theirs, ours in kinds if type(error) in theirs), None)
    if ours is None and isinstance(error, MemoryError) and not isinstance(error, Error):
        ours = OutOfMemoryError
    if ours is None:
        return error
    made = ours(str(error))
    made.__cause__ = error
    return made


def checked(function: _F) -> _F:
    """Decorates a function so that arguments rejected by NumPy or Python raise exceptions of this package."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            converted = of_python(error)
            if converted is error:
                raise
            raise converted from error

    return cast("_F", call)


def of_system(error: OSError, path: str) -> IoError:
    """Converts an error of the operating system to one of this package."""
    kinds: list[tuple[type[OSError], type[IoError]]] = [
        (FileNotFoundError, NotFoundError),
        (FileExistsError, ExistsError),
        (PermissionError, NoPermissionError),
    ]
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), IoError)
    return kind(f"{path}: {error.strerror or error}")

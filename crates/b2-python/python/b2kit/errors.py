"""What goes wrong, as exceptions.

All of them are :class:`Error`. Each is also what Python people catch in such a case: an ``OSError`` where a file is at
fault, a ``ValueError`` where its content or an argument is, an ``IndexError`` where a selection is, a ``KeyError``
where a name is.
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


class WrongTypeError(Error, TypeError):
    """An argument is of a type that cannot be taken."""


class RangeError(ArgumentError, OverflowError):
    """A number does not fit where it is to go."""


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


class ChangedWarning(UserWarning):
    """Another program has changed the file since its checksums were written, so they do not cover all of it."""


class ChangedError(Error, OSError):
    """Somebody else has changed the file meanwhile."""


def of_python(error: BaseException) -> BaseException:
    """What NumPy and Python say of wrong arguments, as errors of this package that are what they were, too. Others stay
    what they are: those of callbacks, for example."""
    kinds: list[tuple[tuple[type[BaseException], ...], type[Error]]] = [
        ((OverflowError,), RangeError),
        ((TypeError,), WrongTypeError),
        ((ValueError, UnicodeEncodeError, UnicodeDecodeError), ArgumentError),
        ((MemoryError,), OutOfMemoryError),
    ]
    if type(error) is TypeError and str(error).startswith("failed to extract field Options."):
        # What is wrong with the field is said by the cause.
        cause = error.__cause__ or error
        error = type(cause)(f"{str(error).rpartition('.')[2]}: {cause}")
    # Only these classes themselves: a subclass means something to whoever raised it.
    ours = next((ours for theirs, ours in kinds if type(error) in theirs), None)
    if ours is None and isinstance(error, MemoryError) and not isinstance(error, Error):
        ours = OutOfMemoryError
    if ours is None:
        return error
    made = ours(str(error))
    made.__cause__ = error
    return made


def checked(function: _F) -> _F:
    """Arguments that NumPy or Python refuse are errors of this package."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            told = of_python(error)
            if told is error:
                raise
            raise told from error

    return cast("_F", call)


def of_system(error: OSError, path: str) -> IoError:
    """An error of the operating system as one of this package."""
    kinds: list[tuple[type[OSError], type[IoError]]] = [
        (FileNotFoundError, NotFoundError),
        (FileExistsError, ExistsError),
        (PermissionError, NoPermissionError),
    ]
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), IoError)
    return kind(f"{path}: {error.strerror or error}")

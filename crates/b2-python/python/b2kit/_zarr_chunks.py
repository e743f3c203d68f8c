"""What the codecs for Zarr share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer


def bytes_of(buffer: Buffer) -> bytes:
    """Returns the bytes of a buffer, without a copy if it was made of a ``bytes`` object."""
    array = buffer.as_numpy_array()
    base: Any = array.base
    if type(base) is bytes and len(base) == array.nbytes and array.strides in ((1,), ()):
        return base
    return buffer.to_bytes()


def is_all(selection: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether a selection is the whole chunk in its original order."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    if len(parts) != len(shape):
        return False
    return all(
        isinstance(part, slice) and part.indices(length) == (0, length, 1) for part, length in zip(parts, shape)
    )

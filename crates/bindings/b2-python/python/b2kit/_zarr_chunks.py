"""What the codecs for Zarr share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer


def bytes_of(buffer: Buffer) -> bytes:
    """Returns the bytes of a buffer, without a copy if it was made of a ``bytes`` object."""
    array = buffer.as_numpy_array()
    base: Any = array.base
    if type(base) is bytes and len(base) == array.nbytes and array.strides in ((1,), ()):
        return base
    return buffer.to_bytes()


def most_bytes(spec: ArraySpec, filtered: bool = False) -> int | None:
    """Returns how many bytes a chunk may have after it is decompressed; ``None`` if its items have no fixed size.

    Codecs between the items and the compressor may add some: checksums, or all that does not compress. Filters of Zarr 2
    (``filtered``) may store other, larger items.
    """
    native = spec.dtype.to_native_dtype()
    if native.hasobject or native.kind == "T" or native.itemsize == 0:
        return None
    items = math.prod(spec.shape) * native.itemsize
    return (16 if filtered else 1) * items + items // 8 + (64 << 10)


def is_all(selection: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether a selection is the whole chunk in its original order."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    if len(parts) != len(shape):
        return False
    return all(
        isinstance(part, slice) and part.indices(length) == (0, length, 1) for part, length in zip(parts, shape)
    )

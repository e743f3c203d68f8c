"""The codec for Zarr whose chunks are single Blosc2 chunks of an array, as references into ``.b2nd`` files are."""

from __future__ import annotations

import asyncio
import math
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs.abc import Codec  # type: ignore[import-untyped, unused-ignore]
from numcodecs.compat import ensure_contiguous_ndarray  # type: ignore[import-untyped, unused-ignore]

from b2kit import _b2kit
from b2kit._create import asarray, decompress
from b2kit._zarr_blosc import Bytes, Instead, Marks, Parts, _raw
from b2kit._zarr_chunks import bytes_of
from b2kit.errors import ArgumentError, DamagedError

if TYPE_CHECKING:
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer


def _grid(shape: Sequence[int], blocks: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-length // block) for length, block in zip(shape, blocks))


def unblocked(plain: Bytes, itemsize: int, shape: Sequence[int], blocks: Sequence[int], box: Sequence[range]) -> Any:
    """Returns the items of a box of blocks as an array; ``plain`` are the items of a chunk, block after block."""
    grid = _grid(shape, blocks)
    items = plain.view(_raw(itemsize)).reshape(*grid, *blocks)
    items = items[tuple(slice(part.start, part.stop) for part in box)]
    axes = [axis for n in range(len(grid)) for axis in (n, n + len(grid))]
    return items.transpose(axes).reshape(tuple(len(part) * block for part, block in zip(box, blocks)))


@dataclass(frozen=True)
class ChunkCodec(Parts):
    """Zarr chunks that are single Blosc2 chunks, block after block (``b2kit.chunk``), of which parts are read.

    References into ``.b2nd`` files need it (:mod:`b2kit.virtual`). ``blocks`` is the shape of the blocks, and ``endian`` the
    byte order of the items. It writes chunks, too, with zstd and shuffle.
    """

    blocks: tuple[int, ...]
    endian: str = "little"
    _seen: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    _blocksize = 0

    def __post_init__(self) -> None:
        blocks = tuple(int(length) for length in self.blocks)
        if any(length < 1 for length in blocks):
            raise ArgumentError(f"blocks {blocks}, expected lengths of at least 1")
        if self.endian not in ("little", "big"):
            raise ArgumentError(f"endian {self.endian!r}, expected 'little' or 'big'")
        object.__setattr__(self, "blocks", blocks)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Creates the codec from its entry in the metadata."""
        given = data.get("configuration")
        if data.get("name") != "b2kit.chunk" or not isinstance(given, Mapping) or set(given) - {"blocks", "endian"}:
            raise ArgumentError(f"codec {data!r}, expected b2kit.chunk with blocks and endian")
        return cls(blocks=tuple(given["blocks"]), endian=given.get("endian", "little"))

    def to_dict(self) -> dict[str, Any]:
        """Returns the entry of the codec in the metadata."""
        return {"name": "b2kit.chunk", "configuration": {"blocks": list(self.blocks), "endian": self.endian}}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raises an exception if arrays with this shape and type cannot be stored."""
        native = dtype.to_native_dtype()
        if native.hasobject or native.itemsize == 0:
            raise ArgumentError(f"items of dtype {native} have no fixed size")
        if len(self.blocks) != len(shape):
            raise ArgumentError(f"blocks {self.blocks} for an array of {len(shape)} dimensions")

    def _parsed(self, head: bytes, available: int, spec: ArraySpec) -> _b2kit.ChunkReader | int:
        itemsize = spec.dtype.to_native_dtype().itemsize
        return parsed(head, available, itemsize, self.blocks)

    def _all(self, stored: bytes, plain: Bytes, spec: ArraySpec) -> None:
        whole(self._parsed(stored, len(stored), spec), stored, plain)

    def _guess(self, spec: ArraySpec) -> int:
        return math.prod(self.blocks) * spec.dtype.to_native_dtype().itemsize

    def _nbytes(self, spec: ArraySpec) -> int:
        padded = math.prod(count * block for count, block in zip(_grid(spec.shape, self.blocks), self.blocks))
        return padded * spec.dtype.to_native_dtype().itemsize

    def _marks(self, selection: Any, spec: ArraySpec, nbytes: int, blocksize: int) -> Marks:
        grid = _grid(spec.shape, self.blocks)
        marks = np.zeros(grid, np.bool_)
        positions = _positions(selection, spec.shape)
        if positions is None:
            marks[...] = True
        elif all(array.size for array in positions):
            hit = tuple(array // block for array, block in zip(positions, self.blocks))
            marks[hit] = True
        if blocksize == self._guess(spec):
            return marks.ravel()
        # A chunk of one value, which may tell any size.
        return np.ones(-(-nbytes // blocksize), np.bool_)

    def _taken(self, plain: Bytes, selection: Any, spec: ArraySpec) -> NDBuffer:
        native = spec.dtype.to_native_dtype()
        positions = None if selection is None else _positions(selection, spec.shape)
        grid = _grid(spec.shape, self.blocks)
        box = [range(count) for count in grid]
        if positions is not None and all(array.size for array in positions):
            box = [
                range(int(array.min()) // block, int(array.max()) // block + 1)
                for array, block in zip(positions, self.blocks)
            ]
        items = unblocked(plain, native.itemsize, spec.shape, self.blocks, box)
        first = [part.start * block for part, block in zip(box, self.blocks)]
        if positions is None:
            items = items[tuple(slice(length) for length in spec.shape)]
            items = items if selection is None else items[selection]
        else:
            parts = selection if isinstance(selection, tuple) else (selection,)
            shifted = [_shifted(part, length, start) for part, length, start in zip(parts, spec.shape, first)]
            items = items[(*shifted, ...)]
        stored = native.newbyteorder("<" if self.endian == "little" else ">")
        items = np.ascontiguousarray(items).view(stored).reshape(items.shape).astype(native, copy=False)
        return spec.prototype.nd_buffer.from_numpy_array(items)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return self._decoded(bytes_of(chunk_data), None, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _instead(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        raise DamagedError("the chunk is one that this version cannot read")

    def _encode_sync(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        native = chunk_spec.dtype.to_native_dtype()
        items = chunk_array.as_numpy_array().astype(native.newbyteorder("<" if self.endian == "little" else ">"))
        shape = [max(1, length) for length in items.shape]
        blocks = [min(block, length) for block, length in zip(self.blocks, shape)]
        if blocks != list(self.blocks):
            raise ArgumentError(f"blocks {self.blocks} for chunks of shape {tuple(shape)}")
        made = asarray(items, None, chunks=shape, blocks=blocks)
        return chunk_spec.prototype.buffer.from_bytes(made._chunk(0))

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_array, chunk_spec)


def _positions(selection: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Returns the selected positions of each dimension, as arrays that are broadcast together; ``None`` for selections
    that are read as a whole."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    if len(parts) != len(shape):
        return None
    arrays: list[Any] = []
    sliced = any(isinstance(part, slice) for part in parts)
    for axis, (part, length) in enumerate(zip(parts, shape)):
        if isinstance(part, slice):
            array = np.arange(length, dtype=np.int64)[part]
        elif isinstance(part, (int, np.integer)):
            array = np.array([int(part)], np.int64)
        else:
            array = np.asarray(part)
            if array.dtype.kind not in "iu" or sliced:
                return None
        if array.size and not -length <= int(array.min()) <= int(array.max()) < length:
            # The selection itself reports it.
            return None
        array = np.where(array < 0, array.astype(np.int64) + length, array)
        if sliced:
            array = array.reshape([-1 if n == axis else 1 for n in range(len(shape))])
        arrays.append(array)
    return tuple(arrays)


def _shifted(part: Any, length: int, start: int) -> Any:
    """Returns a part of a selection in a box that starts at ``start``."""
    if isinstance(part, slice):
        taken = range(*part.indices(length))
        if not taken:
            return slice(0, 0)
        stop = taken[-1] - start + (1 if taken.step > 0 else -1)
        return slice(taken[0] - start, None if stop < 0 else stop, taken.step)
    array = np.asarray(part)
    shifted = np.where(array < 0, array.astype(np.int64) + length, array) - start
    return int(shifted) if isinstance(part, (int, np.integer)) else shifted


class Numcodec(Codec, metaclass=ABCMeta):  # type: ignore[misc, unused-ignore]
    """The same chunks for numcodecs, and so for Zarr 2 and kerchunk, as a compressor: ``b2kit.chunk``.

    ``shape`` is that of the chunk, ``blocks`` that of its blocks, in items of ``itemsize`` bytes.
    """

    codec_id = "b2kit.chunk"

    def __init__(self, shape: Sequence[int], blocks: Sequence[int], itemsize: int) -> None:
        self.shape, self.blocks, self.itemsize = list(shape), list(blocks), itemsize
        if len(self.shape) != len(self.blocks) or min([*self.shape, *self.blocks, itemsize]) < 1:
            raise ArgumentError(f"chunks of shape {shape} with blocks {blocks} and items of {itemsize} bytes")

    def encode(self, buf: Any) -> Any:
        """Raises an exception: such chunks are only read."""
        raise ArgumentError("chunks of b2kit.chunk are only read in Zarr 2")

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Returns the items of a chunk in C order."""
        stored = ensure_contiguous_ndarray(buf).tobytes()
        grid = _grid(self.shape, self.blocks)
        nbytes = math.prod(self.blocks) * math.prod(grid) * self.itemsize
        try:
            Parts._check(stored, nbytes)
        except Instead:
            raise DamagedError("the chunk is a frame") from None
        plain = np.empty(nbytes, np.uint8)
        whole(parsed(stored, len(stored), self.itemsize, self.blocks), stored, plain)
        items = unblocked(plain, self.itemsize, self.shape, self.blocks, [range(count) for count in grid])
        items = np.ascontiguousarray(items[tuple(slice(length) for length in self.shape)]).reshape(-1).view(np.uint8)
        if out is None:
            return items
        into = ensure_contiguous_ndarray(out).view(np.uint8)
        into[...] = items
        return out


def parsed(head: bytes, available: int, itemsize: int, blocks: Sequence[int]) -> _b2kit.ChunkReader | int:
    """Parses a chunk of an array, and rejects one with other blocks: its items would be in another order."""
    reader = _b2kit.ChunkReader.parse(head, available, itemsize, list(blocks))
    if not isinstance(reader, int) and reader.blocksize != math.prod(blocks) * itemsize:
        every = np.ones(reader.nblocks, np.bool_)
        if reader.is_whole or reader.ranges(every, 0):
            told = math.prod(blocks) * itemsize
            raise DamagedError(f"the chunk has blocks of {reader.blocksize} bytes, the metadata says {told}")
    return reader


def whole(reader: _b2kit.ChunkReader | int, stored: bytes, plain: Bytes) -> None:
    """Decodes all blocks of a chunk."""
    if isinstance(reader, int):
        raise DamagedError("the chunk is shorter than its header says")
    if reader.is_whole:
        decompress(stored, out=plain)
    else:
        reader.decode(np.ones(reader.nblocks, np.bool_), [(0, stored)], plain)


__all__ = ["ChunkCodec", "Numcodec"]

"""The Zarr codec whose chunks are single Blosc2 chunks of an array, such as references into ``.b2nd`` files."""

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
from b2kit._create import asarray
from b2kit._zarr_blosc import Instead, Parts, _raw, checked
from b2kit._zarr_chunks import bytes_of
from b2kit.errors import ArgumentError, DamagedError

if TYPE_CHECKING:
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer


def _nbytes(shape: Sequence[int], blocks: Sequence[int], itemsize: int) -> int:
    """Returns the uncompressed size of a chunk, which consists of whole blocks."""
    return math.prod(-(-length // block) * block for length, block in zip(shape, blocks)) * itemsize


@dataclass(frozen=True)
class ChunkCodec(Parts):
    """Zarr chunks that are single Blosc2 chunks, block after block (``b2kit.chunk``), and can be read in parts.

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

    def _guess(self, spec: ArraySpec) -> int:
        return math.prod(self.blocks) * spec.dtype.to_native_dtype().itemsize

    def _nbytes(self, spec: ArraySpec) -> int:
        return _nbytes(spec.shape, self.blocks, spec.dtype.to_native_dtype().itemsize)

    def _reader(self, spec: ArraySpec, blocksize: int) -> _b2kit.RangeReader:
        raw = _raw(spec.dtype.to_native_dtype().itemsize)
        return _b2kit.RangeReader.chunk(list(spec.shape), raw, self._guess(spec), list(self.blocks))

    def _result(self, items: Any, selection: Any, spec: ArraySpec) -> NDBuffer:
        native = spec.dtype.to_native_dtype()
        stored = native.newbyteorder("<" if self.endian == "little" else ">")
        return spec.prototype.nd_buffer.from_numpy_array(items.view(stored).astype(native, copy=False))

    def _whole(self, stored: bytes, spec: ArraySpec) -> NDBuffer:
        return self._result(_all(self._reader(spec, 0), stored), ..., spec)

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


def _all(reader: _b2kit.RangeReader, stored: bytes) -> Any:
    """Decodes a whole chunk."""
    reader.put(0, len(stored) + 1, stored)
    return reader.read(...)


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
        try:
            checked(stored, _nbytes(self.shape, self.blocks, self.itemsize))
        except Instead:
            raise DamagedError("the chunk is a frame") from None
        size = math.prod(self.blocks) * self.itemsize
        reader = _b2kit.RangeReader.chunk(self.shape, _raw(self.itemsize), size, self.blocks)
        items = _all(reader, stored).reshape(-1).view(np.uint8)
        if out is None:
            return items
        into = ensure_contiguous_ndarray(out).view(np.uint8)
        into[...] = items
        return out


__all__ = ["ChunkCodec", "Numcodec"]

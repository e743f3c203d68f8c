"""Codecs for Zarr v3 (zarr-python 3.1 and later): Zarr chunks stored as Blosc2 arrays, which can be read in parts.

    >>> import numpy as np, zarr
    >>> from b2kit.zarr import B2ndCodec
    >>> z = zarr.create_array({}, shape=(64, 64), chunks=(64, 64), dtype="f4",
    ...                       serializer=B2ndCodec(blocks=(16, 16)), compressors=None)
    >>> z[:] = np.arange(4096).reshape(64, 64)
    >>> float(z[3, 5])
    197.0

Installing b2kit is enough to read such arrays: zarr finds the codecs by their names. See ``docs/how-to/zarr.md``.
"""

from __future__ import annotations

import asyncio
import math
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Union, cast

import numpy as np
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.core.config import config

from b2kit import _b2kit
from b2kit._array import Array
from b2kit._create import asarray, compress, decompress
from b2kit._zarr_chunks import MAX_CHUNK, File, RangedCodec, Steps, bytes_of, fetched, is_all, most_bytes
from b2kit.errors import ArgumentError, DamagedError, UnsupportedError, WrongTypeError

try:
    from b2kit._zarr_blosc import BatchedPipeline, FusedPipeline
    from b2kit._zarr_chunk import ChunkCodec
except ImportError:  # pragma: no cover
    # zarr-python before 3.4: :func:`enable` raises an error.
    _PIPELINES: dict[str, str] = {}
else:
    _PIPELINES = {
        f"zarr.core.codec_pipeline.{theirs}": f"b2kit.zarr.{ours.__name__}"
        for theirs, ours in (("BatchedCodecPipeline", BatchedPipeline), ("FusedCodecPipeline", FusedPipeline))
    }

if TYPE_CHECKING:
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

__all__ = ["B2ndCodec", "BatchedPipeline", "Blosc2Codec", "ChunkCodec", "FusedPipeline", "disable", "enable"]

Filter = Union[str, tuple[str, int]]

# Of files, up to this many selected bytes are decoded in the event loop: their blocks are decoded by several threads, which
# takes a few milliseconds at most.
_INLINE_FILE = 2 << 20
# Number of bytes requested at the end of a chunk: index and checksums, for chunks of up to 8 MiB. At least this many are
# requested at the start, so that shorter chunks arrive completely with the first request.
_END = 4096
# Filters by their names in imagecodecs.
_THEIR_FILTERS = {"NOFILTER": (), "NOSHUFFLE": (), "SHUFFLE": ("shuffle",), "BITSHUFFLE": ("bitshuffle",)}


def enable() -> None:
    """Lets zarr read parts of the chunks that it compresses with ``blosc``, in all arrays that are opened afterwards.

    The data does not change. This affects arrays of Zarr 2 and 3, including those in shards, whose last codec is ``blosc``,
    ``b2kit.blosc2``, or numcodecs' ``blosc2``: of large chunks, only the blocks with selected items are fetched and decoded.
    Chunks of these arrays are also decoded by this package, with all threads.

    zarr's configuration does the same: after ``import b2kit.zarr``, set ``codec_pipeline.path`` to
    ``b2kit.zarr.BatchedPipeline``, or to ``b2kit.zarr.FusedPipeline`` in place of ``FusedCodecPipeline``.

    Raises
    ------
    b2kit.errors.UnsupportedError
        zarr-python is older than 3.4, or is configured to use a pipeline of another package.

    Examples
    --------
    >>> import b2kit.zarr
    >>> b2kit.zarr.enable()
    >>> b2kit.zarr.disable()
    """
    path = config.get("codec_pipeline.path")
    if path in _PIPELINES.values():
        return
    if path not in _PIPELINES:
        raise UnsupportedError(
            f"parts can be read with zarr's own pipelines, not with {path}"
            if _PIPELINES
            else "reading parts of blosc chunks needs zarr-python 3.4"
        )
    config.set({"codec_pipeline.path": _PIPELINES[path]})


def disable() -> None:
    """Undoes :func:`enable`, for arrays that are opened afterwards."""
    path = config.get("codec_pipeline.path")
    for theirs, ours in _PIPELINES.items():
        if path == ours:
            config.set({"codec_pipeline.path": theirs})


class _Options:
    """The common part of the two codecs: compression options, their entries in the metadata, and encoding on other threads."""

    is_fixed_size = False
    # Names of the codec here and in imagecodecs.
    _names: ClassVar[tuple[str, str]]
    # The option that only this codec has, here and in imagecodecs.
    _own: ClassVar[tuple[str, str]]
    _encode_sync: Any
    _decode_sync: Any

    codec: str
    level: int
    filters: tuple[Filter, ...]
    name: str

    def _set(self, codec: Any, level: Any, filters: Any, own: Any, name: str) -> None:
        if name not in self._names:
            raise ArgumentError(f"name {name!r}, expected {' or '.join(map(repr, self._names))}")
        # Report unknown names now rather than in the middle of a store.
        values: dict[str, Any] = {"codec": _codec(codec), "level": _level(level), "filters": _filters(filters), "name": name}
        compress(b"", values["codec"], values["level"], values["filters"])
        for key, value in {**values, self._own[0]: own}.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Creates the codec from its entry in the metadata."""
        name, given = _parse(data, cls._names)
        if name == cls._names[1]:
            given = {**_from_theirs(given), cls._own[0]: given.get(cls._own[1]), "name": name}
        make: Any = cls
        return cast("Self", make(**given))

    def to_dict(self) -> dict[str, Any]:
        """Returns the entry of the codec in the metadata."""
        theirs = self.name == self._names[1]
        listed = [filter if isinstance(filter, str) else list(filter) for filter in self.filters]
        ours = {"codec": self.codec, "level": self.level, "filters": listed}
        configuration = _to_theirs(self) if theirs else ours
        own = getattr(self, self._own[0])
        if own is not None:
            configuration[self._own[theirs]] = list(own) if isinstance(own, tuple) else own
        return {"name": self.name, "configuration": configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Raises an exception, because the encoded size is not known in advance."""
        raise NotImplementedError

    async def _encode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: ArraySpec) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)


@dataclass(frozen=True)
class B2ndCodec(_Options, RangedCodec):
    """Stores a Zarr chunk as a Blosc2 array (``b2kit.b2nd``). A selection fetches only the blocks it touches.

    Parameters
    ----------
    codec, level, filters
        As of :func:`b2kit.asarray`.
    blocks : tuple of int, optional
        Shape of the parts that are compressed separately and can be read individually; by default it is chosen to fit the
        CPU caches.
    name : {"b2kit.b2nd", "imagecodecs_b2nd"}
        With ``"imagecodecs_b2nd"`` the metadata is compatible with imagecodecs-zarr; the bytes are the same.

    Raises
    ------
    b2kit.errors.ArgumentError
        There is no such codec or filter, or a parameter is out of range.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from b2kit.zarr import B2ndCodec
    >>> z = zarr.create_array({}, shape=(8, 8), chunks=(8, 8), dtype="i4", serializer=B2ndCodec(codec="lz4"), compressors=None)
    >>> z[:] = 7
    >>> int(z[3, 5])
    7
    """

    _names = ("b2kit.b2nd", "imagecodecs_b2nd")
    _own = ("blocks", "blockshape")

    codec: str = "zstd"
    level: int = 5
    filters: tuple[Filter, ...] = ("shuffle",)
    blocks: tuple[int, ...] | None = None
    name: str = "b2kit.b2nd"

    def __init__(
        self,
        *,
        codec: str = "zstd",
        level: int = 5,
        filters: Iterable[Filter | Sequence[Any]] = ("shuffle",),
        blocks: Sequence[int] | int | None = None,
        name: str = "b2kit.b2nd",
    ) -> None:
        if isinstance(blocks, (int, np.integer)):
            blocks = (int(blocks),)
        shape = None if blocks is None else tuple(int(length) for length in blocks)
        if shape is not None and any(length < 1 for length in shape):
            raise ArgumentError(f"blocks {shape}, expected lengths of at least 1")
        self._set(codec, level, filters, shape, name)

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raises an exception if arrays with this shape, type and chunk grid cannot be stored."""
        native = dtype.to_native_dtype()
        if native.hasobject or native.itemsize == 0:
            raise ArgumentError(f"items of dtype {native} have no fixed size: they cannot be stored as b2nd")
        if self.blocks is not None and len(self.blocks) != len(shape):
            raise ArgumentError(f"blocks {self.blocks} for an array of {len(shape)} dimensions")
        chunk = getattr(chunk_grid, "chunk_shape", None)
        if chunk is not None and math.prod(chunk) * native.itemsize > MAX_CHUNK:
            raise ArgumentError(f"chunks {chunk} of {native} have more than {MAX_CHUNK} bytes")
        # zarr does not pass the other codecs to a codec: the caller, metadata or sharding, has them.
        caller = sys._getframe(1).f_locals.get("self")
        _hint(self, getattr(caller, "codecs", ()))

    # Whole chunks.

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        items = chunk_data.as_numpy_array()
        dtype = chunk_spec.dtype.to_native_dtype()
        if items.dtype != dtype:
            items = items.astype(dtype)
        blocks = None
        if self.blocks is not None:
            blocks = [min(block, length) for block, length in zip(self.blocks, items.shape)]
        made = asarray(
            items, None, self.codec, self.level, self.filters, chunks=[max(1, n) for n in items.shape], blocks=blocks
        )
        frame = made._frame()
        assert frame is not None
        return chunk_spec.prototype.buffer.from_bytes(frame)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return _items(bytes_of(chunk_data), ..., chunk_spec)

    # Parts of chunks.

    def _from_file(self, file: File, selection: Any, spec: ArraySpec) -> NDBuffer | None:
        try:
            return _items(file[0], selection, spec)
        except FileNotFoundError:
            return None

    def _is_quick(self, selection: Any, spec: ArraySpec) -> bool:
        return _nbytes(selection, spec) <= _INLINE_FILE

    def _steps(self, selection: Any, spec: ArraySpec, near: bool, size: int | None) -> Steps:
        if is_all(selection, spec.shape):
            return _items((yield [None])[0], ..., spec)
        asked = self._first(spec)
        first, last = yield [RangeByteRequest(0, asked), SuffixByteRequest(_END)]
        reader = _b2kit.RangeReader(first, asked, last)
        yield from fetched(reader, reader.open)
        _check(reader.shape, reader.itemsize, spec)
        return _result((yield from fetched(reader, lambda: reader.read(selection))), spec)

    def _first(self, chunk_spec: ArraySpec) -> int:
        """Returns how many bytes to read first, to include the table of blocks if this package wrote the frame."""
        shape = chunk_spec.shape
        # The frame header, with shapes and dtype, and the chunk header.
        known = 256 + 24 * len(shape) + 48
        dtype = chunk_spec.dtype.to_native_dtype()
        if dtype.names is not None:
            known += len(str(dtype.descr))
        if self.blocks is None or len(self.blocks) != len(shape):
            return _END + known
        nblocks = math.prod(-(-length // min(block, length or 1)) for length, block in zip(shape, self.blocks))
        return max(_END, known + 4 * nblocks)


_hinted = False


def _hint(codec: B2ndCodec, chain: Any) -> None:
    """Warns, once, if a codec follows this one."""
    global _hinted
    if _hinted or not isinstance(chain, tuple) or not any(each is codec for each in chain) or chain[-1] is codec:
        return
    _hinted = True
    warnings.warn(
        f"{codec.name} compresses the data itself, and with {type(chain[-1]).__name__} after it zarr reads and decodes "
        "whole chunks instead of parts: create the array with compressors=None",
        UserWarning,
        stacklevel=2,
    )


@dataclass(frozen=True)
class Blosc2Codec(_Options, BytesBytesCodec):
    """Compresses bytes into a Blosc2 chunk (``b2kit.blosc2``), after another codec.

    Parameters
    ----------
    codec, level, filters
        As of :func:`b2kit.asarray`.
    typesize : int, optional
        Size of the items in bytes, 1 to 255, for filters such as shuffle; by default that of the array.
    name : {"b2kit.blosc2", "imagecodecs_blosc2"}
        With ``"imagecodecs_blosc2"`` the metadata is compatible with imagecodecs-zarr; the bytes are the same.

    Raises
    ------
    b2kit.errors.ArgumentError
        There is no such codec or filter, or a parameter is out of range.

    Examples
    --------
    >>> import zarr
    >>> from b2kit.zarr import Blosc2Codec
    >>> z = zarr.create_array({}, shape=8, chunks=4, dtype="i4", compressors=[Blosc2Codec(codec="lz4")])
    >>> z[:] = 7
    >>> int(z[3])
    7
    """

    # Chunks that can be read in parts.
    _is_blosc: ClassVar[bool] = True
    _names = ("b2kit.blosc2", "imagecodecs_blosc2")
    _own = ("typesize", "typesize")

    codec: str = "zstd"
    level: int = 5
    filters: tuple[Filter, ...] = ("shuffle",)
    typesize: int | None = None
    name: str = "b2kit.blosc2"

    def __init__(
        self,
        *,
        codec: str = "zstd",
        level: int = 5,
        filters: Iterable[Filter | Sequence[Any]] = ("shuffle",),
        typesize: int | None = None,
        name: str = "b2kit.blosc2",
    ) -> None:
        if typesize is not None and not 1 <= typesize <= 255:
            raise ArgumentError(f"typesize {typesize}, expected 1 to 255")
        self._set(codec, level, filters, typesize, name)

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Takes the item size from the array."""
        if self.typesize is not None:
            return self
        size = array_spec.dtype.to_native_dtype().itemsize
        return replace(self, typesize=size if 1 <= size <= 255 else 1)

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        raw = chunk_data.as_numpy_array()
        packed = compress(raw, self.codec, self.level, self.filters, typesize=self.typesize or 1)
        return chunk_spec.prototype.buffer.from_bytes(packed)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        plain = decompress(bytes_of(chunk_data), max_nbytes=most_bytes(chunk_spec))
        return chunk_spec.prototype.buffer.from_bytes(plain)


def _items(source: str | bytes, selection: Any, chunk_spec: ArraySpec) -> NDBuffer:
    """Reads a selection of a chunk, which is a file or is in memory."""
    with Array(source) as array:
        _check(array.shape, array.dtype.itemsize, chunk_spec)
        parts = selection if isinstance(selection, tuple) else (selection,)
        if all(part is not ... for part in parts):
            # Never a NumPy scalar, whose strings lack trailing blanks.
            parts = (*parts, ...)
        return _result(array[parts], chunk_spec)


def _nbytes(selection: Any, chunk_spec: ArraySpec) -> int:
    """Returns the size of the selected items of a chunk in bytes, or more."""
    count = 1
    for part, length in zip(selection if isinstance(selection, tuple) else (selection,), chunk_spec.shape):
        if isinstance(part, slice):
            count *= len(range(*part.indices(length)))
        else:
            count *= length if part is ... else np.size(part)
    return count * chunk_spec.dtype.to_native_dtype().itemsize


def _check(shape: tuple[int, ...], itemsize: int, chunk_spec: ArraySpec) -> None:
    """Compares the header of a chunk with the metadata, before memory is allocated for it."""
    if tuple(shape) != tuple(chunk_spec.shape):
        raise DamagedError(f"the chunk has shape {tuple(shape)}, the metadata has {tuple(chunk_spec.shape)}")
    expected = chunk_spec.dtype.to_native_dtype().itemsize
    if itemsize != expected:
        raise DamagedError(f"the chunk has items of {itemsize} bytes, the metadata has {expected}")


def _result(items: Any, chunk_spec: ArraySpec) -> NDBuffer:
    found: np.ndarray[Any, Any] = np.asarray(items)
    dtype = chunk_spec.dtype.to_native_dtype()
    if found.dtype != dtype:
        # Zarr has types that Blosc2 stores as opaque bytes.
        same = found.dtype.kind == "V" and found.dtype.names is None and found.dtype.itemsize == dtype.itemsize
        found = found.view(dtype) if same else found.astype(dtype, casting="equiv")
    return chunk_spec.prototype.nd_buffer.from_numpy_array(found)


def _parse(data: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    name = data.get("name")
    if name not in names:
        raise ArgumentError(f"codec {name!r}, expected {' or '.join(map(repr, names))}")
    given = data.get("configuration") or {}
    if not isinstance(given, Mapping):
        raise ArgumentError(f"the configuration of {name} is not an object")
    return name, dict(given)


def _codec(name: Any) -> str:
    if not isinstance(name, str):
        raise WrongTypeError(f"codec {name!r}, expected a name")
    return name


def _level(level: Any) -> int:
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or not 0 <= level <= 9:
        raise ArgumentError(f"level {level!r}, expected 0 to 9")
    return int(level)


def _filters(filters: Any) -> tuple[Filter, ...]:
    if isinstance(filters, (str, Mapping)):
        raise WrongTypeError("filters are a list")
    found: list[Filter] = []
    for filter in filters:
        if isinstance(filter, str):
            found.append(filter)
        else:
            name, meta = filter
            found.append((str(name), int(meta)))
    return tuple(found)


def _from_theirs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Converts options of imagecodecs, all of which are optional."""
    shuffle = str(given.get("shuffle") or "SHUFFLE").upper()
    if shuffle not in _THEIR_FILTERS:
        raise ArgumentError(f"shuffle {shuffle!r} is not known")
    level = given.get("level")
    return {
        "codec": str(given.get("compressor") or "zstd").lower(),
        "level": 5 if level is None else min(9, max(0, int(level))),
        "filters": _THEIR_FILTERS[shuffle],
    }


def _to_theirs(codec: _Options) -> dict[str, Any]:
    for name, filters in _THEIR_FILTERS.items():
        if filters == codec.filters:
            return {"level": codec.level, "compressor": codec.codec.upper(), "shuffle": name}
    raise ArgumentError(f"filters {list(codec.filters)} cannot be named as imagecodecs does")

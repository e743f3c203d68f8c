"""Code shared by the codecs for Zarr, and reading chunks in parts."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union, cast

from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.core.common import concurrent_map
from zarr.core.config import config
from zarr.storage import LocalStore, StorePath

from b2kit.errors import DamagedError

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

    from b2kit import _b2kit

# A part of a chunk, or all of it.
Request = Union[RangeByteRequest, SuffixByteRequest, None]
# A read: it requests bytes until it returns the items.
Steps = Generator[list[Request], list[bytes], "NDBuffer"]
File = tuple[str, int, Union[int, None]]

# Maximum size of a Blosc2 chunk in bytes.
MAX_CHUNK = 2**31 - 1 - 32
# Work on up to this many bytes is done in the event loop, because a thread switch takes longer.
INLINE = 256 << 10
# Maximum number of request rounds to read a chunk; damaged chunks may ask for more.
_MAX_ROUNDS = 16


def bytes_of(buffer: Buffer) -> bytes:
    """Returns the bytes of a buffer, without a copy if it was made of a ``bytes`` object."""
    array = buffer.as_numpy_array()
    base: Any = array.base
    if type(base) is bytes and len(base) == array.nbytes and array.strides in ((1,), ()):
        return base
    return buffer.to_bytes()


def most_bytes(spec: ArraySpec, filtered: bool = False) -> int | None:
    """Returns how many bytes a chunk may have after it is decompressed; ``None`` if its items have no fixed size.

    Codecs between the items and the compressor may add some: checksums, or the overhead of incompressible data. Filters of Zarr 2
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


@dataclass(frozen=True)
class Window:
    """A part of an object in a store, as a separate chunk: an inner chunk of a shard."""

    getter: Any
    start: int
    stop: int

    def _range(self, byte_range: RangeByteRequest | None) -> RangeByteRequest:
        if byte_range is None:
            return RangeByteRequest(self.start, self.stop)
        start = self.start + byte_range.start
        return RangeByteRequest(min(start, self.stop), min(self.start + byte_range.end, self.stop))

    async def get(self, prototype: Any, byte_range: RangeByteRequest | None = None) -> Buffer | None:
        """Returns bytes of the part."""
        return cast("Buffer | None", await self.getter.get(prototype, self._range(byte_range)))

    def get_sync(self, prototype: Any = None, byte_range: RangeByteRequest | None = None) -> Buffer | None:
        """Returns bytes of the part."""
        range = self._range(byte_range)
        return cast("Buffer | None", self.getter.get_sync(prototype=prototype, byte_range=range))


def _file(getter: Any) -> File | None:
    """Returns the file that contains a chunk, and its byte range; ``None`` if it is not in a file.

    Files are read directly: for each request that goes through the store, zarr needs the time in which a block of 64 KiB is
    decoded, and the bytes are copied twice.
    """
    start, stop = 0, None
    while isinstance(getter, Window):
        start, stop = getter.start + start, getter.start + (getter.stop - getter.start if stop is None else stop)
        getter = getter.getter
    # Not derived classes, which may read differently.
    if type(getter) is not StorePath or type(getter.store) is not LocalStore:
        return None
    path = str(getter.store.root / getter.path)
    return (path, start, stop) if os.path.isfile(path) else None


@dataclass
class _Done:
    items: NDBuffer


def _next(steps: Steps, sent: Any) -> list[Request] | _Done:
    """Continues a read, and returns what it requests, or its result."""
    try:
        return steps.send(sent)
    except StopIteration as stopped:
        return _Done(stopped.value)


def run(steps: Steps, fetch: Callable[[Request], bytes | None]) -> NDBuffer | None:
    """Reads with a function that waits for each request. Returns ``None`` if the chunk does not exist."""
    sent: Any = None
    for _ in range(_MAX_ROUNDS):
        requests = _next(steps, sent)
        if isinstance(requests, _Done):
            return requests.items
        sent = []
        for request in requests:
            first: Any = requests[0]
            # The first bytes of a short chunk are the whole chunk.
            is_short = isinstance(request, SuffixByteRequest) and len(sent[0]) < first.end - first.start
            found = b"" if is_short else fetch(request)
            if found is None:
                return None
            sent.append(found)
    raise DamagedError("the chunk has no positions of its bytes")


def fetched(
    reader: _b2kit.RangeReader, step: Callable[[], Any]
) -> Generator[list[Request], list[bytes], Any]:
    """Repeats a step of a reader, and requests the ranges that it returns, until it returns something else."""
    while isinstance(ranges := step(), list) and ranges:
        if any(stop > 4 * MAX_CHUNK for _, stop in ranges):
            raise DamagedError("the chunk claims more bytes than a chunk can have")
        for (start, stop), found in zip(ranges, (yield [RangeByteRequest(*range) for range in ranges])):
            reader.put(start, stop, found)
    return ranges


class RangedCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """A codec that reads parts of chunks: each read requests the bytes that it needs next."""

    def _steps(self, selection: Any, spec: ArraySpec, near: bool, size: int | None) -> Steps:
        """Reads a selection. ``size`` is that of the chunk if known, ``near`` whether requests have no latency."""
        raise NotImplementedError

    def _from_file(self, file: File, selection: Any, spec: ArraySpec) -> NDBuffer | None:
        """Reads a selection of a chunk in a file. Returns ``None`` if the file is gone."""
        raise NotImplementedError

    def _is_quick(self, selection: Any, spec: ArraySpec) -> bool:
        """Returns whether a selection of a chunk in a file is read in less time than a thread switch takes."""
        raise NotImplementedError

    async def _decode_partial_single(self, byte_getter: Any, selection: Any, chunk_spec: ArraySpec) -> NDBuffer | None:
        file = _file(byte_getter)
        if file is not None:
            if self._is_quick(selection, chunk_spec):
                return self._from_file(file, selection, chunk_spec)
            return await asyncio.to_thread(self._from_file, file, selection, chunk_spec)

        async def fetch(request: Request) -> bytes | None:
            try:
                found = await byte_getter.get(chunk_spec.prototype, request)
            except Exception:
                # Some stores reject suffixes longer than the object; then the first bytes are the whole chunk. Other
                # errors are reported by the first request.
                if isinstance(request, SuffixByteRequest):
                    return b""
                raise
            return None if found is None else bytes_of(found)

        steps = self._steps(selection, chunk_spec, False, _size(byte_getter))
        sent: Any = None
        is_long = False
        for _ in range(_MAX_ROUNDS):
            requests = await asyncio.to_thread(_next, steps, sent) if is_long else _next(steps, sent)
            if isinstance(requests, _Done):
                return requests.items
            if len(requests) == 1:
                sent = [await fetch(requests[0])]
            else:
                each = [(request,) for request in requests]
                sent = list(await concurrent_map(each, fetch, config.get("async.concurrency")))
            if any(part is None for part in sent):
                return None
            is_long = sum(map(len, sent)) > INLINE
        raise DamagedError("the chunk has no positions of its bytes")

    def _decode_partial_sync(self, byte_getter: Any, selection: Any, chunk_spec: ArraySpec) -> NDBuffer | None:
        file = _file(byte_getter)
        if file is not None:
            return self._from_file(file, selection, chunk_spec)

        def fetch(request: Request) -> bytes | None:
            found = byte_getter.get_sync(prototype=chunk_spec.prototype, byte_range=request)
            return None if found is None else bytes_of(found)

        return run(self._steps(selection, chunk_spec, False, _size(byte_getter)), fetch)


def _size(getter: Any) -> int | None:
    return getter.stop - getter.start if isinstance(getter, Window) else None

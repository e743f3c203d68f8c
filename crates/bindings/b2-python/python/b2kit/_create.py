"""Opening and creating arrays."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, Union, overload

import numpy as np

from b2kit import _b2kit
from b2kit._array import Array, absolute, as_shape
from b2kit._cast import cast
from b2kit._options import Filter, Options, Path, Shape
from b2kit._progress import Progress, telling
from b2kit.attrs import INDEXES, as_layers
from b2kit.errors import (
    ArgumentError,
    Error,
    LimitError,
    SelectionError,
    WrongTypeError,
    checked,
)

if TYPE_CHECKING:
    from typing import Unpack

    import numpy.typing as npt


__all__ = [
    "asarray",
    "compress",
    "concat",
    "decompress",
    "empty",
    "from_iter",
    "full",
    "set_other_hosts",
    "set_threads",
    "set_timeout",
    "zeros",
]

_Options = dict[str, Any]


# Number of items that `from_iter` collects before it compresses them.
_BATCH = 1 << 16


@checked
def asarray(
    x: Any,
    path: Path | None = None,
    codec: str = "zstd",
    level: int = 5,
    filters: Iterable[Filter] = ("shuffle",),
    chunks: Shape | None = None,
    blocks: Shape | None = None,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    sync: bool = True,
    *,
    dtype: npt.DTypeLike | None = None,
    meta: Mapping[str, Any] | None = None,
    splitmode: Literal["auto", "always", "never"] | None = None,
    use_dict: bool = False,
    sparse: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Array:
    """Compresses an array into a file, or into memory if there is no ``path``.

    ``x`` is a NumPy array or anything that can be converted to one. Arrays of this package, and arrays that are read by
    chunks (h5py, zarr, python-blosc2), are copied in bounded memory; :func:`copy` keeps their attributes and chunks,
    too. The file appears when it is complete.

    ``codec``, ``level`` and ``filters`` select the compression; a filter with a parameter is a pair. ``splitmode`` is
    ``"auto"``, ``"always"`` or ``"never"``; ``use_dict`` compresses with a dictionary. ``chunks`` and ``blocks`` are
    shapes, by default chosen from that of the array; blocks may not be larger than chunks. ``attrs`` are attributes,
    of any number and with names of any length; ``meta`` are metalayers. ``overwrite``
    replaces an existing file. With ``sync`` the file survives a power loss once the call returns. ``sparse`` makes a
    directory with a file for each chunk. ``dtype`` converts the items: floats lose their fractions in integers, but numbers
    out of range and text that is too long are errors. ``threads`` is the number of threads.
    ``progress`` is ``True`` for a progress bar, a class or a bar of tqdm, or a function that is called with the number
    of bytes done and in total.

        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.linspace(0, 1, 1000), codec="lz4", attrs={"units": "m"})
        >>> a.shape, a.dtype, a.attrs["units"]
        ((1000,), dtype('float64'), 'm')
    """
    given = dict(locals())

    def write(options: _Options) -> _b2kit.Frame | None:
        if isinstance(x, Array) and (dtype is None or np.dtype(dtype) == x.dtype):
            return _b2kit.write_joined([x], 0, layers=False, options=options)
        if _is_lazy(x) and dtype is None:
            return _b2kit.write_called(as_shape(x.shape), np.dtype(x.dtype), _reader(x), options)
        return _b2kit.write_items(_items(x, dtype), options)

    return _write("write", path, given, write)


@checked
def zeros(
    shape: Shape, dtype: npt.DTypeLike = float, path: Path | None = None, **options: Unpack[Options]
) -> Array:
    """Creates an array of zeros, which take no space. For ``options`` see :func:`asarray`."""
    dtype, shape = _dtype(dtype, as_shape(shape))
    return _constant(shape, dtype, bytes(dtype.itemsize), path, options)


@checked
def full(
    shape: Shape,
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    path: Path | None = None,
    **options: Unpack[Options],
) -> Array:
    """Creates an array of a single value, which takes no space. For ``options`` see :func:`asarray`."""
    item = _items(fill_value, dtype)
    if item.ndim:
        raise ArgumentError("the fill value is one item")
    return _constant(as_shape(shape), item.dtype, item.tobytes(), path, options)


@checked
def empty(
    shape: Shape, dtype: npt.DTypeLike = float, path: Path | None = None, **options: Unpack[Options]
) -> Array:
    """Creates an array of uninitialized items, which read as zeros. For ``options`` see :func:`asarray`."""
    dtype, shape = _dtype(dtype, as_shape(shape))
    return _constant(shape, dtype, None, path, options)


@checked
def from_iter(
    iterable: Iterable[Any],
    dtype: npt.DTypeLike,
    shape: Shape | None = None,
    path: Path | None = None,
    **options: Unpack[Options],
) -> Array:
    """Creates an array from the items of an iterable, in C order; they are compressed as they arrive.

    Without ``shape`` the array has one dimension with all the items. For ``options`` see :func:`asarray`.

        >>> import b2kit
        >>> b2kit.from_iter((n * n for n in range(6)), "i4", (2, 3))[1]
        array([ 9, 16, 25], dtype=int32)
    """
    dtype = np.dtype(dtype)
    lengths = None if shape is None else as_shape(shape)
    nitems = None if lengths is None else int(np.prod(lengths, dtype=object))
    items = iter(iterable)
    kept: Any = {name: given for name, given in options.items() if name in ("codec", "level", "filters")}
    flat = zeros(0, dtype, chunks=_BATCH, **kept)
    with flat.edit() as e:
        left = nitems
        while left is None or left > 0:
            batch = list(islice(items, _BATCH if left is None else min(left, _BATCH)))
            if not batch:
                break
            e.append(batch)
            left = None if left is None else left - len(batch)
    if nitems is not None and len(flat) != nitems:
        raise ArgumentError(f"the iterable has {len(flat)} items, shape {tuple(lengths or ())} needs {nitems}")
    target = [len(flat)] if lengths is None else lengths
    return _regular(flat, target, path, options)


def copy_array(a: Any, path: Path | None, given: dict[str, Any]) -> Array:
    """Copies an array, or an array of another library."""
    if isinstance(a, Array) and given.get("dtype") is not None and np.dtype(given["dtype"]) != a.dtype:
        # Compressed anew, by chunks.
        kept = {name: getattr(a, name) for name in ("codec", "level", "filters")}
        if given.get("chunks") is None:
            kept |= {"chunks": a.chunks, "blocks": a.blocks}
        attrs = {**a.attrs.asdict(), **(given.pop("attrs", None) or {})}
        return asarray(a, path, **{**kept, **given, "attrs": attrs})
    if not isinstance(a, Array):
        return asarray(a, path, **foreign_options(a, given))
    given.pop("dtype", None)
    layers = given.get("attrs") is None
    if not layers:
        given["attrs"] = {**a.attrs.asdict(), **given["attrs"]}
    return _write("copy", path, {**_KEEP, **given}, lambda told: _b2kit.write_joined([a], 0, layers=layers, options=told))


@checked
def concat(
    arrays: Iterable[Any], path: Path | None = None, axis: int = 0, **options: Unpack[Options]
) -> Array:
    """Joins arrays along an axis in bounded memory.

    ``options`` are those of :func:`asarray`; chunks, blocks and compression not given there are taken from the first
    array. Chunks that fit are copied without being recompressed.
    """
    parts = [part if isinstance(part, Array) else asarray(part) for part in arrays]
    if not parts:
        raise ArgumentError("no arrays to join")
    at, ndim = operator.index(axis), parts[0].ndim
    if not -ndim <= at < ndim:
        raise SelectionError(f"axis {at} is out of bounds for arrays of {ndim} dimensions")
    given = {**_KEEP, **options}
    return _write("concat", path, given, lambda told: _b2kit.write_joined(parts, at % ndim, layers=False, options=told))


_Buffer = TypeVar("_Buffer")


@checked
def compress(
    buf: Any,
    codec: str = "zstd",
    level: int = 5,
    filters: Iterable[Filter] = ("shuffle",),
    *,
    typesize: int | None = None,
    blocksize: int = 0,
    blosc1: bool = False,
    threads: int | None = None,
) -> bytes:
    """Compresses a buffer into a Blosc2 chunk, or into one that C-Blosc 1 reads, too, if ``blosc1`` is true.

    ``typesize`` is the size of its items in bytes, by default the item size of the buffer, and ``blocksize`` that of the
    blocks, by default automatic. Blosc 1 has the codecs blosclz, lz4, lz4hc, zlib and zstd, either shuffle or
    bitshuffle, and items of up to 255 bytes; anything else is an error.

        >>> import b2kit
        >>> b2kit.decompress(b2kit.compress(b"abc" * 1000)) == b"abc" * 1000
        True
    """
    items = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, dtype=_buffer_dtype(buf))
    flat = np.ascontiguousarray(items)
    if flat.dtype.hasobject:
        raise WrongTypeError("Python objects cannot be compressed")
    return _b2kit.compress(flat, typesize or flat.dtype.itemsize, codec, level, list(filters), blocksize, blosc1, threads)


@overload
def decompress(
    buf: Any, *, out: None = None, threads: int | None = None, max_nbytes: int | None = None
) -> bytes: ...
@overload
def decompress(
    buf: Any, *, out: _Buffer, threads: int | None = None, max_nbytes: int | None = None
) -> _Buffer: ...
@checked
def decompress(
    buf: Any, *, out: Any = None, threads: int | None = None, max_nbytes: int | None = None
) -> Any:
    """Decompresses a Blosc2 or Blosc 1 chunk and returns its bytes, or fills the start of ``out`` and returns that.

    ``out`` is a writable buffer, such as a ``bytearray`` or a contiguous array, with at least as many bytes. A chunk of 32
    bytes may claim to hold 2 GiB of zeros: with ``max_nbytes``, more bytes than that are refused before memory is
    allocated for them.

        >>> import b2kit, numpy as np
        >>> chunk = b2kit.compress(np.arange(1000))
        >>> int(b2kit.decompress(chunk, out=np.empty(1000, int))[999])
        999
    """
    if max_nbytes is not None and (claimed := _b2kit.chunk_sizes(buf)[0]) > max_nbytes:
        raise LimitError(f"the chunk claims to have {claimed} bytes, the limit is {max_nbytes} (max_nbytes)")
    if out is None:
        return _b2kit.decompress(buf, threads)
    # In the order of memory, which is that of the chunk.
    flat = out.reshape(-1, order="A") if isinstance(out, np.ndarray) else np.frombuffer(out, dtype="u1")
    if not (flat.flags.writeable and flat.flags.c_contiguous) or not np.may_share_memory(flat, out):
        raise WrongTypeError("out is not a writable contiguous buffer")
    _b2kit.decompress_into(buf, flat.view("u1"), threads)
    return out


@checked
def set_threads(n: int | None) -> int | None:
    """Sets the default number of threads for a call; ``None`` means all available. Returns the previous value.

    It does not affect arrays and calls with their own number of threads.
    """
    if n is not None and n < 1:
        raise ArgumentError(f"{n} threads, expected at least 1")
    return _b2kit.set_threads(n or 0) or None


def set_timeout(seconds: float) -> float:
    """Sets the time limit of a request to a web server, 60 seconds by default. Returns the previous value.

    It includes retries, and the wait for a server that has stopped sending. It applies to URLs that :func:`open` reads
    itself; fsspec and obstore have their own limits.
    """
    return _b2kit.set_timeout(seconds)


def set_other_hosts(follow: bool) -> bool:
    """Sets whether redirects of web servers to other hosts are followed (the default). Returns the previous value.

    Turn this off if an untrusted server could redirect to hosts that only this process can reach. It applies to URLs
    that :func:`open` reads itself; fsspec and obstore have their own settings.
    """
    return _b2kit.set_other_hosts(follow)


_DEFAULTS: dict[str, Any] = {
    "codec": "zstd",
    "level": 5,
    "filters": ("shuffle",),
    "chunks": None,
    "blocks": None,
    "attrs": None,
    "overwrite": False,
    "sync": True,
    "meta": None,
    "splitmode": None,
    "use_dict": False,
    "sparse": False,
    "threads": None,
}
# Defaults that keep the compression of the array that is copied.
_KEEP = {**_DEFAULTS, "codec": None, "level": None, "filters": None}


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Converts options to the form that the extension module expects."""
    options = {name: given[name] for name in ("path", *_DEFAULTS)}
    if unknown := given.keys() - options.keys() - {"x", "dtype", "progress"}:
        raise WrongTypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
    filters = options["filters"]
    if isinstance(filters, str):
        raise WrongTypeError("filters are a list")
    options["filters"] = None if filters is None else list(filters)
    for name in ("chunks", "blocks"):
        options[name] = None if options[name] is None else as_shape(options[name])
    options["attrs"] = None if options["attrs"] is None else as_layers(options["attrs"])
    options["meta"] = None if options["meta"] is None else dict(options["meta"])
    return options


def _constant(
    shape: list[int], dtype: np.dtype[Any], item: bytes | None, path: Path | None, given: Mapping[str, Any]
) -> Array:
    return _write("write", path, given, lambda options: _b2kit.write_constant(shape, dtype, item, options))


def _write(
    what: str, path: Path | None, given: Mapping[str, Any], write: Callable[[_Options], _b2kit.Frame | None]
) -> Array:
    """Lets ``write`` write an array with the options that are given, and opens it."""
    target = None if path is None else absolute(path)
    options = _options({**_DEFAULTS, **given, "path": target})
    with telling(given.get("progress"), what) as callback:
        frame = write({**options, "progress": callback})
    if frame is not None:
        return Array(frame, "a", given.get("threads"))
    assert target is not None
    return Array(target, "a", given.get("threads"))


def _dtype(dtype: npt.DTypeLike, shape: list[int]) -> tuple[np.dtype[Any], list[int]]:
    """Moves the shape of a sub-array type to the shape of the array, as NumPy does."""
    found = np.dtype(dtype)
    return found.base, [*shape, *found.shape]


def _items(x: Any, dtype: npt.DTypeLike | None) -> np.ndarray[Any, Any]:
    """Converts anything to an array; a type that is asked for truncates fractions, as in NumPy, but wraps nothing."""
    told = None if dtype is None else np.dtype(dtype)
    if told is not None and told.subdtype is None and not told.hasobject and told.kind != "T" and told.itemsize:
        if told not in (np.dtype("M8"), np.dtype("m8")):
            return cast(x, told, truncate=True)
    if isinstance(x, np.ma.MaskedArray):
        raise WrongTypeError("a masked array would lose its mask: fill it first")
    # NumPy would make an array of the keys, or of the object.
    if x is None or isinstance(x, (Mapping, Set, Iterator, os.PathLike)):
        raise WrongTypeError(f"a {type(x).__name__} is not an array")
    return np.asarray(x, dtype=dtype)


def _is_lazy(x: Any) -> bool:
    """Returns whether this is an array that is read by chunks, such as those of h5py, zarr, python-blosc2 or Dask."""
    return not isinstance(x, np.ndarray) and all(hasattr(x, name) for name in ("shape", "dtype", "chunks"))


def foreign_options(x: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options for a copy of an array of another package: those given, then those of the array."""
    found: dict[str, Any] = {}
    if _is_lazy(x):
        shards: Any = getattr(x, "shards", None)
        chunks: Any = shards or x.chunks
        blocks: Any = x.chunks if shards else getattr(x, "blocks", None)
        ndim = len(x.shape)
        # Those of Dask are lists of lengths.
        if _are_lengths(chunks, ndim) and all(chunks) and given.get("chunks") is None:
            found["chunks"] = tuple(chunks)
            # Where a block would be too large, others are chosen.
            if _are_lengths(blocks, ndim) and all(0 < b <= c for b, c in zip(blocks, chunks)):
                found["blocks"] = tuple(blocks)
        if given.get("blocks") is not None:
            found.pop("blocks", None)
        found |= _compression(x)
    attrs = _foreign_attrs(x)
    if attrs or given.get("attrs"):
        found["attrs"] = {**attrs, **(given.get("attrs") or {})}
    return {**found, **{name: value for name, value in given.items() if name != "attrs" and value is not None}}


def _are_lengths(lengths: Any, ndim: int) -> bool:
    return isinstance(lengths, tuple) and len(lengths) == ndim and all(isinstance(n, int) for n in lengths)


def _compression(x: Any) -> dict[str, Any]:
    """Returns codec, level and filters of an array of python-blosc2."""
    told = getattr(getattr(x, "schunk", None), "cparams", None)
    if told is None:
        return {}
    try:
        names = [str(filter.name).lower() for filter in told.filters]
        filters = [(name, meta) for name, meta in zip(names, told.filters_meta) if name != "nofilter"]
        options = {"codec": str(told.codec.name).lower(), "level": int(told.clevel), "filters": filters}
        _b2kit.write_constant([1], np.dtype("u1"), b"0", {**_options({**_DEFAULTS, "path": None, **options}), "progress": None})
    except (AttributeError, TypeError, ValueError):
        # A codec or filter of a plugin.
        return {}
    return options


# Attributes with which HDF5 and netCDF-4 mark dimension scales. They refer to other objects of the file.
_SCALES = frozenset(
    ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates")
)


def _foreign_attrs(x: Any) -> dict[str, Any]:
    """Returns the attributes of an array of another package."""
    schunk = getattr(x, "schunk", None)
    found: Any = getattr(schunk, "vlmeta", None) if schunk is not None else getattr(x, "attrs", None)
    if not hasattr(found, "keys"):
        return {}
    left_out = _SCALES if schunk is None else {INDEXES}
    names = [name for name in found.keys() if name not in left_out]
    attrs = {name: _foreign_value(found[name]) for name in names}
    more = attrs.get("attrs")
    if schunk is not None and isinstance(more, dict):
        # Written by this package: the attributes that C-Blosc2 has no place for.
        del attrs["attrs"]
        attrs = {**more, **attrs}
    return attrs


def _foreign_value(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return value.tolist()
    if isinstance(value, np.ndarray) and value.dtype.kind == "T":
        return value.astype(object).tolist()
    # An attribute of HDF5 without a value.
    return None if type(value).__name__ == "Empty" and hasattr(value, "shape") else value


def _reader(x: Any) -> Any:
    def read(start: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return x[tuple(slice(at, at + length) for at, length in zip(start, shape))]

    return read


class _Items:
    """The items of a frame, as a one-dimensional array."""

    def __init__(self, frame: _b2kit.FrameBase, dtype: np.dtype[Any]) -> None:
        self._frame, self.dtype, self.shape, self.chunks = frame, dtype, (frame.nbytes // dtype.itemsize,), (1,)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        part = key[0] if isinstance(key, tuple) else key
        size = self.dtype.itemsize
        return np.frombuffer(self._frame.read(part.start * size, part.stop * size), self.dtype)


def _regular(flat: Array | _Items, shape: list[int], path: Path | None, given: Mapping[str, Any]) -> Array:
    """Writes the items of a one-dimensional array in another shape."""
    if len(shape) == 1:
        return asarray(flat, path, **{"chunks": None, **given})
    strides = [int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape))]

    def read(start: tuple[int, ...], lengths: tuple[int, ...]) -> Any:
        if 0 in lengths:
            return np.empty(lengths, flat.dtype)
        # From `axis` on, the items of the region are consecutive in `flat`.
        axis = max((n for n, (length, whole) in enumerate(zip(lengths, shape)) if length != whole), default=0)
        run = int(np.prod(lengths[axis:], dtype=object))
        out = np.empty((*lengths[:axis], run), flat.dtype)
        for at in np.ndindex(*lengths[:axis]):
            first = sum((s + n) * step for s, n, step in zip(start, at, strides))
            first += sum(s * step for s, step in zip(start[axis:], strides[axis:]))
            out[at] = flat[first : first + run]
        return out.reshape(lengths)

    return _write("write", path, given, lambda options: _b2kit.write_called(shape, flat.dtype, read, options))


def _buffer_dtype(buf: Any) -> np.dtype[Any]:
    with memoryview(buf) as view:
        return np.dtype(f"V{view.itemsize}") if view.itemsize > 1 else np.dtype("u1")

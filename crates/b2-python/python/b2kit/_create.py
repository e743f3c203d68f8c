"""Opening and creating arrays."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Union

import numpy as np

from b2kit import _b2kit
from b2kit._array import Array, absolute, as_shape
from b2kit._progress import Progress, telling
from b2kit._remote import Source as _Source
from b2kit._remote import is_web, shown, source_of
from b2kit.errors import ArgumentError, Error, NotBloscError, SelectionError, WrongTypeError, checked

if TYPE_CHECKING:
    import numpy.typing as npt

    from b2kit.store import Group

__all__ = [
    "asarray",
    "compress",
    "concat",
    "copy",
    "decompress",
    "empty",
    "from_iter",
    "full",
    "open",
    "set_other_hosts",
    "set_threads",
    "verify",
    "zeros",
]

Path = Union[str, "os.PathLike[str]"]
Source = Union[Path, bytes, bytearray, memoryview, IO[bytes], Any]
Filter = Union[str, tuple[str, int]]
Shape = Union[int, Sequence[int]]

# Number of items that `from_iter` collects before it compresses them.
_BATCH = 1 << 16


@checked
def open(source: Source, mode: str = "r", threads: int | None = None) -> Array | Group:
    """Opens an array or a store. Only its metadata is read.

    ``source`` is a path, the bytes of a frame, a URL, an fsspec file, a pair of an obstore store and a path in it, or
    any seekable binary file. HTTP and HTTPS URLs are read by this package itself, other URLs by fsspec. For all remote
    sources, each read fetches the ranges it needs in a few rounds of requests. With ``mode="a"`` an array or a store at
    a path can be changed, and a store (``.b2d``) that does not exist is created. ``threads`` is the number of threads
    for one call, by default that of :func:`set_threads`.
    """
    if is_web(source):
        return _web(source, mode, threads)
    if remote := source_of(source):
        return _reopened(remote, mode, threads)
    if not isinstance(source, (str, os.PathLike)):
        return Array(source, mode, threads)
    path = absolute(source)
    try:
        return Array(path, mode, threads)
    except Error as error:
        from b2kit import store

        found = store.find(path, mode, threads)
        if found is None:
            raise _named(error, path)
        return found


def _named(error: Error, path: str) -> Error:
    """Returns the error with the path in its message."""
    if path in str(error):
        return error
    named = type(error)(f"{path}: {error}")
    named.__cause__ = error
    return named


def _web(url: str, mode: str, threads: int | None) -> Array:
    try:
        array = Array(url, mode, threads)
    except Error as error:
        raise _named(error, shown(url)) from error.__cause__
    array._again = (_web, (url, mode, threads))
    return array


def _reopened(source: _Source, mode: str, threads: int | None) -> Array:
    array = Array(source, mode, threads, name=source.name)
    array._again = (_reopened, (source, mode, threads))
    return array


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
    splitmode: str | None = None,
    use_dict: bool = False,
    sparse: bool = False,
    threads: int | None = None,
    progress: Progress = None,
) -> Array:
    """Compresses an array into a file, or into memory if there is no ``path``.

    ``x`` is a NumPy array or anything that can be converted to one. Arrays of this package, and arrays that are read by
    chunks (h5py, zarr, python-blosc2), are copied in bounded memory. The file appears when it is complete.

    ``codec``, ``level`` and ``filters`` select the compression; a filter with a parameter is a pair. ``splitmode`` is
    ``"auto"``, ``"always"`` or ``"never"``; ``use_dict`` compresses with a dictionary. ``chunks`` and ``blocks`` are
    shapes, by default chosen from that of the array. ``attrs`` are attributes, ``meta`` are metalayers. ``overwrite``
    replaces an existing file. With ``sync`` the file survives a power loss once the call returns. ``sparse`` makes a
    directory with a file for each chunk. ``dtype`` converts the items. ``threads`` is the number of threads.
    ``progress`` is ``True`` for a progress bar, or a function that is called with the number of bytes done and in
    total.

        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.linspace(0, 1, 1000), codec="lz4", attrs={"units": "m"})
        >>> a.shape, a.dtype, a.attrs["units"]
        ((1000,), dtype('float64'), 'm')
    """
    path = None if path is None else absolute(path)
    given = _options(locals())
    with telling(progress, "write") as callback:
        options = {**given, "progress": callback}
        if isinstance(x, Array) and (dtype is None or np.dtype(dtype) == x.dtype):
            frame = _b2kit.write_joined([x], 0, False, options)
        elif _is_lazy(x) and dtype is None:
            frame = _b2kit.write_called(as_shape(x.shape), np.dtype(x.dtype), _reader(x), options)
        else:
            frame = _b2kit.write_items(_items(x, dtype), options)
    return _written(frame, path, threads)


@checked
def zeros(shape: Shape, dtype: npt.DTypeLike = float, path: Path | None = None, **options: Any) -> Array:
    """Creates an array of zeros, which take no space. For ``options`` see :func:`asarray`."""
    dtype, shape = _dtype(dtype, as_shape(shape))
    return _constant(shape, dtype, bytes(dtype.itemsize), path, options)


@checked
def full(
    shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, path: Path | None = None, **options: Any
) -> Array:
    """Creates an array of a single value, which takes no space. For ``options`` see :func:`asarray`."""
    item = np.asarray(fill_value, dtype=dtype)
    if item.ndim:
        raise ArgumentError("the fill value is one item")
    return _constant(as_shape(shape), item.dtype, item.tobytes(), path, options)


@checked
def empty(shape: Shape, dtype: npt.DTypeLike = float, path: Path | None = None, **options: Any) -> Array:
    """Creates an array of uninitialized items, which read as zeros. For ``options`` see :func:`asarray`."""
    dtype, shape = _dtype(dtype, as_shape(shape))
    return _constant(shape, dtype, None, path, options)


@checked
def from_iter(
    iterable: Iterable[Any],
    dtype: npt.DTypeLike,
    shape: Shape | None = None,
    path: Path | None = None,
    **options: Any,
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
    kept = {name: options[name] for name in ("codec", "level", "filters") if name in options}
    flat = zeros(0, dtype, chunks=_BATCH, **kept)
    with flat.edit() as e:
        left = nitems
        while left is None or left > 0:
            batch = np.fromiter(islice(items, _BATCH if left is None else min(left, _BATCH)), dtype)
            if batch.size == 0:
                break
            e.append(batch)
            left = None if left is None else left - batch.size
    if nitems is not None and len(flat) != nitems:
        raise ArgumentError(f"the iterable has {len(flat)} items, shape {tuple(lengths or ())} needs {nitems}")
    target = [len(flat)] if lengths is None else lengths
    return _regular(flat, target, path, options)


@checked
def copy(a: Any, path: Path | None = None, **options: Any) -> Array:
    """Copies an array and its attributes in bounded memory.

    ``options`` are those of :func:`asarray`; those not given are taken from ``a``. Chunks that do not change are copied
    without being recompressed.
    """
    if not isinstance(a, Array):
        return asarray(a, path, **options)
    path = None if path is None else absolute(path)
    given = dict(options)
    progress = given.pop("progress", None)
    if given.get("attrs") is not None:
        given["attrs"] = {**a.attrs.asdict(), **given["attrs"]}
    with telling(progress, "copy") as callback:
        told = {**_options({**_KEEP, **given, "path": path}), "progress": callback}
        frame = _b2kit.write_joined([a], 0, given.get("attrs") is None, told)
    return _written(frame, path, given.get("threads"))


@checked
def concat(arrays: Iterable[Any], path: Path | None = None, axis: int = 0, **options: Any) -> Array:
    """Joins arrays along an axis in bounded memory.

    ``options`` are those of :func:`asarray`; chunks, blocks and compression not given there are taken from the first
    array. Chunks that fit are copied without being recompressed.
    """
    path = None if path is None else absolute(path)
    parts = [part if isinstance(part, Array) else asarray(part) for part in arrays]
    if not parts:
        raise ArgumentError("there is nothing to join")
    at, ndim = operator.index(axis), parts[0].ndim
    if not -ndim <= at < ndim:
        raise SelectionError(f"axis {at} is out of bounds for arrays of {ndim} dimensions")
    progress = options.pop("progress", None)
    with telling(progress, "concat") as callback:
        told = {**_options({**_KEEP, **options, "path": path}), "progress": callback}
        frame = _b2kit.write_joined(parts, at % ndim, False, told)
    return _written(frame, path, options.get("threads"))


@checked
def verify(path: Source, *, threads: int | None = None, progress: Progress = None) -> str:
    """Verifies a file, directory or store, or the bytes of a frame; see :meth:`Array.verify`.

    Raises an exception if something is wrong.
    """
    try:
        found = open(path, threads=threads)
    except NotBloscError:
        # A frame that is not an array. One that claims to be an array, but cannot be opened, raises another error.
        if not isinstance(path, (str, os.PathLike, bytes, bytearray, memoryview)):
            raise
        return _b2kit.FrameBase(path).verify()
    if isinstance(found, Array):
        return found.verify(progress=progress)
    return found.verify(progress=progress)


@checked
def compress(
    buf: Any,
    codec: str = "zstd",
    level: int = 5,
    filters: Iterable[Filter] = ("shuffle",),
    *,
    typesize: int | None = None,
    threads: int | None = None,
) -> bytes:
    """Compresses a buffer into a Blosc2 chunk.

    ``typesize`` is the size of its items in bytes, by default the item size of the buffer.

        >>> import b2kit
        >>> b2kit.decompress(b2kit.compress(b"abc" * 1000)) == b"abc" * 1000
        True
    """
    items = buf if isinstance(buf, np.ndarray) else np.frombuffer(buf, dtype=_buffer_dtype(buf))
    flat = np.ascontiguousarray(items)
    if flat.dtype.hasobject:
        raise WrongTypeError("Python objects cannot be compressed")
    return _b2kit.compress(flat, typesize or flat.dtype.itemsize, codec, level, list(filters), threads)


@checked
def decompress(buf: Any, *, threads: int | None = None) -> bytes:
    """Decompresses a Blosc2 chunk and returns its bytes."""
    return _b2kit.decompress(buf, threads)


@checked
def set_threads(n: int | None) -> int | None:
    """Sets the default number of threads for a call; ``None`` means all available. Returns the previous value.

    It does not affect arrays and calls with their own number of threads.
    """
    if n is not None and n < 1:
        raise ArgumentError(f"{n} threads, expected at least 1")
    return _b2kit.set_threads(n or 0) or None


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
    for name in ("attrs", "meta"):
        options[name] = None if options[name] is None else dict(options[name])
    return options


def _constant(
    shape: list[int], dtype: np.dtype[Any], item: bytes | None, path: Path | None, given: dict[str, Any]
) -> Array:
    path = None if path is None else absolute(path)
    progress = given.pop("progress", None)
    with telling(progress, "write") as callback:
        options = {**_options({**_DEFAULTS, **given, "path": path}), "progress": callback}
        frame = _b2kit.write_constant(shape, dtype, item, options)
    return _written(frame, path, given.get("threads"))


def _written(frame: _b2kit.Frame | None, path: Path | None, threads: int | None) -> Array:
    if frame is None:
        assert path is not None
        return Array(path, "a", threads)
    return Array(frame, "a", threads)


def _dtype(dtype: npt.DTypeLike, shape: list[int]) -> tuple[np.dtype[Any], list[int]]:
    """Moves the shape of a sub-array type to the shape of the array, as NumPy does."""
    found = np.dtype(dtype)
    return found.base, [*shape, *found.shape]


def _items(x: Any, dtype: npt.DTypeLike | None) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ma.MaskedArray):
        raise WrongTypeError("a masked array would lose its mask: fill it first")
    return np.asarray(x, dtype=dtype)


def _is_lazy(x: Any) -> bool:
    """Returns whether this is an array that is read by chunks, such as those of h5py, zarr, python-blosc2 or Dask."""
    return not isinstance(x, np.ndarray) and all(hasattr(x, name) for name in ("shape", "dtype", "chunks"))


def _reader(x: Any) -> Any:
    def read(start: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return x[tuple(slice(at, at + length) for at, length in zip(start, shape))]

    return read


def _regular(flat: Array, shape: list[int], path: Path | None, given: dict[str, Any]) -> Array:
    """Writes the items of a one-dimensional array in another shape."""
    path = None if path is None else absolute(path)
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

    progress = given.pop("progress", None)
    with telling(progress, "write") as callback:
        options = {**_options({**_DEFAULTS, **given, "path": path}), "progress": callback}
        frame = _b2kit.write_called(shape, flat.dtype, read, options)
    return _written(frame, path, given.get("threads"))


def _buffer_dtype(buf: Any) -> np.dtype[Any]:
    with memoryview(buf) as view:
        return np.dtype(f"V{view.itemsize}") if view.itemsize > 1 else np.dtype("u1")

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
from b2kit._options import CopyOptions, Filter, Options, Path, Shape
from b2kit._progress import Progress, telling
from b2kit._remote import Source as _Source
from b2kit._remote import is_web, shown, source_of, source_with
from b2kit.attrs import INDEXES, as_layers
from b2kit.errors import (
    ArgumentError,
    DamagedError,
    Error,
    IoError,
    LimitError,
    NotBloscError,
    ReadOnlyError,
    SelectionError,
    UnsupportedError,
    WrongTypeError,
    checked,
)

if TYPE_CHECKING:
    from typing import Unpack

    import numpy.typing as npt

    from b2kit.hdf5 import Data
    from b2kit.store import Group, SuperChunk

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
    "open_array",
    "open_group",
    "set_other_hosts",
    "set_threads",
    "set_timeout",
    "verify",
    "zeros",
]

Source = Union[Path, bytes, bytearray, memoryview, IO[bytes], Any]
_Options = dict[str, Any]


# Number of items that `from_iter` collects before it compresses them.
_BATCH = 1 << 16


@overload
def open(
    source: Source,
    mode: Literal["r", "a"] = "r",
    threads: int | None = None,
    *,
    key: None = None,
    storage_options: Mapping[str, Any] | None = None,
    lock: bool = True,
) -> Array | Group | SuperChunk: ...
@overload
def open(
    source: Source,
    mode: Literal["r", "a"] = "r",
    threads: int | None = None,
    *,
    key: str,
    storage_options: Mapping[str, Any] | None = None,
    lock: bool = True,
) -> Array | Group | SuperChunk | Data: ...
@checked
def open(
    source: Source,
    mode: Literal["r", "a"] = "r",
    threads: int | None = None,
    *,
    key: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    lock: bool = True,
) -> Array | Group | SuperChunk | Data:
    """Opens an array or a store. Only its metadata is read.

    ``source`` is a path, the bytes of a frame, a URL, an fsspec file, a pair of an obstore store and a path in it, or
    any seekable binary file. A frame that is no array is a :class:`SuperChunk`, which is read-only; tensors that
    python-blosc2 has saved (``save_array``, ``save_tensor``) are decompressed into an array in memory. HTTP and HTTPS
    URLs are read by this package itself, other URLs by fsspec. For all remote sources, each read fetches the ranges it
    needs in a few rounds of requests. With ``mode="a"`` an array or a store at
    a path can be changed, and a store (``.b2d``) that does not exist is created. ``threads`` is the number of threads
    for one call, by default that of :func:`set_threads`. With ``key`` a member of a store is opened, or a data set of an HDF5
    or NetCDF file (see :mod:`b2kit.hdf5`). ``lock=False`` changes files without locking them, for file systems that have
    no locks; then only one process at a time may change them. With ``storage_options`` a URL, also one of HTTP, is opened by fsspec with
    these options, such as credentials or ``{"headers": {...}}``.

    :func:`open_array` and :func:`open_group` return one of them, and fail for the other.
    """
    if storage_options is not None:
        given = source_with(source, storage_options)
        if key is None:
            return _reopened(given, mode, threads)
        from b2kit import hdf5

        if mode != "r":
            raise ReadOnlyError(f"{given.name}: HDF5 files are not changed")
        return hdf5.File(given.name, threads, given)[key]
    if key is not None:
        return _member(source, mode, threads, key, lock)
    try:
        return _known(source, mode, threads, lock)
    except NotBloscError:
        if isinstance(source, (bytes, bytearray, memoryview)):
            found = _frame(source, "", mode)
        elif isinstance(source, (str, os.PathLike)) and not is_web(source) and not source_of(source):
            found = _frame(absolute(source), absolute(source), mode)
        else:
            raise
        if found is None:
            raise
        return found


def _known(source: Source, mode: Literal["r", "a"], threads: int | None, lock: bool = True) -> Array | Group:
    """Opens an array or a store."""
    if is_web(source):
        return _web(source, mode, threads)
    if remote := source_of(source):
        return _reopened(remote, mode, threads)
    if not isinstance(source, (str, os.PathLike)):
        return Array(source, mode, threads)
    path = absolute(source)
    try:
        return Array(path, mode, threads, lock=lock)
    except Error as error:
        from b2kit import hdf5, store

        found = store.find(path, mode, threads, lock)
        if found is None:
            if hdf5.is_hdf5(path):
                what = f"{path}: an HDF5 or NetCDF file: key names a data set, b2kit.hdf5.open lists them"
                raise NotBloscError(what) from error
            raise _named(error, path)
        return found


def _frame(source: Any, name: str, mode: str) -> Array | SuperChunk | None:
    """Opens a frame that is no array; ``None`` if there is none."""
    from b2kit.store import SuperChunk

    try:
        frame = _b2kit.FrameBase(source)
    except Error:
        return None
    if not {"b2nd", "caterva"}.isdisjoint(frame.meta_names):
        return None
    if mode != "r":
        raise ReadOnlyError(f"{name or 'the frame'}: not an array: only arrays and stores can be changed")
    if "__pack_tensor__" in frame.attr_names:
        return _tensor(frame, name)
    return SuperChunk(frame, name)


class _Items:
    """The items of a frame, as a one-dimensional array."""

    def __init__(self, frame: _b2kit.FrameBase, dtype: np.dtype[Any]) -> None:
        self._frame, self.dtype, self.shape, self.chunks = frame, dtype, (frame.nbytes // dtype.itemsize,), (1,)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        part = key[0] if isinstance(key, tuple) else key
        size = self.dtype.itemsize
        return np.frombuffer(self._frame.read(part.start * size, part.stop * size), self.dtype)


def _tensor(frame: _b2kit.FrameBase, name: str) -> Array:
    """Returns the array that ``blosc2.save_tensor`` has saved."""
    layer = frame.attr("__pack_tensor__")
    description: Any = layer[0] if layer else None
    try:
        _, shape, descr = description
        dtype = np.lib.format.descr_to_dtype([tuple(field) for field in descr] if isinstance(descr, list) else descr)
        lengths = as_shape(shape)
        fits = int(np.prod(lengths, dtype=object)) * dtype.itemsize == frame.nbytes
    except (TypeError, ValueError) as error:
        raise DamagedError(f"{name}: __pack_tensor__ describes no array") from error
    if not fits or dtype.hasobject:
        raise DamagedError(f"{name}: __pack_tensor__ describes an array of another size")
    if frame.nbytes > max(1 << 30, 1000 * frame.cbytes):
        raise UnsupportedError(f"{name}: a tensor of {frame.nbytes} bytes is too large to be decompressed")
    attrs = {key: found[0] for key in frame.attr_names if key != "__pack_tensor__" and (found := frame.attr(key))}
    return _regular(_Items(frame, dtype), lengths, None, {"codec": "lz4", "attrs": attrs or None})


def _member(
    source: Source, mode: Literal["r", "a"], threads: int | None, key: str, lock: bool
) -> Array | Group | SuperChunk | Data:
    """Opens a member of a store, or a data set."""
    from b2kit import hdf5
    from b2kit.store import Group

    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if hdf5.is_hdf5(path):
            if mode != "r":
                raise ReadOnlyError(f"{path}: HDF5 files are not changed")
            return hdf5.File(path if is_web(path) else absolute(path), threads)[key]
    group = open(source, mode, threads, lock=lock)
    if not isinstance(group, Group):
        group.close()
        raise ArgumentError(f"key {key!r}: this is not a store")
    return group[key]


@checked
def open_array(
    source: Source, mode: Literal["r", "a"] = "r", threads: int | None = None, *, lock: bool = True
) -> Array:
    """Opens an array as :func:`open` does. A store is an error.

        >>> import b2kit, numpy as np, tempfile
        >>> path = tempfile.mkdtemp() + "/a.b2nd"
        >>> _ = b2kit.asarray(np.arange(3), path)
        >>> b2kit.open_array(path).shape
        (3,)
    """
    found = open(source, mode, threads, lock=lock)
    if isinstance(found, Array):
        return found
    from b2kit.store import Group

    if isinstance(found, Group):
        raise ArgumentError(f"{found.path}: is a store: open an array of it, or use open_group")
    raise NotBloscError(f"{found.name}: a super-chunk, not an array")


@checked
def open_group(source: Path, mode: Literal["r", "a"] = "r", threads: int | None = None, *, lock: bool = True) -> Group:
    """Opens a store as :func:`open` does, and returns its root. An array is an error."""
    found = open(source, mode, threads, lock=lock)
    from b2kit.store import Group

    if not isinstance(found, Group):
        found.close()
        raise ArgumentError(f"{source}: is an array or a super-chunk, not a store")
    return found


def _named(error: Error, path: str) -> Error:
    """Returns the error with the path in its message."""
    if path in str(error):
        return error
    named = type(error)(f"{path}: {error}")
    named.__cause__ = error
    return named


def _web(url: str, mode: Literal["r", "a"], threads: int | None) -> Array:
    name = shown(url)
    try:
        array = Array(url, mode, threads)
    except Error as error:
        raise _described(error, name, url, None) from error
    array._again = (_web, (url, mode, threads))
    return array


def _reopened(source: _Source, mode: Literal["r", "a"], threads: int | None) -> Array:
    try:
        array = Array(source, mode, threads, name=source.name)
    except Error as error:
        raise _described(error, source.name, source.name, source) from error
    array._again = (_reopened, (source, mode, threads))
    return array


def _described(error: Error, name: str, url: str, source: _Source | None) -> Error:
    """Returns the error for a remote file that is not an array, which says what it is instead."""
    if not isinstance(error, NotBloscError):
        return _named(error, name)
    from b2kit import hdf5

    try:
        is_store = _b2kit.Store.is_at(url, source)
    except IoError:
        return _named(error, name)
    except Error:
        # Only a store is opened further than its first bytes.
        is_store = True
    if is_store:
        return UnsupportedError(
            f"{name}: a store: download it, then open that (the command reads members at URLs: {name}::/key)"
        )
    if hdf5.is_hdf5(url, source):
        return NotBloscError(f"{name}: an HDF5 or NetCDF file: key names a data set, b2kit.hdf5.open lists them")
    return _named(error, name)


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


@overload
def copy(a: Group, path: Path, **options: Unpack[CopyOptions]) -> Group: ...
@overload
def copy(a: Any, path: Path | None = None, **options: Unpack[CopyOptions]) -> Array: ...
@checked
def copy(a: Any, path: Path | None = None, **options: Unpack[CopyOptions]) -> Array | Group:
    """Copies an array and its attributes in bounded memory. A path is opened first.

    A group or store is copied with all its contents to a new store, as by :meth:`Group.save`; only ``overwrite`` is an
    option then.

    ``options`` are those of :func:`asarray`; those not given are taken from ``a``. For other ``chunks``, blocks are
    chosen that fit. Chunks that do not change are copied without being recompressed.

    ``a`` may also be an array of h5py, zarr or python-blosc2, whose attributes and chunks are kept: shards of zarr are
    chunks here, and the chunks in them are blocks. Codec, level and filters are kept from python-blosc2 only. What
    makes an HDF5 dataset or its axes a dimension scale is left out.
    """
    from b2kit.store import Group

    given: dict[str, Any] = dict(options)
    if isinstance(a, (str, os.PathLike)):
        a = open(a)
    if isinstance(a, Group):
        if path is None or given.keys() - {"overwrite"}:
            raise WrongTypeError("a group is copied to a path, and with no option but overwrite")
        a.save(path, overwrite=given.get("overwrite", False))
        return Group(path, "a" if os.path.isdir(path) else "r", a._threads)
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


@checked
def verify(path: Source, *, threads: int | None = None, progress: Progress = None) -> str:
    """Verifies a file, directory or store, or the bytes of a frame; see :meth:`Array.verify`.

    Raises an exception if something is wrong.
    """
    try:
        found = _known(path, "r", threads)
    except NotBloscError:
        # A frame that is not an array. One that claims to be an array, but cannot be opened, raises another error.
        if not isinstance(path, (str, os.PathLike, bytes, bytearray, memoryview)):
            raise
        return _b2kit.FrameBase(path).verify()
    return found.verify(progress=progress)


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

"""Opening and creating arrays."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, Union, overload

import numpy as np

from b2kit import _b2kit
from b2kit._array import Array, absolute, as_shape, forget_indexes
from b2kit._cast import cast
from b2kit._options import Filter, Options, Path, Shape
from b2kit._progress import Progress, progress_callback
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
    """Compresses an array into a file, or into memory if there is no path.

    The file appears under its name when it is complete. Arrays that can be read by chunks (of this package, h5py, zarr,
    python-blosc2) are copied in bounded memory; :func:`b2kit.copy` keeps their attributes and chunks as well.

    Parameters
    ----------
    x : array_like
        A NumPy array, or anything that can be converted to one.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    codec : str
        ``"blosclz"``, ``"lz4"``, ``"lz4hc"``, ``"zlib"`` or ``"zstd"``.
    level : int
        0 (store) to 9 (smallest).
    filters : iterable of str or (str, int)
        Filters in the order in which they are applied; a filter with a parameter is a pair.
    chunks, blocks : int or tuple of int, optional
        Shapes, by default chosen from the shape of the array. Blocks may not be larger than chunks.
    attrs : mapping, optional
        Attributes, of any number and with names of any length.
    overwrite : bool
        Replace an existing file.
    sync : bool
        Wait until the file survives a power loss.
    dtype : dtype, optional
        Convert the items. Floats lose their fractions in integers; numbers out of range and text that is too long are
        errors.
    meta : mapping, optional
        Metalayers of fixed size.
    splitmode : {"auto", "always", "never"}, optional
        When blocks are split into one stream for each byte of the items.
    use_dict : bool
        Compress with a dictionary. python-blosc2 4.14 reads wrong items from files of several chunks with dictionaries, also
        those that it wrote.
    sparse : bool
        Create a directory with a file for each chunk.
    threads : int, optional
        Number of threads, by default that of :func:`b2kit.set_threads`.
    progress : bool or tqdm or callable, optional
        ``True`` for a progress bar, a class or a bar of tqdm, or a function that is called with the number of bytes done
        and in total.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.
    b2kit.errors.WrongTypeError
        The items cannot be stored, such as Python objects.
    b2kit.errors.ArgumentError
        A parameter is out of range.

    Examples
    --------
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
    """Creates an array of zeros, which take no space.

    Parameters
    ----------
    shape : int or tuple of int
        Lengths of the dimensions.
    dtype : dtype
        Type of the items.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    **options
        The options of :func:`b2kit.asarray`.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.

    Examples
    --------
    >>> import b2kit
    >>> a = b2kit.zeros((1000, 1000), "f4")
    >>> float(a[0, 0]), a.nbytes, a.cbytes < 1000
    (0.0, 4000000, True)
    """
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
    """Creates an array of a single value, which needs no space.

    Parameters
    ----------
    shape : int or tuple of int
        Lengths of the dimensions.
    fill_value : scalar
        The value of all items.
    dtype : dtype, optional
        Type of the items, by default that of `fill_value`.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    **options
        The options of :func:`b2kit.asarray`.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ArgumentError
        `fill_value` is more than one item.
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.

    Examples
    --------
    >>> import b2kit
    >>> b2kit.full((2, 3), 7)[:]
    array([[7, 7, 7],
           [7, 7, 7]])
    """
    item = _items(fill_value, dtype)
    if item.ndim:
        raise ArgumentError("the fill value is one item")
    return _constant(as_shape(shape), item.dtype, item.tobytes(), path, options)


@checked
def empty(
    shape: Shape, dtype: npt.DTypeLike = float, path: Path | None = None, **options: Unpack[Options]
) -> Array:
    """Creates an array of uninitialized items, which read as zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Lengths of the dimensions.
    dtype : dtype
        Type of the items.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    **options
        The options of :func:`b2kit.asarray`.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.

    Examples
    --------
    >>> import b2kit
    >>> b2kit.empty(3, "i4")[:]
    array([0, 0, 0], dtype=int32)
    """
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
    """Creates an array from the items of an iterable, in C order. They are compressed as they arrive.

    Parameters
    ----------
    iterable : iterable
        The items.
    dtype : dtype
        Type of the items.
    shape : int or tuple of int, optional
        Lengths of the dimensions. Without it the array has one dimension with all items.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    **options
        The options of :func:`b2kit.asarray`.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ArgumentError
        The iterable has fewer items than `shape` needs.
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.

    Examples
    --------
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
    if not isinstance(a, Array):
        return asarray(a, path, **foreign_options(a, given))
    if given.get("dtype") is not None and np.dtype(given["dtype"]) != a.dtype:
        # Recompressed, by chunks; without zfp, whose parameter is for the other type.
        names = () if a.codec.startswith("zfp") else ("codec", "level", "filters")
        kept = {name: getattr(a, name) for name in names}
        if given.get("chunks") is None:
            kept |= {"chunks": a.chunks, "blocks": a.blocks}
        return asarray(a, path, **{**kept, **given, **_with_layers(a.attrs.asdict(), a.meta, given)})
    given.pop("dtype", None)
    layers = given.get("attrs") is None and given.get("meta") is None
    if not layers:
        given |= _with_layers(a.attrs.asdict(), a.meta, given)
    return _write("copy", path, {**_KEEP, **given}, lambda options: _b2kit.write_joined([a], 0, layers=layers, options=options))


def _with_layers(attrs: Mapping[str, Any], meta: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes and metalayers of a copy: those of the array, and those given."""
    return {"attrs": {**attrs, **(given.get("attrs") or {})}, "meta": {**meta, **(given.get("meta") or {})}}


@checked
def concat(
    arrays: Iterable[Any], path: Path | None = None, axis: int = 0, **options: Unpack[Options]
) -> Array:
    """Joins arrays along an axis, in bounded memory. Chunks that fit are copied without being recompressed.

    Parameters
    ----------
    arrays : iterable of array_like
        At least one array.
    path : str or PathLike, optional
        The new file. Without it the array is in memory.
    axis : int
        The axis along which the arrays are joined.
    **options
        The options of :func:`b2kit.asarray`. Chunks, blocks and compression that are not given are those of the first
        array.

    Returns
    -------
    Array
        The new array, open for changes.

    Raises
    ------
    b2kit.errors.ArgumentError
        There are no arrays, or their shapes do not fit.
    b2kit.errors.SelectionError
        `axis` is out of bounds.
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> b2kit.concat([np.arange(3), np.arange(2)])[:]
    array([0, 1, 2, 0, 1])
    """
    parts = [part if isinstance(part, Array) else asarray(part) for part in arrays]
    if not parts:
        raise ArgumentError("no arrays to join")
    at, ndim = operator.index(axis), parts[0].ndim
    if not -ndim <= at < ndim:
        raise SelectionError(f"axis {at} is out of bounds for arrays of {ndim} dimensions")
    given = {**_KEEP, **options}
    return _write("concat", path, given, lambda options: _b2kit.write_joined(parts, at % ndim, layers=False, options=options))


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
    """Compresses a buffer into a Blosc2 chunk.

    Parameters
    ----------
    buf : buffer
        An array, or bytes.
    codec, level, filters
        As of :func:`b2kit.asarray`.
    typesize : int, optional
        Size of the items in bytes, by default the item size of the buffer.
    blocksize : int
        Size of the blocks in bytes; 0 for automatic.
    blosc1 : bool
        Create a chunk that C-Blosc 1 can also read. It supports the codecs blosclz, lz4, lz4hc, zlib and zstd, either shuffle or
        bitshuffle, and items of up to 255 bytes; anything else is an error.
    threads : int, optional
        Number of threads, by default that of :func:`b2kit.set_threads`.

    Returns
    -------
    bytes
        The chunk. It has no checksum.

    Raises
    ------
    b2kit.errors.WrongTypeError
        The buffer holds Python objects.
    b2kit.errors.ArgumentError
        A parameter is out of range.

    Examples
    --------
    >>> import b2kit
    >>> chunk = b2kit.compress(b"abc" * 1000)
    >>> len(chunk) < 100, b2kit.decompress(chunk) == b"abc" * 1000
    (True, True)
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
    """Decompresses a Blosc2 or Blosc 1 chunk.

    Parameters
    ----------
    buf : buffer
        The chunk.
    out : buffer, optional
        A writable buffer with at least as many bytes, such as a ``bytearray`` or a contiguous array. Its start is filled.
    threads : int, optional
        Number of threads, by default that of :func:`b2kit.set_threads`.
    max_nbytes : int, optional
        Refuse a chunk that claims to hold more bytes, before memory is allocated for them. A chunk of 32 bytes may claim
        to hold 2 GiB of zeros.

    Returns
    -------
    bytes or `out`
        The bytes, or `out` if it was given.

    Raises
    ------
    b2kit.errors.LimitError
        The chunk claims to hold more than `max_nbytes`.
    b2kit.errors.DamagedError
        The chunk is malformed.
    b2kit.errors.ArgumentError
        `out` is too small.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> chunk = b2kit.compress(np.arange(1000))
    >>> int(b2kit.decompress(chunk, out=np.empty(1000, int))[999])
    999
    """
    if max_nbytes is not None and (claimed := _b2kit.chunk_sizes(buf)[0]) > max_nbytes:
        raise LimitError(f"the chunk claims to have {claimed} bytes, the limit is {max_nbytes} (max_nbytes)")
    if out is None:
        return _b2kit.decompress(buf, threads)
    # In memory order, which is that of the chunk.
    flat = out.reshape(-1, order="A") if isinstance(out, np.ndarray) else np.frombuffer(out, dtype="u1")
    if not (flat.flags.writeable and flat.flags.c_contiguous) or not np.may_share_memory(flat, out):
        raise WrongTypeError("out is not a writable contiguous buffer")
    _b2kit.decompress_into(buf, flat.view("u1"), threads)
    return out


@checked
def set_threads(n: int | None) -> int | None:
    """Sets the default number of threads for a call.

    It does not affect arrays and calls with their own number of threads.

    Parameters
    ----------
    n : int or None
        Number of threads; ``None`` for all cores.

    Returns
    -------
    int or None
        The previous value.

    Raises
    ------
    b2kit.errors.ArgumentError
        `n` is less than 1.

    Examples
    --------
    >>> import b2kit
    >>> previous = b2kit.set_threads(2)
    >>> b2kit.set_threads(previous)
    2
    """
    if n is not None and n < 1:
        raise ArgumentError(f"{n} threads, expected at least 1")
    return _b2kit.set_threads(n or 0) or None


def set_timeout(seconds: float) -> float:
    """Sets the time limit of a request to a web server, 60 seconds by default.

    The limit includes retries, and the wait for a server that has stopped sending. It applies to URLs that
    :func:`b2kit.open` reads itself; fsspec and obstore have their own limits.

    Parameters
    ----------
    seconds : float
        The limit.

    Returns
    -------
    float
        The previous value.

    Raises
    ------
    b2kit.errors.ArgumentError
        `seconds` is not positive.

    Examples
    --------
    >>> import b2kit
    >>> previous = b2kit.set_timeout(10)
    >>> b2kit.set_timeout(previous)
    10.0
    """
    return _b2kit.set_timeout(seconds)


def set_other_hosts(follow: bool) -> bool:
    """Sets whether redirects of web servers to other hosts are followed, which is the default.

    Turn this off if an untrusted server could redirect to hosts that only this process can reach. It applies to URLs that
    :func:`b2kit.open` reads itself; fsspec and obstore have their own settings.

    Parameters
    ----------
    follow : bool
        Whether such redirects are followed.

    Returns
    -------
    bool
        The previous value.

    Examples
    --------
    >>> import b2kit
    >>> previous = b2kit.set_other_hosts(False)
    >>> b2kit.set_other_hosts(previous)
    False
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
_KEEP = {**_DEFAULTS, "codec": None, "level": None, "filters": None, "use_dict": None}


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
    """Calls ``write`` with the given options to write an array, and opens it."""
    target = None if path is None else absolute(path)
    options = _options({**_DEFAULTS, **given, "path": target})
    with progress_callback(given.get("progress"), what) as callback:
        frame = write({**options, "progress": callback})
    if frame is not None:
        return Array(frame, "a", given.get("threads"))
    assert target is not None
    forget_indexes(target)
    return Array(target, "a", given.get("threads"))


def _dtype(dtype: npt.DTypeLike, shape: list[int]) -> tuple[np.dtype[Any], list[int]]:
    """Moves the shape of a sub-array type to the shape of the array, as NumPy does."""
    found = np.dtype(dtype)
    return found.base, [*shape, *found.shape]


def _items(x: Any, dtype: npt.DTypeLike | None) -> np.ndarray[Any, Any]:
    """Converts anything to an array; an explicit type truncates fractions, as in NumPy, but nothing wraps."""
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted.subdtype is None and not wanted.hasobject and wanted.kind != "T" and wanted.itemsize:
        if wanted not in (np.dtype("M8"), np.dtype("m8")):
            return cast(x, wanted, truncate=True)
    if isinstance(x, np.ma.MaskedArray):
        raise WrongTypeError("a masked array would lose its mask: fill it first")
    # NumPy would create an array of the keys, or of the object.
    if x is None or isinstance(x, (Mapping, Set, Iterator, os.PathLike)):
        raise WrongTypeError(f"a {type(x).__name__} is not an array")
    return np.asarray(x, dtype=dtype)


def _is_lazy(x: Any) -> bool:
    """Returns whether this is an array that can be read by chunks, such as those of h5py, zarr, python-blosc2 or Dask."""
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
            # Other blocks are chosen if one would be too large.
            if _are_lengths(blocks, ndim) and all(0 < b <= c for b, c in zip(blocks, chunks)):
                found["blocks"] = tuple(blocks)
        if given.get("blocks") is not None:
            found.pop("blocks", None)
        found |= _compression(x)
    layers = _with_layers(_foreign_attrs(x), _foreign_meta(x), given)
    return {**found, **{name: value for name, value in given.items() if value is not None}, **layers}


def _are_lengths(lengths: Any, ndim: int) -> bool:
    return isinstance(lengths, tuple) and len(lengths) == ndim and all(isinstance(n, int) for n in lengths)


def _compression(x: Any) -> dict[str, Any]:
    """Returns codec, level and filters of an array of python-blosc2."""
    cparams = getattr(getattr(x, "schunk", None), "cparams", None)
    if cparams is None:
        return {}
    try:
        names = [str(filter.name).lower() for filter in cparams.filters]
        filters = [(name, meta) for name, meta in zip(names, cparams.filters_meta) if name != "nofilter"]
        options = {"codec": str(cparams.codec.name).lower(), "level": int(cparams.clevel), "filters": filters}
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


# Metalayers with which python-blosc2 describes arrays, and marks those that it computes or fetches.
_OWN_META = frozenset(("b2nd", "caterva", "b2o", "proxy-source", "proxy", "LazyArray"))


def _foreign_meta(x: Any) -> dict[str, Any]:
    """Returns the metalayers of an array of python-blosc2."""
    found: Any = getattr(getattr(x, "schunk", None), "meta", None)
    return {name: found[name] for name in found.keys() if name not in _OWN_META} if hasattr(found, "keys") else {}


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

"""HDF5 and NetCDF files, read without h5py (:func:`open`), and the filters 32026 (Blosc2) and 32001 (Blosc) for h5py
(:func:`register`).

    >>> import h5py, numpy as np
    >>> import b2kit.hdf5
    >>> b2kit.hdf5.register()
    >>> with h5py.File("field.h5", "w") as file:
    ...     data = file.create_dataset("t", data=np.arange(10_000), chunks=(1000,), **b2kit.hdf5.compression("lz4"))
    ...     int(data[1234])
    1234

hdf5plugin, PyTables and all programs with these filters read the written files, and vice versa.
"""

from __future__ import annotations

import io
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from b2kit import _b2kit
from b2kit._array import _unpickled, absolute, file_token
from b2kit._items import Items
from b2kit._remote import Source, is_web, shown, source_with
from b2kit.errors import ArgumentError, Error, IoError, NotBloscError, ReadOnlyError, WrongTypeError

__all__ = ["Data", "File", "compression", "is_hdf5", "open", "register"]

_CODECS = {"blosclz": 0, "lz4": 1, "lz4hc": 2, "zlib": 4, "zstd": 5}
_FILTERS = {None: 0, "shuffle": 1, "bitshuffle": 2}


def register() -> None:
    """Let h5py read and write Blosc2 (32026) and Blosc (32001) chunks through b2kit.

    This affects the current process, and replaces filters that were registered before, such as those of hdf5plugin.
    Other programs and modules with a separate HDF5 (PyTables, netCDF4) are not affected: set ``HDF5_PLUGIN_PATH`` to the output of
    ``python -m b2kit_hdf5_plugin``, from the package ``b2kit-hdf5-plugin``.

    On Windows only that package has the filters. Its folder is searched for filters that are not registered yet.

    Raises
    ------
    ImportError
        h5py is not installed, or on Windows ``b2kit-hdf5-plugin``.
    """
    try:
        import h5py  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("the filters are for h5py, which is not installed: pip install h5py") from error

    if sys.platform != "win32":
        for address in _b2kit.hdf5_filters():
            h5py.h5z.register_filter(address)
        return
    try:
        from b2kit_hdf5_plugin import PATH  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError("on Windows the filters are in another package: pip install b2kit-hdf5-plugin") from error
    folder = os.fsencode(PATH)
    if folder not in (h5py.h5pl.get(n) for n in range(h5py.h5pl.size())):
        h5py.h5pl.prepend(folder)


def compression(codec: str = "zstd", clevel: int = 5, filter: str | None = "shuffle") -> dict[str, Any]:
    """Return keyword arguments of h5py's ``create_dataset`` for chunks that are Blosc2 (filter 32026).

    Parameters
    ----------
    codec
        ``"blosclz"``, ``"lz4"``, ``"lz4hc"``, ``"zlib"`` or ``"zstd"``.
    clevel
        From 0 (do not compress) to 9.
    filter
        ``"shuffle"``, ``"bitshuffle"`` or None.

    Raises
    ------
    ArgumentError
        The codec or filter is unknown, or the level is out of range.
    """
    if codec not in _CODECS:
        raise ArgumentError(f"codec {codec!r}: expected one of {', '.join(_CODECS)}")
    if filter not in _FILTERS:
        raise ArgumentError(f"filter {filter!r}: expected 'shuffle', 'bitshuffle' or None")
    if not 0 <= clevel <= 9:
        raise ArgumentError(f"clevel {clevel}: expected 0 to 9")
    # Four numbers that the filter sets: revision, block size, item size, chunk size.
    return {"compression": 32026, "compression_opts": (0, 0, 0, 0, clevel, _FILTERS[filter], _CODECS[codec])}


class Data(Items):
    """A data set of HDF5 or a variable of NetCDF, read-only. :func:`open` and :func:`b2kit.open` return it.

    It is indexed like a :class:`b2kit.Array`, with NumPy's rules: by integers, slices with any step, lists, masks, the names of
    fields, ``oindex`` and ``vindex``. Only the chunks that a selection touches are read and decoded; with filter 32026 only the
    blocks that it touches, by several threads and without HDF5's lock.
    """

    def __init__(self, data: Any, path: str, threads: int | None, source: Source | None = None) -> None:
        self._data, self.threads, self._given, self._source = data, threads, path, source
        self.path: str = shown(path) if is_web(path) else path
        """The file; a URL without user, password and query."""
        self.name: str = data.name
        """The path in the file."""
        self.maxshape: tuple[int | None, ...] = data.maxshape
        """The maximum length of each dimension in the file; None for unlimited."""
        self.chunks: tuple[int, ...] | None = data.chunks
        """The shape of the chunks; None if there are none."""
        self.filters: list[str] = data.filters
        """The names of HDF5's filters, in the order in which they were applied."""
        self.attrs: dict[str, Any] = data.attrs
        """The attributes, and ``_ARRAY_DIMENSIONS``, the names of the dimensions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension, in items."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the items."""
        dtype: np.dtype[Any] = self._data.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of items."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The size of an item in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The uncompressed size in bytes."""
        return self.size * self.itemsize

    @property
    def cbytes(self) -> int:
        """Bytes of the file that hold items."""
        return int(self._data.cbytes)

    def __len__(self) -> int:
        if not self.shape:
            raise WrongTypeError("a data set without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return self._get(key, "numpy")

    def _get(self, key: Any, style: str, threads: int | None = None, progress: Any = None) -> Any:
        return self._data._get(key, style, threads or self.threads, progress)

    def _read_into(self, key: Any, out: Any, threads: int | None = None, progress: Any = None) -> None:
        self._data._read_into(key, out, threads or self.threads, progress)

    def edit(self, sync: bool = True) -> NoReturn:
        """Raises :class:`ReadOnlyError`: data sets are not changed. :func:`b2kit.asarray` makes an array of one."""
        raise ReadOnlyError(f"{self.path}: {self.name}: data sets of HDF5 are read-only")

    def __setitem__(self, key: Any, value: Any) -> None:
        self.edit()

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        token = file_token(self._given) if self._source is None else self._source.identity()
        return _unpickled, (_reopen, (self._given, self.name, self.threads, self._source), token)

    def __repr__(self) -> str:
        return f"<b2kit.hdf5.Data {self.name!r} {self.shape} {self.dtype}, filters {self.filters}>"


class File(Mapping[str, Data]):
    """An open HDF5 or NetCDF file: a mapping from the paths of its data sets to :class:`Data`. :func:`open` returns it."""

    def __init__(self, path: str, threads: int | None = None, source: Source | None = None) -> None:
        self._given, self._threads, self._source = path, threads, source
        self.path = shown(path) if is_web(path) else path
        self._file = _b2kit.Hdf5File(path, source)
        self._tree: list[tuple[str, str, str]] | None = None

    def tree(self) -> list[tuple[str, str, str]]:
        """Returns all named objects: path, kind (``"group"``, ``"dataset"``, ``"dimension"``, ``"link"``, ``"type"``,
        ``"failed"``), and the target of a link or the reason why an object cannot be read."""
        if self._tree is None:
            self._tree = self._file.tree("/")
        return self._tree

    def group_attrs(self, group: str = "/") -> dict[str, Any]:
        """Returns the attributes of a group, by default those of the file."""
        return dict(self._file.attrs(group))

    def __getitem__(self, name: str) -> Data:
        return Data(self._file.data_set(name), self._given, self._threads, self._source)

    def __iter__(self) -> Iterator[str]:
        return (path for path, kind, _ in self.tree() if kind == "dataset")

    def __len__(self) -> int:
        return sum(kind == "dataset" for _, kind, _ in self.tree())

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        token = file_token(self.path) if self._source is None else self._source.identity()
        return _unpickled, (File, (self.path, self._threads, self._source), token)

    def __repr__(self) -> str:
        return f"<b2kit.hdf5.File {self.path!r}>"


def _reopen(path: str, name: str, threads: int | None, source: Source | None = None) -> Data:
    return File(path, threads, source)[name]


def open(
    path: str | os.PathLike[str],
    key: str | None = None,
    threads: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> File | Data:
    """Open an HDF5 or NetCDF file (3 and 4), or a data set in it.

    Parameters
    ----------
    path : str or PathLike
        A path, or an HTTP or HTTPS URL; with `storage_options` any URL that fsspec supports.
    key : str, optional
        Open the data set with this path in the file.
    threads : int, optional
        Number of threads for one call, by default that of :func:`b2kit.set_threads`.
    storage_options : mapping, optional
        Let fsspec open the URL, with these options.

    Returns
    -------
    File
        The file, a mapping from paths to data sets.
    Data
        The data set, if `key` names one.

    Raises
    ------
    NotFoundError
        There is no such file.
    NotBloscError
        The file is neither HDF5 nor NetCDF.
    NoSuchKeyError
        There is no data set `key`.
    UnsupportedError
        An array cannot hold the data set, or one of its filters is not supported.
    """
    if storage_options is not None:
        source = source_with(path, storage_options)
        file = File(source.name, threads, source)
    else:
        file = File(path if isinstance(path, str) and is_web(path) else absolute(path), threads)
    return file if key is None else file[key]


def is_hdf5(path: str, source: Source | None = None) -> bool:
    """Return whether the file at a path or an http URL, or in ``source``, is HDF5 or NetCDF, by its content."""
    if source is not None or is_web(path):
        try:
            _b2kit.Hdf5File(path, source)
        except NotBloscError:
            return False
        except Error as error:
            # Damaged, or of an unsupported kind: opening it raises that error. If the server does not respond, no other format can be tried.
            return not isinstance(error, IoError)
        return True
    try:
        # A FIFO would wait for its writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with io.open(path, "rb") as file:
            at, head = 0, file.read(8)
            if head[:4] in (b"CDF\1", b"CDF\2", b"CDF\5"):
                return True
            # Other bytes may precede it: 512 of them, or a power of two times as many.
            while len(head) == 8 and head != b"\x89HDF\r\n\x1a\n":
                at = at * 2 or 512
                file.seek(at)
                head = file.read(8)
            return len(head) == 8
    except (OSError, ValueError):
        return False

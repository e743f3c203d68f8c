"""HDF5 and NetCDF files for the xarray engine."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from xarray.backends.common import AbstractDataStore, BackendArray
from xarray.core import indexing
from xarray.core.variable import Variable

from b2kit import hdf5
from b2kit._remote import is_web, source_with
from b2kit._xarray_fit import fill_of, presented_dtype
from b2kit.errors import ArgumentError

_DIMS = "_ARRAY_DIMENSIONS"
_CHARACTERS = "_ARRAY_CHARACTERS"
_OURS = (".b2nd", ".b2d", ".b2z", ".b2e")


def is_hdf5(source: Any, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Returns whether this is the path or URL of an HDF5 or NetCDF file."""
    if isinstance(source, hdf5.File):
        return True
    if not isinstance(source, (str, os.PathLike)):
        return False
    path = os.fspath(source)
    name = path.split("?")[0].lower()
    # For other URLs the content decides, which takes a request.
    if (storage_options is not None or is_web(path)) and name.endswith(_OURS):
        return False
    given = None if storage_options is None else source_with(path, storage_options)
    return hdf5.is_hdf5(path if given is None else given.name, given)


def opened(source: Any, threads: int | None, storage_options: Mapping[str, Any] | None = None) -> hdf5.File:
    """Opens the file."""
    if isinstance(source, hdf5.File):
        return source
    file = hdf5.open(source, threads=threads, storage_options=storage_options)
    assert isinstance(file, hdf5.File)
    return file


class _Items(BackendArray):
    """The items of a data set, read lazily."""

    def __init__(self, data: hdf5.Data, dtype: np.dtype[Any]) -> None:
        self._data, self.shape, self.dtype = data, data.shape, dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return np.asarray(self._data.oindex[key], self.dtype)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)


class Hdf5Store(AbstractDataStore):
    """A group of an HDF5 or NetCDF file as an xarray data store."""

    def __init__(self, file: hdf5.File, group: str | None) -> None:
        self._file = file
        self._group = "/" + (group or "").strip("/")
        self._unlimited: set[str] = set()
        kinds = {path: kind for path, kind, _ in file.tree()}
        if kinds.get(self._group) != "group":
            raise ArgumentError(f"{file.path}: there is no group {self._group}")

    def groups(self) -> list[str]:
        """Returns the paths of the group and of its subgroups."""
        start = self._group.rstrip("/") + "/"
        paths = (path for path, kind, _ in self._file.tree() if kind == "group")
        return [path for path in paths if path == self._group or path.startswith(start)]

    def get_variables(self) -> Mapping[str, Variable]:
        """Returns the data sets of the group with their dimensions and attributes."""
        found, start = {}, self._group.rstrip("/") + "/"
        for path, kind, why in self._file.tree():
            name = path[len(start) :]
            if not path.startswith(start) or not name or "/" in name:
                continue
            if kind == "dataset":
                found[name] = self._variable(name, self._file[path])
            elif kind in ("failed", "link"):
                warnings.warn(f"{path}: {why}: left out", UserWarning, stacklevel=2)
        return found

    def _variable(self, name: str, data: hdf5.Data) -> Variable:
        attrs = dict(data.attrs)
        attrs.pop(_CHARACTERS, None)
        dims = attrs.pop(_DIMS, None)
        if not isinstance(dims, (list, tuple)) or len(dims) != data.ndim:
            dims = [f"{name}_dim_{axis}" for axis in range(data.ndim)]
        for fill in ("_FillValue", "missing_value"):
            if fill in attrs:
                attrs[fill] = fill_of(attrs[fill], data.dtype)
        encoding: dict[str, Any] = {"source": data.path, "original_shape": data.shape, "chunks": data.chunks}
        if data.chunks is not None:
            encoding["preferred_chunks"] = dict(zip(dims, data.chunks))
        self._unlimited.update(dim for dim, most in zip(dims, data.maxshape) if most is None)
        items: Any = indexing.LazilyIndexedArray(_Items(data, presented_dtype(attrs, data.dtype)))
        return Variable(dims, items, attrs, encoding)

    def get_attrs(self) -> dict[str, Any]:
        """Returns the attributes of the group."""
        return self._file.group_attrs(self._group)

    def get_dimensions(self) -> dict[str, int]:
        """Returns all dimensions and their lengths."""
        sizes = (size for variable in self.get_variables().values() for size in variable.sizes.items())
        return {str(dim): length for dim, length in sizes}

    def get_encoding(self) -> dict[str, Any]:
        """Returns the encoding of the dataset: the path it was read from, and the unlimited dimensions."""
        return {"source": self._file.path, "unlimited_dims": set(self._unlimited)}

    def close(self) -> None:
        """Does nothing: the file is closed when it is no longer used."""

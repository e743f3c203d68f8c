"""xarray: the engine ``"b2kit"`` for reading, and ``ds.b2kit.to_store(path)`` for writing.

    >>> import numpy as np, tempfile, xarray as xr
    >>> import b2kit.xarray
    >>> path = tempfile.mkdtemp() + "/store.b2d"
    >>> ds = xr.Dataset({"sst": (("lat", "lon"), np.ones((2, 3)), {"units": "K"})}, coords={"lat": [10, 20]})
    >>> ds.b2kit.to_store(path)
    >>> again = xr.open_dataset(path, engine="b2kit")
    >>> again.sst.dims, again.sst.attrs, again.lat.values
    (('lat', 'lon'), {'units': 'K'}, array([10, 20]))

Reading needs no import: xarray finds the engine by its name. See ``docs/reference/xarray.md`` for the convention.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Union, cast

import numpy as np
import xarray as xr
from xarray.backends.common import BackendArray, BackendEntrypoint, WritableCFDataStore
from xarray.backends.file_manager import CachingFileManager, DummyFileManager
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing
from xarray.core.variable import Variable

import b2kit
from b2kit import _b2kit, _xarray_fit, _xarray_hdf5
from b2kit._array import Array, Edit, sync_folder
from b2kit._remote import shown
from b2kit._staging import Stage
from b2kit._xarray_hdf5 import Hdf5Store
from b2kit.errors import ArgumentError, ChangedError, DamagedError, ExistsError, NotBloscError, RangeError, WrongTypeError
from b2kit.store import Group, SuperChunk

__all__ = ["Accessor", "Backend", "DataStore", "TreeAccessor"]

_DIMS = "_ARRAY_DIMENSIONS"
# Attribute of a group: the names of the variables in their order, if that is not the one in which they are listed.
_ORDER = "_ARRAY_ORDER"
# Marks characters of netCDF: those along the last dimension form a text.
_CHARACTERS = "_ARRAY_CHARACTERS"
# Encoding key for the filters that were read. Zarr's engine has the key `filters` for objects.
_FILTERS = "blosc2_filters"
# Compression options in an encoding.
_OPTIONS = ("codec", "level", "filters", "chunks", "blocks", "splitmode", "use_dict")
# Encoding keys that are set when opening and ignored when writing.
_TOLD = ("preferred_chunks", "source", "original_shape", "dtype", "unlimited_dims")
# Encoding keys for CF conventions. CF encoding removes those it uses.
_CF = (
    *("_FillValue", "missing_value", "scale_factor", "add_offset", "units", "calendar", "coordinates", "grid_mapping"),
    *("_Unsigned", "_Encoding"),
)
# Stored name of a variable without a name, as in other xarray backends.
_NAMELESS = "__values__"
_SUFFIXES = (".b2nd", ".b2d", ".b2z", ".b2e")


@dataclass
class _Write:
    """A variable to be written."""

    name: str
    variable: Variable
    attrs: dict[str, Any]
    options: dict[str, Any]

    @property
    def is_dask(self) -> bool:
        return self.variable.chunks is not None and self.variable.size > 0


class _Handle:
    """An open array in xarray's cache of open files. Its file is closed when it is dropped, after reads that run."""

    def __init__(self, reopen: Any, args: tuple[Any, ...], array: Array | None = None, mode: str = "r") -> None:
        self.array: Array | None = reopen(*args) if array is None else array

    def close(self) -> None:
        """Drops the array."""
        self.array = None


class _Items(BackendArray):
    """The items of an array, read lazily."""

    def __init__(self, array: Array, manager: Any) -> None:
        self._manager = manager
        self.shape = array.shape
        self._stored = array.dtype
        self.dtype = _xarray_fit.presented_dtype(array.attrs, array.dtype)

    def _array(self) -> Array:
        while True:
            array: Array | None = self._manager.acquire().array
            # Another thread may have closed it in the meantime.
            if array is not None:
                break
        if array.shape != self.shape or array.dtype != self._stored:
            raise ChangedError(f"{array.path}: changed since it was opened: now {array.dtype} {array.shape}")
        return array

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        array = self._array()
        if isinstance(key, indexing.VectorizedIndexer):
            return np.asarray(array.vindex[key.tuple], self.dtype)
        if isinstance(key, indexing.OuterIndexer):
            return np.asarray(array.oindex[key.tuple], self.dtype)
        return np.asarray(array[key.tuple], self.dtype)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)


class DataStore(WritableCFDataStore):
    """A group of a store, or a single array, as an xarray data store."""

    def __init__(
        self,
        source: Array | Group,
        name: str | None = None,
        above: Mapping[Hashable, int] | None = None,
        deferred: bool = False,
    ) -> None:
        self._source = source
        # Whether variables are only collected, to be written together with those of other groups.
        self._deferred = deferred
        self._name = name
        # Dimensions of the enclosing groups, with their lengths.
        self._above = above or {}
        self._managers: list[Any] = []
        # Variables of single characters that do not form texts.
        self.characters: dict[Any, bool] = {}
        # Variables whose type cannot change: those in the store, those with an explicit encoding.
        self.fixed: set[Any] = set()
        # The variables to write.
        self.attrs: dict[str, Any] = {}
        self.writes: list[_Write] = []

    def get_variables(self) -> Mapping[str, Variable]:
        """Returns the arrays of the group with their dimensions and attributes.

        The files are closed again, and opened by xarray's cache of open files when items are read.
        """
        if isinstance(self._source, Array):
            name = self._name or _name_of(self._source)
            found, nameless = {name: self._variable(name, self._source, self._source)}, [name]
            if _DIMS in self._source.attrs:
                nameless = []
        else:
            found, nameless = {}, []
            for name in self._names(self._source):
                member = self._source[name]
                if isinstance(member, Array):
                    found[name] = self._variable(name, member)
                    if _DIMS not in member.attrs:
                        nameless.append(name)
                    member.close()
                elif isinstance(member, SuperChunk):
                    what = f"{member.name} is a {member.kind}, not an array: left out"
                    member.close()
                    warnings.warn(what, UserWarning, stacklevel=2)
        key = "" if isinstance(self._source, Array) else self._source._key.strip("/").replace("/", "_") + "_"
        for before in ("", key):
            if nameless and not self._agree(found.values()):
                for name in nameless:
                    old = found[name]
                    dims = [f"{before}{name}_dim_{axis}" for axis in range(old.ndim)]
                    encoding = {**old.encoding, "preferred_chunks": dict(zip(dims, old.encoding["chunks"]))}
                    found[name] = Variable(dims, old._data, old.attrs, encoding, fastpath=True)
        # xarray accepts names of any type, but its annotations allow only strings.
        named: Any = {None if name == _NAMELESS else name: variable for name, variable in found.items()}
        return cast("Mapping[str, Variable]", named)

    @staticmethod
    def _names(group: Group) -> list[str]:
        """Returns the names of the members, in the order in which they were written."""
        names = list(group)
        order = group.attrs.get(_ORDER)
        places = {name: n for n, name in enumerate(order)} if isinstance(order, list) else {}
        return sorted(names, key=lambda name: (places.get(name, len(places)), name))

    def _variable(self, name: str, array: Array, own: Array | None = None) -> Variable:
        if array.dtype == "S1" and not array.attrs.get(_CHARACTERS, False):
            self.characters[None if name == _NAMELESS else name] = False
        function, args = array.__reduce__() if own is None else (None, ())
        manager: Any
        if function is None or array._origin not in ("path", "elsewhere"):
            # Opened by the caller, or nothing that could be closed.
            manager = DummyFileManager(_Handle(None, (), array))
        else:
            manager = CachingFileManager(_Handle, function, tuple(args), mode="r")
            self._managers.append(manager)
        return _variable(name, array, _Items(array, manager))

    def _agree(self, variables: Iterable[Variable]) -> bool:
        """Returns whether each dimension has the same length everywhere."""
        lengths = dict(self._above)
        sizes = (size for variable in variables for size in variable.sizes.items())
        return all(lengths.setdefault(dim, length) == length for dim, length in sizes)

    def get_attrs(self) -> dict[str, Any]:
        """Returns the attributes of the dataset."""
        if isinstance(self._source, Array):
            return {}
        attrs = self._source.attrs.asdict()
        attrs.pop(_ORDER, None)
        return attrs

    def get_dimensions(self) -> dict[Hashable, int]:
        """Returns all dimensions and their lengths."""
        return {dim: length for variable in self.get_variables().values() for dim, length in variable.sizes.items()}

    def get_encoding(self) -> dict[str, Any]:
        """Returns the encoding of the dataset: the path it was read from."""
        return {"source": self._source.path} if self._source.path else {}

    def close(self) -> None:
        """Closes the files that are open."""
        for manager in self._managers:
            manager.close()

    # Writing.

    def store(
        self,
        variables: Any,
        attributes: Any,
        check_encoding_set: Any = frozenset(),
        writer: Any = None,
        unlimited_dims: Any = None,
    ) -> None:
        """Encodes and writes variables; those in ``check_encoding_set`` have an explicit encoding."""
        self.fixed.update(check_encoding_set)
        store: Any = super().store
        store(variables, attributes, check_encoding_set, writer, unlimited_dims)

    def encode(self, variables: Any, attributes: Any) -> Any:
        """Encodes variables. A type that was read from a file becomes wider where values do not fit."""
        encode: Any = super().encode
        variables = {key: _xarray_fit.with_fine_times(key, _xarray_fit.with_texts(variable)) for key, variable in variables.items()}
        decoded = {key: _xarray_fit.with_long_times(variable) for key, variable in variables.items()}
        encoded, attrs = encode(decoded, attributes)
        wider = {key: _xarray_fit.wider(decoded[key], encoded[key], key in self.fixed) for key in decoded}
        if any(variable is not None for variable in wider.values()):
            decoded.update({key: variable for key, variable in wider.items() if variable is not None})
            encoded, attrs = encode(decoded, attributes)
        for key, variable in encoded.items():
            found = _xarray_fit.checked(key, decoded[key], variable)
            encoded[key] = _xarray_fit.with_short_times(key, variables[key], found, key in self.fixed)
        return encoded, attrs

    def encode_variable(self, v: Variable, name: Any = None) -> Variable:
        """Encodes a variable; Python strings become items of a fixed size."""
        encode: Any = super().encode_variable
        variable: Variable = encode(v, name=name)
        if variable.dtype.kind == "T" or variable.dtype.hasobject or variable.dtype.itemsize == 0:
            items = np.asarray(variable.values).astype(object)
            kind = "S" if any(isinstance(item, bytes) for item in items.flat) else "U"
            empty = b"" if kind == "S" else ""
            texts = [empty if item is None else item for item in items.flat]
            for item in texts:
                if isinstance(item, (str, bytes)) and item[-1:] in ("\0", b"\0"):
                    raise RangeError(f"{item!r} ends with a NUL, which items of a fixed size do not keep")
            text = np.array(texts, dtype=kind).reshape(items.shape)
            text = text if text.dtype.itemsize else text.astype(f"{kind}1")
            variable = Variable(variable.dims, text, variable.attrs, variable.encoding, fastpath=True)
        return variable

    def set_dimensions(self, variables: Any, unlimited_dims: Any = None) -> None:
        """Does nothing: each array stores its own dimensions."""

    def set_attributes(self, attributes: Mapping[Any, Any]) -> None:
        """Sets the attributes of the dataset, which are written with the variables."""
        self.attrs = {_text(name): _attribute(value) for name, value in attributes.items()}

    def set_variables(
        self,
        variables: Mapping[Any, Variable],
        check_encoding_set: Iterable[Any],
        writer: Any,
        unlimited_dims: Any = None,
    ) -> None:
        """Writes each variable as an array."""
        for key, variable in variables.items():
            name = _variable_name(key)
            options = _compression(name, variable, key in check_encoding_set)
            # Attributes read from other formats may name other dimensions.
            attrs = {_text(attr): _attribute(value) for attr, value in variable.attrs.items() if attr != _DIMS}
            layers = {_DIMS: [_text(dim) for dim in variable.dims], **attrs}
            self.writes.append(_Write(name, variable, layers, options))
        if not self._deferred:
            self.check_lengths()
            _write_all([self], None)
            self.finish()

    def check_lengths(self) -> None:
        """Checks that dimensions have the same length as in the existing arrays, including those to be replaced."""
        lengths: dict[Hashable, int] = {}
        for variable in self.get_variables().values():
            lengths.update(variable.sizes)
        for write in self.writes:
            for dim, length in write.variable.sizes.items():
                if lengths.get(dim, length) != length:
                    what = f"Unable to update size for existing dimension {dim!r}: {length} for {lengths[dim]}"
                    raise ArgumentError(what)

    def finish(self) -> None:
        """Writes the attributes, and the order of the variables if it is not that of a listing."""
        group = self.group()
        order = self._names(group)
        order += [write.name for write in self.writes if write.name not in order]
        new = [write.name for write in self.writes]
        # Existing variables keep their positions.
        order = [name for name in order if name not in new] + new if not set(order) - set(new) else order
        if order != sorted(order):
            group.attrs.update({**self.attrs, _ORDER: order})
        else:
            group.attrs.update(self.attrs)
            if _ORDER in group.attrs:
                del group.attrs[_ORDER]
            if group._key and not len(group) and not group.attrs:
                # A group without members is listed if it has a frame for attributes.
                group.attrs._change({}, [])

    def group(self) -> Group:
        """Returns the group."""
        if isinstance(self._source, Array):
            raise ArgumentError("a dataset is written to a store")
        return self._source


class Backend(BackendEntrypoint):
    """The ``"b2kit"`` engine of :func:`xarray.open_dataset`."""

    description: ClassVar[str] = "Open Blosc2 arrays (.b2nd) and stores (.b2d, .b2z, .b2e) with b2kit"
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "threads",
        "storage_options",
    )
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Returns whether this is the path of a Blosc2 file or store, or an open array or group.

        Parameters
        ----------
        filename_or_obj : object
            The argument of :func:`xarray.open_dataset`.

        Returns
        -------
        bool
            Whether the name ends as those of Blosc2 files do, or the object is an array or a group.
        """
        if isinstance(filename_or_obj, (Array, Group)):
            return True
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        return os.fspath(filename_or_obj).rstrip("/\\").lower().endswith(_SUFFIXES)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Opens an array, a group of a store, or one of an HDF5 or NetCDF file.

        Parameters
        ----------
        filename_or_obj : str or PathLike or Array or Group
            The array or store to open.
        mask_and_scale, decode_times, concat_characters, decode_coords, drop_variables, use_cftime, decode_timedelta
            As of :func:`xarray.open_dataset`.
        group : str, optional
            The key of the group; the root by default.
        threads : int, optional
            Number of threads for one read.
        storage_options : mapping, optional
            Let fsspec open the URL with these options, as :func:`b2kit.open` does.

        Returns
        -------
        xarray.Dataset
            The dataset. Its items are read on request.

        Raises
        ------
        b2kit.errors.NotFoundError
            There is no such file.
        b2kit.errors.NotBloscError
            The file is something else.
        """
        opened = filename_or_obj
        store: DataStore | Hdf5Store
        if isinstance(opened, (DataStore, Hdf5Store)):
            store = opened
        elif _xarray_hdf5.is_hdf5(opened, storage_options):
            store = Hdf5Store(_xarray_hdf5.opened(opened, threads, storage_options), group)
        else:
            store = DataStore(_opened(opened, group, threads, storage_options))
        if isinstance(store, DataStore) and concat_characters is not False:
            choices = dict(concat_characters) if isinstance(concat_characters, Mapping) else {}
            # Completed when the variables are read, before they are decoded.
            store.characters.update(choices)
            concat_characters = store.characters
        return StoreBackendEntrypoint().open_dataset(
            store,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, xr.Dataset]:
        """Opens all groups of a store.

        Parameters
        ----------
        filename_or_obj, group, threads, storage_options
            As of :meth:`open_dataset`.
        **options
            Other parameters of :meth:`open_dataset`.

        Returns
        -------
        dict of str to xarray.Dataset
            The datasets by their paths.
        """
        found: dict[str, xr.Dataset] = {}
        if _xarray_hdf5.is_hdf5(filename_or_obj, storage_options):
            file = _xarray_hdf5.opened(filename_or_obj, threads, storage_options)
            first = Hdf5Store(file, group)
            start = len(first.groups()[0].rstrip("/"))
            for path in first.groups():
                found[path[start:] or "/"] = self.open_dataset(Hdf5Store(file, path), **options)
            return found
        top: tuple[str, Array | Group, dict[Hashable, int]] = ("/", _opened(filename_or_obj, group, threads, storage_options), {})
        pending = [top]
        while pending:
            path, source, above = pending.pop()
            if isinstance(source, Group) and source.kind != "group":
                warnings.warn(f"{source.name} is a {source.kind}: left out", UserWarning, stacklevel=2)
                continue
            store = DataStore(source, above=above)
            found[path] = self.open_dataset(store, **options)
            if isinstance(source, Group):
                within = {**above, **store.get_dimensions()}
                pending.extend((f"{path.rstrip('/')}/{name}", below, within) for name, below in source.groups())
        return found

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Opens all groups of a store as a tree.

        Parameters
        ----------
        filename_or_obj : str or PathLike or Group
            The array or store to open.
        **options
            The parameters of :meth:`open_groups_as_dict`.

        Returns
        -------
        xarray.DataTree
            The tree.
        """
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


class Accessor:
    """The accessor ``ds.b2kit`` of datasets, after ``import b2kit.xarray``."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def to_store(
        self,
        path: str | os.PathLike[str],
        *,
        group: str | None = None,
        mode: str | None = None,
        encoding: _Encoding = None,
        append_dim: Hashable | None = None,
        region: Mapping[Any, slice | str] | str | None = None,
        compute: bool = True,
    ) -> Any:
        """Writes the dataset to a store (``.b2d``), or to a group in one.

        The store has all variables or, after an error or a crash, is unchanged. All Dask arrays are written in one computation,
        by all available workers, as with :func:`b2kit.dask.to_b2kit`.

        With `append_dim` and `region`, nothing is changed before everything is computed and compressed. Then the arrays are
        committed one after the other. An error reverts the committed ones, but a process that is killed at that moment leaves
        some of them with the new items.

        Parameters
        ----------
        path : str or PathLike
            The store.
        group : str, optional
            The key of the group.
        mode : {"w-", "w", "a"}, optional
            With ``"w-"``, the default, the store must not exist. With ``"w"`` an existing one is replaced, or with `group` only
            that group and its subgroups. With ``"a"`` variables are added or replaced.
        encoding : mapping, optional
            For each variable ``codec``, ``level``, ``filters``, ``chunks`` and ``blocks`` as of :func:`b2kit.asarray`, and CF
            keys such as ``dtype``, ``scale_factor``, ``_FillValue`` and ``units``.
        append_dim : hashable, optional
            Variables with this dimension are appended along it to those in the store; others are replaced by variables of the
            same shape, or added. The encoding is that of the store.
        region : mapping or "auto", optional
            Maps dimensions to slices, or to ``"auto"``, with which the slice is found by the coordinate. The variables are
            written into that part of those in the store. The encoding is that of the store.
        compute : bool
            Write Dask arrays now. Otherwise they are zeros in a new store, whose parts can be written with `region`; appends
            and regions change nothing until the result is computed.

        Returns
        -------
        dask.delayed.Delayed or None
            The task that writes the Dask arrays, with ``compute=False``.

        Raises
        ------
        b2kit.errors.ExistsError
            The store exists, with ``mode="w-"``.
        b2kit.errors.ArgumentError
            The path does not end with ``.b2d``, or the parameters or the dimensions do not fit.

        Examples
        --------
        >>> import numpy as np, tempfile, xarray as xr
        >>> import b2kit.xarray
        >>> path = tempfile.mkdtemp() + "/store.b2d"
        >>> ds = xr.Dataset({"t": (("time", "x"), np.ones((2, 3)))}, coords={"time": [0, 1]})
        >>> ds.b2kit.to_store(path, encoding={"t": {"codec": "lz4"}})
        >>> ds.assign_coords(time=[2, 3]).b2kit.to_store(path, append_dim="time")
        >>> dict(xr.open_dataset(path).sizes)
        {'time': 4, 'x': 3}
        """
        target = _checked_target(path)
        if append_dim is not None or region is not None:
            if append_dim is not None and region is not None:
                raise ArgumentError("either append_dim or region")
            if mode not in (None, "a", "r+"):
                raise ArgumentError(f'mode {mode!r}, expected "a" with append_dim or region')
            return _extend(target, group, self._dataset, encoding, append_dim, region, compute)
        return _save(target, [(group, self._dataset, encoding)], mode or "w-", compute)


class TreeAccessor:
    """The accessor ``tree.b2kit`` of :class:`xarray.DataTree`, after ``import b2kit.xarray``."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def to_store(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str = "w-",
        encoding: Mapping[str, _Encoding] | None = None,
        compute: bool = True,
    ) -> Any:
        """Writes all datasets of the tree as groups of a store (``.b2d``), which has all of them or none.

        Coordinates that a node inherits are written once.

        Parameters
        ----------
        path : str or PathLike
            The store.
        mode : {"w-", "w", "a"}
            As of :meth:`Accessor.to_store`.
        encoding : mapping, optional
            Maps paths of groups, such as ``"/"`` and ``"/deep"``, to the encodings of their variables.
        compute : bool
            As of :meth:`Accessor.to_store`.

        Returns
        -------
        dask.delayed.Delayed or None
            The task that writes the Dask arrays, with ``compute=False``.

        Raises
        ------
        b2kit.errors.ExistsError
            The store exists, with ``mode="w-"``.
        b2kit.errors.ArgumentError
            `encoding` names a group that the tree does not have, or the path does not end with ``.b2d``.
        """
        encodings = {f"/{name.strip('/')}": given for name, given in (encoding or {}).items()}
        root = self._tree.path.rstrip("/")
        parts: list[_Part] = []
        for node in self._tree.subtree:
            below = node.path.removeprefix(root).strip("/")
            # The root of the written tree gets its inherited coordinates.
            parts.append((below, node.to_dataset(inherit=not below), encodings.pop(f"/{below}", None)))
        if encodings:
            raise ArgumentError(f"there is no group {', '.join(sorted(encodings))} in the tree")
        return _save(_checked_target(path), parts, mode, compute)


_Encoding = Union[Mapping[Any, Mapping[str, Any]], None]
# Key of a group, its dataset, and its encoding.
_Part = tuple[Union[str, None], xr.Dataset, _Encoding]

_register: Any = xr.register_dataset_accessor
_register("b2kit")(Accessor)
_register_tree: Any = xr.register_datatree_accessor
_register_tree("b2kit")(TreeAccessor)


def _checked_target(path: str | os.PathLike[str]) -> str:
    target = os.path.abspath(os.fspath(path))
    if not target.endswith(".b2d"):
        raise ArgumentError(f"{path}: a dataset is written to a directory whose name ends with .b2d")
    return target


def _beside(target: str) -> str:
    """Returns a new name next to a store, so that a rename can move the file into the store."""
    return os.path.join(os.path.dirname(target), f".b2kit-{os.getpid()}-{uuid.uuid4().hex}.tmp")


def _group_in(path: str, group: str | None) -> Group:
    found = b2kit.open_group(path, "a")
    if group is None or not group.strip("/"):
        return found
    member = found.get(group)
    return member if isinstance(member, Group) else found.create_group(group)


def _save(target: str, parts: list[_Part], mode: str, compute: bool) -> Any:
    """Writes datasets to a copy of the store, or to a new one, which then replaces it."""
    if mode not in ("w", "w-", "a"):
        raise ArgumentError(f'mode {mode!r}, expected "w", "w-" or "a"')
    if mode == "w-" and os.path.lexists(target):
        raise ExistsError(f"{target}: already exists")
    stage = Stage(target)
    new = stage.new
    try:
        group = parts[0][0] if len(parts) == 1 else None
        if os.path.lexists(target) and (mode == "a" or group is not None and group.strip("/")):
            _link_all(target, new)
            if mode == "w" and group is not None and group in (there := b2kit.open_group(new, "a")):
                del there[group]
        stores = []
        for group, dataset, encoding in parts:
            store = DataStore(_group_in(new, group), deferred=True)
            dataset.dump_to_store(store, encoding=None if encoding is None else dict(encoding))
            store.check_lengths()
            stores.append(store)
        later = _write_all(stores, None if compute else (new, target))
        for store in stores:
            store.finish()
        _b2kit.publish(new, target, mode != "w-")
        sync_folder(os.path.dirname(target))
    finally:
        stage.remove()
    return None if compute else _joined(later)


def _link_all(target: str, new: str) -> None:
    """Creates a second tree of a store. Arrays are hard links, since they are replaced and not changed in it."""

    def link(source: str, to: str) -> str:
        # The frames with attributes and small members are changed in place.
        if os.path.basename(source).startswith(("__vlmeta__", "embed.")):
            return shutil.copy2(source, to)
        try:
            os.link(source, to, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, to, follow_symlinks=False)
        return to

    shutil.copytree(target, new, symlinks=True, copy_function=link)


def _discard(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def _write_all(stores: list[DataStore], later: tuple[str, str] | None) -> list[Any]:
    """Writes all variables, those of Dask in one computation.

    With ``later``, the names of the store now and finally, arrays of zeros take their place, and the tasks that replace
    them are returned.
    """
    stages: list[str] = []
    tasks: list[Any] = []
    for store in stores:
        for write in store.writes:
            group, data = store.group(), cast("Any", write.variable._data)
            if not write.is_dask:
                items = np.asarray(write.variable.values)
                group.create(write.name, items, attrs=write.attrs, overwrite=True, **cast("Any", write.options))
                continue
            from b2kit import dask

            options = {**write.options, "attrs": write.attrs}
            chunks = options.pop("chunks", None)
            path: str = group._path_for(write.name, True)
            if later is not None:
                zeros = {**options, "chunks": dask._chunk_shape(data, chunks), "overwrite": True}
                group.create(write.name, shape=data.shape, dtype=data.dtype, **cast("Any", zeros))
                path = os.path.join(later[1], os.path.relpath(path, later[0]))
            settings = {"chunks": chunks, "rechunk": True, "overwrite": True, "make": later is not None, "optimize": False}
            stage, task = dask.planned(data, path, options, **settings)
            stages.append(stage)
            tasks.append(task)
    if tasks and later is None:
        from b2kit.dask import compute_all

        compute_all(stages, tasks)
    return tasks


def _joined(tasks: list[Any]) -> Any:
    """Returns a task that runs all tasks."""
    from dask.delayed import delayed

    return delayed(_nothing, pure=False)(tasks)


def _nothing(_: object) -> None:
    """Ends a computation without a result."""


@dataclass
class _Change:
    """A change of an array in a store: new items after the existing ones along an axis, at a position, or of a new array."""

    name: str
    # Items, or the path of an array with them.
    items: Any
    attrs: dict[str, Any]
    axis: int | None = None
    place: tuple[slice, ...] | None = None

    def apply(self, edit: Edit) -> None:
        """Applies the change, one chunk at a time."""
        items = b2kit.open_array(self.items) if isinstance(self.items, str) else self.items
        if self.axis is not None:
            step = items.chunks[self.axis] if isinstance(items, Array) else max(1, items.shape[self.axis])
            for start in range(0, items.shape[self.axis], max(1, step)):
                part = (*[slice(None)] * self.axis, slice(start, start + step))
                edit.append(np.asarray(items[part]), self.axis)
        elif isinstance(items, Array):
            for part, values in items.iterchunks():
                edit[self._moved(part)] = values
        elif self.place is not None:
            edit[self.place] = items

    def _moved(self, part: tuple[slice, ...]) -> tuple[slice, ...]:
        place = self.place or ()
        return tuple(slice(to.start + at.start, to.start + at.stop) for to, at in zip(place, part))

    def undo(self, array: Array, old: Array) -> None:
        """Reverts the change."""
        if self.axis is not None:
            array.resize(old.shape)
        elif self.place is not None:
            with array.edit() as edit:
                lengths = [range(s.start, s.stop, max(1, n)) for s, n in zip(self.place, old.chunks)]
                for starts in product(*lengths):
                    ends = (min(at + max(1, n), s.stop) for at, n, s in zip(starts, old.chunks, self.place))
                    part = tuple(slice(at, end) for at, end in zip(starts, ends))
                    edit[part] = old[part]


def _extend(
    target: str,
    group: str | None,
    dataset: xr.Dataset,
    encoding: _Encoding,
    append_dim: Hashable | None,
    region: Mapping[Any, slice | str] | str | None,
    compute: bool,
) -> Any:
    """Appends a dataset to one in a store, or writes it into a part of it."""
    if not os.path.isdir(target):
        raise ArgumentError(f"{target}: there is no store to write to")
    root = b2kit.open_group(target, "a")
    into = root.group(group) if group is not None and group.strip("/") else root
    with xr.open_dataset(cast("Any", into), engine=Backend) as there:
        if encoding and (known := [name for name in encoding if name in there.variables]):
            raise ArgumentError(f"variable {known[0]!r} is in the store: its encoding cannot be changed")
        slices = None if region is None else _region(dataset, there, region)
        dataset = dataset.copy()
        for name, variable in dataset.variables.items():
            if name in there.variables:
                old = there.variables[name].encoding
                dropped = (*_TOLD, *_OPTIONS, _FILTERS)
                variable.encoding = {key: given for key, given in old.items() if key not in dropped or key == "dtype"}
        _check_dims(dataset, there, append_dim, slices)
        known = list(there.variables)
    store = DataStore(into, deferred=True)
    store.fixed.update(known)
    dataset.dump_to_store(store, encoding=None if encoding is None else dict(encoding))
    held = Stage(target) if compute else None
    stage = _beside(target) if held is None else held.new
    new: list[str] = []
    changes: list[_Change] = []
    stages: list[str] = []
    tasks: list[Any] = []
    os.mkdir(stage)
    try:
        for n, write in enumerate(store.writes):
            change = _change(write, into, append_dim, slices)
            is_new = change.axis is None and change.place is None
            path = os.path.join(stage, f"{n}.b2nd")
            options = {**write.options, "attrs": write.attrs} if is_new else {}
            if write.is_dask:
                from b2kit import dask

                settings = {"chunks": options.pop("chunks", None), "rechunk": True, "overwrite": False, "optimize": False}
                parts, task = dask.planned(write.variable._data, path, options, make=not compute, **settings)
                stages.append(parts)
                tasks.append(task)
                change.items = path
            elif is_new:
                b2kit.asarray(np.asarray(write.variable.values), path, **cast("Any", options))
                change.items = path
            else:
                change.items = np.asarray(write.variable.values)
            new += [write.name] if is_new else []
            changes.append(change)
        attrs = store.attrs if append_dim is not None else {}
        if not compute:
            from dask.delayed import delayed

            return delayed(_apply_later, pure=False)(target, into._key, changes, attrs, new, stage, tasks)
        if tasks:
            from b2kit.dask import compute_all

            compute_all(stages, tasks)
        _apply(target, into._key, changes, attrs, new)
    except BaseException:
        _discard(stage)
        raise
    finally:
        if held is not None:
            held.remove()
    return None


def _apply_later(*given: Any) -> None:
    *what, stage, _ = given
    try:
        _apply(*what)
    finally:
        _discard(stage)


def _apply(target: str, key: str, changes: list[_Change], attrs: dict[str, Any], new: list[str]) -> None:
    """Makes all changes, and reverts them if one fails."""
    group = Group(target, "a", key=key)
    edits: list[tuple[_Change, Array, Array, Edit]] = []
    added: list[str] = []
    done: list[tuple[_Change, Array, Array, Edit]] = []
    try:
        # In one order for all processes, so that two of them do not wait for each other.
        for change in sorted(changes, key=lambda change: change.name):
            if change.name not in new:
                array, old = group.array(change.name), group.array(change.name)
                edits.append((change, array, old, Edit(array)))
        for change, _, _, edit in edits:
            change.apply(edit)
        for change in changes:
            if change.name in new:
                path = group._path_for(change.name, False)
                os.rename(change.items, path)
                added.append(change.name)
        for one in edits:
            one[3]._commit()
            done.append(one)
        if added:
            group._store().announce()
        store = DataStore(group)
        store.attrs = attrs
        store.writes = [_Write(name, Variable((), 0), {}, {}) for name in new]
        if attrs or new:
            store.finish()
    except BaseException:
        for _, _, _, edit in edits:
            edit._close()
        for change, array, old, _ in done:
            change.undo(array, old)
        for name in added:
            del group[name]
        raise
    finally:
        for _, _, _, edit in edits:
            edit._close()
        group.close()


def _change(write: _Write, group: Group, append_dim: Hashable | None, region: dict[Any, slice] | None) -> _Change:
    """Returns the change that writes a variable, without its items."""
    change = _Change(write.name, None, write.attrs)
    member = group.get(write.name)
    if member is None:
        if region is not None:
            raise ArgumentError(f"variable {write.name!r} is not in the store: a region is a part of existing variables")
        return change
    if not isinstance(member, Array):
        raise ArgumentError(f"{write.name!r} is not an array in the store")
    variable, array = write.variable, member
    if variable.dtype != array.dtype and variable.dtype.newbyteorder("=") == array.dtype.newbyteorder("="):
        # xarray does not keep the byte order.
        variable = write.variable = variable.astype(array.dtype)
    if variable.dtype != array.dtype:
        raise ArgumentError(f"variable {write.name!r} is {variable.dtype} after encoding, in the store {array.dtype}")
    for key in ("units", "calendar", "scale_factor", "add_offset", "_FillValue"):
        if key not in write.attrs or key not in array.attrs:
            continue
        # NaN differs from itself.
        mine, theirs = (_same_units(str(attrs[key])) for attrs in (write.attrs, array.attrs))
        if mine != theirs:
            raise ArgumentError(f"variable {write.name!r} has {key} {mine!r}, in the store {theirs!r}")
    lengths = array.shape
    if append_dim is not None and append_dim in variable.dims:
        change.axis = variable.dims.index(append_dim)
        lengths = (*lengths[: change.axis], variable.shape[change.axis], *lengths[change.axis + 1 :])
    else:
        slices = region or {}
        change.place = tuple(
            slice(*slices.get(dim, slice(None)).indices(length)[:2]) for dim, length in zip(variable.dims, array.shape)
        )
        lengths = tuple(max(0, part.stop - part.start) for part in change.place)
    array.close()
    if variable.shape != lengths:
        raise ArgumentError(f"variable {write.name!r} has shape {variable.shape}, expected {lengths}")
    return change


def _same_units(text: str) -> str:
    """Returns units in one form: xarray writes `days since 2020-01-01` with and without the time of day, after a `T` or a space, and
    with and without microseconds.
    """
    text = re.sub(r"(\d)T(\d)", r"\1 \2", text)
    return re.sub(r"(:\d\d)\.0+$", r"\1", text).removesuffix(" 00:00:00")


def _check_dims(
    dataset: xr.Dataset, there: xr.Dataset, append_dim: Hashable | None, region: dict[Any, slice] | None
) -> None:
    if append_dim is not None and append_dim not in dataset.dims:
        raise ArgumentError(f"the dataset has no dimension {append_dim!r}")
    if append_dim is not None and append_dim not in there.dims:
        raise ArgumentError(f"the dataset in the store has no dimension {append_dim!r}")
    for name, variable in dataset.variables.items():
        if region is not None and not set(variable.dims) & set(region):
            raise ArgumentError(f"variable {name!r} has no dimension of the region: drop it with drop_vars({name!r})")
        if name in there.variables and variable.dims != there.variables[name].dims:
            raise ArgumentError(f"variable {name!r} has dimensions {variable.dims}, in the store {there.variables[name].dims}")
    if append_dim is None:
        return
    for name, variable in there.variables.items():
        if append_dim in variable.dims and name not in dataset.variables:
            raise ArgumentError(f"variable {name!r} of the store is not in the dataset: {append_dim!r} would have two lengths")
    for name, variable in dataset.variables.items():
        if name in there.variables:
            continue
        for dim, length in variable.sizes.items():
            old = there.sizes.get(dim, length)
            if dim == append_dim or old != length:
                what = f"variable {name!r} is not in the store: {dim!r} would have the lengths {old} and {length}"
                raise ArgumentError(what)


def _region(dataset: xr.Dataset, there: xr.Dataset, region: Mapping[Any, slice | str] | str) -> dict[Any, slice]:
    """Returns the slice of each dimension of a region."""
    if isinstance(region, str):
        if region != "auto":
            raise ArgumentError(f'region {region!r}, expected "auto" or slices')
        region = {dim: "auto" for dim in dataset.dims if dim in dataset.indexes}
    found: dict[Any, slice] = {}
    for dim, part in region.items():
        if dim not in there.sizes:
            raise ArgumentError(f"the dataset in the store has no dimension {dim!r}")
        if isinstance(part, slice):
            if part.step not in (None, 1):
                raise ArgumentError(f"the region of {dim!r} has step {part.step}, expected 1")
            found[dim] = part
            continue
        if dim not in dataset.indexes or dim not in there.indexes:
            raise ArgumentError(f"{dim!r} has no coordinate by which to find the region")
        places = there.indexes[dim].get_indexer(dataset.indexes[dim])
        if len(places) == 0 or (places < 0).any() or (np.diff(places) != 1).any():
            raise ArgumentError(f"the coordinate {dim!r} is not a consecutive part of that in the store")
        found[dim] = slice(int(places[0]), int(places[-1]) + 1)
    return found


def _opened(
    source: Any, group: str | None, threads: int | None, storage_options: Mapping[str, Any] | None
) -> Array | Group:
    if isinstance(source, (Array, Group)):
        opened: Array | Group | SuperChunk = source
    else:
        opened = b2kit.open(source, threads=threads, storage_options=storage_options)
    if isinstance(opened, SuperChunk):
        raise NotBloscError(f"{source}: a super-chunk, not an array or a store")
    if group is None or not group.strip("/"):
        return opened
    if isinstance(opened, Array):
        raise ArgumentError(f"{source}: an array has no group {group}")
    try:
        found = opened[group]
    except KeyError:
        raise ArgumentError(f"{source}: there is no group {group}") from None
    if isinstance(found, SuperChunk):
        raise ArgumentError(f"{source}: {group} is a {found.kind}, not a group")
    return found


def _name_of(array: Array) -> str:
    """Returns the variable name for an array that is a whole file."""
    given = array.attrs.get("name")
    if isinstance(given, str) and given:
        return given
    stem = os.path.splitext(os.path.basename(shown(array.path or "").rstrip("/")))[0]
    return stem or "array"


def _variable(name: str, array: Array, data: _Items) -> Variable:
    attrs = array.attrs.asdict()
    attrs.pop(_CHARACTERS, None)
    dims = attrs.pop(_DIMS, None)
    if dims is None:
        dims = [f"dim_{axis}" for axis in range(array.ndim)]
    elif not isinstance(dims, (list, tuple)) or len(dims) != array.ndim or not all(isinstance(d, str) for d in dims):
        raise DamagedError(f"{name}: {_DIMS} is {dims!r}, expected {array.ndim} names")
    for fill in ("_FillValue", "missing_value"):
        if fill in attrs:
            attrs[fill] = _xarray_fit.fill_of(attrs[fill], array.dtype)
    encoding: dict[str, Any] = {
        "codec": array.codec,
        "level": array.level,
        _FILTERS: list(array.filters),
        "chunks": array.chunks,
        "blocks": array.blocks,
        "preferred_chunks": dict(zip(dims, array.chunks)),
        "original_shape": array.shape,
    }
    if array.codec.startswith("zfp"):
        # It cannot be chosen for another array, since the parameter is missing here.
        del encoding["codec"], encoding[_FILTERS]
    if array.path:
        encoding["source"] = array.path
    items: Any = indexing.LazilyIndexedArray(data)
    return Variable(dims, items, attrs, encoding)


def _compression(name: str, variable: Variable, is_requested: bool) -> dict[str, Any]:
    """Returns the compression options in the encoding.

    Options that xarray kept from an earlier file are dropped if they do not fit.
    """
    encoding = variable.encoding
    options = {key: encoding[key] for key in _OPTIONS if encoding.get(key) is not None}
    if "filters" in options and not is_requested and not _are_filters(options["filters"]):
        # The options of Zarr.
        del options["filters"]
    if encoding.get(_FILTERS) is not None:
        options.setdefault("filters", encoding[_FILTERS])
    if is_requested:
        unknown = set(encoding) - set(_OPTIONS) - {_FILTERS} - set(_TOLD) - set(_CF)
        if unknown:
            raise ArgumentError(f"unexpected encoding of {name!r}: {', '.join(sorted(map(str, unknown)))}")
        return options
    shape = encoding.get("original_shape")
    for key in ("chunks", "blocks"):
        lengths = options.get(key)
        if lengths is not None and (len(lengths) != variable.ndim or (shape is not None and shape != variable.shape)):
            del options[key]
    if "chunks" not in options:
        options.pop("blocks", None)
    return options


def _are_filters(filters: Any) -> bool:
    if not isinstance(filters, (list, tuple)) or not filters:
        return False
    names = [filter[0] if isinstance(filter, tuple) and len(filter) == 2 else filter for filter in filters]
    return all(isinstance(name, str) for name in names)


def _attribute(value: Any) -> Any:
    """Converts a value to one that msgpack supports."""
    if isinstance(value, np.generic):
        # float32 is the only other type that msgpack distinguishes, and CF depends on the type of the scale factor.
        return value if isinstance(value, np.float32) else value.item()
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else value
    if isinstance(value, (tuple, list)):
        return [_attribute(item) for item in value]
    return value


def _variable_name(name: Any) -> str:
    if name is None:
        return _NAMELESS
    if not isinstance(name, str):
        raise WrongTypeError(f"the name of a variable is a string or None, not {name!r}")
    if not name:
        raise ArgumentError(f"the name of a variable is {name!r}: a string must be length 1 or longer")
    if "/" in name or name in (".", ".."):
        raise ArgumentError(f"a variable cannot be named {name!r} in a store")
    return name


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise WrongTypeError(f"names in a store are strings, not {name!r}")
    return name

"""xarray: the engine ``"b2kit"`` for reading, and ``ds.b2kit.to_store(path)`` for writing.

    >>> import numpy as np, tempfile, xarray as xr
    >>> import b2kit.xarray
    >>> path = tempfile.mkdtemp() + "/store.b2d"
    >>> ds = xr.Dataset({"sst": (("lat", "lon"), np.ones((2, 3)), {"units": "K"})}, coords={"lat": [10, 20]})
    >>> ds.b2kit.to_store(path)
    >>> again = xr.open_dataset(path, engine="b2kit")
    >>> again.sst.dims, again.sst.attrs, again.lat.values
    (('lat', 'lon'), {'units': 'K'}, array([10, 20]))

Reading needs no import: xarray finds the engine by its name. See ``docs/xarray.md`` for the convention.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, cast

import numpy as np
import xarray as xr
from xarray.backends.common import BackendArray, BackendEntrypoint, WritableCFDataStore
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing
from xarray.core.variable import Variable

import b2kit
from b2kit._array import Array
from b2kit.errors import ArgumentError, DamagedError, ExistsError, WrongTypeError
from b2kit.store import Group

__all__ = ["Accessor", "Backend", "DataStore"]

_DIMS = "_ARRAY_DIMENSIONS"
# Attribute that holds all attributes in a map if there are more than C-Blosc2 can read.
_MAP = "attrs"
_MOST = 16
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


class _Items(BackendArray):
    """The items of an array, read lazily."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            return np.asarray(self._array.vindex[key.tuple])
        if isinstance(key, indexing.OuterIndexer):
            return np.asarray(self._array.oindex[key.tuple])
        return np.asarray(self._array[key.tuple])

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)


class DataStore(WritableCFDataStore):
    """A group of a store, or a single array, as an xarray data store."""

    def __init__(
        self, source: Array | Group, name: str | None = None, above: Mapping[Hashable, int] | None = None
    ) -> None:
        self._source = source
        self._name = name
        # Dimensions of the enclosing groups, with their lengths.
        self._above = above or {}

    def get_variables(self) -> Mapping[str, Variable]:
        """Returns the arrays of the group with their dimensions and attributes."""
        if isinstance(self._source, Array):
            arrays = {self._name or _name_of(self._source): self._source}
        else:
            members = self._source.items()
            arrays = {name: member for name, member in members if isinstance(member, Array)}
        found = {name: _variable(name, array) for name, array in arrays.items()}
        nameless = [name for name, array in arrays.items() if _DIMS not in array.attrs]
        key = "" if isinstance(self._source, Array) else self._source._key.strip("/").replace("/", "_") + "_"
        for before in ("", key):
            if nameless and not self._agree(found.values()):
                found.update({name: _variable(name, arrays[name], f"{before}{name}_dim_") for name in nameless})
        # xarray accepts names of any type, but its annotations allow only strings.
        named: Any = {None if name == _NAMELESS else name: variable for name, variable in found.items()}
        return cast("Mapping[str, Variable]", named)

    def _agree(self, variables: Iterable[Variable]) -> bool:
        """Returns whether each dimension has the same length everywhere."""
        lengths = dict(self._above)
        sizes = (size for variable in variables for size in variable.sizes.items())
        return all(lengths.setdefault(dim, length) == length for dim, length in sizes)

    def get_attrs(self) -> dict[str, Any]:
        """Returns the attributes of the dataset."""
        if isinstance(self._source, Array):
            return {}
        return _merged(self._source.attrs.asdict())

    def get_dimensions(self) -> dict[Hashable, int]:
        """Returns all dimensions and their lengths."""
        return {dim: length for variable in self.get_variables().values() for dim, length in variable.sizes.items()}

    def get_encoding(self) -> dict[str, Any]:
        """Returns the encoding of the dataset: the path it was read from."""
        return {"source": self._source.path} if self._source.path else {}

    def close(self) -> None:
        """Does nothing: the store keeps nothing open."""

    # Writing.

    def encode_variable(self, v: Variable, name: Any = None) -> Variable:
        """Encodes a variable; Python strings become items of a fixed size."""
        encode: Any = super().encode_variable
        variable: Variable = encode(v, name=name)
        if variable.dtype.kind == "T" or variable.dtype.hasobject or variable.dtype.itemsize == 0:
            items = np.asarray(variable.values).astype(object)
            kind = "S" if any(isinstance(item, bytes) for item in items.flat) else "U"
            empty = b"" if kind == "S" else ""
            told = [empty if item is None else item for item in items.flat]
            text = np.array(told, dtype=kind).reshape(items.shape)
            text = text if text.dtype.itemsize else text.astype(f"{kind}1")
            variable = Variable(variable.dims, text, variable.attrs, variable.encoding, fastpath=True)
        return variable

    def set_dimensions(self, variables: Any, unlimited_dims: Any = None) -> None:
        """Does nothing: each array stores its own dimensions."""

    def set_attributes(self, attributes: Mapping[Any, Any]) -> None:
        """Writes the attributes of the dataset in one commit."""
        if attributes:
            self._group().attrs.update(_split({_text(name): _attribute(value) for name, value in attributes.items()}, 0))

    def set_variables(
        self,
        variables: Mapping[Any, Variable],
        check_encoding_set: Iterable[Any],
        writer: Any,
        unlimited_dims: Any = None,
    ) -> None:
        """Writes each variable as an array."""
        named = {_variable_name(key): variable for key, variable in variables.items()}
        self._check_lengths(named)
        for key, variable in variables.items():
            name = _variable_name(key)
            options = _compression(name, variable, key in check_encoding_set)
            attrs = {_text(attr): _attribute(value) for attr, value in variable.attrs.items()}
            told = {_DIMS: [_text(dim) for dim in variable.dims], **_split(attrs, 1)}
            self._write(name, variable, told, options)

    def _check_lengths(self, variables: Mapping[str, Variable]) -> None:
        """Checks that dimensions have the same length as in the existing arrays, including those to be replaced."""
        lengths: dict[Hashable, int] = {}
        for variable in self.get_variables().values():
            lengths.update(variable.sizes)
        for variable in variables.values():
            for dim, length in variable.sizes.items():
                if lengths.get(dim, length) != length:
                    what = f"Unable to update size for existing dimension {dim!r}: {length} for {lengths[dim]}"
                    raise ArgumentError(what)

    def _write(self, name: str, variable: Variable, attrs: dict[str, Any], options: dict[str, Any]) -> None:
        group = self._group()
        data: Any = variable._data
        if variable.chunks is not None and variable.size:
            from b2kit.dask import to_b2kit

            path = group._path_for(name, True)
            path.folder.make(os.path.dirname(path))
            to_b2kit(data, path, attrs=attrs, overwrite=True, **options)
        else:
            group.create(name, np.asarray(variable.values), attrs=attrs, overwrite=True, **options)

    def _group(self) -> Group:
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
    )
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Returns whether this is the path of a Blosc2 file or store, or an open array or group."""
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
    ) -> xr.Dataset:
        """Opens an array, or a group of a store.

        ``group`` is the key of the group; the root by default. ``threads`` is the number of threads for one read. The
        other parameters are those of :func:`xarray.open_dataset`.
        """
        opened = filename_or_obj
        store = opened if isinstance(opened, DataStore) else DataStore(_opened(opened, group, threads))
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
        self, filename_or_obj: Any, *, group: str | None = None, threads: int | None = None, **options: Any
    ) -> dict[str, xr.Dataset]:
        """Opens all groups of a store and returns them by path."""
        found: dict[str, xr.Dataset] = {}
        top: tuple[str, Array | Group, dict[Hashable, int]] = ("/", _opened(filename_or_obj, group, threads), {})
        pending = [top]
        while pending:
            path, source, above = pending.pop()
            store = DataStore(source, above=above)
            found[path] = self.open_dataset(store, **options)
            if isinstance(source, Group):
                within = {**above, **store.get_dimensions()}
                below = [(name, member) for name, member in source.items() if isinstance(member, Group)]
                pending.extend((f"{path.rstrip('/')}/{name}", member, within) for name, member in below)
        return found

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Opens all groups of a store as a tree."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


class Accessor:
    """The accessor ``ds.b2kit`` of datasets."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def to_store(
        self,
        path: str | os.PathLike[str],
        *,
        group: str | None = None,
        mode: str = "w-",
        encoding: Mapping[Any, Mapping[str, Any]] | None = None,
    ) -> None:
        """Writes the dataset to a store (``.b2d``), or to the group ``group`` in one.

        With ``mode="w-"`` the store must not exist, with ``"w"`` an existing one is replaced, and with ``"a"``
        variables are added or replaced one by one. In the first two modes the store appears only when it is complete.
        ``encoding`` maps each variable to ``codec``, ``level``, ``filters``, ``chunks`` and ``blocks`` as for
        :func:`b2kit.asarray`, in addition to CF keys such as ``dtype``, ``scale_factor``, ``_FillValue`` and ``units``.
        Dask arrays are written by :func:`b2kit.dask.to_b2kit`, with all available workers.
        """
        if mode not in ("w", "w-", "a"):
            raise ArgumentError(f'mode {mode!r}, expected "w", "w-" or "a"')
        target = os.path.abspath(os.fspath(path))
        if not target.endswith(".b2d"):
            raise ArgumentError(f"{path}: a dataset is written to a directory whose name ends with .b2d")
        if mode == "a":
            self._write(target, group, encoding)
            return
        if mode == "w-" and os.path.lexists(target):
            raise ExistsError(f"{path}: there is something of that name already")
        # Written next to the target, so that a rename makes it visible.
        stem = f"{target.removesuffix('.b2d')}.{os.getpid()}-{uuid.uuid4().hex[:8]}"
        new, old = f"{stem}.new.b2d", f"{stem}.old.b2d"
        try:
            self._write(new, group, encoding)
            if mode == "w" and os.path.lexists(target):
                os.rename(target, old)
            os.rename(new, target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def _write(self, path: str, group: str | None, encoding: Mapping[Any, Mapping[str, Any]] | None) -> None:
        found = b2kit.open(path, "a")
        assert isinstance(found, Group)
        if group is not None and group.strip("/"):
            member = found.get(group)
            found = member if isinstance(member, Group) else found.create_group(group)
        self._dataset.dump_to_store(DataStore(found), encoding=None if encoding is None else dict(encoding))


_register: Any = xr.register_dataset_accessor
_register("b2kit")(Accessor)


def _opened(source: Any, group: str | None, threads: int | None) -> Array | Group:
    opened = source if isinstance(source, (Array, Group)) else b2kit.open(source, threads=threads)
    if group is None or not group.strip("/"):
        return opened
    if isinstance(opened, Array):
        raise ArgumentError(f"{source}: an array has no group {group}")
    try:
        return opened[group]
    except KeyError:
        raise ArgumentError(f"{source}: there is no group {group}") from None


def _name_of(array: Array) -> str:
    """Returns the variable name for an array that is a whole file."""
    given = array.attrs.get("name")
    if isinstance(given, str) and given:
        return given
    stem = os.path.splitext(os.path.basename((array.path or "").rstrip("/")))[0]
    return stem or "array"


def _variable(name: str, array: Array, nameless: str = "dim_") -> Variable:
    attrs = _merged(array.attrs.asdict())
    dims = attrs.pop(_DIMS, None)
    if dims is None:
        dims = [f"{nameless}{axis}" for axis in range(array.ndim)]
    elif not isinstance(dims, (list, tuple)) or len(dims) != array.ndim or not all(isinstance(d, str) for d in dims):
        raise DamagedError(f"{name}: {_DIMS} is {dims!r}, expected {array.ndim} names")
    for fill in ("_FillValue", "missing_value"):
        # Fill values have the type of the items, which msgpack does not store.
        if fill in attrs and array.dtype.kind in "biufc" and not isinstance(attrs[fill], (str, bytes, list)):
            attrs[fill] = np.asarray(attrs[fill]).astype(array.dtype)[()]
    encoding: dict[str, Any] = {
        "codec": array.codec,
        "level": array.level,
        "filters": list(array.filters),
        "chunks": array.chunks,
        "blocks": array.blocks,
        "preferred_chunks": dict(zip(dims, array.chunks)),
        "original_shape": array.shape,
    }
    if array.path:
        encoding["source"] = array.path
    items: Any = indexing.LazilyIndexedArray(_Items(array))
    return Variable(dims, items, attrs, encoding)


def _compression(name: str, variable: Variable, is_told: bool) -> dict[str, Any]:
    """Returns the compression options in the encoding.

    Options that xarray kept from an earlier file are dropped if they do not fit.
    """
    encoding = variable.encoding
    options = {key: encoding[key] for key in _OPTIONS if encoding.get(key) is not None}
    if is_told:
        unknown = set(encoding) - set(_OPTIONS) - set(_TOLD) - set(_CF)
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


def _merged(attrs: dict[str, Any]) -> dict[str, Any]:
    more = attrs.pop(_MAP, None)
    if isinstance(more, dict):
        return {**more, **attrs}
    return attrs if more is None else {**attrs, _MAP: more}


def _split(attrs: dict[str, Any], taken: int) -> dict[str, Any]:
    """Returns the attributes unchanged, or in one map if there are too many for C-Blosc2."""
    if len(attrs) + taken > _MOST or _MAP in attrs:
        return {_MAP: attrs}
    return attrs


def _attribute(value: Any) -> Any:
    """Converts a value to one that msgpack supports."""
    if isinstance(value, np.generic):
        # float32 is the only other type that msgpack distinguishes, and CF depends on the type of the scale factor.
        return value if isinstance(value, np.float32) else value.item()
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else value
    if isinstance(value, tuple):
        return [_attribute(item) for item in value]
    if isinstance(value, list):
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

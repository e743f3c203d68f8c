"""References into ``.b2nd`` files and stores: they are read as Zarr arrays by zarr and xarray, without being copied.

    >>> import b2kit, numpy as np, tempfile, zarr
    >>> from b2kit import virtual
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> _ = b2kit.asarray(np.arange(12.0).reshape(3, 4), path)
    >>> refs = virtual.kerchunk(path)
    >>> sorted(refs["refs"])
    ['a/c/0/0', 'a/zarr.json', 'zarr.json']

:func:`kerchunk` returns references that fsspec's ``reference`` file system reads. :class:`Parser` is a parser for
VirtualiZarr. Readers need this package for the codec ``b2kit.chunk``, see ``docs/how-to/zarr.md``.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.dtype import parse_dtype

from b2kit import _b2kit
from b2kit._array import Array
from b2kit._remote import shown
from b2kit.errors import ArgumentError, LimitError, UnsupportedError
from b2kit.store import Group

__all__ = ["Parser", "kerchunk"]

_DIMS = "_ARRAY_DIMENSIONS"
_ORDER = "_ARRAY_ORDER"
# The chunks of one array or store that become references, if the caller sets no other limit: 2 GB of memory.
_MOST = 1 << 22
# The kinds of chunks that `_chunk_places` returns.
_KINDS = ("stored", "zeros", "nan", "uninit", "value")
# First bytes of a file, which are read in one request: header, and all of a small file.
_FIRST = 64 << 10


class _Member:
    """An array, and the locations of its chunks."""

    def __init__(self, name: str, array: Array, url: str, offset: int, most: int, zarr_format: int = 3) -> None:
        self.name, self.array, self.url = name, array, url
        self.grid = tuple(-(-length // chunk) for length, chunk in zip(array.shape, array.chunks))
        self.count = math.prod(self.grid)
        if self.count > most:
            raise LimitError(f"{name} and members before it have more than {most} chunks (max_references)")
        kind_of, start_of, stop_of = array._chunk_places() if self.count else (b"", b"", b"")
        places = zip((_KINDS[kind] for kind in kind_of), memoryview(start_of).cast("Q"), memoryview(stop_of).cast("Q"))
        kinds = {_KINDS[kind] for kind in set(kind_of)}
        dtype = array.dtype
        # Special chunks are not references: those of the fill value are missing, others are inline.
        self._is_nan = "nan" in kinds and not kinds & {"zeros", "uninit"} and dtype.kind in "fc"
        filled = {"nan"} if self._is_nan else {"zeros", "uninit"}
        if zarr_format == 2 and not self._is_nan:
            # For xarray, items that equal the fill value are missing; without one, so is the content of missing chunks.
            filled = {"zeros", "uninit"} if self._masked() == 0 else set()
        self.chunks: dict[tuple[int, ...], tuple[int, int] | bytes] = {}
        for nchunk, (kind, start, stop) in enumerate(places):
            at = tuple(int(n) for n in np.unravel_index(nchunk, self.grid)) if self.grid else ()
            if kind == "stored":
                self.chunks[at] = (offset + start, stop - start)
            elif kind not in filled:
                self.chunks[at] = array._chunk(nchunk)

    @property
    def fill(self) -> Any:
        dtype = self.array.dtype
        return dtype.type(np.nan) if self._is_nan else np.zeros((), dtype)[()]

    def _masked(self) -> Any:
        """Returns the attribute ``_FillValue`` as an item, if it is one."""
        value, dtype = self.array.attrs.get("_FillValue"), self.array.dtype
        is_number = isinstance(value, (int, float, complex, np.number)) and dtype.kind in "iufc"
        with np.errstate(all="ignore"):
            found = np.asarray(value).astype(dtype)[()] if is_number else None
        return found if found == value or found != found else None

    @property
    def endian(self) -> str:
        order = self.array.dtype.str[0]
        return "big" if order == ">" else "little"

    def attrs(self) -> dict[str, Any]:
        """Returns the attributes that zarr-python can store."""
        return _plain(self.array.attrs)

    def v3(self) -> ArrayV3Metadata:
        array, attrs, missing = self.array, self.attrs(), self._masked()
        if missing is not None and array.dtype.kind in "fc":
            # As xarray encodes it.
            parts = [base64.b64encode(np.array(part, "<f8").tobytes()).decode() for part in (missing.real, missing.imag)]
            attrs["_FillValue"] = parts if array.dtype.kind == "c" else parts[0]
        dims = attrs.pop(_DIMS, None)
        if not isinstance(dims, list) or len(dims) != array.ndim:
            # As the engine for xarray names them.
            dims = [f"dim_{axis}" for axis in range(array.ndim)]
        return ArrayV3Metadata(
            shape=array.shape,
            data_type=parse_dtype(array.dtype.newbyteorder("="), zarr_format=3),
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": array.chunks}},
            chunk_key_encoding={"name": "default"},
            fill_value=self.fill,
            codecs=[{"name": "b2kit.chunk", "configuration": {"blocks": list(array.blocks), "endian": self.endian}}],
            attributes=attrs,
            dimension_names=dims,
        )

    def v2(self) -> dict[str, Any]:
        array, dtype = self.array, self.array.dtype
        stored = parse_dtype(dtype, zarr_format=2)
        fill = self.fill if self._is_nan else self._masked()
        return {
            "zarr_format": 2,
            "shape": list(array.shape),
            "chunks": list(array.chunks),
            "dtype": stored.to_json(zarr_format=2)["name"],
            "fill_value": None if fill is None else stored.to_json_scalar(fill, zarr_format=2),
            "order": "C",
            "filters": None,
            "compressor": {
                "id": "b2kit.chunk",
                "shape": list(array.chunks),
                "blocks": list(array.blocks),
                "itemsize": dtype.itemsize,
            },
        }


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in attrs.items():
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        found[name] = value
    return found


def _members(opened: Any, path: str, url: str, most: int, zarr_format: int) -> Iterator[_Member]:
    """Opens the arrays of a file or store. ``url`` is its location for readers."""
    if isinstance(opened, Array):
        name = os.path.basename(shown(path).rstrip("/")).removesuffix(".b2nd")
        yield _Member(name, opened, url, 0, most, zarr_format)
        return
    if not isinstance(opened, Group):
        raise UnsupportedError(f"{shown(path)}: neither an array nor a store")
    store = opened._store()
    for key, array in opened.walk():
        window = store.window(f"{opened._key}/{key}")
        if window is not None:
            member = _Member(key, array, url, window[0], most, zarr_format)
        elif array.path is not None and os.path.isfile(array.path):
            inside = os.path.relpath(array.path, path).replace(os.sep, "/")
            member = _Member(key, array, f"{url.rstrip('/')}/{inside}", 0, most, zarr_format)
        else:
            raise UnsupportedError(f"{shown(path)}: {key} is compressed together with other members")
        most -= member.count
        yield member


def kerchunk(
    path: str | os.PathLike[str],
    *,
    url: str | None = None,
    zarr_format: Literal[2, 3] = 3,
    max_references: int = _MOST,
) -> dict[str, Any]:
    """Returns references into a file or store, as kerchunk writes them to JSON (version 1).

    The arrays are members of a Zarr group; that of a file has its name. Chunks are read without their checksums.

    Parameters
    ----------
    path : str or PathLike
        The file or store.
    url : str, optional
        The location of the file for readers; by default its path, without user, password and query: readers need their own.
    zarr_format : {3, 2}
        With 3, readers fetch and decode only the blocks that they need. Kerchunk's own tools expect 2, whose chunks are read
        as a whole, and whose fill value is the attribute ``_FillValue``, since xarray takes such items for missing ones.
    max_references : int
        A small file may claim to have any number of chunks. With more than this, no references are made.

    Returns
    -------
    dict
        The references, for the ``reference`` file system of fsspec.

    Raises
    ------
    b2kit.errors.LimitError
        There are more than `max_references` chunks.
    b2kit.errors.UnsupportedError
        An array is a directory, or compressed together with others (``.b2e``).
    b2kit.errors.ArgumentError
        `url` has a user, a password or a query.

    Examples
    --------
    >>> import b2kit, numpy as np, tempfile
    >>> from b2kit import virtual
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> _ = b2kit.asarray(np.arange(4.0), path)
    >>> virtual.kerchunk(path, url="s3://bucket/a.b2nd")["refs"]["a/c/0"][0]
    's3://bucket/a.b2nd'
    """
    import b2kit

    text = os.fspath(path)
    where = url if url is not None else shown(text) if "://" in text else os.path.abspath(text)
    if "://" in where and shown(where) != where:
        raise ArgumentError(f"url {shown(where)}: its user, password or query would be in the references")
    refs: dict[str, Any] = {}
    opened = b2kit.open(text)

    def add_group(key: str) -> None:
        group = opened.group(key) if key and isinstance(opened, Group) else opened
        attrs = _plain(group.attrs) if isinstance(group, Group) else {}
        attrs.pop(_ORDER, None)
        above = f"{key}/" if key else ""
        if zarr_format == 3:
            refs[f"{above}zarr.json"] = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attrs})
        else:
            refs[f"{above}.zgroup"] = json.dumps({"zarr_format": 2})
            refs[f"{above}.zattrs"] = json.dumps(attrs)

    add_group("")
    for member in _members(opened, text, where, max_references, zarr_format):
        parents = member.name.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            add_group("/".join(parents[:depth]))
        if zarr_format == 3:
            refs[f"{member.name}/zarr.json"] = json.dumps(member.v3().to_dict())
        else:
            refs[f"{member.name}/.zarray"] = json.dumps(member.v2())
            refs[f"{member.name}/.zattrs"] = json.dumps(member.attrs())
        for at, chunk in member.chunks.items():
            named = "/".join(["c", *map(str, at)]) if zarr_format == 3 else ".".join(map(str, at)) or "0"
            place: Any = "base64:" + base64.b64encode(chunk).decode() if isinstance(chunk, bytes) else [member.url, *chunk]
            refs[f"{member.name}/{named}"] = place
    return {"version": 1, "refs": refs}


class _Object:
    """An object of an obstore store, whose size is known after the first request."""

    def __init__(self, store: Any, path: str) -> None:
        self._store, self._path, self.name = store, path, path
        answer = store.get(path, options={"range": (0, _FIRST)})
        self._first = bytes(answer.buffer())
        self.size = int(answer.meta["size"])
        self._tags = (str(answer.meta.get("e_tag")), str(answer.meta.get("last_modified")))
        self._last: tuple[int, bytes] = (self.size, b"")

    def fetch(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        missing = [(start, end) for start, end in ranges if self._have(start, end) is None]
        if missing:
            # Index and trailer are adjacent.
            start, end = min(start for start, _ in missing), max(end for _, end in missing)
            if end - start > 4 * sum(end - start for start, end in missing) + _FIRST:
                return [self._have(*each) or self._range(*each) for each in ranges]
            self._last = (start, self._range(start, end))
        found = [self._have(start, end) for start, end in ranges]
        return [part if part is not None else b"" for part in found]

    def _range(self, start: int, end: int) -> bytes:
        return bytes(self._store.get_range(self._path, start=start, end=end))

    def _have(self, start: int, end: int) -> bytes | None:
        for at, part in (0, self._first), self._last:
            if at <= start and end <= at + len(part):
                return part[start - at : end - at]
        return None

    def identity(self) -> tuple[object, ...]:
        return (self.name, self.size, *self._tags)

    def afresh(self) -> _Object:
        return _Object(self._store, self._path)


class Parser:
    """A parser for VirtualiZarr, which reads a ``.b2nd`` file as a virtual dataset with two requests.

    Chunks of the fill value are missing, other special chunks are inline.

    Parameters
    ----------
    name : str, optional
        The name of the variable, by default that of the file.
    max_references : int
        As of :func:`kerchunk`.
    """

    def __init__(self, name: str | None = None, *, max_references: int = _MOST) -> None:
        self.name = name
        self.max_references = max_references

    def __call__(self, url: str, registry: Any) -> Any:
        """Opens the file at a URL.

        Parameters
        ----------
        url : str
            The file.
        registry : object
            VirtualiZarr's registry of object stores.

        Returns
        -------
        virtualizarr.manifests.ManifestStore
            The references.

        Raises
        ------
        ImportError
            VirtualiZarr is not installed.
        b2kit.errors.LimitError
            The file has more than `max_references` chunks.
        """
        manifests: Any = importlib.import_module("virtualizarr.manifests")
        store, path = registry.resolve(url)
        array = Array(_Object(store, path))
        name = self.name or os.path.basename(path).removesuffix(".b2nd")
        # The references are stored.
        url = shown(url)
        member = _Member(name, array, url, 0, self.max_references)
        paths = np.full(member.grid, "", np.dtypes.StringDType())
        offsets, lengths = np.zeros(member.grid, np.uint64), np.zeros(member.grid, np.uint64)
        inlined = {}
        for at, chunk in member.chunks.items():
            if isinstance(chunk, bytes):
                paths[at], lengths[at], inlined[at] = "__inlined__", len(chunk), chunk
            else:
                paths[at], offsets[at], lengths[at] = url, *chunk
        manifest = manifests.ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths, inlined=inlined)
        made = manifests.ManifestArray(metadata=member.v3(), chunkmanifest=manifest)
        group = manifests.ManifestGroup(arrays={name: made})
        return manifests.ManifestStore(group, registry=registry)

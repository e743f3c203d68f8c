"""The common part of groups, data sets and named types, and their attributes."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy as np

from b2kit import _b2kit
from b2kit.errors import ArgumentError, NoSuchKeyError, ReadOnlyError
from b2kit.h5py import h5t
from b2kit.h5py._types import Empty, Heap, ItemType, Reference, check_string_dtype

if TYPE_CHECKING:
    from b2kit.h5py._files import File

__all__ = ["AttributeManager", "AttrID", "Datatype", "HLObject", "ObjectID", "Opened"]


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Raises :class:`ReadOnlyError`."""
    raise ReadOnlyError("b2kit.h5py is read-only: h5py writes HDF5 files, and `b2kit convert` makes such of arrays")


class Opened:
    """An open file, which all of its objects share.

    Parameters
    ----------
    objects
        The objects of the file.
    folder
        The folder of the file; None if it is not a local one.
    external_links
        Which files external links may refer to: ``"folder"``, ``"anywhere"`` or ``"never"``.
    threads
        Number of threads that read and decode; None for the default.
    decode_strings
        Whether texts of variable length become ``str``; None for those of attributes only, ``"all"`` for more of these.
    depth
        Number of links to other files that were followed to this file.
    """

    def __init__(
        self,
        objects: _b2kit.Hdf5Objects,
        folder: str | None,
        external_links: str,
        threads: int | None,
        decode_strings: bool | Literal["all"] | None,
        depth: int = 0,
    ) -> None:
        self.objects, self.folder, self.external_links = objects, folder, external_links
        self.threads, self.decode_strings, self.depth = threads, decode_strings, depth
        self.address_size = objects.address_size
        self.is_open = True
        # Files that external links and virtual data sets refer to, by path.
        self.others: dict[str, File] = {}

    @cached_property
    def names(self) -> dict[int, str]:
        """The first path of each object, by its address."""
        found = {self.objects.root: "/"}
        pending = [(self.objects.root, "/")]
        while pending:
            group, path = pending.pop()
            for name, target in self.objects.links(group, path)[0]:
                if isinstance(target, int) and target not in found:
                    found[target] = posixpath.join(path, name)
                    pending.append((target, found[target]))
        return found

    def other(self, name: str) -> File:
        """Returns the target file of an external link.

        Raises
        ------
        KeyError
            The file does not exist, or external links may not refer to it.
        """
        from b2kit.h5py._files import File

        if self.external_links == "never" or self.folder is None or self.depth >= 16:
            raise NoSuchKeyError(f"a link to the file {name!r}, and such links are not followed")
        path = os.path.join(self.folder, name)
        if self.external_links == "folder":
            folder = os.path.realpath(self.folder)
            if os.path.commonpath([folder, os.path.realpath(path)]) != folder:
                raise NoSuchKeyError(f"a link to the file {name!r} outside of {folder}: see external_links of File")
        if path not in self.others:
            try:
                file = File(
                    path, external_links=self.external_links, threads=self.threads, decode_strings=self.decode_strings
                )
            except OSError as error:
                raise NoSuchKeyError(f"a link to the file {name!r}, which cannot be opened: {error}") from error
            file._opened.depth = self.depth + 1
            self.others[path] = file
        return self.others[path]

    def type(self, described: tuple[Any, ...]) -> ItemType:
        """Returns a type."""
        return ItemType(described, self.address_size)


class ObjectID:
    """The identity of an object of a file: equal for all names of the same object."""

    def __init__(self, opened: Opened, address: int) -> None:
        self._opened, self._address = opened, address

    @property
    def id(self) -> int:
        """The address in the file."""
        return self._address

    @property
    def valid(self) -> bool:
        """Whether the file is open."""
        return self._opened.is_open

    def __bool__(self) -> bool:
        return self._opened.is_open

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectID):
            return NotImplemented
        return self._opened is other._opened and self._address == other._address

    def __hash__(self) -> int:
        return hash((id(self._opened), self._address))


class HLObject:
    """The common part of groups, data sets and named types."""

    def __init__(self, file: File | None, opened: Opened, address: int, name: str | None) -> None:
        self._file, self._opened, self._address, self._name = file, opened, address, name
        self._above: Any = None

    @cached_property
    def id(self) -> Any:
        """The identity of the object in its file."""
        return ObjectID(self._opened, self._address)

    @property
    def file(self) -> Any:
        """The :class:`File` of the object."""
        return self._file

    @property
    def name(self) -> str | None:
        """The path from the root under which the object was opened; None if there is no link to it."""
        if self._name is None:
            self._name = self._opened.names.get(self._address)
        return self._name

    @property
    def _shown(self) -> str:
        # For errors, without a search for a name.
        return self._name or f"object {self._address}"

    @property
    def parent(self) -> Any:
        """The group in which the object was opened."""
        if self.name is None:
            raise ValueError("Parent of an anonymous object is undefined")
        if self._above is None:
            above = posixpath.dirname(self.name)
            self._above = self.file if above == "/" else self.file[above]
        return self._above

    @property
    def ref(self) -> Reference:
        """A reference to the object."""
        return Reference(self._address)

    @cached_property
    def attrs(self) -> AttributeManager:
        """The attributes."""
        return AttributeManager(self)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self.name is None:
            raise TypeError("an object without a name cannot be pickled")
        function, (reopen, (path, options, _), token) = self.file.__reduce__()
        return function, (reopen, (path, options, self.name), token)

    def __bool__(self) -> bool:
        return self._opened.is_open

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HLObject) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


class AttrID(NamedTuple):
    """The metadata of an attribute."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    kind: h5t.TypeID

    def get_type(self) -> h5t.TypeID:
        """Return the type of the items."""
        return self.kind


class AttributeManager(Mapping[str, Any]):
    """The attributes of an object: a read-only mapping of names to values.

    Values are NumPy scalars and arrays, ``str`` for texts of variable length, NumPy's ``bytes_`` for texts of fixed length, and
    :class:`Empty`.
    """

    def __init__(self, parent: HLObject) -> None:
        self._parent = parent

    @cached_property
    def _stored(self) -> dict[str, tuple[tuple[Any, ...], tuple[int, ...] | None, bytes]]:
        parent = self._parent
        found = parent._opened.objects.attributes(parent._address, parent._shown)
        return {name: (kind, shape, data) for name, kind, shape, data in found}

    def _find(self, name: str | bytes) -> tuple[tuple[Any, ...], tuple[int, ...] | None, bytes]:
        key = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
        try:
            return self._stored[key]
        except KeyError:
            raise NoSuchKeyError(f"{self._parent._shown}: no attribute {key!r}") from None

    def __getitem__(self, name: str | bytes) -> Any:
        described, shape, data = self._find(name)
        kind = self._parent._opened.type(described)
        dtype = kind.dtype
        if shape is None:
            return Empty(dtype)
        opened, texts = self._parent._opened, check_string_dtype(dtype)
        # Texts in compounds and sequences stay bytes, as in h5py.
        is_text = texts is not None and texts.length is None
        decodes = is_text if opened.decode_strings is None else bool(opened.decode_strings)
        array = kind.items(data, shape, Heap(opened.objects, f"{self._parent._shown}: attribute {name!r}", decodes))
        value = array[()] if array.ndim == 0 else array
        if opened.decode_strings == "all" and isinstance(value, bytes) and texts is not None and texts.encoding == "utf-8":
            return value.decode("utf-8", "surrogateescape")
        return value

    def get_id(self, name: str | bytes) -> AttrID:
        """Return the metadata of an attribute.

        Raises
        ------
        KeyError
            There is no such attribute.
        """
        described, shape, _ = self._find(name)
        kind = self._parent._opened.type(described)
        text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
        return AttrID(text, kind.dtype, shape, h5t.type_id(kind))

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            name = name.decode("utf-8", "surrogateescape")
        return name in self._stored

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AttributeManager):
            return self._parent == other._parent
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(self._parent)

    def __repr__(self) -> str:
        if not self._parent:
            return "<Attributes of closed HDF5 object>"
        return f"<Attributes of HDF5 object at {id(self._parent)}>"

    __setitem__ = __delitem__ = create = modify = update = pop = popitem = clear = setdefault = refuse


class Datatype(HLObject):
    """A named type in a file."""

    @cached_property
    def _kind(self) -> ItemType:
        return self._opened.type(self._opened.objects.named_type(self._address, self._shown))

    @cached_property
    def id(self) -> h5t.TypeID:
        """The type."""
        return h5t.type_id(self._kind, self._address)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, with h5py's metadata."""
        return self._kind.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Datatype) and (self._opened, self._address) == (other._opened, other._address)

    def __hash__(self) -> int:
        return hash((id(self._opened), self._address))

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 named type>"
        name = '"(anonymous)"' if self.name is None else f'"{posixpath.basename(self.name)}"'
        return f"<HDF5 named type {name} (dtype {self.dtype.str})>"


def text_of(name: Any) -> str:
    """Returns a name given as text or bytes.

    Raises
    ------
    ArgumentError
        It is neither.
    """
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    if isinstance(name, str):
        return name
    raise ArgumentError(f"{name!r} is not a name")

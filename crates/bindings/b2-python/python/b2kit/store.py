"""Stores: several arrays under keys, in the layout of python-blosc2's ``TreeStore``.

``.b2d`` directories can be read and changed; ``.b2z`` archives and ``.b2e`` frames are read, and written as a whole by
:meth:`Group.save`.
"""

from __future__ import annotations

import hashlib
import operator
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Literal, Union, overload
from weakref import WeakSet

import numpy as np

from b2kit import _b2kit, _repr, hdf5
from b2kit._array import Array, Inside, _unpickled, absolute, as_shape, file_token, sync_folder
from b2kit._create import _Items, _regular, asarray, copy_array, zeros
from b2kit._options import CopyOptions, Options, Path
from b2kit._progress import Progress, progress_callback
from b2kit._remote import Source as _Source
from b2kit._remote import is_web, shown, source_of, source_with
from b2kit._repr import printable
from b2kit.attrs import Layers
from b2kit.errors import (
    ArgumentError,
    DamagedError,
    Error,
    IoError,
    NoSuchKeyError,
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

__all__ = ["Group", "GroupAttrs", "SuperChunk", "copy", "open", "open_array", "open_group", "verify"]

Source = Union[Path, bytes, bytearray, memoryview, IO[bytes], Any]

# The member that holds the attributes of a group.
_ATTRS = "__vlmeta__"
# The member that makes a group a table of python-blosc2.
_TABLE = "_meta"
# The names that python-blosc2 gives to frames with these metalayers.
_KINDS = {
    "vlarray": "ObjectArray",
    "batcharray": "BatchArray",
    "b2o": "B2Object",
    "b2embed": "EmbedStore",
    "b2dict": "DictStore",
    "b2tree": "TreeStore",
}


def find(path: str, mode: Literal["r", "a"], threads: int | None, lock: bool = True) -> Group | None:
    """Returns the root group of the store at a path, or ``None`` if there is no store."""
    if not os.path.exists(path):
        if mode != "a" or not path.endswith(".b2d"):
            return None
        _b2kit.Store.create(path)
    elif _b2kit.Store.open(path) is None:
        return None
    return Group(path, mode, threads, lock=lock)


class _Opened:
    """Arrays and frames that were opened through a group, and are closed with it."""

    def __init__(self) -> None:
        self.members: WeakSet[Array | SuperChunk] = WeakSet()
        self.closed = False


class SuperChunk:
    """A frame that is not an array, in a file or a store: bytes, or objects that only python-blosc2 can decode.

    It can be verified, and its bytes and attributes can be read. ``kind`` is its name in python-blosc2.
    """

    def __init__(self, frame: _b2kit.FrameBase, name: str) -> None:
        self._open: _b2kit.FrameBase | None = frame
        self._name = name

    @property
    def name(self) -> str:
        """The key in the store."""
        return self._name

    @property
    def kind(self) -> str:
        """``"SChunk"``, ``"ObjectArray"``, ``"BatchArray"`` and so on."""
        return next((_KINDS[name] for name in self._frame().meta_names if name in _KINDS), "SChunk")

    @property
    def nbytes(self) -> int:
        """The size in bytes, uncompressed."""
        return self._frame().nbytes

    @property
    def cbytes(self) -> int:
        """The size of the compressed data in bytes."""
        return self._frame().cbytes

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The current attributes."""
        return _FrameAttrs(self._frame()).asdict()

    @property
    def meta(self) -> dict[str, Any]:
        """The metalayers, whose size is fixed."""
        frame = self._frame()
        return {name: (frame.meta(name) or (None,))[0] for name in frame.meta_names}

    @property
    def typesize(self) -> int:
        """The size of an item in bytes."""
        return self._frame().typesize

    @property
    def nchunks(self) -> int:
        """The number of chunks."""
        return self._frame().nchunks

    def chunk(self, n: int) -> bytes:
        """Reads the bytes of a chunk.

        Parameters
        ----------
        n : int
            The number of the chunk.

        Returns
        -------
        bytes
            The decompressed bytes.

        Raises
        ------
        b2kit.errors.SelectionError
            There is no such chunk.
        """
        if not 0 <= n < self.nchunks:
            raise SelectionError(f"chunk {n} is out of range for {self.nchunks} chunks")
        return self._frame().chunk(n)

    def __len__(self) -> int:
        """Returns the number of items."""
        return self.nbytes // self.typesize

    def __getitem__(self, key: int | slice) -> bytes:
        """Reads the bytes of an item, or of consecutive items.

        Parameters
        ----------
        key : int or slice
            The item, or a slice without a step.

        Returns
        -------
        bytes
            ``typesize`` bytes for each item.

        Raises
        ------
        b2kit.errors.SelectionError
            The item is out of range, or the slice has a step.
        """
        size, length = self.typesize, len(self)
        if isinstance(key, slice):
            first, last, step = key.indices(length)
            if step != 1:
                raise SelectionError("items are read without a step")
            return self.read(first * size, max(first, last) * size)
        at = operator.index(key)
        if not -length <= at < length:
            raise SelectionError(f"item {at} is out of range for {length} items")
        at %= length
        return self.read(at * size, (at + 1) * size)

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Reads bytes.

        Parameters
        ----------
        start, stop : int, optional
            The range in bytes, by default all. Negative numbers count from the end.

        Returns
        -------
        bytes
            The decompressed bytes.
        """
        frame = self._frame()
        first, last, _ = slice(start, stop).indices(frame.nbytes)
        return frame.read(first, max(first, last))

    def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
        """Fails: NumPy would make texts of the items, and lose the rest of the frame."""
        raise WrongTypeError(f"{self._name}: a super-chunk has bytes, not items: np.frombuffer(a.read(), dtype) makes an array")

    def verify(self, *, threads: int | None = None, progress: Progress = None) -> str:
        """Compares all checksums and decodes everything; see :meth:`Array.verify`.

        Parameters
        ----------
        threads : int, optional
            Number of threads.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Returns
        -------
        str
            ``"ok"``, ``"none"`` or ``"changed"``.

        Raises
        ------
        b2kit.errors.DamagedError
            Something is damaged.
        """
        with progress_callback(progress, "verify") as callback:
            return self._frame().verify(threads, callback)

    def close(self) -> None:
        """Closes the file."""
        self._open = None

    def _frame(self) -> _b2kit.FrameBase:
        if self._open is None:
            raise ArgumentError("the super-chunk is closed")
        return self._open

    def __repr__(self) -> str:
        if self._open is None:
            return f"<b2kit.SuperChunk closed, {printable(self._name)!r}>"
        size = f"{_repr.size(self.nbytes)} in {_repr.size(self.cbytes)}"
        return f"<b2kit.SuperChunk {printable(self._name)!r} kind={self.kind} {size}>"


Member = Union[Array, SuperChunk, "Group"]


class Group(Mapping[str, Member]):
    """A mapping of names to arrays and groups: a store, or a group in one. Created by :func:`b2kit.open`.

    It lists only its direct members; ``group["a/b"]`` also accesses those further down.

    Examples
    --------
    >>> import b2kit, numpy as np, tempfile
    >>> g = b2kit.open_group(tempfile.mkdtemp() + "/store.b2d", mode="a")
    >>> _ = g.create("ocean/sst", np.zeros((2, 3)))
    >>> g.attrs["title"] = "a store"
    >>> list(g), list(g.group("ocean")), g.array("ocean/sst").shape
    (['ocean'], ['sst'], (2, 3))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        threads: int | None = None,
        key: str = "",
        lock: bool = True,
    ) -> None:
        self._path = absolute(path)
        self._mode = mode
        self._threads = threads
        self._key = key
        self._lock = lock
        self._opened = _Opened()
        if mode not in ("r", "a"):
            raise ArgumentError(f'mode {mode!r}, expected "r" or "a"')
        if mode == "a" and not os.path.isdir(self._path):
            raise UnsupportedError(f"{self._path}: only stores in directories (.b2d) can be changed")

    @property
    def path(self) -> str:
        """The path of the store."""
        return self._path

    @property
    def name(self) -> str:
        """The key of this group in the store; ``"/"`` for the root."""
        return self._key or "/"

    @property
    def mode(self) -> str:
        """The mode in which the store was opened: ``"r"`` or ``"a"``."""
        return self._mode

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called, here or on a group that this one was opened through."""
        return self._opened.closed

    @property
    def kind(self) -> str:
        """``"group"``, or ``"CTable"`` for a table of python-blosc2, whose columns are arrays in ``_cols``."""
        return _kind_of(self._store(), self._key)

    @property
    def attrs(self) -> GroupAttrs:
        """The attributes of the group, as ``vlmeta`` of ``TreeStore`` or ``CTable`` reads and writes them."""
        return GroupAttrs(self)

    def __iter__(self) -> Iterator[str]:
        store = self._store()
        return iter(sorted({key.split("/", 1)[0] for key in self._listed_keys(store)} - {_ATTRS}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str) or not key.strip("/"):
            return False
        return self._store().kind(self._full(key)) is not None

    def __getitem__(self, key: str) -> Member:
        full, store = self._full(key), self._store()
        kind = store.kind(full)
        if kind is None:
            raise NoSuchKeyError(key)
        return self._below(full) if kind == "group" else self._open(store, full)

    def array(self, key: str) -> Array:
        """Returns an array. Unlike ``group[key]`` it has one type, which suits type checkers.

        Parameters
        ----------
        key : str
            The key of the array, relative to this group.

        Returns
        -------
        Array
            The array, open in the mode of the store.

        Raises
        ------
        b2kit.errors.NoSuchKeyError
            There is no such key.
        b2kit.errors.WrongTypeError
            The member is not an array.
        """
        found = self[key]
        if not isinstance(found, Array):
            kind = found.kind if isinstance(found, SuperChunk) or found.kind != "group" else "group"
            raise WrongTypeError(f"{key} is a {kind}, not an array")
        return found

    def group(self, key: str) -> Group:
        """Returns a group. Unlike ``group[key]`` it has one type, which suits type checkers.

        Parameters
        ----------
        key : str
            The key of the group, relative to this group.

        Returns
        -------
        Group
            The group.

        Raises
        ------
        b2kit.errors.NoSuchKeyError
            There is no such key.
        b2kit.errors.WrongTypeError
            The member is not a group.
        """
        found = self[key]
        if not isinstance(found, Group):
            raise WrongTypeError(f"{key} is {'an array' if isinstance(found, Array) else 'a ' + found.kind}, not a group")
        return found

    def _ipython_key_completions_(self) -> list[str]:
        """Completes the keys of all members and groups below."""
        keys = self._shown_keys(self._store())
        groups = {key[:at] for key in keys for at, letter in enumerate(key) if letter == "/"}
        return sorted({*keys, *groups})

    @checked
    def create(
        self, key: str, x: Any = None, *, shape: Any = None, dtype: npt.DTypeLike = float, **options: Unpack[Options]
    ) -> Array:
        """Adds an array. Missing groups are created.

        Parameters
        ----------
        key : str
            The key of the array, relative to this group.
        x : array_like, optional
            The items. Either these or a shape are required.
        shape : int or tuple of int, optional
            The shape of an array of zeros.
        dtype : dtype
            The type of the zeros.
        **options
            The options of :func:`b2kit.asarray`.

        Returns
        -------
        Array
            The new array, open for changes.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The store is open for reading.
        b2kit.errors.ExistsError
            There is a member of this name, and `overwrite` is false.
        b2kit.errors.ArgumentError
            Both items and a shape are given, or neither.

        Examples
        --------
        >>> import b2kit, tempfile
        >>> g = b2kit.open_group(tempfile.mkdtemp() + "/store.b2d", mode="a")
        >>> a = g.create("ocean/sst", [[1.0, 2.0]], attrs={"units": "K"})
        >>> b = g.create("ocean/depth", shape=(2, 3), dtype="i2")
        >>> sorted(g.group("ocean"))
        ['depth', 'sst']
        """
        if (x is None) == (shape is None):
            raise ArgumentError("either items or a shape")
        path = self._path_for(key, options.get("overwrite", False))
        made = zeros(shape, dtype, path, **options) if x is None else asarray(x, path, **options)
        if options.get("overwrite", False):
            self._changed().forget(self._full(key))
        self._store().announce()
        return made

    def __setitem__(self, key: str, x: Any) -> None:
        """Adds or replaces an array or a group.

        Arrays in files are copied with attributes and chunks, as by :func:`b2kit.copy`. A path is opened first. A group is copied with
        all its contents.

        Parameters
        ----------
        key : str
            The key, relative to this group.
        x : array_like or Group or str or PathLike
            The group to copy.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The store is open for reading.
        b2kit.errors.ArgumentError
            A group would be copied into itself.
        """
        if isinstance(x, (str, os.PathLike)):
            x = open(x)
        if isinstance(x, Group):
            self._put_group(key, x)
            return
        copy(x, self._path_for(key, True), overwrite=True)
        self._changed().forget(self._full(key))
        self._store().announce()

    def _put_group(self, key: str, group: Group) -> None:
        """Copies a group with all its contents, and replaces the member with the key."""
        full, there = self._full(key), group._key
        same = os.path.realpath(self._path) == os.path.realpath(group._path)
        if same and (f"{full}/".startswith(f"{there}/") or f"{there}/".startswith(f"{full}/")):
            raise ArgumentError(f"{full}: a group cannot be copied into itself, or in place of one above it")
        self._changed()
        if not len(group) and not group.attrs:
            if key in self:
                del self[key]
            self.create_group(key)
            return
        # A temporary name that is not listed: the new group appears when it is complete.
        folder = tempfile.mkdtemp(prefix=".b2kit-", suffix=".tmp", dir=self._path)
        try:
            made = os.path.join(folder, "new.b2d")
            group.save(made)
            # The layer of the store, which a group does not have.
            os.remove(os.path.join(made, "embed.b2e"))
            if key in self:
                del self[key]
            target = self._path_for(key, False).removesuffix(".b2nd")
            if os.path.isdir(target):
                os.rmdir(target)
            os.rename(made, target)
            sync_folder(os.path.dirname(target))
            self._store().announce()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def create_group(self, key: str) -> Group:
        """Adds a group. Others see it only after it has members or attributes, since nothing else is stored.

        Parameters
        ----------
        key : str
            The key of the group, relative to this group.

        Returns
        -------
        Group
            The new group.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The store is open for reading.
        b2kit.errors.ExistsError
            There is an array of this name.
        """
        full = self._full(key)
        self._changed().create_group(full)
        return self._below(full)

    def __delitem__(self, key: str) -> None:
        """Removes an array, or a group and all its contents. A column of a table is an error, see :meth:`remove`."""
        self._changed().remove(self._full(key))

    def remove(self, key: str, *, allow_table_edit: bool = False) -> None:
        """Removes an array, or a group and all its contents, as ``del`` does.

        Parameters
        ----------
        key : str
            The key, relative to this group.
        allow_table_edit : bool
            Allow a column or another part of a table of python-blosc2, which then cannot read the table.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The store is open for reading.
        b2kit.errors.NoSuchKeyError
            There is no such key.
        """
        self._changed()
        store = _b2kit.Store.open(self._path, allow_table_edit, self._lock)
        if store is not None:
            store.remove(self._full(key))

    @checked
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a copy of the group to a new store, which appears when it is complete.

        python-blosc2 opens the copy as ``TreeStore`` and, if it is a frame, as ``EmbedStore``.

        Parameters
        ----------
        path : str or PathLike
            An archive if the name ends with ``.b2z``, a frame if it ends with ``.b2e``, otherwise a directory (``.b2d``).
        overwrite : bool
            Replace an existing file. A directory is never replaced.

        Raises
        ------
        b2kit.errors.ExistsError
            There is a file or a directory of this name.

        Examples
        --------
        >>> import b2kit, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> g = b2kit.open_group(folder + "/store.b2d", mode="a")
        >>> _ = g.create("t", [1, 2, 3])
        >>> g.save(folder + "/store.b2z")
        >>> b2kit.open_group(folder + "/store.b2z").array("t")[:]
        array([1, 2, 3])
        """
        self._store().save(self._key, absolute(path), overwrite)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Iterates over the groups directly in this one.

        Yields
        ------
        str
            The name of a group.
        Group
            The group.
        """
        store = self._store()
        for name in self:
            if store.kind(f"{self._key}/{name}") == "group":
                yield name, self._below(f"{self._key}/{name}")

    def walk(self) -> Iterator[tuple[str, Array]]:
        """Iterates over all arrays in this group and below.

        Members that are not arrays and indexes of python-blosc2 are left out. The columns of tables are arrays.

        Yields
        ------
        str
            The key of an array, relative to this group.
        Array
            The array.

        Examples
        --------
        >>> import b2kit, tempfile
        >>> g = b2kit.open_group(tempfile.mkdtemp() + "/store.b2d", mode="a")
        >>> _ = g.create("a/b", [1, 2]), g.create("c", [3])
        >>> {key: a.shape for key, a in g.walk()}
        {'a/b': (2,), 'c': (1,)}
        """
        store = self._store()
        for key, member in self._members(self._shown_keys(store)):
            if isinstance(member, Array):
                yield key, member

    def verify(self, *, threads: int | None = None, progress: Progress = None) -> str:
        """Verifies all members; see :meth:`Array.verify`.

        The directory of an archive is compared with the headers of its members.

        Parameters
        ----------
        threads : int, optional
            Number of threads.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Returns
        -------
        str
            The worst result of all members: ``"ok"``, ``"none"`` or ``"changed"``.

        Raises
        ------
        b2kit.errors.DamagedError
            A member is damaged.
        b2kit.errors.UnsupportedError
            A member cannot be read, such as one that an archive holds compressed.
        """
        order, worst = ("ok", "none", "changed"), "ok"
        store = self._store()
        store.verify_directory()
        for key in store.below(self._key):
            member = self._frame_or_array(store, key)
            worst = max(worst, member.verify(threads=threads, progress=progress), key=order.index)
            member.close()
        if not self._key and store.folder() is None:
            # The bytes between the members of a frame.
            try:
                frame = SuperChunk(_b2kit.FrameBase(self._path), self._path)
            except NotBloscError:
                return worst  # an archive
            worst = max(worst, frame.verify(threads=threads, progress=progress), key=order.index)
        return worst

    def _frame_or_array(self, store: _b2kit.Store, key: str) -> Array | SuperChunk:
        """Opens a member: attributes, and arrays of which python-blosc2 computes or fetches the items, as frames."""
        full = f"{self._key}/{key}"
        if key.rsplit("/", 1)[-1] != _ATTRS:
            try:
                return self._open(store, full)
            except (NotBloscError, UnsupportedError):
                pass
        return SuperChunk(store.frame(full), key)

    def _members(self, keys: list[str]) -> Iterator[tuple[str, Array | SuperChunk]]:
        store = self._store()
        for key in keys:
            # References to arrays of servers, and members that an archive holds compressed, cannot be opened.
            if store.kind(f"{self._key}/{key}") != "elsewhere":
                yield key, self._frame_or_array(store, key)

    def _listed_keys(self, store: _b2kit.Store) -> list[str]:
        """Returns the keys below, except for the indexes of python-blosc2."""
        return [key for key in store.below(self._key) if not store.is_index(f"{self._key}/{key}")]

    def _shown_keys(self, store: _b2kit.Store) -> list[str]:
        return [key for key in self._listed_keys(store) if key.rsplit("/", 1)[-1] != _ATTRS]

    def close(self) -> None:
        """Closes the arrays that were opened through this group or groups in it. The group cannot be used any more."""
        self._opened.closed = True
        for member in list(self._opened.members):
            member.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        """Pickles the group by its path, with the names, sizes and times of its files, by which caches detect changes."""
        return _unpickled, (Group, (self._path, self._mode, self._threads, self._key, self._lock), self._token())

    def _token(self) -> tuple[object, ...]:
        if not os.path.isdir(self._path):
            return file_token(self._path)
        top = os.path.join(self._path, *[part for part in self._key.split("/") if part])
        found: list[object] = list(file_token(os.path.join(self._path, "embed.b2e")))
        for folder, _, names in os.walk(top):
            files = (os.path.join(folder, name) for name in names if not name.endswith(".b2lock"))
            found += [(os.path.relpath(file, top), *file_token(file)) for file in files]
        return (hashlib.blake2b(repr(sorted(map(repr, found))).encode(), digest_size=16).hexdigest(),)

    def __repr__(self) -> str:
        if self.closed:
            return f"<b2kit.Group closed, {self.name!r} of {self._path!r}>"
        store = self._store()
        kind = _kind_of(store, self._key)
        lines = [f"<b2kit.Group {self.name!r} of {self._path!r}{'' if kind == 'group' else ', a ' + kind}>"]
        listed = self._listed(store)
        lines += [f"  {printable(key)}{f' ({what})' if what else ''}" for key, what in listed[:20]]
        if len(listed) > 20:
            lines.append(f"  ... and {len(listed) - 20} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if self.closed:
            return _repr.plain(repr(self))
        store = self._store()
        rows: list[tuple[str, Array | SuperChunk | str]] = []
        listed = self._listed(store)
        for key, what in listed[:50]:
            try:
                rows.append((key, what if what == "CTable" else self._open(store, f"{self._key}/{key}")))
            except (ValueError, OSError) as error:
                rows.append((key, str(error)))
        return _repr.group_html(f"{self.name} of {self._path}", rows, len(listed) - len(rows))

    def _listed(self, store: _b2kit.Store) -> list[tuple[str, str]]:
        """Returns the keys of all members, with their kinds if they are not arrays. Tables are listed as one."""
        found: list[tuple[str, str]] = []
        keys = self._shown_keys(store)
        tables = [key.removesuffix(_TABLE) for key in keys if key.rsplit("/", 1)[-1] == _TABLE]
        tables = [table for table in tables if table and _kind_of(store, f"{self._key}/{table[:-1]}") == "CTable"]
        for key in keys:
            table = next((table for table in tables if key.startswith(table)), None)
            if table is not None:
                if key == table + _TABLE:
                    found.append((table[:-1], "CTable"))
                continue
            what = ""
            if len(found) < 50 and not store.is_array(f"{self._key}/{key}"):
                what = _kind_of_member(store, f"{self._key}/{key}")
            found.append((key, what))
        return found

    # Members.

    def _full(self, key: str) -> str:
        if not isinstance(key, str):
            raise WrongTypeError(f"a key is a string, not {type(key).__name__}")
        parts = [part for part in key.split("/") if part]
        if not parts:
            raise NoSuchKeyError(key)
        return "/".join([self._key, *parts])

    def _store(self) -> _b2kit.Store:
        """Opens the current state of the store."""
        if self.closed:
            raise ArgumentError("the store is closed")
        store = _b2kit.Store.open(self._path, lock=self._lock)
        if store is None:
            raise ArgumentError(f"{self._path}: not a store")
        return store

    def _changed(self) -> _b2kit.Store:
        """Opens the store for changes; a read-only store is an error."""
        if self._mode != "a":
            raise ReadOnlyError('the store is open for reading: use mode="a"')
        return self._store()

    def _below(self, key: str) -> Group:
        group = Group(self._path, self._mode, self._threads, key, self._lock)
        group._opened = self._opened
        return group

    def _open(self, store: _b2kit.Store, key: str) -> Array | SuperChunk:
        member = self._open_member(store, key)
        self._opened.members.add(member)
        return member

    def _open_member(self, store: _b2kit.Store, key: str) -> Array | SuperChunk:
        name = f"{self._path}:{key}"
        try:
            array = Array(store, self._mode, self._threads, key=key, name=name, lock=self._lock)
        except NotBloscError:
            # A frame that is not an array. One that claims to be an array, but cannot be opened, raises another error.
            return SuperChunk(store.frame(key), name)
        if array._origin != "path":
            array._again = (_member, (self._path, key, self._threads))
        return array

    def _path_for(self, key: str, overwrite: bool) -> Inside:
        store = self._changed()
        path, folder = store.place(self._full(key), overwrite), store.folder()
        assert folder is not None
        return Inside(path, folder)


def _member(path: str, key: str, threads: int | None) -> Array:
    found = Group(path, "r", threads)[key]
    assert isinstance(found, Array)
    return found


class _FrameAttrs(Layers):
    """The attributes of a frame that is not changed."""

    __slots__ = ("_frame",)

    def __init__(self, frame: _b2kit.FrameBase) -> None:
        self._frame = frame

    def _names(self) -> list[str]:
        return self._frame.attr_names

    def _value(self, name: str) -> tuple[Any] | None:
        return self._frame.attr(name)

    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        raise ReadOnlyError("these attributes cannot be changed")


class GroupAttrs(Layers):
    """The attributes of a group. Each assignment is a separate commit; :meth:`update` combines several into one.

    Names and their number are not limited, as in :class:`b2kit.Attrs`.
    """

    __slots__ = ("_group",)

    def __init__(self, group: Group) -> None:
        self._group = group

    def _frame(self) -> _b2kit.FrameBase | None:
        return self._group._store().attrs(self._group._key)

    def _names(self) -> list[str]:
        frame = self._frame()
        return frame.attr_names if frame else []

    def _value(self, name: str) -> tuple[Any] | None:
        frame = self._frame()
        return frame.attr(name) if frame else None

    def asdict(self) -> dict[str, Any]:
        """Returns all attributes as a dictionary."""
        # Opens the frame once.
        frame = self._frame()
        return _FrameAttrs(frame).asdict() if frame else {}

    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        layers, gone = self._arranged(changed, removed)
        self._group._changed().set_attrs(self._group._key, layers, gone)


def _kind_of(store: _b2kit.Store, key: str) -> str:
    """Returns the kind of the group of a key."""
    if store.kind(f"{key}/{_TABLE}") != "member":
        return "group"
    try:
        kind = store.frame(f"{key}/{_TABLE}").attr("kind")
    except (ValueError, OSError):
        return "group"
    return "CTable" if kind == ("ctable",) else "group"


def _kind_of_member(store: _b2kit.Store, key: str) -> str:
    """Returns the kind of a member that is not an array."""
    if store.kind(key) == "elsewhere":
        return "elsewhere"
    try:
        frame = store.frame(key)
    except (ValueError, OSError):
        return "unreadable"
    return "" if {"b2nd", "caterva"}.intersection(frame.meta_names) else SuperChunk(frame, key).kind


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

    :func:`open_array` and :func:`open_group` return one of them, and fail for the other.

    Parameters
    ----------
    source : str or PathLike or bytes or file
        A path, the bytes of a frame, a URL, an fsspec file, a pair of an obstore store and a path in it, or any seekable
        binary file. HTTP and HTTPS URLs are read by this package, other URLs by fsspec.
    mode : {"r", "a"}
        ``"r"`` reads. ``"a"`` also changes an array or a store at a path, and creates a store (``.b2d``) that does not
        exist.
    threads : int, optional
        Number of threads for one call, by default that of :func:`set_threads`.
    key : str, optional
        Open this member of a store, or this data set of an HDF5 or NetCDF file (see :mod:`b2kit.hdf5`).
    storage_options : mapping, optional
        Let fsspec open the URL, including HTTP URLs, with these options, such as credentials or ``{"headers": {...}}``.
    lock : bool
        Lock files while they are changed. ``False`` is for file systems that have no locks; then only one process at a time
        may change the files.

    Returns
    -------
    Array
        An array; also a tensor that python-blosc2 saved (``save_array``, ``save_tensor``), decompressed into memory.
    Group
        A store.
    SuperChunk
        A frame that is not an array.
    Data
        A data set of an HDF5 or NetCDF file, if `key` names one.

    Raises
    ------
    b2kit.errors.NotFoundError
        There is no such file.
    b2kit.errors.NotBloscError
        The file is something else.
    b2kit.errors.DamagedError
        The header, the index or the trailer is damaged.
    b2kit.errors.NoSuchKeyError
        There is no member `key`.
    b2kit.errors.ReadOnlyError
        `mode` is ``"a"``, and the opened object cannot be changed.
    b2kit.errors.UnsupportedError
        The URL is that of a store, or an archive or a frame is opened with ``mode="a"``.

    Examples
    --------
    >>> import b2kit, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> _ = b2kit.asarray(np.arange(6).reshape(2, 3), path)
    >>> found = b2kit.open(path)
    >>> isinstance(found, b2kit.Array) and found[1].tolist()
    [3, 4, 5]
    """
    if storage_options is not None:
        given = source_with(source, storage_options)
        if key is None:
            return _reopened(given, mode, threads)
        if mode != "r":
            raise ReadOnlyError(f"{given.name}: HDF5 files are not changed")
        return hdf5.File(given.name, threads, given)[key]
    if key is not None:
        return _inside(source, mode, threads, key, lock)
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
        found = find(path, mode, threads, lock)
        if found is None:
            if hdf5.is_hdf5(path):
                what = f"{path}: an HDF5 or NetCDF file: key names a data set, b2kit.hdf5.open lists them"
                raise NotBloscError(what) from error
            raise _named(error, path)
        return found


def _frame(source: Any, name: str, mode: str) -> Array | SuperChunk | None:
    """Opens a frame that is not an array; ``None`` if there is none."""
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


def _inside(
    source: Source, mode: Literal["r", "a"], threads: int | None, key: str, lock: bool
) -> Array | Group | SuperChunk | Data:
    """Opens a member of a store, or a data set."""
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

    Parameters
    ----------
    source : str or PathLike or bytes or file
        As of :func:`open`.
    mode : {"r", "a"}
        ``"r"`` reads. ``"a"`` also changes an array or a store at a path, and creates a store (``.b2d``) that does not
        exist.
    threads : int, optional
        Number of threads for one call, by default that of :func:`set_threads`.
    lock : bool
        Lock files while they are changed. ``False`` is for file systems that have no locks; then only one process at a time
        may change the files.

    Returns
    -------
    Array
        The array.

    Raises
    ------
    b2kit.errors.NotFoundError
        There is no such file.
    b2kit.errors.ArgumentError
        The file is a store.
    b2kit.errors.NotBloscError
        The file is something else, or a frame that is not an array.
    b2kit.errors.DamagedError
        The header, the index or the trailer is damaged.

    Examples
    --------
    >>> import b2kit, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> _ = b2kit.asarray(np.arange(3), path)
    >>> b2kit.open_array(path).shape
    (3,)
    """
    found = open(source, mode, threads, lock=lock)
    if isinstance(found, Array):
        return found
    if isinstance(found, Group):
        raise ArgumentError(f"{found.path}: is a store: open an array of it, or use open_group")
    raise NotBloscError(f"{found.name}: a super-chunk, not an array")


@checked
def open_group(source: Path, mode: Literal["r", "a"] = "r", threads: int | None = None, *, lock: bool = True) -> Group:
    """Opens a store as :func:`open` does, and returns its root. An array is an error.

    Parameters
    ----------
    source : str or PathLike
        The path of the store.
    mode : {"r", "a"}
        ``"r"`` reads. ``"a"`` also changes an array or a store at a path, and creates a store (``.b2d``) that does not
        exist.
    threads : int, optional
        Number of threads for one call, by default that of :func:`set_threads`.
    lock : bool
        Lock files while they are changed. ``False`` is for file systems that have no locks; then only one process at a time
        may change the files.

    Returns
    -------
    Group
        The root of the store.

    Raises
    ------
    b2kit.errors.NotFoundError
        There is no such file.
    b2kit.errors.ArgumentError
        The file is an array or another frame.

    Examples
    --------
    >>> import b2kit, tempfile
    >>> g = b2kit.open_group(tempfile.mkdtemp() + "/store.b2d", mode="a")
    >>> _ = g.create("t", [1, 2, 3])
    >>> list(g)
    ['t']
    """
    found = open(source, mode, threads, lock=lock)
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
    """Returns the error for a remote file that is not an array, which states its kind."""
    if not isinstance(error, NotBloscError):
        return _named(error, name)
    try:
        is_store = _b2kit.Store.is_at(url, source)
    except IoError:
        return _named(error, name)
    except Error:
        # Only for a store is more read than the first bytes.
        is_store = True
    if is_store:
        return UnsupportedError(
            f"{name}: a store: download it, then open that (the command reads members at URLs: {name}::/key)"
        )
    if hdf5.is_hdf5(url, source):
        return NotBloscError(f"{name}: an HDF5 or NetCDF file: key names a data set, b2kit.hdf5.open lists them")
    return _named(error, name)


@overload
def copy(a: Group, path: Path, **options: Unpack[CopyOptions]) -> Group: ...
@overload
def copy(a: Any, path: Path | None = None, **options: Unpack[CopyOptions]) -> Array: ...
@checked
def copy(a: Any, path: Path | None = None, **options: Unpack[CopyOptions]) -> Array | Group:
    """Copies an array and its attributes, in bounded memory. Chunks that do not change are copied without being recompressed.

    Parameters
    ----------
    a : Array or Group or str or PathLike or array_like
        The array or group to copy. A path is opened first. A group or store is copied with all its contents, as by :meth:`Group.save`. For
        arrays of h5py, zarr and python-blosc2, attributes and chunks are kept: shards of zarr become chunks, and the chunks
        in them blocks. Codec, level, filters and metalayers are kept from python-blosc2 only. Attributes that make an HDF5 data set or
        its axes a dimension scale are left out.
    path : str or PathLike, optional
        The new file or store. Without it the array is in memory.
    **options
        The options of :func:`asarray`; those not given are taken from `a`, also single attributes and metalayers. For other
        ``chunks``, blocks are chosen that fit. For a group, only ``overwrite``.

    Returns
    -------
    Array or Group
        The copy.

    Raises
    ------
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.
    b2kit.errors.WrongTypeError
        A group is copied without a path, or with other options than `overwrite`.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> a = b2kit.asarray(np.arange(6), chunks=4, attrs={"units": "m"})
    >>> b = b2kit.copy(a, codec="lz4")
    >>> b.codec, b.chunks, b.attrs["units"]
    ('lz4', (4,), 'm')
    """
    given: dict[str, Any] = dict(options)
    if isinstance(a, (str, os.PathLike)):
        a = open(a)
    if isinstance(a, Group):
        if path is None or given.keys() - {"overwrite"}:
            raise WrongTypeError("a group is copied to a path, and with no option but overwrite")
        a.save(path, overwrite=given.get("overwrite", False))
        return Group(path, "a" if os.path.isdir(path) else "r", a._threads)
    return copy_array(a, path, given)


@checked
def verify(path: Source, *, threads: int | None = None, progress: Progress = None) -> str:
    """Verifies a file, a directory, a store or the bytes of a frame; see :meth:`Array.verify`.

    Of lazy expressions and proxies of python-blosc2, which have no items here, the bytes of the file are verified.

    Parameters
    ----------
    path : str or PathLike or bytes or file
        As of :func:`open`.
    threads : int, optional
        Number of threads.
    progress : bool or tqdm or callable, optional
        As of :func:`b2kit.asarray`.

    Returns
    -------
    str
        ``"ok"``; ``"none"`` if there are no checksums; ``"changed"`` if a program that does not support them changed the
        file after they were written.

    Raises
    ------
    b2kit.errors.DamagedError
        Something is damaged. The message names the chunk.
    b2kit.errors.NotBloscError
        The file is something else.

    Examples
    --------
    >>> import b2kit, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> _ = b2kit.asarray(np.arange(3), path)
    >>> b2kit.verify(path)
    'ok'
    """
    try:
        found = _known(path, "r", threads)
    except (NotBloscError, UnsupportedError):
        # A frame that is not an array, or of which python-blosc2 computes or fetches the items.
        if not isinstance(path, (str, os.PathLike, bytes, bytearray, memoryview)):
            raise
        return _b2kit.FrameBase(path).verify()
    return found.verify(progress=progress)

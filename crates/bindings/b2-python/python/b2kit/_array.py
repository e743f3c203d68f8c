"""Compressed arrays: reading, indexing and editing."""

from __future__ import annotations

import hashlib
import operator
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from b2kit import _b2kit, _repr
from b2kit._cast import cast
from b2kit._items import Items
from b2kit._progress import Progress, progress_callback
from b2kit.attrs import Attrs
from b2kit.errors import ArgumentError, IoError, SelectionError, WrongTypeError, checked

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Array", "Edit"]


class Array(_b2kit.ArrayBase, Items):
    """A compressed array in a file, in a directory or in memory.

    Arrays are created by :func:`b2kit.open`, :func:`b2kit.asarray` and related functions. Indexing follows the rules of
    NumPy, reads only the blocks that the selection touches, and returns NumPy arrays.

    An array shows the state in which it was opened. Changes that others commit become visible by :meth:`refresh`. Where they
    remove that state, as in the directory of a sparse array, a read returns the newest one, if shape and dtype are the same.
    :meth:`close` releases the file; so does deleting the array.

    Each statement that changes the array is one commit, which waits for the disk. Use :meth:`edit` for more than a few
    changes: one commit takes some milliseconds, however many changes it contains.

    A pickle, or a copy by :func:`copy.deepcopy`, is another handle of the same file: changes through one are changes for
    the other. :func:`b2kit.copy` makes a copy of the data; so does ``deepcopy`` of an array in memory. A pickle also holds
    the size and the time of the file, by which caches such as joblib detect that it has changed.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> a = b2kit.asarray(np.arange(12).reshape(3, 4))
    >>> a[1, ::-2]
    array([7, 5])
    >>> a[[2, 0], [1, 1]]
    array([9, 1])
    """

    __slots__ = ("__weakref__", "_again")

    # Function and arguments that open the array again in another process, if its path is not enough.
    _again: tuple[Callable[..., Array], tuple[object, ...]]

    @property
    def filters(self) -> list[str | tuple[str, int]]:
        """The filters applied before the codec, in order; a filter whose parameter is not 0 is a pair with it."""
        return [(name, meta) if meta else name for name, meta in self._filters]

    @property
    def attrs(self) -> Attrs:
        """The attributes, as python-blosc2's ``vlmeta`` reads and writes them."""
        return Attrs(self)

    @property
    def meta(self) -> dict[str, Any]:
        """The metalayers, whose size is fixed, without those that describe the array."""
        return self._meta()

    @property
    def info(self) -> _repr.Info:
        """Properties of the array, displayed as a table."""
        return _repr.facts(self)

    @checked
    def read_boxes(
        self,
        boxes: Iterable[Any],
        out: Any = None,
        *,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Any:
        """Reads boxes of equal shape in one call, for example the crops of a training step.

        The threads share the work of all boxes, without the interpreter's lock. A block that several boxes need is decoded
        once.

        Parameters
        ----------
        boxes : iterable of index
            Each box is an index of slices and integers.
        out : ndarray, optional
            Read the items into this array, and return it. Reusing one saves the time in which the system provides fresh memory.
        threads : int, optional
            Number of threads, by default that of the array.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Returns
        -------
        ndarray
            The items. The first dimension is the number of the box.

        Raises
        ------
        b2kit.errors.ArgumentError
            There are no boxes, or their shapes differ.
        b2kit.errors.SelectionError
            A box is out of range, or has lists or masks.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.arange(60).reshape(6, 10))
        >>> crops = a.read_boxes([np.s_[0:2, 3:5], np.s_[4:6, 8:10]])
        >>> crops.shape, crops[1].tolist()
        ((2, 2, 2), [[48, 49], [58, 59]])
        """
        with progress_callback(progress, "read") as callback:
            return self._read_boxes(list(boxes), out, threads, callback)

    # Changes.

    @contextmanager
    def edit(self, sync: bool = True, *, allow_table_edit: bool = False) -> Iterator[Edit]:
        """Combines several changes into one commit at the end of a ``with`` block. If the block raises, nothing is changed.

        Until the commit, others see the array unchanged. A file is locked against other writers during the block, unless it was
        opened with ``lock=False``. The commit marks indexes that python-blosc2 keeps of the array, or of the table that contains it
        as a column, as outdated, and columns that the table has computed from others.

        Parameters
        ----------
        sync : bool
            Wait for the disk, which takes some milliseconds. Otherwise the array is in the old or the new state after the
            process is killed, but a power loss may damage it.
        allow_table_edit : bool
            Allow a column of a table of python-blosc2 to get a different length than the others.

        Yields
        ------
        Edit
            Accepts the changes, and reads the changed items.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.zeros((2, 3), dtype="i4")
        >>> with a.edit() as e:
        ...     e[0] = [1, 2, 3]
        ...     e.append([[7, 8, 9]])
        ...     e.attrs["units"] = "K"
        >>> a[:, 1], a.attrs["units"]
        (array([2, 0, 8], dtype=int32), 'K')
        """
        change = Edit(self, sync, allow_table_edit)
        try:
            yield change
            change._commit()
        finally:
            change._close()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Sets items in one commit. Values are broadcast as in NumPy, and converted to the type of the items.

        Where NumPy would wrap, truncate or cut a value, it is refused. Floats are rounded to the precision of the items.

        Parameters
        ----------
        key : index
            As in NumPy.
        value : array_like
            The new items.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.
        b2kit.errors.RangeError
            A number is out of range, or a fraction or NaN is assigned to integers.
        b2kit.errors.ArgumentError
            Text is too long, or the shape does not fit.
        b2kit.errors.SelectionError
            The index is out of range.

        Examples
        --------
        >>> import b2kit
        >>> a = b2kit.zeros(3, dtype="i1")
        >>> a[:] = [1.0, 2.0, 3.0]
        >>> a[0] = 1000
        Traceback (most recent call last):
        b2kit.errors.RangeError: 1000 does not fit into an item of dtype int8: convert it first
        """
        with self.edit() as change:
            change[key] = value

    @checked
    def append(self, x: Any, axis: int = 0, *, sync: bool = True, progress: Progress = None) -> None:
        """Appends items at the end of an axis, in one commit.

        Parameters
        ----------
        x : array_like
            The items. It may lack the dimension of the axis if it holds a single position.
        axis : int
            The axis; negative ones count from the end.
        sync : bool
            Wait until the change survives a power loss.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.
        b2kit.errors.RangeError
            A number does not fit into the type of the items, or would lose its fraction.
        b2kit.errors.ArgumentError
            The shape does not fit.
        b2kit.errors.SelectionError
            The axis is out of bounds.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.zeros((2, 3), "i4")
        >>> a.append([7, 8, 9])
        >>> a.shape, a[2]
        ((3, 3), array([7, 8, 9], dtype=int32))
        """
        with self.edit(sync) as change:
            change.append(x, axis, progress=progress)

    @checked
    def insert(
        self, i: int, x: Any, axis: int = 0, *, sync: bool = True, progress: Progress = None
    ) -> None:
        """Inserts items before a position of an axis, in one commit.

        Parameters
        ----------
        i : int
            The position; negative ones count from the end.
        x : array_like
            The items. It may lack the dimension of the axis if it holds a single position.
        axis : int
            The axis; negative ones count from the end.
        sync : bool
            Wait until the change survives a power loss.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.
        b2kit.errors.RangeError
            A number does not fit into the type of the items, or would lose its fraction.
        b2kit.errors.ArgumentError
            The shape does not fit.
        b2kit.errors.SelectionError
            The position or the axis is out of range.

        Examples
        --------
        >>> import b2kit
        >>> a = b2kit.zeros(3, "i4")
        >>> a.insert(1, [7, 8])
        >>> a[:]
        array([0, 7, 8, 0, 0], dtype=int32)
        """
        with self.edit(sync) as change:
            change.insert(i, x, axis, progress=progress)

    @checked
    def delete(self, sel: Any, axis: int = 0, *, sync: bool = True, progress: Progress = None) -> None:
        """Removes positions of an axis, in one commit.

        Parameters
        ----------
        sel : slice or int or list or mask
            The positions.
        axis : int
            The axis; negative ones count from the end.
        sync : bool
            Wait until the change survives a power loss.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.
        b2kit.errors.SelectionError
            A position or the axis is out of range.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.arange(5))
        >>> a.delete([0, 3])
        >>> a[:]
        array([1, 2, 4])
        """
        with self.edit(sync) as change:
            change.delete(sel, axis, progress=progress)

    @checked
    def resize(self, shape: int | tuple[int, ...], *, sync: bool = True) -> None:
        """Changes the shape, in one commit. Items outside the new shape are dropped, new ones are zero.

        Parameters
        ----------
        shape : int or tuple of int
            The new shape, with as many dimensions.
        sync : bool
            Wait until the change survives a power loss.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.
        b2kit.errors.ArgumentError
            The number of dimensions differs, or a length is negative.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.arange(3))
        >>> a.resize(5)
        >>> a[:]
        array([0, 1, 2, 0, 0])
        """
        with self.edit(sync) as change:
            change.resize(shape)

    def compact(self, *, sync: bool = True) -> int:
        """Reclaims the space of replaced and removed chunks.

        Changes leave the old chunks in the file, because others may be reading them. This rewrites the file without them, in
        one commit. Arrays open in the old state then need :meth:`refresh`. Chunks are not recompressed.

        Parameters
        ----------
        sync : bool
            Wait until the change survives a power loss.

        Returns
        -------
        int
            The number of bytes by which the file shrank.

        Raises
        ------
        b2kit.errors.ReadOnlyError
            The array is open for reading.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.random.default_rng(0).random(100_000))
        >>> a[:] = 0
        >>> a.compact() > 600_000
        True
        """
        before = self._stored_bytes()
        with self.edit(sync) as change:
            change._compact()
        return before - self._stored_bytes()

    def refresh(self) -> bool:
        """Moves to the newest committed state.

        Checks the file, or asks the server or object store. If a server reports neither an ETag nor a modification time,
        the array is opened again. Arrays in memory, in archives and from Python files do not change.

        Returns
        -------
        bool
            Whether there may have been a newer state.

        Raises
        ------
        b2kit.errors.IoError
            The file or the server cannot be read.

        Examples
        --------
        >>> import b2kit, numpy as np, tempfile
        >>> path = tempfile.mkdtemp() + "/a.b2nd"
        >>> writer = b2kit.asarray(np.arange(3), path)
        >>> reader = b2kit.open_array(path)
        >>> writer.append([3])
        >>> reader.shape, reader.refresh(), reader.shape
        ((3,), True, (4,))
        """
        if self._origin == "path" or self._origin == "memory":
            return self._refresh()
        function, args = getattr(self, "_again", (None, ()))
        source = args[0] if args else None
        if function is None or not (self._origin == "web" or hasattr(source, "afresh")):
            return False
        old = self._version if self._origin == "web" else None
        if self._origin != "web" and source is not None:
            newest: Any = source
            newest = newest.afresh()
            newest_identity = newest.identity()
            # Name and size are always present; only further values, such as a tag or a time, identify the content.
            if len(newest_identity) > 2 and newest_identity == source.identity():
                return False
            args = (newest, *args[1:])
        array = function(*args)
        if old is not None and array._version == old and (old[0] is not None or old[1] is not None):
            return False
        self._follow(array)
        self._again = (function, args)
        return True

    def _stored_bytes(self) -> int:
        """Returns the size of the file, the directory or the frame in memory."""
        if self._origin != "path":
            return len(self._frame() or b"")
        path = self.path or ""
        if not os.path.isdir(path):
            return os.stat(path).st_size
        return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(path))

    def _change_attrs(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        with self.edit() as change:
            change._change_attrs(changed, removed)

    # Verification.

    def verify(self, *, threads: int | None = None, progress: Progress = None) -> str:
        """Compares all checksums and decodes everything.

        Parameters
        ----------
        threads : int, optional
            Number of threads, by default that of the array.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Returns
        -------
        str
            ``"ok"``; ``"none"`` if the file has no checksums; ``"changed"`` if a program that does not support them changed the
            file after they were written.

        Raises
        ------
        b2kit.errors.DamagedError
            Something is damaged. The message names the chunk.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> b2kit.asarray(np.arange(3)).verify()
        'ok'
        """
        with progress_callback(progress, "verify") as callback:
            return self._verify(threads, callback)

    def close(self) -> None:
        """Closes the file, or releases an array in memory. Reading then fails. Closing twice is harmless.

        A file object that was passed to :func:`b2kit.open` stays open.
        """
        self._close()

    def __enter__(self) -> Array:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Pickling, copying and display.

    def __reduce__(self) -> tuple[Callable[..., Array], tuple[object, ...]]:
        """Pickles the array by its path, with the token of :meth:`__dask_tokenize__`; arrays in memory by their bytes."""
        if self._origin == "memory" and not hasattr(self, "_again"):
            return _reopen, (self._frame(), self.mode, self.threads)
        if hasattr(self, "_again"):
            return _unpickled, (*self._again, _token(self))
        if self._origin == "path":
            args = (self.path or "", self.mode, self.threads, self._store, self._lock)
            return _unpickled, (_reopen, args, None if self.closed else _token(self))
        raise WrongTypeError(f"an array that was opened from {self.path} cannot be pickled: open it by path there")

    def __copy__(self) -> Array:
        return self

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Identifies the content by path, size, time and inode; arrays in memory by a hash of their bytes."""
        return ("b2kit.Array", *_token(self))

    def __repr__(self) -> str:
        where = f", path={self.path!r}" if self.path else ""
        if self.closed:
            return f"<b2kit.Array closed{where}>"
        codec = f"{self.codec} {self.level}"
        return (
            f"<b2kit.Array shape={self.shape} dtype={self.dtype} chunks={self.chunks} blocks={self.blocks} "
            f"{codec}, {_repr.size(self.nbytes)} in {_repr.size(self.cbytes)}{where}>"
        )

    def _repr_html_(self) -> str:
        return _repr.html(self)


class Edit(_b2kit.EditorBase):
    """Changes of an array that become one commit. Reading returns the changed items.

    Created by :meth:`Array.edit`. Besides the methods below, items are set by index, including through ``oindex`` and ``vindex``.
    """

    __slots__ = ("__weakref__", "_path")

    def __init__(self, array: Array, sync: bool = True, allow_table_edit: bool = False) -> None:
        self._path = array.path

    def _commit(self) -> None:
        super()._commit()
        forget_indexes(self._path)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def attrs(self) -> Attrs:
        """The attributes, including uncommitted changes."""
        return Attrs(self)

    @property
    def oindex(self) -> _Setter:
        """Orthogonal assignment: each list of positions selects along its own dimension."""
        return _Setter(self, "orthogonal")

    @property
    def vindex(self) -> _Setter:
        """Vectorized assignment: lists of positions form coordinates, whose dimensions come first in the values."""
        return _Setter(self, "vectorized")

    def __len__(self) -> int:
        return self.shape[0]

    @checked
    def append(self, x: Any, axis: int = 0, *, progress: Progress = None) -> None:
        """Appends items at the end of an axis; see :meth:`Array.append`.

        Parameters
        ----------
        x : array_like
            The items. It may lack the dimension of the axis if it holds a single position.
        axis : int
            The axis; negative ones count from the end.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.RangeError
            A number does not fit into the type of the items, or would lose its fraction.
        b2kit.errors.ArgumentError
            The shape does not fit.
        b2kit.errors.SelectionError
            The axis is out of bounds.
        """
        axis = self._axis(axis)
        with progress_callback(progress, "append") as callback:
            self._append(self._rows(x, axis), axis, callback)

    @checked
    def insert(self, i: int, x: Any, axis: int = 0, *, progress: Progress = None) -> None:
        """Inserts items before a position of an axis; see :meth:`Array.insert`.

        Parameters
        ----------
        i : int
            The position; negative ones count from the end.
        x : array_like
            The items. It may lack the dimension of the axis if it holds a single position.
        axis : int
            The axis; negative ones count from the end.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.RangeError
            A number does not fit into the type of the items, or would lose its fraction.
        b2kit.errors.ArgumentError
            The shape does not fit.
        b2kit.errors.SelectionError
            The position or the axis is out of range.
        """
        axis = self._axis(axis)
        at, length = operator.index(i), self.shape[axis]
        if not -length <= at <= length:
            raise SelectionError(f"position {at} is out of range for axis {axis} of length {length}")
        with progress_callback(progress, "insert") as callback:
            self._insert(at % length if at < 0 else at, self._rows(x, axis), axis, callback)

    @checked
    def delete(self, sel: Any, axis: int = 0, *, progress: Progress = None) -> None:
        """Removes positions of an axis; see :meth:`Array.delete`.

        Parameters
        ----------
        sel : slice or int or list or mask
            The positions.
        axis : int
            The axis; negative ones count from the end.
        progress : bool or tqdm or callable, optional
            As of :func:`b2kit.asarray`.

        Raises
        ------
        b2kit.errors.SelectionError
            A position or the axis is out of range.
        """
        axis = self._axis(axis)
        with progress_callback(progress, "delete") as callback:
            # From the end, so that the positions still to be removed do not shift.
            for start, stop in reversed(_runs(sel, self.shape[axis], axis)):
                self._delete(start, stop, axis, callback)

    @checked
    def resize(self, shape: int | tuple[int, ...]) -> None:
        """Changes the shape; see :meth:`Array.resize`.

        Parameters
        ----------
        shape : int or tuple of int
            The new shape, with as many dimensions. Items outside are dropped, new ones are zero.

        Raises
        ------
        b2kit.errors.ArgumentError
            The number of dimensions differs, or a length is negative.
        """
        self._resize(as_shape(shape))

    @checked
    def set_compression(
        self, codec: str = "zstd", level: int = 5, filters: Sequence[str | tuple[str, int]] = ("shuffle",)
    ) -> None:
        """Sets the compression of chunks written later in this block.

        Parameters
        ----------
        codec : str
            The codec.
        level : int
            0 (store) to 9 (smallest).
        filters : sequence of str or (str, int)
            The filters.

        Raises
        ------
        b2kit.errors.ArgumentError
            There is no such codec or filter, or the level is out of range.
        """
        self._set_compression(codec, level, list(filters))

    def _axis(self, axis: int) -> int:
        at, ndim = operator.index(axis), self.ndim
        if not -ndim <= at < ndim:
            raise SelectionError(f"axis {at} is out of bounds for an array of {ndim} dimensions")
        return at % ndim

    def _rows(self, x: Any, axis: int) -> np.ndarray[Any, Any]:
        items = cast(x, self.dtype)
        return np.expand_dims(items, axis) if items.ndim == self.ndim - 1 else items

    def _change_attrs(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        layers, gone = self.attrs._arranged(changed, removed)
        # Remove first, because there may be at most 16.
        for name in gone:
            self._remove_attr(name)
        for name, value in layers.items():
            self._set_attr(name, value)


class _Setter:
    __slots__ = ("_edit", "_style")

    def __init__(self, edit: Edit, style: str) -> None:
        self._edit = edit
        self._style = style

    def __setitem__(self, key: Any, value: Any) -> None:
        self._edit._set(key, value, self._style)


class Inside(str):
    """A path in the directory of a store, which is opened without following links."""

    folder: _b2kit.Folder

    def __new__(cls, path: str, folder: _b2kit.Folder) -> Inside:
        made = super().__new__(cls, path)
        made.folder = folder
        return made


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns the absolute path, so that it stays valid after a change of directory.

    Links are not resolved, and ``..`` stays, because it may lead out of a link.
    """
    text = os.fspath(path)
    if os.path.isabs(text) or not isinstance(text, str):
        return text
    try:
        return os.path.join(os.getcwd(), text)
    except OSError as error:
        raise IoError(f"{text}: the current directory is gone") from error


def sync_folder(folder: str) -> None:
    """Waits until the names in a directory survive a power loss, if the system supports it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_shape(shape: Any) -> list[int]:
    """Converts a shape in any form that NumPy accepts to a list."""
    try:
        lengths = [operator.index(shape)]
    except TypeError:
        lengths = [operator.index(length) for length in shape]
    if any(length < 0 for length in lengths):
        raise ArgumentError("negative dimensions are not allowed")
    return lengths


def _runs(sel: Any, length: int, axis: int) -> list[tuple[int, int]]:
    """Returns the selected positions as ranges in ascending order."""
    if isinstance(sel, slice) and sel.step in (None, 1):
        start, stop, _ = sel.indices(length)
        return [(start, stop)] if start < stop else []
    if isinstance(sel, slice):
        positions = np.arange(length)[sel]
    else:
        if isinstance(sel, np.ma.MaskedArray):
            raise SelectionError("a masked array cannot be an index: fill it first")
        positions = np.asarray(sel)
        if positions.size == 0:
            return []
        if positions.dtype == bool:
            if positions.shape != (length,):
                raise SelectionError(f"{positions.shape} marks for axis {axis} of length {length}")
            positions = positions.nonzero()[0]
        elif positions.dtype.kind not in "iu":
            raise SelectionError("positions are integers")
        out = (positions < -length) | (positions >= length)
        if out.any():
            raise SelectionError(f"position {positions[out].flat[0]} is out of range for axis {axis} of length {length}")
    positions = np.unique(np.where(positions < 0, positions + length, positions))
    if positions.size == 0:
        return []
    breaks = (np.diff(positions) != 1).nonzero()[0] + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(positions, breaks)]


def forget_indexes(path: str | None) -> None:
    """Lets python-blosc2 reload the indexes of a changed file that it has cached in this process."""
    drop = getattr(sys.modules.get("blosc2.indexing"), "_drop_persistent_path_caches", None)
    if path is not None and drop is not None:
        drop(path, os.path.realpath(path))


def _reopen(
    source: str | bytes, mode: str, threads: int | None, store: str | None = None, lock: bool = True
) -> Array:
    if store is not None and isinstance(source, str):
        source = Inside(source, _b2kit.Folder(store))
    return Array(source, mode, threads, lock=lock)


def _unpickled(function: Callable[..., Any], args: tuple[object, ...], token: object) -> Any:
    """Opens a pickled object. The token lets others compare pickles."""
    return function(*args)


def _token(array: Array) -> tuple[object, ...]:
    if array._origin == "memory":
        return (hashlib.blake2b(array._frame() or b"", digest_size=16).hexdigest(),)
    if array._origin == "web":
        # The path has no user, password or signature, which may change.
        return (array.path, *(array._version or ()))
    # A member of a store is identified by the store and the key.
    named: tuple[object, ...] = (array.path,) if array._origin == "path" else ()
    if hasattr(array, "_again"):
        named = array._again[1]
    if not named:
        return (uuid.uuid4().hex,)
    if hasattr(named[0], "identity"):
        return tuple(named[0].identity())
    path = str(named[0])
    index = os.path.join(path, "chunks.b2frame")
    return (path, *named[1:], array.shape, array.cbytes, *file_token(index if os.path.isfile(index) else path))


def file_token(path: str) -> tuple[object, ...]:
    """Returns values that change with the content of a file: size, time and inode. None if it is gone."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ino

"""Files, groups, and the links in them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Self

from b2kit import _b2kit
from b2kit._array import _unpickled, absolute, file_token
from b2kit._remote import is_web, shown, source_of, source_with
from b2kit.errors import ArgumentError, DamagedError, IoError, NoSuchKeyError, NotBloscError, ReadOnlyError
from b2kit.h5py._dataset import Dataset
from b2kit.h5py._objects import Datatype, HLObject, Opened, refuse, text_of
from b2kit.h5py._types import Reference, shown_name

__all__ = ["ExternalLink", "File", "Group", "HardLink", "SoftLink", "is_hdf5"]

# Maximum length of a chain of links.
_MAX_LINKS = 16


class HardLink:
    """A link to an object, as :meth:`Group.get` returns it with ``getlink``."""

    def __repr__(self) -> str:
        return "<HardLink>"


class SoftLink:
    """A link to a path in the same file."""

    def __init__(self, path: str | bytes) -> None:
        self._path = path if isinstance(path, bytes) else str(path)

    @property
    def path(self) -> Any:
        """The path; bytes if it is not UTF-8."""
        return self._path

    def __repr__(self) -> str:
        return f'<SoftLink to "{self.path}">'


class ExternalLink:
    """A link to a path in another file."""

    def __init__(self, filename: str | os.PathLike[str], path: str) -> None:
        self._filename, self._path = os.fspath(filename), path

    @property
    def filename(self) -> str:
        """The other file."""
        return self._filename

    @property
    def path(self) -> str:
        """The path in it."""
        return self._path

    def __repr__(self) -> str:
        return f'<ExternalLink to "{self.path}" in file "{self.filename}">'


class Group(HLObject, Mapping[str, Any]):
    """A group: a mapping of names to groups, data sets and named types."""

    def _child(self, opened: Opened, file: File, address: int, name: str | None, shown: str) -> Any:
        kind = opened.objects.kind(address, shown)
        made = {"dataset": Dataset, "type": Datatype}.get(kind, Group)
        return made(file, opened, address, name)

    def _find(self, path: str) -> tuple[File, int, str]:
        """Returns the file, the address and the path of the object at a path."""
        file, opened = self.file, self._opened
        # The objects on the way, with the paths by which they were reached.
        address, name = (opened.objects.root, "/") if path.startswith("/") else (self._address, self._path or "/")
        parts = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        followed = 0
        while parts:
            part = parts.pop()
            target = opened.objects.link(address, part, name)
            if target is None:
                raise NoSuchKeyError(f"{posixpath.join(name, part)}: no such object")
            if isinstance(target, int):
                address, name = target, posixpath.join(name, part)
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise NoSuchKeyError(f"{posixpath.join(name, part)}: links that lead to each other")
            if isinstance(target, str):
                found = Group(file, opened, address, name)._find(target)
            else:
                other = opened.other(target[0])
                found = other._find(target[1])
            if found[0] is not file:
                file, address, name = found
                opened = file._opened
            else:
                address, name = found[1], posixpath.join(name, part)
        return file, address, name

    def __getitem__(self, name: Any) -> Any:
        if not self._opened.is_open:
            raise ValueError("Invalid location identifier: the file is closed")
        if isinstance(name, Reference):
            return self._dereference(name)
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Accessing a group is done with bytes or str, not {type(name)}")
        path = text_of(name)
        if not path:
            raise NoSuchKeyError("an empty name, which nothing has")
        try:
            file, address, full = self._find(path)
        except RecursionError:
            raise NoSuchKeyError(f"{path}: links that lead to each other") from None
        if full == "/":
            return file["/"] if file is not self.file else Group(file, self._opened, address, "/")
        child = self._child(file._opened, file, address, full, full)
        if "/" not in path and file is self.file:
            child._above = self if self._address != self._opened.objects.root else self.file
        return child

    def _dereference(self, reference: Any) -> Any:
        if not isinstance(reference, Reference) or not reference:
            raise ValueError("Invalid HDF5 object reference")
        address = reference.address_of_reference
        if reference._file is not None:
            return self._opened.other(reference._file)._dereference(Reference(address))
        name = "/" if address == self._opened.objects.root else None
        try:
            return self._child(self._opened, self.file, address, name, f"object {address}")
        except DamagedError as error:
            raise ValueError(f"a reference that leads to no object: {error}") from error

    @cached_property
    def _links(self) -> dict[str, Any]:
        if not self._opened.is_open:
            raise ValueError("Invalid location identifier: the file is closed")
        return dict(self._opened.objects.links(self._address, self._shown)[0])

    def __iter__(self) -> Iterator[str]:
        return iter([shown_name(name) for name in self._links])

    def __reversed__(self) -> Iterator[str]:
        return iter([shown_name(name) for name in reversed(self._links)])

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, Reference):
            return bool(name)
        if not text_of(name) or not self._opened.is_open:
            return False
        try:
            return self._link(name) is not None
        except (KeyError, RecursionError):
            return False

    def get(self, name: Any, default: Any = None, getclass: bool = False, getlink: bool = False) -> Any:
        """Return the object with a name, or the default.

        Parameters
        ----------
        name : str, bytes or Reference
            A path, or a reference.
        default : object
            The result if there is no such object.
        getclass : bool
            Whether to return the class instead.
        getlink : bool
            Whether to return the link instead: :class:`HardLink`, :class:`SoftLink` or :class:`ExternalLink`; with ``getclass`` its class.

        Returns
        -------
        object
            The object, its class, the link, its class, or the default.
        """
        if getlink:
            link = self._link(name)
            if link is None:
                return default
            return type(link) if getclass else link
        try:
            found = self[name]
        except KeyError:
            return default
        return type(found) if getclass and type(found) is not File else Group if getclass else found

    def _link(self, name: Any) -> HardLink | SoftLink | ExternalLink | None:
        path = text_of(name)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not parts:
            return HardLink() if path else None
        last, start = parts.pop(), "/" if path.startswith("/") else ""
        try:
            file, address, full = self._find(start + "/".join(parts))
        except KeyError:
            return None
        target = file._opened.objects.link(address, last, full)
        if isinstance(target, int):
            return HardLink()
        if isinstance(target, str):
            return SoftLink(shown_name(target))
        return ExternalLink(*map(shown_name, target)) if target is not None else None

    def _walk(self, do_links: bool) -> Iterator[tuple[str, Any]]:
        """Returns the paths of all entries below, with addresses or links, in the order of the names."""
        objects = self._opened.objects
        seen = {self._address}
        pending = [iter(self._below(self._address, ""))]
        while pending:
            entry = next(pending[-1], None)
            if entry is None:
                pending.pop()
                continue
            path, target = entry
            if not isinstance(target, int):
                if do_links and target is not None:
                    yield path, target
                continue
            is_new = target not in seen
            if is_new or do_links:
                yield path, target
            if is_new:
                seen.add(target)
                if objects.kind(target, path) == "group":
                    pending.append(iter(self._below(target, path)))

    def _below(self, address: int, path: str) -> list[tuple[str, Any]]:
        links = self._opened.objects.links(address, path)[0]
        links.sort(key=lambda link: link[0].encode("utf-8", "surrogateescape"))
        return [(f"{path}/{name}" if path else name, target) for name, target in links]

    def visit(self, func: Callable[[str], Any]) -> Any:
        """Call a function with the path of each object below, once for each object, until it returns something other than None.

        Parameters
        ----------
        func : callable
            It receives the path.

        Returns
        -------
        object
            The last result of the function.
        """
        return self.visititems(lambda name, _: func(name))

    def visititems(self, func: Callable[[str, Any], Any]) -> Any:
        """Call a function with the path of each object below and the object, until it returns something other than None.

        Parameters
        ----------
        func : callable
            It receives the path and the object; each object only once.

        Returns
        -------
        object
            The last result of the function.
        """
        for path, address in self._walk(do_links=False):
            full = posixpath.join(self._path or "/", path)
            found = func(shown_name(path), self._child(self._opened, self.file, address, full, full))
            if found is not None:
                return found
        return None

    def visit_links(self, func: Callable[[str], Any]) -> Any:
        """Call a function with the path of each link below, until it returns something other than None.

        Parameters
        ----------
        func : callable
            It receives the path.

        Returns
        -------
        object
            The last result of the function.
        """
        return self.visititems_links(lambda name, _: func(name))

    def visititems_links(self, func: Callable[[str, Any], Any]) -> Any:
        """Call a function with the path of each link below and the link, until it returns something other than None.

        Parameters
        ----------
        func : callable
            It receives the path and the link.

        Returns
        -------
        object
            The last result of the function.
        """
        for path, target in self._walk(do_links=True):
            link: Any = HardLink() if isinstance(target, int) else SoftLink(target) if isinstance(target, str) else None
            found = func(shown_name(path), link or ExternalLink(*target))
            if found is not None:
                return found
        return None

    def __eq__(self, other: object) -> bool:
        return HLObject.__eq__(self, other)

    __hash__ = HLObject.__hash__
    __bool__ = HLObject.__bool__

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 group>"
        name = "(anonymous)" if self._path is None else f'"{self._path}"'
        return f"<HDF5 group {name} ({len(self)} members)>"

    __setitem__ = __delitem__ = create_group = create_dataset = create_dataset_like = create_virtual_dataset = refuse
    require_group = require_dataset = copy = move = build_virtual_dataset = refuse


class File(Group):
    """An HDF5 file, open for reading, with h5py's interface.

    Data sets and attributes that were opened stay readable when the file is closed. Files and their objects may be
    used by several threads, and after a fork.

    Parameters
    ----------
    name
        A path, an http or fsspec URL, or an object with ``read`` and ``seek``.
    mode
        Only ``"r"``.
    external_links
        Which files external links, virtual data sets and external storage may refer to: ``"folder"`` for files in the folder of this
        one, ``"anywhere"``, or ``"never"``.
    threads
        Number of threads that read and decode; by default that of :func:`b2kit.set_threads`.
    decode_strings
        Whether texts of variable length are read as ``str``; with ``"all"`` also single texts of fixed length in
        attributes, if they are UTF-8. By default this holds for attributes but not for data sets, as in h5py.
    storage_options
        Options for fsspec, which then opens the URL.
    **ignored
        Other parameters of h5py, such as ``libver`` or ``rdcc_nbytes``, which do nothing here.

    Raises
    ------
    ReadOnlyError
        A mode for writing.
    OSError
        There is no such file, or it is not HDF5.
    """

    def __init__(
        self,
        name: Any,
        mode: str | None = "r",
        *,
        external_links: Literal["folder", "anywhere", "never"] | str = "folder",
        threads: int | None = None,
        decode_strings: bool | Literal["all"] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **ignored: Any,
    ) -> None:
        if mode in ("r+", "w", "w-", "x", "a"):
            raise ReadOnlyError(f"mode {mode!r}: b2kit.h5py is read-only, so the mode is 'r'")
        if mode not in ("r", None):
            raise ArgumentError("Invalid mode; must be one of r, r+, w, w-, x, a")
        if external_links not in ("folder", "anywhere", "never"):
            raise ArgumentError(f"external_links {external_links!r}: expected 'folder', 'anywhere' or 'never'")
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        try:
            filename, folder, objects = _open(name, storage_options)
        except NotBloscError as error:
            raise IoError(f"{shown(str(name))}: not an HDF5 file (NetCDF3 files are not supported here: see b2kit.hdf5)") from error
        except DamagedError as error:
            raise IoError(f"{shown(str(name))}: {error}") from error
        self._filename = filename
        path = absolute(name) if folder is not None else name
        options = {"external_links": external_links, "threads": threads, "decode_strings": decode_strings}
        self._again: tuple[Any, dict[str, Any]] = path, {**options, "storage_options": storage_options}
        opened = Opened(objects, folder, external_links, threads, decode_strings)
        HLObject.__init__(self, self, opened, objects.root, "/")

    @property
    def file(self) -> File:
        """The file itself."""
        return self

    @property
    def parent(self) -> Group:
        """The root group."""
        return self

    @property
    def filename(self) -> str:
        """The path or URL by which the file was opened; a URL without secrets."""
        return self._filename

    @property
    def mode(self) -> str:
        """Always ``"r"``."""
        return "r"

    @property
    def driver(self) -> str:
        """h5py's name for how the file is read."""
        return "sec2" if self._opened.folder is not None else "fileobj"

    @property
    def libver(self) -> tuple[str, str]:
        """The versions of HDF5 that can be read."""
        return "earliest", "latest"

    @property
    def userblock_size(self) -> int:
        """Bytes before the HDF5 data."""
        return self._opened.objects.user_block

    @property
    def swmr_mode(self) -> bool:
        """Always False: changes by other programs are not followed."""
        return False

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""

    def close(self) -> None:
        """Close the file. Data sets that were opened before can still be read."""
        self._opened.is_open = False
        for other in self._opened.others.values():
            other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        path, options = self._again
        token = file_token(path) if self._opened.folder is not None else ()
        return _unpickled, (_reopen, (path, options, "/"), token)

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{os.path.basename(self.filename)}" (mode r)>'


def _open(name: Any, storage_options: Mapping[str, Any] | None) -> tuple[str, str | None, _b2kit.Hdf5Objects]:
    """Opens the argument of `File`: its name, its folder if it is a local one, and its objects."""
    source = source_with(name, storage_options) if storage_options is not None else None
    if source is None and not is_web(name):
        source = source_of(name)
    if source is not None:
        return source.name, None, _b2kit.Hdf5Objects(source.name, source)
    if is_web(name):
        return shown(name), None, _b2kit.Hdf5Objects(name)
    if isinstance(name, (str, os.PathLike)):
        path = absolute(name)
        return os.fspath(name), os.path.dirname(path), _b2kit.Hdf5Objects(path)
    if not (hasattr(name, "read") and hasattr(name, "seek")):
        raise ArgumentError(f"{name!r} is not a path, URL or file: a file has the methods `read` and `seek`")
    filename = getattr(name, "name", None)
    filename = filename if isinstance(filename, str) else repr(name)
    return filename, None, _b2kit.Hdf5Objects(filename, file=name)


def _reopen(path: Any, options: dict[str, Any], name: str) -> Any:
    file = File(path, **options)
    return file if name == "/" else file[name]


def is_hdf5(fname: Any) -> bool:
    """Return whether a file is HDF5, by its content.

    Parameters
    ----------
    fname : path_like, str or file
        A path, a URL, or an object with ``read`` and ``seek``.

    Returns
    -------
    bool
        Whether the file is HDF5.
    """
    try:
        File(fname)
    except (OSError, ValueError):
        return False
    return True


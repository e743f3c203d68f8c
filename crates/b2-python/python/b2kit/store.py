"""Stores: several arrays under keys, in the layout of python-blosc2's ``TreeStore``.

``.b2d`` directories can be read and written; ``.b2z`` archives and ``.b2e`` frames can only be read.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Union

from b2kit import _b2kit
from b2kit._array import Array, Inside, absolute
from b2kit._progress import Progress
from b2kit._repr import printable
from b2kit.errors import (
    ArgumentError,
    DamagedError,
    Error,
    ExistsError,
    NoSuchKeyError,
    ReadOnlyError,
    UnsupportedError,
    WrongTypeError,
    checked,
    of_system,
)

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Group", "GroupAttrs"]

# Name of the frame with small members, in directories and archives.
_EMBEDDED = "embed.b2e"
# Metalayers of frames that contain other frames, and the attribute with their positions.
_MARKS = {"b2embed", "b2dict", "b2tree"}
_MAP = "estore_metadata"
_SUFFIXES = (".b2nd", ".b2f", ".b2b")
# The member that holds the attributes of a group.
_ATTRS = "__vlmeta__"
# Chunk size in bytes of the frame for small members, as python-blosc2 creates it.
_CHUNKSIZE = 1 << 13
_MAX_MEMBERS = 1 << 20
_MAX_DEPTH = 64


class _Place(NamedTuple):
    """Location of a member: a path, a range of the archive, or a range of the frame with small members."""

    kind: str
    path: str = ""
    offset: int = 0
    length: int = 0


def find(path: str, mode: str, threads: int | None) -> Group | None:
    """Returns the root group of the store at a path, or ``None`` if there is no store."""
    if not os.path.exists(path):
        if mode != "a" or not path.endswith(".b2d"):
            return None
        _make(path)
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "chunks.b2frame")):
            return None
        is_store = path.endswith(".b2d") or os.path.exists(os.path.join(path, _EMBEDDED)) or bool(_listed(_b2kit.Folder(path)))
        return Group(path, mode, threads) if is_store else None
    with _regular(path) as file:
        start = file.read(4)
    if start not in (b"PK\x03\x04", b"PK\x05\x06"):
        try:
            frame = _b2kit.FrameBase(path)
        except Error:
            return None
        if not _is_store(frame):
            return None
    return Group(path, mode, threads)


def _regular(path: str) -> IO[bytes]:
    """Opens a regular file for reading. Other kinds of files are rejected without blocking."""
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))
    except OSError as error:
        raise of_system(error, path) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ArgumentError(f"{path}: neither a regular file nor a directory")
    return file


def _make(path: str) -> None:
    """Creates an empty store, which gets its name only when it is complete."""
    new = f"{path.rstrip(os.sep)}.{os.getpid()}.new"
    try:
        os.mkdir(new)
        _write_embedded(new)
        os.rename(new, path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, Error):
            raise of_system(error, path) from error
        raise


def _write_embedded(directory: str) -> None:
    attrs = {_MAP: {"embed_map": {}, "current_offset": 0}}
    _b2kit.write_frame(os.path.join(directory, _EMBEDDED), _CHUNKSIZE, {"b2tree": {"version": 1}}, attrs)


def _is_store(frame: _b2kit.FrameBase) -> bool:
    return bool(_MARKS.intersection(frame.metalayers)) and _MAP in frame.attr_names


class Group(Mapping[str, Union[Array, "Group"]]):
    """A mapping of names to arrays and groups: a store, or a group in one. Created by :func:`b2kit.open`.

    It lists only its direct members; ``group["a/b"]`` also accesses those further down.

        >>> import b2kit, numpy as np, tempfile
        >>> g = b2kit.open(tempfile.mkdtemp() + "/store.b2d", mode="a")
        >>> _ = g.create("ocean/sst", np.zeros((2, 3)))
        >>> g.attrs["title"] = "a store"
        >>> list(g), list(g["ocean"]), g["ocean/sst"].shape
        (['ocean'], ['sst'], (2, 3))
    """

    def __init__(self, path: str | os.PathLike[str], mode: str = "r", threads: int | None = None, key: str = "") -> None:
        self._path = absolute(path)
        self._mode = mode
        self._threads = threads
        self._key = key
        self._embedded: _b2kit.FrameBase | None = None
        self._is_directory = os.path.isdir(self._path)
        if mode not in ("r", "a"):
            raise ArgumentError(f'mode {mode!r}, expected "r" or "a"')
        if mode == "a" and not self._is_directory:
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
    def attrs(self) -> GroupAttrs:
        """The attributes of the group, as ``TreeStore.vlmeta`` reads and writes them."""
        return GroupAttrs(self)

    def __iter__(self) -> Iterator[str]:
        names = {key[len(self._key) + 1 :].split("/", 1)[0] for key in self._members() if key.startswith(f"{self._key}/")}
        return iter(sorted(names - {_ATTRS}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str) or not key.strip("/"):
            return False
        full, members = self._full(key), self._members()
        return full in members or any(member.startswith(f"{full}/") for member in members)

    def __getitem__(self, key: str) -> Array | Group:
        full, members = self._full(key), self._members()
        if full in members and not full.endswith(f"/{_ATTRS}"):
            return self._open(full, members[full])
        if any(member.startswith(f"{full}/") for member in members):
            return Group(self._path, self._mode, self._threads, full)
        raise NoSuchKeyError(key)

    @checked
    def create(self, key: str, x: Any = None, *, shape: Any = None, dtype: npt.DTypeLike = float, **options: Any) -> Array:
        """Adds an array with the items of ``x``, or zeros with the given ``shape`` and ``dtype``.

        For ``options`` see :func:`b2kit.asarray`.
        """
        from b2kit import _create

        path = self._path_for(key, options.get("overwrite", False))
        if (x is None) == (shape is None):
            raise ArgumentError("either items or a shape")
        path.folder.make(os.path.dirname(path))
        if x is None:
            return _create.zeros(shape, dtype, path, **options)
        return _create.asarray(x, path, **options)

    def __setitem__(self, key: str, x: Any) -> None:
        """Adds or replaces an array. Arrays of this package are copied with their attributes and compression."""
        from b2kit import _create

        if isinstance(x, Array):
            path = self._path_for(key, True)
            path.folder.make(os.path.dirname(path))
            _create.copy(x, path, overwrite=True)
        else:
            self.create(key, x, overwrite=True)

    def create_group(self, key: str) -> Group:
        """Adds a group. Others see it only once it has members or attributes, since nothing else is stored."""
        full = self._full(key)
        self._check_free(full, False)
        folder = self._folder()
        folder.make(os.path.join(folder.path, *full.split("/")[1:]))
        return Group(self._path, self._mode, self._threads, full)

    def __delitem__(self, key: str) -> None:
        """Removes an array, or a group and all its contents."""
        self._check_writable()
        full, members = self._full(key), self._members()
        gone = [place for member, place in members.items() if member == full or member.startswith(f"{full}/")]
        if not gone:
            raise NoSuchKeyError(key)
        if any(place.kind != "path" for place in gone):
            raise UnsupportedError(f"{key}: small members in {_EMBEDDED} cannot be removed")
        folder = self._folder()
        for place in gone:
            folder.remove(place.path)
        below = os.path.join(folder.path, *full.split("/")[1:])
        if folder.kind(below) == "directory":
            folder.remove(below)

    def walk(self) -> Iterator[tuple[str, Array]]:
        """Iterates over all arrays in this group and below; yields keys relative to this group, and arrays."""
        members = self._members()
        for key in sorted(members):
            if key.startswith(f"{self._key}/") and not key.endswith(f"/{_ATTRS}"):
                yield key[len(self._key) + 1 :], self._open(key, members[key])

    def verify(self, *, threads: int | None = None, progress: Progress = None) -> str:
        """Verifies all arrays; see :meth:`Array.verify`. Returns the worst of their results."""
        order = ("ok", "none", "changed")
        verdicts = [array.verify(threads=threads, progress=progress) for _, array in self.walk()]
        return max(verdicts, key=order.index, default="ok")

    def close(self) -> None:
        """Does nothing: an open group holds no lock."""

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Group], tuple[object, ...]]:
        return Group, (self._path, self._mode, self._threads, self._key)

    def __repr__(self) -> str:
        lines = [f"<b2kit.Group {self.name!r} of {self._path!r}>"]
        members = sorted(key for key in self._members() if key.startswith(f"{self._key}/"))
        names = [key[len(self._key) + 1 :] for key in members if not key.endswith(f"/{_ATTRS}")]
        lines += [f"  {printable(name)}" for name in names[:20]]
        if len(names) > 20:
            lines.append(f"  ... and {len(names) - 20} more")
        return "\n".join(lines)

    # Members.

    def _full(self, key: str) -> str:
        if not isinstance(key, str):
            raise WrongTypeError(f"a key is a string, not {type(key).__name__}")
        parts = [part for part in key.split("/") if part]
        bad = {".", ".."}.intersection(parts) or any(c in key for c in "\\\0\n\r\t")
        if bad or not parts or len(parts) > _MAX_DEPTH:
            raise NoSuchKeyError(key)
        return "/".join([self._key, *parts])

    def _members(self) -> dict[str, _Place]:
        """Returns all current members of the store by key."""
        if self._is_directory:
            folder = self._folder()
            members = _listed(folder)
            embedded = Inside(os.path.join(folder.path, _EMBEDDED), folder)
            if folder.kind(embedded) is not None:
                members = {**self._list_embedded(_b2kit.FrameBase(embedded)), **members}
        elif (archived := _archived(self._path)) is not None:
            members = archived
            if place := members.pop("/embed.b2e", None):
                frame = _b2kit.FrameBase(self._path, offset=place.offset)
                members = {**self._list_embedded(frame), **members}
        else:
            members = self._list_embedded(_b2kit.FrameBase(self._path))
        return members

    def _list_embedded(self, frame: _b2kit.FrameBase) -> dict[str, _Place]:
        found = frame.attr(_MAP)
        entries = found[0].get("embed_map") if found and isinstance(found[0], dict) else None
        if not isinstance(entries, dict) or len(entries) > _MAX_MEMBERS:
            raise DamagedError(f"{self._path}: {_MAP} is malformed")
        members = {}
        for key, entry in entries.items():
            offset, length = (entry.get(name) if isinstance(entry, dict) else None for name in ("offset", "length"))
            if not isinstance(key, str) or not isinstance(offset, int) or not isinstance(length, int):
                raise DamagedError(f"{self._path}: {_MAP}: an entry is malformed")
            if offset < 0 or length < 0 or offset + length > frame.nbytes:
                raise DamagedError(f"{self._path}: {_MAP}: key {key}: bytes {offset} + {length} are outside the frame")
            members[key if key.startswith("/") else f"/{key}"] = _Place("embedded", "", offset, length)
        self._embedded = frame
        return members

    def _open(self, key: str, place: _Place) -> Array:
        if place.kind == "path":
            return Array(Inside(place.path, self._folder()), self._mode, self._threads)
        if place.kind == "packed":
            raise UnsupportedError(f"{self._path}: {key} is compressed in the archive: unpack it, and open the directory")
        if self._mode == "a":
            raise UnsupportedError(f"{key} is a small member in {_EMBEDDED}, which can only be read: use mode=\"r\"")
        if place.kind == "inside":
            array = Array(self._path, "r", self._threads, offset=place.offset)
            if _b2kit.FrameBase(self._path, offset=place.offset).frame_len > place.length:
                raise DamagedError(f"{self._path}: {key} is longer than its place in the archive")
        else:
            name = f"{self._path}:{key}"
            array = Array(self._embedded, "r", self._threads, part=(place.offset, place.length), name=name)
        array._again = (_member, (self._path, key, self._threads))
        return array

    # Changes.

    def _check_writable(self) -> None:
        if self._mode != "a":
            raise ReadOnlyError('the store is open for reading: use mode="a"')

    def _check_free(self, full: str, overwrite: bool) -> None:
        self._check_writable()
        members = self._members()
        if any(member.startswith(f"{full}/") for member in members):
            raise ExistsError(f"{full}: there is a group of that name")
        parts = full.split("/")
        for n in range(2, len(parts)):
            if "/".join(parts[:n]) in members:
                raise ExistsError(f"{'/'.join(parts[:n])}: there is an array of that name")
        if full in members and not overwrite:
            raise ExistsError(f"{full}: there is an array of that name")

    def _folder(self) -> _b2kit.Folder:
        """Opens the directory of the store, as it is now. Its contents are accessed only through this object."""
        return _b2kit.Folder(self._path)

    def _path_for(self, key: str, overwrite: bool) -> Inside:
        full = self._full(key)
        if full.endswith(f"/{_ATTRS}"):
            raise ArgumentError(f"{key}: this name is for attributes")
        self._check_free(full, overwrite)
        folder = self._folder()
        return Inside(f"{os.path.join(folder.path, *full.split('/')[1:])}.b2nd", folder)


def _member(path: str, key: str, threads: int | None) -> Array:
    found = Group(path, "r", threads)[key]
    assert isinstance(found, Array)
    return found


def _listed(directory: _b2kit.Folder) -> dict[str, _Place]:
    """Returns the members stored as files in a directory. Links are ignored."""
    members: dict[str, _Place] = {}
    pending = [(directory.path, "", 0)]
    while pending:
        folder, prefix, depth = pending.pop()
        if depth > _MAX_DEPTH or len(members) > _MAX_MEMBERS:
            raise DamagedError(f"{directory.path}: more or deeper members than any store has")
        for name, kind in sorted(directory.entries(folder)):
            stem, suffix = os.path.splitext(name)
            path = os.path.join(folder, name)
            of_chunks = kind == "directory" and directory.kind(os.path.join(path, "chunks.b2frame")) is not None
            if suffix in _SUFFIXES and stem and (kind == "file" or of_chunks):
                members.setdefault(f"{prefix}/{stem}", _Place("path", path))
            # Skips what `b2kit.dask.to_b2kit` is still writing.
            elif kind == "directory" and ".b2nd.parts-" not in name:
                pending.append((path, f"{prefix}/{name}", depth + 1))
    return members


def _archived(path: str) -> dict[str, _Place] | None:
    """Returns the members of an archive, or ``None`` if the file is not one. Compressed members cannot be opened."""
    members: dict[str, _Place] = {}
    try:
        with _regular(path) as file:
            if not zipfile.is_zipfile(file):
                return None
            archive = zipfile.ZipFile(file)
            entries = archive.infolist()
            if len(entries) > _MAX_MEMBERS:
                raise DamagedError(f"{path}: more than {_MAX_MEMBERS} members")
            for entry in entries:
                stem, suffix = os.path.splitext(entry.filename)
                if entry.filename != _EMBEDDED and suffix not in _SUFFIXES:
                    continue
                parts = entry.filename.split("/")
                if any(part in ("", ".", "..") for part in parts) or "\\" in entry.filename:
                    raise DamagedError(f"{path}: the member name {entry.filename!r} is no path inside the archive")
                key = f"/{_EMBEDDED}" if entry.filename == _EMBEDDED else f"/{stem}"
                if entry.compress_type != zipfile.ZIP_STORED:
                    members[key] = _Place("packed")
                    continue
                # Name and extra field may differ in length from those in the central directory of the archive.
                if entry.header_offset < 0:
                    raise DamagedError(f"{path}: a member starts before the archive")
                file.seek(entry.header_offset)
                header = file.read(30)
                if len(header) < 30 or header[:4] != b"PK\x03\x04":
                    raise DamagedError(f"{path}: no member starts at byte {entry.header_offset}")
                name, extra = struct.unpack("<HH", header[26:30])
                offset = entry.header_offset + 30 + name + extra
                members[key] = _Place("inside", path, offset, entry.file_size)
    except Error:
        raise
    except OSError as error:
        raise of_system(error, path) from error
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError) as error:
        raise DamagedError(f"{path}: {error}") from error
    return members


class GroupAttrs(MutableMapping[str, Any]):
    """The attributes of a group. Each assignment is a separate commit; :meth:`update` combines several into one."""

    __slots__ = ("_group",)

    def __init__(self, group: Group) -> None:
        self._group = group

    def _frame(self) -> _b2kit.FrameBase | None:
        group = self._group
        place = group._members().get(f"{group._key}/{_ATTRS}")
        if place is None:
            return None
        if place.kind == "path":
            return _b2kit.FrameBase(Inside(place.path, group._folder()))
        if place.kind == "inside":
            return _b2kit.FrameBase(group._path, offset=place.offset)
        if place.kind == "packed" or group._embedded is None:
            raise UnsupportedError(f"{group._path}: the attributes are compressed in the archive: unpack it")
        return _b2kit.FrameBase(group._embedded.read(place.offset, place.offset + place.length))

    def __getitem__(self, name: str) -> Any:
        frame = self._frame()
        found = frame.attr(name) if frame else None
        if found is None:
            raise NoSuchKeyError(name)
        return found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({name: value}, [])

    def __delitem__(self, name: str) -> None:
        self._change({}, [name])

    def __iter__(self) -> Iterator[str]:
        frame = self._frame()
        return iter(frame.attr_names if frame else [])

    def __len__(self) -> int:
        frame = self._frame()
        return len(frame.attr_names) if frame else 0

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Sets several attributes in one commit."""
        self._change(dict(other, **more), [])

    def asdict(self) -> dict[str, Any]:
        """Returns all attributes as a dictionary."""
        return {name: self[name] for name in self}

    def _change(self, changed: dict[str, Any], removed: list[str]) -> None:
        group = self._group
        group._check_writable()
        if missing := [name for name in removed if name not in self]:
            raise NoSuchKeyError(missing[0])
        store = group._folder()
        folder = os.path.join(store.path, *group._key.split("/")[1:])
        path = Inside(os.path.join(folder, f"{_ATTRS}.b2f"), store)
        if store.kind(path) is not None:
            _b2kit.edit_frame_attrs(path, changed, removed)
            return
        # Keeps attributes that another program stored in the frame for small members.
        kept = {name: value for name, value in self.asdict().items() if name not in removed}
        store.make(folder)
        _b2kit.write_frame(path, 0, {}, {**kept, **changed})

    def __repr__(self) -> str:
        return repr(self.asdict())

"""Arrays in object stores, and in anything else that fsspec and obstore support."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeGuard

from b2kit import _b2kit
from b2kit.errors import ArgumentError, Error, IoError, NotFoundError, UnsupportedError, of_system

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(::|://)")
_WEB = re.compile(r"https?://", re.IGNORECASE)
# A URL in a message, up to a quotation mark.
_ANY_URL = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^'"<>\n]*""")


class Source(Protocol):
    """An object from which byte ranges are fetched."""

    name: str
    size: int

    def fetch(self, ranges: list[tuple[int, int]]) -> list[Any]:
        """Returns the bytes of each range; ranges may be fetched concurrently."""
        ...

    def identity(self) -> tuple[object, ...]:
        """Returns values that change with the content, as far as the store reports them."""
        ...

    def afresh(self) -> Source:
        """Returns a source for the current content of the same location."""
        ...


class Fsspec:
    """A file in an fsspec file system."""

    def __init__(self, fs: Any, path: str, url: str | None = None) -> None:
        self.fs, self.path = fs, path
        self.name = url or shown(fs.unstrip_protocol(path))
        with _converted_errors(self.name):
            about = fs.info(path)
        if about.get("size") is None:
            raise IoError(f"{self.name}: the server does not report the size of the file")
        self.size = int(about["size"])
        tags = (about.get(key) for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created"))
        self._tags = tuple(str(value) for value in tags if value is not None)

    def fetch(self, ranges: list[tuple[int, int]]) -> list[Any]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        with _converted_errors(self.name):
            return list(self.fs.cat_ranges([self.path] * len(ranges), starts, ends, on_error="raise"))

    def identity(self) -> tuple[object, ...]:
        return (self.name, self.size, *self._tags)

    def afresh(self) -> Fsspec:
        with _converted_errors(self.name):
            self.fs.invalidate_cache()
        return Fsspec(self.fs, self.path, self.name)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Fsspec, (self.fs, self.path, self.name)


class Obstore:
    """An object in an obstore store."""

    def __init__(self, store: Any, path: str) -> None:
        self.store, self.path = store, path
        self.name = f"{type(store).__name__}:{path}"
        self._obstore: Any = importlib.import_module("obstore")
        with _converted_errors(self.name):
            about = self._obstore.head(store, path)
        self.size = int(about["size"])
        self._tags = (str(about.get("e_tag")), str(about.get("last_modified")))

    def fetch(self, ranges: list[tuple[int, int]]) -> list[Any]:
        # A call requests only ten concurrently, and neighbours as one range over one connection.
        each = max(10, -(-len(ranges) // 6))
        calls = [ranges[start : start + each] for start in range(0, len(ranges), each)]
        with _converted_errors(self.name):
            if len(calls) < 2:
                return self._call(ranges)
            with ThreadPoolExecutor(len(calls)) as pool:
                return [answer for answers in pool.map(self._call, calls) for answer in answers]

    def _call(self, ranges: list[tuple[int, int]]) -> list[Any]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        # Ranges worth coalescing were coalesced before.
        return list(self._obstore.get_ranges(self.store, self.path, starts=starts, ends=ends, coalesce=0))

    def identity(self) -> tuple[object, ...]:
        return (self.name, self.size, *self._tags)

    def afresh(self) -> Obstore:
        return Obstore(self.store, self.path)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Obstore, (self.store, self.path)


def is_web(given: Any) -> TypeGuard[str]:
    """Returns whether this is an HTTP or HTTPS URL, which the extension module reads itself."""
    if not isinstance(given, str) or not _WEB.match(given):
        return False
    _check_listing(given)
    return True


def source_of(given: Any, storage_options: Mapping[str, Any] | None = None) -> Source | None:
    """Returns the source for a URL, an fsspec file, or a pair of an obstore store and a path; ``None`` for others."""
    if isinstance(given, str):
        match = _URL.match(given)
        # A single letter is a Windows drive and does not match.
        return _by_url(given, match[1], storage_options or {}) if match else None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        return Obstore(*given)
    fs, path = getattr(given, "fs", None), getattr(given, "path", None)
    if fs is not None and hasattr(fs, "cat_ranges") and isinstance(path, str):
        compressed = getattr(given, "compression", None)
        if compressed:
            raise UnsupportedError(f"{path}: a file that is compressed as a whole ({compressed}) cannot be read in parts")
        return Fsspec(fs, path)
    return None


def source_with(given: Any, storage_options: Mapping[str, Any]) -> Source:
    """Returns the source for a URL that fsspec opens with options."""
    source = source_of(given, storage_options) if isinstance(given, str) else None
    if source is None:
        raise ArgumentError(f"storage_options are for URLs, not for {given!r}")
    return source


def _by_url(url: str, scheme: str, storage_options: Mapping[str, Any]) -> Source:
    _check_listing(url)
    try:
        core: Any = importlib.import_module("fsspec.core")
    except ImportError:
        raise UnsupportedError(f"{shown(url)}: URLs are opened by fsspec, which is not installed") from None
    try:
        # Some file systems connect at this point.
        with _converted_errors(shown(url), (ValueError, ImportError)):
            fs, path = core.url_to_fs(url, **storage_options)
    except ValueError as error:
        if isinstance(error, Error):
            raise
        text, cause = _plain(error)
        raise UnsupportedError(f"{shown(url)}: {text}") from cause
    except ImportError as error:
        text, cause = _plain(error)
        raise UnsupportedError(f"{shown(url)}: {scheme} needs another package: {text}") from cause
    return Fsspec(fs, path, shown(url))


@contextmanager
def _converted_errors(name: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Converts any exception raised while fetching, except those in ``but``, to one of this package.

    ``name`` is shown in its message, so it must not contain passwords.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (Error, *but)):
            raise
        text, cause = _plain(error)
        if isinstance(error, FileNotFoundError):
            raise NotFoundError(f"{name}: not found") from cause
        if isinstance(error, OSError) and cause is not None:
            raise of_system(error, name) from cause
        raise IoError(f"{name}: {type(error).__name__}: {text}") from cause


def _check_listing(url: str) -> None:
    if shown(url).rstrip("/").endswith(".b2d"):
        raise UnsupportedError(f"{shown(url)}: a store has no listing there: open an array of it, by its URL")


def shown(url: str) -> str:
    """Returns the URL without user names, passwords and signatures, for everything that is shown or stored."""
    return _b2kit.redact(url).removesuffix("?...")


def _plain(error: Exception) -> tuple[str, Exception | None]:
    """Returns the message of an error of another package without secrets in URLs, and the error as a cause.

    An error whose message has secrets is not chained as a cause, since tracebacks would show it.
    """
    text = str(error)
    safe = _ANY_URL.sub(lambda match: shown(match[0]), text)
    return safe, (error if safe == text else None)

"""Attributes of arrays and groups, each a msgpack value as python-blosc2's ``vlmeta`` reads and writes it.

C-Blosc2 reads at most 16 attributes, with names of at most 31 bytes. Those beyond are stored in a map, which is the
attribute ``attrs`` to other programs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from b2kit.errors import ArgumentError, NoSuchKeyError, WrongTypeError

if TYPE_CHECKING:
    from b2kit._array import Array, Edit

__all__ = ["Attrs", "Ext", "Raw"]

# The layer with the attributes that have no separate layer.
_MAP = "attrs"
# Limits of C-Blosc2: the number of layers, and the length of their names in bytes.
_MOST = 16
_LONGEST = 31
# Stays a separate layer, since other programs look for it.
_DIMS = "_ARRAY_DIMENSIONS"
# Describes the indexes that python-blosc2 keeps of an array. It is a layer, but not an attribute.
INDEXES = "blosc2_indexes"


class Ext(NamedTuple):
    """A msgpack value of an extension type that only its writer knows. Nothing it refers to is opened or run."""

    code: int
    data: bytes


class Raw(bytes):
    """The bytes of an attribute that is not msgpack, as C programs may store it. It is written unchanged."""


class Layers(MutableMapping[str, Any]):
    """A mapping of names to values, in layers of a frame or, if they do not fit there, in a map in one layer."""

    __slots__ = ()

    @abstractmethod
    def _names(self) -> list[str]:
        """Returns the names of the layers."""

    @abstractmethod
    def _value(self, name: str) -> tuple[Any] | None:
        """Returns the value of a layer, in a tuple since it may be ``None``."""

    @abstractmethod
    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        """Changes and removes attributes in one commit."""

    def _more(self) -> dict[str, Any] | None:
        """Returns the map with further attributes. If its name is used for anything else, that is an ordinary attribute."""
        found = self._value(_MAP)
        if found is None or not isinstance(found[0], dict) or not all(isinstance(name, str) for name in found[0]):
            return None
        return dict(found[0])

    def __getitem__(self, name: str) -> Any:
        if name == INDEXES:
            raise NoSuchKeyError(name)
        found = self._value(_name(name))
        if found is not None and name != _MAP:
            return found[0]
        more = self._more()
        if more is not None and name in more:
            return more[name]
        if found is None or more is not None:
            raise NoSuchKeyError(name)
        return found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({_name(name): value}, [])

    def __delitem__(self, name: str) -> None:
        self._change({}, [_name(name)])

    def _all(self) -> list[str]:
        names = [name for name in self._names() if name != INDEXES]
        if _MAP in names and (more := self._more()) is not None:
            names.remove(_MAP)
            names += [name for name in more if name not in names]
        return names

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Sets several attributes in one commit.

        Parameters
        ----------
        other : mapping or iterable of pairs
            Names and values.
        **more
            Further attributes.
        """
        items = dict(other, **more)
        if items:
            self._change({_name(name): value for name, value in items.items()}, [])

    def clear(self) -> None:
        """Removes all attributes in one commit."""
        if names := self._all():
            self._change({}, names)

    def asdict(self) -> dict[str, Any]:
        """Returns all attributes as a dictionary."""
        return {name: self[name] for name in self}

    def _ipython_key_completions_(self) -> list[str]:
        return self._all()

    def _arranged(self, changed: Mapping[str, Any], removed: list[str]) -> tuple[dict[str, Any], list[str]]:
        """Returns the layers to be changed and removed for attributes to be changed and removed."""
        return arranged(self._names(), self._more(), changed, removed, lambda name: (self._value(name) or (None,))[0])

    def __repr__(self) -> str:
        return repr(self.asdict())


class Attrs(Layers):
    """The attributes of an array, as a mapping of names to values.

    Values are numbers, strings, bytes, lists, tuples, dictionaries, sets, complex numbers and NumPy arrays. They are read on
    access, and are copies: to change a list, assign it again. On an array each assignment is a separate commit;
    :meth:`update` and ``with array.edit() as e: e.attrs[...] = ...`` combine several into one. An attribute that is not
    msgpack is :class:`b2kit.attrs.Raw`; :meth:`raw` returns the stored bytes of any.

    Names and their number are not limited. C-Blosc2 reads at most 16, with names of at most 31 bytes; python-blosc2 shows
    those beyond as one dictionary, ``vlmeta["attrs"]``. The layer ``blosc2_indexes``, in which python-blosc2 describes its
    indexes of the array, is not an attribute, and copies do not get it.

    Examples
    --------
    >>> import b2kit
    >>> a = b2kit.zeros(3, attrs={"units": "K"})
    >>> a.attrs["history"] = ["made", 2]
    >>> dict(a.attrs)
    {'units': 'K', 'history': ['made', 2]}
    """

    __slots__ = ("_of",)

    def __init__(self, of: Array | Edit) -> None:
        self._of = of

    def raw(self, name: str) -> bytes:
        """Returns the bytes of an attribute as they are stored, uncompressed: msgpack, or the bytes that a C program has set.

        Parameters
        ----------
        name : str
            The name of the attribute.

        Returns
        -------
        bytes
            The stored bytes.

        Raises
        ------
        b2kit.errors.NoSuchKeyError
            There is no such attribute, or it is in the map with those that C-Blosc2 has no place for.
        """
        found = self._of._attr_bytes(_name(name))
        if found is None:
            raise NoSuchKeyError(name)
        return found

    def _names(self) -> list[str]:
        return self._of._attr_names()

    def _value(self, name: str) -> tuple[Any] | None:
        return self._of._attr(name)

    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        self._of._change_attrs(changed, removed)


def arranged(
    layers: Iterable[str],
    more: Mapping[str, Any] | None,
    changed: Mapping[str, Any],
    removed: Iterable[str],
    value: Callable[[str], Any],
) -> tuple[dict[str, Any], list[str]]:
    """Distributes attributes over layers and the map.

    ``layers`` are the names of the existing layers, ``more`` is the content of the map, ``value`` returns the value of a
    layer. Returns the layers to be set and those to be removed. As many as possible stay or become layers, since other
    programs and older versions look for them there.
    """
    own = [name for name in layers if name != _MAP or more is None]
    rest = dict(more or {})
    put: dict[str, Any] = {}
    gone: list[str] = []
    for name in removed:
        if name == INDEXES or (name not in own and name not in rest):
            raise NoSuchKeyError(name)
        if name in own:
            own.remove(name)
            gone.append(name)
        rest.pop(name, None)
    for name, given in changed.items():
        if not isinstance(name, str):
            raise WrongTypeError(f"the name of an attribute is a string, not {type(name).__name__}")
        if name == INDEXES:
            raise ArgumentError(f"{INDEXES} describes indexes of python-blosc2, and is not an attribute")
        if name == _MAP or (name not in own and (name in rest or len(name.encode()) > _LONGEST)):
            if name in own:
                own.remove(name)
            rest[name] = given
            continue
        if name not in own:
            own.append(name)
        rest.pop(name, None)
        put[name] = given

    def move(name: str) -> None:
        own.remove(name)
        if name in put:
            rest[name] = put.pop(name)
        else:
            rest[name] = value(name)
            gone.append(name)

    if (rest or len(own) > _MOST) and _MAP in own:
        move(_MAP)
    if rest or len(own) > _MOST:
        surplus = max(0, len(own) - (_MOST - 1))
        for name in [name for name in own if name not in (_DIMS, INDEXES)][-surplus or len(own) :]:
            move(name)
    if rest and (more is None or rest.keys() != more.keys() or any(name in rest for name in changed)):
        put[_MAP] = rest
    elif not rest and more is not None:
        gone.append(_MAP)
    # A layer in excess may not have been written yet.
    there = set(layers)
    return put, [name for name in dict.fromkeys(gone) if name in there and name not in put]


def as_layers(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the layers of a new frame with these attributes."""
    return arranged([], None, attrs, [], lambda name: None)[0]


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongTypeError(f"the name of an attribute is a string, not {type(name).__name__}")
    return name

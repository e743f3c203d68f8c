"""Attributes of arrays and groups, each a msgpack value as python-blosc2's ``vlmeta`` reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from b2kit.errors import NoSuchKeyError, WrongTypeError

if TYPE_CHECKING:
    from b2kit._array import Array, Edit

__all__ = ["Attrs", "Ext"]


class Ext(NamedTuple):
    """A msgpack value of an extension type that only its writer knows. Nothing it refers to is opened or run."""

    code: int
    data: bytes


class Attrs(MutableMapping[str, Any]):
    """The attributes of an array, as a mapping of names to values.

    Values are numbers, strings, bytes, lists, tuples, dictionaries, sets, complex numbers and NumPy arrays. They are
    read on access, and are copies: to change a list, assign it again. On an array each assignment is a separate commit;
    :meth:`update` and ``with array.edit() as e: e.attrs[...] = ...`` combine several into one.
    """

    __slots__ = ("_of",)

    def __init__(self, of: Array | Edit) -> None:
        self._of = of

    def __getitem__(self, name: str) -> Any:
        found = self._of._attr(_name(name))
        if found is None:
            raise NoSuchKeyError(name)
        return found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({_name(name): value}, [])

    def __delitem__(self, name: str) -> None:
        self._change({}, [_name(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._of._attr_names())

    def __len__(self) -> int:
        return len(self._of._attr_names())

    def __contains__(self, name: object) -> bool:
        return name in self._of._attr_names()

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Sets several attributes in one commit."""
        items = dict(other, **more)
        if items:
            self._change({_name(name): value for name, value in items.items()}, [])

    def clear(self) -> None:
        """Removes all attributes in one commit."""
        if names := self._of._attr_names():
            self._change({}, names)

    def asdict(self) -> dict[str, Any]:
        """Returns all attributes as a dictionary."""
        return {name: self[name] for name in self}

    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        self._of._change_attrs(changed, removed)

    def __repr__(self) -> str:
        return repr(self.asdict())


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongTypeError(f"the name of an attribute is a string, not {type(name).__name__}")
    return name

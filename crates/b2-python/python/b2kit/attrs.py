"""Attributes of arrays and groups: one msgpack value each, as python-blosc2's ``vlmeta`` writes and reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from b2kit.errors import NoSuchKeyError, WrongTypeError

if TYPE_CHECKING:
    from b2kit._array import Array, Edit

__all__ = ["Attrs", "Ext"]


class Ext(NamedTuple):
    """A msgpack value of a type that only its writer knows. Nothing is opened or run that it names."""

    code: int
    data: bytes


class Attrs(MutableMapping[str, Any]):
    """The attributes of an array: a mapping of names to numbers, strings, bytes, lists, tuples, dictionaries, sets,
    complex numbers and arrays of NumPy.

    Values are read when they are asked for, and are copies: to change a list, set it again. On an array each assignment
    is a commit of its own; :meth:`update` and ``with array.edit() as e: e.attrs[...] = ...`` make one of several.
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
        """All of them."""
        return {name: self[name] for name in self}

    def _change(self, changed: Mapping[str, Any], removed: list[str]) -> None:
        self._of._change_attrs(changed, removed)

    def __repr__(self) -> str:
        return repr(self.asdict())


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongTypeError(f"the name of an attribute is a string, not {type(name).__name__}")
    return name

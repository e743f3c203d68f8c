"""The functions of h5py's module ``h5t`` for dtypes, and the classes of types."""

from __future__ import annotations

from typing import Any

from b2kit.h5py._types import (
    ItemType,
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    enum_dtype,
    opaque_dtype,
    special_dtype,
    string_dtype,
    string_info,
    vlen_dtype,
)

__all__ = [
    "TypeCompoundID",
    "TypeEnumID",
    "TypeID",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "enum_dtype",
    "opaque_dtype",
    "special_dtype",
    "string_dtype",
    "string_info",
    "vlen_dtype",
]

INTEGER, FLOAT, TIME, STRING, BITFIELD, OPAQUE, COMPOUND, REFERENCE, ENUM, VLEN, ARRAY = range(11)


class TypeID:
    """A type of a file."""

    def __init__(self, kind: ItemType, address: int | None = None) -> None:
        self._kind, self._address = kind, address

    @property
    def dtype(self) -> Any:
        """NumPy's dtype, with h5py's metadata."""
        return self._kind.dtype

    @property
    def type_id(self) -> int:
        """HDF5's number of the class."""
        return self._kind.class_number

    def get_class(self) -> int:
        """Return HDF5's number of the class, such as :data:`COMPOUND`."""
        return self._kind.class_number

    def get_size(self) -> int:
        """Return the size of an item in memory, in bytes."""
        return self._kind.memory_size

    def committed(self) -> bool:
        """Return whether it has a name in the file."""
        return self._address is not None

    def equal(self, other: object) -> bool:
        """Return whether two types are the same."""
        return self == other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeID) and self._kind.described == other._kind.described

    def __hash__(self) -> int:
        return hash(repr(self._kind.described))


class TypeEnumID(TypeID):
    """An enumeration."""

    @property
    def _values(self) -> dict[str, int]:
        return check_enum_dtype(self.dtype) or {"FALSE": 0, "TRUE": 1}

    def enum_valueof(self, name: str | bytes) -> int:
        """Return the number of a name.

        Raises
        ------
        KeyError
            There is no such name.
        """
        return self._values[name.decode() if isinstance(name, bytes) else name]

    def enum_nameof(self, value: int) -> str:
        """Return the name of a number.

        Raises
        ------
        KeyError
            There is no such number.
        """
        names = {number: name for name, number in self._values.items()}
        return names[value]

    def get_nmembers(self) -> int:
        """Return the number of names."""
        return len(self._values)


class TypeCompoundID(TypeID):
    """A compound."""


def type_id(kind: ItemType, address: int | None = None) -> TypeID:
    """Return the type of a data set, or of a named type at an address."""
    return {ENUM: TypeEnumID, COMPOUND: TypeCompoundID}.get(kind.class_number, TypeID)(kind, address)

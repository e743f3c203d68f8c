"""HDF5 types: their dtypes in h5py, and the conversion of stored items to these dtypes."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from b2kit import _b2kit
from b2kit.errors import ArgumentError, DamagedError, IoError, WrongTypeError

__all__ = [
    "AttributeReference",
    "Empty",
    "ItemType",
    "Reference",
    "RegionReference",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "enum_dtype",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "string_info",
    "vlen_dtype",
]

_Dtype = np.dtype[Any]
# The NumPy types that tags may name: numbers, times and texts, but not objects.
_TAG = re.compile(r"NUMPY:([<>|=]?(?:[biufcSUV]\d+|[mM]8(?:\[\d*[a-zA-Zμ]+\])?))\Z")


class Empty:
    """The value of a data set or an attribute that has a type, but neither a shape nor items (a null dataspace).

    Parameters
    ----------
    dtype
        The type.
    """

    shape = None
    size = None

    def __init__(self, dtype: Any) -> None:
        self._dtype: _Dtype = np.dtype(dtype)

    @property
    def dtype(self) -> _Dtype:
        """The type that items would have."""
        return self._dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Empty) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((Empty, self._dtype))

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"


class Reference:
    """A reference to a group, a data set or a named type: ``group[reference]`` opens it. False if it is null."""

    typecode = 0

    def __init__(self, address: int = 0, file: str | None = None) -> None:
        self._address, self._file = address, file

    @property
    def address_of_reference(self) -> int:
        """The address of the object in the file."""
        return self._address

    def __bool__(self) -> bool:
        return self._address not in (0, 2**64 - 1)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def __repr__(self) -> str:
        return "<HDF5 object reference>" if self else "<HDF5 object reference (null)>"


class RegionReference(Reference):
    """A reference to items of a data set: ``dataset[reference]`` reads them."""

    typecode = 1

    def __init__(self, address: int = 0, region: bytes = b"", file: str | None = None) -> None:
        super().__init__(address, file)
        # The description of the items.
        self._region = region

    def __bool__(self) -> bool:
        return bool(self._region)

    def __repr__(self) -> str:
        return "<HDF5 region reference>" if self else "<HDF5 region reference (null>"


class AttributeReference(Reference):
    """A reference of HDF5 1.12 to an attribute, which h5py cannot read: ``group[reference].attrs[reference.name]``."""

    typecode = 4

    def __init__(self, address: int = 0, name: str = "", file: str | None = None) -> None:
        super().__init__(address, file)
        self._name = name

    @property
    def name(self) -> Any:
        """The name of the attribute."""
        return shown_name(self._name)

    def __repr__(self) -> str:
        return "<HDF5 attribute reference>"


class string_info(NamedTuple):
    """Encoding (``"ascii"`` or ``"utf-8"``) and length in bytes of texts; the length is None if it varies."""

    encoding: str
    length: int | None


def _metadata(dtype: Any, key: str) -> Any:
    return (getattr(dtype, "metadata", None) or {}).get(key)


def string_dtype(encoding: str = "utf-8", length: int | None = None) -> _Dtype:
    """Return a dtype for texts.

    Parameters
    ----------
    encoding : {"utf-8", "ascii"}
        The encoding.
    length : int, optional
        Bytes of a text; by default it varies.

    Returns
    -------
    numpy.dtype
        The dtype, with h5py's metadata.

    Raises
    ------
    ValueError
        The encoding is not supported.
    TypeError
        The length is not an integer.
    """
    encoding = {"utf8": "utf-8"}.get(encoding, encoding)
    if encoding not in ("ascii", "utf-8"):
        raise ArgumentError(f"Invalid encoding ({encoding!r}); 'utf-8' or 'ascii' allowed")
    if length is None:
        return np.dtype("O", metadata={"vlen": str if encoding == "utf-8" else bytes})
    if isinstance(length, int):
        return np.dtype(f"|S{length}", metadata={"h5py_encoding": encoding})
    raise TypeError(f"length must be integer or None (got {length!r})")


def vlen_dtype(basetype: Any) -> _Dtype:
    """Return a dtype for sequences of variable length.

    Parameters
    ----------
    basetype : dtype_like
        The type of an element.

    Returns
    -------
    numpy.dtype
        The dtype, with h5py's metadata.
    """
    return np.dtype("O", metadata={"vlen": basetype})


def enum_dtype(values_dict: dict[str, int], basetype: Any = np.uint8) -> _Dtype:
    """Return a dtype for integers with names.

    Parameters
    ----------
    values_dict : dict
        Names and their integers.
    basetype : dtype_like
        The type of the integers.

    Returns
    -------
    numpy.dtype
        The dtype, with h5py's metadata.

    Raises
    ------
    TypeError
        ``basetype`` is not an integer type.
    """
    dtype: _Dtype = np.dtype(basetype)
    if dtype.kind not in "iu":
        raise TypeError("Only integer types can be used as enums")
    return np.dtype(dtype, metadata={"enum": values_dict})


def opaque_dtype(np_dtype: Any) -> _Dtype:
    """Return a dtype whose items h5py stores as opaque bytes.

    Parameters
    ----------
    np_dtype : dtype_like
        The type of the items.

    Returns
    -------
    numpy.dtype
        The dtype, with h5py's metadata.

    Raises
    ------
    TypeError
        It contains Python objects, or is a structure.
    """
    dtype: _Dtype = np.dtype(np_dtype)
    if dtype.kind == "O" or dtype.fields is not None or dtype.subdtype is not None:
        raise TypeError("Cannot store numpy subarray, compound or object dtypes as opaque")
    return np.dtype(dtype, metadata={"h5py_opaque": True})


ref_dtype: _Dtype = np.dtype("O", metadata={"ref": Reference})
regionref_dtype: _Dtype = np.dtype("O", metadata={"ref": RegionReference})


def special_dtype(**kwds: Any) -> _Dtype:
    """Return a dtype of one of the kinds ``vlen``, ``enum`` and ``ref``, by the older interface of h5py.

    Parameters
    ----------
    **kwds
        One of ``vlen`` (the type of an element), ``enum`` (a pair of a type and a dict) and ``ref`` (a class of references).

    Returns
    -------
    numpy.dtype
        The dtype, with h5py's metadata.

    Raises
    ------
    TypeError
        Not exactly one keyword was given, or it has another name.
    ValueError
        ``ref`` is not a class of references.
    """
    if len(kwds) != 1:
        raise TypeError("Exactly one keyword may be provided")
    ((name, value),) = kwds.items()
    if name == "vlen":
        return np.dtype("O", metadata={"vlen": value})
    if name == "enum":
        try:
            dtype, values = value
        except TypeError:
            raise TypeError("Enums must be created from a 2-tuple (basetype, values_dict)") from None
        return enum_dtype(values, dtype)
    if name == "ref":
        if value not in (Reference, RegionReference):
            raise ValueError("Ref class must be Reference or RegionReference")
        return regionref_dtype if value is RegionReference else ref_dtype
    raise TypeError(f'Unknown special type "{name}"')


def check_string_dtype(dt: Any) -> string_info | None:
    """Return encoding and length if a dtype is a text type.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    string_info or None
        Encoding and length in bytes; the length is None if it varies. None if it is not a text type.
    """
    vlen = check_vlen_dtype(dt)
    if vlen is str:
        return string_info("utf-8", None)
    if vlen is bytes:
        return string_info("ascii", None)
    if getattr(dt, "kind", None) == "S":
        return string_info(_metadata(dt, "h5py_encoding") or "ascii", dt.itemsize)
    return None


def check_vlen_dtype(dt: Any) -> Any:
    """Return the type of the elements if a dtype is that of sequences or texts of variable length.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    numpy.dtype or type or None
        The type of an element, ``str`` or ``bytes``; None if it is another dtype.
    """
    return _metadata(dt, "vlen")


def check_enum_dtype(dt: Any) -> dict[str, int] | None:
    """Return names and integers if a dtype is an enumeration.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    dict or None
        Names and their integers; None if it is another dtype.
    """
    found: dict[str, int] | None = _metadata(dt, "enum")
    return found


def check_opaque_dtype(dt: Any) -> bool:
    """Return whether h5py stores items of a dtype as opaque bytes.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    bool
        Whether it does.
    """
    return bool(_metadata(dt, "h5py_opaque"))


def check_ref_dtype(dt: Any) -> type[Reference] | None:
    """Return the class of the references if a dtype is a reference type.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    type or None
        :class:`Reference` or :class:`RegionReference`; None if it is another dtype.
    """
    found: type[Reference] | None = _metadata(dt, "ref")
    return found


def check_complex_dtype(dt: Any) -> Literal["compound"] | None:
    """Return how items of a dtype of complex numbers are stored.

    Parameters
    ----------
    dt : numpy.dtype
        Any type.

    Returns
    -------
    str or None
        ``"compound"``, or None if the dtype does not specify it.
    """
    return "compound" if _metadata(dt, "h5py_complex_compat") else None


def check_dtype(**kwds: Any) -> Any:
    """Return the argument of :func:`special_dtype`.

    Parameters
    ----------
    **kwds
        A dtype, as one of ``vlen``, ``enum`` and ``ref``.

    Returns
    -------
    object
        The type of the elements, the names and integers, or the class of the references; None if it is another dtype.

    Raises
    ------
    TypeError
        Not exactly one keyword was given, or it has another name.
    """
    if len(kwds) != 1:
        raise TypeError("Exactly one keyword may be provided")
    ((name, dt),) = kwds.items()
    if name not in ("vlen", "enum", "ref"):
        raise TypeError(f'Unknown special type "{name}"')
    return _metadata(dt, name)


class Heap(NamedTuple):
    """The context of items of variable length: the objects of a file, the name of the data set for errors, and whether texts become
    ``str``."""

    objects: _b2kit.Hdf5Objects
    name: str
    decodes: bool = False


_Convert = Callable[[np.ndarray[Any, Any], Heap], np.ndarray[Any, Any]]


class ItemType:
    """A type of a file.

    Parameters
    ----------
    described
        The description by the extension module: a tuple that begins with the class.
    address_size
        Bytes of an address in the file.
    """

    def __init__(self, described: tuple[Any, ...], address_size: int = 8) -> None:
        self.described = described
        self.stored: _Dtype
        """The dtype of items as they are stored, without objects."""
        self.memory_size: int
        """Bytes of an item in HDF5's memory, which differ from those in the file if there are references to heaps."""
        self._dtype: _Dtype | None = None
        self._what = ""
        # None if the stored bytes are those of h5py's dtype.
        self._convert: _Convert | None = None
        build = getattr(self, "_" + described[0].replace(" ", "_"))
        build(address_size, *described[1:])

    @property
    def dtype(self) -> _Dtype:
        """h5py's dtype.

        Raises
        ------
        TypeError
            NumPy has no such type.
        """
        if self._dtype is None:
            raise TypeError(f"No NumPy equivalent for {self._what}")
        return self._dtype

    @property
    def class_number(self) -> int:
        """HDF5's number of the class."""
        name: str = self.described[0]
        if name == "complex" or self._is_complex:
            return 6
        return {"int": 0, "bits": 0, "float": 1, "floats": 1, "text": 3, "vlen text": 3, "opaque": 5, "compound": 6}.get(
            name, {"reference": 7, "std reference": 7, "enum": 8, "vlen": 9, "array": 10}.get(name, -1)
        )

    _is_complex = False

    def is_plain(self) -> bool:
        """Return whether stored bytes are those of items of :attr:`dtype`."""
        return self._convert is None and self._dtype is not None

    def convert(self, stored: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
        """Return items of :attr:`dtype`. ``stored`` are as many items of the dtype :attr:`stored`."""
        dtype = self.dtype
        if self._convert is None:
            return stored if stored.dtype == dtype and stored.dtype.metadata == dtype.metadata else stored.view(flat(dtype)[0])
        return self._convert(stored, heap)

    def items(self, data: bytes, shape: tuple[int, ...], heap: Heap) -> np.ndarray[Any, Any]:
        """Return items of which these are the stored bytes."""
        array = np.ndarray(shape, f"V{self.stored.itemsize}", bytearray(data)) if data else np.empty(shape, f"V{self.stored.itemsize}")
        return self.of_void(array, heap)

    def of_void(self, array: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
        """Return items of which these are the stored bytes, as an array of ``V``. The items of arrays are added dimensions."""
        if self.stored.subdtype is None:
            return self.convert(array.view(self.stored), heap)
        base, inner = flat(self.stored)
        single = np.ndarray(array.shape + inner, base, array.tobytes() if array.size else b"")
        return self.convert(single if not array.size else single.copy(), heap)

    def _int(self, _: int, size: int, is_signed: bool, is_big: bool) -> None:
        self.stored = np.dtype(f"{'>' if is_big else '<'}{'i' if is_signed else 'u'}{size}")
        self._dtype, self.memory_size = self.stored, size

    def _bits(self, _: int, size: int, is_signed: bool, is_big: bool, first: int, bits: int) -> None:
        self.memory_size, self._what = size, f"integers of {bits} bits in {size} bytes"
        if size not in (1, 2, 4, 8) or not 0 < bits <= size * 8 - first:
            self.stored = np.dtype(f"V{size}")
            return
        order = ">" if is_big else "<"
        self.stored = np.dtype(f"{order}u{size}")
        dtype = self._dtype = np.dtype(f"{order}{'i' if is_signed else 'u'}{size}")

        def convert(stored: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            native = np.dtype(f"u{size}")
            left, right = native.type(size * 8 - first - bits), native.type(size * 8 - bits)
            number = (stored.astype(native) << left).view(f"i{size}" if is_signed else native)
            # A single item is a number here, and not an array.
            return np.asarray(number >> number.dtype.type(right)).astype(dtype)

        self._convert = convert

    def _float(self, _: int, size: int, is_big: bool) -> None:
        self.memory_size, self._what = size, f"floats of {size} bytes"
        order = ">" if is_big else "<"
        if size == 16:
            long = np.dtype(np.longdouble)
            self.stored = np.dtype("V16")
            if long.itemsize == 16 and np.finfo(long).nmant == 63 and not is_big:
                self._dtype = self.stored = long
            return
        self._dtype = self.stored = np.dtype(f"{order}f{size}")

    def _floats(
        self,
        _: int,
        size: int,
        is_big: bool,
        bits: int,
        sign: int,
        exponent: tuple[int, int],
        mantissa: tuple[int, int],
        bias: int,
        norm: int,
    ) -> None:
        self.stored, self.memory_size = np.dtype(f"V{size}"), size
        self._what = f"floats of {bits} bits with an exponent of {exponent[1]}"
        (exponent_at, exponent_bits), (mantissa_at, mantissa_bits) = exponent, mantissa
        if size > 8 or norm == 1 or max(exponent_at + exponent_bits, mantissa_at + mantissa_bits, sign + 1) > 64:
            return
        # As in h5py: the smallest float that represents all of its numbers, and is not smaller than the item.
        least, most = 1 - bias, (1 << exponent_bits) - 1 - bias
        fits = (
            dtype
            for dtype, nmant, lowest, highest in (("f2", 10, -14, 16), ("f4", 23, -126, 128), ("f8", 52, -1022, 1024))
            if size <= int(dtype[1]) and mantissa_bits <= nmant and lowest <= least and most <= highest
        )
        found = next(fits, None)
        if found is None:
            return
        dtype = np.dtype(found)
        self._dtype = dtype = dtype.newbyteorder(">" if is_big else "<")

        def convert(stored: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            parts = np.zeros((*stored.shape, 8), "u1")
            parts[..., :size] = np.ascontiguousarray(stored).reshape(stored.shape).view((np.uint8, (size,)))[
                ..., :: -1 if is_big else 1
            ]
            number = parts.view("<u8")[..., 0].astype("u8")

            def field(at: int, count: int) -> np.ndarray[Any, Any]:
                return np.asarray((number >> np.uint64(at)) & np.uint64((1 << count) - 1))

            power = field(exponent_at, exponent_bits).astype("i8")
            fraction = field(mantissa_at, mantissa_bits).astype("f8")
            last = (1 << exponent_bits) - 1
            # The digit before the point is implied, or the first one of the mantissa.
            implied, digits = (2.0**mantissa_bits, mantissa_bits) if norm == 2 else (0.0, mantissa_bits - 1)
            value = np.ldexp(fraction + implied * (power > 0), np.maximum(power, 1) - bias - digits)
            value = np.where(power == last, np.where(fraction % 2.0**digits > 0, np.nan, np.inf), value)
            value = np.where(field(sign, 1) > 0, -value, value)
            with np.errstate(over="ignore"):
                return np.asarray(value).astype(dtype)

        self._convert = convert

    def _complex(self, _: int, size: int, is_big: bool) -> None:
        self.memory_size, self._what = size, f"complex numbers of {size} bytes"
        try:
            self._dtype = self.stored = np.dtype(f"{'>' if is_big else '<'}c{size}")
        except TypeError:
            half = np.dtype(f"{'>' if is_big else '<'}f{size // 2}")
            self._dtype = self.stored = np.dtype([("r", half), ("i", half)])

    def _text(self, _: int, size: int, end: str, is_utf8: bool) -> None:
        self.stored, self.memory_size = np.dtype(f"S{size}"), size
        self._dtype = string_dtype("utf-8" if is_utf8 else "ascii", size)

    def _opaque(self, _: int, size: int, tag: str) -> None:
        self.stored, self.memory_size = np.dtype(f"V{size}"), size
        self._dtype = self.stored
        named = _TAG.match(tag)
        try:
            dtype = np.dtype(named[1]) if named else None
        except (TypeError, ValueError):
            return
        if dtype is not None and dtype.itemsize == size:
            self._dtype = self.stored = np.dtype(dtype, metadata={"h5py_opaque": True})

    def _compound(self, address_size: int, size: int, fields: list[tuple[str, int, tuple[Any, ...]]]) -> None:
        members = [(name, offset, ItemType(kind, address_size)) for name, offset, kind in fields]
        names = [name for name, _, _ in members]
        offsets = [offset for _, offset, _ in members]
        stored = [member.stored for _, _, member in members]
        self._what = "a compound with equal names or without fields"
        self.memory_size = size + sum(member.memory_size - member.stored.itemsize for _, _, member in members)
        grown, places = 0, {}
        for n in sorted(range(len(members)), key=lambda n: offsets[n]):
            places[n] = offsets[n] + grown
            member = members[n][2]
            # Some floats become larger ones. h5py's dtype has no place for these, so that fields overlap.
            width = max(member.memory_size, 0 if member._dtype is None else member._dtype.itemsize)
            grown += width - member.stored.itemsize
        if not members or len(set(names)) != len(names):
            self.stored = np.dtype(f"V{size}")
            return
        self.stored = np.dtype({"names": names, "formats": stored, "offsets": offsets, "itemsize": size})
        what = next((member._what for _, _, member in members if member._dtype is None), None)
        if what is not None:
            self._what = what
            return
        formats = [member.dtype for _, _, member in members]
        if names == ["r", "i"] and formats[0] == formats[1] and formats[0].kind == "f" and offsets == [0, size // 2]:
            half = formats[0]
            if half.itemsize * 2 == size and half.itemsize in (4, 8, 16) and members[0][2].is_plain():
                self._dtype = self.stored = np.dtype(f"{half.byteorder if half.byteorder != '=' else ''}c{size}")
                self._is_complex = True
                return
        if all(member.is_plain() for _, _, member in members):
            self._dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
            if self._dtype == np.dtype(list(zip(names, formats))):
                self._dtype = np.dtype(list(zip(names, formats)))
            self.stored = self._dtype
            return
        dtype = self._dtype = np.dtype(
            {
                "names": names,
                "formats": formats,
                "offsets": [places[n] for n in range(len(members))],
                "itemsize": size + grown,
            }
        )

        def convert(items: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            out = np.zeros(items.shape, dtype)
            for name, _, member in members:
                out[name] = member.convert(items[name], heap)
            return out

        self._convert = convert

    def _enum(self, address_size: int, base: tuple[Any, ...], names: list[tuple[str, bytes]]) -> None:
        inner = ItemType(base, address_size)
        self.stored, self.memory_size, self._what = inner.stored, inner.memory_size, inner._what
        if inner._dtype is None or inner._dtype.kind not in "iu":
            self._what = self._what or "an enumeration of other items than integers"
            return
        # Enumerations do not refer to a heap.
        heap = Heap(None, "")  # type: ignore[arg-type]
        found = inner.items(b"".join(value for _, value in names), (len(names),), heap)
        values = {shown_name(name): int(value) for (name, _), value in zip(names, found)}
        if values == {"FALSE": 0, "TRUE": 1}:
            self._dtype = np.dtype(bool)
            if inner.stored.itemsize == 1 and inner.is_plain():
                self.stored = self._dtype
            else:
                self._convert = lambda items, heap: np.asarray(inner.convert(items, heap).astype(bool))
            return
        self._dtype, self._convert = enum_dtype(values, inner._dtype), inner._convert

    def _array(self, address_size: int, base: tuple[Any, ...], dims: tuple[int, ...]) -> None:
        inner = ItemType(base, address_size)
        self.stored = np.dtype((inner.stored, dims))
        self.memory_size, self._what = inner.memory_size * int(np.prod(dims)), inner._what
        if inner._dtype is not None:
            self._dtype, self._convert = np.dtype((inner._dtype, dims)), inner._convert

    def _vlen_text(self, address_size: int, is_utf8: bool) -> None:
        self.stored, self.memory_size = np.dtype(f"V{address_size + 8}"), 8
        dtype = self._dtype = string_dtype("utf-8" if is_utf8 else "ascii")

        def convert(items: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            found: list[Any] = heap.objects.texts(np.ascontiguousarray(items).tobytes(), heap.name)
            if heap.decodes:
                found = [text.decode("utf-8", "surrogateescape") for text in found]
            array = np.empty(len(found), dtype)
            # Texts are single items for NumPy.
            array[:] = found
            return array.reshape(items.shape)

        self._convert = convert

    def _vlen(self, address_size: int, base: tuple[Any, ...]) -> None:
        # HDF5 takes the bytes that a reference has in memory for each element, and stores those of the file one after the other.
        nbytes = base[1] if base[0] == "std reference" and base[1] >= address_size + 10 else 0
        inner = ItemType(("std reference", address_size + 10) if nbytes else base, address_size)
        self.stored, self.memory_size, self._what = np.dtype(f"V{address_size + 8}"), 16, inner._what
        if inner._dtype is None:
            return
        dtype = self._dtype = vlen_dtype(inner._dtype)
        size = inner.stored.itemsize

        is_plain = inner.is_plain() and inner._dtype.subdtype is None and not inner._dtype.hasobject

        def convert(items: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            references = np.ascontiguousarray(items).tobytes()
            if is_plain:
                return _objects(heap.objects.arrays(references, inner.dtype, heap.name), items.shape, dtype)
            parts = heap.objects.sequences(references, nbytes or size, heap.name)
            if nbytes:
                parts = [part[: len(part) // nbytes * size] for part in parts]
            # All elements are converted together, since each conversion of references reads the file.
            joined = inner.items(b"".join(parts), (sum(map(len, parts)) // size,), heap)
            found, at = [], 0
            for part in parts:
                end = at + len(part) // size
                # A separate array, so that a single item does not keep the whole alive.
                found.append(joined[at:end].copy())
                at = end
            return _objects(found, items.shape, dtype)

        self._convert = convert

    def _reference(self, address_size: int, size: int, is_region: bool) -> None:
        self.stored = np.dtype(f"V{size}")
        self.memory_size = 12 if is_region else 8
        dtype = self._dtype = regionref_dtype if is_region else ref_dtype
        wants = address_size + 4 if is_region else address_size
        if size != wants:
            self._dtype, self._what = None, f"references of {size} bytes"
            return

        def convert(items: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            data = np.ascontiguousarray(items).tobytes()
            parts = [data[at : at + size] for at in range(0, len(data), size)]
            if is_region:
                found: list[Any] = [_region(part, address_size, heap) for part in parts]
            else:
                found = [Reference(int.from_bytes(part, "little")) for part in parts]
            return _objects(found, items.shape, dtype)

        self._convert = convert

    def _std_reference(self, address_size: int, size: int) -> None:
        self.stored, self.memory_size = np.dtype(f"V{size}"), 64
        dtype = self._dtype = ref_dtype
        if size != 10 + address_size:
            self._dtype, self._what = None, f"references of {size} bytes"
            return

        def convert(items: np.ndarray[Any, Any], heap: Heap) -> np.ndarray[Any, Any]:
            data = np.ascontiguousarray(items).tobytes()
            found = [_std_reference(data[at : at + size], address_size, heap) for at in range(0, len(data), size)]
            return _objects(found, items.shape, dtype)

        self._convert = convert

    def _other(self, _: int, size: int, what: str) -> None:
        self.stored, self.memory_size, self._what = np.dtype(f"V{size}"), size, what


def shown_name(name: str) -> Any:
    """Returns a name as h5py has it: bytes if it is not UTF-8."""
    if not name.isascii() and any("\udc80" <= letter <= "\udcff" for letter in name):
        return name.encode("utf-8", "surrogateescape")
    return name


def flat(dtype: _Dtype) -> tuple[_Dtype, tuple[int, ...]]:
    """Returns the type of the single items of an array type, which may hold arrays by itself, and all dimensions."""
    shape: tuple[int, ...] = ()
    while dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape += inner
    return dtype, shape


def converted(array: np.ndarray[Any, Any], dtype: _Dtype) -> np.ndarray[Any, Any]:
    """Returns items of another type as HDF5 converts them: numbers that do not fit become the nearest that do, and items of
    compounds are found by their names.

    Raises
    ------
    IoError
        HDF5 has no such conversion.
    WrongTypeError
        HDF5 has no such type, or no conversion of texts to it.
    """
    kinds = array.dtype.kind, dtype.kind
    if array.size == 0 and kinds[1] not in "UMm":
        return np.zeros(array.shape, dtype)
    if array.dtype.fields is not None and dtype.fields is not None:
        out = np.zeros(array.shape, dtype)
        for name in dtype.names or ():
            if name in array.dtype.fields:
                out[name] = converted(array[name], flat(dtype.fields[name][0])[0])
        return out
    if kinds[0] in "biuf" and kinds[1] in "iu":
        return _clipped(array, dtype)
    is_same = kinds[0] == kinds[1] and kinds[0] in "bcSO" or array.dtype == dtype
    if is_same or kinds in (("O", "S"), ("O", "T")) or kinds[0] in "biuf" and kinds[1] == "f" or kinds[0] in "iu" and kinds[1] == "b":
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(dtype))
    what = f"no conversion of items of {array.dtype} to {dtype}"
    raise WrongTypeError(what) if kinds[1] in "UMmT" or kinds[0] == "O" else IoError(what)


def _clipped(array: np.ndarray[Any, Any], dtype: _Dtype) -> np.ndarray[Any, Any]:
    if array.dtype.kind != "f" and np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if array.dtype.kind in "iu" and array.dtype.itemsize == dtype.itemsize and array.dtype.isnative != dtype.isnative:
        # HDF5 only swaps the bytes.
        return array.astype(dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    if array.dtype.kind != "f":
        own = np.iinfo(array.dtype)
        # NumPy clips an array without dimensions to a number, which has the byte order of the machine.
        return np.asarray(np.clip(array, max(least, own.min), min(most, own.max))).astype(dtype)
    with np.errstate(all="ignore"):
        # The largest integer may not be a float: what is above becomes it afterwards.
        wide = array if array.dtype.itemsize >= 8 else array.astype("f8")
        found = np.asarray(wide.astype(dtype))
        found[wide >= float(most)] = most
        found[wide <= float(least)] = least
        found[np.isnan(wide)] = {4: least, 8: least or 1 << 63}.get(dtype.itemsize, 0)
    return found


def _region(part: bytes, address_size: int, heap: Heap) -> RegionReference:
    address = int.from_bytes(part[:address_size], "little")
    (index,) = struct.unpack_from("<I", part, address_size)
    if address in (0, 2 ** (8 * address_size) - 1):
        return RegionReference()
    described = heap.objects.heap_object(address, index, heap.name)
    return RegionReference(int.from_bytes(described[:address_size], "little"), described[address_size:])


def _std_reference(part: bytes, address_size: int, heap: Heap) -> Reference:
    """Returns a reference as HDF5 1.12 stores it.

    Raises
    ------
    DamagedError
        It is malformed.
    """
    kind, flags = part[:2]
    is_elsewhere = bool(flags & 1)
    described = part[2:]
    if kind == 0 and not any(part[6 : 6 + address_size]):
        return Reference()
    if kind not in (2, 3, 4) or flags > 1:
        raise DamagedError(f"{heap.name}: a reference of kind {kind} with the flags {flags}")
    if kind != 2 or is_elsewhere:
        # The rest is an object of a heap.
        nbytes, address, index = int.from_bytes(part[2:6], "little"), int.from_bytes(part[6 : 6 + address_size], "little"), part[-4:]
        described = heap.objects.heap_object(address, int.from_bytes(index, "little"), heap.name)
        if len(described) != nbytes:
            raise DamagedError(f"{heap.name}: a reference of {nbytes} bytes has {len(described)}")
    rest = io.BytesIO(described)

    def take(nbytes: int) -> bytes:
        found = rest.read(nbytes)
        if len(found) != nbytes:
            raise DamagedError(f"{heap.name}: a reference is cut off")
        return found

    def number(nbytes: int) -> int:
        return int.from_bytes(take(nbytes), "little")

    if number(1) != address_size:
        raise DamagedError(f"{heap.name}: a reference by an address of another size")
    address = number(address_size)
    file = take(number(2)).decode("utf-8", "surrogateescape") if is_elsewhere else None
    if kind == 2:
        return Reference(address, file)
    if kind == 4:
        return AttributeReference(address, take(number(2)).decode("utf-8", "surrogateescape"), file)
    nbytes, _rank = number(4), number(4)
    return RegionReference(address, take(nbytes), file)


def _objects(found: list[Any], shape: tuple[int, ...], dtype: _Dtype) -> np.ndarray[Any, Any]:
    array = np.empty(len(found), dtype)
    for n, item in enumerate(found):
        array[n] = item
    return array.reshape(shape)

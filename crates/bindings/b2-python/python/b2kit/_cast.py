"""Conversion of values to the type of an array. Values that do not fit are errors; NumPy would wrap or truncate them."""

from __future__ import annotations

from typing import Any

import numpy as np

from b2kit.errors import ArgumentError, RangeError, WrongTypeError

__all__ = ["cast"]

_Items = np.ndarray[Any, Any]


def cast(value: Any, dtype: np.dtype[Any], truncate: bool = False) -> _Items:
    """Converts numbers, text, times and structures to ``dtype``.

    As with NumPy, floats are rounded to shorter floats, and text is parsed where numbers or times are needed. Anything
    else that would change is an error: numbers out of range, fractions and NaN in integers, text that is too long, and
    times that are not whole units. With ``truncate`` floats lose their fractions in integers, and numbers become booleans.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise WrongTypeError("a masked array would lose its mask: fill it first")
    if not hasattr(value, "dtype"):
        return _cast_objects(value, dtype, truncate)
    return _cast_array(np.asarray(value), dtype, truncate)


def _cast_array(items: _Items, dtype: np.dtype[Any], truncate: bool) -> _Items:
    source = items.dtype
    if source == dtype:
        return items
    if dtype.names is not None:
        return _cast_fields(items, dtype, truncate)
    if source.names is not None and len(source.names) == 1:
        return _cast_array(items[source.names[0]], dtype, truncate)
    if source.kind in "OT":
        return _cast_objects(items.astype(object), dtype, truncate)
    if dtype.kind in "US":
        return _cast_text(items, dtype)
    if dtype.kind == "V":
        if source.itemsize > dtype.itemsize:
            raise ArgumentError(f"items of {source.itemsize} bytes do not fit into {dtype}")
        return items.astype(dtype)
    if dtype.kind in "mM":
        return _cast_times(items, dtype)
    if source.kind in "biufc" and dtype.kind in "biufc":
        return _cast_numbers(items, dtype, truncate)
    if source.kind in "US" and dtype.kind in "iufc":
        # Text is parsed, by Python for integers, since floats have fewer digits.
        parsed = np.array([int(item) for item in items.flat], dtype=object) if dtype.kind in "iu" else items.astype("c16")
        return _cast_array(parsed.reshape(items.shape), dtype, truncate)
    if source.kind in "mM":
        raise WrongTypeError(f"{source} cannot become {dtype}: convert it first")
    return items.astype(dtype)


def _cast_objects(value: Any, dtype: np.dtype[Any], truncate: bool) -> _Items:
    """Converts Python objects, or an array of them."""
    if dtype.names is not None:
        # The fields hold the given objects, so that each can be compared.
        return _cast_fields(np.asarray(value, dtype=_of_objects(dtype)), dtype, truncate)
    if dtype.kind in "mM":
        given = value.tolist() if isinstance(value, np.ndarray) else value
        natural = np.asarray(given)
        if natural.dtype.kind not in "OUS":
            return _cast_array(natural, dtype, truncate)
        if natural.dtype.kind != "O" and (dtype.kind == "m" or np.isin(natural, ["NaT", "nat", ""]).all()):
            return natural.astype(dtype)
        try:
            # In the unit of the values: that of the text, or microseconds.
            return _cast_times(natural.astype("M8" if natural.dtype.kind != "O" else f"{dtype.kind}8[us]"), dtype)
        except (TypeError, ValueError) as error:
            if isinstance(error, RangeError):
                raise
            return np.asarray(given, dtype=dtype)
    items = np.asarray(value.tolist() if isinstance(value, np.ndarray) else value)
    if isinstance(value, np.ndarray) and items.shape != value.shape:
        # The objects are sequences themselves.
        items = value
    if items.dtype.kind == "f" and dtype.kind in "iu" and (np.abs(items) >= 2**53).any():
        # Some may be integers, which floats would round.
        items = np.asarray(value, dtype=object)
    if items.dtype.kind != "O":
        return _cast_array(items, dtype, truncate)
    if dtype.kind in "US":
        return _cast_text(items, dtype)
    with np.errstate(all="ignore"):
        found = items.astype(dtype)
    for item, given in zip(found.flat, items.flat):
        if dtype.kind in "iub" and item != (int(given) if truncate else given):
            raise _refused(given, dtype)
        if dtype.kind in "fc" and np.isinf(item) and abs(given) != float("inf"):
            raise _refused(given, dtype)
    return found


def _of_objects(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns a type whose fields have Python objects in place of values."""
    if dtype.subdtype is not None:
        return np.dtype((_of_objects(dtype.base), dtype.shape))
    if dtype.names is None:
        return np.dtype(object)
    return np.dtype([(name, _of_objects(dtype[name])) for name in dtype.names])


def _cast_fields(items: _Items, dtype: np.dtype[Any], truncate: bool) -> _Items:
    """Converts structures field by field, in their order as NumPy does; other items become each field."""
    names, own = dtype.names or (), items.dtype.names
    if own is not None and len(own) != len(names):
        raise WrongTypeError(f"items of {len(own)} fields do not fit into {dtype}, which has {len(names)}")
    found = np.zeros(items.shape, dtype)
    for at, name in enumerate(names):
        field = items if own is None else items[own[at]]
        to = found[name]
        values = _cast_array(field, to.dtype, truncate)
        if own is not None and values.shape != to.shape:
            raise ArgumentError(f"field {name!r} has shape {values.shape}, expected {to.shape}")
        to[...] = values.reshape(values.shape + (1,) * (to.ndim - values.ndim))
    return found


def _cast_text(items: _Items, dtype: np.dtype[Any]) -> _Items:
    text = items if items.dtype.kind == dtype.kind else items.astype(dtype.kind)
    if text.dtype.itemsize > dtype.itemsize and text.size:
        lengths = np.char.str_len(text)
        longest = int(lengths.max())
        if longest > dtype.itemsize // (4 if dtype.kind == "U" else 1):
            first = text.flat[int(lengths.argmax())].item()
            raise ArgumentError(f"{first!r} is too long for items of dtype {dtype}: it has {longest} characters")
    return text.astype(dtype)


def _cast_times(items: _Items, dtype: np.dtype[Any]) -> _Items:
    source = items.dtype
    if source.kind in "US":
        return _cast_times(items.astype(f"{dtype.kind}8"), dtype)
    if source.kind in "mM" and source.kind != dtype.kind:
        # NumPy would keep the number, whatever the units.
        raise WrongTypeError(f"{source} cannot become {dtype}: convert it first")
    if source.kind == "u":
        # NumPy would wrap them.
        items, source = _cast_numbers(items, np.dtype("i8"), False), np.dtype("i8")
    found = items.astype(dtype)
    if source.kind != "b":
        back = found.astype(source)
        same = back == items
        if source.kind in "fcmM":
            # NaN and NaT differ from themselves.
            same |= items != items
        _check(same, items, dtype)
    return found


def _cast_numbers(items: _Items, dtype: np.dtype[Any], truncate: bool) -> _Items:
    source = items.dtype
    if np.can_cast(source, dtype, "safe"):
        return items.astype(dtype)
    if source.kind == "c" and dtype.kind != "c":
        _check(items.imag == 0, items, dtype)
        items = items.real
    if dtype.kind == "b":
        if not truncate:
            _check((items == 0) | (items == 1), items, dtype)
    elif dtype.kind in "iu" and items.dtype.kind == "f":
        # Long enough to represent the limits.
        wide = items.astype("f8") if items.dtype.itemsize < 8 else items
        whole = np.trunc(wide)
        if not truncate:
            _check(whole == wide, items, dtype)
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        _check((whole >= float(least)) & (whole < float(most // 2 + 1) * 2), items, dtype)
    elif dtype.kind in "iu":
        if items.size and not (np.iinfo(dtype).min <= int(items.min()) and int(items.max()) <= np.iinfo(dtype).max):
            least, most = int(items.min()), int(items.max())
            raise _refused(least if least < np.iinfo(dtype).min else most, dtype)
    with np.errstate(all="ignore"):
        found = items.astype(dtype)
    if dtype.kind in "fc":
        _check(~np.isinf(found) | np.isinf(items), items, dtype)
    return found


def _check(fits: Any, items: _Items, dtype: np.dtype[Any]) -> None:
    if not np.all(fits):
        raise _refused(items[~np.asarray(fits)].flat[0], dtype)


def _refused(item: Any, dtype: np.dtype[Any]) -> Exception:
    return RangeError(f"{item} does not fit into an item of dtype {dtype}: convert it first")

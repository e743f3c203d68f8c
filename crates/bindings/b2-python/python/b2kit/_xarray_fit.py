"""Checks whether values fit into the types of an encoding, to which xarray casts them unchecked."""

from __future__ import annotations

import importlib
from typing import Any, cast

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from xarray.core.variable import Variable

from b2kit._cast import cast as to_dtype
from b2kit.errors import RangeError

# Encoding keys that belong to a type.
_OF_TYPE = ("dtype", "_Unsigned")
_FILLS = ("_FillValue", "missing_value")
# Units of CF below a second.
_FINE = {"nanosecond": "ns", "microsecond": "us", "millisecond": "ms"}
# Items that are compared at a time.
_STEP = 1 << 20


def wider(decoded: Variable, encoded: Variable, is_fixed: bool) -> Variable | None:
    """Returns the variable without the type in its encoding, if that was read from a file and its values do not fit.

    Nothing is computed: for a lazy variable the types decide.
    """
    if is_fixed or not _is_cast(decoded) or _is_packed(encoded):
        return None
    if decoded.chunks is None or decoded.size == 0:
        if _lost(np.asarray(decoded.values), np.asarray(encoded.values), encoded.attrs, decoded.encoding) is None:
            return None
    elif _is_masked(decoded, encoded) or _are_times(decoded, encoded.attrs) or _is_safe(decoded.dtype, np.dtype(decoded.encoding["dtype"])):
        return None
    encoding = {key: given for key, given in decoded.encoding.items() if key not in _OF_TYPE}
    for key in _FILLS:
        fill = encoding.get(key)
        if fill is not None and decoded.dtype.kind in "iuf" and decoded.dtype.type(_wrapped(fill, decoded.dtype)) != fill:
            del encoding[key]
    made = decoded.copy(deep=False)
    made.encoding = encoding
    return made


def checked(name: Any, decoded: Variable, encoded: Variable) -> Variable:
    """Returns the encoded variable, after a check that its values are preserved; the parts of a lazy variable are checked later."""
    if not _is_cast(decoded):
        return encoded
    if "_Unsigned" in decoded.encoding and encoded.dtype.kind in "iu" and encoded.dtype != decoded.dtype:
        # xarray omits it if there is no fill value.
        encoded.attrs.setdefault("_Unsigned", decoded.encoding["_Unsigned"])
    if encoded.chunks is None or decoded.chunks is None or decoded.size == 0:
        given = np.asarray(decoded.values) if decoded.size else np.empty(0, decoded.dtype)
        _check(np.asarray(encoded.values) if decoded.size else given, given, name, encoded.attrs, decoded.encoding)
        return encoded
    if not _is_packed(encoded) and _is_safe(decoded.dtype, encoded.dtype):
        return encoded
    from dask.array.core import map_blocks

    lazy: Any = map_blocks
    found: Any = encoded._data
    kept = {"variable_name": name, "attrs": dict(encoded.attrs), "encoding": dict(decoded.encoding)}
    data = lazy(_check, found, decoded._data, dtype=found.dtype, meta=found._meta, **kept)
    return Variable(encoded.dims, data, encoded.attrs, encoded.encoding, fastpath=True)


def fill_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a fill value as an item of the dtype, which msgpack does not store; unchanged if no integer of it has that value."""
    if dtype.kind not in "biufc" or isinstance(value, (str, bytes, list)):
        return value
    given = np.asarray(value)
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    if dtype.kind in "iu" and not (found == given).all():
        return value
    return found.reshape(())[()] if found.size == 1 else found


def presented_dtype(attrs: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in which xarray gets items: with ``_Unsigned`` in native order, since it reads fill values in no other."""
    return dtype.newbyteorder("=") if "_Unsigned" in attrs else dtype


def with_texts(variable: Variable) -> Variable:
    """Returns the variable with empty texts for missing ones, which xarray converts to ``nan``; unless it has a fill value."""
    dtype = variable.encoding.get("dtype")
    # Also for characters of netCDF.
    is_inferred = dtype is None or dtype is str or np.dtype(dtype) == "S1"
    kind = "U" if is_inferred else np.dtype(dtype).kind
    # xarray fills missing objects if it infers the type.
    is_text = variable.dtype.kind == "T" or variable.dtype.kind == "O" and not is_inferred
    if not is_text or kind not in "US" or any(variable.encoding.get(key) is not None for key in _FILLS):
        return variable
    empty, data = b"" if kind == "S" else "", cast("Any", variable._data)
    if variable.chunks is None:
        data = _filled(variable.values, empty)
    else:
        from dask.array.core import map_blocks

        lazy: Any = map_blocks
        data = lazy(_filled, data, empty=empty, dtype=object, meta=np.empty((0,) * variable.ndim, object))
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)


def _filled(items: Any, empty: str | bytes) -> Any:
    found = np.array(items, object)
    found[pd.isnull(found)] = empty
    return found


def with_fine_times(name: Any, variable: Variable) -> Variable:
    """Returns the variable with times in the units of the encoding if these are finer, since xarray loses all times otherwise."""
    units = str(variable.encoding.get("units", "")).lower().split()
    unit = _FINE.get(units[0].removesuffix("s")) if units else None
    if unit is None or variable.dtype.kind not in "mM" or np.dtype(f"m8[{unit}]") <= np.dtype(f"m8[{np.datetime_data(variable.dtype)[0]}]"):
        return variable
    to = np.dtype(f"{variable.dtype.kind}8[{unit}]")
    data: Any
    if variable.chunks is None:
        data = _finer(np.asarray(variable.values), to, name)
    else:
        from dask.array.core import map_blocks

        lazy: Any = map_blocks
        data = variable._data
        data = lazy(_finer, data, to=to, of_variable=name, dtype=to, meta=data._meta.astype(to))
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)


def _finer(times: Any, to: np.dtype[Any], of_variable: Any) -> Any:
    try:
        found = times.astype(to)
    except OverflowError:
        found = None
    # Older versions of NumPy wrap them.
    if found is None or not np.array_equal(found.astype(times.dtype), times, equal_nan=True):
        raise RangeError(f"variable {of_variable!r}: times that do not fit into {to}, which has the units of its encoding: choose others")
    return found


def with_long_times(decoded: Variable) -> Variable:
    """Returns the variable with integers of 8 bytes for times, since xarray wraps them in shorter ones and changes their units in others."""
    if not _has_short_times(decoded):
        return decoded
    made = decoded.copy(deep=False)
    made.encoding = {**decoded.encoding, "dtype": np.dtype("i8")}
    return made


def with_short_times(name: Any, decoded: Variable, encoded: Variable, is_fixed: bool) -> Variable:
    """Returns encoded times with integers as short as in the encoding, if they fit or if it cannot change."""
    if not _has_short_times(decoded) or encoded.dtype.kind not in "iu":
        return encoded
    dtype = np.dtype(decoded.encoding["dtype"])
    if dtype.kind in "mM":
        return encoded
    data: Any
    if encoded.chunks is None:
        try:
            data = _shorter(np.asarray(encoded.values), dtype, name)
        except RangeError:
            if is_fixed:
                raise
            return encoded
    elif is_fixed:
        from dask.array.core import map_blocks

        lazy: Any = map_blocks
        data = encoded._data
        data = lazy(_shorter, data, to=dtype, variable_name=name, dtype=dtype, meta=data._meta.astype(dtype))
    else:
        return encoded
    return Variable(encoded.dims, data, encoded.attrs, encoded.encoding, fastpath=True)


def _has_short_times(decoded: Variable) -> bool:
    dtype = decoded.encoding.get("dtype")
    if dtype is None or dtype is str or np.dtype(dtype).kind not in "iumM" or np.dtype(dtype).str[1:] == "i8":
        return False
    return decoded.dtype.kind in "mM" or _are_times(decoded, decoded.encoding)


def _are_times(items: Any, attrs: Any) -> bool:
    """Returns whether the items are times of cftime."""
    return items.dtype.kind == "O" and "since" in str(attrs.get("units"))


def _shorter(times: Any, to: np.dtype[Any], variable_name: Any) -> Any:
    try:
        return to_dtype(np.asarray(times), to)
    except RangeError as error:
        raise RangeError(f"variable {variable_name!r}, in the units of its encoding: {error}") from None


def _check(found: Any, given: Any, variable_name: Any, attrs: Any, encoding: Any) -> Any:
    """Returns encoded items if they decode to the given values."""
    lost = _lost(np.asarray(given), np.asarray(found), attrs, encoding)
    if lost is not None:
        scaled = " after scaling" if "scale_factor" in attrs or "add_offset" in attrs else ""
        raise RangeError(
            f"variable {variable_name!r}: {getattr(lost, 'tolist', lambda: lost)()!r} does not fit into the dtype {encoding['dtype']} of its encoding{scaled}: "
            "write the variable whole, with another encoding"
        )
    return found


def _is_cast(decoded: Variable) -> bool:
    """Returns whether xarray converts the values to a type in the encoding."""
    dtype = decoded.encoding.get("dtype")
    if dtype is None or dtype is str or dtype == object or np.dtype(dtype).itemsize == 0:
        return False
    if np.dtype(dtype) == "S1":
        # Characters of netCDF, to which xarray does not cast.
        return False
    return np.dtype(dtype) != decoded.dtype and decoded.dtype.kind in "biufcUSTO" and np.dtype(dtype).kind in "biufcUS"


def _is_packed(encoded: Variable) -> bool:
    return "scale_factor" in encoded.attrs or "add_offset" in encoded.attrs


def _is_masked(decoded: Variable, encoded: Variable) -> bool:
    """Returns whether floats were integers with a fill value in the file."""
    return decoded.dtype.kind == "f" and encoded.dtype.kind in "iu" and any(key in encoded.attrs for key in _FILLS)


def _is_safe(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    return given.kind not in "OT" and np.can_cast(given, dtype, "safe")


def _wrapped(fill: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(fill).astype(dtype)[()]


def _lost(given: np.ndarray[Any, Any], found: np.ndarray[Any, Any], attrs: Any, encoding: Any) -> Any:
    """Returns the first value to which the encoded items do not decode, or ``None``."""
    given, found = given.reshape(-1), found.reshape(-1)
    for start in range(0, given.size, _STEP):
        part = given[start : start + _STEP]
        same = _same(part, found[start : start + _STEP], attrs, encoding)
        if not same.all():
            return part[~same][0]
    return None


def _same(given: Any, found: Any, attrs: Any, encoding: Any) -> Any:
    """Returns for each item whether it decodes to the given value."""
    if found.dtype.kind in "USO" or given.dtype.kind in "UST":
        if found.dtype.kind in "biufc":
            # Text was parsed.
            return np.ones(given.shape, bool)
        return _lengths(found) >= _lengths(given)
    if _are_times(given, attrs):
        return _same_times(given, found, attrs)
    if given.dtype.kind == "O":
        can_miss = found.dtype.kind not in "biu" or any(key in attrs for key in _FILLS)
        objects = [can_miss if item is None or item != item else item == of for item, of in zip(given.tolist(), found.tolist())]
        return np.array(objects, bool)
    unsigned = str(attrs.get("_Unsigned", encoding.get("_Unsigned", "")))
    if found.dtype.kind in "iu" and unsigned in ("true", "false"):
        # Numbers whose signedness differs from the type in the file.
        found = found.view(f"{found.dtype.str[0]}{'u' if unsigned == 'true' else 'i'}{found.dtype.itemsize}")
    if found.dtype.kind in "fc":
        real = found.dtype.kind == "c" or given.dtype.kind != "c" or given.imag == 0
        return (~np.isinf(found) | np.isinf(given)) & real
    if given.dtype.kind == "c":
        return (found == given.real) & (given.imag == 0)
    is_number = ~np.isnan(given) if given.dtype.kind == "f" else np.ones(given.shape, bool)
    factor, offset = attrs.get("scale_factor"), attrs.get("add_offset")
    if factor is None and offset is None:
        same = found == given
    else:
        with np.errstate(all="ignore"):
            wanted = given.astype("f8") - (0 if offset is None else offset)
            wanted = wanted / (1 if factor is None else factor)
            # Rounded, and possibly computed with lower precision.
            same = np.isfinite(wanted) & (np.abs(found.astype("f8") - wanted) <= 0.75 + 1e-6 * np.abs(wanted))
    if is_number.all():
        return same
    fill = attrs.get("_FillValue", attrs.get("missing_value"))
    # NaN needs an integer that represents it.
    return np.where(is_number, same, fill is not None)


def _same_times(given: Any, found: Any, attrs: Any) -> Any:
    """Returns for each time of cftime whether its number decodes to it. Floats may round it."""
    if found.dtype.kind != "i":
        return np.ones(given.shape, bool)
    cftime: Any = importlib.import_module("cftime")
    times_found = cftime.num2date(found, attrs["units"], attrs.get("calendar", "standard"))
    try:
        times = [item is None or item != item or item == of for item, of in zip(given.tolist(), times_found.tolist())]
    except TypeError:  # Times of two calendars.
        times = [False] * given.size
    return np.array(times, bool)


def _lengths(text: Any) -> Any:
    if text.dtype.kind == "U" or text.dtype.kind == "S":
        return np.char.str_len(text)
    if text.dtype.kind not in "OT":
        return np.char.str_len(text.astype("U"))
    items = text.astype(object).tolist()
    lengths = [len(item) if isinstance(item, (str, bytes)) else 0 if item is None or item != item else len(str(item)) for item in items]
    return np.array(cast("Any", lengths), int)

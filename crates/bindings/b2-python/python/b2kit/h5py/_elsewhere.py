"""Items that are in other files: virtual data sets and external storage."""

from __future__ import annotations

import math
import os
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from b2kit.errors import DamagedError, IoError, LimitError, NoSuchKeyError, UnsupportedError
from b2kit.h5py._select import Axis, Box, Points, Region, block_axis, parse_region
from b2kit.h5py._types import converted, flat

if TYPE_CHECKING:
    from b2kit.h5py._dataset import Dataset

__all__ = ["VDSmap", "mappings", "read_external", "read_virtual", "virtual_shape"]

# Maximum number of mappings of a virtual data set, and of numbered files that are looked for.
_MOST = 1 << 20
# Maximum bytes of items without a source.
_UNEXPLAINED = 4 << 30


class VDSmap(NamedTuple):
    """The source of a part of a virtual data set."""

    vspace: Region
    """The part of the virtual data set."""
    file_name: str
    """The file; ``"."`` for the same one."""
    dset_name: str
    """The data set in it."""
    src_space: Region
    """The part of that data set."""


def mappings(dataset: Dataset) -> list[VDSmap]:
    """Returns the mappings of a virtual data set.

    Raises
    ------
    DamagedError
        The list of them is malformed.
    """
    data = dataset._description["virtual"]
    if not data:
        return []
    found: list[VDSmap] = []
    try:
        version, width = data[0], 8
        (count,) = struct.unpack_from("<Q", data, 1)
        if version > 1:
            raise UnsupportedError(f"{dataset._shown}: a list of mappings of version {version}")
        at = 1 + width
        if count > min(len(data), _MOST):
            raise DamagedError(f"{dataset._shown}: {count} mappings in {len(data)} bytes")
        for _ in range(count):
            flags = 0
            if version == 1:
                flags, at = data[at], at + 1
            names = []
            for is_shared, is_same in ((flags & 1, flags & 4), (flags & 2, 0)):
                if is_same:
                    names.append(".")
                elif is_shared:
                    (n,) = struct.unpack_from("<Q", data, at)
                    at += 8
                    names.append(found[n].file_name if len(names) == 0 else found[n].dset_name)
                else:
                    end = data.index(0, at)
                    names.append(data[at:end].decode("utf-8", "surrogateescape"))
                    at = end + 1
            source, at = parse_region(data, at)
            target, at = parse_region(data, at)
            found.append(VDSmap(target, names[0], names[1], source))
    except (struct.error, IndexError, ValueError) as error:
        if isinstance(error, (DamagedError, UnsupportedError)):
            raise
        raise DamagedError(f"{dataset._shown}: the list of mappings is malformed") from error
    return found


def _source(dataset: Dataset, file_name: str, name: str) -> Dataset | None:
    """Returns a source; None if it does not exist."""
    try:
        file = dataset.file if file_name == "." else dataset._opened.other(file_name)
        found = file[name]
    except (KeyError, OSError):
        return None
    return found if hasattr(found, "_kind") and found.shape is not None else None


class _Part(NamedTuple):
    """A mapping to an existing data set."""

    target: tuple[Axis, ...] | None
    source: tuple[Axis, ...] | None
    mapping: VDSmap
    dataset: Dataset


def _endless(region: Region) -> int | None:
    """Returns the dimension along which a region is unlimited."""
    found = (n for n, (_, _, count, block) in enumerate(region.regular) if count is None or block is None)
    return next(found, None)


def _percent(text: str, n: int) -> str:
    return text.replace("%%", "\0").replace("%b", str(n)).replace("\0", "%")


def _parts(dataset: Dataset) -> list[tuple[VDSmap, Dataset, int | None]]:
    """Returns the mappings with their sources, and the number for those with numbered names."""
    kept: list[tuple[VDSmap, Dataset, int | None]] | None = getattr(dataset, "_virtual_parts", None)
    if kept is not None:
        return kept
    found: list[tuple[VDSmap, Dataset, int | None]] = []
    for mapping in mappings(dataset):
        is_numbered = _endless(mapping.vspace) is not None and "%b" in mapping.file_name + mapping.dset_name
        if not is_numbered:
            names = (mapping.file_name, mapping.dset_name)
            source = _source(dataset, *((_percent(name, 0) if "%%" in name else name) for name in names))
            if source is not None:
                found.append((mapping, source, None))
            continue
        # As in HDF5 by default: up to the first one that is missing.
        for n in range(_MOST):
            source = _source(dataset, _percent(mapping.file_name, n), _percent(mapping.dset_name, n))
            if source is None:
                break
            found.append((mapping, source, n))
    dataset._virtual_parts = found  # type: ignore[attr-defined]
    return found


def virtual_shape(dataset: Dataset, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a virtual data set, which may grow with its sources.

    Raises
    ------
    DamagedError
        It refers to itself.
    """
    try:
        return _virtual_shape(dataset, shape)
    except RecursionError:
        raise DamagedError(f"{dataset._shown}: virtual data sets that lead to each other") from None


def _virtual_shape(dataset: Dataset, shape: tuple[int, ...]) -> tuple[int, ...]:
    most = dataset._description["maxshape"]
    ends: dict[int, int] = {}
    least = [0] * len(shape)
    for mapping in mappings(dataset):
        endless = _endless(mapping.vspace)
        if endless is not None:
            ends.setdefault(endless, 0)
        bounds = enumerate(mapping.vspace.ends(len(shape)))
        least = [least[axis] if axis == endless else max(least[axis], end) for axis, end in bounds]
    for mapping, source, n in _parts(dataset):
        axes, axis = _target(mapping, shape, source, n), _endless(mapping.vspace)
        if axis is not None and axes is not None:
            ends[axis] = max(ends[axis], axes[axis].end)
    grown = list(shape)
    for axis, end in ends.items():
        limit = most[axis]
        grown[axis] = max(end, least[axis]) if limit is None else min(max(end, least[axis]), limit)
    return tuple(grown)


def _target(mapping: VDSmap, shape: tuple[int, ...], source: Dataset, n: int | None) -> tuple[Axis, ...] | None:
    """Returns the selection of a mapping along each dimension of the virtual data set, if it is a product of them."""
    region, axis = mapping.vspace, _endless(mapping.vspace)
    axes = region.axes(shape, is_clipped=True)
    if axis is None or axes is None:
        return axes
    start, stride, _, block = region.regular[axis]
    from_axis, from_axes = _endless(mapping.src_space), mapping.src_space.axes(source.shape, is_clipped=True)
    if n is not None:
        endless = block_axis(start + n * stride, block or 1)
    elif from_axis is not None and from_axes is not None:
        # As many items as the source currently has.
        length = len(from_axes[from_axis])
        endless = replace(axes[axis], length=length) if block is not None else block_axis(start, length)
    else:
        return axes
    return (*axes[:axis], endless, *axes[axis + 1 :])


def _axes(mapping: VDSmap, dataset: Dataset, source: Dataset, n: int | None) -> _Part:
    """Returns the selections of a mapping along each dimension of both sides, if it is a product of them."""
    target = _target(mapping, dataset.shape, source, n)
    # The source may be smaller now.
    source_axes = mapping.src_space.axes(source.shape, is_clipped=True)
    is_whole = mapping.src_space.kind == "all" and (n is not None or _endless(mapping.vspace) is None)
    if is_whole and target is not None and source_axes is not None:
        source_axes = _as_mapped(dataset, target, source_axes, source)
    return _Part(target, source_axes, mapping, source)


def _as_mapped(
    dataset: Dataset, target: tuple[Axis, ...], source_axes: tuple[Axis, ...], source: Dataset
) -> tuple[Axis, ...]:
    """Returns the selections of a source that was mapped as a whole, and may be longer or shorter now.

    Raises
    ------
    IoError
        Other dimensions than the first have changed, so that its items are in other places.
    """
    wanted, found = list(map(len, target)), list(map(len, source_axes))
    if math.prod(wanted) == math.prod(found):
        return source_axes
    if len(wanted) == len(found) and wanted[1:] == found[1:]:
        return (block_axis(0, wanted[0]), *source_axes[1:])
    what = f"the shape {source.shape} now, and was mapped as a whole to a part of the shape {tuple(wanted)}"
    raise IoError(f"{dataset._shown}: the source {source.name} has {what}")


def read_virtual(dataset: Dataset, chosen: Box | Points) -> np.ndarray[Any, Any]:
    """Returns items of a virtual data set. Items without a source have the fill value.

    Raises
    ------
    DamagedError
        It refers to itself.
    """
    try:
        return _read_virtual(dataset, chosen)
    except RecursionError:
        raise DamagedError(f"{dataset._shown}: virtual data sets that lead to each other") from None


def _filled(dataset: Dataset, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns items with the fill value of a data set."""
    base, inner = flat(dataset.dtype)
    out, fill = np.empty(shape + inner, base), dataset.fillvalue
    if base.hasobject and fill is None:
        fill = dataset._kind.items(bytes(dataset._kind.stored.itemsize), (), dataset._heap)[()]
    if isinstance(fill, np.ndarray) and base.kind == "O" and not inner:
        for item in range(out.size):
            out.flat[item] = fill
    else:
        out[...] = fill
    return out


def _of_source(part: _Part, dtype: np.dtype[Any], positions: list[np.ndarray[Any, Any]], are_points: bool) -> np.ndarray[Any, Any]:
    """Returns items of the source of a mapping, converted to the type of the virtual data set."""
    items = _source_items(part.dataset, positions, are_points)
    return items if items.dtype == dtype else converted(items, dtype)


def _source_items(source: Dataset, positions: list[np.ndarray[Any, Any]], are_points: bool) -> np.ndarray[Any, Any]:
    """Returns items of a source, which may be smaller now than when it was mapped. Those outside have its fill value."""
    is_in = [axis < length for axis, length in zip(positions, source.shape)]
    if are_points:
        inside = np.logical_and.reduce(is_in)
        if inside.all():
            return source._items(Points(tuple(positions)))
        out = _filled(source, (len(inside),))
        out[inside] = source._items(Points(tuple(axis[inside] for axis in positions)))
        return out
    if not all(axis.all() for axis in is_in):
        out = _filled(source, tuple(map(len, positions)))
        if all(axis.any() for axis in is_in):
            out[np.ix_(*is_in)] = _source_items(source, [axis[inside] for axis, inside in zip(positions, is_in)], False)
        return out
    return source._items(Box(tuple(map(_simple, positions)), tuple(map(len, positions))))


def _read_virtual(dataset: Dataset, chosen: Box | Points) -> np.ndarray[Any, Any]:
    inner = flat(dataset.dtype)[1]
    nbytes = math.prod(chosen.shape) * dataset.dtype.itemsize
    if nbytes > _UNEXPLAINED + sum(source.nbytes for _, source, _ in _parts(dataset)):
        raise LimitError(f"{dataset._shown}: {nbytes} bytes, far more than its sources have")
    out = _filled(dataset, chosen.shape)
    shape = dataset.shape
    wanted: list[np.ndarray[Any, Any]] = []
    for axis, length in zip(chosen.axes, shape):
        if isinstance(axis, slice):
            wanted.append(np.arange(*axis.indices(length)))
        else:
            wanted.append(np.atleast_1d(np.asarray(axis, np.int64)))
    # Numbers keep their dimension here.
    whole = out if isinstance(chosen, Points) else out.reshape(tuple(map(len, wanted)) + inner)
    for mapping, source, n in _parts(dataset):
        part = _axes(mapping, dataset, source, n)
        if part.target is None or part.source is None:
            _copy_points(part, dataset, wanted, whole, isinstance(chosen, Points))
            continue
        found = [axis.numbers(positions) for axis, positions in zip(part.target, wanted)]
        shapes = [len(axis) for axis in part.target], [len(axis) for axis in part.source]
        if isinstance(chosen, Points):
            is_in = np.logical_and.reduce([axis.numbers(positions)[0] for axis, positions in zip(part.target, wanted)])
            if not is_in.any():
                continue
            numbers = [axis.numbers(positions[is_in])[1] for axis, positions in zip(part.target, wanted)]
            order = np.ravel_multi_index(tuple(numbers), tuple(shapes[0]))
            at = np.unravel_index(order, tuple(shapes[1]))
            whole[is_in] = _of_source(part, whole.dtype, [axis.positions(where) for axis, where in zip(part.source, at)], True)
            continue
        if any(not is_in.any() for is_in, _ in found):
            continue
        lengths = tuple([length for length in side if length != 1] for side in shapes)
        if lengths[0] != lengths[1]:
            _copy_other_shape(part, found, shapes, whole)
            continue
        numbers = [number for (_, number), length in zip(found, shapes[0]) if length != 1]
        rest = iter(numbers)
        picks = [next(rest) if length != 1 else np.zeros(1, np.int64) for length in shapes[1]]
        places = [axis.positions(pick) for axis, pick in zip(part.source, picks)]
        items = _of_source(part, whole.dtype, places, False)
        where = [np.flatnonzero(is_in) for is_in, _ in found]
        target_shape = tuple(map(len, where))
        whole[np.ix_(*where)] = items.reshape(target_shape + items.shape[len(places) :])
    return out


def _simple(positions: np.ndarray[Any, Any]) -> slice | np.ndarray[Any, Any]:
    """Returns positions as a slice, if they are one."""
    if len(positions) and positions[-1] - positions[0] == len(positions) - 1:
        return slice(int(positions[0]), int(positions[-1]) + 1, 1)
    return positions


def _copy_other_shape(part: _Part, found: list[Any], shapes: tuple[list[int], list[int]], whole: np.ndarray[Any, Any]) -> None:
    """Copies a mapping between selections of different shapes, item by item."""
    grid = np.ix_(*(numbers for _, numbers in found))
    order = np.ravel_multi_index(np.broadcast_arrays(*grid), tuple(shapes[0])).ravel()
    at = np.unravel_index(order, tuple(shapes[1]))
    where = np.ix_(*(np.flatnonzero(is_in) for is_in, _ in found))
    items = _of_source(part, whole.dtype, [axis.positions(where) for axis, where in zip(part.source or (), at)], True)
    whole[where] = items.reshape(tuple(len(numbers) for _, numbers in found) + items.shape[1:])


def _points(region: Region, axes: tuple[Axis, ...] | None, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if axes is None:
        return region.all_points(shape, is_clipped=True)
    if math.prod(map(len, axes)) > 1 << 24:
        raise UnsupportedError("a mapping of very many items, with a selection that is not a product")
    grid = np.meshgrid(*(axis.positions(np.arange(len(axis))) for axis in axes), indexing="ij")
    return np.stack([part.ravel() for part in grid], axis=-1)


def _copy_points(
    part: _Part, dataset: Dataset, wanted: list[np.ndarray[Any, Any]], whole: np.ndarray[Any, Any], are_points: bool
) -> None:
    """Copies a mapping of which one side is a list of points or boxes."""
    targets = _points(part.mapping.vspace, part.target, dataset.shape)
    sources = _points(part.mapping.src_space, part.source, part.dataset.shape)
    count = min(len(targets), len(sources))
    if count == 0:
        return
    items = _of_source(part, whole.dtype, list(sources[:count].T), True)
    known = {tuple(target): n for n, target in enumerate(targets[:count].tolist())}
    if are_points:
        positions = zip(range(len(whole)), zip(*(axis.tolist() for axis in wanted)))
        for at, position in positions:
            if position in known:
                whole[at] = items[known[position]]
        return
    index = [{position: n for n, position in enumerate(axis.tolist())} for axis in wanted]
    for position, n in known.items():
        place = tuple(axis.get(at, -1) for axis, at in zip(index, position))
        if -1 not in place:
            whole[place] = items[n]


def read_external(dataset: Dataset, key: tuple[Any, ...], style: str) -> np.ndarray[Any, Any]:
    """Returns stored items whose contiguous bytes are spread over other files.

    Raises
    ------
    OSError
        A file does not exist, or external files may not be read.
    """
    opened = dataset._opened
    if opened.folder is None or opened.external_links == "never":
        raise IoError(f"{dataset._shown}: the items are in other files, which are not read")
    size = dataset._kind.stored.itemsize
    left = math.prod(dataset.shape) * size
    data = bytearray()
    for name, offset, nbytes in dataset._description["external"]:
        count = left if nbytes is None else min(nbytes, left)
        path = os.path.join(opened.folder, name)
        folder = os.path.realpath(opened.folder)
        if opened.external_links == "folder" and os.path.commonpath([folder, os.path.realpath(path)]) != folder:
            raise NoSuchKeyError(f"{dataset._shown}: items in {name!r}, outside of {folder}: see external_links of File")
        try:
            with open(path, "rb") as file:
                file.seek(offset)
                part = file.read(count)
        except OSError as error:
            raise IoError(f"{dataset._shown}: items in {name!r}: {error}") from error
        if count - len(part) > _UNEXPLAINED:
            raise LimitError(f"{dataset._shown}: {count} bytes of items in {name!r}, which has {len(part)}")
        # As in HDF5, bytes after the end of a file are zero.
        data += part + bytes(min(count - len(part), left))
        left -= count
    if left:
        raise DamagedError(f"{dataset._shown}: {left} bytes are in no file")
    whole = np.frombuffer(bytes(data), f"V{size}").reshape(dataset.shape)
    if style == "vectorized":
        return np.asarray(whole[key])
    key = tuple(axis for axis in key if axis is not Ellipsis)
    lists = [n for n, axis in enumerate(key) if isinstance(axis, np.ndarray)]
    for n in lists:
        whole = whole.take(key[n], axis=n)
    return np.asarray(whole[tuple(slice(None) if n in lists else axis for n, axis in enumerate(key))])

"""Selections of items: h5py's rules, and regions as HDF5 stores them."""

from __future__ import annotations

import operator
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from b2kit.errors import DamagedError, SelectionError, UnsupportedError

__all__ = ["Axis", "Box", "MultiBlockSlice", "Points", "Region", "parse_region", "select"]

# Maximum number of parts of a region that is read.
_MOST = 1 << 24


class MultiBlockSlice:
    """A selection of equally spaced blocks along one dimension.

    Parameters
    ----------
    start
        The first item.
    stride
        Distance between the starts of consecutive blocks.
    count
        Number of blocks; None for as many as fit.
    block
        Items of a block.
    """

    def __init__(self, start: int = 0, stride: int = 1, count: int | None = None, block: int = 1) -> None:
        if start < 0:
            raise ValueError("Start can't be negative")
        if stride < 1 or (count is not None and count < 1) or block < 1:
            raise ValueError("Stride, count and block can't be 0 or negative")
        if block > stride:
            raise ValueError("Blocks will overlap if block > stride")
        self.start, self.count, self.stride, self.block = start, count, stride, block

    def indices(self, length: int) -> tuple[int, int, int, int]:
        """Return start, stride, count and block for a dimension of a length."""
        count = self.count
        if count is None:
            if self.start + self.block > length:
                raise ValueError("No full blocks can be selected")
            count = (length - self.start - self.block) // self.stride + 1
        end = self.start + (count - 1) * self.stride + self.block
        if end > length:
            raise ValueError(f"Range {self.start} - {end - 1} out of range (0 - {length - 1})")
        return self.start, self.stride, count, self.block

    def positions(self, length: int) -> np.ndarray[Any, Any]:
        """Return the numbers of the selected items."""
        start, stride, count, block = self.indices(length)
        firsts = start + stride * np.arange(count)
        return np.asarray((firsts[:, None] + np.arange(block)).ravel())

    def __repr__(self) -> str:
        return f"MultiBlockSlice(start={self.start}, stride={self.stride}, count={self.count}, block={self.block})"


class Box(NamedTuple):
    """A separate selection for each dimension: numbers, slices, and arrays of numbers."""

    axes: tuple[int | slice | np.ndarray[Any, Any], ...]
    shape: tuple[int, ...]
    """The shape of the result, to which numbers add no dimension."""

    def bounds(self) -> tuple[list[int], list[int]] | None:
        """Return the first item and the lengths if the selection is a box without gaps; otherwise None."""
        start, lengths = [], []
        for axis in self.axes:
            if isinstance(axis, int):
                first, length = axis, 1
            elif isinstance(axis, slice) and axis.step == 1:
                first, length = axis.start, axis.stop - axis.start
            else:
                return None
            start.append(first)
            lengths.append(length)
        return start, lengths


class Points(NamedTuple):
    """Single items: an array of numbers for each dimension."""

    axes: tuple[np.ndarray[Any, Any], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (len(self.axes[0]) if self.axes else 0,)


def select(shape: tuple[int, ...], args: tuple[Any, ...]) -> Box | Points:
    """Return the selection of the arguments of an index.

    Raises
    ------
    TypeError, ValueError, IndexError
        As h5py does.
    """
    if len(args) == 1 and isinstance(args[0], np.ndarray) and args[0].dtype.kind == "b":
        if args[0].shape == shape:
            return Points(tuple(args[0].nonzero()))
        if args[0].shape != shape[:1]:
            raise TypeError("Boolean indexing array has incompatible shape")
    dots = [n for n, arg in enumerate(args) if arg is Ellipsis]
    if len(dots) > 1:
        raise ValueError("Only one ellipsis may be used.")
    named = len(args) - len(dots)
    if named > len(shape):
        raise ValueError(f"{named} indexing arguments for {len(shape)} dimensions")
    if sum(isinstance(arg, (list, tuple, range)) or isinstance(arg, np.ndarray) and arg.ndim > 0 for arg in args) > 1:
        raise TypeError("Only one indexing vector or array is currently allowed for fancy indexing")
    at = dots[0] if dots else named
    full = (slice(None),) * (len(shape) - named)
    args = (*args[:at], *full, *args[at + len(dots) :])
    axes: list[int | slice | np.ndarray[Any, Any]] = []
    lengths: list[int] = []
    for arg, length in zip(args, shape):
        axis, count = _axis(arg, length)
        axes.append(axis)
        if count is not None:
            lengths.append(count)
    return Box(tuple(axes), tuple(lengths))


def _axis(arg: Any, length: int) -> tuple[int | slice | np.ndarray[Any, Any], int | None]:
    """Return the selection along one dimension, and its length, None for a number."""
    if isinstance(arg, slice):
        start, stop, step = arg.indices(length)
        if step < 1:
            raise ValueError(f"Step must be >= 1 (got {step})")
        count = len(range(start, stop, step))
        return (slice(start, stop, step) if count else slice(0, 0, 1)), count
    if isinstance(arg, MultiBlockSlice):
        positions = arg.positions(length)
        return positions, len(positions)
    try:
        number = operator.index(arg) if not isinstance(arg, (bool, np.bool_)) else None
    except TypeError:
        number = None
    if number is not None:
        if not -length <= number < length:
            if length == 0:
                raise IndexError(f"Index ({number}) out of range for empty dimension")
            raise IndexError(f"Index ({number}) out of range for (0-{length - 1})")
        return number % length, None
    if not isinstance(arg, (list, tuple, range, np.ndarray)):
        raise TypeError(f"Selection can't process {arg!r}")
    array = np.asarray(arg)
    if array.size == 0 and not isinstance(arg, np.ndarray):
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise TypeError("Only 1D arrays allowed for fancy indexing")
    if array.dtype.kind == "b":
        if len(array) != length:
            raise TypeError("Boolean indexing array has incompatible shape")
        array = array.nonzero()[0]
    if array.dtype.kind not in "iu":
        raise TypeError("Indexing arrays must have integer dtypes")
    array = array.astype(np.int64)
    array = np.where(array < 0, array + length, array)
    if array.size and not (0 <= array.min() and array.max() < length):
        raise IndexError(f"Fancy indexing out of range for (0-{length - 1})")
    if (np.diff(array) <= 0).any():
        raise TypeError("Indexing elements must be in increasing order")
    return array, len(array)


@dataclass(frozen=True)
class Axis:
    """Equally spaced blocks along one dimension, of which the last one may be shorter."""

    start: int
    stride: int
    length: int
    """Number of items of all blocks."""
    block: int

    def __len__(self) -> int:
        return self.length

    @property
    def end(self) -> int:
        """The position after the last item."""
        whole, rest = divmod(self.length - 1, self.block)
        return self.start + whole * self.stride + rest + 1 if self.length else 0

    def numbers(self, positions: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return which of the positions are selected, and their numbers in the selection."""
        at = positions - self.start
        rest = at % self.stride
        numbers = at // self.stride * self.block + rest
        is_in = (at >= 0) & (rest < self.block) & (numbers < self.length)
        return is_in, numbers[is_in]

    def positions(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the positions of items that have these numbers in the selection."""
        return np.asarray(self.start + numbers // self.block * self.stride + numbers % self.block)


class Region(NamedTuple):
    """A part of a data set, in HDF5's description."""

    kind: str
    """``"none"``, ``"all"``, ``"points"``, ``"regular"`` or ``"boxes"``."""
    points: np.ndarray[Any, Any] | None = None
    """The points, or the first and the last item of each box."""
    regular: tuple[tuple[int, int, int | None, int | None], ...] = ()
    """Start, stride, count and block of each dimension; a count or a block of None is unlimited."""

    def axes(self, shape: tuple[int, ...], is_clipped: bool = False) -> tuple[Axis, ...] | None:
        """Return the selections along each dimension, if the region is their product; otherwise None. With ``is_clipped`` they
        may be outside the data set.

        Raises
        ------
        SelectionError
            The region is not inside a data set of this shape.
        """
        if self.kind == "all":
            return tuple(block_axis(0, length) for length in shape)
        if self.kind == "boxes" and self.points is not None and len(self.points) == 1:
            ends = zip(*self.points[0].tolist())
            axes = tuple(block_axis(first, last - first + 1) for first, last in ends)
        elif self.kind == "regular":
            axes = tuple(_regular(axis, length) for axis, length in zip(self.regular, shape))
        else:
            return None
        if len(axes) != len(shape) or not is_clipped and any(axis.end > length for axis, length in zip(axes, shape)):
            raise SelectionError("a region outside of its data set")
        return axes

    def ends(self, rank: int) -> list[int]:
        """Return the position after the last item along each dimension; 0 for an unlimited one."""
        if self.points is not None and self.points.size and self.points.shape[-1] == rank:
            return [max(column) + 1 for column in self.points.reshape(-1, rank).T.tolist()]
        known = [0 if None in axis else _regular(axis, 0).end for axis in self.regular]
        return known if len(known) == rank else [0] * rank

    def all_points(self, shape: tuple[int, ...], is_clipped: bool = False) -> np.ndarray[Any, Any]:
        """Return all items of a region that is not a product, in the order in which HDF5 reads them. With ``is_clipped`` they may be
        outside the data set.

        Raises
        ------
        SelectionError
            The region is not inside a data set of this shape, or has very many items.
        """
        if self.points is None or self.points.shape[-1] != len(shape):
            return np.empty((0, len(shape)), np.int64)
        points = self.points
        if (points < 0).any() or not is_clipped and (points >= np.array(shape)).any():
            raise SelectionError("a region outside of its data set")
        if self.kind == "points":
            return points
        lengths = np.maximum(points[:, 1] - points[:, 0] + 1, 0)
        if lengths.astype(float).prod(axis=1).sum() > _MOST:
            raise SelectionError("a region of very many items")
        boxes = (np.indices(length).reshape(len(shape), -1).T + first for first, length in zip(points[:, 0], lengths))
        return np.unique(np.concatenate(list(boxes)), axis=0)


def block_axis(start: int, length: int) -> Axis:
    """Returns a single block."""
    return Axis(start, max(length, 1), max(length, 0), max(length, 1))


def _regular(axis: tuple[int, int, int | None, int | None], length: int) -> Axis:
    start, stride, count, block = axis
    if block is None:
        # One unlimited block.
        return block_axis(start, length - start)
    stride = max(stride, block, 1)
    if count is None:
        # As in HDF5, the last block may be cut off.
        whole, rest = divmod(max(length - start, 0), stride)
        return Axis(start, stride, whole * block + min(rest, block), max(block, 1))
    return Axis(start, stride, count * block, max(block, 1))


def parse_region(data: bytes, at: int) -> tuple[Region, int]:
    """Return the region described at a byte offset, and the end of the description.

    Raises
    ------
    DamagedError
        The bytes are truncated or inconsistent.
    """
    try:
        return _parse_region(data, at)
    except struct.error as error:
        raise DamagedError("the description of a region is cut off") from error


def _parse_region(data: bytes, at: int) -> tuple[Region, int]:
    kind, version = struct.unpack_from("<II", data, at)
    at += 8
    if kind in (0, 3):
        return Region("none" if kind == 0 else "all"), at + 8
    if kind not in (1, 2) or version not in (1, 2, 3):
        raise UnsupportedError(f"regions of kind {kind} and version {version}")
    is_regular, width = False, 4
    if version == 1:
        at += 8
    elif kind == 2 and version == 2:
        is_regular, width = bool(data[at] & 1), 8
        at += 5
    elif kind == 2:
        is_regular, width = bool(data[at] & 1), data[at + 1]
        at += 2
    else:
        width = data[at]
        at += 1
    if width not in (2, 4, 8):
        raise DamagedError(f"a region with numbers of {width} bytes")
    letter = {2: "H", 4: "I", 8: "Q"}[width]
    (rank,) = struct.unpack_from("<I", data, at)
    at += 4
    if not 1 <= rank <= 32:
        raise DamagedError(f"a region of {rank} dimensions")
    if is_regular:
        numbers = struct.unpack_from(f"<{4 * rank}{letter}", data, at)
        at += 4 * rank * width
        endless = 2 ** (8 * width) - 1
        axes = (numbers[n : n + 4] for n in range(0, 4 * rank, 4))
        regular = tuple(
            (start, stride, None if count == endless else count, None if block == endless else block)
            for start, stride, count, block in axes
        )
        return Region("regular", None, regular), at
    (count,) = struct.unpack_from(f"<{letter}", data, at)
    at += width
    times = rank * (2 if kind == 2 else 1)
    if count > _MOST or len(data) - at < count * times * width:
        raise DamagedError(f"a region of {count} parts in {len(data) - at} bytes")
    found = np.frombuffer(data, f"<u{width}", count * times, at).astype(np.uint64)
    if found.size and found.max() >= 2**63:
        raise DamagedError("a region after all items")
    points = found.astype(np.int64)
    at += count * times * width
    if kind == 1:
        return Region("points", points.reshape(count, rank)), at
    return Region("boxes", points.reshape(count, 2, rank)), at

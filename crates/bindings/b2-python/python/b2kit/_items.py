"""The common part of arrays and data sets of HDF5: items that are read by selections."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from b2kit._progress import Progress, progress_callback
from b2kit.errors import ArgumentError, WrongTypeError, checked

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Indexer", "Items"]


class Items:
    """Items that are read on request, of an array or a data set of HDF5."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the items."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of items."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Uncompressed size in bytes."""
        raise NotImplementedError

    @property
    def cbytes(self) -> int:
        """Compressed size in bytes."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def _get(self, key: Any, style: str, threads: int | None = None, progress: Any = None) -> Any:
        raise NotImplementedError

    def _read_into(self, key: Any, out: Any, threads: int | None = None, progress: Any = None) -> None:
        raise NotImplementedError

    @property
    def ratio(self) -> float:
        """Compression ratio: uncompressed size divided by compressed size."""
        return self.nbytes / self.cbytes if self.cbytes else 0.0

    @property
    def oindex(self) -> Indexer:
        """Orthogonal indexing: each list of positions selects along its own dimension, as with :func:`numpy.ix_`."""
        return Indexer(self, "orthogonal")

    @property
    def vindex(self) -> Indexer:
        """Vectorized indexing: lists of positions form coordinates, whose dimensions come first in the result."""
        return Indexer(self, "vectorized")

    @checked
    def read(
        self,
        sel: Any = ...,
        *,
        out: Any = None,
        threads: int | None = None,
        progress: Progress = None,
    ) -> Any:
        """Reads a selection.

        Parameters
        ----------
        sel : index
            As in NumPy; by default the whole array.
        out : ndarray or buffer, optional
            Read the items into this array, which may have any strides, or into another buffer, and return it. Nothing else may
            use it during the call.
        threads : int, optional
            Number of threads, by default that of the array.
        progress : bool or tqdm or callable, optional
            ``True`` for a progress bar, a class or a bar of tqdm, or a function that is called with the number of bytes done
            and in total.

        Returns
        -------
        ndarray or scalar
            The items, or `out` if it was given.

        Raises
        ------
        b2kit.errors.SelectionError
            The selection is out of range.
        b2kit.errors.ArgumentError
            `out` has another shape than the selection.
        b2kit.errors.DamagedError
            The stored bytes do not match their checksum, or are malformed.
        b2kit.errors.ChangedError
            The file was changed by a program that overwrites in place, or a remote file was replaced.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.arange(12).reshape(3, 4))
        >>> out = np.empty((3, 2), int)
        >>> a.read(np.s_[:, ::2], out=out) is out, out[2].tolist()
        (True, [8, 10])
        """
        with progress_callback(progress, "read") as callback:
            if out is None:
                return self._get(sel, "numpy", threads, callback)
            self._read_into(sel, out, threads, callback)
            return out

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ArgumentError("the items are compressed: an array of them is always a copy")
        items: np.ndarray[Any, Any] = self[...]
        return items if dtype is None else items.astype(dtype, copy=False)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the rows, reading as many at a time as a chunk has."""
        rows, step = len(self), self._steps()[0] if self.ndim else 1
        return (row for start in range(0, rows, step) for row in self[start : start + step])

    def iterchunks(self) -> Iterator[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]:
        """Iterates over the chunks.

        Yields
        ------
        tuple of slice
            The part of the array that the chunk covers.
        ndarray
            Its items.

        Examples
        --------
        >>> import b2kit, numpy as np
        >>> a = b2kit.asarray(np.arange(5), chunks=2)
        >>> [(part, items.tolist()) for part, items in a.iterchunks()][-1]
        ((slice(4, 5, None),), [4])
        """
        steps = self._steps()
        ranges = (range(0, length, step) for length, step in zip(self.shape, steps))
        for starts in product(*ranges):
            part = tuple(
                slice(start, min(start + step, length))
                for start, step, length in zip(starts, steps, self.shape)
            )
            yield part, np.asarray(self[part])

    def __eq__(self, other: object) -> bool:
        raise WrongTypeError("the items are compressed: compare those that you read, as in a[...] == 5")

    def __ne__(self, other: object) -> bool:
        return self.__eq__(other)

    __hash__ = object.__hash__

    def _ipython_key_completions_(self) -> list[str]:
        """Completes the names of fields."""
        return [] if getattr(self, "closed", False) else list(self.dtype.names or ())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError("the truth value of an array with other than one item is ambiguous")
        return bool(self[...].item())

    def _steps(self) -> tuple[int, ...]:
        """Returns the lengths of the boxes in which all items are read: those of chunks, or of about 8 MiB without them."""
        chunks: tuple[int, ...] | None = getattr(self, "chunks", None)
        if chunks is not None:
            return tuple(max(1, length) for length in chunks)
        steps, left = [], max(1, (8 << 20) // max(1, self.dtype.itemsize))
        for length in reversed(self.shape):
            steps.append(max(1, min(length, left)))
            left = max(1, left // steps[-1])
        return tuple(reversed(steps))


class Indexer:
    """Items in brackets, with index arrays that are combined in one of several ways."""

    __slots__ = ("_array", "_style")

    def __init__(self, array: Any, style: str) -> None:
        self._array = array
        self._style = style

    def __getitem__(self, key: Any) -> Any:
        return self._array._get(key, self._style)

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._array.edit() as change:
            change._set(key, value, self._style)

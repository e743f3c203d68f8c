"""Crops of images for training neural networks, as NumPy arrays, without a dependency on a framework.

:class:`CropDataset` reads batches of random crops; :func:`read_metadata` reads spacing, origin and direction of ``.mla`` files.

    >>> import b2kit, numpy as np
    >>> from b2kit.training import CropDataset
    >>> for name in ("case_0", "case_1", "case_2"):
    ...     _ = b2kit.asarray(np.ones((1, 40, 60, 60), "f4"), f"{name}.b2nd", overwrite=True)
    ...     _ = b2kit.asarray(np.ones((1, 40, 60, 60), "i1"), f"{name}_seg.b2nd", overwrite=True)
    >>> cases = [{"image": f"case_{n}.b2nd", "labels": f"case_{n}_seg.b2nd"} for n in range(3)]
    >>> data = CropDataset(cases, crop=(16, 24, 24), batch=2, batches=10, seed=1)
    >>> [batch["image"].shape for batch in data][:3]
    [(2, 1, 16, 24, 24), (2, 1, 16, 24, 24), (2, 1, 16, 24, 24)]
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import pickletools
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

import b2kit
from b2kit._array import Array
from b2kit.errors import ArgumentError, DamagedError

__all__ = ["CropDataset", "read_metadata"]

_Case = Mapping[str, str | os.PathLike[str]]
_Sampler = Callable[[np.random.Generator, int, tuple[int, ...]], Sequence[int]]

# Arrays that stay open in each process. Opening one costs a few requests.
_MAX_OPEN = 128


class CropDataset:
    """Batches of random crops of images, with the same crops of their labels.

    ``data[n]`` is batch ``n``, and iterating reads the batches in order, the next ones by threads while one is used. A batch is
    a dict with an array for each name of the cases, of shape ``(batch, channels..., crop...)``, and the integer arrays ``case``
    (the case of each crop) and ``start`` (its first item).

    A batch depends only on ``seed``, :attr:`epoch` and its number, not on threads, processes or the order of reading.
    A dataset may be shared by threads, used after a fork, and pickled. Arrays stay open, so files must not be replaced during its use.

    Parameters
    ----------
    cases : sequence of mapping
        The files of each case by their names, such as ``{"image": "a.b2nd", "labels": "a_seg.b2nd"}``. All cases have the same
        names. The last dimensions of the arrays of a case have the same lengths; dimensions before them are read whole.
    crop : sequence of int
        The lengths of a crop along the last dimensions.
    batch : int, default 2
        The number of crops in a batch. Each is from a case drawn at random, with replacement.
    per_case : int, default 1
        The number of consecutive crops from the same case, which are read in one call. It divides ``batch``.
    batches : int, optional
        The length of the dataset. By default there is about one crop for each case.
    seed : int, default 0
        Determines all random numbers.
    pad_value : number or mapping, default 0
        The value of items outside the image, for all arrays or by their names. An image that is shorter than a crop is in
        its middle.
    sampler : callable, optional
        ``sampler(rng, case, shape)`` returns the start of a crop of an image. It may lie outside the image, even at
        negative positions. By default crops are uniformly distributed inside the image.
    prefetch : int, default 2
        The number of batches that are read ahead when the dataset is iterated, each by a thread. 0 starts no threads.
    threads : int, optional
        The number of threads that decode a call, by default that of :func:`b2kit.set_threads`. Use 1 in one of many processes.
    allocate : callable, optional
        ``allocate(shape, dtype)`` returns the memory for an array of a batch: a NumPy array, or an object with NumPy's interface or
        DLPack on the CPU, such as a pinned tensor. The batch then has this object. By default :func:`numpy.empty`.

    Raises
    ------
    b2kit.errors.ArgumentError
        There are no cases, their names differ, or a number is out of range.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> from b2kit.training import CropDataset
    >>> _ = b2kit.asarray(np.arange(24).reshape(4, 6), "grid.b2nd", overwrite=True)
    >>> data = CropDataset([{"grid": "grid.b2nd"}], crop=(2, 3), batch=1, seed=4)
    >>> data[0]["grid"].tolist() == data[0]["grid"].tolist()
    True
    >>> corner = CropDataset([{"grid": "grid.b2nd"}], (2, 3), batch=1, pad_value=-1, sampler=lambda rng, case, shape: (-1, 4))
    >>> corner[0]["grid"].tolist()
    [[[-1, -1, -1], [4, 5, -1]]]
    """

    def __init__(
        self,
        cases: Sequence[_Case],
        crop: Sequence[int],
        *,
        batch: int = 2,
        per_case: int = 1,
        batches: int | None = None,
        seed: int = 0,
        pad_value: float | Mapping[str, float] = 0,
        sampler: _Sampler | None = None,
        prefetch: int = 2,
        threads: int | None = None,
        allocate: Callable[[tuple[int, ...], np.dtype[Any]], Any] | None = None,
    ) -> None:
        self.cases = [{name: os.fspath(path) for name, path in case.items()} for case in cases]
        self.crop = tuple(int(length) for length in crop)
        if not self.cases or not self.cases[0]:
            raise ArgumentError("there are no cases")
        self.names = tuple(self.cases[0])
        if any(set(case) != set(self.names) for case in self.cases):
            raise ArgumentError("the cases have different names")
        if {"case", "start"} & set(self.names):
            raise ArgumentError("'case' and 'start' are not available as names")
        if not self.crop or min(self.crop) < 1:
            raise ArgumentError(f"crop {self.crop}: expected positive lengths")
        if batch < 1 or per_case < 1 or batch % per_case:
            raise ArgumentError(f"batch {batch} and per_case {per_case}: expected a positive multiple")
        if prefetch < 0 or seed < 0 or (batches is not None and batches < 0):
            raise ArgumentError("prefetch, seed and batches cannot be negative")
        self.batch, self.per_case, self.seed = batch, per_case, seed
        self.batches = max(1, len(self.cases) // batch) if batches is None else batches
        self.pad_value, self.sampler, self.prefetch, self.threads, self.allocate = pad_value, sampler, prefetch, threads, allocate
        self.epoch = 0
        """The number of the epoch, 0 at first. Set it to get other crops."""
        self._opened = functools.lru_cache(_MAX_OPEN)(self._open)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_opened"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._opened = functools.lru_cache(_MAX_OPEN)(self._open)

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, n: int) -> dict[str, Any]:
        if not -self.batches <= n < self.batches:
            raise IndexError(f"batch {n} of {self.batches}")
        return self._read(n % self.batches, self.epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        numbers, epoch, process = iter(range(self.batches)), self.epoch, os.getpid()
        if not self.prefetch:
            yield from (self._read(n, epoch) for n in numbers)
            return
        executor = ThreadPoolExecutor(self.prefetch, "b2kit-crops")
        waiting: deque[Future[dict[str, Any]]] = deque()
        try:
            for n in range(self.batches):
                if os.getpid() != process:
                    # The child of a fork does not have the threads.
                    yield self._read(n, epoch)
                    continue
                while len(waiting) < self.prefetch and (following := next(numbers, None)) is not None:
                    waiting.append(executor.submit(self._read, following, epoch))
                yield waiting.popleft().result()
        finally:
            if os.getpid() == process:
                executor.shutdown(cancel_futures=True)

    def _open(self, case: int, name: str) -> Array:
        return b2kit.open_array(self.cases[case][name], threads=self.threads)

    def _arrays(self, case: int) -> dict[str, Array]:
        """Returns the arrays of a case, whose last dimensions are the same."""
        arrays = {name: self._opened(case, name) for name in self.names}
        ndim = len(self.crop)
        shapes = {array.shape[-ndim:] for array in arrays.values()}
        if len(shapes) > 1 or any(array.ndim < ndim for array in arrays.values()):
            listed = ", ".join(f"{self.cases[case][name]} {array.shape}" for name, array in arrays.items())
            raise ArgumentError(f"crops of {ndim} dimensions do not fit arrays of the shapes {listed}")
        return arrays

    def _read(self, n: int, epoch: int) -> dict[str, Any]:
        rng = np.random.default_rng((self.seed, epoch, n))
        drawn = rng.integers(0, len(self.cases), self.batch // self.per_case)
        cases = np.repeat(drawn, self.per_case)
        starts = np.empty((self.batch, len(self.crop)), np.int64)
        result: dict[str, Any] = {}
        views: dict[str, np.ndarray[Any, Any]] = {}
        for at in range(0, self.batch, self.per_case):
            case = int(cases[at])
            arrays = self._arrays(case)
            rows = slice(at, at + self.per_case)
            shape = next(iter(arrays.values())).shape[-len(self.crop) :]
            for row in range(at, at + self.per_case):
                starts[row] = self._start(rng, case, shape)
            for name, array in arrays.items():
                full = (self.batch, *array.shape[: array.ndim - len(self.crop)], *self.crop)
                if name not in views:
                    result[name], views[name] = self._memory(full, array.dtype)
                elif views[name].shape != full or views[name].dtype != array.dtype:
                    path, first = self.cases[case][name], self.cases[int(cases[0])][name]
                    raise ArgumentError(f"{path}: channels or dtype differ from those of {first}")
                self._fill(array, starts[rows], views[name][rows], self._pad_value(name))
        return {**result, "case": cases, "start": starts}

    def _start(self, rng: np.random.Generator, case: int, shape: tuple[int, ...]) -> Sequence[int]:
        if self.sampler is not None:
            start = self.sampler(rng, case, shape)
            if len(start) != len(shape):
                raise ArgumentError(f"the sampler returned {len(start)} numbers for {len(shape)} dimensions")
            return start
        pairs = zip(shape, self.crop, strict=True)
        # The number of random numbers is the same for all images.
        unit = rng.random(len(shape))
        return [
            int(u * (length - side + 1)) if length >= side else -((side - length) // 2)
            for u, (length, side) in zip(unit, pairs, strict=True)
        ]

    def _pad_value(self, name: str) -> float:
        return self.pad_value.get(name, 0) if isinstance(self.pad_value, Mapping) else self.pad_value

    def _memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, np.ndarray[Any, Any]]:
        """Returns the memory for an array, and a NumPy array that shares it."""
        if self.allocate is None:
            array = np.empty(shape, dtype)
            return array, array
        memory = self.allocate(shape, dtype)
        view = _view(memory)
        if view.shape != shape or view.dtype != dtype or not view.flags.writeable:
            raise ArgumentError(f"allocate returned {view.shape} {view.dtype}, expected {shape} {dtype}, writeable")
        return memory, view

    def _fill(self, array: Array, starts: np.ndarray[Any, Any], out: np.ndarray[Any, Any], pad_value: float) -> None:
        """Reads crops of one array into ``out``."""
        shape = array.shape[-len(self.crop) :]
        inside = (starts >= 0) & (starts + self.crop <= shape)
        if inside.all():
            array.read_boxes([self._box(start, np.add(start, self.crop)) for start in starts], out)
            return
        for start, crop in zip(starts, out, strict=True):
            first, end = np.clip(start, 0, shape), np.clip(start + self.crop, 0, shape)
            if (first > start).any() or (end < start + self.crop).any():
                crop[...] = pad_value
            if (first < end).all():
                array.read_boxes([self._box(first, end)], crop[self._box(first - start, end - start)][None])

    @staticmethod
    def _box(start: Any, end: Any) -> tuple[Any, ...]:
        return (..., *(slice(int(first), int(last)) for first, last in zip(start, end, strict=True)))

    def __repr__(self) -> str:
        return f"<b2kit.training.CropDataset of {len(self.cases)} cases, crops {self.crop}, {self.batches} batches of {self.batch}>"


def _view(memory: Any) -> np.ndarray[Any, Any]:
    """Returns a NumPy array that shares the memory of an object."""
    if isinstance(memory, np.ndarray):
        return memory
    if hasattr(memory, "__dlpack__"):
        view: np.ndarray[Any, Any] = np.from_dlpack(memory)
        # Older versions of DLPack do not state whether memory may be changed, so NumPy does not allow it.
        if view.flags.writeable or not hasattr(memory, "numpy"):
            return view
    if hasattr(memory, "numpy"):
        shared: np.ndarray[Any, Any] = memory.numpy()
        return shared
    raise ArgumentError(f"allocate returned {type(memory).__name__}, which has neither NumPy's interface nor DLPack")


# The opcodes of pickles of numbers, texts, lists and dicts, and of mlarray's enumerations. None allocates more than the pickle holds.
_OPCODES = frozenset(
    "PROTO FRAME MEMOIZE BINGET LONG_BINGET MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE "
    "BINUNICODE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE APPEND APPENDS SETITEM SETITEMS TUPLE TUPLE1 TUPLE2 TUPLE3 STACK_GLOBAL REDUCE".split()
)
_MAX_METADATA = 16 << 20


class _PlainUnpickler(pickle.Unpickler):
    """Loads numbers, texts, lists and dicts; members of mlarray's enumerations become their values. Nothing is called or imported."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] != "mlarray":
            raise DamagedError(f"the metadata of mlarray contains {module}.{name}")
        return _plain


def _plain(value: object) -> object:
    return value


def read_metadata(array: Array | str | os.PathLike[str]) -> dict[str, Any]:
    """Read the metadata that the package mlarray stores in its files (``.mla``): spacing, origin, direction and others.

    The items are read by :func:`b2kit.open_array`, like those of any other Blosc2 file. mlarray stores its metadata as a pickle.
    It is read without calling or importing anything, and consists of plain numbers, texts, lists and dicts.

    Parameters
    ----------
    array : Array or path
        The array, or its file.

    Returns
    -------
    dict
        The fields by the names of mlarray's schema, such as ``metadata["spatial"]["spacing"]``. Empty if there is no such metadata.

    Raises
    ------
    b2kit.errors.DamagedError
        The metadata is damaged, or contains other objects.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> from b2kit.training import read_metadata
    >>> read_metadata(b2kit.asarray(np.ones(3)))
    {}
    """
    if not isinstance(array, Array):
        with b2kit.open_array(array) as opened:
            return read_metadata(opened)
    stored = array.attrs.get("mlarray")
    if not isinstance(stored, bytes):
        return {}
    try:
        decoder = zlib.decompressobj(wbits=31)
        content = decoder.decompress(stored, _MAX_METADATA)
        if not decoder.eof:
            raise DamagedError(f"the metadata of mlarray is cut off, or has more than {_MAX_METADATA} bytes")
        if other := {op.name for op, _, _ in pickletools.genops(content)} - _OPCODES:
            raise DamagedError(f"the metadata of mlarray has opcodes {sorted(other)}")
        metadata = _PlainUnpickler(io.BytesIO(content)).load()
    except DamagedError:
        raise
    except Exception as error:
        raise DamagedError(f"the metadata of mlarray is damaged: {error}") from error
    if not isinstance(metadata, dict):
        raise DamagedError("the metadata of mlarray is not a dict")
    # Some fields are wrapped in a dict whose only key is their name.
    keys = {"source": "data", "extra": "data"}
    for name, value in metadata.items():
        key = keys.get(name, str(name).lstrip("_"))
        if isinstance(value, dict) and list(value) == [key]:
            metadata[name] = value[key]
    return metadata

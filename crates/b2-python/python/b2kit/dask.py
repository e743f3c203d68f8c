"""Dask: arrays read by many workers, and written by many workers as one array.

    >>> import dask.array as da, numpy as np, tempfile
    >>> from b2kit.dask import from_b2kit, to_b2kit
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> a = to_b2kit(da.arange(1_000_000, chunks=100_000).reshape(1000, 1000), path)
    >>> a.shape, a.chunks
    ((1000, 1000), (100, 1000))
    >>> int(from_b2kit(a).sum().compute())
    499999500000

Workers open an array by its path again, so they may be other processes or machines that see the same files. See
``docs/dask.md``.
"""

from __future__ import annotations

import glob
import math
import os
import shutil
import time
import uuid
from typing import Any, Union

import numpy as np

import dask
import dask.array as da
from b2kit import _b2kit
from b2kit._array import Array, as_shape
from b2kit._create import _DEFAULTS, _options, asarray
from b2kit._create import open as open_any
from b2kit.errors import ArgumentError, ExistsError, UnsupportedError, WrongTypeError
from dask.base import tokenize
from dask.delayed import Delayed, delayed

__all__ = ["clean", "from_b2kit", "to_b2kit"]

Path = Union[str, "os.PathLike[str]"]

# Dask tells the types of few of its functions.
_dask: Any = dask
_da: Any = da

# A directory beside the array with what workers have written.
_STAGE = ".parts-"
# What `to_b2kit` takes for granted or decides itself.
_NOT_HERE = ("path", "chunks", "attrs", "meta", "overwrite", "sync", "sparse", "threads")


def from_b2kit(a: Array | Path, chunks: Any = None, *, threads: int | None = 1) -> da.Array:
    """A Dask array of an array of this package, or of one at a path.

    ``chunks`` are those of the array by default; others are best multiples of them (``"auto"`` finds some of a good
    size). Each task reads with one thread, since Dask runs as many tasks as there are: ``threads`` says otherwise.
    Workers get the path; an array in memory is sent to them.
    """
    array = a if isinstance(a, Array) else open_any(a)
    if not isinstance(array, Array):
        raise ArgumentError(f"{a!r} is a store: open an array of it")
    if array.threads != threads and array._origin == "path":
        array = Array(array.path or "", "r", threads)
    if chunks is None:
        chunks = array.chunks
    own = tuple(max(1, length) for length in array.chunks)
    chunks = _da.core.normalize_chunks(chunks, array.shape, dtype=array.dtype, previous_chunks=own)
    name = f"b2kit-{tokenize(array, chunks)}"
    meta = np.empty((0,) * array.ndim, array.dtype)
    found: da.Array = _da.from_array(array, chunks=chunks, name=name, meta=meta, lock=False, inline_array=True)
    return found


def to_b2kit(
    x: da.Array,
    path: Path,
    *,
    chunks: Any = None,
    rechunk: bool = True,
    attrs: Any = None,
    meta: Any = None,
    overwrite: bool = False,
    sync: bool = True,
    sparse: bool = False,
    compute: bool = True,
    **options: Any,
) -> Array | Delayed:
    """Writes a Dask array, with all workers that Dask has; answers the array.

    Each worker compresses its partitions into files of their own beside the array, under names that nobody else has, so
    that tasks that run twice do no harm. At the end one task copies the compressed chunks into the array, which appears
    under its name when it is complete; its files are removed, also after an error. ``path`` must be the same place for
    all workers.

    ``chunks`` is the shape of the chunks, by default that of the largest partition. Where partitions do not begin on the
    borders of chunks the array is rechunked, which moves data between the workers; with ``rechunk=False`` it is an error.
    ``sparse`` makes a directory with a file for each chunk. With ``compute=False`` nothing is done before the answer, a
    task of Dask, is computed. Other ``options`` are those of :func:`b2kit.asarray`.
    """
    target = os.path.abspath(os.fspath(path))
    if "://" in os.fspath(path):
        raise UnsupportedError(f"{path}: arrays are written to files")
    if not isinstance(x, da.Array):
        raise WrongTypeError(f"{type(x)} is no Dask array: b2kit.asarray writes others")
    if x.dtype.hasobject:
        raise WrongTypeError(f"items of dtype {x.dtype} cannot be stored")
    if any(math.isnan(length) for length in x.shape):
        raise ArgumentError("the shape is not known: call compute_chunk_sizes() first")
    if not overwrite and os.path.lexists(target):
        raise ExistsError(f"{path}: there is something of that name already")
    shape = _chunk_shape(x, chunks)
    items: Any = _aligned(x, shape, rechunk)
    told = {**_DEFAULTS, **options, "chunks": shape}
    if wrong := set(options).intersection(_NOT_HERE):
        raise WrongTypeError(f"unexpected keyword arguments: {', '.join(sorted(wrong))}")
    if told["blocks"] is not None:
        told["blocks"] = as_shape(told["blocks"])
    elif items.size:
        # As for the whole array, and the same for all parts.
        like = {**_options({**told, "path": None}), "progress": None}
        told["blocks"] = list(Array(_b2kit.write_constant(list(items.shape), items.dtype, None, like)).blocks)
    stage = f"{target}{_STAGE}{uuid.uuid4().hex}"
    told = {**told, "attrs": attrs, "meta": meta}
    run = _Run(target, stage, items.shape, items.dtype, items.chunks, told, overwrite, sync, sparse)
    write = delayed(_write_part, pure=False)
    # Parts that still run after another one failed find no folder, and do not make it again.
    parts = [write(block, stage, run.part_options(), not compute) for block in items.to_delayed().ravel()]
    done: Delayed = delayed(_finish, pure=False)(run, _tree(parts))
    if not compute:
        return done
    os.mkdir(stage)
    try:
        _dask.compute(done)
    finally:
        _remove(stage)
    return Array(target, "r")


def _remove(stage: str) -> None:
    """Removes a folder into which other threads may still be writing: again, if they were quicker."""
    for _ in range(20):
        shutil.rmtree(stage, ignore_errors=True)
        if not os.path.lexists(stage):
            return
        time.sleep(0.05)


def clean(path: Path) -> list[str]:
    """Removes what a killed :func:`to_b2kit` left beside an array; nobody may write it meanwhile. Answers the names."""
    target = os.path.abspath(os.fspath(path))
    found = glob.glob(f"{glob.escape(target)}{_STAGE}*")
    for stage in found:
        shutil.rmtree(stage, ignore_errors=True)
    return found


class _Run:
    """What the last task must know."""

    def __init__(
        self,
        target: str,
        stage: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunks: tuple[tuple[int, ...], ...],
        options: dict[str, Any],
        overwrite: bool,
        sync: bool,
        sparse: bool,
    ) -> None:
        self.target, self.stage = target, stage
        self.shape, self.dtype = shape, dtype
        self.starts = [[sum(lengths[:n]) for n in range(len(lengths))] for lengths in chunks]
        self.options = options
        self.overwrite, self.sync, self.sparse = overwrite, sync, sparse

    def part_options(self) -> dict[str, Any]:
        """How parts are compressed."""
        names = ("codec", "level", "filters", "splitmode", "use_dict", "chunks", "blocks")
        return {**{name: self.options[name] for name in names}, "sync": False, "threads": 1}


def _chunk_shape(x: da.Array, chunks: Any) -> list[int]:
    if chunks is None:
        return [max(1, max(lengths, default=1)) for lengths in x.chunks]
    shape = as_shape(chunks)
    if len(shape) != x.ndim or any(length < 1 for length in shape):
        raise ArgumentError(f"chunks {tuple(shape)} for an array of shape {x.shape}")
    return shape


def _aligned(x: Any, shape: list[int], rechunk: bool) -> Any:
    """The array in partitions that consist of whole chunks."""
    wanted = []
    for length, lengths, step in zip(x.shape, x.chunks, shape):
        starts = [sum(lengths[:n]) for n in range(len(lengths))]
        if all(start % step == 0 for start in starts) and 0 not in lengths[1:]:
            wanted.append(lengths)
            continue
        # About as many chunks in a partition as there were.
        many = max(1, max(lengths) // step) * step
        wanted.append(tuple(min(many, length - start) for start in range(0, length, many)) or (0,))
    if tuple(wanted) == x.chunks:
        return x
    if not rechunk:
        raise ArgumentError(f"partitions {x.chunks} do not begin on the borders of chunks of {tuple(shape)}")
    return x.rechunk(tuple(wanted))


def _tree(parts: list[Any], width: int = 200) -> Any:
    """Names of parts joined some at a time, so that no task has very many inputs."""
    listed, joined = delayed(_listed, pure=False), delayed(_joined, pure=False)
    lists: list[Any] = [listed(*parts[start : start + width]) for start in range(0, len(parts), width)]
    while len(lists) > 1:
        lists = [joined(*lists[start : start + width]) for start in range(0, len(lists), width)]
    return lists[0]


def _listed(*names: str) -> list[str]:
    return list(names)


def _joined(*lists: list[str]) -> list[str]:
    return [name for names in lists for name in names]


def _write_part(block: Any, stage: str, options: dict[str, Any], make: bool) -> str:
    """Compresses a partition into a file of its own; answers its name."""
    name = f"{uuid.uuid4().hex}.b2nd"
    if make:
        os.makedirs(stage, exist_ok=True)
    asarray(np.asarray(block), os.path.join(stage, name), **options)
    return name


def _finish(run: _Run, names: list[str]) -> str:
    """Puts the parts together. May run again after it was done: its worker may be lost before its answer is."""
    if not os.path.isdir(run.stage) and os.path.lexists(run.target):
        return run.target
    paths = [os.path.join(run.stage, name) for name in names]
    made = os.path.join(run.stage, f"{uuid.uuid4().hex}.whole.b2nd")
    options = _options({**run.options, "path": made, "sync": run.sync, "sparse": run.sparse})
    _b2kit.write_parts(list(run.shape), run.dtype, run.starts, paths, {**options, "progress": None})
    if run.overwrite and os.path.isdir(run.target):
        os.rename(run.target, os.path.join(run.stage, f"{uuid.uuid4().hex}.old"))
    _publish(made, run)
    if run.sync:
        _sync_folder(os.path.dirname(run.target))
    shutil.rmtree(run.stage, ignore_errors=True)
    return run.target


def _sync_folder(folder: str) -> None:
    """Waits until names in a folder survive a power loss, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _publish(made: str, run: _Run) -> None:
    """Gives the array its name."""
    if run.overwrite or run.sparse:
        if not run.overwrite and os.path.lexists(run.target):
            raise ExistsError(f"{run.target}: there is something of that name already")
        os.rename(made, run.target)
        return
    try:
        # Fails if somebody else was quicker; a rename would replace theirs.
        os.link(made, run.target)
    except FileExistsError:
        if os.path.samefile(made, run.target):
            return
        raise ExistsError(f"{run.target}: there is something of that name already") from None
    except OSError:
        os.rename(made, run.target)

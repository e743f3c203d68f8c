"""Dask: arrays read by many workers, and written by many workers as one array.

    >>> import dask.array as da, numpy as np, tempfile
    >>> from b2kit.dask import from_b2kit, to_b2kit
    >>> path = tempfile.mkdtemp() + "/a.b2nd"
    >>> a = to_b2kit(da.arange(1_000_000, chunks=100_000).reshape(1000, 1000), path)
    >>> a.shape, a.chunks
    ((1000, 1000), (100, 1000))
    >>> int(from_b2kit(a).sum().compute())
    499999500000

Workers reopen an array by its path, so they may be other processes, or machines that share the files. See
``docs/how-to/dask.md``.
"""

from __future__ import annotations

import glob
import math
import os
import shutil
import time
import uuid
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

import dask
import dask.array as da
from b2kit import _b2kit
from b2kit._array import Array, as_shape, sync_folder
from b2kit._cast import cast
from b2kit._create import _DEFAULTS, _options, asarray
from b2kit.store import open as open_any
from b2kit.errors import ArgumentError, ExistsError, UnsupportedError, WrongTypeError
from dask.base import tokenize
from dask.delayed import Delayed, delayed

__all__ = ["clean", "from_b2kit", "to_b2kit"]

Path = Union[str, "os.PathLike[str]"]

# Most Dask functions have no type annotations.
_dask: Any = dask
_da: Any = da

# Suffix of the directory next to the array that holds the parts written by workers.
_STAGE = ".parts-"
# Options of `asarray` that are parameters of `to_b2kit` or that it sets itself.
_NOT_HERE = ("path", "chunks", "attrs", "meta", "overwrite", "sync", "sparse", "threads", "progress")


def from_b2kit(a: Array | Path, chunks: Any = None, *, threads: int | None = 1) -> da.Array:
    """Creates a Dask array from an array of this package, or from one at a path.

    Workers receive the path; an array in memory is sent to them.

    Parameters
    ----------
    a : Array or str or PathLike
        The array.
    chunks : int or tuple or str, optional
        The partitions, by default the chunks of the array. Other shapes should be multiples of them, as ``"auto"`` chooses.
    threads : int, optional
        Number of threads of each task; one by default, because Dask already runs many tasks at the same time.

    Returns
    -------
    dask.array.Array
        A lazy array.

    Raises
    ------
    b2kit.errors.ArgumentError
        The path is that of a store.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> from b2kit.dask import from_b2kit
    >>> a = b2kit.asarray(np.arange(10), chunks=4)
    >>> from_b2kit(a).chunks, int(from_b2kit(a).sum().compute())
    (((4, 4, 2),), 45)
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
    """Writes a Dask array with all Dask workers.

    Each worker compresses its partitions into separate files next to the array. Their names are unique, so a task that runs
    twice does no harm. Finally one task copies the compressed chunks into the array, which appears under its name when it is
    complete. The files of the workers are removed, even after an error.

    Parameters
    ----------
    x : dask.array.Array
        The array to write.
    path : str or PathLike
        The new file. It must refer to the same location on all workers.
    chunks : int or tuple of int, optional
        Shape of the chunks, by default that of the largest partition.
    rechunk : bool
        Rechunk the array if its partitions do not start at chunk boundaries, which moves data between workers. Otherwise
        such partitions are an error.
    attrs, meta, overwrite, sync, sparse
        As of :func:`b2kit.asarray`.
    compute : bool
        Write now. Otherwise nothing is written until the result is computed.
    **options
        Other options of :func:`b2kit.asarray`, such as ``codec``, ``level`` and ``filters``.

    Returns
    -------
    Array or dask.delayed.Delayed
        The new array, open for reading; with ``compute=False`` a task.

    Raises
    ------
    b2kit.errors.ExistsError
        There is a file under this name, and `overwrite` is false.
    b2kit.errors.ArgumentError
        The shape is not known, or partitions do not start at chunk boundaries and `rechunk` is false.
    b2kit.errors.WrongTypeError
        `x` is not a Dask array, or its items cannot be stored.
    b2kit.errors.UnsupportedError
        `path` is a URL.

    Examples
    --------
    >>> import dask.array as da, tempfile
    >>> from b2kit.dask import to_b2kit
    >>> a = to_b2kit(da.arange(10, chunks=4), tempfile.mkdtemp() + "/a.b2nd", codec="lz4")
    >>> a.chunks, a[7:].tolist()
    ((4,), [7, 8, 9])
    """
    if wrong := set(options).intersection(_NOT_HERE):
        raise WrongTypeError(f"unexpected keyword arguments: {', '.join(sorted(wrong))}")
    settings = {"attrs": attrs, "meta": meta, "sync": sync, "sparse": sparse, **options}
    stage, done = planned(x, path, settings, chunks=chunks, rechunk=rechunk, overwrite=overwrite, make=not compute)
    if not compute:
        return done
    compute_all([stage], [done])
    return Array(os.path.abspath(os.fspath(path)), "r")


def compute_all(stages: list[str], tasks: list[Delayed]) -> None:
    """Computes the tasks of several arrays together, so that shared tasks run once."""
    for stage in stages:
        os.mkdir(stage)
    try:
        _dask.compute(*tasks)
    finally:
        for stage in stages:
            _remove(stage)


def planned(
    x: Any,
    path: Path,
    options: dict[str, Any],
    *,
    chunks: Any,
    rechunk: bool,
    overwrite: bool,
    make: bool,
    optimize: bool = True,
) -> tuple[str, Delayed]:
    """Returns the directory for the parts of an array, and the task that writes it.

    With ``make`` the tasks create the directory. ``optimize`` optimizes the graph of the array by itself,
    which copies the tasks that it shares with other arrays.
    """
    target = os.path.abspath(os.fspath(path))
    if "://" in os.fspath(path):
        raise UnsupportedError(f"{path}: arrays are written to files")
    if not isinstance(x, da.Array):
        raise WrongTypeError(f"{type(x)} is not a Dask array: use b2kit.asarray")
    if x.dtype.hasobject:
        raise WrongTypeError(f"items of dtype {x.dtype} cannot be stored")
    if any(math.isnan(length) for length in x.shape):
        raise ArgumentError("the shape is not known: call compute_chunk_sizes() first")
    if os.path.lexists(target):
        if not overwrite:
            raise ExistsError(f"{path}: already exists")
        _b2kit.check_replacement(target)
    shape = _chunk_shape(x, chunks)
    items: Any = _aligned(x, shape, rechunk)
    settings = {**_DEFAULTS, **options, "chunks": shape}
    dtype = np.dtype(items.dtype if settings.get("dtype") is None else settings["dtype"])
    if settings["blocks"] is not None:
        settings["blocks"] = as_shape(settings["blocks"])
    elif items.size:
        # Chosen for the whole array, so that all parts have the same blocks.
        like = {**_options({**settings, "path": None}), "progress": None}
        settings["blocks"] = list(Array(_b2kit.write_constant(list(items.shape), dtype, None, like)).blocks)
    stage = f"{target}{_STAGE}{uuid.uuid4().hex}"
    starts = [_starts(lengths) for lengths in items.chunks]
    run = _Run(target, stage, items.shape, dtype, starts, settings, overwrite)
    write = delayed(_write_part, pure=False)
    # If this call made the directory, tasks that still run after a failure must not create it again.
    blocks = items.to_delayed(optimize_graph=optimize)
    parts = [write(block, stage, dtype, run.part_options(), make) for block in blocks.ravel()]
    done: Delayed = delayed(_finish, pure=False)(run, _tree(parts))
    return stage, done


def _remove(stage: str) -> None:
    """Removes a directory that other threads may still be writing to; retries if they add files in the meantime."""
    for _ in range(20):
        shutil.rmtree(stage, ignore_errors=True)
        if not os.path.lexists(stage):
            return
        time.sleep(0.05)


def clean(path: Path) -> list[str]:
    """Removes the files that a killed :func:`to_b2kit` left next to an array.

    The array must not be written during the call.

    Parameters
    ----------
    path : str or PathLike
        The path of the array.

    Returns
    -------
    list of str
        The names that were removed.

    Examples
    --------
    >>> from b2kit.dask import clean
    >>> clean("there/is/no/array.b2nd")
    []
    """
    target = os.path.abspath(os.fspath(path))
    found = glob.glob(f"{glob.escape(target)}{_STAGE}*")
    for stage in found:
        shutil.rmtree(stage, ignore_errors=True)
    return found


@dataclass(frozen=True)
class _Run:
    """The information that the last task needs."""

    target: str
    stage: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    starts: list[list[int]]
    options: dict[str, Any]
    overwrite: bool

    def part_options(self) -> dict[str, Any]:
        """Returns the options for writing a part."""
        names = ("codec", "level", "filters", "splitmode", "use_dict", "chunks", "blocks")
        return {**{name: self.options[name] for name in names}, "sync": False, "threads": 1}


def _starts(lengths: tuple[int, ...]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths))]


def _chunk_shape(x: da.Array, chunks: Any) -> list[int]:
    if chunks is None:
        # Along a dimension without items, which may grow, the length is chosen as for any array.
        return [max(lengths, default=1) for lengths in x.chunks]
    shape = as_shape(chunks)
    if len(shape) != x.ndim or any(length < 1 for length in shape):
        raise ArgumentError(f"chunks {tuple(shape)} for an array of shape {x.shape}")
    return shape


def _aligned(x: Any, shape: list[int], rechunk: bool) -> Any:
    """Returns the array in partitions that consist of whole chunks."""
    wanted = []
    for length, lengths, step in zip(x.shape, x.chunks, shape):
        if not length or all(start % step == 0 for start in _starts(lengths)) and 0 not in lengths[1:]:
            wanted.append(lengths)
            continue
        # Keeps the size of partitions about the same.
        many = max(1, max(lengths) // step) * step
        wanted.append(tuple(min(many, length - start) for start in range(0, length, many)) or (0,))
    if tuple(wanted) == x.chunks:
        return x
    if not rechunk:
        raise ArgumentError(f"partitions {x.chunks} do not begin on the borders of chunks of {tuple(shape)}")
    return x.rechunk(tuple(wanted))


def _tree(parts: list[Any], width: int = 200) -> Any:
    """Joins the names of parts in several steps, so that no task has very many inputs."""
    listed, joined = delayed(_listed, pure=False), delayed(_joined, pure=False)
    lists: list[Any] = [listed(*parts[start : start + width]) for start in range(0, len(parts), width)]
    while len(lists) > 1:
        lists = [joined(*lists[start : start + width]) for start in range(0, len(lists), width)]
    return lists[0]


def _listed(*names: str) -> list[str]:
    return list(names)


def _joined(*lists: list[str]) -> list[str]:
    return [name for names in lists for name in names]


def _write_part(block: Any, stage: str, dtype: np.dtype[Any], options: dict[str, Any], make: bool) -> str:
    """Compresses a partition into a separate file and returns its name. Its type can differ from the one that Dask knows."""
    name = f"{uuid.uuid4().hex}.b2nd"
    if make:
        os.makedirs(stage, exist_ok=True)
    asarray(cast(block, dtype), os.path.join(stage, name), **options)
    return name


def _finish(run: _Run, names: list[str]) -> str:
    """Assembles the parts. May run again after it is done, if its worker is lost before the result is delivered."""
    if not os.path.isdir(run.stage) and os.path.lexists(run.target):
        return run.target
    paths = [os.path.join(run.stage, name) for name in names]
    made = os.path.join(run.stage, f"{uuid.uuid4().hex}.whole.b2nd")
    options = _options({**run.options, "path": made})
    _b2kit.write_parts(list(run.shape), run.dtype, run.starts, paths, {**options, "progress": None})
    if run.overwrite and os.path.isdir(run.target):
        os.rename(run.target, os.path.join(run.stage, f"{uuid.uuid4().hex}.old"))
    _publish(made, run)
    if run.options["sync"]:
        sync_folder(os.path.dirname(run.target))
    shutil.rmtree(run.stage, ignore_errors=True)
    return run.target


def _publish(made: str, run: _Run) -> None:
    """Moves the finished array to its final name."""
    if run.overwrite or run.options["sparse"]:
        if not run.overwrite and os.path.lexists(run.target):
            raise ExistsError(f"{run.target}: already exists")
        if os.path.isfile(run.target) and os.path.isfile(made):
            _b2kit.copy_attributes(run.target, made)
        os.rename(made, run.target)
        return
    try:
        # Linking fails if the name was taken in the meantime, whereas a rename would replace that file.
        os.link(made, run.target)
    except FileExistsError:
        if os.path.samefile(made, run.target):
            return
        raise ExistsError(f"{run.target}: already exists") from None
    except OSError:
        os.rename(made, run.target)

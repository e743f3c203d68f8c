"""The types of options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from b2kit._progress import Progress

if TYPE_CHECKING:
    import numpy.typing as npt

Path = Union[str, "os.PathLike[str]"]
Filter = Union[str, tuple[str, int]]
Shape = Union[int, Sequence[int]]


class Options(TypedDict, total=False):
    """The options for a new array; see :func:`b2kit.asarray`."""

    codec: str
    level: int
    filters: Iterable[Filter]
    chunks: Shape | None
    blocks: Shape | None
    attrs: Mapping[str, Any] | None
    overwrite: bool
    sync: bool
    meta: Mapping[str, Any] | None
    splitmode: Literal["auto", "always", "never"] | None
    use_dict: bool
    sparse: bool
    threads: int | None
    progress: Progress


class CopyOptions(Options, total=False):
    """The options for a copy; see :func:`b2kit.asarray`."""

    dtype: npt.DTypeLike | None

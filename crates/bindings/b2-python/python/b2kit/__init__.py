"""Compressed arrays for NumPy users: Blosc2 files, read and written in Rust.

    >>> import b2kit, numpy as np
    >>> a = b2kit.asarray(np.arange(1_000_000).reshape(1000, 1000))
    >>> a[10, :3]
    array([10000, 10001, 10002])
    >>> a.ratio > 10
    True
"""

from typing import TYPE_CHECKING

from b2kit._b2kit import __version__

if TYPE_CHECKING:
    from b2kit._array import Array, Edit
    from b2kit._create import *
    from b2kit.attrs import Attrs
    from b2kit.errors import Error
    from b2kit.store import Group, SuperChunk, copy, open, open_array, open_group, verify

# Type checkers do not follow a list that is assembled from others, so it is spelled out here.
__all__ = [
    "Array",
    "Attrs",
    "Edit",
    "Error",
    "Group",
    "SuperChunk",
    "__version__",
    "asarray",
    "compress",
    "concat",
    "copy",
    "decompress",
    "empty",
    "from_iter",
    "full",
    "open",
    "open_array",
    "open_group",
    "set_other_hosts",
    "set_threads",
    "set_timeout",
    "verify",
    "zeros",
]

if not TYPE_CHECKING:
    # The command imports this module, and must start without NumPy.
    def __getattr__(name: str) -> object:
        """Import modules and functions on first use."""
        from importlib import import_module

        homes = {"Array": "_array", "Edit": "_array", "Attrs": "attrs", "Error": "errors"}
        homes |= dict.fromkeys(("Group", "SuperChunk", "copy", "open", "open_array", "open_group", "verify"), "store")
        if name in ("attrs", "errors", "store"):
            return import_module(f"b2kit.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'b2kit' has no attribute {name!r}")
        found = getattr(import_module(f"b2kit.{homes.get(name, '_create')}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "attrs", "errors", "store"})

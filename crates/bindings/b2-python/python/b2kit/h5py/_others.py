"""Integration of this HDF5 reader into other packages."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from b2kit.errors import UnsupportedError

__all__ = ["use_in_anndata", "use_in_h5netcdf"]

# The version of pyfive whose interface this package reports to h5netcdf.
_LIKE = "1.3.0"


def use_in_h5netcdf() -> None:
    """Let h5netcdf, and with it xarray's engine ``"h5netcdf"``, read files with this package.

    It replaces h5netcdf's backend ``"pyfive"`` in this process: ``h5netcdf.File(path, backend="pyfive")``,
    ``xarray.open_dataset(path, engine="h5netcdf", driver_kwds={"backend": "pyfive"})``, or for all files that are opened for
    reading the environment variable ``H5NETCDF_READ_BACKEND=pyfive``. pyfive itself is not needed.

    Raises
    ------
    ImportError
        h5netcdf is not installed.
    UnsupportedError
        h5netcdf is older than 1.8 and has no backends.
    """
    core: Any = importlib.import_module("h5netcdf.core")
    if not hasattr(core, "_open_pyfive"):
        raise UnsupportedError("h5netcdf is older than 1.8, and has no place for another reader")
    ours: Any = sys.modules["b2kit.h5py"]
    # h5netcdf knows its backends by the names of their modules.
    reader = types.ModuleType("pyfive", ours.__doc__)
    vars(reader).update({name: getattr(ours, name) for name in ours.__all__}, __version__=_LIKE)
    core.pyfive, core.no_pyfive = reader, False

    def open_file(path: Any, mode: str, **options: Any) -> Any:
        return ours.File(path, mode, **{**options, "decode_strings": "all"})

    def named_class(kind: Any, before: Any = core._get_h5usertype_identifier) -> Any:
        return kind.id.get_class() if isinstance(kind, ours.Datatype) else before(kind)

    def data_class(data: Any, before: Any = core._get_h5dstype_identifier) -> Any:
        return data.id.get_type().get_class() if isinstance(data, ours.Dataset) else before(data)

    core._open_pyfive, core._get_h5usertype_identifier, core._get_h5dstype_identifier = open_file, named_class, data_class


def use_in_anndata() -> None:
    """Let anndata read files that this package has opened, in this process.

    ``anndata.io.read_elem(b2kit.h5py.File("x.h5ad"))`` then reads a whole file as ``anndata.read_h5ad("x.h5ad")`` does, which opens
    files with h5py only. Single elements are read in the same way (``read_elem(file["obs"])``), and ``anndata.io.sparse_dataset(file["X"])``
    reads rows of a sparse matrix as they are needed.

    Raises
    ------
    ImportError
        anndata is not installed.
    UnsupportedError
        anndata has no registry of readers.
    """
    registry: Any = importlib.import_module("anndata._io.specs.registry")
    theirs: Any = importlib.import_module("h5py")
    ours: Any = sys.modules["b2kit.h5py"]
    if not hasattr(getattr(registry, "_REGISTRY", None), "read"):
        raise UnsupportedError("this version of anndata has no list of readers to which another can be added")
    classes = {getattr(theirs, name): getattr(ours, name) for name in ("File", "Group", "Dataset")}
    for readers in (registry._REGISTRY.read, registry._REGISTRY.read_partial):
        for (kind, *rest), reader in list(readers.items()):
            if kind in classes:
                readers[(classes[kind], *rest)] = reader

"""HDF5 files with h5py's interface, read by several threads without HDF5's lock.

    >>> import h5py, numpy as np
    >>> import b2kit.h5py
    >>> with h5py.File("field.h5", "w") as file:
    ...     data = file.create_dataset("group/t", data=np.arange(12).reshape(3, 4), chunks=(2, 2), compression="gzip")
    >>> file = b2kit.h5py.File("field.h5")
    >>> file["group/t"]
    <HDF5 dataset "t": shape (3, 4), type "<i8">
    >>> file["group/t"][1:, [0, 3]]
    array([[ 4,  7],
           [ 8, 11]])

Programs that only read can use it in place of h5py: ``import b2kit.h5py as h5py``. Everything that writes raises
:class:`b2kit.errors.ReadOnlyError`.
"""

from b2kit import _b2kit
from b2kit.h5py import h5d, h5ds, h5t
from b2kit.h5py._dataset import Dataset, StoreInfo
from b2kit.h5py._files import ExternalLink, File, Group, HardLink, SoftLink, is_hdf5
from b2kit.h5py._objects import AttributeManager, Datatype, HLObject
from b2kit.h5py._others import use_in_anndata, use_in_h5netcdf
from b2kit.h5py._select import MultiBlockSlice
from b2kit.h5py._types import (
    AttributeReference,
    Empty,
    Reference,
    RegionReference,
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    enum_dtype,
    opaque_dtype,
    ref_dtype,
    regionref_dtype,
    special_dtype,
    string_dtype,
    vlen_dtype,
)

__all__ = [
    "UNLIMITED",
    "AttributeManager",
    "AttributeReference",
    "Dataset",
    "Datatype",
    "Empty",
    "ExternalLink",
    "File",
    "Group",
    "HLObject",
    "HardLink",
    "MultiBlockSlice",
    "Reference",
    "RegionReference",
    "SoftLink",
    "StoreInfo",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "enum_dtype",
    "h5d",
    "h5ds",
    "h5t",
    "is_hdf5",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "use_in_anndata",
    "use_in_h5netcdf",
    "vlen_dtype",
]

UNLIMITED = 2**64 - 1
"""An unlimited dimension, in lists of numbers."""

__version__ = _b2kit.__version__

"""The functions of h5py's module ``h5ds`` that only read."""

from __future__ import annotations

from b2kit.h5py._dataset import DatasetID

__all__ = ["is_scale"]


def is_scale(dset: DatasetID) -> bool:
    """Return whether a data set is a dimension scale."""
    return dset._dataset.is_scale

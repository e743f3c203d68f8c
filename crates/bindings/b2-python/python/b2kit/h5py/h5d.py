"""Data sets at the level of chunks, as in h5py's module ``h5d``."""

from __future__ import annotations

from b2kit.h5py._dataset import DatasetID, StoreInfo

__all__ = ["DatasetID", "StoreInfo"]

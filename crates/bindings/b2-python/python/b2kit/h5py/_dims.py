"""Labels and scales of the dimensions of data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from b2kit.h5py._objects import refuse

if TYPE_CHECKING:
    from b2kit.h5py._dataset import Dataset

__all__ = ["DimensionManager", "DimensionProxy"]


def _name(scale: Dataset) -> str:
    """Returns the name stored in a scale, which may be empty."""
    name = scale.attrs.get("NAME", b"")
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)


class DimensionProxy:
    """A dimension of a data set: a mapping from the names or numbers of its scales to data sets."""

    def __init__(self, dataset: Dataset, dimension: int) -> None:
        self._dataset, self._dimension = dataset, dimension

    @property
    def label(self) -> str:
        """The label; empty if there is none."""
        labels = self._dataset.attrs.get("DIMENSION_LABELS", ())
        label = labels[self._dimension] if self._dimension < len(labels) else ""
        return label.decode("utf-8", "surrogateescape") if isinstance(label, bytes) else str(label)

    @property
    def _scales(self) -> list[Dataset]:
        found = self._dataset.attrs.get("DIMENSION_LIST", ())
        references = found[self._dimension] if self._dimension < len(found) else ()
        return [self._dataset.file[reference] for reference in references]

    def keys(self) -> list[str]:
        """Return the names of the scales."""
        return [_name(scale) for scale in self._scales]

    def values(self) -> list[Dataset]:
        """Return the scales."""
        return self._scales

    def items(self) -> list[tuple[str, Dataset]]:
        """Return names and scales."""
        return [(_name(scale), scale) for scale in self._scales]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._scales)

    def __getitem__(self, item: int | str) -> Dataset:
        scales = self._scales
        if isinstance(item, int):
            return scales[item]
        for scale in scales:
            if _name(scale) == item:
                return scale
        raise KeyError(item)

    def __repr__(self) -> str:
        label = f'"{self.label}" ' if self.label else ""
        return f"<{label}dimension {self._dimension} of HDF5 dataset at {id(self._dataset)}>"

    attach_scale = detach_scale = refuse


class DimensionManager:
    """The dimensions of a data set."""

    def __init__(self, parent: Dataset) -> None:
        self._parent = parent

    def __getitem__(self, index: int) -> DimensionProxy:
        if not 0 <= index < len(self):
            raise IndexError("Index out of range")
        return DimensionProxy(self._parent, index)

    def __len__(self) -> int:
        return self._parent.ndim

    def __iter__(self) -> Iterator[DimensionProxy]:
        return (self[n] for n in range(len(self)))

    def __repr__(self) -> str:
        return f"<Dimensions of HDF5 object at {id(self._parent)}>"

    create_scale: Any = refuse

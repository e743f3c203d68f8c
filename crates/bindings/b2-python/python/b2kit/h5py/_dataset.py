"""Data sets."""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from b2kit.errors import IoError
from b2kit.h5py import _elsewhere, h5t
from b2kit.h5py._dims import DimensionManager
from b2kit.h5py._objects import HLObject, ObjectID, refuse
from b2kit.h5py._select import Box, Points, parse_region, select
from b2kit.h5py._types import Empty, Heap, ItemType, RegionReference, check_string_dtype, converted, flat

__all__ = ["Dataset", "DatasetID", "StoreInfo"]

_GZIP, _SHUFFLE, _FLETCHER32, _SZIP, _NBIT, _SCALE_OFFSET, _LZF = 1, 2, 3, 4, 5, 6, 32000


class StoreInfo(NamedTuple):
    """A stored chunk: its first item, the filters that were not applied (one bit each), its position in the file, and its size
    in bytes."""

    chunk_offset: tuple[int, ...]
    filter_mask: int
    byte_offset: int | None
    size: int


class DatasetID(ObjectID):
    """A data set at the level of chunks, as h5py's ``dataset.id``."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset._opened, dataset._address)
        self._dataset = dataset

    @property
    def shape(self) -> Any:
        """The shape; None if there is none (a null dataspace)."""
        return self._dataset.shape

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self._dataset.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the items."""
        return self._dataset.dtype

    def get_type(self) -> h5t.TypeID:
        """Return the type of the items, as stored in the file."""
        dataset = self._dataset
        named = dataset._opened.objects.type_address(dataset._address, dataset._shown)
        return h5t.type_id(dataset._kind, named)

    @cached_property
    def _chunks(self) -> list[StoreInfo]:
        if self._dataset.chunks is None:
            raise RuntimeError(f"{self._dataset._shown} is not a chunked dataset")
        found = self._dataset._data.stored_chunks()
        return [StoreInfo(tuple(offset), mask, position, size) for offset, position, size, mask in found]

    @cached_property
    def _by_offset(self) -> dict[tuple[int, ...], StoreInfo]:
        return {chunk.chunk_offset: chunk for chunk in self._chunks}

    def get_num_chunks(self) -> int:
        """Return the number of stored chunks.

        Raises
        ------
        RuntimeError
            There are no chunks.
        """
        return len(self._chunks)

    def get_chunk_info(self, index: int) -> StoreInfo:
        """Return the metadata of a stored chunk, counted in the order of the grid.

        Raises
        ------
        ValueError
            There is no such chunk.
        OverflowError
            The number is negative.
        RuntimeError
            There are no chunks.
        """
        if index < 0:
            raise OverflowError(f"chunk {index}: a number is not negative")
        if index >= len(self._chunks):
            raise ValueError(f"Chunk index is out of range: {index} of {len(self._chunks)}")
        return self._chunks[index]

    def get_chunk_info_by_coord(self, chunk_offset: tuple[int, ...]) -> StoreInfo:
        """Return the metadata of the chunk that contains an item, with the position of the item; without size and offset if it was never written.

        Raises
        ------
        ValueError
            The position has another number of dimensions.
        OverflowError
            A number is negative.
        RuntimeError
            There are no chunks.
        """
        item = tuple(chunk_offset)
        if len(item) != self.rank or not item:
            raise ValueError(f"{item} has another number of dimensions than the dataset, {self.rank}")
        if min(item) < 0:
            raise OverflowError(f"{item}: numbers are not negative")
        by_offset = self._by_offset
        at = tuple(n // length * length for n, length in zip(item, self._dataset.chunks or ()))
        return by_offset.get(at, StoreInfo(item, 0, None, 0))._replace(chunk_offset=item)

    def chunk_iter(self, func: Any) -> Any:
        """Call a function with each stored chunk until it returns something other than None, which is returned.

        Raises
        ------
        RuntimeError
            There are no chunks.
        """
        for chunk in self._chunks:
            found = func(chunk)
            if found is not None:
                return found
        return None

    def read_direct_chunk(self, offsets: tuple[int, ...], out: Any = None) -> tuple[int, Any]:
        """Return the filters that were not applied to a chunk, and its bytes as they are stored.

        Parameters
        ----------
        offsets
            The first item of the chunk.
        out
            A buffer for the bytes; the part that was written is returned.

        Raises
        ------
        OSError
            The item is inside a chunk, not at its start.
        RuntimeError
            The chunk was never written, or there are no chunks.
        TypeError
            The position has another number of dimensions.
        ValueError
            ``out`` is too small, or there are no dimensions.
        """
        if len(offsets) != self.rank:
            raise TypeError(f"offsets length ({len(offsets)}) must match dataset rank ({self.rank})")
        if not offsets:
            raise ValueError("a dataset without dimensions has no chunks")
        offset = tuple(offsets)
        chunk = self._by_offset.get(offset)
        if chunk is None and self.get_chunk_info_by_coord(offset).byte_offset is not None:
            raise IoError(f"{self._dataset._shown}: {offset} is inside of a chunk, not where it begins")
        if chunk is None or chunk.byte_offset is None:
            raise RuntimeError(f"{self._dataset._shown}: no stored chunk begins at {offset}")
        data = self._opened.objects.read(chunk.byte_offset, chunk.size, self._dataset._shown)
        if out is None:
            return chunk.filter_mask, data
        view = memoryview(out).cast("B")
        if len(view) < len(data):
            raise ValueError(f"a buffer of {len(view)} bytes for a chunk of {len(data)}")
        view[: len(data)] = data
        return chunk.filter_mask, view[: len(data)]

    def get_storage_size(self) -> int:
        """Return the size of the stored items, in bytes."""
        dataset, layout = self._dataset, self._dataset._description["layout"]
        if dataset.shape is None or layout == "virtual":
            return 0
        return int(dataset.size * dataset._kind.stored.itemsize if layout == "external" else dataset._data.cbytes)

    def get_offset(self) -> int | None:
        """Return the position of the items in the file if they are contiguous, otherwise None."""
        position: int | None = self._dataset._description.get("position")
        return position


class Dataset(HLObject):
    """A data set: an array in a file, of which any part can be read by indexing.

    Indexes are those of h5py: integers, slices with positive steps, one ``...``, a list or a mask along one dimension, a mask
    for all dimensions, and names of fields. Chunks are decoded by several threads, without the interpreter's lock.
    """

    @cached_property
    def id(self) -> DatasetID:
        """The data set at the level of chunks."""
        return DatasetID(self)

    @cached_property
    def _description(self) -> dict[str, Any]:
        return self._opened.objects.description(self._address, self._shown)

    @cached_property
    def _kind(self) -> ItemType:
        return self._opened.type(self._description["type"])

    @cached_property
    def _data(self) -> Any:
        return self._opened.objects.data_set(self._address, self._shown)

    @cached_property
    def _plain(self) -> np.dtype[Any] | None:
        """The dtype of the items if their bytes are stored in this file as they are; otherwise None."""
        kind, is_elsewhere = self._kind, self._description["layout"] in ("virtual", "external")
        return kind.dtype if kind.is_plain() and kind.stored.subdtype is None and not is_elsewhere else None

    @property
    def _heap(self) -> Heap:
        return Heap(self._opened.objects, self._shown, bool(self._opened.decode_strings))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the items, with h5py's metadata.

        Raises
        ------
        TypeError
            NumPy has no such type.
        """
        return self._kind.dtype

    @cached_property
    def shape(self) -> Any:
        """The length of each dimension, in items; None if there are no items (a null dataspace).

        A virtual data set has the shape that the file states.
        """
        shape = self._description["shape"]
        if self._description["layout"] == "virtual" and shape is not None:
            return _elsewhere.virtual_shape(self, shape)
        return shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._description["shape"] or ())

    @property
    def size(self) -> Any:
        """The number of items; None if there are none (a null dataspace)."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all items in memory."""
        return self.dtype.itemsize * (self.size or 0)

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """The maximum length of each dimension in the file; None for unlimited."""
        found: tuple[int | None, ...] = self._description["maxshape"]
        return None if self._description["shape"] is None else found

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The shape of the chunks; None if there are none."""
        return self._description.get("chunks")

    @property
    def _filters(self) -> dict[int, list[int]]:
        return dict(self._description["filters"])

    @property
    def filter_ids(self) -> tuple[int, ...]:
        """The numbers of the filters, in the order in which they were applied."""
        return tuple(self._filters)

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters as the file has them, in the order in which they were applied."""
        return tuple(self._description["filter_names"])

    @property
    def compression(self) -> str | None:
        """``"gzip"``, ``"lzf"``, ``"szip"``, ``"unknown"`` for others, or None."""
        found = self._filters
        named = {_GZIP: "gzip", _LZF: "lzf", _SZIP: "szip"}
        known = next((name for number, name in named.items() if number in found), None)
        others = set(found) - {_SHUFFLE, _FLETCHER32, _SCALE_OFFSET, *named}
        return known or ("unknown" if others else None)

    @property
    def compression_opts(self) -> Any:
        """The level of gzip; the coding and the size of a block of szip; otherwise None."""
        found = self._filters
        if _GZIP in found:
            return found[_GZIP][0] if found[_GZIP] else None
        if _SZIP in found and _LZF not in found and len(found[_SZIP]) > 1:
            options, pixels = found[_SZIP][:2]
            return ("ec" if options & 4 else "nn" if options & 32 else None, pixels)
        return None

    @property
    def shuffle(self) -> bool:
        """Whether the bytes of the items are shuffled."""
        return _SHUFFLE in self._filters

    @property
    def fletcher32(self) -> bool:
        """Whether the chunks have checksums, which are compared."""
        return _FLETCHER32 in self._filters

    @property
    def scaleoffset(self) -> int | None:
        """The factor of the scale-offset filter: bits of integers, or digits of floats; None without it."""
        found = self._filters.get(_SCALE_OFFSET)
        return found[1] if found is not None and len(found) > 1 else None

    @property
    def external(self) -> list[tuple[str, int, int]] | None:
        """The files that hold the items, with their offset and size in bytes; None if the items are in this file."""
        parts = self._description.get("external")
        if not parts:
            return None
        return [(name, offset, 2**64 - 1 if size is None else size) for name, offset, size in parts]

    @property
    def is_virtual(self) -> bool:
        """Whether the items are in other data sets."""
        return bool(self._description["layout"] == "virtual")

    def virtual_sources(self) -> list[_elsewhere.VDSmap]:
        """Return the locations of the items of a virtual data set.

        Raises
        ------
        RuntimeError
            It is not virtual.
        """
        if not self.is_virtual:
            raise RuntimeError("Not a virtual dataset")
        return _elsewhere.mappings(self)

    @property
    def fillvalue(self) -> Any:
        """The value of items that were never written."""
        fill = self._description["fill"]
        if fill is None or len(fill) != self._kind.stored.itemsize:
            if self.dtype.hasobject and check_string_dtype(flat(self.dtype)[0]) is None:
                # Numbers are zero, and objects None.
                if self.dtype.subdtype is not None:
                    base, inner = flat(self.dtype)
                    return np.empty(inner, base)
                return np.empty(1, self.dtype)[0] if self.dtype.fields is not None else None
            fill = bytes(self._kind.stored.itemsize)
        return self._kind.items(fill, (1,), self._heap)[0]

    @property
    def dims(self) -> DimensionManager:
        """Labels and scales of the dimensions."""
        return DimensionManager(self)

    @property
    def is_scale(self) -> bool:
        """Whether this is a dimension scale."""
        return bool(self.attrs.get("CLASS") == b"DIMENSION_SCALE")

    @property
    def regionref(self) -> Any:
        """References to parts of data sets cannot be made, only read."""
        return refuse()

    def len(self) -> int:
        """Return the length of the first dimension.

        Raises
        ------
        TypeError
            There are no dimensions.
        """
        shape = self.shape
        if not shape:
            raise TypeError("Attempt to take len() of scalar dataset")
        return int(shape[0])

    def __len__(self) -> int:
        return self.len()

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("Can't iterate over a scalar dataset")
        # A row of chunks is decoded once.
        step = self.chunks[0] if self.chunks else 1
        for start in range(0, self.shape[0], step):
            yield from self[start : start + step]

    def iter_chunks(self, sel: Any = None) -> Iterator[tuple[slice, ...]]:
        """Iterate over the slices of the chunks, or over the intersections of a selection with the chunks.

        Parameters
        ----------
        sel : int, slice or sequence of these, optional
            Integers and slices of step 1, one for each dimension; by default all.

        Returns
        -------
        iterator of tuple of slice
            Slices, one for each dimension.

        Raises
        ------
        TypeError
            There are no chunks.
        ValueError
            The selection is outside the data set, or empty.
        """
        if self.chunks is None:
            raise TypeError("Chunked dataset required")
        parts = [slice(None)] * self.ndim if sel is None else [sel] if isinstance(sel, (int, slice)) else list(sel)
        if len(parts) != self.ndim:
            raise ValueError("Invalid selection - selection region must have same rank as dataset")
        bounds = []
        for part, length in zip(parts, self.shape):
            first, last = (part, part + 1) if isinstance(part, int) else (part.start or 0, part.stop or length)
            if sel is not None and not 0 <= first < last <= length:
                raise ValueError("Invalid selection - selection region must be within dataset space")
            bounds.append((first, last))
        return self._parts(bounds, self.chunks)

    @staticmethod
    def _parts(bounds: list[tuple[int, int]], chunks: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
        grids = [range(first // chunk, -(-last // chunk)) for (first, last), chunk in zip(bounds, chunks)]
        for at in np.ndindex(*(len(grid) for grid in grids)):
            yield tuple(
                slice(max(grid[n] * chunk, first), min((grid[n] + 1) * chunk, last), 1)
                for n, grid, chunk, (first, last) in zip(at, grids, chunks, bounds)
            )

    def astype(self, dtype: Any) -> Any:
        """Return a view that converts items to another type when they are read.

        As in HDF5, numbers that do not fit become the nearest ones that do.

        Parameters
        ----------
        dtype : dtype_like
            The type.

        Returns
        -------
        object
            The view, which is indexed like the data set; the data set itself if it has that type. Reading raises ``OSError`` or
            ``TypeError`` if HDF5 does not convert the items, such as numbers to texts.
        """
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype.kind == "T" and check_string_dtype(self.dtype) is None:
            raise TypeError(f"dset.astype({dtype}) can only be used on datasets with an HDF5 string datatype")
        return _View(self, lambda array: _as_text(array, dtype) if dtype.kind == "T" else converted(array, dtype), dtype, dtype)

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> Any:
        """Return a view that reads texts as ``str``.

        Parameters
        ----------
        encoding : str, optional
            By default that of the type, ASCII or UTF-8.
        errors : str
            How to handle bytes that are not in this encoding, as for ``bytes.decode``.

        Returns
        -------
        object
            The view, which is indexed like the data set.

        Raises
        ------
        TypeError
            The items are not texts.
        """
        texts = check_string_dtype(self.dtype)
        if texts is None:
            raise TypeError("dset.asstr() can only be used on datasets with an HDF5 string datatype")
        used = encoding or texts.encoding

        def decode(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            out = np.empty(array.size, object)
            out[:] = [text if isinstance(text, str) else text.decode(used, errors) for text in array.ravel().tolist()]
            return out.reshape(array.shape)

        return _View(self, decode, np.dtype(object))

    def fields(self, names: Any) -> Any:
        """Return a view that reads only some fields of a compound.

        Parameters
        ----------
        names : str or sequence of str
            A single name reads the items of the field, several names a compound.

        Returns
        -------
        object
            The view, which is indexed like the data set.

        Raises
        ------
        ValueError
            There is no such field.
        """
        return _View(self, *_fields(self.dtype, names))

    def _stored(self, chosen: Box | Points) -> np.ndarray[Any, Any]:
        """Returns selected items as they are stored."""
        if isinstance(chosen, Points):
            return self._read(chosen.axes, "vectorized")
        bounds = chosen.bounds()
        if bounds is not None and self._description["layout"] != "external":
            found: np.ndarray[Any, Any] = self._data._box(*bounds, self._opened.threads)
            return found.reshape(chosen.shape)
        dots = () if any(not isinstance(axis, int) for axis in chosen.axes) else (Ellipsis,)
        return self._read((*chosen.axes, *dots), "orthogonal")

    def _read(self, key: tuple[Any, ...], style: str) -> np.ndarray[Any, Any]:
        if self._description["layout"] == "external":
            return _elsewhere.read_external(self, key, style)
        found: np.ndarray[Any, Any] = self._data._get(key, style, self._opened.threads)
        return found

    def _items(self, chosen: Box | Points) -> np.ndarray[Any, Any]:
        """Returns selected items."""
        if 0 in chosen.shape:
            base, inner = flat(self.dtype)
            return np.zeros(chosen.shape + inner, base)
        if self.is_virtual:
            return _elsewhere.read_virtual(self, chosen)
        return self._kind.of_void(self._stored(chosen), self._heap)

    def _region(self, reference: RegionReference) -> Any:
        is_elsewhere = reference._file is not None and os.path.basename(reference._file) != os.path.basename(self.file.filename)
        if reference.address_of_reference != self._address or is_elsewhere:
            raise ValueError("Region reference must point to this dataset")
        region, _ = parse_region(reference._region, 0)
        axes = region.axes(self.shape)
        if axes is not None:
            key = tuple(
                slice(axis.start, axis.end, 1) if axis.stride == axis.block or len(axis) <= axis.block else axis.positions(np.arange(len(axis)))
                for axis in axes
            )
            return self._items(Box(key, tuple(len(axis) for axis in axes)))
        if region.kind == "none":
            return self._items(Box((slice(0, 0, 1),) * self.ndim, (0,) * self.ndim))
        points = region.all_points(self.shape)
        items = self._items(Points(tuple(points.T)))
        alone = [np.unique(column) for column in points.T]
        shape = tuple(map(len, alone))
        # The points of several boxes may still form a product.
        if region.kind == "boxes" and math.prod(shape) == len(points):
            return items.reshape(shape + items.shape[1:])
        return items

    def __getitem__(self, args: Any) -> Any:
        # Rows, the most frequent index: those of a sparse matrix are read one by one, in less time than parsing it takes.
        if type(args) is slice and self._plain is not None and self.shape:
            length, *others = self.shape
            first, end, step = args.indices(length)
            if step == 1 and first < end and 0 not in others:
                found = self._data._box([first, *[0] * len(others)], [end - first, *others], self._opened.threads)
                return found.view(self._plain)
        args = args if isinstance(args, tuple) else (args,)
        if any(arg is None for arg in args):
            raise TypeError("Indexing with None (or np.newaxis) is not supported")
        names = tuple(arg for arg in args if isinstance(arg, str))
        if names:
            rest = tuple(arg for arg in args if not isinstance(arg, str))
            return self.fields(names[0] if len(names) == 1 else names)[rest]
        is_all = args == () or len(args) == 1 and args[0] is Ellipsis
        if self.shape is None:
            if is_all:
                return Empty(self.dtype)
            raise ValueError("Empty datasets cannot be sliced")
        if len(args) == 1 and isinstance(args[0], RegionReference):
            return self._region(args[0])
        if self.shape == ():
            if not is_all:
                raise ValueError("Illegal slicing argument for scalar dataspace")
            found = self._items(Box((), ()))
            return found if args and is_all else found[()]
        found = self._selected(args)
        return found[()] if found.ndim == 0 else found

    def _selected(self, sel: Any) -> Any:
        """Returns the items of a selection, which stay an array if it is a single one, or those of fields and regions."""
        args = sel if isinstance(sel, tuple) else (sel,)
        if not self.shape or any(isinstance(arg, (str, RegionReference)) or arg is None for arg in args):
            return self[args] if args != () else self[...]
        return self._items(select(self.shape, args))

    def read_direct(self, dest: np.ndarray[Any, Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read items into an array.

        Parameters
        ----------
        dest : numpy.ndarray
            The array, contiguous in C order.
        source_sel : index, optional
            The selection to read, as from ``numpy.s_``; by default all items.
        dest_sel : index, optional
            The part of the array to fill; by default all of it.

        Raises
        ------
        TypeError
            There are no items, or the shapes differ.
        """
        if self.shape is None:
            raise TypeError("Empty datasets have no numpy representation")
        if not dest.flags.c_contiguous:
            raise TypeError("Array must be C-contiguous")
        if self._is_read_directly(dest, source_sel, dest_sel):
            return
        found = self[...] if source_sel is None else self._selected(source_sel)
        if dest.dtype.kind != "O" and dest.dtype != found.dtype:
            found = converted(found, dest.dtype)
        place = dest[dest_sel if dest_sel is not None else ()] if dest.ndim else dest
        if not isinstance(place, np.ndarray):
            dest[dest_sel] = found
            return
        shape = np.shape(found)
        if shape != place.shape:
            try:
                found = np.broadcast_to(found, place.shape)
            except ValueError:
                if math.prod(shape) != place.size or place.size == 0:
                    raise TypeError(f"Can't broadcast {shape} -> {place.shape}") from None
                found = np.reshape(found, place.shape)
        dest[dest_sel if dest_sel is not None else ...] = found

    def _is_read_directly(self, dest: np.ndarray[Any, Any], source_sel: Any, dest_sel: Any) -> bool:
        """Reads a box to a contiguous part of an array without a copy, and returns whether that was possible."""
        args = (Ellipsis,) if source_sel is None else source_sel if isinstance(source_sel, tuple) else (source_sel,)
        if self._plain is None or not self.shape or any(isinstance(arg, (str, RegionReference)) or arg is None for arg in args):
            return False
        place, chosen = dest if dest_sel is None else dest[dest_sel], select(self.shape, args)
        bounds = chosen.bounds() if isinstance(chosen, Box) and chosen.shape == np.shape(place) else None
        # An index with lists makes a copy.
        fits = isinstance(place, np.ndarray) and place.dtype == self._plain and place.flags.c_contiguous and np.may_share_memory(place, dest)
        if bounds is None or not fits or place.size == 0:
            return False
        key = tuple(slice(first, first + length) for first, length in zip(*bounds))
        self._data._read_into(key, place.reshape(bounds[1]).view(f"V{place.dtype.itemsize}"), self._opened.threads)
        return True

    def __array__(self, dtype: Any = None, copy: bool | None = True) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("Dataset.__array__ received copy=False but memory allocation cannot be avoided on read")
        if self.shape is None:
            raise TypeError("Empty datasets have no numpy representation")
        found: np.ndarray[Any, Any] = self[...]
        return found if dtype is None or found.dtype == dtype else converted(found, np.dtype(dtype))

    def refresh(self) -> None:
        """Do nothing: changes by other programs are not followed."""

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 dataset>"
        name = "(anonymous)" if self._path is None else f'"{posixpath.basename(self._path) or "/"}"'
        try:
            kind = self.dtype.str
        except TypeError:
            kind = self._kind._what
        return f'<HDF5 dataset {name}: shape {self.shape}, type "{kind}">'

    __setitem__ = resize = write_direct = make_scale = refuse


def _as_text(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    texts = [text if isinstance(text, str) else text.decode("utf-8", "surrogateescape") for text in array.flat]
    return np.array(texts, dtype).reshape(array.shape)


def _fields(dtype: np.dtype[Any], names: Any) -> tuple[Any, np.dtype[Any]]:
    """Returns the selection of the fields of items, and its dtype."""
    if dtype.fields is None:
        raise ValueError("Field names only allowed for compound types")
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if name not in dtype.fields:
            raise ValueError(f"Field {name} does not appear in this type.")
    if isinstance(names, str):
        field = dtype.fields[names][0]
        return lambda array: array[names].copy(), field
    packed = np.dtype([(name, dtype.fields[name][0]) for name in given])

    def chosen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.zeros(array.shape, packed)
        for name in given:
            out[name] = array[name]
        return out

    return chosen, packed


class _View:
    """A view of a data set that converts items when they are read."""

    def __init__(self, dataset: Dataset, change: Any, dtype: np.dtype[Any], cast: np.dtype[Any] | None = None) -> None:
        self._dataset, self._change, self._dtype = dataset, change, dtype
        # Without items the type stays.
        self._empty = dtype if cast is None else dataset.dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the items that are read."""
        return self._dtype

    @property
    def shape(self) -> Any:
        """The length of each dimension."""
        return self._dataset.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._dataset.ndim

    @property
    def size(self) -> Any:
        """The number of items."""
        return self._dataset.size

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, args: Any) -> Any:
        found = self._dataset[args]
        if isinstance(found, Empty):
            return Empty(self._empty)
        array = np.empty((), object) if isinstance(found, (bytes, str)) and self._dataset.dtype.kind == "O" else np.asarray(found)
        if isinstance(found, np.number):
            # It has lost the byte order of the data set, by which HDF5 converts.
            array = array.astype(self._dataset.dtype)
        if array.dtype.kind == "O" and isinstance(found, (bytes, str)):
            array[()] = found
        changed = self._change(array)
        return changed if isinstance(found, np.ndarray) else changed[()]

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = True) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("copy=False, but memory allocation cannot be avoided on read")
        found = np.asarray(self[...])
        return found if dtype is None else found.astype(dtype, copy=False)

    def astype(self, dtype: Any) -> _View:
        """Return a view that converts items to another type when they are read."""
        change, kind = self._change, np.dtype(dtype)
        return _View(self._dataset, lambda array: change(array).astype(kind), kind)

"""Codecs for numcodecs, and so for Zarr 2 and kerchunk: numcodecs' ``blosc``, and ``blosc2``.

    >>> import numpy as np
    >>> from b2kit.numcodecs import Blosc, Blosc2
    >>> packed = Blosc(cname="zstd", shuffle=Blosc.BITSHUFFLE).encode(np.arange(1000))
    >>> Blosc().decode(packed) == np.arange(1000).tobytes()
    True

Installing b2kit is enough for ``blosc2``: numcodecs finds it by that id, under which VirtualiZarr and kerchunk name the
HDF5 filter 32026. ``blosc`` is registered by numcodecs itself; :func:`register` puts this one in its place.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from typing import Any, ClassVar

import numpy as np
from numcodecs.abc import Codec  # type: ignore[import-untyped, unused-ignore]
from numcodecs.compat import ensure_contiguous_ndarray  # type: ignore[import-untyped, unused-ignore]
from numcodecs.registry import register_codec  # type: ignore[import-untyped, unused-ignore]

from b2kit import _b2kit
from b2kit._array import Array
from b2kit._create import compress, decompress
from b2kit.errors import ArgumentError, LimitError

__all__ = ["Blosc", "Blosc2", "register"]

# The magic bytes of a frame, after the byte that starts its header.
_FRAME = b"\xa8b2frame\0"


class _Shuffled(Codec, metaclass=ABCMeta):  # type: ignore[misc, unused-ignore]
    """The common part of both codecs."""

    NOSHUFFLE: ClassVar[int] = 0
    SHUFFLE: ClassVar[int] = 1
    BITSHUFFLE: ClassVar[int] = 2
    AUTOSHUFFLE: ClassVar[int] = -1
    AUTOBLOCKS: ClassVar[int] = 0
    # In bytes.
    max_buffer_size: ClassVar[int] = 2**31 - 1

    _blosc1: ClassVar[bool]

    cname: str
    clevel: int
    shuffle: int
    blocksize: int
    typesize: int | None

    def __init__(
        self,
        cname: str = "lz4",
        clevel: int = 5,
        shuffle: int = SHUFFLE,
        blocksize: int = AUTOBLOCKS,
        typesize: int | None = None,
    ) -> None:
        if shuffle not in (self.NOSHUFFLE, self.SHUFFLE, self.BITSHUFFLE, self.AUTOSHUFFLE):
            raise ArgumentError(f"shuffle {shuffle}, expected -1 (automatic), 0 (none), 1 (bytes) or 2 (bits)")
        if typesize is not None and typesize < 1:
            raise ArgumentError(f"typesize {typesize}, expected at least 1")
        # Unknown names and levels are an error now rather than in the middle of a store.
        compress(b"", cname, clevel, (), blocksize=blocksize, blosc1=self._blosc1)
        self.cname, self.clevel, self.shuffle = cname, clevel, shuffle
        self.blocksize, self.typesize = blocksize, typesize

    def encode(self, buf: Any) -> bytes:
        """Compresses a buffer.

        Parameters
        ----------
        buf : buffer
            At most 2 GiB.

        Returns
        -------
        bytes
            The chunk.
        """
        items = ensure_contiguous_ndarray(buf, self.max_buffer_size)
        size = self.typesize or items.dtype.itemsize
        shuffle = self.shuffle
        if shuffle == self.AUTOSHUFFLE:
            shuffle = self.BITSHUFFLE if size == 1 else self.SHUFFLE
        filters = {self.SHUFFLE: ("shuffle",), self.BITSHUFFLE: ("bitshuffle",)}.get(shuffle, ())
        return compress(
            items,
            self.cname,
            self.clevel,
            filters,
            # As in both libraries, whose chunks cannot record larger items.
            typesize=size if size <= 255 else 1,
            blocksize=self.blocksize,
            blosc1=self._blosc1,
        )

    def decode(self, buf: Any, out: Any = None, *, max_nbytes: int | None = None) -> Any:
        """Decompresses a chunk.

        Parameters
        ----------
        buf : buffer
            The chunk.
        out : buffer, optional
            The destination of the bytes.
        max_nbytes : int, optional
            Refuse more bytes, before memory is allocated. For chunks of Zarr 2 arrays the limit follows from the shape and the
            dtype of the chunk.

        Returns
        -------
        bytes or `out`
            The bytes.

        Raises
        ------
        b2kit.errors.LimitError
            The chunk claims to hold more than `max_nbytes`.
        b2kit.errors.DamagedError
            The chunk is malformed.
        """
        chunk = self._stored(buf)
        if out is None:
            return decompress(chunk, max_nbytes=_most_of_zarr() if max_nbytes is None else max_nbytes)
        plain = type(out) is np.ndarray and out.flags.c_contiguous and out.dtype.kind in "biufc"
        decompress(chunk, out=out if plain else ensure_contiguous_ndarray(out))
        return out

    def _stored(self, buf: Any) -> Any:
        """Returns a buffer of bytes. Converting ``bytes`` would take as long as decoding a small chunk, so they are returned unchanged."""
        if type(buf) is bytes and len(buf) <= self.max_buffer_size:
            return buf
        return ensure_contiguous_ndarray(buf, self.max_buffer_size).view("u1")

    def __repr__(self) -> str:
        names = {value: name for name, value in vars(_Shuffled).items() if name.endswith("SHUFFLE")}
        return (
            f"{type(self).__name__}(cname={self.cname!r}, clevel={self.clevel!r}, shuffle={names[self.shuffle]}, "
            f"blocksize={self.blocksize})"
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration from which :func:`numcodecs.get_codec` creates the codec."""
        config = super().get_config()
        # As numcodecs does: the item size is that of the buffer unless it was given.
        if self.typesize is None:
            del config["typesize"]
        return dict(config)


class Blosc(_Shuffled):
    """The codec ``blosc`` of numcodecs: same parameters, same format. Each reads what the other has written.

    Unlike that of numcodecs, it also decodes chunks of Blosc2.

    Parameters
    ----------
    cname : str
        ``"blosclz"``, ``"lz4"``, ``"lz4hc"``, ``"zlib"`` or ``"zstd"``.
    clevel : int
        0 to 9.
    shuffle : int
        ``NOSHUFFLE``, ``SHUFFLE``, ``BITSHUFFLE`` or ``AUTOSHUFFLE``.
    blocksize : int
        Size of the blocks in bytes; 0 for automatic.
    typesize : int, optional
        Size of the items for the shuffle, by default that of the buffer.

    Examples
    --------
    >>> import numpy as np
    >>> from b2kit.numcodecs import Blosc
    >>> codec = Blosc(cname="zstd", shuffle=Blosc.BITSHUFFLE)
    >>> codec.decode(codec.encode(np.arange(10))) == np.arange(10).tobytes()
    True
    """

    codec_id = "blosc"
    _blosc1 = True


class Blosc2(_Shuffled):
    """The codec ``blosc2``: Blosc2 chunks. It also decodes buffers that are a whole frame or array.

    HDF5 files with filter 32026 hold either kind of buffer.

    Parameters
    ----------
    cname, clevel, shuffle, blocksize, typesize
        As of :class:`Blosc`.

    Examples
    --------
    >>> import b2kit, numpy as np
    >>> from b2kit.numcodecs import Blosc2
    >>> Blosc2().decode(b2kit.compress(np.arange(10))) == np.arange(10).tobytes()
    True
    """

    codec_id = "blosc2"
    _blosc1 = False

    def decode(self, buf: Any, out: Any = None, *, max_nbytes: int | None = None) -> Any:
        """Decompresses a chunk, a frame or an array.

        Parameters
        ----------
        buf : buffer
            The chunk, frame or array.
        out : buffer, optional
            The destination of the bytes.
        max_nbytes : int, optional
            Refuse more bytes, as of :meth:`Blosc.decode`.

        Returns
        -------
        bytes or `out`
            The bytes.

        Raises
        ------
        b2kit.errors.LimitError
            More than `max_nbytes` are claimed.
        b2kit.errors.DamagedError
            The buffer is malformed.
        """
        stored = self._stored(buf)
        if max_nbytes is None and out is None:
            max_nbytes = _most_of_zarr()
        if bytes(stored[1 : 1 + len(_FRAME)]) != _FRAME:
            return super().decode(stored, out, max_nbytes=max_nbytes)
        if out is None:
            return _frame_bytes(bytes(stored), max_nbytes)
        into = ensure_contiguous_ndarray(out).view("u1")
        try:
            plain = _frame_bytes(bytes(stored), len(into))
        except LimitError as error:
            raise ArgumentError(f"out has {len(into)} bytes, fewer than the frame: {error}") from None
        into[: len(plain)] = np.frombuffer(plain, "u1")
        return out


def _frame_bytes(stored: bytes, most: int | None) -> bytes:
    frame = _b2kit.FrameBase(stored)
    array = Array(stored) if "b2nd" in frame.meta_names else None
    claimed = frame.nbytes if array is None else array.nbytes
    if most is not None and claimed > most:
        raise LimitError(f"the frame claims to have {claimed} bytes, the limit is {most} (max_nbytes)")
    return frame.read(0, claimed) if array is None else np.asarray(array[...]).tobytes()


def _most_of_zarr() -> int | None:
    """Returns how many bytes a chunk of Zarr 2 may have; ``None`` if another caller decodes it.

    zarr passes no information about the array to a compressor: the caller has its metadata.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or frame.f_globals.get("__name__") != "zarr.codecs._v2":
        return None
    from b2kit._zarr_chunks import most_bytes

    spec, codec = frame.f_locals.get("chunk_spec"), frame.f_locals.get("self")
    return None if spec is None else most_bytes(spec, bool(getattr(codec, "filters", None)))


def register() -> None:
    """Lets numcodecs use :class:`Blosc` and :class:`Blosc2` of this module for ``blosc`` and ``blosc2``.

    This affects Zarr 2 arrays, and everything else that gets these codecs from numcodecs.

    Examples
    --------
    >>> import numcodecs
    >>> import b2kit.numcodecs
    >>> theirs = numcodecs.Blosc
    >>> b2kit.numcodecs.register()
    >>> numcodecs.get_codec({"id": "blosc"}).__class__.__module__
    'b2kit.numcodecs'
    >>> numcodecs.register_codec(theirs)
    """
    register_codec(Blosc)
    register_codec(Blosc2)

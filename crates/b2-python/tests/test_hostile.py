"""Damaged and malicious bytes: an exception, or the right items; never the end of the process."""

from __future__ import annotations

import b2kit
import numpy as np
import pytest
from b2kit import errors
from conftest import many
from hypothesis import given, settings
from hypothesis import strategies as st

x = np.arange(3000, dtype="<i2").reshape(30, 100)
FRAME = bytes(b2kit.asarray(x, chunks=(10, 50), blocks=(5, 10), attrs={"units": "K"})._frame())
OURS = (b2kit.Error, MemoryError)


def use(frame):
    a = b2kit.open(frame)
    if a.nbytes < 1 << 20:
        items = a[...]
        a[..., :1]
        a[::-1] if a.ndim else None
    repr(a), a.info, a.filters
    dict(a.attrs)
    a._repr_html_()
    return items if a.nbytes < 1 << 20 else None


@given(st.integers(0, len(FRAME) - 1), st.integers(1, 255))
@settings(max_examples=many(1500), deadline=None)
def test_a_byte_is_changed(at, difference):
    damaged = bytearray(FRAME)
    damaged[at] ^= difference
    try:
        items = use(bytes(damaged))
    except OURS:
        return
    # Everything is under checksums, which reading compares where that costs little. What changes a length looks as if
    # another program, which does not know checksums, had changed the array.
    if items is None or items.tobytes() != x.tobytes():
        try:
            assert b2kit.verify(bytes(damaged)) == "changed"
        except errors.DamagedError:
            pass


@given(st.integers(0, len(FRAME)))
@settings(max_examples=many(200), deadline=None)
def test_the_end_is_missing(end):
    if end < len(FRAME):
        with pytest.raises(OURS):
            use(FRAME[:end])


@given(st.binary(max_size=300))
@settings(max_examples=many(300), deadline=None)
def test_anything(data):
    for call in (use, b2kit.decompress, b2kit.verify):
        with pytest.raises(OURS):
            call(data)


@pytest.mark.parametrize(
    "text",
    [
        b"__import__('os').system('true')",
        b"[('a', __import__('os'))]",
        b"|O8",
        b"[('a', 'O')]",
        b"<f3",
        b"(" * 3000,
        b"\xff\xfe",
        b"<M8[parsec]",
        b"<i2,<i2",
        b"np.int16",
    ],
)
def test_dtypes_are_not_evaluated(text):
    """The text of a dtype comes from the file; what is not understood is opaque bytes."""
    old = b"<i2"
    at = FRAME.index(b"\xdb\x00\x00\x00\x03" + old) + 5
    # Of the same length: else the frame is malformed anyway.
    changed = FRAME[:at] + text[:3].ljust(3) + FRAME[at + 3 :]
    try:
        a = b2kit.open(changed)
    except b2kit.Error:
        return
    assert a.dtype.kind in "iuVfSb" and not a.dtype.hasobject


def test_small_files_that_stand_for_much():
    a = b2kit.zeros((1 << 20, 1 << 20))
    with pytest.raises(OURS):
        a[...]
    assert not a[12345, ::1000].any()
    with pytest.raises(errors.LimitError):
        b2kit._b2kit.FrameBase(a._frame()).read(0, a.nbytes)

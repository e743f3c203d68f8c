"""Damaged and malicious bytes: the result is an exception or the right items, and the process never crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import b2kit
import numpy as np
import pytest
from b2kit import errors
from b2kit.attrs import Ext
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
    # Checksums cover everything, and reading compares them where that is cheap. A changed length looks as if another
    # program, which does not know about checksums, had changed the array.
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
    """The dtype text comes from the file; if it is not understood, items are opaque bytes."""
    old = b"<i2"
    at = FRAME.index(b"\xdb\x00\x00\x00\x03" + old) + 5
    # Of the same length, because otherwise the frame would be malformed anyway.
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


def nested(code, depth, inside=b"\x90"):
    """Extension types in lists, nested in extension types."""
    value = inside
    for _ in range(depth):
        value = b"\x91\xc9" + len(value).to_bytes(4, "big") + bytes([code]) + value
    return value


@pytest.mark.parametrize("code", [45, 46])
def test_nested_extensions_in_attributes(tmp_path, code):
    """Depth and memory are limited for a whole value, across arrays, edits and groups."""
    values = {
        "deep": Ext(code, nested(code, 1500)),
        "deeper": Ext(code, nested(code, 20_000)),
        "wide": Ext(code, nested(code, 60, b"\xdd\xff\xff\xff\xff" * 100)),
        "no list": Ext(code, b"\xc0"),
        "shape": Ext(46, b"\x83\xa5dtype\x81\xa3str\xa3<i8\xa5shape\x92\x00\xcf\x7f" + b"\xff" * 7 + b"\xa4data\xc4\x00"),
        "unhashable": Ext(45, b"\x91\x90"),
    }
    a = b2kit.asarray(x, tmp_path / "a.b2nd", attrs=values)
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    g.attrs.update(values)
    with a.edit() as e:
        for attrs in (a.attrs, e.attrs, g.attrs):
            for name in values:
                with pytest.raises(errors.DamagedError):
                    attrs[name]


def test_attributes_of_unknown_types_are_written_as_they_were_read():
    a = b2kit.asarray(x, attrs={"x": Ext(7, b"abc"), "y": [Ext(-3, b"")]})
    assert a.attrs["x"] == Ext(7, b"abc") and isinstance(a.attrs["x"], Ext) and a.attrs["y"] == [Ext(-3, b"")]
    a.attrs["z"] = a.attrs["x"]
    assert isinstance(b2kit.copy(a, attrs={"more": 1}).attrs["z"], Ext)


@pytest.mark.parametrize("depth", [61, 62, 3000])
def test_what_is_written_can_be_read(depth):
    value = []
    for _ in range(depth - 1):
        value = [value] if depth < 1000 else {"a": value}
    if depth > 61:
        with pytest.raises(b2kit.Error):
            b2kit.asarray(x, attrs={"v": value})
    else:
        assert b2kit.asarray(x, attrs={"v": value}).attrs["v"] == value


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The arrays and stores to damage."""
    folder = tmp_path_factory.mktemp("hostile")
    attrs = {"units": "K", "set": {1, 2}, "array": np.arange(3), "rows": np.zeros(2, [("a", "<i4"), ("b", "<f8")])}
    options = {"chunks": (10, 50), "blocks": (5, 10), "attrs": attrs}
    b2kit.asarray(x, folder / "good.b2nd", **options)
    b2kit.asarray(x, folder / "good_sparse.b2nd", sparse=True, **options)
    g = b2kit.open(folder / "good.b2d", mode="a")
    g.create("deep/x", x, **options)
    g.create("sparse", x, sparse=True, **options)
    g.attrs.update(attrs)
    with zipfile.ZipFile(folder / "good.b2z", "w") as archive:
        for path in sorted((folder / "good.b2d").rglob("*")):
            if path.is_file() and "sparse" not in str(path):
                archive.write(path, path.relative_to(folder / "good.b2d"))
    try:
        import blosc2
    except ImportError:
        return folder
    # Without checksums, so that damage gets further.
    peer = blosc2.asarray(x, urlpath=str(folder / "good_peer.b2nd"), chunks=(10, 50), blocks=(5, 10), mode="w")
    for name, value in {"units": "K", "list": [1, (2, {"a": None})], "array": np.arange(3)}.items():
        peer.schunk.vlmeta[name] = value
    tree = blosc2.TreeStore(str(folder / "good_peer.b2d"), mode="w")
    tree["/deep/x"] = x
    tree["/y"] = x
    tree.vlmeta["title"] = "t"
    tree.close()
    archive = blosc2.TreeStore(str(folder / "good_peer.b2z"), mode="w")
    archive["/x"] = x
    archive.close()
    embedded = blosc2.EmbedStore(urlpath=str(folder / "good_peer.b2e"), mode="w")
    embedded["/x"] = x
    embedded["/y"] = x
    del peer, tree, archive, embedded
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory")
@pytest.mark.parametrize("kind, count", [("attributes", 400), ("files", 400)])
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_files_through_the_package(good, kind, count, seed):
    child = os.path.join(os.path.dirname(__file__), "hostile_child.py")
    command = [sys.executable, child, str(good), kind, str(seed), str(many(count))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=many(300))
    assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.returncode, done.stdout[-20:], done.stderr[-3000:])


def test_verify_refuses_what_cannot_be_read(tmp_path):
    """The last chunk is too short: header and chunk are consistent, but the shape is not."""
    blosc2 = pytest.importorskip("blosc2")
    path = tmp_path / "short.b2nd"
    y = np.arange(40, dtype="u1")
    peer = blosc2.asarray(y, chunks=(20,), blocks=(10,), urlpath=str(path), mode="w")
    peer.schunk.delete_chunk(1)
    peer.schunk.append_data(y[20:35])
    del peer
    for call in (lambda: b2kit.open(path)[...], lambda: b2kit.verify(path), lambda: b2kit.open(path).verify()):
        with pytest.raises(errors.DamagedError):
            call()
    done = subprocess.run([sys.executable, "-m", "b2kit", "verify", str(path)], capture_output=True)
    assert done.returncode == 1

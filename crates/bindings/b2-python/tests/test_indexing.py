"""Compares indexing with NumPy."""

from __future__ import annotations

import b2kit
import numpy as np
import pytest
from conftest import many
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTHS = st.integers(0, 7)


@st.composite
def arrays(draw, min_dims=0, max_dims=4, min_length=0):
    shape = draw(st.lists(st.integers(min_length, 7), min_size=min_dims, max_size=max_dims))
    x = np.arange(int(np.prod(shape)), dtype=draw(st.sampled_from(["u1", "<i4", ">i2", "<f8"]))).reshape(shape)
    chunks = [draw(st.integers(1, max(1, n + 2))) for n in shape]
    blocks = [draw(st.integers(1, c)) for c in chunks]
    chunks, blocks = (chunks, blocks) if draw(st.booleans()) else (None, None)
    return x, b2kit.asarray(x, chunks=chunks, blocks=blocks, level=1)


def slices(length):
    edge = st.none() | st.integers(-length - 2, length + 2)
    step = st.none() | st.integers(-3, 3).filter(bool)
    return st.builds(slice, edge, edge, step)


def integers(length):
    return st.integers(-length, length - 1)


@st.composite
def basic_keys(draw, shape):
    named = draw(st.integers(0, len(shape)))
    split = draw(st.integers(0, named))
    dims = [*range(split), *range(len(shape) - (named - split), len(shape))]
    parts = []
    for dim in dims:
        n = shape[dim]
        parts.append(draw(slices(n) | integers(n) if n else slices(n)))
    if split < named or draw(st.booleans()):
        parts.insert(split, ...)
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts)


@st.composite
def mixed_keys(draw, shape):
    """Integers, slices, None, lists, arrays of any shape and masks that can be broadcast together."""
    common = draw(st.lists(st.integers(0, 3), max_size=3))
    parts, dim, fits = [], 0, True
    while dim < len(shape):
        n = shape[dim]
        kind = draw(st.sampled_from(["slice", "integer", "array", "list", "mask", "masks", "none", "stop", "truth"]))
        if kind == "stop":
            break
        if kind == "none":
            parts.append(None)
            continue
        if kind == "truth":
            parts.append(draw(st.booleans()))
            continue
        if kind == "masks" and dim + 1 < len(shape):
            marks = draw(st.lists(st.booleans(), min_size=n * shape[dim + 1], max_size=n * shape[dim + 1]))
            parts.append(np.array(marks, bool).reshape(n, shape[dim + 1]))
            dim += 2
            continue
        dim += 1
        if kind == "slice" or n == 0 and kind in ("integer", "array", "list"):
            parts.append(draw(slices(n)))
        elif kind == "integer":
            index = draw(integers(n))
            parts.append(draw(st.sampled_from([index, np.int16(index), np.array(index)])))
        elif kind == "array":
            of = [draw(st.sampled_from([m, 1])) for m in common[draw(st.integers(0, len(common))) :]]
            size = int(np.prod(of))
            items = draw(st.lists(integers(n), min_size=size, max_size=size))
            parts.append(np.array(items, draw(st.sampled_from(["i8", "i1"]))).reshape(of))
        elif kind == "list":
            length = draw(st.sampled_from([1, *(common[-1:])]))
            parts.append(draw(st.lists(integers(n), min_size=length, max_size=length)))
        else:
            parts.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
        if dim < len(shape) and parts[-1] is not ...:
            # After the ellipsis, parts apply to other dimensions than those they were generated for.
            parts = [part for part in parts if part is not ...] + [...]
    return tuple(parts)


def same(got, expected):
    assert type(got) is type(expected)
    assert got.dtype == expected.dtype
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_array_equal(got, expected)


def compare(a, x, key):
    try:
        expected = x[key]
    except (IndexError, ValueError) as error:
        with pytest.raises(type(error)) as caught:
            a[key]
        assert isinstance(caught.value, b2kit.Error)
        return
    same(a[key], expected)


@given(st.data())
@settings(max_examples=many(1500), deadline=None)
def test_basic(data):
    x, a = data.draw(arrays())
    compare(a, x, data.draw(basic_keys(x.shape)))


@given(st.data())
@settings(max_examples=many(3000), deadline=None)
def test_mixed(data):
    x, a = data.draw(arrays(min_dims=1))
    compare(a, x, data.draw(mixed_keys(x.shape)))


@given(st.data())
@settings(max_examples=many(500), deadline=None)
def test_orthogonal(data):
    x, a = data.draw(arrays(min_dims=1, min_length=1))
    key, lists = [], []
    for n in x.shape:
        part = data.draw(
            slices(n)
            | integers(n)
            | st.lists(integers(n), max_size=5)
            | st.lists(st.booleans(), min_size=n, max_size=n).map(lambda marks: np.array(marks, bool))
        )
        key.append(part)
        lists.append(np.arange(n)[part if not isinstance(part, list) else np.array(part, int)])
    expected = x[np.ix_(*(np.atleast_1d(one) for one in lists))]
    expected = expected.reshape([len(one) for one in lists if np.ndim(one)])
    got = a.oindex[tuple(key)]
    assert np.shape(got) == expected.shape
    np.testing.assert_array_equal(got, expected)


@given(st.data())
@settings(max_examples=many(500), deadline=None)
def test_vectorized(data):
    x, a = data.draw(arrays(min_dims=1, min_length=1))
    npoints = data.draw(st.integers(0, 6))
    lists = [data.draw(st.lists(integers(n), min_size=npoints, max_size=npoints)) for n in x.shape]
    same(a.vindex[tuple(lists)], x[tuple(np.array(one, int) for one in lists)])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=x.size, max_size=x.size)), bool).reshape(x.shape)
    same(a.vindex[mask], x[mask])


def test_vectorized_puts_points_first():
    x = np.arange(60).reshape(3, 4, 5)
    a = b2kit.asarray(x)
    same(a.vindex[:, [1, 2, 3], [0, 0, 4]], np.moveaxis(x[:, [1, 2, 3], [0, 0, 4]], 1, 0))
    same(a.vindex[:, [[1], [2]], [0, 4]], np.moveaxis(x[:, [[1], [2]], [0, 4]], 0, 2))


@pytest.mark.parametrize(
    "key",
    [
        (..., 0, 0),
        (0, 0, 0),
        (0, 0, 0, ...),
        ([0, 1], ..., 0),
        ([0, 1], slice(None), [0, 1]),
        ([0, 1], None, [0, 1]),
        (None, [0, 1], ..., [1, 0], [2, 2]),
        (0, slice(None), [1, 2]),
        (0, [1, 2]),
        (slice(None), 0, [1, 2]),
        (slice(None), None, 0, [1, 2]),
        ([[0], [1]], [[0, 1, 2]]),
        (np.zeros((2, 0), int),),
        ([],),
        ([], []),
        (True,),
        (False,),
        (True, 0),
        (False, [1, 2]),
        (0, True, slice(None), [1]),
        (slice(None), True, slice(None), False),
        (np.True_, np.array(False)),
        (10**30,),
        (-(10**30),),
        (slice(-(10**30), 10**30, 10**30),),
        (slice(None, None, 0),),
        (0, 0, 0, 0),
        (..., ...),
        ([0, 9],),
        ([0, 1], [0, 1, 2]),
        (1.0,),
        ([1.0],),
        (np.ones((3, 5), bool),),
        (np.ones(2, bool),),
        (slice(None), np.ones((4, 5), bool)),
        ([0, 1], np.eye(4, 5, dtype=bool)),
        (np.eye(3, 4, dtype=bool), [0, 1, 2]),
        (np.uint8(2), np.array([1], "u8")),
        (range(2),),
        ((0, 1),),
        ("x",),
    ],
)
def test_cases(key):
    x = np.arange(60).reshape(3, 4, 5)
    a = b2kit.asarray(x, chunks=(2, 2, 3))
    compare(a, x, key)
    if len(key) == 1:
        compare(a, x, key[0])


def test_scalars():
    x = np.array(7)
    a = b2kit.asarray(x)
    same(a[()], x[()])
    same(a[...], x[...])
    same(a[None], x[None])
    with pytest.raises(TypeError):
        len(a)
    with pytest.raises(IndexError):
        a[0]


def test_fields():
    dtype = np.dtype([("id", "<u2"), ("pos", "<f4", (3,)), ("in", [("a", "i1"), ("b", ">i8")])])
    x = np.zeros((4, 5), dtype)
    x["id"] = np.arange(20).reshape(4, 5)
    x["pos"] = np.random.default_rng(0).random((4, 5, 3))
    x["in"]["b"] = -x["id"].astype("i8")
    a = b2kit.asarray(x, chunks=(2, 2))
    for key in ["id", "pos", "in", ["id", "in"], ["pos"]]:
        same(a[key], x[key])
    same(a[1:3]["pos"], x[1:3]["pos"])
    same(a[2, 3], x[2, 3])
    with pytest.raises(b2kit.Error):
        a["nothing"]


@given(st.data())
@settings(max_examples=many(400), deadline=None)
def test_out(data):
    x, a = data.draw(arrays())
    key = data.draw(basic_keys(x.shape))
    expected = np.asarray(x[key])
    # Axes in any order and direction, with or without gaps.
    axes = data.draw(st.permutations(range(expected.ndim)))
    steps = [data.draw(st.sampled_from([1, -1, 2, -2])) for _ in axes]
    base = np.full([expected.shape[axis] * abs(steps[axis]) for axis in axes], 99, expected.dtype)
    view = base.transpose(np.argsort(axes))[(..., *(slice(None, None, step) for step in steps))]
    view = view[(..., *(slice(0, n) for n in expected.shape))]
    untouched = base.copy()
    assert a.read(key, out=view) is view
    np.testing.assert_array_equal(view, expected)
    # Bytes between the items are unchanged.
    view[...] = 99
    np.testing.assert_array_equal(base, untouched)


def test_out_of_other_kinds():
    x = np.arange(12, dtype="i4").reshape(3, 4)
    a = b2kit.asarray(x)
    buffer = bytearray(48)
    a.read(out=buffer)
    assert bytes(buffer) == x.tobytes()
    wide = np.empty((3, 4), "f8")
    a.read(..., out=wide)
    np.testing.assert_array_equal(wide, x)
    rows = np.empty((2, 4), "i4")
    np.testing.assert_array_equal(a.read([2, 0], out=rows), x[[2, 0]])
    grid = np.empty((2, 2), "i4", order="F")
    np.testing.assert_array_equal(a.read(([[0], [2]], [1, 3]), out=grid), x[[[0], [2]], [1, 3]])
    with pytest.raises(b2kit.Error):
        a.read(out=np.empty((3, 5), "i4"))
    with pytest.raises(b2kit.Error):
        a.read(out=bytearray(40))
    with pytest.raises(TypeError):
        b2kit.asarray(x / 2).read(out=np.empty((3, 4), "i4"))
    frozen = np.empty((3, 4), "i4")
    frozen.flags.writeable = False
    with pytest.raises(b2kit.Error):
        a.read(out=frozen)


def test_large_out_with_gaps():
    x = np.arange(20_000_000, dtype="i4").reshape(4000, 5000)
    a = b2kit.asarray(x, codec="lz4", level=1)
    base = np.zeros((4000, 10_000), "i4")
    a.read(out=base[:, ::2])
    assert (base[:, ::2] == x).all() and not base[:, 1::2].any()


def test_iteration():
    x = np.arange(60).reshape(10, 6)
    a = b2kit.asarray(x, chunks=(4, 3))
    assert len(a) == 10
    np.testing.assert_array_equal(list(a), x)
    assert list(b2kit.asarray(np.arange(5))) == [0, 1, 2, 3, 4]
    y = np.zeros_like(x)
    parts = [(part, items) for part, items in a.iterchunks()]
    assert len(parts) == 6
    for part, items in parts:
        y[part] = items
    np.testing.assert_array_equal(y, x)
    assert (b2kit.asarray(np.zeros((0, 3)))[...].shape) == (0, 3)
    with pytest.raises(TypeError):
        iter(b2kit.asarray(np.array(1))).__next__()


def test_array_protocol():
    x = np.arange(6.0).reshape(2, 3)
    a = b2kit.asarray(x)
    np.testing.assert_array_equal(np.asarray(a), x)
    assert np.asarray(a, dtype="i4").dtype == np.int32
    assert np.sum(a) == 15
    with pytest.raises(ValueError, match="copy"):
        a.__array__(copy=False)
    with pytest.raises(ValueError):
        bool(a)


@pytest.mark.parametrize("chunks", [(64, 100, 50), (900, 100, 100), (7, 100, 100)])
@pytest.mark.parametrize("dtype", ["u1", ">i2", "f4", "f8", "c16", "S3", [("a", "u1"), ("b", "f8")]])
def test_masks_of_large_arrays(chunks, dtype):
    """They are read in pieces of whole chunks or some of their blocks."""
    x = np.zeros((900, 100, 100), dtype)
    items = np.arange(x.size).reshape(x.shape)
    if x.dtype.names:
        x["a"], x["b"] = items, items
    else:
        x[...] = items if x.dtype.kind != "S" else (items % 999).astype("S3")
    a = b2kit.asarray(x, chunks=chunks, blocks=(5, 50, 50), codec="lz4", level=1)
    rng = np.random.default_rng(1)
    for share in (0.01, 0.5, 1.0):
        mask = rng.random(x.shape) < share
        mask[200:400] = False
        same(a[mask], x[mask])
        same(a[mask.T.copy().T], x[mask])
    # Any byte except 0 counts as true.
    odd = (mask.view("u1") * 2).view(bool)
    assert len(a[odd]) == np.count_nonzero(mask)
    seen = []
    a.read(mask, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (a.nbytes, a.nbytes)


@given(st.data())
@settings(max_examples=many(150), deadline=None)
def test_masks_of_any_kind(data):
    """Few marks or many, scattered or in a box, in any memory layout, of the whole array or of some of its axes."""
    x, a = data.draw(arrays())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    first = data.draw(st.integers(0, x.ndim))
    last = data.draw(st.integers(first, x.ndim))
    shape = x.shape[first:last]
    if shape == ():
        shape, first = x.shape, 0
    if shape == ():
        return
    share = data.draw(st.sampled_from([0, 1e-3, 0.05, 0.5, 0.97, 1]))
    mask = rng.random(shape) < share
    if data.draw(st.booleans()):
        box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in shape)
        inside = np.zeros(shape, bool)
        inside[box] = True
        mask &= inside
    layout = data.draw(st.sampled_from("CFSR"))
    if layout == "F":
        mask = np.asfortranarray(mask)
    elif layout == "S":
        wide = np.zeros((*shape, 2), bool)
        wide[..., 1] = mask
        mask = wide[..., 1]
    elif layout == "R":
        mask = mask[::-1].copy()[::-1]
    key = (slice(None),) * first + (mask,)
    same(a[key], x[key])
    if first == 0:
        same(a[mask], x[mask])


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [(400_000,), (1300, 700), (60, 70, 80), (9, 20, 30, 40)])
def test_masks_of_any_density(shape, order):
    """The way of reading depends on how many marks there are and where."""
    size = np.prod(shape)
    x = np.arange(size, dtype="f4").reshape(shape)
    a = b2kit.asarray(x, chunks=[-(-n // 2) for n in shape], blocks=[-(-n // 7) for n in shape], codec="lz4")
    rng = np.random.default_rng(4)
    for share in (0, 2 / size, 3e-4, 9e-4, 1.1e-3, 2e-2, 0.3, 0.999, 1):
        mask = np.asarray(rng.random(shape) < share, order=order)
        same(a[mask], x[mask])
    for n in range(12):
        mask = np.zeros(shape, bool, order=order)
        box = tuple(slice(*sorted(rng.integers(0, length + 1, 2))) for length in shape)
        mask[box] = rng.random(mask[box].shape) < (1, 0.4, 0.002)[n % 3]
        same(a[mask], x[mask])


def test_boxes():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, (50, 60, 70)).astype("i2")
    for options in ({"codec": "lz4"}, {"codec": "zstd", "filters": ["bitshuffle"]}):
        a = b2kit.asarray(x, chunks=(20, 32, 40), blocks=(10, 16, 8), **options)
        for side in (1, 5, 33, 50):
            starts = rng.integers(0, np.array(x.shape) - side + 1, (6, 3))
            boxes = [tuple(slice(at, at + side) for at in start) for start in starts]
            expected = np.stack([x[box] for box in boxes])
            for threads in (1, 2, None):
                same(a.read_boxes(iter(boxes), threads=threads), expected)
            out = np.empty_like(expected)
            assert a.read_boxes(boxes, out) is out
            same(out, expected)
            # Gaps, another type, another order, a buffer that is not an array.
            gaps = np.zeros((*out.shape, 2), "i2")
            a.read_boxes(boxes, out=gaps[..., 0])
            same(gaps[..., 0], expected)
            assert not gaps[..., 1].any()
            wide = np.empty(out.shape, "f8", order="F")
            a.read_boxes(boxes, out=wide)
            np.testing.assert_array_equal(wide, expected)
            buffer = bytearray(expected.nbytes)
            a.read_boxes(boxes, out=buffer)
            assert bytes(buffer) == expected.tobytes()
    # Whatever slices and integers select; boxes may be empty.
    keys = [np.s_[3, ..., ::-7], np.s_[7, :, 0:10], np.s_[-1, :, 60:]]
    same(a.read_boxes(keys), np.stack([x[key] for key in keys]))
    same(a.read_boxes([np.s_[0, 0, 0], (1, 2, 3)]), np.array([x[0, 0, 0], x[1, 2, 3]]))
    assert a.read_boxes([np.s_[3:3], np.s_[9:2]]).shape == (2, 0, 60, 70)
    swapped = b2kit.asarray(x.astype(">i2"))
    same(swapped.read_boxes([np.s_[1:3], np.s_[2:4]]), np.stack([x[1:3], x[2:4]]).astype(">i2"))
    seen = []
    a.read_boxes([...], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (a.nbytes, a.nbytes)
    for wrong in ([], [np.s_[0:2], np.s_[0:3]], [np.s_[0:2], np.s_[49:51]], [[1, 2]], [np.s_[:, [0, 1]]], ["name"]):
        with pytest.raises(b2kit.Error):
            a.read_boxes(wrong)
    with pytest.raises(b2kit.Error):
        a.read_boxes([np.s_[0:2]], out=np.empty((2, 60, 70), "i2"))

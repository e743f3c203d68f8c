"""Values that do not fit into an array are refused on every way in; those that fit are stored as NumPy stores them."""

import copy
import datetime
import pickle

import numpy as np
import pytest

import b2kit
import b2kit.hdf5

ways = pytest.mark.parametrize("way", ["set", "edit", "oindex", "vindex", "append", "insert"])


def put(a, way, value):
    if way == "set":
        a[0:1] = value
    elif way == "edit":
        with a.edit() as e:
            e[0] = value[0]
    elif way in ("oindex", "vindex"):
        getattr(a, way)[[0]] = value
    elif way == "append":
        a.append(value)
    else:
        a.insert(0, value)
    return a[-1 if way == "append" else 0]


# The type of the items, and values that do not fit: of Python and of NumPy.
UNFIT = [
    ("i1", [1000]),
    ("i1", np.array([1000])),
    ("i1", np.array([-129], "i2")),
    ("u1", [-1]),
    ("u1", np.array([-1], "i1")),
    ("u4", np.array([2**32], "u8")),
    ("i8", np.array([2**63], "u8")),
    ("u8", np.array([-1])),
    ("i8", [2**64]),
    ("i4", [1.7]),
    ("i4", np.array([1.7])),
    ("i4", np.array([1.5], "f2")),
    ("i8", [2.0**63]),
    ("u8", np.array([2.0**64], "f4")),
    ("i8", [0.5, 2**62 + 1]),
    ("i4", [np.nan]),
    ("i4", np.array([np.inf])),
    ("u2", [-0.5]),
    ("i4", [1 + 2j]),
    ("f8", np.array([1 + 2j])),
    ("f4", [1e300]),
    ("f4", np.array([-1e300])),
    ("f2", np.array([70000])),
    ("f4", [10**60]),
    ("c8", np.array([1e300])),
    ("?", [2]),
    ("?", np.array([0.5])),
    ("U3", ["foobar"]),
    ("U3", np.array(["foobar"])),
    ("U3", np.array(["foobar"], dtype=object)),
    ("S3", [b"foobar"]),
    ("S3", np.array([b"foobar"])),
    ("S3", np.array(["foobar"])),
    ("U3", [12345]),
    ("U3", np.array([12345])),
    ("V3", np.array([b"foobar"], "V6")),
    ("M8[s]", np.array(["2020-01-01T00:00:00.5"], "M8[ms]")),
    ("M8[ns]", np.array(["3000-01-01"], "M8[s]")),
    ("M8[D]", [datetime.datetime(2020, 1, 1, 3)]),
    ("m8[s]", np.array([1500], "m8[ms]")),
    ("m8[h]", np.array(["2020-01-01"], "M8[s]")),
    ("M8[D]", np.array([59], "m8[ns]")),
    ("m8[s]", [2**63]),
    ("M8[s]", np.array([2**64 - 1], "u8")),
    ("i8", np.array(["2020-01-01"], "M8[s]")),
    ([("n", "i1"), ("s", "U3")], [(1000, "foo")]),
    ([("n", "i1"), ("s", "U3")], [(1, "foobar")]),
    ([("n", "i1"), ("s", "U3")], np.array([(1, "foobar")], [("n", "i8"), ("s", "U6")])),
    ([("n", "i1"), ("s", "U3")], np.array([(200, "foo")], [("n", "i8"), ("s", "U3")])),
    ([("in", [("v", "u1", (2,))])], [(([1, 300],),)]),
]


@ways
@pytest.mark.parametrize("dtype, value", UNFIT, ids=range(len(UNFIT)))
def test_a_value_that_does_not_fit(dtype, value, way):
    a = b2kit.zeros(3, dtype=dtype)
    before = a[...]
    with pytest.raises(b2kit.errors.Error) as raised:
        put(a, way, value)
    assert isinstance(raised.value, (ValueError, TypeError))
    assert a.shape == (3,) and a[...].tobytes() == before.tobytes()


FIT = [
    ("i1", [-128], -128),
    ("i1", np.array([127]), 127),
    ("u1", np.array([255], "i8"), 255),
    ("u8", [2**64 - 1], 2**64 - 1),
    ("i8", np.array([2**63 - 1], "u8"), 2**63 - 1),
    ("i4", [2.0], 2),
    ("i4", np.array([-3.0], "f2"), -3),
    ("u8", [2.0**63], 2**63),
    ("?", np.array([1]), True),
    ("f4", [0.1], np.float32(0.1)),
    ("f4", np.array([np.inf]), np.inf),
    ("f8", [2**70], 2.0**70),
    ("f4", np.array([2**24 + 1]), np.float32(2**24)),
    ("f8", [1 + 0j], 1.0),
    ("c8", [1], 1),
    (">i2", np.array([5], "<i8"), 5),
    ("U3", ["fo"], "fo"),
    ("U3", np.array(["foo"], "U9"), "foo"),
    ("U3", np.array([b"foo"], "S9"), "foo"),
    ("U9", np.array([12345]), "12345"),
    ("S3", np.array(["foo"], "U9"), b"foo"),
    ("i2", ["12"], 12),
    ("i8", np.array(["9007199254740993"]), 9007199254740993),
    ("M8[s]", ["2020-01-01"], np.datetime64("2020-01-01", "s")),
    ("M8[s]", np.array(["2020-01-01"], "M8[ns]"), np.datetime64("2020-01-01", "s")),
    ("M8[D]", [datetime.date(2020, 1, 2)], np.datetime64("2020-01-02")),
    ("m8[s]", [7], np.timedelta64(7, "s")),
    ([("n", "i1"), ("s", "U3")], [(5, "foo")], (5, "foo")),
    ([("n", "i1"), ("s", "U3")], np.array([(5, "foo")], [("x", "i8"), ("y", "U9")]), (5, "foo")),
]


@ways
@pytest.mark.parametrize("dtype, value, expected", FIT, ids=range(len(FIT)))
def test_a_value_that_fits(dtype, value, expected, way):
    a = b2kit.zeros(3, dtype=dtype)
    found = put(a, way, value)
    assert found.tolist() == expected if a.dtype.names else found == expected


def test_not_a_time_and_missing_numbers():
    a = b2kit.zeros(2, dtype="M8[s]")
    a[0] = np.datetime64("NaT", "ns")
    assert np.isnat(a[0])
    a = b2kit.zeros(2, dtype="f4")
    a[0] = None
    assert np.isnan(a[0])


def test_a_field_that_does_not_fit():
    a = b2kit.zeros(3, dtype=[("n", "i1"), ("s", "U3")])
    for name, value in ("n", 1000), ("n", np.array([1.5])), ("s", "foobar"):
        with pytest.raises(ValueError):
            a[name] = value
    a["s"] = "foo"
    assert a["s"].tolist() == ["foo"] * 3


def test_new_arrays(tmp_path):
    """An explicit type truncates fractions, as in NumPy, but nothing is wrapped or cut."""
    assert b2kit.asarray(np.array([1.7, -1.7]), dtype="i4")[...].tolist() == [1, -1]
    assert b2kit.asarray(["foobar"])[0] == "foobar" and b2kit.full(2, "foobar").dtype == "U6"
    for x, dtype in (
        (np.array([1000]), "i1"),
        (np.array([np.nan]), "i4"),
        (np.array([1e300]), "f4"),
        (np.array(["foobar"]), "U3"),
        (["foobar"], "S3"),
        (np.array([-1]), "u2"),
    ):
        for make in (
            lambda: b2kit.asarray(x, tmp_path / "a.b2nd", dtype=dtype),
            lambda: b2kit.full(3, x[0], dtype, tmp_path / "a.b2nd"),
            lambda: b2kit.from_iter(iter(x), dtype, path=tmp_path / "a.b2nd"),
            lambda: b2kit.copy(b2kit.asarray(x), tmp_path / "a.b2nd", dtype=dtype),
        ):
            with pytest.raises(ValueError):
                make()
    assert not (tmp_path / "a.b2nd").exists()
    with pytest.raises(ValueError):
        b2kit.from_iter([0.5], "i4")
    assert b2kit.from_iter(["a", "bcd"], "U3")[...].tolist() == ["a", "bcd"]


def test_dask(tmp_path):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    from b2kit.dask import to_b2kit

    a = b2kit.zeros(4, dtype="i1", path=tmp_path / "a.b2nd")
    with pytest.raises(ValueError):
        da.store(da.from_array(np.array([1, 2, 1000, 4]), chunks=2), a, lock=True)
    # A type other than that of the blocks.
    wrong = da.from_array(np.array(["foo", "foobar"], dtype=object), chunks=1).map_blocks(
        lambda block: block.astype("U6"), dtype="U3"
    )
    with pytest.raises(Exception):
        to_b2kit(wrong, tmp_path / "b.b2nd")
    assert not (tmp_path / "b.b2nd").exists()


def test_a_copy_of_a_file_is_another_handle(tmp_path):
    a = b2kit.asarray(np.arange(3), tmp_path / "a.b2nd")
    same = copy.deepcopy(a)
    same[0] = 7
    a.refresh()
    assert a[0] == 7
    memory = b2kit.asarray(np.arange(3))
    own = copy.deepcopy(memory)
    own[0] = 7
    assert memory[0] == 0


def test_pickles_change_with_the_content(tmp_path):
    b2kit.asarray(np.arange(3), tmp_path / "a.b2nd")
    b2kit.asarray(np.arange(3), tmp_path / "sparse.b2nd", sparse=True)
    group = b2kit.open_group(tmp_path / "a.b2d", "a")
    group["deep/x"] = np.arange(3)
    group.save(tmp_path / "a.b2z")

    def openers():
        yield lambda: b2kit.open(tmp_path / "a.b2nd"), lambda: b2kit.open(tmp_path / "a.b2nd", "a").__setitem__(0, 9)
        yield (
            lambda: b2kit.open(tmp_path / "sparse.b2nd"),
            lambda: b2kit.open(tmp_path / "sparse.b2nd", "a").__setitem__(0, 9),
        )
        change = lambda: group.array("deep/x").__setitem__(0, 9)  # noqa: E731
        yield lambda: b2kit.open_group(tmp_path / "a.b2d").array("deep/x"), change
        yield lambda: b2kit.open_group(tmp_path / "a.b2d"), change
        yield lambda: b2kit.open_group(tmp_path / "a.b2d").group("deep"), change
        again = lambda: group.save(tmp_path / "a.b2z", overwrite=True)  # noqa: E731
        yield lambda: b2kit.open_group(tmp_path / "a.b2z").array("deep/x"), again
        yield lambda: b2kit.open_group(tmp_path / "a.b2z"), again

    for opener, change in openers():
        before = pickle.dumps(opener())
        assert pickle.dumps(opener()) == before
        change()
        assert pickle.dumps(opener()) != before
        assert type(pickle.loads(before)) is type(opener())


def test_pickles_of_hdf5_files_change(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    path = str(tmp_path / "a.h5")
    found = []
    for n in 3, 4:
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(n)
        file = b2kit.hdf5.open(path)
        found += [pickle.dumps(file), pickle.dumps(file["x"])]
        assert pickle.loads(found[-1]).shape == pickle.loads(found[-2])["x"].shape == (n,)
    assert len(set(found)) == 4

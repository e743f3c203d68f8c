"""Indexes and tables of python-blosc2 after changes here: its query results equal NumPy's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass

import b2kit
import numpy as np
import pytest
from b2kit import errors

blosc2 = pytest.importorskip("blosc2")


def layers(path):
    """The layers of a frame as python-blosc2 reads them."""
    opened = blosc2.open(str(path), mode="r")
    found = getattr(opened, "schunk", opened).vlmeta
    return {name: found[name] for name in found}


KINDS = ["SUMMARY", "BUCKET", "PARTIAL", "FULL", "OPSI"]
INDEXES = "blosc2_indexes"


def indexed(path, kind, contiguous=True, length=20_000, seed=0):
    """Writes an array with an index, and returns its items."""
    x = np.random.default_rng(seed).integers(0, 1000, length)
    a = blosc2.asarray(x, urlpath=str(path), chunks=(4000,), blocks=(500,), mode="w", contiguous=contiguous)
    a.create_index(kind=getattr(blosc2.IndexKind, kind))
    return x


def set_item(a, x):
    a[5] = 10**6
    x[5] = 10**6
    return x


def set_slice(a, x):
    a[100:9000:7] = 10**6
    x[100:9000:7] = 10**6
    return x


def set_all(a, x):
    a[...] = x[::-1] * 3
    return x[::-1] * 3


def edit(a, x):
    with a.edit() as change:
        change[1] = 2000
        change.append([5000, 3])
    x[1] = 2000
    return np.append(x, [5000, 3])


def delete_and_append(a, x):
    with a.edit() as change:
        change.delete(slice(10, 13))
    a.append([10**6, 10**6, 1])
    return np.append(np.delete(x, slice(10, 13)), [10**6, 10**6, 1])


def append_twice(a, x):
    a.append([10**6, 4])
    there = blosc2.open(a.path, mode="a")
    there.append(np.array([2 * 10**6, 7]))
    return np.append(x, [10**6, 4, 2 * 10**6, 7])


CHANGES = [set_item, set_slice, set_all, edit, delete_and_append, append_twice]


def check(path, x, contiguous=True):
    a = blosc2.open(str(path), mode="r")
    np.testing.assert_array_equal(a[:], x)
    np.testing.assert_array_equal(x[np.asarray(blosc2.argsort(a)[:])], np.sort(x))
    if contiguous:  # python-blosc2 does not support such queries on sparse frames.
        np.testing.assert_array_equal(np.sort(a[a > 999].compute()[:]), np.sort(x[x > 999]))


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_answers_after_a_change(tmp_path, kind, change, contiguous):
    path = tmp_path / "a.b2nd"
    x = indexed(path, kind, contiguous)
    if contiguous:
        assert len(blosc2.open(str(path), mode="r").indexes) == 1
    check(path, x, contiguous)
    x = change(b2kit.open_array(path, mode="a"), x.copy())
    check(path, x, contiguous)
    described = layers(path)[INDEXES]["indexes"]
    assert all(one["stale"] for one in described.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_starts_afterwards_and_a_rebuilt_index(tmp_path, kind):
    path = tmp_path / "a.b2nd"
    x = indexed(path, kind)
    x = append_twice(b2kit.open_array(path, mode="a"), x)
    code = """
import sys, blosc2, numpy as np
a = blosc2.open(sys.argv[1], mode="a")
print(len(a[a > 999].compute()[:]))
a.rebuild_index()
print(len(a[a > 999].compute()[:]), a.indexes[0].stale)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "2", "False"]
    assert len(x[x > 999]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_replaces_an_indexed_one(tmp_path, kind):
    """python-blosc2 caches indexes by path."""
    path = tmp_path / "a.b2nd"
    check(path, indexed(path, kind))
    x = np.random.default_rng(9).integers(0, 1001, 20_000)
    b2kit.asarray(x, path, chunks=4000, blocks=500, overwrite=True)
    check(path, x)
    x = x[::-1].copy()
    b2kit.copy(b2kit.asarray(x, chunks=4000, blocks=500), path, overwrite=True)
    check(path, x)


def test_only_changes_of_items_count(tmp_path):
    path = tmp_path / "a.b2nd"
    indexed(path, "FULL")
    a = b2kit.open_array(path, mode="a")
    a.attrs["units"] = "K"
    a.compact()
    described = layers(path)[INDEXES]["indexes"]
    assert not any(one["stale"] for one in described.values())


def test_it_is_no_attribute_and_copies_do_not_get_it(tmp_path):
    path = tmp_path / "a.b2nd"
    indexed(path, "BUCKET")
    a = b2kit.open_array(path, mode="a")
    a.attrs["units"] = "K"
    assert list(a.attrs) == ["units"] and INDEXES not in a.attrs
    with pytest.raises(KeyError):
        a.attrs[INDEXES]
    with pytest.raises(errors.ArgumentError):
        a.attrs[INDEXES] = {}
    with pytest.raises(KeyError):
        del a.attrs[INDEXES]
    a.attrs.clear()
    assert INDEXES in layers(path)
    made = [
        b2kit.copy(a, tmp_path / "b.b2nd"),
        b2kit.copy(a, tmp_path / "c.b2nd", dtype="f8"),
        b2kit.asarray(a, tmp_path / "d.b2nd"),
        b2kit.copy(blosc2.open(str(path), mode="r"), tmp_path / "e.b2nd"),
        b2kit.concat([a, a], tmp_path / "f.b2nd"),
    ]
    g = b2kit.open_group(tmp_path / "g.b2d", mode="a")
    g["h"] = a
    made.append(g.array("h"))
    for copy in made:
        assert INDEXES not in layers(copy.path), copy.path
    # More attributes than C-Blosc2 has place for: the index keeps its place.
    a.attrs.update({f"n{n}": n for n in range(20)})
    assert len(a.attrs) == 20 and INDEXES in layers(path)


def test_indexes_in_stores(tmp_path):
    path = str(tmp_path / "s.b2d")
    x = np.random.default_rng(1).integers(0, 1000, 20_000)
    with blosc2.TreeStore(path, mode="w") as store:
        store["g/a"] = x
        store["b"] = x[:10_000]
    with blosc2.TreeStore(path, mode="a") as store:
        store["g/a"].create_index(kind=blosc2.IndexKind.FULL)
        store["b"].create_index(kind=blosc2.IndexKind.SUMMARY)
    g = b2kit.open_group(path, mode="a")
    assert list(g) == ["b", "g"] and list(g.group("g")) == ["a"]
    assert [key for key, _ in g.walk()] == ["b", "g/a"]
    assert "__index__" not in repr(g)
    assert g.verify() in ("ok", "none")
    g.array("g/a")[3] = x[3] = 10**6
    check(g.array("g/a").path, x)
    for name in ("copy.b2d", "copy.b2z", "copy.b2e"):
        g.save(tmp_path / name)
        copy = b2kit.open_group(tmp_path / name)
        assert [key for key, _ in copy.walk()] == ["b", "g/a"]
        np.testing.assert_array_equal(copy.array("g/a")[:], x)
    assert not any("__index__" in str(file) for file in (tmp_path / "copy.b2d").rglob("*"))
    assert INDEXES not in layers(tmp_path / "copy.b2d/b.b2nd")


def test_xarray(tmp_path):
    xarray = pytest.importorskip("xarray")
    path = str(tmp_path / "s.b2d")
    with blosc2.TreeStore(path, mode="w") as store:
        store["a"] = np.arange(20_000)
    with blosc2.TreeStore(path, mode="a") as store:
        store["a"].create_index(kind=blosc2.IndexKind.FULL)
    found = xarray.open_dataset(path, engine="b2kit")
    assert list(found.variables) == ["a"] and found.a.attrs == {}


@dataclass
class Row:
    id: int = blosc2.field(blosc2.int64())
    v: float = blosc2.field(blosc2.float64(), default=0.0)


def table(path, length=3000):
    made = blosc2.CTable(Row, urlpath=str(path), mode="w")
    made.extend([(n, float(n % 17)) for n in range(length)])
    made.close()


def ids_above(path, least):
    found = blosc2.open(str(path), mode="r")
    try:
        return sorted(np.asarray(found.where(found.id > least).id[:]).tolist())
    finally:
        found.close()


def test_columns_of_tables(tmp_path):
    path = tmp_path / "t.b2d"
    table(path)
    assert ids_above(path, 10_000) == []
    g = b2kit.open_group(path, mode="a")
    assert g.kind == "CTable" and "_indexes" not in list(g)
    before = layers(path / "_meta.b2f")["value_epoch"]
    g.array("_cols/id")[10:20] = np.arange(20_000, 20_010)
    assert ids_above(path, 10_000) == list(range(20_000, 20_010))
    meta = layers(path / "_meta.b2f")
    assert meta["value_epoch"] == before + 1
    assert all(one["stale"] for one in meta["index_catalog"].values())
    # By path as well.
    b2kit.open_array(path / "_cols/id.b2nd", mode="a")[30] = 30_000
    assert ids_above(path, 10_000) == [*range(20_000, 20_010), 30_000]
    there = blosc2.open(str(path), mode="r")
    assert there.id.max() == 30_000
    there.close()


def test_columns_that_are_computed_from_others(tmp_path):
    """python-blosc2 refuses to read them until they are computed again."""
    path = tmp_path / "t.b2d"
    made = blosc2.CTable(Row, urlpath=str(path), mode="w")
    made.extend([(n, float(n)) for n in range(100)])
    made.add_generated_column("double", values="v * 2")
    made.close()
    b2kit.open_group(path, mode="a").array("_cols/v")[3] = 1000.0
    found = blosc2.open(str(path), mode="a")
    with pytest.raises(ValueError, match="stale"):
        found.double[:]
    found.refresh_generated_column("double")
    assert found.double[2:5].tolist() == [4.0, 2000.0, 8.0]
    found.close()


def test_attributes_of_tables(tmp_path):
    path = tmp_path / "t.b2d"
    table(path)
    g = b2kit.open_group(path, mode="a")
    assert g.kind == "CTable" and dict(g.attrs) == {}
    g.attrs["units"] = {"v": "K"}
    found = blosc2.open(str(path), mode="a")
    assert found.vlmeta[:] == {"units": {"v": "K"}}
    found.vlmeta["author"] = "A"
    found.close()
    g.attrs.update(n=1)
    del g.attrs["units"]
    assert dict(g.attrs) == {"author": "A", "n": 1}
    b2kit.open_group(tmp_path / "s.b2d", mode="a")["deep/t"] = g
    b2kit.open_group(tmp_path / "s.b2d")["deep/t"].save(tmp_path / "copy.b2z")
    found = blosc2.open(str(tmp_path / "copy.b2z"), mode="r")
    assert found.vlmeta[:] == {"author": "A", "n": 1} and found.id[5] == 5
    found.close()


def test_a_table_that_is_removed_from_a_store(tmp_path):
    """python-blosc2 lists the tables of a store."""
    path, made = str(tmp_path / "s.b2d"), blosc2.CTable(Row)
    made.extend([(n, 0.5) for n in range(5)])
    with blosc2.TreeStore(path, mode="w") as store:
        store["g/t"], store["u"] = made, made
    g = b2kit.open_group(path, mode="a")
    del g["g/t"]
    with blosc2.TreeStore(path, mode="r") as store:
        assert sorted(store.keys()) == ["/u"]
    g["g/t"] = np.arange(3)
    del g["u"]
    with blosc2.TreeStore(path, mode="r") as store:
        assert sorted(store.keys()) == ["/g", "/g/t"] and store["g/t"][:].tolist() == [0, 1, 2]


def test_what_breaks_a_table_is_refused(tmp_path):
    path = tmp_path / "t.b2d"
    table(path)
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("b2kit.dask")
    g = b2kit.open_group(path, mode="a")
    column, rows = g.array("_cols/id"), g.array("_valid_rows")
    refused = [
        lambda: column.append([1]),
        lambda: column.resize((5000,)),
        lambda: rows.__setitem__(3, False),
        lambda: g.__delitem__("_cols/id"),
        lambda: g.remove("_cols"),
        lambda: g.remove("_valid_rows"),
        lambda: g.__delitem__("_meta"),
        lambda: g.__setitem__("_cols/id", np.arange(3)),
        lambda: b2kit.asarray(np.arange(3), path / "_cols/id.b2nd", overwrite=True),
        lambda: b2kit.copy(column, path / "_valid_rows.b2nd", overwrite=True),
        lambda: b2kit.copy(column, path / "_meta.b2f", overwrite=True),
        lambda: dask.to_b2kit(da.arange(3), path / "_cols/id.b2nd", overwrite=True),
    ]
    for change in refused:
        with pytest.raises((errors.ArgumentError, errors.UnsupportedError), match="table"):
            change()
    assert ids_above(path, 2990) == list(range(2991, 3000))
    column.refresh()
    with column.edit(allow_table_edit=True) as change:
        change.append([1])
    g.remove("_cols/v", allow_table_edit=True)
    assert list(g.group("_cols")) == ["id"]
    # A whole table may be removed.
    both = b2kit.open_group(tmp_path / "both.b2d", mode="a")
    shutil.copytree(path, tmp_path / "both.b2d/inner")
    assert both.group("inner").kind == "CTable"
    del both["inner"]
    assert list(both) == []


def test_shared_stores_are_told_about_new_members(tmp_path):
    path = str(tmp_path / "s.b2d")
    with blosc2.TreeStore(path, mode="w", locking=True) as store:
        store["a"] = np.arange(10)
        g = b2kit.open_group(path, mode="a")
        g["b"] = np.arange(5)
        assert sorted(store.keys()) == ["/a", "/b"]
        del g["b"]
        assert sorted(store.keys()) == ["/a"]

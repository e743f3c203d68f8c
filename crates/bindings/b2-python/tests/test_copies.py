"""Copies of groups and paths, and inputs that are refused as arrays."""

from __future__ import annotations

import pathlib

import b2kit
import numpy as np
import pytest


@pytest.fixture
def group(tmp_path):
    root = b2kit.open_group(tmp_path / "store.b2d", mode="a")
    root.create("g/a", np.arange(5), attrs={"units": "m"})
    root.create("g/h/b", np.ones((2, 3)))
    root.group("g").attrs["title"] = "t"
    root.group("g/h").attrs["n"] = 1
    return root


def check(found):
    assert sorted(found) == ["a", "h"] and found.attrs.asdict() == {"title": "t"}
    assert found.array("a")[...].tolist() == [0, 1, 2, 3, 4] and found.array("a").attrs["units"] == "m"
    assert found.array("h/b").shape == (2, 3) and found.group("h").attrs["n"] == 1
    assert found.verify() == "ok"


def test_groups_are_copied_with_all_they_hold(tmp_path, group):
    group["copy"] = group["g"]
    check(group.group("copy"))
    group["deep/er"] = group["g"]
    check(group.group("deep/er"))
    other = b2kit.open_group(tmp_path / "other.b2d", mode="a")
    other["g"] = group["g"]
    other["g"] = group["g"]
    check(other.group("g"))
    assert sorted(other) == ["g"] and not list((tmp_path / "other.b2d").glob(".b2kit-*"))
    check(b2kit.copy(group["g"], tmp_path / "new.b2d"))
    check(b2kit.copy(group["g"], tmp_path / "new.b2z"))
    with pytest.raises(FileExistsError):
        b2kit.copy(group["g"], tmp_path / "new.b2z")
    check(b2kit.copy(group["g"], tmp_path / "new.b2z", overwrite=True))


def test_groups_are_not_copied_into_themselves(group):
    for key in ("g/x", "g", "g/h/x"):
        with pytest.raises(b2kit.errors.ArgumentError, match="itself"):
            group[key] = group["g"]
    with pytest.raises(b2kit.errors.ArgumentError, match="itself"):
        group["x"] = group
    with pytest.raises(b2kit.errors.ArgumentError, match="itself"):
        group["g"] = group["g/h"]
    check(group.group("g"))


def test_copies_keep_metalayers(tmp_path):
    a = b2kit.asarray(np.arange(4), meta={"m": [1, {"n": None}]}, attrs={"k": 1})
    for given in {}, {"dtype": "f8"}, {"attrs": {"l": 2}}, {"chunks": 2}, {"dtype": "i2", "attrs": {}}, {"meta": {"o": 3}}:
        made = b2kit.copy(a, **given)
        assert made.meta == {"m": [1, {"n": None}], **given.get("meta", {})}, given
        assert made.attrs.asdict() == {"k": 1, **given.get("attrs", {})}, given
    assert b2kit.copy(a, meta={"m": 3}).meta == {"m": 3}
    blosc2 = pytest.importorskip("blosc2")
    theirs = blosc2.asarray(np.arange(4), meta={"m": {"q": 1}})
    assert b2kit.copy(theirs).meta == {"m": {"q": 1}}
    assert b2kit.copy(theirs, meta={"o": 2}).meta == {"m": {"q": 1}, "o": 2}
    # What marks a cache, whose items python-blosc2 fetches, is no part of the copy.
    cache = blosc2.Proxy(theirs, urlpath=str(tmp_path / "cache.b2nd"), mode="w")
    assert b2kit.copy(cache)[...].tolist() == [0, 1, 2, 3]


def test_paths_are_opened(tmp_path):
    path = tmp_path / "a.b2nd"
    b2kit.asarray(np.arange(4), path, attrs={"k": 1})
    for n, given in enumerate((path, str(path))):
        copied = b2kit.copy(given, tmp_path / f"c{n}.b2nd")
        assert copied[...].tolist() == [0, 1, 2, 3] and copied.attrs["k"] == 1
    with pytest.raises(FileNotFoundError):
        b2kit.copy(str(tmp_path / "none.b2nd"), tmp_path / "d.b2nd")


def test_what_is_no_array_is_refused(tmp_path, group):
    for given in (group, group["g"], {"a": 1}, None, {1, 2}, (n for n in [1, 2]), iter([1]), pathlib.Path("a"), object()):
        with pytest.raises(TypeError):
            b2kit.asarray(given)
        with pytest.raises(TypeError):
            b2kit.asarray(given, tmp_path / "x.b2nd")
    with pytest.raises(TypeError):
        b2kit.copy(group)
    with pytest.raises(TypeError):
        b2kit.copy(group, tmp_path / "y.b2d", codec="lz4")
    assert not (tmp_path / "x.b2nd").exists() and not (tmp_path / "y.b2d").exists()

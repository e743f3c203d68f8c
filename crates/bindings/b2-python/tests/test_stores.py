"""Stores that refer to other files, and files that are not stores."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import b2kit
import numpy as np
import pytest
from b2kit import errors

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and FIFOs")

x = np.arange(60, dtype="i4").reshape(6, 10)


@pytest.fixture
def places(tmp_path):
    """A store, and files outside that must not be read or changed through it."""
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    g["a"] = x
    g.create("deep/x", x)
    g["deep"].attrs["units"] = "K"
    other = b2kit.open(tmp_path / "other.b2d", mode="a")
    other["secret"] = x + 100
    other.create("sparse", x + 100, sparse=True)
    other.attrs["key"] = "secret"
    return tmp_path / "s.b2d", tmp_path / "other.b2d"


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".b2lock"}


def test_links_in_a_store_are_not_followed(places):
    store, other = places
    before = content(other)
    (store / "link.b2nd").symlink_to(other / "secret.b2nd")
    (store / "sparse.b2nd").symlink_to(other / "sparse.b2nd")
    (store / "aside").symlink_to(other)
    (store / "embed.b2e").unlink()
    (store / "embed.b2e").symlink_to(other / "embed.b2e")
    with pytest.raises(b2kit.Error):
        list(b2kit.open(store, mode="a"))
    (store / "embed.b2e").unlink()
    (store / "__vlmeta__.b2f").symlink_to(other / "__vlmeta__.b2f")
    g = b2kit.open(store, mode="a")
    assert sorted(g) == ["a", "deep"] and dict(g.attrs) == {}
    calls = [
        lambda: g.attrs.update(key="changed"),
        lambda: g.create("aside/new", x),
        lambda: g.create("aside/secret", x, overwrite=True),
        lambda: g.__setitem__("aside/secret", b2kit.asarray(x)),
        lambda: g.create("link", x, overwrite=True),
        lambda: g.create("sparse", x, overwrite=True, sparse=True),
        lambda: g.create_group("aside/below"),
        lambda: g["link"],
        lambda: g["aside/secret"],
        lambda: g["sparse"],
        lambda: g.__delitem__("aside"),
    ]
    for n, call in enumerate(calls):
        with pytest.raises(b2kit.Error):
            call()
            pytest.fail(f"call {n}")
        assert content(other) == before, n
    # Deleting a group with a link removes the link, not its target.
    (store / "deep/away").symlink_to(other)
    del g["deep"]
    assert list(g) == ["a"] and content(other) == before and not (store / "deep").exists()


def test_what_becomes_a_link_after_opening_is_not_followed(places):
    """The directory of open arrays and edits is replaced between check and use."""
    store, other = places
    g = b2kit.open(store, mode="a")
    g.create("deep/sparse", x, sparse=True)
    b2kit.open(other, mode="a").create("x", x + 100)
    before = content(other)
    a, sparse, group = g["deep/x"], g["deep/sparse"], g["deep"]
    (store / "deep").rename(store.parent / "away")
    (store / "deep").symlink_to(other)
    assert (a[...] == x).all()
    for call in (
        a.refresh,
        lambda: a.__setitem__(0, -1),
        lambda: sparse[...],
        lambda: sparse.__setitem__(0, -1),
        lambda: group.attrs.update(key=1),
        lambda: group.create("new", x),
        lambda: group["secret"],
    ):
        with pytest.raises(b2kit.Error):
            call()
        assert content(other) == before


def test_links_are_exchanged_while_a_store_is_read_and_written(places):
    """In thousands of attempts, nothing outside is read or changed."""
    store, other = places
    b2kit.open(other, mode="a").create("x", x + 100)
    before = content(other)
    (store / "link").symlink_to(other)
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            os.rename(store / "deep", store / "was")
            os.rename(store / "link", store / "deep")
            os.rename(store / "deep", store / "link")
            os.rename(store / "was", store / "deep")

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        g = b2kit.open(store, mode="a")
        for n in range(300):
            try:
                assert (g["deep/x"][...] < 100).all()
                g["deep/x"][0] = n % 50
            except b2kit.Error:
                pass
            try:
                g.create("deep/new", x, overwrite=True, sync=False)
                g["deep"].attrs["n"] = n
            except b2kit.Error:
                pass
    finally:
        stop.set()
        thread.join()
    assert content(other) == before


def test_names_from_files_do_not_control_the_terminal(tmp_path):
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    g["plain"] = x
    os.rename(tmp_path / "s.b2d/plain.b2nd", tmp_path / "s.b2d/\x1b[31mred\x07\u202e.b2nd")
    a = b2kit.asarray(x, attrs={"\x1b[2Jname": 1})
    g.attrs["\x1b[2Jname"] = "\x1b[2J"
    for shown in (repr(g), repr(b2kit.open(tmp_path / "s.b2d").attrs), repr(a.info), repr(a), repr(a.attrs), a._repr_html_()):
        assert all(c.isprintable() or c == "\n" for c in shown), repr(shown)
    assert "\\x1b[31mred" in repr(g) and "\\x1b[2Jname" in repr(a.info)


def test_a_store_and_the_path_to_it_may_be_links(places, tmp_path):
    store, _ = places
    (tmp_path / "named.b2d").symlink_to(store)
    g = b2kit.open(tmp_path / "named.b2d", mode="a")
    g["deep/x"][0] = -1
    g.attrs["title"] = "t"
    again = b2kit.open(store)
    assert (again["deep/x"][0] == -1).all() and again.attrs["title"] == "t"


FIFOS = """
import os, sys, b2kit
from b2kit import Group, errors
path = sys.argv[1]
os.chdir(path)
os.mkfifo("fifo"); os.mkfifo("fifo.b2nd"); os.mkfifo("fifo.b2d"); os.mkfifo("fifo.b2z")
for name in ("fifo", "fifo.b2nd", "fifo.b2d", "fifo.b2z", "/dev/zero"):
    for call in (b2kit.open, b2kit.verify, lambda name: b2kit.open(name, mode="a"), lambda name: list(Group(name)), lambda name: b2kit.open(name, key="a")):
        try:
            call(name)
            raise SystemExit(f"{name}: opened")
        except b2kit.Error as error:
            assert name in str(error), error
g = b2kit.open("s.b2d", mode="a")
os.mkfifo("s.b2d/pipe.b2nd"); os.mkfifo("s.b2d/__vlmeta__.b2f")
assert sorted(g) == ["a", "deep"], list(g)
for call in (lambda: g["pipe"], lambda: g.attrs.update(a=1), lambda: g.create("pipe", [1], overwrite=True)):
    try:
        call()
        raise SystemExit("a FIFO was taken")
    except b2kit.Error:
        pass
for sparse in (True, False):
    a = b2kit.asarray([1, 2, 3], "locked.b2nd", sparse=sparse, overwrite=not sparse) if sparse else b2kit.asarray([1, 2, 3], "file.b2nd")
    lock = "locked.b2nd/.b2lock" if sparse else "file.b2nd.b2lock"
    if os.path.exists(lock):
        os.remove(lock)
    os.mkfifo(lock)
    try:
        a[0] = 2
        raise SystemExit("locked by a FIFO")
    except b2kit.Error as error:
        assert ".b2lock" in str(error), error
print("done")
"""


def test_fifos_never_block(places, tmp_path):
    done = subprocess.run([sys.executable, "-c", FIFOS, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n" and done.returncode == 0, (done.stdout, done.stderr[-3000:])


def test_errors_of_the_system_are_those_of_the_package(tmp_path):
    with pytest.raises(errors.NotFoundError, match="nothing"):
        b2kit.open(tmp_path / "nothing" / "s.b2d", mode="a")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(b2kit.Error, match="file"):
        b2kit.open(tmp_path / "file" / "s.b2d", mode="a")
    with pytest.raises(b2kit.Error, match="missing"):
        b2kit.Group(tmp_path / "missing.b2d")["a"]


def test_verify_sees_what_the_command_sees(tmp_path):
    group = b2kit.open_group(tmp_path / "s.b2d", mode="a")
    group.create("a", np.arange(10))
    group.create("g/b", np.arange(10.0))
    group.save(tmp_path / "s.b2z")
    whole = (tmp_path / "s.b2z").read_bytes()
    expected = {key: array[...].tobytes() for key, array in b2kit.open_group(tmp_path / "s.b2z").walk()}
    assert b2kit.verify(tmp_path / "s.b2z") == "ok"
    directory = whole.index(b"PK\1\2")
    unnoticed = 0
    for at in range(directory, len(whole)):
        odd = bytearray(whole)
        odd[at] ^= 0xFF
        (tmp_path / "odd.b2z").write_bytes(odd)
        try:
            b2kit.verify(tmp_path / "odd.b2z")
        except b2kit.errors.Error:
            continue
        found = {key: array[...].tobytes() for key, array in b2kit.open_group(tmp_path / "odd.b2z").walk()}
        assert found == expected, at
        unnoticed += 1
    # Times, versions and attributes of files.
    assert unnoticed < (len(whole) - directory) / 2

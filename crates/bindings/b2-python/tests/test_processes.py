"""Pickling, processes, threads, and Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import b2kit
import numpy as np
import pytest

x = np.arange(200_000, dtype="i4").reshape(400, 500)


def made(tmp_path, **options):
    return b2kit.asarray(x, tmp_path / "a.b2nd", chunks=(100, 100), **options)


def test_pickling(tmp_path):
    a = made(tmp_path)
    again = pickle.loads(pickle.dumps(a))
    assert (again.path, again.mode) == (str(tmp_path / "a.b2nd"), "a") and (again[...] == x).all()
    assert len(pickle.dumps(a)) < 1000
    memory = b2kit.asarray(x)
    again = pickle.loads(pickle.dumps(memory))
    assert (again[...] == x).all()
    again[0] = 0
    assert (memory[...] == x).all()
    again = pickle.loads(pickle.dumps(b2kit.open(tmp_path / "a.b2nd", threads=2)))
    assert again.threads == 2
    with pytest.raises(TypeError):
        pickle.dumps(b2kit.open((tmp_path / "a.b2nd").open("rb")))
    g = b2kit.open(tmp_path / "s.b2d", mode="a")
    g.create("deep/x", x)
    assert list(pickle.loads(pickle.dumps(g["deep"]))) == ["x"]
    assert (pickle.loads(pickle.dumps(g["deep/x"]))[...] == x).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_relative_paths_after_a_change_of_directory(tmp_path, monkeypatch, sparse):
    """Open arrays, pickles and Dask tokens keep referring to the same file; nothing else is read or changed."""
    first, second = tmp_path / "first", tmp_path / "second"
    ones = np.ones_like(x)
    for folder, items in ((first, x), (second, ones)):
        folder.mkdir()
        b2kit.asarray(items, folder / "a.b2nd", chunks=(100, 100), sparse=sparse)
        b2kit.open(folder / "s.b2d", mode="a").create("deep/x", items)
    monkeypatch.chdir(first)
    os.symlink("../second", "aside")
    a, w, r = b2kit.open("a.b2nd"), b2kit.open("./a.b2nd", mode="a"), b2kit.open("a.b2nd")
    g, linked = b2kit.open("s.b2d", mode="a"), b2kit.open("aside/../second/a.b2nd")
    member = g["deep/x"]
    new = b2kit.asarray(x, "new.b2nd")
    token, deep_token = a.__dask_tokenize__(), member.__dask_tokenize__()
    with w.edit() as e:
        e[1] = -2
        monkeypatch.chdir(second)
    # A sparse frame opens chunk files when they are read, and this one has changed in the meantime.
    assert r.refresh() and (r[0] == x[0]).all() and (r[1] == -2).all()
    w[0] = -1
    new[0] = -3
    g.attrs["units"] = "K"
    g["deep/x"][0] = -4
    g["y"] = x
    assert (b2kit.open(second / "a.b2nd")[...] == 1).all() and (b2kit.open(second / "s.b2d/deep/x.b2nd")[...] == 1).all()
    assert sorted(os.listdir(second)) == sorted({*os.listdir(second)} & {"a.b2nd", "a.b2nd.b2lock", "s.b2d"})
    assert list(b2kit.open("s.b2d")) == ["deep"] and dict(b2kit.open("s.b2d").attrs) == {}
    for found in (w, b2kit.open(first / "a.b2nd"), pickle.loads(pickle.dumps(r)), pickle.loads(pickle.dumps(w))):
        assert (found[:2] == [[-1], [-2]]).all() and (found[2:] == x[2:]).all()
        assert found.path == str(first / "a.b2nd")
    assert (pickle.loads(pickle.dumps(new))[0] == -3).all() and (new[1:] == x[1:]).all()
    assert (pickle.loads(pickle.dumps(member))[0] == -4).all() and (pickle.loads(pickle.dumps(g))["deep/x"][0] == -4).all()
    assert (pickle.loads(pickle.dumps(linked))[...] == 1).all()
    assert r.__dask_tokenize__()[:2] == token[:2] == ("b2kit.Array", str(first / "a.b2nd"))
    assert deep_token[1] == str(first / "s.b2d/deep/x.b2nd")


def test_a_missing_directory_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(b2kit.Error, match="a.b2nd"):
        b2kit.open("a.b2nd")


def test_pickling_members_of_archives(tmp_path):
    blosc2 = pytest.importorskip("blosc2")
    for name in ("s.b2z", "s.b2e"):
        store = blosc2.TreeStore if name == "s.b2z" else blosc2.EmbedStore
        tree = store(str(tmp_path / name), mode="w") if name == "s.b2z" else store(urlpath=str(tmp_path / name), mode="w")
        tree["/x"] = x
        tree["/y"] = x + 1
        if name == "s.b2z":
            tree.close()
        del tree
        g = b2kit.open(tmp_path / name)
        assert (pickle.loads(pickle.dumps(g["y"]))[...] == x + 1).all()
        assert g["x"].__dask_tokenize__() != g["y"].__dask_tokenize__()
        assert g["x"].__dask_tokenize__() == b2kit.open(tmp_path / name)["x"].__dask_tokenize__()


def test_tokens(tmp_path):
    a = made(tmp_path)
    token = a.__dask_tokenize__()
    assert token == b2kit.open(tmp_path / "a.b2nd").__dask_tokenize__()
    a[0] = 9
    assert token != a.__dask_tokenize__()
    memory = b2kit.asarray(x)
    assert memory.__dask_tokenize__() == b2kit.asarray(x).__dask_tokenize__() != b2kit.asarray(x + 1).__dask_tokenize__()


def total(array):
    return int(array[...].sum())


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes(tmp_path, way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {way} here")
    a = made(tmp_path)
    # The parent's thread pool is in use before the fork.
    assert total(a) == x.sum()
    with ProcessPoolExecutor(2, multiprocessing.get_context(way)) as pool:
        assert list(pool.map(total, [a, b2kit.asarray(x), b2kit.open(a.path)])) == [x.sum()] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_inherited_by_a_fork(tmp_path):
    a = made(tmp_path)
    assert total(a) == x.sum()
    threads = [threading.Thread(target=total, args=(a,)) for _ in range(4)]
    [thread.start() for thread in threads]
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            right = total(a) == x.sum() and total(b2kit.asarray(x)) == x.sum()
            os._exit(0 if right else 1)
        children.append(child)
    [thread.join() for thread in threads]
    for child in children:
        deadline = time.monotonic() + 60
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if done == (0, 0):
            os.kill(child, signal.SIGKILL)
        assert done[1] == 0


def crops(path, seed):
    """The sum of a batch of crops, of an array that is opened here."""
    boxes = [np.s_[n : n + 90, 3 * n : 3 * n + 150] for n in range(seed, 100, 9)]
    a = b2kit.open(path)
    assert (a.read_boxes(boxes) == np.stack([x[box] for box in boxes])).all()
    return seed


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_read_boxes(tmp_path, way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {way} here")
    path = made(tmp_path).path
    # The parent's thread pool is in use before the fork.
    assert crops(path, 0) == 0
    with ProcessPoolExecutor(4, multiprocessing.get_context(way)) as pool:
        assert list(pool.map(crops, [path] * 8, range(8))) == list(range(8))


def test_threads_read_at_once(tmp_path):
    a = made(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda n: a[n], range(len(x))))
    np.testing.assert_array_equal(rows, x)


def test_readers_see_one_state_or_the_other(tmp_path):
    a = b2kit.zeros((100, 100), "i4", tmp_path / "a.b2nd", chunks=(10, 10))
    stop = threading.Event()
    torn = []

    def read():
        while not stop.is_set():
            items = a[...]
            if items.min() != items.max():
                torn.append(items)

    readers = [threading.Thread(target=read) for _ in range(3)]
    [reader.start() for reader in readers]
    for n in range(1, 30):
        with a.edit(sync=False) as e:
            e[:50] = n
            e[50:] = n
    stop.set()
    [reader.join() for reader in readers]
    assert not torn and (a[...] == 29).all()


def test_others_run_meanwhile():
    """The GIL is not held while an array is read."""
    a = b2kit.asarray(np.random.default_rng(0).random(8_000_000), threads=1)
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    before = ticks
    for _ in range(3):
        a[...]
    during = ticks - before
    stop.set()
    other.join()
    assert during > 5


@pytest.mark.parametrize("what", ["read", "write", "append", "verify", "rows"])
def test_interrupts(tmp_path, what):
    """Ctrl-C ends long calls, and leaves nothing half done."""
    script = f"""
import b2kit, numpy as np, os, signal, sys, threading, time
x = np.random.default_rng(0).integers(0, 1000, (40, 1000, 1000))
path = {str(tmp_path / "a.b2nd")!r}
a = b2kit.asarray(x[:4], path, level=1)
big = b2kit.asarray(x)
out = np.empty((40, 1000, 1000), "i8")
def read():
    for _ in range(1000): big.read(out=out)
def append():
    with a.edit(sync=False) as e:
        for _ in range(1000): e.append(x)
calls = {{
    "read": read,
    "write": lambda: b2kit.asarray(x, {str(tmp_path / "b.b2nd")!r}, level=9),
    "append": append,
    "verify": lambda: [a.verify() for _ in range(1000)],
    "rows": lambda: [a[[0, 3, 1]] for _ in range(1000)],
}}
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.4, interrupt).start()
try:
    calls[{what!r}]()
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
    assert (b2kit.open(path)[...] == x[:4]).all() and a.shape == (4, 1000, 1000)
    a[0] = 1
    sys.exit(0)
sys.exit("it was not interrupted")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # The guarantee is 0.1 s on an idle machine; the measured time is printed.
    print(what, done.stdout.strip())
    assert sorted(os.listdir(tmp_path)) in (["a.b2nd"], ["a.b2nd", "a.b2nd.b2lock"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_fifo_in_place_of_the_lock_hangs_nobody(tmp_path, sparse):
    made(tmp_path, sparse=sparse)
    lock = tmp_path / "a.b2nd" / ".b2lock" if sparse else tmp_path / "a.b2nd.b2lock"
    os.mkfifo(lock)
    script = f"""
import b2kit
a = b2kit.open({str(tmp_path / "a.b2nd")!r}, mode="a")
try:
    a[0] = 1
except b2kit.errors.IoError as error:
    assert ".b2lock" in str(error) and (a[0, :3] == [0, 1, 2]).all(), error
else:
    raise SystemExit("not refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_no_memory_is_lost(tmp_path):
    a = made(tmp_path)
    out = np.empty_like(x)

    def use():
        a[1:50, ::2]
        a[[1, 2], [3, 4]]
        a.read(out=out)
        a.attrs
        pickle.loads(pickle.dumps(a))
        with pytest.raises(IndexError):
            a[1000]

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("no /proc here")
    tracemalloc.start()
    for _ in range(200):
        use()
    before, _ = tracemalloc.get_traced_memory()
    resident_before = resident()
    for _ in range(1000):
        use()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000
    # A thousand leaked results would take 40 MB or more.
    assert resident() - resident_before < 20 << 20


def in_time(code, *args, seconds=60):
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), (done.stdout, done.stderr[-3000:])


def test_a_callback_cannot_use_the_change_it_is_told_of(tmp_path):
    """The callback runs on a thread that works for the change, so it would wait for itself."""
    in_time(
        """
import sys, b2kit, numpy as np
x = np.random.default_rng(0).integers(0, 1 << 60, (4000, 1000))
path = sys.argv[1] + "/a.b2nd"
a = b2kit.asarray(x[:10], path, chunks=(100, 1000))
raised = []
def callback(call):
    def reported(done, total):
        try:
            call()
        except b2kit.errors.ArgumentError as error:
            raised.append(str(error))
            raise
    return reported
def again():
    a[0] = 1
for call in (lambda e: e.shape, lambda e: e[0], lambda e: e.append(x[:1]), lambda e: e.attrs.asdict(), lambda e: again()):
    raised.clear()
    try:
        with a.edit() as e:
            e.append(x, progress=callback(lambda: call(e)))
        raise SystemExit("no error")
    except b2kit.errors.ArgumentError as error:
        assert "callback" in str(error) and raised, error
assert a.shape == (10, 1000) and (b2kit.open(path)[...] == x[:10]).all()
# Another array, or a snapshot of the array itself, can be used.
seen = []
b = b2kit.zeros((3,), "i4")
with a.edit() as e:
    e.append(x, progress=lambda done, total: (seen.append(a.shape), b.__setitem__(0, len(seen))))
assert seen and b[0] == len(seen) and a.shape == (4010, 1000)
print("done")
""",
        tmp_path,
    )


def test_two_calls_do_not_read_into_the_same_memory(tmp_path):
    in_time(
        """
import sys, threading, b2kit, numpy as np
x = np.arange(640_000).reshape(800, 800)
for codec in ("zlib",):
    a = b2kit.asarray(x, codec=codec, chunks=(200, 800))
    b = b2kit.asarray(x + 1, codec=codec, chunks=(200, 800))
    refused, read = [], 0
    for layout in ("whole", "reversed", "inside", "gaps"):
        base = np.empty((800, 1600), x.dtype)
        whole = np.empty_like(x)
        out = base[:, ::2] if layout == "gaps" else whole
        other = {"whole": whole, "reversed": whole[::-1], "inside": whole[100:700], "gaps": base[:, ::2]}[layout]
        for n in range(10):
            started = threading.Barrier(2)
            def second():
                started.wait()
                try:
                    b.read(slice(0, len(other)), out=other)
                except b2kit.errors.ArgumentError as error:
                    assert "out" in str(error)
                    refused.append(1)
            thread = threading.Thread(target=second)
            thread.start()
            started.wait()
            try:
                a.read(out=out)
            except b2kit.errors.ArgumentError as error:
                assert "out" in str(error)
                refused.append(1)
            thread.join()
    assert refused, "the calls never met"
    # Afterwards, and concurrently, nothing is refused.
    assert (a.read(out=whole) == x).all()
    half = np.empty((800, 1600), x.dtype)
    threads = [threading.Thread(target=lambda n=n: a.read(out=half[:, 800 * n : 800 * n + 800])) for n in (0, 1)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert (half == np.hstack([x, x])).all()
print("done")
""",
        tmp_path,
        seconds=120,
    )

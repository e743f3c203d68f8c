"""Dask: threads, processes, and clusters whose workers have less memory than the array, or are killed."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import b2kit

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

from b2kit.dask import clean, from_b2kit, to_b2kit  # noqa: E402


@pytest.fixture(params=["synchronous", "threads", "processes"])
def scheduler(request):
    with dask.config.set(scheduler=request.param, num_workers=2):
        yield request.param


@pytest.fixture
def cluster():
    """Creates clusters of two processes."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    made = []

    def make(**options):
        warnings.simplefilter("ignore")
        given = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None, **options}
        made.append(distributed.LocalCluster(**given))
        made.append(distributed.Client(made[-1]))
        return made[-1]

    with warnings.catch_warnings():
        yield make
        for one in reversed(made):
            one.close()


def items(shape=(50, 40)):
    return np.arange(np.prod(shape), dtype="f4").reshape(shape)


def leftovers(folder):
    return [name for name in os.listdir(folder) if name != "a.b2nd"]


def test_reading(tmp_path, scheduler):
    a = b2kit.asarray(items(), tmp_path / "a.b2nd", chunks=(16, 13))
    for x in from_b2kit(a), from_b2kit(tmp_path / "a.b2nd"), from_b2kit(b2kit.asarray(items(), chunks=(16, 13))):
        assert x.chunks == ((16, 16, 16, 2), (13, 13, 13, 1))
        np.testing.assert_array_equal(x[3:40:2, ::-1].compute(), items()[3:40:2, ::-1])
        if scheduler != "processes":
            assert float((x + x.T.T).sum().compute()) == 2 * items().sum()
    assert from_b2kit(a, chunks=(32, -1)).chunks == ((32, 18), (40,))
    np.testing.assert_array_equal(da.from_array(a, chunks=a.chunks).max(axis=0).compute(), items().max(axis=0))


def test_names_tell_the_content(tmp_path):
    path = tmp_path / "a.b2nd"
    a = b2kit.asarray(items(), path)
    assert from_b2kit(a).name == from_b2kit(path).name
    before = from_b2kit(a).name
    a[0] = 7
    assert from_b2kit(b2kit.open(path)).name != before
    assert from_b2kit(path, chunks=(10, 40)).name != from_b2kit(path).name


def test_graphs_are_small(tmp_path):
    import cloudpickle

    a = b2kit.asarray(np.zeros((1000, 1000)), tmp_path / "a.b2nd", chunks=(100, 100))
    graph = from_b2kit(a).dask
    assert len(cloudpickle.dumps(graph)) < 5000


@pytest.mark.parametrize("sparse", [False, True])
def test_writing(tmp_path, scheduler, sparse):
    x = da.from_array(items(), chunks=(16, 20))
    path = tmp_path / "a.b2nd"
    a = to_b2kit(x, path, codec="lz4", level=3, attrs={"units": "K"}, sparse=sparse)
    np.testing.assert_array_equal(a[...], items())
    assert (a.chunks, a.codec, a.attrs["units"]) == ((16, 20), "lz4", "K")
    assert os.path.isdir(path) is sparse and leftovers(tmp_path) == []
    assert a.verify() == "ok"
    with pytest.raises(FileExistsError):
        to_b2kit(x, path)
    np.testing.assert_array_equal(to_b2kit(x + 1, path, overwrite=True, sparse=sparse)[...], items() + 1)
    assert leftovers(tmp_path) == []


def test_the_bytes_are_those_of_one_writer(tmp_path):
    """Everything is compressed as by `asarray`, including chunks at the edges and chunks of zeros."""
    x = items((70, 45))
    x[:32] = 0
    to_b2kit(da.from_array(x, chunks=(32, 15)), tmp_path / "a.b2nd", chunks=(16, 5), codec="lz4")
    b2kit.asarray(x, tmp_path / "b.b2nd", chunks=(16, 5), codec="lz4")
    assert (tmp_path / "a.b2nd").read_bytes() == (tmp_path / "b.b2nd").read_bytes()


@pytest.mark.parametrize("chunks", [((7, 43), (40,)), ((25, 25), (10, 20, 10)), ((50,), (1,) * 40)])
def test_partitions_off_the_grid(tmp_path, chunks):
    x = da.from_array(items(), chunks=chunks)
    with pytest.raises(ValueError, match="borders"):
        to_b2kit(x, tmp_path / "a.b2nd", chunks=(8, 16), rechunk=False)
    assert os.listdir(tmp_path) == []
    a = to_b2kit(x, tmp_path / "a.b2nd", chunks=(8, 16))
    assert a.chunks == (8, 16)
    np.testing.assert_array_equal(a[...], items())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "M8[s]", "<U3", [("a", "i4"), ("b", "f8")]])
def test_shapes_and_dtypes(tmp_path, shape, dtype):
    x = np.zeros(shape, dtype)
    a = to_b2kit(da.from_array(x, chunks=-1), tmp_path / "a.b2nd")
    assert (a.shape, a.dtype) == (shape, x.dtype)
    np.testing.assert_array_equal(a[...], x)
    np.testing.assert_array_equal(from_b2kit(a).compute(), x)


def test_later(tmp_path):
    done = to_b2kit(da.from_array(items(), chunks=20), tmp_path / "a.b2nd", compute=False)
    assert os.listdir(tmp_path) == []
    done.compute()
    np.testing.assert_array_equal(b2kit.open(tmp_path / "a.b2nd")[...], items())
    assert leftovers(tmp_path) == []


def test_errors_leave_nothing(tmp_path, scheduler):
    def fail(block):
        if block.shape == (10, 20):
            raise RuntimeError("no such weather")
        return block

    x = da.from_array(items(), chunks=(20, 20)).map_blocks(fail, dtype="f4", meta=np.empty((0, 0), "f4"))
    with pytest.raises(RuntimeError, match="weather"):
        to_b2kit(x, tmp_path / "a.b2nd")
    assert os.listdir(tmp_path) == []
    unknown = da.from_array(items(), chunks=20)
    for wrong, what in (
        (lambda: to_b2kit(items(), tmp_path / "a.b2nd"), TypeError),
        (lambda: to_b2kit(unknown[unknown > 3], tmp_path / "a.b2nd"), ValueError),
        (lambda: to_b2kit(unknown, tmp_path / "a.b2nd", chunks=(3,)), ValueError),
        (lambda: to_b2kit(unknown, tmp_path / "a.b2nd", threads=3), TypeError),
        (lambda: to_b2kit(unknown, tmp_path / "a.b2nd", codec="none such"), ValueError),
        (lambda: to_b2kit(unknown, "https://example.org/a.b2nd"), ValueError),
        (lambda: to_b2kit(unknown.astype(object), tmp_path / "a.b2nd"), TypeError),
    ):
        with pytest.raises(what):
            wrong()
        assert os.listdir(tmp_path) == []


def test_tasks_that_run_twice_do_no_harm(tmp_path):
    """As when a worker is lost after writing, but before reporting."""
    from b2kit import dask as ours

    once, calls = ours._write_part, []

    def twice(*args):
        once(*args)
        calls.append(args)
        return once(*args)

    ours._write_part = twice
    try:
        with dask.config.set(scheduler="synchronous"):
            a = to_b2kit(da.from_array(items(), chunks=20), tmp_path / "a.b2nd")
    finally:
        ours._write_part = once
    assert len(calls) == 6
    np.testing.assert_array_equal(a[...], items())
    assert leftovers(tmp_path) == []


def test_the_last_task_may_run_again(tmp_path):
    from b2kit import dask as ours

    once = ours._finish

    def twice(run, names):
        assert once(run, names) == once(run, names)
        return run.target

    ours._finish = twice
    try:
        with dask.config.set(scheduler="synchronous"):
            a = to_b2kit(da.from_array(items(), chunks=20), tmp_path / "a.b2nd")
    finally:
        ours._finish = once
    np.testing.assert_array_equal(a[...], items())
    assert leftovers(tmp_path) == []


def test_what_a_killed_run_left_can_be_removed(tmp_path):
    path = tmp_path / "a.b2nd"
    to_b2kit(da.from_array(items(), chunks=20), path)
    stage = tmp_path / "a.b2nd.parts-0123"
    stage.mkdir()
    (stage / "x.b2nd").write_bytes(b"half")
    assert clean(path) == [str(stage)]
    assert os.listdir(tmp_path) == ["a.b2nd"]


def test_an_array_larger_than_the_memory_of_workers(tmp_path, cluster):
    """512 MB and workers of 400 MB each, 150 MB of which Python and Dask use: a rechunk and a reduction."""
    side = 256
    shape = (8 * side, side, side)
    client = cluster(memory_limit="400MB")
    x = da.random.default_rng(3).random(shape, chunks=(32, side, side), dtype="f4")
    path, other = tmp_path / "a.b2nd", tmp_path / "b.b2nd"
    a = to_b2kit(x, path, codec="lz4", level=1, chunks=(32, 64, side))
    assert a.nbytes == 4 * np.prod(shape) == 536_870_912 > 400e6
    total = float(from_b2kit(a).sum(dtype="f8").compute())
    # Other chunks, made by the workers.
    b = to_b2kit(from_b2kit(a).rechunk((side, 32, 128)), other, codec="lz4", level=1)
    assert b.chunks == (side, 32, 128)
    assert len(client.scheduler_info()["workers"]) == 2
    expected, found = 0.0, 0.0
    for start in range(0, shape[0], side):
        rows, same = a[start : start + side], b[start : start + side]
        np.testing.assert_array_equal(rows, same)
        expected += float(rows.sum(dtype="f8"))
        found += float(same.sum(dtype="f8"))
    assert abs(total - expected) < 1e-9 * abs(expected) and found == expected
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "b.b2nd"]


def slowly(block):
    time.sleep(0.05)
    return block + 1


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.full)])
def test_workers_that_are_killed_in_the_middle(tmp_path, cluster, kills):
    """The array is complete and correct, or does not exist."""
    client = cluster()
    x = da.from_array(items((400, 40)), chunks=(5, 40)).map_blocks(slowly, dtype="f4", meta=np.empty((0, 0), "f4"))
    path, killed = tmp_path / "a.b2nd", []

    def kill():
        while len(killed) < kills:
            stage = [name for name in os.listdir(tmp_path) if ".parts-" in name]
            written = len(os.listdir(tmp_path / stage[0])) if stage else 0
            if written < 8 + 20 * len(killed):
                time.sleep(0.01)
                continue
            workers = list(client.scheduler_info()["workers"].values())
            pids = list(client.run(os.getpid, on_error="ignore").values())
            assert workers
            os.kill(pids[0], signal.SIGKILL)
            killed.append(path.exists())

    killer = threading.Thread(target=kill)
    killer.start()
    a = to_b2kit(x, path)
    killer.join()
    assert killed == [False] * kills
    np.testing.assert_array_equal(a[...], items((400, 40)) + 1)
    assert a.verify() == "ok" and leftovers(tmp_path) == []


@pytest.mark.parametrize("shape", [(0,), (0, 30), (4, 0, 3)])
def test_empty_arrays_can_grow(tmp_path, shape):
    a = to_b2kit(da.zeros(shape, dtype="f4", chunks=-1), tmp_path / "a.b2nd")
    assert a.shape == shape and all(a.chunks)
    assert np.prod(a.chunks) >= 1000
    grown = tuple(n or 5 for n in shape)
    b2kit.open_array(tmp_path / "a.b2nd", mode="a").resize(grown)
    assert b2kit.open(tmp_path / "a.b2nd").shape == grown


@pytest.mark.parametrize("blocks, declared", [("i8", "f8"), ("f8", "i8"), (">i4", "i4"), ("f8", "f4"), ("<U2", "<U5"), ("m8[s]", "m8[ms]")])
def test_partitions_of_another_type_than_dask_knows(tmp_path, blocks, declared):
    x = np.arange(40).astype(blocks)
    lazy = da.arange(40, chunks=9).map_blocks(lambda block: block.astype(blocks), dtype=declared, meta=np.empty(0, declared))
    a = to_b2kit(lazy, tmp_path / "a.b2nd")
    assert a.dtype == declared and a[...].tolist() == x.astype(declared).tolist()
    # The type that is asked for.
    a = to_b2kit(da.from_array(x, chunks=9), tmp_path / "b.b2nd", dtype=declared)
    assert a.dtype == declared and a[...].tolist() == x.astype(declared).tolist()


@pytest.mark.parametrize(
    "wrong, declared", [(lambda block: block + 0.5, "i8"), (lambda block: block - 9, "u1"), (lambda block: np.ma.masked_equal(block, 1), "i8")]
)
def test_partitions_whose_values_would_change_are_refused(tmp_path, wrong, declared):
    lazy = da.arange(10, chunks=5).map_blocks(wrong, dtype=declared, meta=np.empty(0, declared))
    with pytest.raises((ValueError, TypeError)):
        to_b2kit(lazy, tmp_path / "a.b2nd")
    assert os.listdir(tmp_path) == []

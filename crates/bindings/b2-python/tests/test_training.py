"""``b2kit.training``: crops of random images, equal to those that NumPy cuts, and the metadata of mlarray."""

import gzip
import os
import pickle
import random
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import b2kit
from b2kit.errors import ArgumentError, DamagedError
from b2kit.training import CropDataset, read_metadata

SEED = random.randrange(1 << 30)


def images(folder, rng, ndim, count=4):
    """Returns the files of some cases and their items."""
    channels = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 2)))
    dtype = rng.choice(["f4", "i2", "u1", ">f8", "f2"])
    cases, items = [], []
    for n in range(count):
        shape = tuple(int(length) for length in rng.integers(1, 30, ndim))
        image = rng.integers(0, 100, channels + shape).astype(dtype)
        labels = rng.integers(-1, 3, shape).astype("i1")
        case = {}
        for name, x in (("image", image), ("labels", labels)):
            case[name] = os.path.join(folder, f"{n}_{name}.b2nd")
            codec = str(rng.choice(["lz4", "lz4hc", "zstd"]))
            b2kit.asarray(x, case[name], codec=codec, chunks=tuple(max(1, length // 2) for length in x.shape))
        cases.append(case)
        items.append({"image": image, "labels": labels})
    return cases, items


def cut(x, start, crop, pad_value):
    """Cuts a crop item by item along each dimension."""
    for axis, (first, length) in enumerate(zip(start, crop, strict=True), x.ndim - len(crop)):
        places = np.arange(first, first + length)
        inside = (places >= 0) & (places < x.shape[axis])
        taken = np.take(x, np.clip(places, 0, x.shape[axis] - 1), axis)
        mask = inside.reshape([-1 if dim == axis else 1 for dim in range(x.ndim)])
        x = np.where(mask, taken, np.array(pad_value, x.dtype))
    return x


@pytest.mark.parametrize("turn", range(12))
def test_crops_are_those_of_numpy(tmp_path, turn):
    rng = np.random.default_rng((SEED, turn))
    ndim = int(rng.integers(1, 4))
    cases, items = images(tmp_path, rng, ndim)
    crop = tuple(int(length) for length in rng.integers(1, 25, ndim))
    per_case = int(rng.integers(1, 3))
    beyond = bool(rng.integers(2))
    options = {
        "batch": per_case * int(rng.integers(1, 4)),
        "per_case": per_case,
        "pad_value": {"image": 7, "labels": -1},
        # Also crops without any item of the image.
        "sampler": (lambda rng, case, shape: rng.integers(-30, 30, len(shape))) if beyond else None,
        "threads": int(rng.integers(1, 3)),
    }
    data = CropDataset(cases, crop, batches=5, seed=turn, **options)
    for n, batch in enumerate(data):
        assert batch["image"].dtype == items[0]["image"].dtype and batch["image"].flags.c_contiguous
        for at, (case, start) in enumerate(zip(batch["case"], batch["start"], strict=True)):
            assert not at % per_case or case == batch["case"][at - 1]
            for name, pad_value in options["pad_value"].items():
                expected = cut(items[case][name], start, crop, pad_value)
                assert batch[name][at].tobytes() == expected.astype(batch[name].dtype).tobytes(), (SEED, turn, n, name, start)
            if not beyond:
                for first, side, length in zip(start, crop, items[case]["labels"].shape, strict=True):
                    assert 0 <= first <= length - side if side <= length else first == -((side - length) // 2)
    assert n == 4


def same(a, b):
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def test_batches_depend_on_seed_epoch_and_number(tmp_path):
    rng = np.random.default_rng(SEED)
    cases, _ = images(tmp_path, rng, 3)
    data = CropDataset(cases, (5, 5, 5), batches=12, seed=3)
    expected = [data[n] for n in range(12)]
    assert len(data) == 12 and same(data[-1], expected[-1])
    with pytest.raises(IndexError):
        data[12]
    for prefetch in (0, 1, 5):
        other = CropDataset(cases, (5, 5, 5), batches=12, seed=3, prefetch=prefetch)
        assert all(map(same, other, expected))
    # In any order, by many threads, after a pickle.
    again = pickle.loads(pickle.dumps(data))
    order = random.Random(SEED).sample(range(12), 12)
    with ThreadPoolExecutor(8) as pool:
        for source in (data, again):
            assert all(same(found, expected[n]) for n, found in zip(order, pool.map(source.__getitem__, order), strict=True))
    assert not all(map(same, CropDataset(cases, (5, 5, 5), batches=12, seed=4), expected))
    data.epoch = 1
    second = [data[n] for n in range(12)]
    assert not all(map(same, second, expected))
    data.epoch = 0
    assert same(data[3], expected[3])


def in_child(work):
    """Runs ``work`` after a fork; returns whether it was true."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*")
def test_forks_read_the_same(tmp_path):
    cases, _ = images(tmp_path, np.random.default_rng(SEED), 2)
    data = CropDataset(cases, (6, 7), batches=20, seed=1)
    expected = [data[n] for n in range(20)]
    iterator = iter(data)
    assert same(next(iterator), expected[0])
    # While the threads of the iterator are reading, in the middle of it.
    for _ in range(3):
        assert in_child(lambda: all(map(same, data, expected)))
        assert in_child(lambda: all(map(same, iterator, expected[1:])))
    assert all(map(same, iterator, expected[1:]))


def test_iterators_that_end_early_leave_no_threads(tmp_path):
    cases, _ = images(tmp_path, np.random.default_rng(SEED), 2)
    before = threading.active_count()
    for batch in CropDataset(cases, (3, 3), batches=50, prefetch=4):
        assert batch["image"].size
        break
    del batch
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("b2kit-crops")]
    assert threading.active_count() <= before + 1


class Tensor:
    """Memory of another library, with DLPack."""

    def __init__(self, shape, dtype):
        self.memory = np.zeros(shape, dtype)

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


class OldTensor(Tensor):
    """With a version of DLPack that does not state whether memory may be changed."""

    def __dlpack__(self, **options):
        return self.memory.__dlpack__()

    def numpy(self):
        return self.memory


@pytest.mark.parametrize("kind", [Tensor, OldTensor, np.zeros])
def test_memory_of_others_is_filled(tmp_path, kind):
    x = np.random.default_rng(SEED).normal(size=(2, 9, 9)).astype("f4")
    b2kit.asarray(x, str(tmp_path / "x.b2nd"))
    made = []
    data = CropDataset([{"x": tmp_path / "x.b2nd"}], (4, 4), batches=3, allocate=lambda shape, dtype: made.append(kind(shape, dtype)) or made[-1])
    plain = CropDataset([{"x": tmp_path / "x.b2nd"}], (4, 4), batches=3)
    for n in range(3):
        batch = data[n]
        assert batch["x"] is made[-1]
        assert np.array_equal(getattr(made[-1], "memory", made[-1]), plain[n]["x"])
    for wrong in (lambda shape, dtype: np.zeros(3), lambda shape, dtype: np.broadcast_to(dtype.type(0), shape), lambda shape, dtype: bytearray(9)):
        data.allocate = wrong
        with pytest.raises(ArgumentError, match="allocate returned"):
            data[0]


def test_mistakes_are_named(tmp_path):
    for name, shape in (("a", (5, 6)), ("b", (5, 7)), ("c", (2, 5, 6)), ("line", (5,))):
        b2kit.asarray(np.zeros(shape), str(tmp_path / f"{name}.b2nd"))
    path = {name: str(tmp_path / f"{name}.b2nd") for name in ("a", "b", "c", "line")}
    for cases, options, text in [
        ([], {}, "no cases"),
        ([{}], {}, "no cases"),
        ([{"x": path["a"]}, {"y": path["a"]}], {}, "different names"),
        ([{"case": path["a"]}], {}, "not available"),
        ([{"x": path["a"]}], {"crop": (2, 0)}, "positive"),
        ([{"x": path["a"]}], {"batch": 3, "per_case": 2}, "multiple"),
        ([{"x": path["a"]}], {"prefetch": -1}, "negative"),
    ]:
        with pytest.raises(ArgumentError, match=text):
            CropDataset(cases, options.pop("crop", (2, 2)), **options)
    for cases, text in [
        ([{"x": path["a"], "y": path["b"]}], r"do not fit arrays of the shapes .*b\.b2nd \(5, 7\)"),
        ([{"x": path["line"]}], "crops of 2 dimensions"),
    ]:
        with pytest.raises(ArgumentError, match=text):
            CropDataset(cases, (2, 2))[0]
    mixed = CropDataset([{"x": path["a"]}, {"x": path["c"]}], (2, 2), batch=40)
    with pytest.raises(ArgumentError, match="channels or dtype differ"):
        list(mixed)
    with pytest.raises(FileNotFoundError):
        list(CropDataset([{"x": tmp_path / "none.b2nd"}], (2, 2)))


@pytest.mark.parametrize("turn", range(4))
def test_metadata_of_mlarray(tmp_path, turn):
    mlarray = pytest.importorskip("mlarray")
    rng = np.random.default_rng((SEED, turn))
    ndim = int(rng.integers(2, 4))
    x = rng.normal(size=tuple(rng.integers(1, 40, ndim))).astype(rng.choice(["f4", "u1", "i2"]))
    spacing, origin, direction = rng.random(ndim).tolist(), rng.normal(size=ndim).tolist(), rng.normal(size=(ndim, ndim)).tolist()
    source = {"PatientID": "é" * turn, "numbers": [1, 2.5, None, True, -(1 << 40)], "deep": {"a": {"b": []}}}
    written = mlarray.MLArray(x, spacing=spacing, origin=origin, direction=direction, meta=mlarray.Meta(source=source))
    path = str(tmp_path / "x.mla")
    written.save(path)
    with b2kit.open_array(path) as array:
        assert np.array_equal(array[...], x)
        found = read_metadata(array)
    assert found == read_metadata(tmp_path / "x.mla")
    spatial = found["spatial"]
    assert (spatial["spacing"], spatial["origin"], spatial["direction"]) == (spacing, origin, direction)
    assert found["source"] == source and found["is_seg"] is None and found["_has_array"] is True
    crops = CropDataset([{"image": path}], (5,) * ndim, batch=4)
    for crop, start in zip(crops[0]["image"], crops[0]["start"], strict=True):
        assert np.array_equal(crop, cut(x, start, (5,) * ndim, 0))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("must not exist",)


def test_pickles_of_others_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = gzip.compress(pickle.dumps({"spatial": {"spacing": [1.0, 2.0]}, "is_seg": {"is_seg": True}}, protocol=5))
    contents = [pickle.dumps({"spatial": Evil()}, protocol=protocol) for protocol in (0, 2, 4, 5)]
    # 2 GiB in the memo, a length beyond the end, bytes of 1 TiB, no dict, nothing.
    contents += [b"\x80\x05Nr\xff\xff\xff\x7f.", b"\x80\x05X\xff\xff\xff\x7fabc.", b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"."]
    contents += [pickle.dumps([1, 2], protocol=5), b""]
    stored = [gzip.compress(content) for content in contents]
    stored += [good[:-9], good[:10], b"no gzip", gzip.compress(bytes(20 << 20))]
    array = b2kit.asarray(np.zeros(3), str(tmp_path / "x.b2nd"))
    array.attrs["mlarray"] = good
    assert read_metadata(array) == {"spatial": {"spacing": [1.0, 2.0]}, "is_seg": True}
    for content in stored:
        array.attrs["mlarray"] = content
        with pytest.raises(DamagedError, match="mlarray"):
            read_metadata(array)
    rng = random.Random(SEED)
    for _ in range(300):
        damaged = bytearray(pickle.dumps({"spatial": {"spacing": [1.0, 2.0]}, "extra": {"data": {"a": "b"}}}, protocol=5))
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        array.attrs["mlarray"] = gzip.compress(bytes(damaged))
        try:
            assert isinstance(read_metadata(array), dict)
        except DamagedError:
            pass
    array.attrs["mlarray"] = "a text"
    assert read_metadata(array) == {}
    assert not (tmp_path / "must not exist").exists()

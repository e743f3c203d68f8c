"""``b2kit convert`` of NIfTI files, compared with nibabel: items, shapes, affines, scaling, both byte orders and versions."""

import gzip
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import b2kit

nibabel = pytest.importorskip("nibabel")
SEED = random.randrange(1 << 30)
DTYPES = ["u1", "i2", "i4", "f4", "c8", "f8", "i1", "u2", "u4", "i8", "u8", "c16"]
RGB = [("R", "u1"), ("G", "u1"), ("B", "u1")]


def convert(*words):
    # In a separate process: the command handles signals.
    return subprocess.run([sys.executable, "-m", "b2kit", "-q", "convert", *map(str, words)]).returncode


def image(rng):
    """Returns a random image of nibabel, and its items as stored."""
    kind = nibabel.Nifti1Image if rng.integers(2) else nibabel.Nifti2Image
    ndim = int(rng.choice([1, 2, 3, 3, 3, 4, 5, 7]))
    shape = tuple(int(length) for length in rng.integers(1, 9 if ndim > 3 else 20, ndim))
    dtype = np.dtype(rng.choice(DTYPES)) if rng.random() < 0.9 else np.dtype(RGB)
    items = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
    if dtype.kind in "fc":
        items = np.nan_to_num(items, posinf=0, neginf=0)
    endianness = str(rng.choice(["<", ">"]))
    header = kind.header_class(endianness=endianness)
    header.set_data_dtype(dtype)
    header.set_data_shape(shape)
    header.set_zooms(rng.uniform(0.5, 3, ndim).astype("f4"))
    header["descrip"] = "a scan of Zoë".encode()[:79]
    header.set_xyzt_units("mm", "sec")
    header["cal_max"], header["toffset"] = 100, 2.5
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    affine = np.eye(4)
    affine[:3, :3] = rotation * rng.uniform(0.5, 3, 3)
    affine[:3, 3] = rng.normal(size=3) * 100
    for each in ("sform", "qform"):
        if rng.integers(2) and ndim >= 3:
            getattr(header, f"set_{each}")(affine, code=int(rng.integers(1, 5)))
    if rng.integers(2) and dtype.kind in "iu":
        header.set_slope_inter(float(rng.uniform(0.1, 4)), float(rng.normal() * 10))
    elif rng.integers(2):
        # NIfTI: a slope of 0 or NaN is none.
        header["scl_slope"] = rng.choice([0, np.nan])
    return header, items


def stored(header, items, path, rng):
    """Writes the bytes of a file, as NIfTI defines them."""
    dtype = header.get_data_dtype()
    header["vox_offset"] = offset = header.single_vox_offset + 16 * int(rng.integers(0, 3))
    content = header.binaryblock + bytes(4)
    content = content.ljust(offset, b"\0") + items.astype(dtype).tobytes(order="F")
    if path.endswith(".gz"):
        middle = int(rng.integers(len(content)))
        # Also of several members.
        content = gzip.compress(content) if rng.integers(2) else gzip.compress(content[:middle]) + gzip.compress(content[middle:])
    with open(path, "wb") as file:
        file.write(content)


@pytest.mark.parametrize("turn", range(40))
def test_images_are_those_of_nibabel(tmp_path, turn):
    rng = np.random.default_rng((SEED, turn))
    header, items = image(rng)
    path = str(tmp_path / rng.choice(["scan.nii", "scan.nii.gz"]))
    stored(header, items, path, rng)
    if turn % 3 == 0 and items.dtype.names is None and not header["scl_slope"] > 0:
        # As nibabel writes it.
        kind = nibabel.Nifti1Image if header.sizeof_hdr == 348 else nibabel.Nifti2Image
        header["scl_slope"] = np.nan
        nibabel.save(kind(items, None, header), path)
    expected = nibabel.load(path)
    raw = np.asanyarray(expected.dataobj.get_unscaled())
    assert convert(path, tmp_path / "scan.b2nd", "--verify") == 0
    with b2kit.open_array(str(tmp_path / "scan.b2nd")) as array:
        found, attrs = array[...], dict(array.attrs)
    where = (SEED, turn)
    assert found.shape == raw.shape and found.dtype == raw.dtype.newbyteorder(found.dtype.byteorder), where
    assert found.dtype.byteorder in ("|", "=", header.endianness), where
    assert found.tobytes() == raw.astype(found.dtype).tobytes(), where
    assert np.allclose(attrs["affine"], expected.affine, rtol=1e-6, atol=1e-6), where
    assert attrs["spacing"] == list(map(float, header.get_zooms())) and attrs["_ARRAY_DIMENSIONS"] == list("xyztuvw"[: raw.ndim])
    fields = attrs["nifti"]
    for name in ("qform_code", "sform_code", "xyzt_units", "cal_max", "toffset", "dim_info", "intent_code"):
        assert fields[name] == expected.header[name].item(), (where, name)
    assert fields["descrip"] == expected.header["descrip"].item().decode()
    scale = float(expected.dataobj.slope), float(expected.dataobj.inter)
    assert (attrs.get("scale_factor", 1), attrs.get("add_offset", 0)) == scale, where
    if scale != (1, 0):
        assert convert(path, tmp_path / "scaled.b2nd", "--verify", "--mask-and-scale") == 0
        scaled = b2kit.open_array(str(tmp_path / "scaled.b2nd"))
        assert np.array_equal(scaled[...], expected.get_fdata(dtype=np.float64)), where
        assert "scale_factor" not in scaled.attrs and "affine" in scaled.attrs


def test_folders_and_stores(tmp_path):
    rng = np.random.default_rng(SEED)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    expected = {}
    for name in ("a.nii", "b.nii.gz", "deep/c.v2.nii.gz"):
        header, items = image(rng)
        stored(header, items, str(tmp_path / "in" / name), rng)
        expected[name.replace(".nii", "").replace(".gz", "")] = items
    assert convert("-r", tmp_path / "in", "-d", tmp_path / "out") == 0
    written = {os.path.relpath(os.path.join(folder, name), tmp_path / "out") for folder, _, names in os.walk(tmp_path / "out") for name in names}
    assert written == {"a.b2nd", "b.b2nd", os.path.join("deep", "c.v2.b2nd")}
    for name, items in expected.items():
        found = b2kit.open_array(str(tmp_path / "out" / f"{name}.b2nd"))[...]
        assert found.shape == items.shape and found.astype(items.dtype).tobytes() == items.tobytes()
    assert convert(tmp_path / "in" / "a.nii", tmp_path / "store.b2d") == 0
    store = b2kit.open_group(str(tmp_path / "store.b2d"))
    assert list(store) == ["a"] and store["a"].shape == expected["a"].shape

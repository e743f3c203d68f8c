"""The filters of HDF5 in h5py, compared with those of hdf5plugin."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import b2kit.hdf5
from b2kit.errors import ArgumentError

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="not on Windows")


def child(code, *args, plugins=None):
    """Run in a separate process: filters stay registered.

    netCDF4, once imported, sets an environment variable that makes HDF5 look for filters in its own folder, which has another one for
    Blosc: hdf5plugin then omits its own. Children do not inherit the variable unless requested.
    """
    env = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    if plugins is not None:
        env["HDF5_PLUGIN_PATH"] = str(plugins)
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OURS = "import sys, h5py, numpy as np, b2kit.hdf5; b2kit.hdf5.register()\n"
THEIRS = "import sys, h5py, numpy as np, hdf5plugin\n"
READ = "f = h5py.File(sys.argv[1]); np.save(sys.argv[2], f['x'][...])"


@pytest.fixture
def items():
    rng = np.random.default_rng(12)
    return np.cumsum(rng.integers(-3, 4, (90, 70)), axis=1).astype("<i4")


@pytest.mark.parametrize("codec", ["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
@pytest.mark.parametrize("filter", ["shuffle", "bitshuffle", None])
def test_hdf5plugin_reads_what_is_written(tmp_path, items, codec, filter):
    pytest.importorskip("hdf5plugin", reason="hdf5plugin is not installed")
    np.save(tmp_path / "in.npy", items)
    write = OURS + (
        "o = b2kit.hdf5.compression(sys.argv[3], 6, sys.argv[4] or None)\n"
        "h5py.File(sys.argv[1], 'w').create_dataset('x', data=np.load(sys.argv[2]), chunks=(40, 30), **o)"
    )
    child(write, tmp_path / "a.h5", tmp_path / "in.npy", codec, filter or "")
    child(THEIRS + READ, tmp_path / "a.h5", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), items)
    assert (tmp_path / "a.h5").stat().st_size < items.nbytes


@pytest.mark.parametrize("kind", ["Blosc", "Blosc2"])
def test_what_hdf5plugin_wrote_is_read(tmp_path, items, kind):
    pytest.importorskip("hdf5plugin", reason="hdf5plugin is not installed")
    np.save(tmp_path / "in.npy", items)
    write = THEIRS + (
        "o = getattr(hdf5plugin, sys.argv[3])(cname='zstd', clevel=3)\n"
        "h5py.File(sys.argv[1], 'w').create_dataset('x', data=np.load(sys.argv[2]), chunks=(40, 30), **o)"
    )
    child(write, tmp_path / "a.h5", tmp_path / "in.npy", kind)
    child(OURS + READ, tmp_path / "a.h5", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), items)


def test_it_is_b2kit_that_decodes_after_hdf5plugin(tmp_path, items):
    pytest.importorskip("hdf5plugin", reason="hdf5plugin is not installed")
    # Without registering, h5py cannot read the chunks; registering twice is harmless.
    write = OURS + (
        "h5py.File(sys.argv[1], 'w').create_dataset('x', data=np.arange(5000), chunks=(500,), "
        "**b2kit.hdf5.compression())"
    )
    child(write, tmp_path / "a.h5")
    alone = "import sys, h5py\ntry: h5py.File(sys.argv[1])['x'][...]\nexcept OSError: print('cannot')"
    assert child(alone, tmp_path / "a.h5") == "cannot"
    both = THEIRS + "import b2kit.hdf5\nb2kit.hdf5.register(); b2kit.hdf5.register()\n"
    assert child(both + "print(h5py.File(sys.argv[1])['x'][4321])", tmp_path / "a.h5") == "4321"


@pytest.mark.parametrize("number", [32001, 32026])
def test_it_is_b2kit_that_decodes_beside_filters_of_netcdf(tmp_path, number):
    found = importlib.util.find_spec("netCDF4")
    plugins = pathlib.Path(found.origin).parent / "plugins" if found else None
    if plugins is None or not plugins.is_dir():
        pytest.skip("netCDF4 with its own filters is not installed")
    write = (
        "h5py.h5z.filter_avail(int(sys.argv[2]))\n" + OURS + "h5py.File(sys.argv[1], 'w').create_dataset('x', "
        "data=np.arange(5000), chunks=(500,), compression=int(sys.argv[2]), compression_opts=(0, 0, 0, 0, 5, 1, 1))"
    )
    child("import sys, h5py\n" + write, tmp_path / "a.h5", number, plugins=plugins)
    assert (tmp_path / "a.h5").stat().st_size < 30_000
    read = OURS + "print(h5py.File(sys.argv[1])['x'][4321])"
    assert child(read, tmp_path / "a.h5", plugins=plugins) == "4321"


# As on Windows, where the package of the libraries is needed.
WINDOWS = "import sys, h5py, b2kit.hdf5; sys.platform = 'win32'\n"


def test_h5py_finds_the_libraries_of_the_other_package(tmp_path):
    package = tmp_path / "b2kit_hdf5_plugin"
    package.mkdir()
    (package / "__init__.py").write_text(f"PATH = {str(tmp_path / 'é')!r}\n")
    register = WINDOWS + "sys.path.insert(0, sys.argv[1]); before = h5py.h5pl.size(); b2kit.hdf5.register(); b2kit.hdf5.register()\n"
    found = child(register + "import os; print(os.fsdecode(h5py.h5pl.get(0)) == sys.argv[2], h5py.h5pl.size() - before)", tmp_path, tmp_path / "é")
    assert found == "True 1"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (WINDOWS + "sys.modules['b2kit_hdf5_plugin'] = None\n", "pip install b2kit-hdf5-plugin"),
        ("import sys, b2kit.hdf5; sys.modules['h5py'] = None\n", "pip install h5py"),
    ],
)
def test_missing_packages_are_named(code, text):
    assert text in child(code + "try: b2kit.hdf5.register()\nexcept ImportError as error: print(error)")


def test_damaged_chunks_are_errors(tmp_path):
    path = tmp_path / "a.h5"
    write = OURS + (
        "d = h5py.File(sys.argv[1], 'w').create_dataset('x', data=np.arange(5000), chunks=(500,), "
        "**b2kit.hdf5.compression())\nprint(d.id.get_chunk_info(3).byte_offset)"
    )
    at = int(child(write, path))
    with open(path, "r+b") as file:
        file.seek(at + 40)
        file.write(b"\xff" * 60)
    read = OURS + (
        "d = h5py.File(sys.argv[1])['x']\ntry: d[1500:2000]\nexcept OSError: print('error', d[100])"
    )
    assert child(read, path) == "error 100"


@pytest.mark.parametrize("wrong", [{"codec": "gzip"}, {"clevel": 10}, {"clevel": -1}, {"filter": "delta2"}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ArgumentError, match=str(next(iter(wrong)))):
        b2kit.hdf5.compression(**wrong)

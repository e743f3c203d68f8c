"""Runs the suites of hdf5plugin, PyTables and python-blosc2 with C-Blosc2's library and with ours.

Each package is built once, from its source distribution against C-Blosc2's library. ../README.md says what the variables
B2KIT_PYTHON_BLOSC2_SOURCES and HDF5_DIR name; a suite without its variable is not run. Takes about an hour.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

# Dependencies of the builds and suites. They do not include python-blosc2, since PyTables would load the library of its
# wheel.
TOOLS = """scikit-build-core==1.1.2 cmake==4.4.5 cython==3.3.1 fsspec==2026.9.0 h2==4.4.1 h5py==3.16.0 hdf5plugin==7.1.0 httpx==0.28.1
msgpack==1.2.4 ndindex==1.10.1 ninja==1.13.2 numexpr==2.14.2 numpy==2.4.6 packaging==26.4 pandas==3.1.1 pkgconfig==1.6.0 psutil==7.2.2
py-cpuinfo==9.0.0 pyarrow==26.0.1 pydantic==2.14.4 pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0 pytest-xdist==3.8.0
rich==15.0.0 setuptools==80.9.0 threadpoolctl==3.8.0 typing-extensions==4.16.0 zarr==3.1.6""".split()
# Parts of python-blosc2 that its build would download.
PARTS = {"miniexpr": "MINIEXPR", "sleef": "SLEEF", "minicc": "TINYCC"}
OTHER_FILTERS = "blosc,bshuf,bzip2,fcidecomp,htj2k,lz4,sperr,sz,sz3,zfp,zstd"
# hdf5plugin loads its filter when HDF5 requests it.
LOADED = """import {module}, h5py; h5py.h5z.filter_avail(32026)
print("\\n".join({{line.split()[-1] for line in open("/proc/self/maps") if "/libblosc2." in line}}))"""
PYTEST = "-m pytest tests -q -rpfE --tb=short -n 2 --dist loadfile --timeout 600 -p no:cacheprovider"


def of_pytest(text):
    """Returns the number of tests that passed, and the names of those that failed."""
    results = re.findall(r"^(PASSED|FAILED|ERROR) (\S*::.*?)(?: - .*)?$", text, re.MULTILINE)
    return sum(word == "PASSED" for word, _ in results), {name for word, name in results if word != "PASSED"}


def of_unittest(text):
    failed = set(re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.MULTILINE))
    number = lambda pattern: int((re.findall(pattern, text) or ["0"])[-1])
    return number(r"(?m)^Ran (\d+) ") - number(r"skipped=(\d+)") - len(failed), failed


class Suites:
    def __init__(self, theirs, ours, work):
        self.sides, self.work = {"c-blosc2": theirs.resolve(), "ours": ours.resolve()}, work.resolve()
        self.theirs = self.sides["c-blosc2"]
        self.bin = self.work / "tools" / "bin"
        if not (self.bin / "pytest").exists():
            venv.create(self.work / "tools", with_pip=True, clear=True)
            self.python(["-m", "pip", "install", "-q", "--only-binary", ":all:", *TOOLS])

    def python(self, words, **options):
        return subprocess.run([self.bin / "python", *words], check=True, **options)

    def build(self, package, version, variables):
        """Builds a package once; returns its sources and where it is installed."""
        source, site = self.work / f"{package}-{version}", self.work / f"{package}-{version}-site"
        if not (site / "complete").exists():
            shutil.rmtree(site, ignore_errors=True)
            path = f"{self.bin}:{os.environ['PATH']}"
            lib = self.theirs / "lib"
            settings = {"PATH": path, "LD_LIBRARY_PATH": str(lib), "PKG_CONFIG_PATH": str(lib / "pkgconfig"), **variables}
            pip = lambda *words: self.python(
                ["-m", "pip", *words, "--no-deps", "--no-build-isolation", "-q"], env={**os.environ, **settings}
            )
            pip("download", "--no-binary", package, f"{package}=={version}", "-d", self.work)
            shutil.unpack_archive(f"{source}.tar.gz", self.work)
            pip("install", source, "--target", site)
            (site / "complete").touch()
        return source, site

    def run(self, package, version, variables, words, read, module=None, copied=()):
        source, site = self.build(package, version, variables)
        module, results = module or package, {}
        for side, prefix in self.sides.items():
            env = {**os.environ, "PYTHONPATH": str(site), "LD_LIBRARY_PATH": str(prefix / "lib")}
            probe = self.python(["-c", LOADED.format(module=module)], env=env, capture_output=True, text=True).stdout
            if {Path(file).parent for file in probe.split()} != {prefix / "lib"}:
                sys.exit(f"{module} loads {probe!r}, not the library in {prefix / 'lib'}")
            folder = self.work / f"{module}-run"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for part in copied:
                copy = shutil.copytree if (source / part).is_dir() else shutil.copy
                copy(source / part, folder / part)
            log = self.work / f"{module}-{side}.log"
            print(f"running {package}'s suite; its output goes to {log}", flush=True)
            with open(log, "w") as out:
                subprocess.run([self.bin / "python", *words.split()], cwd=folder, env=env, stdout=out, stderr=out)
            results[side] = read(log.read_text())
        (passed, failed), (passed_ours, failed_ours) = results["c-blosc2"], results["ours"]
        if not passed:
            sys.exit(f"{package}: nothing passed with C-Blosc2; see the log")
        worse = sorted(failed_ours - failed)
        print(f"{package}: {passed} pass with C-Blosc2, {passed_ours} with ours; {max(0, passed - passed_ours - len(worse))} did not run")
        print("".join(f"  fails with ours only: {name}\n" for name in worse), end="", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("theirs", type=Path, help="the folder with lib and include of C-Blosc2: the package of python-blosc2")
    parser.add_argument("ours", type=Path, help="where packaging/libblosc2.py has installed ours")
    parser.add_argument("work", type=Path, help="a folder for what is built")
    suites = Suites(**vars(parser.parse_args()))
    only = {"HDF5PLUGIN_SYSTEM_LIBRARIES": "blosc2", "HDF5PLUGIN_STRIP": OTHER_FILTERS}
    suites.run("hdf5plugin", "7.1.0", only, "-m hdf5plugin.test", of_unittest)
    if "HDF5_DIR" in os.environ:
        # A name used in its sources that the headers of C-Blosc2 3.3 lack.
        flags = {"BLOSC2_DIR": str(suites.theirs), "CFLAGS": "-DBLOSC2_MAX_DIM=B2ND_MAX_DIM"}
        suites.run("tables", "3.11.1", flags, "-m tables.tests.test_all", of_unittest)
    else:
        print("PyTables: NOT RUN (HDF5_DIR is not set)")
    if sources := os.environ.get("B2KIT_PYTHON_BLOSC2_SOURCES"):
        parts = " ".join(f"-DFETCHCONTENT_SOURCE_DIR_{name}={sources}/{part}" for part, name in PARTS.items())
        variables = {"USE_SYSTEM_BLOSC2": "1", "CMAKE_ARGS": parts}
        suites.run("blosc2", "4.14.1", variables, PYTEST, of_pytest, copied=["tests", "examples", "pytest.ini", "conftest.py"])
    else:
        print("python-blosc2: NOT RUN (B2KIT_PYTHON_BLOSC2_SOURCES is not set)")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the tests of other packages with b2kit.h5py in place of the tested package.

    run.py pyfive [ARGUMENTS OF PYTEST]    pyfive 1.3.0, whose source distribution is fetched from PyPI
    run.py h5py [ARGUMENTS OF PYTEST]      the tests in the installed h5py; b2kit.h5py reads the files that they write
    run.py h5netcdf [ARGUMENTS OF PYTEST]  the tests in the installed h5netcdf

Needs b2kit, pytest and these packages; for pyfive also netCDF4, dask, fsspec, s3fs, boto3, requests, moto[server] and numcodecs.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PLUGINS = {"pyfive": "as_pyfive", "h5py": "as_h5py", "h5netcdf": "as_h5netcdf"}
FETCH = "pip download -q --no-deps --no-binary pyfive pyfive==1.3.0 --dest".split()
# A filter that h5py's test registers calls Python when the process ends.
LEFT_OUT = {"h5py": ["-k", "not test_register_filter and not MPI"]}


def main(suite, arguments):
    with tempfile.TemporaryDirectory() as folder:
        root, what = Path(folder), ["--pyargs", f"{suite}.tests"]
        if suite == "pyfive":
            subprocess.run([sys.executable, "-m", *FETCH, folder], check=True)
            with tarfile.open(root / "pyfive-1.3.0.tar.gz") as archive:
                archive.extractall(root, filter="data")
            root, what = root / "pyfive-1.3.0", ["tests"]
            # Its own package would be imported in place of ours.
            (root / "pyfive").rename(root / "other")
        pytest = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", root]
        command = [*pytest, "-p", PLUGINS[suite], *LEFT_OUT.get(suite, []), *what, *arguments]
        variables = {"PYTHONPATH": str(Path(__file__).parent), "H5NETCDF_READ_BACKEND": "pyfive"}
        return subprocess.run(command, cwd=root, env={**os.environ, **variables}).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PLUGINS:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))

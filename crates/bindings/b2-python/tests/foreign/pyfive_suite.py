#!/usr/bin/env python3
"""Runs the tests of pyfive 1.3.0, which it fetches from PyPI, with b2kit.h5py in place of pyfive, or with --pyfive with pyfive itself.

Needs b2kit, h5py, h5netcdf, netCDF4, dask, fsspec, s3fs, boto3, requests, moto[server] and numcodecs. Other arguments go to pytest.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "pyfive==1.3.0"]

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([*fetch, "--dest", folder], check=True)
    with tarfile.open(Path(folder) / "pyfive-1.3.0.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    root = Path(folder) / "pyfive-1.3.0"
    # Its own package would be imported in place of ours.
    (root / "pyfive").rename(root / "other")
    given = [word for word in sys.argv[1:] if word != "--pyfive"]
    plugin = [] if "--pyfive" in sys.argv else ["-p", "as_pyfive"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", root]
    code = f"import sys, pytest; sys.path.insert(0, {str(HERE)!r}); sys.exit(pytest.main({[str(word) for word in command[3:]]!r} + sys.argv[1:]))"
    sys.exit(subprocess.run([sys.executable, "-c", code, "-W", "ignore", *(given or ["tests"])], cwd=root).returncode)

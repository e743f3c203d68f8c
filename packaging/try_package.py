"""Tries an installed package as a user would: import, write, read, change, the command, threads.

With --released, it is a wheel that is published, which has the licences of what it contains. With --alone, no other
program can be started.
"""

import importlib.metadata
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import b2kit
import b2kit.hdf5

version, *options = sys.argv[1:]
assert set(options) <= {"--released", "--alone"}, options
assert b2kit.__version__ == version, b2kit.__version__
assert "site-packages" in b2kit.__file__, b2kit.__file__
assert not Path(b2kit.__file__).with_name("only_in_the_older.py").exists(), "the upgrade has left a file there"

if "--released" in options:
    files = {file.name: file for file in importlib.metadata.files("b2kit") or [] if ".dist-info" in str(file)}
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "NOTICE-THIRD-PARTY.txt"]:
        assert name in files, f"the wheel lacks {name}: {sorted(files)}"
    notices = files["NOTICE-THIRD-PARTY.txt"].read_text()
    assert "zstd-sys" in notices and len(notices) > 20_000, notices[:1000]

with tempfile.TemporaryDirectory() as folder:
    x = np.random.default_rng(1).integers(0, 1000, (400, 300, 20)).astype("<f4")
    for codec in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
        path = Path(folder, f"{codec}.b2nd")
        b2kit.asarray(x, str(path), codec=codec)
        with b2kit.open_array(str(path)) as a:
            assert np.array_equal(a[...], x), codec
            assert np.array_equal(a[10:200:7, ::-3, 5], x[10:200:7, ::-3, 5]), codec
    with b2kit.open_array(str(path), mode="a") as a:
        a[3] = 7
    x[3] = 7
    with b2kit.open_array(str(path)) as a:
        a.verify()
    foreign = Path(folder, "field.h5")
    assert b2kit._b2kit.run_command(["b2kit", "convert", str(path), str(foreign), "--codec", "gzip"]) == 0
    [data] = b2kit.hdf5.open(foreign).values()
    assert data.filters == ["shuffle", "gzip"] and np.array_equal(data[::7, 5:, ::-3], x[::7, 5:, ::-3])

    # Eight threads read one array; on a Python without the lock they do so concurrently.
    def read(a: b2kit.Array, results: list[bool]) -> None:
        results.append(all(np.array_equal(a[i::8], x[i::8]) for i in range(8)))

    with b2kit.open_array(str(path)) as a:
        began, results = time.perf_counter(), []
        read(a, results)
        one = time.perf_counter() - began
        began = time.perf_counter()
        threads = [threading.Thread(target=read, args=(a, results)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eight = time.perf_counter() - began
    assert results == [True] * 9
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"eight threads took {eight / one:.1f} times as long as one; the interpreter's lock is {'on' if locked else 'off'}", flush=True)

    if "--alone" in options:  # The command as a function.
        for words in [["--version"], ["verify", str(path)]]:
            assert b2kit._b2kit.run_command(["b2kit", *words]) == 0, words
        print("good")
        sys.exit()
    script = Path(sysconfig.get_path("scripts"), "b2kit")
    for command in [[str(script)], [sys.executable, "-m", "b2kit"]]:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        assert version in said, said
        said = subprocess.run([*command, "verify", str(path)], capture_output=True, text=True, check=True).stdout
        assert said.startswith("ok"), said
print("good")

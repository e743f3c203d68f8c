"""The command as an entry point of the extension module."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import b2kit

PROGRAM = os.path.join(os.path.dirname(sys.executable), "b2kit")


def run(*args, program=(PROGRAM,), **more):
    return subprocess.run([*program, *map(str, args)], capture_output=True, text=True, **more)


@pytest.mark.parametrize("program", [(PROGRAM,), (sys.executable, "-m", "b2kit")], ids=["script", "module"])
def test_it_shows_packs_and_verifies(tmp_path, program):
    items = np.arange(600, dtype="f4").reshape(20, 30)
    np.save(tmp_path / "a.npy", items)
    assert run("pack", tmp_path / "a.npy", tmp_path / "a.b2nd", program=program).returncode == 0
    np.testing.assert_array_equal(b2kit.open(tmp_path / "a.b2nd")[...], items)
    shown = run("info", tmp_path / "a.b2nd", program=program)
    assert shown.returncode == 0 and "20" in shown.stdout and shown.stderr == ""
    assert run("verify", tmp_path / "a.b2nd", program=program).returncode == 0
    raw = subprocess.run([*program, "cat", str(tmp_path / "a.b2nd")], capture_output=True)
    assert raw.stdout == items.tobytes()


def test_it_starts_without_numpy(tmp_path):
    b2kit.asarray(np.arange(10), tmp_path / "a.b2nd")
    script = """if True:
        import sys
        from b2kit import __main__
        from b2kit import _b2kit
        sys.argv = ["b2kit", "info", sys.argv[1]]
        code = _b2kit.run_command(sys.argv)
        heavy = {"numpy", "asyncio", "concurrent.futures", "b2kit._array"} & set(sys.modules)
        assert code == 0 and not heavy, heavy
    """
    assert run("-c", script, tmp_path / "a.b2nd", program=(sys.executable,)).returncode == 0


def test_the_package_imports_on_first_use():
    script = """if True:
        import sys, b2kit
        assert "numpy" not in sys.modules
        assert set(b2kit.__all__) <= set(dir(b2kit))
        assert b2kit.errors.Error is b2kit.Error and b2kit.store.Group is b2kit.Group
        assert not hasattr(b2kit, "no_such_name")
        from b2kit import *
        assert all(globals()[name] is getattr(b2kit, name) for name in b2kit.__all__)
        assert "numpy" in sys.modules
    """
    reported = run("-c", script, program=(sys.executable,))
    assert reported.returncode == 0, reported.stderr


def test_exit_codes_and_messages(tmp_path):
    missing = run("info", tmp_path / "none.b2nd")
    assert missing.returncode == 1 and "none.b2nd" in missing.stderr
    wrong = run("no-such-command")
    assert wrong.returncode == 2 and "no-such-command" in wrong.stderr
    version = run("--version")
    assert version.returncode == 0 and b2kit.__version__ in version.stdout
    assert "Usage" in run("--help").stdout


def test_output_that_nobody_reads(tmp_path):
    b2kit.asarray(np.random.default_rng(1).random(2_000_000), tmp_path / "a.b2nd")
    with subprocess.Popen([PROGRAM, "cat", str(tmp_path / "a.b2nd")], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.read(10)
        p.stdout.close()
        assert p.wait(60) == 0
        assert p.stderr.read() == b""


def test_interrupting_it_leaves_nothing(tmp_path):
    with open(tmp_path / "big.npy", "wb") as file:
        header = np.lib.format.header_data_from_array_1_0(np.empty(0))
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (60_000_000,)})
        for _ in range(60):
            file.write(np.random.default_rng(1).random(1_000_000).tobytes())
    args = [PROGRAM, "pack", "--clevel", "9", str(tmp_path / "big.npy"), str(tmp_path / "big.b2nd")]
    with subprocess.Popen(args, stderr=subprocess.PIPE) as p:
        while p.poll() is None and len(os.listdir(tmp_path)) < 2:
            time.sleep(0.01)
        assert p.poll() is None, p.stderr.read()
        p.send_signal(signal.SIGINT)
        assert p.wait(60) in (130, -signal.SIGINT)
    assert os.listdir(tmp_path) == ["big.npy"]


@pytest.mark.skipif(os.name == "nt", reason="closes descriptors as POSIX shells do")
def test_closed_standard_streams(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1000.0))
    code = "import os, sys; [os.close(n) for n in range(3)]; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, "-m", "b2kit", "pack", "x.npy", "a.b2nd", "--filters", "trunc_prec:20", "--allow-lossy"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "x.npy"]
    assert b2kit.verify(tmp_path / "a.b2nd") == "ok"

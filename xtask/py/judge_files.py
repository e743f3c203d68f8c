"""Reads files with C-Blosc2 that may be damaged.

    judge_files.py

Takes one path a line on standard input, and answers with one line of JSON:

    {"sha256": ..., "nbytes": ...}   what was read
    {"error": ...}                   why it was not
    {"died": ...}                    how the process ended that tried
    {"large": ...}                   how much it would be: not read

The C library may crash, hang, or take all memory: reading is done in another process, with limits.
"""

import hashlib
import json
import os
import resource
import select
import signal
import sys

import blosc2
import numpy as np

LARGEST = 32 << 20
PATIENCE = 15
MEMORY = 3 << 30

blosc2.set_nthreads(1)


def read(path):
    """The data of a file, or its size if that is too large."""
    if not os.path.isdir(path):
        with open(path, "rb") as f:
            if f.read(10) != b"\x9e\xa8b2frame\0":
                f.seek(0)
                return read_chunk(f.read(64 << 20))
    opened = blosc2.open(path, mode="r")
    if isinstance(opened, blosc2.NDArray):
        nbytes = int(np.prod([int(n) for n in opened.shape], dtype=object) * opened.dtype.itemsize)
        return np.ascontiguousarray(opened[()]).tobytes() if nbytes <= LARGEST else nbytes
    schunk = getattr(opened, "schunk", opened)
    if schunk.nbytes > LARGEST:
        return schunk.nbytes
    return b"".join(schunk_data(schunk, n) for n in range(schunk.nchunks))


def schunk_data(schunk, n):
    """One chunk; those with blocks of variable length have a function of their own."""
    chunk = schunk.get_chunk(n)
    if len(chunk) >= 32 and chunk[2] & 5 == 5 and chunk[30] & 1:
        return b"".join(blosc2.blosc2_ext.vldecompress(chunk, nthreads=1))
    return schunk.decompress_chunk(n)


def read_chunk(chunk):
    if len(chunk) >= 16 and int.from_bytes(chunk[4:8], "little") > LARGEST:
        return int.from_bytes(chunk[4:8], "little")
    if len(chunk) >= 32 and chunk[2] & 5 == 5 and chunk[30] & 1:
        return b"".join(blosc2.blosc2_ext.vldecompress(chunk, nthreads=1))
    return blosc2.decompress2(chunk)


def answer(path):
    try:
        data = read(path)
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
    if isinstance(data, int):
        return {"large": data}
    return {"sha256": hashlib.sha256(data).hexdigest(), "nbytes": len(data)}


class Reader:
    """A process that reads one file after the other, until it dies."""

    def __init__(self):
        (self.paths_in, self.paths), (self.answers, answers_out) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.close(self.paths)
            os.close(self.answers)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(self.paths_in) as paths, os.fdopen(answers_out, "w") as out:
                for path in paths:
                    out.write(json.dumps(answer(path.rstrip("\n"))) + "\n")
                    out.flush()
            os._exit(0)
        os.close(self.paths_in)
        os.close(answers_out)

    def ask(self, path):
        """Its answer, or None when it died or said nothing for too long."""
        os.write(self.paths, path.encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.answers], [], [], PATIENCE)[0]:
                return None
            part = os.read(self.answers, 1 << 16)
            if not part:
                return None
            line += part
        return json.loads(line)

    def end(self):
        """How it ended, if it did by itself."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        for _ in range(100):
            if done:
                break
            select.select([], [], [], 0.01)
            done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            how = "it hangs"
        elif os.WIFSIGNALED(status):
            how = signal.Signals(os.WTERMSIG(status)).name
        else:
            how = f"code {os.waitstatus_to_exitcode(status)}"
        os.close(self.paths)
        os.close(self.answers)
        return how


reader = None
for line in sys.stdin:
    reader = reader or Reader()
    said = reader.ask(line.rstrip("\n"))
    if said is None:
        said, reader = {"died": reader.end()}, None
    print(json.dumps(said), flush=True)
if reader:
    os.kill(reader.pid, signal.SIGKILL)
    os.waitpid(reader.pid, 0)

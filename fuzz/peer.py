"""Reads frames for the fuzz target `versus_c`, with C-Blosc2.

A request is a length (u32, little-endian) and a frame. The answer is one byte, `R` (rejected), `C` (crashed) or `O`
(opened), and after `O` a count (u32) and for each chunk a length (u32, 2^32 - 1: rejected) and its bytes.

The C library crashes on some frames. So a worker reads, and when it dies another one goes on with the next request.
"""

import os
import resource
import signal
import struct
import sys

import blosc2

MAX_CHUNKS = 8
MAX_NBYTES = 1 << 18
REJECTED = 0xFFFFFFFF
# Seconds for one frame.
PATIENCE = 5


def read_exactly(n):
    parts = []
    while n:
        part = os.read(0, n)
        if not part:
            os._exit(0)
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def answer(frame):
    try:
        schunk = blosc2.schunk_from_cframe(frame, True)
        nchunks = schunk.nchunks
    except Exception:
        return b"R"
    out = []
    for nchunk in range(min(nchunks, MAX_CHUNKS)):
        try:
            nbytes = blosc2.get_cbuffer_sizes(schunk.get_chunk(nchunk))[0]
            plain = schunk.decompress_chunk(nchunk) if nbytes <= MAX_NBYTES else None
        except Exception:
            plain = None
        out.append(struct.pack("<I", REJECTED if plain is None else len(plain)) + (plain or b""))
    return b"O" + struct.pack("<I", len(out)) + b"".join(out)


def work():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    while True:
        (n,) = struct.unpack("<I", read_exactly(4))
        frame = read_exactly(n)
        signal.alarm(PATIENCE)
        said = answer(frame)
        signal.alarm(0)
        view = memoryview(struct.pack("<I", len(said)) + said)
        while view:
            view = view[os.write(1, view):]


def main():
    blosc2.set_nthreads(1)
    # Messages of the library, one for each damaged frame.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        pid = os.fork()
        if pid == 0:
            work()
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            sys.exit(0)
        os.write(1, struct.pack("<I", 1) + b"C")


main()

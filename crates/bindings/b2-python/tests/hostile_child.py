"""Damaged arrays, groups, attributes and stores, one after the other: `hostile_child.py FOLDER KIND SEED COUNT`.

Runs as a separate process, with limits on its memory and on the time of each case. Any outcome other than an error of
the package or the right items ends it with a message.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import random
import resource
import shutil
import sys
import time

import b2kit
import numpy as np
from b2kit.attrs import Ext

# Limits on the additional memory of the process, in bytes, and on the time of each case, in seconds.
MEMORY = 2 << 30
SECONDS = 20

x = np.arange(3000, dtype="<i2").reshape(30, 100)


def limit():
    with open("/proc/self/statm") as file:
        have = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (have + MEMORY, have + MEMORY))


def damaged(data: bytes, dice: random.Random, other: bytes) -> bytes:
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(data)) if data else 0
        if data and dice.random() < 0.3:
            # Near the lengths, at the start or the end.
            at = min(at, dice.randrange(200)) if dice.random() < 0.5 else max(0, len(data) - 1 - dice.randrange(200))
        what = dice.randrange(7)
        if what <= 2 and data:
            data[at] = dice.choice((data[at] ^ 1 << dice.randrange(8), dice.randrange(256), 0, 255, 127))
        elif what == 3:
            data[at : at + dice.randrange(1, 20)] = b""
        elif what == 4:
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
        elif what == 5:
            del data[at:]
        else:
            start = dice.randrange(len(other))
            data[at : at + 16] = other[start : start + 16]
    return bytes(data)


def objects(dice: random.Random, depth: int = 0) -> bytes:
    """Random msgpack with valid and invalid extension types of python-blosc2."""
    what = dice.randrange(12)
    if what < 3 or depth > 150:
        return dice.choice((b"\xc0", b"\x01", b"\xa3<i2", b"\xa9__tuple__", b"\xcb" + dice.randbytes(8), b"\xc4\x02ab"))
    inner = b"".join(objects(dice, depth + dice.choice((1, 1, 1, 40))) for _ in range(dice.randrange(3)))
    if what < 6:
        return bytes([0x90 + dice.randrange(4)]) + inner
    if what == 6:
        return dice.choice((b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xdc\x01\x00")) + inner
    if what == 7:
        return bytes([0x80 + dice.randrange(3)]) + inner
    if what == 8:
        dtype = dice.choice((b"<i2", b"|V0", b"|V2147483647", b"<M8[ns]", b"|O", b"[('a','<i4')]", b"<U1073741823", b"x"))
        shape = dice.choice((b"\x91\x02", b"\x92\x00\xcf\x7f" + b"\xff" * 7, b"\x92\x00\xce\xff\xff\xff\xff", b"\x90", b"\xdc\x00\x64" + b"\x01" * 100))
        data = dice.choice((b"\xc4\x04abcd", b"\xc4\x00", b"\xc4\x02ab"))
        text = b"\xd9" + bytes([len(dtype)]) + dtype
        inner = b"\x83\xa5dtype\x81\xa3str" + text + b"\xa5shape" + shape + b"\xa4data" + data
        return b"\xc8" + len(inner).to_bytes(2, "big") + b"\x2e" + inner
    return b"\xc9" + len(inner).to_bytes(4, "big") + bytes([dice.choice((44, 45, 46, 45, 46, 5))]) + inner


def use_array(a: b2kit.Array) -> None:
    verdict = None
    repr(a), a.info, a.filters, a._repr_html_(), a.__dask_tokenize__()
    for name in list(a.attrs)[:50]:
        try:
            repr(a.attrs[name])
        except b2kit.Error:
            pass
    if a.nbytes < 1 << 22:
        items = a[...]
        if a.ndim:
            a[..., :1], a[::-1]
        if items.tobytes() != x.tobytes():
            try:
                verdict = a.verify()
            except b2kit.Error:
                return
            # If the checksums match, the items must be those that were written.
            assert verdict != "ok" or items.size == 0, "wrong items, and verify says ok"
    else:
        a[(0,) * a.ndim]
    if a.path:
        pickle.loads(pickle.dumps(a))


def use_group(g: b2kit.Group) -> None:
    repr(g), len(g), list(g)
    for call in (lambda: repr(g.attrs), lambda: g.attrs.asdict(), lambda: list(g.walk())):
        try:
            call()
        except b2kit.Error:
            pass
    for key in list(g)[:20]:
        try:
            found = g[key]
            use_any(found)
        except b2kit.Error:
            pass


def use(path: str) -> None:
    for call in (lambda: b2kit.verify(path), lambda: use_any(b2kit.open(path))):
        try:
            call()
        except b2kit.Error:
            pass


def use_any(found: b2kit.Array | b2kit.Group | b2kit.SuperChunk) -> None:
    if isinstance(found, b2kit.SuperChunk):
        repr(found), len(found), found[:1]
    elif isinstance(found, b2kit.Group):
        use_group(found)
    else:
        use_array(found)


def files_of(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def main(folder: str, kind: str, seed: int, count: int) -> None:
    dice = random.Random(seed)
    limit()
    work = os.path.join(folder, f"{kind}-{seed}.work")
    for n in range(count):
        print(n, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        began = time.monotonic()
        if kind == "attributes":
            value = objects(dice)
            if dice.random() < 0.2:
                value = (b"\xc9" + (len(value) + 1).to_bytes(4, "big") + b"\x2d\x91") * 1 + value
            a = b2kit.asarray(x, attrs={"v": Ext(dice.choice((45, 46)), value), "w": Ext(44, value[:16])})
            use_array(a)
            with a.edit() as e:
                for name in e.attrs:
                    try:
                        e.attrs[name]
                    except b2kit.Error:
                        pass
        else:
            source = dice.choice(sorted(name for name in os.listdir(folder) if name.startswith("good")))
            path = os.path.join(work, source)
            shutil.rmtree(work, ignore_errors=True)
            os.mkdir(work)
            whole = os.path.join(folder, source)
            shutil.copytree(whole, path) if os.path.isdir(whole) else shutil.copy(whole, path)
            files = files_of(path)
            with open(dice.choice(files), "rb") as file:
                other = file.read() or b"\0"
            victim = dice.choice(files)
            with open(victim, "rb") as file:
                data = file.read()
            with open(victim, "wb") as file:
                file.write(damaged(data, dice, other))
            use(path)
        took = time.monotonic() - began
        assert took < SECONDS, f"took {took} seconds"
    faulthandler.cancel_dump_traceback_later()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

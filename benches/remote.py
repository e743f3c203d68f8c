"""Reads an array from a server that counts and delays, with this project, python-blosc2, and Zarr through obstore: `bench.py remote`.

    remote.py RELEASE FOLDER ROUNDS     measures, with the programs in RELEASE and files in FOLDER
    remote.py blosc2|zarr               one of the other sides: opens URLs and reads parts, one command per line of standard
                                        input, and prints for each seconds and a sum of the items
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

SHAPE, CHUNKS, BLOCKS = (400, 400, 256), (100, 100, 128), (25, 25, 32)
PARTS = {
    "item": np.s_[137, 201, 77],
    "plane0": np.s_[137],
    "plane2": np.s_[:, :, 77],
    "box": np.s_[110:142, 110:142, 40:72],
    "whole": np.s_[:],
}
# Name, program and file of each side.
SIDES = [
    ("b2kit", "ours", "ours.b2nd.starts"),
    ("b2kit, no block starts", "ours", "ours.b2nd"),
    ("b2kit, file of C", "ours", "c.b2nd"),
    ("python-blosc2", "blosc2", "c.b2nd"),
    ("zarr + obstore, chunks", "zarr", "chunks.zarr"),
    ("zarr + obstore, shards", "zarr", "shards.zarr"),
]
DELAYS = [0, 20, 80]


def field():
    """A smooth field with noise in its last digits, as instruments write it."""
    rng = np.random.default_rng(7)
    x, y, z = (np.linspace(0, 9, n, dtype="f4") for n in SHAPE)
    smooth = 20 * np.sin(x)[:, None, None] + 5 * np.cos(2 * y)[None, :, None] + 3 * np.sin(5 * z)[None, None, :]
    noise = rng.standard_normal(SHAPE, dtype="f4") * 0.2
    return np.round((smooth + noise) * 16).astype("f4") / 16


def make(folder, ours):
    """Writes the array as frames of both sides, and as Zarr arrays with chunks and with shards."""
    import blosc2
    import zarr
    from zarr.codecs import BloscCodec

    items = field()
    cparams = {"codec": blosc2.Codec.ZSTD, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE], "nthreads": 1}
    blosc2.asarray(items, urlpath=f"{folder}/c.b2nd", chunks=CHUNKS, blocks=BLOCKS, cparams=cparams, mode="w")
    codec = BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=4)
    for name, shards, chunks in [("chunks", None, CHUNKS), ("shards", CHUNKS, BLOCKS)]:
        store = zarr.storage.LocalStore(f"{folder}/{name}.zarr")
        array = zarr.create_array(store, shape=SHAPE, dtype="f4", chunks=chunks, shards=shards, compressors=codec, overwrite=True)
        array[:] = items
    items.tofile(f"{folder}/raw")
    subprocess.run([ours, "make", f"{folder}/raw", f"{folder}/ours.b2nd"], check=True)
    (folder / "raw").unlink()


def read(opens):
    array = None
    for line in sys.stdin:
        command, what = line.split()
        start = time.perf_counter()
        if command == "open":
            array = opens(what)
            print(json.dumps([time.perf_counter() - start, array.shape and 0]), flush=True)
        else:
            found = np.ascontiguousarray(array[PARTS[what]], dtype="f4")
            seconds = time.perf_counter() - start
            print(json.dumps([seconds, int(found.view("u4").sum(dtype="u8"))]), flush=True)


def open_blosc2(url):
    import blosc2

    return blosc2.RemoteArray(url)


def open_zarr(url):
    import zarr
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(url, client_options={"allow_http": True})
    return zarr.open_array(zarr.storage.ObjectStore(store, read_only=True), mode="r")


def measure(release, folder, rounds):
    ours = release / "b2-bench-remote"
    if not (folder / "ours.b2nd.starts").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, ours)
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    start = lambda *words: subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(process, line):
        process.stdin.write(line + "\n")
        return json.loads(process.stdout.readline())

    server = start(ours, "serve", folder)
    url, sums, seconds, counts = server.stdout.readline().strip(), {}, {}, {}
    processes = [start(ours) if program == "ours" else start(sys.executable, __file__, program) for _, program, _ in SIDES]
    for delay in DELAYS:
        # The first round only warms up connections and interpreters.
        for turn in range(rounds + 1):
            for (side, _, file), process in zip(SIDES, processes):
                for part in ["open", *PARTS]:
                    ask(server, str(delay))
                    taken = ask(process, f"open {url}{file}")
                    if part != "open":
                        ask(server, str(delay))
                        taken = ask(process, f"read {part}")
                    if sums.setdefault(part, taken[1]) != taken[1]:
                        sys.exit(f"{side}: {part}: other items than elsewhere")
                    counts[part, side] = ask(server, str(delay))
                    if turn:
                        seconds.setdefault((delay, part, side), []).append(taken[0])
    print(f"# Reading from a server, {time.strftime('%Y-%m-%d')}\n\nMedians of {rounds} interleaved rounds.")
    kinds = [("requests / KB", lambda part, side: f"{counts[part, side][0]} / {-(-counts[part, side][1] // 1000)}")]
    for delay in DELAYS:
        kinds.append((f"ms, {delay} ms each answer", lambda part, side, delay=delay: f"{median(seconds[delay, part, side]) * 1e3:.1f}"))
    for what, cell in kinds:
        print(f"\n| {what} | {' | '.join(side for side, *_ in SIDES)} |\n{'| --- ' * (len(SIDES) + 1)}|")
        for part in ["open", *PARTS]:
            print(f"| {part} | {' | '.join(cell(part, side) for side, *_ in SIDES)} |")
    for process in [server, *processes]:
        process.stdin.close()


if __name__ == "__main__":
    if sys.argv[1] in ("blosc2", "zarr"):
        read({"blosc2": open_blosc2, "zarr": open_zarr}[sys.argv[1]])
    else:
        measure(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

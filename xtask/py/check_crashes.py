"""Judges with C-Blosc2 the states in which crashes of this project's writers left frames.

    check_crashes.py --dir DIR

DIR holds manifests (*.jsonl), one state a line: {"path", "operation", "header", "digests"}. `header` is "whole"
when the frame header is one that was written, "repaired" when it was torn and this project has opened the frame
for writing since. C must find one of the frames with these digests, and be able to go on appending to it, or
grow it if it is an array.
"""

import argparse
import collections
import glob
import hashlib
import json
import os
import sys

import blosc2

import peerlib as p

blosc2.set_nthreads(1)


def plain(schunk):
    return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def digest(schunk):
    """As `Contents::digest` of the crash tests finds it."""
    h = hashlib.sha256()

    def add(data):
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)

    add(str(schunk.typesize).encode())
    add(plain(schunk))
    for layers in (p.meta_bytes(schunk), p.vlmeta_bytes(schunk)):
        add(str(len(layers)).encode())
        for name, value in sorted((name.encode(), value) for name, value in layers.items()):
            add(name)
            add(bytes.fromhex(value))
    return h.hexdigest()


def judge(path, digests):
    """None, or what is wrong."""
    # The array owns its super-chunk and must live as long.
    opened = blosc2.open(path, mode="r")
    found = digest(getattr(opened, "schunk", opened))
    if found not in digests:
        return f"holds {found}, expected one of {digests}"
    return None


def append(path):
    """Whether C could be asked to append; an exception when it went wrong."""
    opened = blosc2.open(path, mode="a")
    if hasattr(opened, "shape"):
        return grow(opened, path)
    schunk = opened
    size = schunk.chunksize
    # C refuses to append to chunks of individual sizes, and behind a short chunk.
    if size == 0 or schunk.nbytes % size:
        return False
    before = plain(schunk)
    more = bytes(i * 7 % 251 for i in range(size))
    schunk.append_data(more)
    del schunk
    after = plain(blosc2.open(path, mode="r"))
    if after != before + more:
        raise ValueError("after appending, the data are wrong")
    return True


def grow(array, path):
    if 0 in array.shape:
        return False
    before = array[...]
    array.resize((array.shape[0] + 1, *array.shape[1:]))
    del array
    after = blosc2.open(path, mode="r")[...]
    if after[:-1].tobytes() != before.tobytes():
        raise ValueError("after growing, the items are wrong")
    return True


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--dir", required=True)
    folder = args.parse_args().dir
    counts = collections.defaultdict(collections.Counter)
    failed = 0
    for manifest in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(manifest) as lines:
            cases = [json.loads(line) for line in lines]
        for case in cases:
            path = os.path.join(folder, case["path"])
            try:
                wrong = judge(path, case["digests"])
                appended = wrong is None and append(path)
            except Exception as e:
                wrong, appended = f"{type(e).__name__}: {e}", False
            count = counts[case["operation"]]
            count[case["header"]] += 1
            count["appended"] += appended
            if wrong:
                failed += 1
                print(f"FAILED {case['operation']}: {case['path']}, {case['header']}: {case['how']}: {wrong}")
    for operation, count in counts.items():
        print(
            f"C-Blosc2: {operation:44} {count['whole']:4} states as they were, {count['repaired']:4} repaired; "
            f"appended to {count['appended']}"
        )
    states = sum(count["whole"] + count["repaired"] for count in counts.values())
    print(f"C-Blosc2: {states} states, {failed} wrong")
    if failed or not states:
        sys.exit(1)


main()

"""Writes fixtures with one release of python-blosc2 or python-blosc.

    fixtures.py --list                      every fixture of every producer, one JSON object a line
    fixtures.py --producer ID --out DIR     reads names (one a line) from standard input, writes those files
                                            under DIR and prints one JSON object for each

`cargo xtask fixtures` calls this in the environment each producer needs and keeps the manifest. A fixture
never changes: to cover something new, add a fixture with a new name. `--list` needs no blosc2.
"""

import argparse
import hashlib
import json
import os
import sys

import fixtures_cases

# The producers: what pip installs, and the version of the C library inside (the folder's name).
PRODUCERS = {
    "c-blosc/1.21.3": {"package": "blosc", "version": "1.11.1", "requirements": ["blosc==1.11.1", "numpy==1.26.4"]},
    "c-blosc/1.21.7": {"package": "blosc", "version": "1.11.4", "requirements": ["blosc==1.11.4", "numpy==1.26.4"]},
    "c-blosc2/2.6.1": {"package": "blosc2", "version": "2.0.0", "requirements": ["blosc2==2.0.0", "numpy==1.26.4"]},
    "c-blosc2/2.13.1": {"package": "blosc2", "version": "2.5.1", "requirements": ["blosc2==2.5.1", "numpy==1.26.4"]},
    "c-blosc2/2.15.2": {"package": "blosc2", "version": "3.0.0", "requirements": ["blosc2==3.0.0", "numpy==2.3.5"]},
    "c-blosc2/2.22.1": {"package": "blosc2", "version": "3.12.2", "requirements": ["blosc2==3.12.2", "numpy==2.3.5"]},
    "c-blosc2/3.3.5": {"package": "blosc2", "version": "4.14.1", "requirements": ["blosc2==4.14.1", "numpy==2.3.5"]},
}


def listing():
    for producer, about in PRODUCERS.items():
        for fixture in fixtures_cases.cases(producer):
            fields = ("kind", "params", "data", "note", "plugin")
            facts = {field: getattr(fixture, field) for field in fields}
            yield {"path": f"{producer}/{fixture.name}", "producer": producer, **about, **facts}


def write(producer, names, out):
    """Writes the named fixtures and prints their manifest entries."""
    known = {f"{producer}/{f.name}": f for f in fixtures_cases.cases(producer)}
    for name in names:
        path = os.path.join(out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        raw, facts = known[name].make(path)
        row = {"path": name, "nbytes": len(raw), "data_sha256": hashlib.sha256(raw).hexdigest(), **facts}
        print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print every fixture as JSON lines and stop")
    parser.add_argument("--producer", choices=PRODUCERS, help="which producer this environment is")
    parser.add_argument("--out", help="folder that stands for testdata/")
    args = parser.parse_args()
    if args.list:
        for row in listing():
            print(json.dumps(row))
    elif args.producer and args.out:
        write(args.producer, sys.stdin.read().split(), args.out)
    else:
        parser.error("--list, or --producer with --out")


if __name__ == "__main__":
    main()

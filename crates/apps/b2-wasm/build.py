"""Builds the page into a folder that any web server can serve, target/web/page by default. Needs the target wasm32-unknown-unknown."""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parents[2] / "target" / "web"
# The largest engine, in bytes with gzip.
MAX_ENGINE_LEN = 650_000


def build(folder=TARGET / "page"):
    # Flags in the environment would replace those of .cargo/config.toml.
    environment = {name: value for name, value in os.environ.items() if name not in {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"}}
    words = ["cargo", "build", "--locked", "--profile=web", "--target=wasm32-unknown-unknown", f"--target-dir={TARGET}"]
    subprocess.run(words, cwd=HERE, env=environment, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "viewer", folder)
    engine = shutil.copy(TARGET / "wasm32-unknown-unknown" / "web" / "b2_wasm.wasm", folder / "engine.wasm")
    size = len(gzip.compress(Path(engine).read_bytes(), 9))
    print(f"{folder}: the engine has {size} bytes with gzip, at most {MAX_ENGINE_LEN}")
    if size > MAX_ENGINE_LEN:
        sys.exit("the engine is too large")
    return folder


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))

"""Compiles the two filter libraries and adds them to the wheel."""

import json
import platform
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = {"h5b2kit_blosc", "h5b2kit_blosc2"}
SUFFIXES = (".so", ".dylib", ".dll")


def platform_tag():
    """Returns the platform of the libraries, not that of the Python, which on macOS may be for two kinds of processors."""
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class LibraryHook(BuildHookInterface):
    def initialize(self, version, build_data):
        packages = [word for library in sorted(LIBRARIES) for word in ("-p", library)]
        command = ["cargo", "build", "--profile", "dist", "--locked", *packages, "--message-format", "json-render-diagnostics"]
        done = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE, encoding="utf-8")
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        built = [message for message in messages if message["reason"] == "compiler-artifact" and message["target"]["name"] in LIBRARIES]
        files = [file for message in built for file in message["filenames"] if file.endswith(SUFFIXES)]
        if len(files) != len(LIBRARIES):
            raise RuntimeError(f"expected {len(LIBRARIES)} libraries, cargo built {files}")
        for file in files:
            name = file.replace("\\", "/").rpartition("/")[2]
            # A separate folder, because HDF5 loads every library in it.
            build_data["force_include"][file] = f"b2kit_hdf5_plugin/plugins/{name}"
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["pure_python"] = False

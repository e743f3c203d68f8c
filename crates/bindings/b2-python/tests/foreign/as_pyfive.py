"""A pytest plugin that replaces pyfive by b2kit.h5py. pyfive's inner modules are stubs, so that test files
that import them load: tests that use them fail."""

import sys
import types

import b2kit.h5py
from b2kit.h5py import _dims, h5d, h5t


class Missing(type):
    def __getattr__(cls, name):
        raise AttributeError(f"{cls.__name__}.{name} is an inner part of pyfive")


def inner(name):
    module = types.ModuleType(f"pyfive.{name}")

    def missing(_self, *_args, **_options):
        raise NotImplementedError("an inner part of pyfive")

    module.__getattr__ = lambda what: Missing(what, (), {"__init__": missing})
    return module


core, high_level = inner("core"), types.ModuleType("pyfive.high_level")
core.InvalidHDF5File = OSError
high_level.DimensionProxy = _dims.DimensionProxy
modules = {name: inner(name) for name in ("btree", "dataobjects", "inspect", "misc_low_level", "p5check", "p5dump")}
modules |= {"core": core, "high_level": high_level, "h5d": h5d, "h5t": h5t}
place = types.ModuleType("pyfive")
vars(place).update({name: value for name, value in vars(b2kit.h5py).items() if name != "__name__"})


class File(b2kit.h5py.File):
    """pyfive's default: texts of attributes are bytes, too."""

    def __init__(self, *args, decode_strings=False, **options):
        super().__init__(*args, decode_strings=decode_strings, **options)


place.File = File
sys.modules["pyfive"] = place
sys.modules |= {f"pyfive.{name}": module for name, module in modules.items()}

"""Docstrings of public functions: in NumPy's style, with the parameters that the functions have."""

import importlib
import inspect
import re

import pytest

import b2kit

MODULES = ["b2kit", "b2kit.dask", "b2kit.h5py", "b2kit.numcodecs", "b2kit.training", "b2kit.virtual", "b2kit.xarray", "b2kit.zarr"]
CLASSES = {
    "b2kit": ["Array", "Attrs", "Edit", "Group", "SuperChunk"],
    "b2kit.numcodecs": ["Blosc", "Blosc2"],
    "b2kit.xarray": ["Accessor", "Backend", "TreeAccessor"],
}
SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)


def functions():
    """Yields the public functions of the modules, and the methods of their classes that have parameters."""
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        public = getattr(module, "__all__", [])
        yield from ((f"{name}.{each}", getattr(module, each)) for each in public if inspect.isfunction(getattr(module, each)))
        for of in CLASSES.get(name, []):
            for each, method in inspect.getmembers(getattr(module, of), inspect.isfunction):
                ours = method.__module__.startswith("b2kit")
                if ours and not each.startswith("_") and len(inspect.signature(method).parameters) > 1:
                    yield f"{name}.{of}.{each}", method


FUNCTIONS = dict(functions())


def test_there_are_functions():
    assert len(FUNCTIONS) > 45
    # Those of the package itself have examples, too.
    for name in b2kit.__all__:
        if inspect.isfunction(getattr(b2kit, name)):
            assert "\nExamples\n--------\n>>> " in inspect.getdoc(getattr(b2kit, name)), name


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_parameters_are_documented(name):
    function = FUNCTIONS[name]
    parts = SECTION.split(inspect.getdoc(function) or "")
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    summary = parts[0].partition("\n")[0]
    assert summary.endswith((".", ":")) and len(summary) < 121
    named = re.findall(r"^(\*{0,2}\w[\w, ]*?)(?: : .*)?$", sections.get("Parameters", ""), re.MULTILINE)
    documented = [each.strip().lstrip("*") for names in named for each in names.split(",")]
    assert documented == [each for each in inspect.signature(function).parameters if each != "self"]
    if inspect.signature(function).return_annotation not in ("None", None, inspect.Signature.empty):
        assert "Returns" in sections or "Yields" in sections

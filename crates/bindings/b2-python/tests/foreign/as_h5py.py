"""A pytest plugin for the tests of h5py: b2kit.h5py reads all files on disk in place of h5py.

Writing stays h5py's. What is written is flushed before each read. `served` counts, for each test, the reads that were ours; tests with
none of them say nothing about b2kit.h5py."""

import os

import h5py
import numpy as np
import pytest
from h5py._hl import attrs, dataset, group

import b2kit.h5py as ours

served = {}
now = [None]


def twin(thing):
    """Returns our object for one of h5py; None if it is not in a file on disk, or has no name."""
    path = thing.file.filename if thing else None
    if not path or not thing.name or not os.path.isfile(path) or thing.file.driver not in ("sec2", "stdio", "core"):
        return None
    if thing.file.mode != "r":
        if thing.file.driver == "core":
            return None
        thing.file.flush()
    try:
        found = ours.File(path, external_links="anywhere")[thing.name]
    except (OSError, KeyError):
        return None
    served[now[0]] = served.get(now[0], 0) + 1
    return found


def theirs(value, file):
    """Puts h5py's references and dtypes in place of ours."""
    if isinstance(value, ours.Empty):
        return h5py.Empty(theirs_dtype(value.dtype))
    if isinstance(value, ours.Reference):
        name = ours.File(file.filename)._opened.names.get(value.address_of_reference)
        return file[name].ref if value and name and type(value) is ours.Reference else h5py.Reference() if not value else value
    if isinstance(value, np.void) and value.dtype.hasobject:
        return theirs(np.array(value), file)[()]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        made = np.empty(value.shape, theirs_dtype(value.dtype))
        if value.dtype.fields is None:
            for at in np.ndindex(value.shape):
                made[at] = theirs(value[at], file)
        for name in value.dtype.names or ():
            made[name] = theirs(value[name], file)
        return made
    return value


def theirs_dtype(dtype):
    known = dtype.metadata or {}
    if dtype.fields is not None:
        fields = {name: (theirs_dtype(field[0]), field[1]) for name, field in dtype.fields.items()}
        return np.dtype(fields)
    if dtype.subdtype is not None:
        return np.dtype((theirs_dtype(dtype.base), dtype.shape))
    if isinstance(known.get("vlen"), np.dtype):
        return h5py.vlen_dtype(theirs_dtype(known["vlen"]))
    return {ours.Reference: h5py.ref_dtype, ours.RegionReference: h5py.regionref_dtype}.get(known.get("ref"), dtype)


def patch(of, name, call):
    before = getattr(of, name)
    is_property = not callable(before)

    def read(self, *args, **options):
        # References to regions of h5py cannot be made ours.
        is_region = any(isinstance(arg, h5py.RegionReference) for arg in args)
        own = None if is_region else twin(self)
        if own is None:
            return before.__get__(self) if is_property else before(self, *args, **options)
        return theirs(call(own, *args, **options), self.file)

    setattr(of, name, property(read, getattr(before, "fset", None)) if is_property else read)


def item(own, args, new_dtype=None):
    args = tuple(block(arg) for arg in args) if isinstance(args, tuple) else block(args)
    if new_dtype is None or new_dtype.names in (None, own.dtype.names):
        return own[args] if new_dtype is None else own.astype(new_dtype)[args]
    return own.fields(new_dtype.names)[args]


def block(arg):
    """Returns our class for one of h5py."""
    if isinstance(arg, h5py.MultiBlockSlice):
        return ours.MultiBlockSlice(arg.start, arg.stride, arg.count, arg.block)
    return arg


class ReadAttributes(attrs.AttributeManager):
    """h5py's attributes, read with b2kit.h5py."""

    def __init__(self, parent):
        super().__init__(parent)
        self._parent = parent

    def _own(self):
        found = twin(self._parent)
        return None if found is None else found.attrs

    def __getitem__(self, name):
        own = self._own()
        return super().__getitem__(name) if own is None else theirs(own[name], self._parent.file)

    def __iter__(self):
        own = self._own()
        return super().__iter__() if own is None else iter(own)

    def __len__(self):
        own = self._own()
        return super().__len__() if own is None else len(own)

    def __contains__(self, name):
        own = self._own()
        return super().__contains__(name) if own is None else name in own


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    if os.environ.get("B2KIT_UNPATCHED"):
        return
    patch(h5py.Dataset, "__getitem__", item)
    for name in "chunks compression compression_opts shuffle fletcher32 scaleoffset external maxshape fillvalue is_virtual nbytes".split():
        patch(h5py.Dataset, name, lambda own, name=name: getattr(own, name))
    for name in ("read_direct", "len", "iter_chunks", "__array__", "__iter__"):
        patch(h5py.Dataset, name, lambda own, *args, name=name, **options: getattr(own, name)(*args, **options))
    for name in ("__iter__", "__len__", "__contains__"):
        patch(h5py.Group, name, lambda own, *args, name=name: getattr(own, name)(*args))
    patch(h5py.Group, "visit", lambda own, func: own.visit(func))
    base = h5py._hl.base.HLObject
    base.attrs = property(lambda self: ReadAttributes(self))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    now[0] = item.nodeid


passed, failed = set(), set()


def pytest_runtest_logreport(report):
    if report.failed:
        failed.add(report.nodeid)
    elif report.when == "call" and report.passed:
        passed.add(report.nodeid)


def pytest_terminal_summary(terminalreporter):
    mine = set(served)
    text = f"tests that read by b2kit.h5py: {len(mine & passed)} of {len(mine & (passed | failed))} passed"
    terminalreporter.write_line(f"{text}; others: {len(passed - mine)} of {len((passed | failed) - mine)}")

"""The tables of the pages docs/coming-from: each row is a call of another library and the same call of b2kit, which are compared."""

import ast
import doctest
import math
import pathlib
import re

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[4] / "docs" / "coming-from"
ROW = re.compile(r"^\| `(?P<old>.+?)` \| `(?P<new>.+?)` \|", re.MULTILINE)
PACKAGES = {"h5py": ["h5py"], "numpy": [], "python-blosc2": ["blosc2"], "zarr": ["zarr"]}
# The variables in which rows store arrays and groups.
ARRAYS = ["a", "b", "c"]


def run(text, names):
    """Runs a cell. Returns the value of an expression, or None."""
    [statement] = ast.parse(text).body
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), text, "eval"), names)
    exec(compile(text, text, "exec"), names)
    return None


def plain(value):
    """Returns what can be compared: items of arrays, names of groups."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return np.asarray(value[...])
    if isinstance(value, (bytes, str, tuple, int, float, bool)) or value is None:
        return value
    if hasattr(value, "items"):
        return {name.strip("/"): plain(member) for name, member in value.items()}
    return sorted(name.strip("/") for name in value)


def assert_same(old, new, what):
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        np.testing.assert_array_equal(new, old, what)
    elif isinstance(old, dict) and isinstance(new, dict):
        assert old.keys() == new.keys(), what
        for name, value in old.items():
            assert_same(value, new[name], f"{what}: {name}")
    elif isinstance(old, float):
        # Such as ratios, which depend on the encoder.
        assert math.isclose(old, new, rel_tol=0.2), what
    else:
        assert old == new, what


@pytest.mark.parametrize("page", sorted(PACKAGES))
def test_rows_are_the_same(page, tmp_path, monkeypatch):
    for package in PACKAGES[page]:
        pytest.importorskip(package)
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    rows = [{side: cell.replace("\\|", "|") for side, cell in row.groupdict().items()} for row in ROW.finditer(text)]
    assert len(rows) >= 8 and len(rows) == len(re.findall(r"^\| `", text, re.MULTILINE))
    # The first block prepares both sides.
    block = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
    sides = {"old": {}, "new": {}}
    for side, names in sides.items():
        (tmp_path / side).mkdir()
        monkeypatch.chdir(tmp_path / side)
        for example in doctest.DocTestParser().get_examples(block):
            exec(example.source, names)
    for row in rows:
        values, states = {}, {}
        for side, names in sides.items():
            # Some libraries keep relative paths.
            monkeypatch.chdir(tmp_path / side)
            values[side] = plain(run(row[side], names))
            states[side] = {name: plain(names[name]) for name in ARRAYS if name in names}
        what = f"{row['old']} / {row['new']}"
        # Some calls return something that others do not.
        if values["old"] is not None and values["new"] is not None:
            assert_same(values["old"], values["new"], what)
        assert_same(states["old"], states["new"], what)


def test_every_page_is_known():
    assert {path.stem for path in FOLDER.glob("*.md")} == PACKAGES.keys()

"""The Python examples of all pages of the documentation, and of the READMEs, each in a folder that has an array of testdata."""

import ast
import doctest
import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[4]
ARRAY = ROOT / "testdata" / "arrays" / "sea_surface_temperature.npy"
PARSER = doctest.DocTestParser()
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([ROOT / "README.md", pathlib.Path(__file__).parents[1] / "README.md", *ROOT.glob("docs/**/*.md")])
}
PAGES = [name for name, text in TEXTS.items() if PARSER.get_examples(text)]


def imported(examples):
    """Returns the names of the packages that examples import."""
    for example in examples:
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def test_there_are_pages():
    assert len(PAGES) > 10


@pytest.mark.parametrize("name", PAGES)
def test_examples_of_pages(name, tmp_path):
    missing = {package for package in imported(PARSER.get_examples(TEXTS[name])) if not importlib.util.find_spec(package)}
    if missing:
        pytest.skip(f"{name} needs {', '.join(sorted(missing))}")
    shutil.copy(ARRAY, tmp_path)
    # Some examples change settings of the process.
    ran = subprocess.run(
        [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", ROOT / name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

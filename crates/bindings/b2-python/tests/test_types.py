"""The documented examples, checked by mypy and pyright in strict mode."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

# The modules that need no peer, and the page.
MODULES = ["b2kit", "b2kit._array", "b2kit._create", "b2kit.store"]
README = pathlib.Path(__file__).parent.parent / "README.md"


def examples():
    """Returns the examples of each docstring and page, as a program."""
    found = {}
    for name in MODULES:
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name):
            if test.examples:
                found["example_" + test.name.replace(".", "_")] = "".join(example.source for example in test.examples)
    page = doctest.DocTestParser().get_examples(README.read_text(encoding="utf-8"))
    found["readme"] = "".join(example.source for example in page)
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    programs = examples()
    assert len(programs) > 8
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    # Bare expressions that show a value, and repeated imports of several examples, are not mistakes.
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "reportUnusedImport": False, "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("checker", [["mypy", "--strict", "."], ["pyright", "--pythonpath", sys.executable]])
def test_examples_are_typed(programs, checker):
    if importlib.util.find_spec(checker[0]) is None:
        pytest.skip(f"{checker[0]} is not installed")
    ran = subprocess.run([sys.executable, "-m", *checker], cwd=programs, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr

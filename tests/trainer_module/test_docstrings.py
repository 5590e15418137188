"""The examples in the docstrings of trainer_module hold."""

import doctest
import importlib

import pytest

from tests.paths import REPOSITORY

pytestmark = pytest.mark.slow


def _modules_with_examples() -> list[str]:
    files = sorted((REPOSITORY / "trainer_module").rglob("*.py"))
    return [
        ".".join(("sangam", *file.relative_to(REPOSITORY).with_suffix("").parts))
        for file in files
        if ">>> " in file.read_text()
    ]


def test_examples_in_docstrings_hold() -> None:
    results = {name: doctest.testmod(importlib.import_module(name)) for name in _modules_with_examples()}
    assert sum(result.attempted for result in results.values()) >= 20
    assert {name: result.failed for name, result in results.items() if result.failed} == {}

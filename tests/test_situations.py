"""Each situation that the product must be right in names the tests that prove it: situations.csv."""

import ast
import csv
from collections import Counter
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

_SITUATIONS = REPOSITORY / "tests" / "situations.csv"


def _rows(path: Path) -> list[tuple[str, str]]:
    """Returns situation and test of each row."""
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["situation"], row["test"]) for row in csv.DictReader(file, strict=True)]


def _functions(path: Path) -> set[str]:
    """Returns the names of a module's tests."""
    return {
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _problems(rows: list[tuple[str, str]]) -> list[str]:
    """Returns what is wrong with rows; a situation without a test has no row, or one whose test is empty."""
    problems = [f"{situation}: {test} twice" for (situation, test), count in Counter(rows).items() if count > 1]
    for situation, test in rows:
        name, _, function = test.partition("::")
        path = REPOSITORY / name
        if not situation.strip():
            problems.append(f"{test}: no situation")
        if not (path.is_file() and function in _functions(path)):
            problems.append(f"{situation}: no such test (got '{test}')")
    return problems


def test_every_situation_names_tests_that_exist() -> None:
    rows = _rows(_SITUATIONS)
    assert len({situation for situation, _ in rows}) >= 50
    assert _problems(rows) == []


_THIS = "tests/test_situations.py::test_every_situation_names_tests_that_exist"


@pytest.mark.parametrize(
    "rows",
    [
        [("a", _THIS), ("a", _THIS)],
        [("a", "")],
        [(" ", _THIS)],
        [("a", "tests/test_situations.py")],
        [("a", "tests/test_situations.py::test_no_such_thing")],
        [("a", "tests/test_situations.py::_functions")],
        [("a", "tests/test_no_such_file.py::test_every_situation_names_tests_that_exist")],
    ],
)
def test_a_situation_without_its_test_is_found(rows: list[tuple[str, str]]) -> None:
    assert _problems([("right", _THIS), *rows]) != []

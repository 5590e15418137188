"""SECURITY.md: every row of what is defended names tests that exist."""

import ast
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def rows(repository: Path) -> list[list[str]]:
    text = (repository / "SECURITY.md").read_text()
    section = text.split("## What is defended")[1].split("## What is not defended")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_every_defense_is_shown_by_tests(rows: list[list[str]], repository: Path) -> None:
    assert len(rows) > 15
    for row in rows:
        assert len(row) == 3, row
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row[2])
        assert named, row
        for path, function in named:
            assert (repository / path).is_file(), path
            tests = {
                node.name
                for node in ast.walk(ast.parse((repository / path).read_text()))
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            }
            assert tests
            assert not function or function in tests, f"{path}::{function}"


def test_every_module_of_this_folder_shows_something(rows: list[list[str]], repository: Path) -> None:
    named = " ".join(row[2] for row in rows)
    modules = {path.name for path in (repository / "tests" / "security").glob("test_*.py")}
    assert {name for name in modules if f"tests/security/{name}" not in named} == {
        "test_infra_readme.py",
        "test_security_page.py",
    }

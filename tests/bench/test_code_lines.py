"""The rule of the table in docs/parts.md, and our number in it."""

import re

import pytest

from bench.code_lines import code_lines
from tests.paths import REPOSITORY

SOURCE = '''"""A module."""

import os  # Why not.


class One:
    """Docstring
    over two lines."""

    key: int = 3
    """What the key is."""

    def method(
        self,
        other: str = """no
docstring""",
    ) -> None:
        # A comment.
        print(other)


class Two: ...
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert code_lines(SOURCE, ["One"]) == 8
    assert code_lines(SOURCE, ["Two"]) == 1
    assert code_lines(SOURCE) == 10


def test_a_class_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="Three"):
        code_lines(SOURCE, ["Three"])


def test_the_number_of_the_page_is_that_of_the_example() -> None:
    source = (REPOSITORY / "examples" / "parts" / "sangam_example_parts" / "low_rank_cross.py").read_text()
    [told] = re.findall(
        r"^\| Sangam \| (\d+), `LowRankCross`", (REPOSITORY / "docs" / "parts.md").read_text(), re.MULTILINE
    )
    assert code_lines(source, ["LowRankCross"]) == int(told)

"""What a command prints: no text is markup, and none controls the terminal."""

import io
import re

import pytest
from hypothesis import example, given, settings
from rich.text import Text

from sangam.pipelines.console import say, table, terminal
from sangam.schemas.host.plain_text import visible
from tests.nasty_texts import texts

CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")


def _is_shown(text: str, output: str) -> bool:
    return re.sub(r"\s", "", visible(text)) in re.sub(r"\s", "", output)


@settings(max_examples=40, deadline=None)
@given(text=texts)
@example(text="\x1b[31m")
@example(text="[/]")
@example(text=":warning:")
@example(text="0000\x1f\t1")
def test_any_text_is_shown_as_it_is(text: str) -> None:
    console = terminal(io.StringIO())
    rows = table("column", "becomes")
    for column in rows.columns:
        column.overflow = "fold"
    line = text.replace("\n", " ")  # Lines of two cells would be printed in turn.
    rows.add_row(line, Text(line, "red"))
    for printed in (text, Text.assemble((text, "red"), "!"), rows):
        shown = io.StringIO()
        console.file = shown
        console.print(printed, soft_wrap=printed is not rows)
        assert not CONTROLS.search(shown.getvalue())
        # Rich leaves out a few controls of its own texts.
        assert _is_shown(re.sub("[\x07\x08\x0b\x0c\r]", "", text[:30]), re.sub(r"\\x0[78bc]|\\r", "", shown.getvalue()))
    shown = io.StringIO()
    say(text, terminal(shown))
    assert not CONTROLS.search(shown.getvalue())
    assert _is_shown(text, shown.getvalue())


@pytest.mark.parametrize("is_terminal", [False, True])
def test_styles_are_colors_on_a_terminal_alone(is_terminal: bool) -> None:
    shown = io.StringIO()
    shown.isatty = lambda: is_terminal  # type: ignore[method-assign]
    terminal(shown).print(Text("done", "green"))
    assert shown.getvalue().replace("\x1b[32m", "").replace("\x1b[0m", "") == "done\n"
    assert ("\x1b" in shown.getvalue()) == is_terminal

"""Output of all commands: lines, errors, tables and JSON."""

import datetime
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sangam.schemas.host.plain_text import visible
from sangam.schemas.quantities import readable

_PLAIN_WIDTH = 200

QUIET_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "GRPC_VERBOSITY": "ERROR",
    "PYTHONWARNINGS": "ignore",
}
"""Variables that TensorFlow, gRPC and Python read at start, in this process and its children."""


class _PlainConsole(Console):
    """A console on which no text is markup, and control characters are visible."""

    def __init__(self, stream: TextIO, width: int | None):
        super().__init__(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns a text for a table's cell, which is measured as it is shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the parts of anything that is printed."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(visible(part.text), part.style)


def terminal(stream: TextIO | None = None) -> Console:
    """Returns a console on a stream, default standard output; off a terminal, it is wide enough not to wrap tables."""
    stream = stream or sys.stdout
    return _PlainConsole(stream, None if stream.isatty() else _PLAIN_WIDTH)


def say(text: str, console: Console | None = None) -> None:
    """Prints a text without wrapping, by default on standard output."""
    (console or terminal()).print(visible(text), markup=False, highlight=False, soft_wrap=True)


class Teller:
    """Prints lines during a command: on standard output, or on standard error beside a JSON document.

    Attributes:
        lines: lines printed so far.
    """

    def __init__(self, *, as_json: bool):
        self.lines: list[str] = []
        self._console = terminal(sys.stderr if as_json else None)

    def __call__(self, text: str) -> None:
        """Prints a line."""
        self.lines.append(text)
        say(text, self._console)


def say_event(text: str) -> None:
    """Prints a line as JSON on standard output, for programs that follow a long-running command."""
    print(json.dumps({"at": datetime.datetime.now(datetime.UTC).isoformat(), "says": text}), flush=True)


def say_error(text: str, *, as_json: bool = False, code: int = 2) -> None:
    """Prints an error on standard error: verbatim, or as JSON with the exit code."""
    if as_json:
        print(json.dumps({"error": text, "exit_code": int(code)}), file=sys.stderr)
    else:
        say(text, terminal(sys.stderr))


def print_json(document: Any) -> None:
    """Prints a document for programs on standard output; its numbers are as long as they are known."""
    print(json.dumps(readable(document), indent=2, default=str))


class _PlainTable(Table):
    """A table whose cells are measured as they are shown; of strings the console does it."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Adds a row; of a styled text the style of all of it is kept."""
        shown = (Text(visible(cell.plain), cell.style) if isinstance(cell, Text) else cell for cell in cells)
        super().add_row(*shown, **options)


def table(*columns: str) -> Table:
    """Returns an empty table without borders, the style of all commands."""
    return _PlainTable(*columns, box=None, pad_edge=False)


def quieten() -> None:
    """Silences TensorFlow and TFX in the terminal; call it before their import."""
    # Level 3: TensorFlow logs harmless events as errors, such as a CUDA library that is registered twice.
    os.environ.update(QUIET_ENVIRONMENT | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

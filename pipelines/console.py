"""The terminal: the one place that says how lines, errors and tables are printed."""

import datetime
import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 200

QUIET_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "GRPC_VERBOSITY": "ERROR",
    "PYTHONWARNINGS": "ignore",
}
"""Read by TensorFlow, gRPC and Python when they start, here and in every child."""


def terminal(stream: TextIO | None = None) -> Console:
    """Returns a console on a stream, or on standard output; where it is no terminal, wide enough not to wrap tables."""
    stream = stream or sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else _PLAIN_WIDTH)


def say(text: str, console: Console | None = None) -> None:
    """Prints a text as it stands, without markup and without wrapping; on standard output if no console is given."""
    (console or terminal()).print(text, markup=False, highlight=False, soft_wrap=True)


class Teller:
    """Prints lines as a command goes: on standard output, or, beside a document for programs, on standard error.

    Attributes:
        lines: told so far.
    """

    def __init__(self, *, as_json: bool):
        self.lines: list[str] = []
        self._console = terminal(sys.stderr if as_json else None)

    def __call__(self, text: str) -> None:
        """Prints a line."""
        self.lines.append(text)
        say(text, self._console)


def say_event(text: str) -> None:
    """Prints a line as JSON on standard output, for programs that follow a command without an end."""
    print(json.dumps({"at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "says": text}), flush=True)


def say_error(text: str, *, as_json: bool = False, code: int = 2) -> None:
    """Prints an error as it stands on standard error; as JSON, with the exit code, for a program."""
    if as_json:
        print(json.dumps({"error": text, "exit_code": int(code)}), file=sys.stderr)
    else:
        say(text, terminal(sys.stderr))


def print_json(document: Any) -> None:
    """Prints a document for programs on standard output; a number that is none becomes null."""
    print(json.dumps(_finite(document), indent=2, default=str))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {str(key): _finite(child) for key, child in value.items()}
        case list() | tuple():
            return [_finite(child) for child in value]
        case _:
            return value


def table(*columns: str) -> Table:
    """Returns an empty table without lines, in the style of all commands."""
    return Table(*columns, box=None, pad_edge=False)


def quieten() -> None:
    """Keeps TensorFlow and TFX, imported after this, from writing to the terminal."""
    # Level 3: what TensorFlow logs as errors here, such as a CUDA library registered twice, helps nobody.
    os.environ.update(QUIET_ENVIRONMENT | {"TF_CPP_MIN_LOG_LEVEL": "3"})
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

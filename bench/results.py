"""Results of benchmarks: tables in Markdown, JSON documents, JSON lines, the measured commit."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])


def write(file: Path, document: Any) -> None:
    """Writes a JSON document."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


def add_line(file: Path, result: Any) -> None:
    """Appends a result as one line of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(result) + "\n")


def lines(file: Path) -> list[Any]:
    """Returns the results of a file of lines; none where there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def commit() -> str:
    """Returns the short name of the commit that is measured."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, check=True, text=True)
    return done.stdout.strip()

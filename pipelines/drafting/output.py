"""Writes a draft to a file, and prints the guesses and the next commands."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.components.object_stores import is_stored
from sangam.pipelines.console import say, table, terminal
from sangam.pipelines.drafting import Draft, draft
from sangam.pipelines.drafting.names import name_of
from sangam.pipelines.drafting.progress import shown
from sangam.pipelines.provenance import VERSION
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import write_whole
from sangam.schemas.loading.editors import SCHEMA_FILE, editor_schema_text

_NO_NAMES = frozenset({"spec", "sangam", "draft"})
_MOST_FEATURES = 50
"""Largest number of printed guesses of a kind."""


def write_draft(data: str | Path, output: Path, labels: Sequence[str], name: str, *, force: bool) -> Draft:
    """Drafts a spec for a folder of logs, and writes it once it is valid; the schema for editors is put beside it.

    Raises:
        UserError: the file exists and `force` is off, or cannot be written; see also `draft`.
    """
    if output.is_dir():
        raise UserError(f"--output: is a folder (got {output}); name a file, such as {output / 'spec.yaml'}")
    if output.exists() and not force:
        raise UserError(f"--output: exists (got {output}); name another file, or replace it with --force")
    with shown() as track:
        made = draft(data, name or _name(data, output), labels, track)
    _require_valid(made)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output.parent / SCHEMA_FILE, editor_schema_text(VERSION))
        write_whole(output, made.text)
    except OSError as error:
        raise UserError(f"--output: cannot be written (got {output}: {error.strerror}); choose another place") from None
    return made


def _name(data: str | Path, output: Path) -> str:
    stem = output.name.split(".")[0]
    return name_of(stem if stem not in _NO_NAMES else Path(data).resolve().name)


def _require_valid(made: Draft) -> None:
    from ruamel.yaml import YAML

    from sangam.schemas.loading.documents import check_document

    found = check_document(YAML(typ="safe").load(made.text))
    if isinstance(found, list):
        raise UserError("\n".join(f"draft: {problem}" for problem in found))


def document(made: Draft, output: Path) -> dict[str, Any]:
    """Returns the content of a draft, for programs."""
    guesses = made.guesses
    event = [guesses.event_time] if guesses.event_time else []
    kinds = {"labels": guesses.labels, "event_time": event, "features": guesses.features, "left_out": guesses.left_out}
    columns = {
        kind: [{"column": each.column, "name": each.name, "kind": each.kind, "why": each.why} for each in found]
        for kind, found in kinds.items()
    }
    return {
        "output": str(output),
        "schema": str(output.parent / SCHEMA_FILE),
        "read": made.read,
        "newest_day": made.newest_day,
        **columns,
    }


def print_draft(made: Draft, output: Path) -> None:
    """Prints the content of a draft and the next commands."""
    guesses = made.guesses
    say(f"read {made.read}")
    if made.ignored:
        say(made.ignored)
    say("")
    rows = table("column", "becomes", "because")
    event = [guesses.event_time] if guesses.event_time else []
    for each in [*guesses.labels, *event, *guesses.features[:_MOST_FEATURES], *guesses.left_out]:
        becomes = each.kind if each.name in ("", each.column) else f"{each.kind} {each.name}"
        rows.add_row(each.column, becomes, each.why)
    terminal().print(rows)
    if (more := len(guesses.features) - _MOST_FEATURES) > 0:
        say(f"and {more} features more, in the file")
    say("")
    say(f"wrote {output.parent / SCHEMA_FILE}, by which editors complete and explain the spec; commit both")
    say(f"wrote {output}: read its comments first, especially those with `check`. Then:")
    say(f"  {shlex.join(['sangam', 'validate', str(output)])}")
    date = ["--date", str(made.newest_day)] if made.newest_day else []
    folders = ["--data", made.data, "--root", str(_root(made.data))]
    say(f"  {shlex.join(['sangam', 'run', str(output), *date, *folders])}")


def _root(data: str) -> Path:
    """Returns a folder for the runs outside the folder of the logs; a run rejects one inside."""
    root, folder = Path("runs"), Path(data).resolve()
    inside = not is_stored(data) and (folder in root.resolve().parents or folder == root.resolve())
    return folder.parent / "runs" if inside else root

"""The command `sangam validate`."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.options import SpecArgument
from pipelines.console import say

EPILOG = "Example: sangam validate pipelines/specs/short_video.yaml --base demo/root"


def validate(
    spec: SpecArgument,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|ROOT",
            help="Also print what incremental training would keep of a base: the model of a run, or the newest "
            "blessed model of a root.",
        ),
    ] = None,
) -> None:
    """Checks a spec. Prints every mistake with its line, the value given and what is allowed."""
    from schemas.loading import load_spec
    from schemas.spec import digest

    loaded = load_spec(spec)
    counts = (
        f"{len(loaded.features)} features, {len(loaded.tables)} tables, "
        f"{len(loaded.tasks)} tasks, {len(loaded.gates)} gates"
    )
    say(f"ok {loaded.name} {digest(loaded)} ({counts})")
    if base is not None:
        from pipelines.checks.base import difference, find_base, lines

        for line in lines(loaded, difference(loaded, find_base(base, loaded.name))):
            say(line)

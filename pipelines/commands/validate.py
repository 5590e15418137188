"""The command `sangam validate`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption, SpecArgument
from sangam.pipelines.console import print_json, say

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
    as_json: JsonOption = False,
) -> None:
    """Checks a spec. Prints every mistake with its line, the value given and what is allowed."""
    from sangam.pipelines.outside import check_parts
    from sangam.schemas.loading import load_spec
    from sangam.schemas.spec import digest

    loaded = load_spec(spec)
    check_parts(loaded)
    numbers = {part: len(getattr(loaded, part)) for part in ("features", "tables", "tasks", "gates")}
    kept = []
    if base is not None:
        from sangam.pipelines.checks.base import difference, find_base, lines

        kept = list(lines(loaded, difference(loaded, find_base(base, loaded.name))))
    if as_json:
        print_json({"name": loaded.name, "digest": digest(loaded), **numbers, "base": kept})
        return
    say(f"ok {loaded.name} {digest(loaded)} ({', '.join(f'{number} {part}' for part, number in numbers.items())})")
    for line in kept:
        say(line)

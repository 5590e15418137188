"""The command `sangam bless`."""

import dataclasses
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption, RunArgument
from sangam.pipelines.console import print_json, quieten, say
from sangam.pipelines.times import utc_now
from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx

EPILOG = 'Example: sangam bless ROOT/runs/20240307T101500-1a2b3c4d --because "the tab is being retired"'


def bless(
    run: RunArgument,
    because: Annotated[str, typer.Option(help="The reason; it is recorded.")],
    as_json: JsonOption = False,
) -> None:
    """Blesses and pushes a model that a quality gate has refused, on your responsibility.

    Who blessed the model, when, why and of which run is recorded in ML Metadata, in the registry of blessed models and
    in the manifest of the pushed version. A failed serving check cannot be overridden, nor can scores that are not
    finite.
    """
    quieten()
    leave_out_needless_of_tfx()
    from sangam.pipelines.local.bless import bless as bless_run
    from sangam.schemas.host.user import current_user

    done = bless_run(run, because=because, by=current_user(), now=utc_now())
    if as_json:
        print_json(dataclasses.asdict(done))
        return
    say(f"{'blessed already' if done.was_there else 'blessed'} {done.run} by {done.by}, because {done.because}")
    for sentence in done.overridden:
        say(f"overridden: {sentence}")
    say(done.pushed_line())

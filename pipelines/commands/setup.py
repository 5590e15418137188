"""The command `sangam setup`."""

import sys
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, say

EPILOG = (
    "Example: pip install sangam-*.whl && sangam setup && sangam doctor\n\n"
    "Exit codes: 0 installed; 2 a compiler is missing, or the installation failed."
)


def setup(
    horovod: Annotated[
        bool,
        typer.Option(
            "--horovod/--without-horovod",
            help="Compile Horovod: 2 to 4 minutes. Only `training.sync.transport: horovod` needs it.",
        ),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Installs what training and serving need into this Python's environment: 3.5 GB of pinned packages.

    `pip install` brings only what validates and plans specs: pip cannot resolve the rest, nor compile Horovod against
    the TensorFlow beside it. Packages keep the versions and hashes of the lock in the package.
    """
    from sangam.pipelines.installing import install

    install(with_horovod=horovod)
    if as_json:
        print_json({"environment": sys.prefix, "horovod": horovod})
        return
    say("installed; sangam doctor checks this machine, sangam demo runs a whole pipeline")

"""The command `sangam ui`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption

EPILOG = (
    "Example: sangam ui runs\n\n"
    "Exit codes: 0 it was ended by Ctrl-C or SIGTERM; 2 the root or an option is wrong, or the port is taken."
)


def ui(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Pipeline root of local runs; may still be empty.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any address but loopback requires a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one, which is printed.")] = 8088,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token to ask for; or SANGAM_UI_TOKEN. [default: none on this machine, else a new one, "
            "which is printed]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Shows a root in the browser: runs and their reports, two runs side by side, the running one live, searches and
    backfills as they go.

    It only reads. Nothing on its pages comes from elsewhere.
    """
    from sangam.pipelines.ui.access import read_token
    from sangam.pipelines.ui.process import Options, serve

    raise typer.Exit(serve(Options(root, host, port, read_token(token_file, os.environ), as_json)))

"""The command `sangam serve`: the server's options, in words."""

from pathlib import Path
from typing import Annotated

import typer

from components.server.options import GRPC_PORT, REST_PORT, Options

EPILOG = (
    "Example: sangam serve ROOT/serving/short_video\n\n"
    "Exit codes: 0 it was stopped by SIGTERM or SIGINT; 1 the one model given cannot be served; 2 the command was "
    "given something wrong."
)

Port = Annotated[int, typer.Option(help="0: any free one, which is printed.")]


def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of versions, push.path below the root; or one SavedModel's.")
    ],
    name: Annotated[str, typer.Option(help="Of the model in requests. Left out: the ranker's, or the folder's.")] = "",
    host: Annotated[str, typer.Option(help="To listen on. There is no authentication.")] = Options.host,
    grpc_port: Port = GRPC_PORT,
    rest_port: Port = REST_PORT,
    address_file: Annotated[
        Path | None, typer.Option(help="File to write both addresses to as JSON, once the server is ready.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Requests that run at once. 0: one for each core.")] = Options.threads,
    threads_per_request: Annotated[
        int, typer.Option(help="That share one product of matrices; more than 1 for large dense parts only.")
    ] = Options.threads_per_request,
    poll_s: Annotated[
        float, typer.Option(help="Seconds between two looks at the folder for another version.")
    ] = Options.poll_s,
    max_message_bytes: Annotated[int, typer.Option(help="Of a request.")] = Options.max_message_bytes,
    max_rows: Annotated[int, typer.Option(help="Candidates or examples of a request.")] = Options.max_rows,
    max_queued: Annotated[
        int, typer.Option(help="Requests that may wait for others; one more is refused.")
    ] = Options.max_queued,
    rest_timeout_s: Annotated[
        float,
        typer.Option(
            help="Seconds that a REST request may take to arrive and wait; a gRPC one brings its own deadline."
        ),
    ] = Options.rest_timeout_s,
    max_connections: Annotated[
        int, typer.Option(help="REST connections; one more closes the one that took longest over its request.")
    ] = Options.max_connections,
    grace_s: Annotated[
        float, typer.Option(help="Seconds that running requests have to end in, once it is told to stop.")
    ] = Options.grace_s,
    allow_updates: Annotated[
        bool, typer.Option("--allow-updates", help="Let clients change the served model: upsert and remove.")
    ] = False,
    parent_pid: Annotated[int, typer.Option(help="End with this process. 0: with none.")] = Options.parent_pid,
) -> None:
    """Serves the newest version of a folder, over the gRPC and REST interfaces of TensorFlow Serving.

    A new version takes the place of the old one without failing or mixing a request; one whose files do not fit its
    manifest is refused, and the old one goes on. Also: /healthz, /readyz, and /metrics for Prometheus.
    """
    options = Options(**locals())  # Each parameter is an option of the same name.
    from components.server import process

    process.end(process.serve(options))

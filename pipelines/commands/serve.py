"""The command `sangam serve`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.components.server.options import GRPC_PORT, REST_PORT, Options
from sangam.pipelines.commands.options import JsonOption, LogFormatOption, choose_log_format

EPILOG = (
    "Example: sangam serve ROOT/serving/short_video\n\n"
    "Exit codes: 0 the server was stopped by SIGTERM or SIGINT; 1 the model cannot be served; 2 an option is wrong."
)

_TargetOption = Annotated[
    Path | None,
    typer.Option(help="File by which Prometheus finds /metrics while the server serves, for its file_sd."),
]
_LogOption = Annotated[
    str,
    typer.Option(
        metavar="FOLDER|kafka://HOST:PORT,.../TOPIC",
        help="Log of the share of requests that the spec of a version declares under serving.log.",
    ),
]
_KeyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Key of the columns that the log has hashed: 16 to 64 bytes.")
]
_KafkaOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Kafka: lines PROPERTY=VALUE for librdkafka: TLS, SASL.")
]


def serve(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of versions, push.path below the root; or one SavedModel.")
    ],
    name: Annotated[str, typer.Option(help="Name of the model. [default: the ranker's, or the folder's]")] = "",
    host: Annotated[str, typer.Option(help="Address to listen on. There is no authentication.")] = Options.host,
    grpc_port: Annotated[int, typer.Option(help="Port of gRPC; 0: any free one, which is printed.")] = GRPC_PORT,
    rest_port: Annotated[int, typer.Option(help="Port of REST; 0: any free one, which is printed.")] = REST_PORT,
    address_file: Annotated[
        Path | None, typer.Option(help="File to write both addresses to, as JSON, once the server is ready.")
    ] = None,
    metrics_target: _TargetOption = None,
    processes: Annotated[int, typer.Option(help="Processes at these ports; several map large tables.")] = 1,
    threads: Annotated[int, typer.Option(help="Requests at once, of a process; 0: its share of the cores.")] = 0,
    threads_per_request: Annotated[
        int, typer.Option(help="Threads of one matrix product; more than 1 pays for large dense parts only.")
    ] = Options.threads_per_request,
    poll_s: Annotated[
        float, typer.Option(help="Seconds between two looks at the folder for a new version.")
    ] = Options.poll_s,
    max_message_bytes: Annotated[int, typer.Option(help="Largest request, in bytes.")] = Options.max_message_bytes,
    max_rows: Annotated[int, typer.Option(help="Most candidates or examples in a request.")] = Options.max_rows,
    max_batch_rows: Annotated[
        int, typer.Option(help="Most rows of requests that waited and are joined in one call; 0: none are joined.")
    ] = Options.max_batch_rows,
    max_queued: Annotated[
        int, typer.Option(help="Most requests that wait for others; any more are refused.")
    ] = Options.max_queued,
    rest_timeout_s: Annotated[
        float,
        typer.Option(help="Seconds for a REST request to arrive and wait; a gRPC request has its own deadline."),
    ] = Options.rest_timeout_s,
    max_connections: Annotated[
        int, typer.Option(help="Maximum number of REST connections; one more closes the slowest.")
    ] = Options.max_connections,
    grace_s: Annotated[
        float, typer.Option(help="Seconds that running requests have to finish once the server is stopped.")
    ] = Options.grace_s,
    allow_updates: Annotated[
        bool, typer.Option("--allow-updates", help="Let clients change the served model: upsert and remove.")
    ] = False,
    map_tables: Annotated[bool, typer.Option("--map-tables", help="Map large tables' files into memory.")] = False,
    log: _LogOption = "",
    log_key: _KeyOption = None,
    log_kafka_config: _KafkaOption = None,
    parent_pid: Annotated[int, typer.Option(help="Stop when this process ends; 0: with none.")] = Options.parent_pid,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serves the newest version of a folder, over the gRPC and REST APIs of TensorFlow Serving.

    A new version replaces the old one without failing a request. A version whose files do not match its manifest is
    refused, and the old one stays. Also served: /healthz, /readyz, and /metrics for Prometheus.
    """
    given = locals()  # Each other parameter is an option of the same name.
    choose_log_format(given.pop("log_format"))
    options = Options(**given)
    from sangam.components.server import process

    process.end(process.serve(options))

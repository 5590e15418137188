"""The command `sangam online`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption, LogFormatOption, RootOption, SpecArgument, choose_log_format
from sangam.pipelines.console import quieten, say, say_event
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = (
    "Example: sangam online pipelines/specs/short_video.yaml --base latest --source demo/stream --root demo/root\n\n"
    "Exit codes: 130 or 143 it was stopped, and goes on when started again; 1 it failed; 2 the spec, an option or the "
    "data are wrong; 4 another one trains the same ranker on this root."
)


def online(
    spec: SpecArgument,
    root: RootOption,
    source: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="FOLDER|kafka://HOST:PORT,...",
            help="Where log files appear; the spec's file patterns are relative to it. Or brokers of Kafka.",
        ),
    ],
    base: Annotated[
        str, typer.Option("--base", metavar="latest|RUN", help="Blessed model to start from: the newest, or a run's.")
    ] = "latest",
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC|SOURCE=TOPIC",
            help="Kafka: topic of the main log, and of each source of the spec; give it for each.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="Kafka: group whose offsets are committed. [default: sangam-NAME of the spec]"),
    ] = None,
    kafka_config: Annotated[
        Path | None,
        typer.Option("--kafka-config", metavar="FILE", help="Kafka: lines PROPERTY=VALUE for librdkafka: TLS, SASL."),
    ] = None,
    follow: Annotated[
        bool, typer.Option(help="Switch to each newly blessed model, and train again on the data after its own.")
    ] = True,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trains between the daily runs: on actions as they arrive, with deltas to serving.

    Runs until SIGTERM or Ctrl-C; killed at any time and started again, it loses and repeats no example.
    """
    choose_log_format(log_format)
    quieten()
    from sangam.components.record.lock import locked
    from sangam.pipelines.online.request import check_request
    from sangam.pipelines.online.source import source_of
    from sangam.pipelines.online.supervisor import Supervisor
    from sangam.schemas.loading import load_spec

    loaded = load_spec(spec)
    given = source_of(loaded, source, topic or [], group, kafka_config)
    request = check_request(loaded, root, base, given, follows=follow and base == "latest")
    folder = request.root.online(request.spec.name)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as renew:
        code = Supervisor(request, say_event if as_json else say, dict(os.environ), renew).run()
    raise typer.Exit(code or ExitCode.DONE)

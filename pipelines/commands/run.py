"""The command `sangam run`."""

from typing import Annotated

import typer

from sangam.pipelines.commands.options import (
    DataOption,
    JsonOption,
    LogFormatOption,
    RootOption,
    SpecArgument,
    choose_log_format,
)
from sangam.pipelines.console import say_error
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = (
    "Example: sangam run pipelines/specs/short_video.yaml --date 2024-03-07 --data demo/logs "
    "--root demo/root\n\n"
    "Exit codes: 0 the model is blessed; 3 a gate refused the model; 1 the run failed; "
    "2 the spec, an option or the logs are wrong; 4 another run is using the root; 130 or 143 the run was stopped."
)


def run(
    spec: SpecArgument,
    data: DataOption,
    root: RootOption,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day to evaluate on. Only for logs by day.")
    ] = None,
    reread: Annotated[
        bool,
        typer.Option(
            "--reread",
            help="Read every log file again to see whether it has changed, even if its size and time are the same.",
        ),
    ] = False,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Runs the whole pipeline on this machine: ingest, validate, transform, train, evaluate, push.

    Steps whose inputs and code have not changed since an earlier run on the same root are taken from its cache; after
    a run was killed, the same command resumes it. The summary of the run is ROOT/runs/RUN/summary.json; --json prints
    it, and sends all else to standard error.
    """
    from sangam.components.logs.files.digests import forget
    from sangam.pipelines.local.request import check_request
    from sangam.pipelines.local.terminal import run_and_report
    from sangam.pipelines.outside import check_parts
    from sangam.schemas.loading import load_spec

    choose_log_format(log_format)
    try:
        loaded = load_spec(spec)
        request = check_request(loaded, date, data, root)
        check_parts(loaded)
        if reread:
            forget(request.root)
    except KeyboardInterrupt:
        say_error("stopped before the run began")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(run_and_report(request, as_json=as_json))

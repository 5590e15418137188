"""The command `sangam backfill`: the dates of a past period, on this machine or on Kubeflow."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    JsonOption,
    LogFormatOption,
    NamespaceOption,
    SpecArgument,
    TokenEnvOption,
    TokenFileOption,
    choose_log_format,
)
from sangam.pipelines.console import print_json, say, say_error, terminal
from sangam.pipelines.deploy.connection import Connection, connect
from sangam.pipelines.deploy.release_options import ReleaseOptions
from sangam.schemas.errors import UserError

Value = TypeVar("Value")

EPILOG = (
    "Example: sangam backfill pipelines/specs/short_video.yaml --from 2024-03-05 --to 2024-03-07 "
    "--data demo/logs --root demo/root\n\n"
    "Example: sangam backfill pipelines/specs/short_video.yaml --from 2024-03-05 --to 2024-03-07 --on kfp "
    "--host http://localhost:8888 --image registry.example/sangam@sha256:...\n\n"
    "Exit codes: 0 every date finished, its model blessed or refused; 1 a date failed; 2 the spec or an option is "
    "wrong; 130 or 143 the backfill was stopped."
)


def backfill(
    spec: SpecArgument,
    first: Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="The first date.")],
    last: Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="The last date.")],
    on: Annotated[Literal["local", "kfp"], typer.Option(help="This machine, or Kubeflow Pipelines.")] = "local",
    data: Annotated[
        str | None,
        typer.Option(help="local: folder of the logs, or its address; file patterns are relative to it."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="local: folder for everything that runs write; created if it does not exist.")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="URL", help="kfp: address of Kubeflow Pipelines.")] = None,
    image: Annotated[str | None, typer.Option(help="kfp: image of the steps, pinned: NAME@sha256:...")] = None,
    trainer_image: Annotated[
        str | None, typer.Option(help="kfp: image of the trainer, if it differs from --image.")
    ] = None,
    experiment: Annotated[str | None, typer.Option(help="kfp: experiment that holds the runs.")] = None,
    pipeline_root: Annotated[
        str | None, typer.Option(help="kfp: folder of everything that outlives a run, as the pods see it.")
    ] = None,
    data_root: Annotated[str | None, typer.Option(help="kfp: folder of the logs, as the pods see it.")] = None,
    service_account: Annotated[str | None, typer.Option(help="kfp: service account of the pods.")] = None,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="kfp: rerun dates whose run failed.")] = False,
    ignore_run: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="kfp: Do not wait for this unfinished run. Repeatable.")
    ] = None,
    log_format: LogFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Runs a spec for each date of a past period, in order and one at a time.

    Each date's model is evaluated on that date before a later one trains on it. After a stop or a failure the same
    command resumes; dates that finished with the same spec and code are not run again. On this machine a table shows
    each task's metric by date, a date without logs is skipped if the spec says `missing_days: skip`, and
    output and record are in ROOT/backfill/NAME. On Kubeflow the options are those of `deploy`.
    """
    choose_log_format(log_format)
    release = {"image": image, "trainer_image": trainer_image, "experiment": experiment}
    release |= {"pipeline_root": pipeline_root, "data_root": data_root, "service_account": service_account}
    server = {"namespace": namespace or None, "ca_cert": ca_cert, "token_env": token_env, "token_file": token_file}
    if on == "local":
        choices = {"retry_failed": retry_failed or None, "ignore_run": ignore_run or None}
        _refuse(on, {"host": host, **release, **server, **choices})
        _on_this_machine(
            spec, first, last, _required(on, "--data", data), _required(on, "--root", root), as_json=as_json
        )
    _refuse(on, {"data": data, "root": root})
    release["image"] = _required(on, "--image", image)
    options = ReleaseOptions(**{name: value for name, value in release.items() if value is not None})
    connection = Connection(_required(on, "--host", host), namespace, token_env, token_file, ca_cert)
    _on_kubeflow(spec, first, last, options, connection, retry_failed, frozenset(ignore_run or ()), as_json=as_json)


def _on_this_machine(spec: Path, first: str, last: str, data: str, root: Path, *, as_json: bool) -> None:
    from sangam.pipelines.backfill.local import check_backfill, document, run_backfill

    checked = check_backfill(spec, first, last, data, root)
    code = run_backfill(checked, terminal(sys.stderr if as_json else None))
    if as_json:
        print_json({"exit_code": int(code), **document(checked)})
    raise typer.Exit(code)


def _on_kubeflow(
    spec: Path,
    first: str,
    last: str,
    options: ReleaseOptions,
    connection: Connection,
    retry_failed: bool,
    ignored_runs: frozenset[str],
    *,
    as_json: bool,
) -> None:
    from sangam.pipelines.backfill.dates import check_dates
    from sangam.pipelines.backfill.kubeflow import Choices, run_backfill
    from sangam.pipelines.deploy.release_options import check_options, compile_for_kubeflow, make_release
    from sangam.schemas.loading import load_spec

    loaded = load_spec(spec)
    dates = check_dates(loaded, first, last)
    check_options(loaded, options)
    with connect(connection) as api:
        tell = say_error if as_json else say
        tell(f"compiling  {loaded.name}")
        release = make_release(loaded, options, compile_for_kubeflow)
        code = run_backfill(api, release, dates, tell, Choices(retry_failed, ignored_runs))
    if as_json:
        print_json({"exit_code": int(code), "name": loaded.name, "dates": [date.isoformat() for date in dates]})
    raise typer.Exit(code)


def _required(on: str, option: str, value: Value | None) -> Value:
    if value is None:
        raise UserError(f"{option}: is missing; a backfill with --on {on} needs it")
    return value


def _refuse(on: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option}: has no effect with --on {on} (got {value}); leave it out")

"""The command `sangam runs`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    JsonOption,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
    refuse_options,
)
from sangam.pipelines.console import print_json, terminal
from sangam.pipelines.deploy.connection import Connection, connect

EPILOG = (
    "Example: sangam runs runs --last 30\n\nExample: sangam runs short_video --host http://localhost:8888 --last 30"
)


def runs(
    given: Annotated[
        str, typer.Argument(metavar="ROOT|NAME", help="Pipeline root on this machine; with --host, name of the ranker.")
    ],
    host: Annotated[
        str | None, typer.Option("--host", metavar="URL", help="Address of Kubeflow Pipelines: runs there.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--last", "--limit", min=1, max=1000, help="Most runs to print, newest first.")
    ] = 14,
    name: Annotated[str | None, typer.Option("--name", help="Of a root: only runs of this ranker.")] = None,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints runs, newest first: date, state, duration and the step that failed.

    Those in a pipeline root on this machine, also with the pushed version and the mean AUC; or those of a ranker on
    Kubeflow.
    """
    if host is None:
        server = {"--namespace": namespace, "--ca-cert": ca_cert, "--token-env": token_env, "--token-file": token_file}
        refuse_options("without --host", server)
        _print_local(Path(given), name, limit, as_json=as_json)
        return
    refuse_options("with --host", {"--name": name})
    from sangam.pipelines.deploy.printing import print_runs
    from sangam.pipelines.deploy.reasons import reason_of
    from sangam.pipelines.deploy.state import recent_runs, run_document
    from sangam.pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        recent, now = recent_runs(api, given, limit), utc_now()
    if as_json:
        print_json([run_document(run, given, now, reason_of(run)) for run in recent])
    else:
        print_runs(recent, given, now, terminal())


def _print_local(root: Path, name: str | None, limit: int, *, as_json: bool) -> None:
    from sangam.components.record.store import read_runs
    from sangam.pipelines.history.runs import document, print_runs
    from sangam.pipelines.times import utc_now

    found, now = read_runs(root, name, limit), utc_now()
    if as_json:
        print_json([document(run, now) for run in found])
    else:
        print_runs(found, now, terminal())

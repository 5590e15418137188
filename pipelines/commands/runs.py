"""The command `sangam runs`."""

import json
from typing import Annotated

import typer

from pipelines.commands.options import (
    CaCertOption,
    HostOption,
    JsonOption,
    NameArgument,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
)
from pipelines.console import terminal
from pipelines.deploy.connection import Connection, connect

EPILOG = "Example: sangam runs short_video --host http://localhost:8888 --limit 30"


def runs(
    name: NameArgument,
    host: HostOption,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most runs to print, newest first.")] = 14,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints a ranker's runs on Kubeflow, newest first: date, state, duration and the step that failed."""
    from pipelines.deploy.printing import print_runs
    from pipelines.deploy.reasons import reason_of
    from pipelines.deploy.state import recent_runs, run_document
    from pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        recent, now = recent_runs(api, name, limit), utc_now()
    if as_json:
        print(json.dumps([run_document(run, name, now, reason_of(run)) for run in recent], indent=2))
    else:
        print_runs(recent, name, now, terminal())

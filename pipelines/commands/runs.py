"""The command `sangam runs`: what came of the last days."""

import json
from typing import Annotated

import typer

from pipelines.commands.status import JsonOption, NameArgument
from pipelines.console import console
from pipelines.deploy.connection import (
    CaCertOption,
    Connection,
    HostOption,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
    connect,
)

EPILOG = "Example: sangam runs short_video --host http://localhost:8888 --limit 30"


def runs(
    name: NameArgument,
    host: HostOption,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, from the newest.")] = 14,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints the runs of a ranker on Kubeflow, newest first: date, state, duration and the step that failed."""
    from pipelines.deploy.printing import print_runs
    from pipelines.deploy.state import recent_runs, run_document
    from pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        found, now = recent_runs(api, name, limit), utc_now()
    if as_json:
        print(json.dumps([run_document(run, name, now) for run in found], indent=2))
    else:
        print_runs(found, name, now, console())

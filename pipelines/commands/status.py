"""The command `sangam status`: how a deployed ranker is doing."""

import json
from typing import Annotated

import typer

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

EPILOG = (
    "Example: sangam status short_video --host http://localhost:8888\n\n"
    "Exit codes: 0 healthy; 1 the last run did not succeed; 2 the command was given something wrong, the ranker is not "
    "deployed, or the server failed; 5 no schedule is enabled, or more than one; 6 the run that was due has not begun."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the ranker, as in its spec.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs.")]


def status(
    name: NameArgument,
    host: HostOption,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tells which version of a ranker runs when on Kubeflow, and what came of the last run, step by step."""
    from pipelines.deploy.printing import print_state
    from pipelines.deploy.state import EXIT_CODES, state_of
    from pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        state = state_of(api, name, utc_now())
    if as_json:
        print(json.dumps(state.document(), indent=2))
    else:
        print_state(state, console())
    raise typer.Exit(EXIT_CODES[state.health])

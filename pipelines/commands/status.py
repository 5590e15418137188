"""The command `sangam status`."""

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    HostOption,
    JsonOption,
    MountedRootOption,
    NameArgument,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
)
from sangam.pipelines.console import print_json, terminal
from sangam.pipelines.deploy.connection import Connection, connect

EPILOG = (
    "Example: sangam status short_video --host http://localhost:8888\n\n"
    "Exit codes: 0 healthy; 1 the last run did not succeed; 2 an option is wrong, the ranker is not deployed, or the "
    "server failed; 5 no schedule is enabled, or more than one; 6 the run that was due has not started; 7 a pod of the "
    "last run has waited for 15 minutes."
)


def status(
    name: NameArgument,
    host: HostOption,
    root: MountedRootOption = None,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints which version of a ranker Kubeflow runs, when it runs next, and how the last run went, step by step."""
    from sangam.pipelines.deploy.printing import print_state
    from sangam.pipelines.deploy.state import EXIT_CODES, state_of
    from sangam.pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        state = state_of(api, name, utc_now(), root)
    if as_json:
        print_json(state.document())
    else:
        print_state(state, terminal())
    raise typer.Exit(EXIT_CODES[state.health])

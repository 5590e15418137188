"""The command `sangam retire`: no more runs of a ranker."""

from typing import Annotated

import typer

from pipelines.commands.status import NameArgument
from pipelines.console import say
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
    "Example: sangam retire short_video --host http://localhost:8888 --yes\n\n"
    "Exit codes: 0 nothing is scheduled any more, or, without --yes, nothing was changed; 2 the command was given "
    "something wrong, or the server failed."
)


def retire(
    name: NameArgument,
    host: HostOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; left out: only say what would be done.")] = False,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Ends a ranker's schedule on Kubeflow. Versions, runs and pushed models stay, and a run that is going goes on."""
    from pipelines.deploy.retirement import retire as retire_ranker

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        retire_ranker(api, name, yes, say)

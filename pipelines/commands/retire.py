"""The command `sangam retire`."""

from typing import Annotated

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    HostOption,
    JsonOption,
    NameArgument,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
)
from sangam.pipelines.console import Teller, print_json
from sangam.pipelines.deploy.connection import Connection, connect

EPILOG = (
    "Example: sangam retire short_video --host http://localhost:8888 --yes\n\n"
    "Exit codes: 0 nothing is scheduled any more, or, without --yes, nothing was changed; 2 an option is wrong, or the "
    "server failed."
)


def retire(
    name: NameArgument,
    host: HostOption,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without it, only print what would be done.")] = False,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ends a ranker's schedule on Kubeflow. Versions, runs and pushed models stay; a run in progress continues."""
    from sangam.pipelines.deploy.retirement import retire as retire_ranker

    say = Teller(as_json=as_json)
    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        are_gone = retire_ranker(api, name, yes, say)
    if as_json:
        print_json({"name": name, "retired": yes and are_gone, "lines": say.lines})

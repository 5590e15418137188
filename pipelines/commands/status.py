"""The command `sangam status`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import (
    CaCertOption,
    JsonOption,
    MountedRootOption,
    NamespaceOption,
    TokenEnvOption,
    TokenFileOption,
    refuse_options,
)
from sangam.pipelines.console import print_json, say_error, terminal
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = (
    "Example: sangam status runs\n\nExample: sangam status short_video --host http://localhost:8888\n\n"
    "Exit codes: 0 healthy; 1 the last run did not succeed, or nothing was pushed for the declared days; 2 an option "
    "is wrong, there is no such ranker, or the server failed; 3 a gate refused the last model of a root; of "
    "Kubeflow also: 5 no schedule is enabled, or more than one; 6 the run that was due has not started; 7 a pod of the "
    "last run has waited for 15 minutes."
)


def status(
    given: Annotated[
        str, typer.Argument(metavar="ROOT|NAME", help="Pipeline root on this machine; with --host, name of the ranker.")
    ],
    host: Annotated[
        str | None, typer.Option("--host", metavar="URL", help="Address of Kubeflow Pipelines: the ranker there.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of a root: only this ranker.")] = None,
    alert: Annotated[
        bool,
        typer.Option(
            "--alert", help="Of a root: send an alert if nothing was pushed for the days that the spec declares."
        ),
    ] = False,
    root: MountedRootOption = None,
    namespace: NamespaceOption = "",
    ca_cert: CaCertOption = None,
    token_env: TokenEnvOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prints what is live, how the last run ended, when the next one starts, and warnings.

    Of each ranker in a pipeline root on this machine; or of a ranker on Kubeflow, step by step.
    """
    if host is None:
        server = {"--namespace": namespace, "--ca-cert": ca_cert, "--token-env": token_env, "--token-file": token_file}
        refuse_options("without --host", {"--root": root, **server})
        _local(Path(given), name, sends=alert, as_json=as_json)
        return
    refuse_options("with --host", {"--name": name, "--alert": alert})
    from sangam.pipelines.deploy.connection import Connection, connect
    from sangam.pipelines.deploy.printing import print_state
    from sangam.pipelines.deploy.state import EXIT_CODES, state_of
    from sangam.pipelines.times import utc_now

    with connect(Connection(host, namespace, token_env, token_file, ca_cert)) as api:
        state = state_of(api, given, utc_now(), root)
    if as_json:
        print_json(state.document())
    else:
        print_state(state, terminal())
    raise typer.Exit(EXIT_CODES[state.health])


def _local(root: Path, name: str | None, *, sends: bool, as_json: bool) -> None:
    from sangam.components.alerts import send
    from sangam.pipelines.history.next_start import next_start
    from sangam.pipelines.history.status import print_states, states_of
    from sangam.pipelines.times import utc_now

    now = utc_now()
    states = states_of(root, name, now, next_start)
    if as_json:
        print_json([state.document(now) for state in states])
    else:
        print_states(states, now, terminal())
    for state in states if sends else ():
        if state.alerts and state.silence and (problem := send(state.alerts, state.silence, os.environ)):
            say_error(problem, as_json=as_json, code=ExitCode.FAILED)
    worst_last = (ExitCode.DONE, ExitCode.REJECTED, ExitCode.FAILED)
    raise typer.Exit(max((state.exit_code for state in states), key=worst_last.index))

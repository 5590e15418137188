"""The commands `sangam input-service dispatcher` and `sangam input-service worker`."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import QUIET_ENVIRONMENT, say_error
from sangam.schemas.contracts.monitoring import EVERYWHERE, LOOPBACK
from sangam.schemas.errors import UserError
from sangam.schemas.spec.addresses import is_host_port

_MODULE = "sangam.trainer_module.launch.data_service"
_ENDS = "Exit codes: 143 stopped by SIGTERM, 130 by SIGINT; 2 an option is wrong."
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"

app = typer.Typer(
    no_args_is_help=True,
    help="Reads examples for trainings, on this machine or others: a dispatcher, and workers that come and go.",
)

_PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one, which is printed.")
]
_AllInterfacesOption = Annotated[
    bool,
    typer.Option(
        "--all-interfaces", help="Listen to other machines too, not on loopback alone. There is no authentication."
    ),
]

_MetricsPortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port of /metrics for Prometheus; 0: any free one. Left out: no metrics."),
]
_MetricsTargetOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File by which Prometheus finds them, in a folder that its file_sd reads."),
]


@app.command(
    epilog=f"Example: sangam input-service dispatcher --work-dir service --port 5050\n\n{_ENDS}",
)
def dispatcher(
    work_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder of the state from which a restarted dispatcher resumes; created if it does not exist.",
        ),
    ],
    port: _PortOption = 5050,
    lost_after_s: Annotated[
        float,
        typer.Option(
            min=1, help="Seconds of silence after which other workers read the parts of a worker; it may rejoin later."
        ),
    ] = 30.0,
    all_interfaces: _AllInterfacesOption = False,
    metrics_port: _MetricsPortOption = None,
    metrics_target: _MetricsTargetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hands the parts of each epoch to the workers. Trainings join it by `cluster.input_service` of their spec.

    It may be killed and started again on its work directory: trainings under way go on, and lose nothing.
    """
    arguments = ["--port", str(port), "--work-dir", str(work_dir.absolute()), "--lost-after-s", str(lost_after_s)]
    arguments += _metrics("dispatcher", metrics_port, metrics_target, all_interfaces)
    _become("dispatcher", arguments, all_interfaces, as_json)


@app.command(
    epilog=f"Example: sangam input-service worker --dispatcher localhost:5050\n\n{_ENDS}",
)
def worker(
    dispatcher: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the dispatcher.")],
    port: _PortOption = 0,
    advertise: Annotated[
        str,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Where trainings and the dispatcher reach this worker; needed with --all-interfaces.",
        ),
    ] = "",
    patience_s: Annotated[float, typer.Option(min=0, help="Seconds to wait for the dispatcher.")] = 60.0,
    all_interfaces: _AllInterfacesOption = False,
    metrics_port: _MetricsPortOption = None,
    metrics_target: _MetricsTargetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reads and transforms examples. It must see the files of the trainings under their paths.

    Start any number, at any time: a new worker takes part in epochs under way. One that is stopped or killed costs no
    example: the others read again what it held.
    """
    try:
        is_host_port(dispatcher)
    except ValueError as error:
        raise UserError(f"--dispatcher: {error} (got {dispatcher!r})") from error
    arguments = ["--dispatcher", dispatcher, "--port", str(port), "--patience-s", str(patience_s)]
    if address := _advertised(advertise, all_interfaces):
        arguments += ["--advertise", address]
    arguments += _metrics("worker", metrics_port, metrics_target, all_interfaces)
    _become("worker", arguments, all_interfaces, as_json)


def _advertised(address: str, all_interfaces: bool) -> str:
    """Returns what a worker registers as; `%port%` stands for its port.

    Raises:
        UserError: the address has another form, or does not fit where the worker listens.
    """
    if all_interfaces != bool(address):
        raise UserError(
            f"--advertise: {'has no effect on loopback' if address else 'is missing'} (got {address!r}); "
            "with --all-interfaces give the host name under which other machines reach this worker"
        )
    if re.fullmatch(_HOST, address):
        return f"{address}:%port%"
    try:
        return is_host_port(address) if address else ""
    except ValueError as error:
        raise UserError(f"--advertise: {error}, or a host alone (got {address!r})") from error


def _metrics(role: str, port: int | None, target: Path | None, all_interfaces: bool) -> list[str]:
    """Returns how the process is told to serve metrics.

    Raises:
        UserError: there is a file for Prometheus, and nothing to find.
    """
    if port is None:
        if target is not None:
            raise UserError(f"--metrics-target: has no effect (got {target}); give --metrics-port too")
        return []
    arguments = ["--metrics-port", str(port), "--metrics-host", EVERYWHERE if all_interfaces else LOOPBACK]
    if target is not None:
        # Its name tells it from others of its kind.
        labels = {"job": "sangam-input", "process": role, "instance": target.stem}
        arguments += ["--metrics-target", str(target.absolute()), "--metrics-labels", json.dumps(labels)]
    return arguments


def _become(role: str, arguments: list[str], all_interfaces: bool, as_json: bool) -> NoReturn:
    """Goes on as the process of the service, in place of this one."""
    from sangam.trainer_module.launch.loopback import on_loopback

    own = {} if all_interfaces else on_loopback()
    if all_interfaces:
        say_error(
            f"warning: the {role} listens on all interfaces, without authentication: every client can read "
            "files of this machine. Allow its port to the machines of the trainings alone"
        )
    environment = {**QUIET_ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **own}
    told = ["--json"] if as_json else []
    os.execve(sys.executable, [sys.executable, "-m", _MODULE, role, *arguments, *told], environment)

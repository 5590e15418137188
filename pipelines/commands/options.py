"""Arguments and options that several commands share."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from sangam.schemas.errors import UserError
from sangam.schemas.host.plain_text import FORMAT_VARIABLE

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")]
DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Folder of the logs, or its address, s3://... or gs://...; the spec's file patterns are relative to it.",
    ),
]
RootOption = Annotated[
    Path, typer.Option("--root", help="Folder for everything that runs write; created if it does not exist.")
]

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run: ROOT/runs/ID, the beginning of the ID, ROOT/runs/latest, or the root for its latest run.",
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the ranker, as in its spec.")]
LogFormatOption = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        "--log-format",
        help="Format of the logs, also of all processes that are started. [default: $SANGAM_LOG_FORMAT, or text]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

HostOption = Annotated[
    str,
    typer.Option("--host", metavar="URL", help="Address of Kubeflow Pipelines, for example http://localhost:8888."),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", help="Namespace of the profile. Only for a Kubeflow with several users.")
]
TokenEnvOption = Annotated[
    str | None, typer.Option("--token-env", metavar="VAR", help="Environment variable that holds a bearer token.")
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="File that holds a bearer token; read for every request."),
]
CaCertOption = Annotated[
    Path | None,
    typer.Option("--ca-cert", metavar="FILE", help="Certificate authority (PEM) that signed the server's certificate."),
]

MountedRootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="PATH",
        help="Where this machine mounts the pipeline root, in which failed steps leave their reason. "
        "[default: as in the pods]",
    ),
]

ImageOption = Annotated[str, typer.Option("--image", help="Image of the steps, pinned: NAME@sha256:...")]
TrainerImageOption = Annotated[
    str, typer.Option("--trainer-image", help="Image of the trainer, if it differs from --image.")
]
ExperimentOption = Annotated[
    str, typer.Option("--experiment", help="Experiment that holds the runs. [default: the ranker's name]")
]
PipelineRootOption = Annotated[
    str, typer.Option("--pipeline-root", help="Folder of everything that outlives a run, as the pods see it.")
]
DataRootOption = Annotated[str, typer.Option("--data-root", help="Folder of the logs, as the pods see it.")]
ServiceAccountOption = Annotated[
    str,
    typer.Option("--service-account", help="Service account of the pods. [default: the spec's, or the server's]"),
]


def choose_log_format(given: Literal["text", "json"] | None) -> None:
    """Sets the format of logs for this process and its children; None leaves it as it is."""
    if given is not None:
        os.environ[FORMAT_VARIABLE] = given


def refuse_options(where: str, options: Mapping[str, object]) -> None:
    """Refuses options that have no effect.

    Args:
        where: why they have none, such as `without --host`.
        options: values by option; empty ones were not given.

    Raises:
        UserError: one was given.
    """
    for option, value in options.items():
        if value:
            raise UserError(f"{option}: has no effect {where} (got {value}); leave it out")

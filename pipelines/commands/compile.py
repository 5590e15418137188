"""The command `sangam compile`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from schemas.errors import UserError

EPILOG = (
    "Example: sangam compile pipelines/specs/short_video.yaml --image registry.example/sangam:1 "
    "--output short_video.pipeline.yaml"
)


def compile_(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")],
    image: Annotated[str, typer.Option(help="Container image of the steps.")],
    output: Annotated[Path, typer.Option(help="File to write, replaced where it exists.")],
    trainer_image: Annotated[
        str, typer.Option(help="Container image of the trainer step and of a training job's pods, where it differs.")
    ] = "",
    pipeline_root: Annotated[
        str,
        typer.Option(
            help="Default of the parameter pipeline_root, the folder of everything that outlives a run: on a volume of "
            "cluster.volumes; on Vertex AI gs://BUCKET/FOLDER."
        ),
    ] = "/sangam/root",
    data_root: Annotated[
        str, typer.Option(help="Default of the parameter data_root: folder of the logs.")
    ] = "/sangam/data",
    date: Annotated[
        str,
        typer.Option(
            metavar="YYYY-MM-DD", help="Default of the parameter date; left out: yesterday (UTC) when it runs."
        ),
    ] = "",
    flavour: Annotated[
        Literal["kubeflow", "vertex"],
        typer.Option(help="The backend: Kubeflow Pipelines v2 (YAML, spec 2.1) or Vertex AI Pipelines (JSON)."),
    ] = "kubeflow",
) -> None:
    """Writes the same pipeline for Kubeflow Pipelines v2 or Vertex AI, with date and folders as parameters.

    What the spec declares under `cluster` and the backend cannot do is an error.
    """
    from pipelines.local.output import quieten
    from pipelines.local.request import check_date
    from schemas.loading import load_spec

    loaded = load_spec(spec)
    if date:
        check_date(loaded, date)
    for option, name in (("--image", image), ("--trainer-image", trainer_image)):
        _check_image(option, name)
        if warning := image_warning(option, name):
            Console(stderr=True).print(warning, markup=False, highlight=False, soft_wrap=True)
    quieten()
    from pipelines.kubeflow import Target, compile_pipeline, write_compiled
    from pipelines.provenance import code_folder, git_commit

    target = Target(
        image=image,
        trainer_image=trainer_image,
        pipeline_root=pipeline_root.rstrip("/"),
        data_root=data_root,
        date=date,
        git_commit=git_commit(code_folder()) or "",
        flavour=flavour,
    )
    write_compiled(compile_pipeline(loaded, target), output)
    Console().print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)


def image_warning(option: str, name: str) -> str | None:
    """Returns what is to be told of an image that may be another one tomorrow."""
    if not name or "@sha256:" in name:
        return None
    return f"warning: {option}: names no digest (got {name}); only NAME@sha256:... can be deployed"


def _check_image(option: str, name: str) -> None:
    if any(character.isspace() for character in name) or name != name.strip():
        raise UserError(f"{option}: is no name of an image (got '{name}'); for example registry.example/sangam:1")

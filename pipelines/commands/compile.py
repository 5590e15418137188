"""The command `sangam compile`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sangam.pipelines.commands.options import JsonOption, SpecArgument
from sangam.pipelines.console import print_json, quieten, say, say_error
from sangam.schemas.spec import Spec, digest

EPILOG = (
    "Example: sangam compile pipelines/specs/short_video.yaml --image registry.example/sangam:1 "
    "--output short_video.pipeline.yaml"
)


def compile_(
    spec: SpecArgument,
    image: Annotated[str, typer.Option(help="Container image of the steps.")],
    output: Annotated[Path, typer.Option(help="File to write; replaced if it exists.")],
    trainer_image: Annotated[
        str, typer.Option(help="Container image of the trainer step and of a training job's pods, if it differs.")
    ] = "",
    pipeline_root: Annotated[
        str,
        typer.Option(
            help="Default of the parameter pipeline_root, the folder of everything that outlives a run: on a volume of "
            "cluster.volumes; on Vertex AI gs://BUCKET/FOLDER."
        ),
    ] = "/sangam/root",
    data_root: Annotated[
        str, typer.Option(help="Default of the parameter data_root, the folder of the logs.")
    ] = "/sangam/data",
    date: Annotated[
        str,
        typer.Option(
            metavar="YYYY-MM-DD", help="Default of the parameter date. [default: the day (UTC) before the run]"
        ),
    ] = "",
    flavour: Annotated[
        Literal["kubeflow", "vertex"],
        typer.Option(help="The backend: Kubeflow Pipelines v2 (YAML, spec 2.1) or Vertex AI Pipelines (JSON)."),
    ] = "kubeflow",
    as_json: JsonOption = False,
) -> None:
    """Compiles the pipeline of `run` for Kubeflow Pipelines v2 or Vertex AI, with date and folders as parameters.

    A setting of `cluster` that the backend does not support is an error.
    """
    from sangam.pipelines.kubeflow.target import Target
    from sangam.pipelines.local.request import check_date
    from sangam.schemas.loading import load_spec

    loaded = load_spec(spec)
    if date:
        check_date(loaded, date)
    _check_images(image, trainer_image)
    quieten()
    from sangam.pipelines.kubeflow.checks import alerts_note, parts_note
    from sangam.pipelines.kubeflow.compile import compile_pipeline
    from sangam.pipelines.kubeflow.writing import write_compiled
    from sangam.pipelines.provenance import code_folder, git_commit

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
    notes = "\n".join(filter(None, (alerts_note(loaded), parts_note(loaded))))
    _tell(loaded, notes or None, flavour, output, as_json=as_json)


def _tell(spec: Spec, note: str | None, flavour: str, output: Path, *, as_json: bool) -> None:
    if as_json:
        document = {"name": spec.name, "spec_digest": digest(spec), "flavour": flavour, "output": str(output)}
        print_json(document | {"note": note})
    else:
        say("\n".join(filter(None, (note, f"wrote {output}"))))


def _check_images(image: str, trainer_image: str) -> None:
    """Refuses what is no image, and warns of one that may be another tomorrow."""
    from sangam.pipelines.kubeflow.target import check_image, image_warning

    for option, name in (("--image", image), ("--trainer-image", trainer_image)):
        check_image(option, name)
        if warning := image_warning(option, name):
            say_error(warning)

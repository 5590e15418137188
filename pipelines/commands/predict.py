"""The command `sangam predict`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import Teller, print_json, quieten, say, say_error
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.lock import LockHeld
from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx

EPILOG = (
    'Example: sangam predict ROOT "logs/2024-03-08/*.parquet" --output scores\n\n'
    "Exit codes: 0 every row has its scores; 1 the engine failed; 2 the model, an option or a file is wrong; 4 another "
    "process writes to the folder; 130 stopped: the same command goes on."
)
MODEL_HELP = (
    "A model: a version's folder, a folder of versions, a run, a root; the first two also at s3://... or gs://..."
)


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Rows: a file, a folder or a pattern, or its address. Parquet, CSV or JSONL."
        ),
    ],
    output: Annotated[str, typer.Option(metavar="FOLDER", help="Folder of the predictions, or its address.")],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Columns of the rows to write beside the scores; empty: none. [default: ids, and what the model does "
            "not read]",
            show_default=False,
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="SPEC",
            help="Spec that says how files are read (data), and where (beam). [default: that of the run, or none]",
            show_default=False,
        ),
    ] = None,
    file_format: Annotated[
        Literal["parquet", "csv", "jsonl"] | None,
        typer.Option("--format", help="Format of the files. [default: by their suffix]", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write predictions of another model, or of changed files, anew.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Scores all rows of files with a model: a file of Parquet for each, with its rows in their order.

    A file that has its predictions is not scored again: a command that was stopped goes on where it was.
    """
    quieten()
    leave_out_needless_of_tfx()
    tell = Teller(as_json=as_json)
    try:
        report = _scored(model, data, output, keep, spec, file_format, tell, overwrite=overwrite)
    except UserError as error:
        if error.is_mistake or isinstance(error, LockHeld):
            raise
        say_error(str(error), as_json=as_json, code=ExitCode.FAILED)
        raise typer.Exit(ExitCode.FAILED) from None
    except KeyboardInterrupt:
        say_error("stopped; the same command goes on", as_json=as_json, code=ExitCode.INTERRUPTED)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        print_json(report)
        return
    for reason, number in report["noticed"].items():
        say(f"noticed  {number:,} x {reason}")
    say(f"{output}: {report['rows']:,} rows of {report['files']} files in {report['seconds']:.1f} s")


def _scored(
    model: str,
    data: str,
    output: str,
    keep: str | None,
    spec: Path | None,
    file_format: Literal["parquet", "csv", "jsonl"] | None,
    tell: Teller,
    *,
    overwrite: bool,
) -> dict[str, Any]:
    """Scores the files, and returns the report."""
    from sangam.components.model.places import place_of
    from sangam.components.model.predicting.job import run
    from sangam.components.model.predicting.request import job_of
    from sangam.pipelines.beam import engine_args
    from sangam.schemas.loading import load_spec
    from sangam.schemas.spec.beam import LocalBeam

    place = place_of(model)
    declared = load_spec(spec) if spec else place.spec()
    kept = None if keep is None else [name for name in keep.split(",") if name]
    job = job_of(place, place.described(), declared, data, output, keep=kept, file_format=file_format)
    engine = declared.beam if declared else LocalBeam()
    return run(job, engine_args(engine), tell, overwrite=overwrite)

"""The examples of a search: the pipeline's steps from the logs to Transform, in a child process.

They run once for each set of features that trials use.

`python -m sangam.pipelines.tune.examples SPEC DATE DATA ROOT OUTPUT`; unchanged steps come from the root's cache,
as in any run.
"""

import os
import sys
from pathlib import Path
from typing import Any

from sangam.components.processes.stopping import StopSignals
from sangam.components.reports.ingestion import IngestionReport
from sangam.pipelines.beam import step_args
from sangam.pipelines.console import say, terminal
from sangam.pipelines.local.child_run import run_child
from sangam.pipelines.local.output import keep_stream
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.run import run_locally
from sangam.pipelines.tune.request import SearchRequest, run_of_examples
from sangam.pipelines.tune.training import Examples
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import tail, write_whole
from sangam.schemas.host.lock import LockHeld
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.data import TRAIN, VALIDATION

_MODULE = "sangam.pipelines.tune.examples"
_TAIL_LINES = 15


class ExamplesFailed(Exception):
    """The steps failed; the text is the reason.

    Attributes:
        code: exit code of the process.
    """

    def __init__(self, text: str, code: int):
        self.code = code
        super().__init__(text)


def read_examples(path: Path) -> Examples | None:
    """Returns the stored examples of a search; None if any of their files is missing."""
    if not path.exists():
        return None
    found = Examples.model_validate_json(path.read_bytes())
    return found if all(map(os.path.exists, (*found.train_files, *found.validation_files))) else None


def make_examples(request: SearchRequest, spec: Path, output: Path, stop: StopSignals) -> Examples:
    """Runs the steps.

    Args:
        request: the search.
        spec: path of a spec with the features.
        output: path of the file to write the examples' paths to.
        stop: signal handling, entered by the caller.

    Raises:
        ExamplesFailed: the steps failed.
        Stopped: after a signal.
    """
    log = output.with_suffix(".log")
    run = request.run
    code = run_child(
        [str(spec), str(run.date or ""), run.data_root, str(run.root), str(output)], log, stop, module=_MODULE
    )
    examples = read_examples(output)
    if code or examples is None:
        end = tail(log, _TAIL_LINES)
        text = f"the examples could not be made (exit code {code}). The end of {log}:\n{end}"
        raise ExamplesFailed(text, max(code, ExitCode.FAILED))
    return examples


def main(spec: str, date: str, data: str, root: str, output: str) -> int:
    """Runs the steps in this process; returns the exit code."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    request = run_of_examples(load_spec(Path(spec)), date or None, data, Path(root))
    console = terminal(keep_stream(1))
    pipelines: list[Any] = []

    def build(request: RunRequest, commit: str | None) -> Any:
        # Imported after the redirection of standard output, because TFX prints on import.
        from sangam.pipelines.pipeline import Placement, build_examples

        day = request.date.isoformat() if request.date else ""
        placement = Placement(day, request.data_root, str(request.root), commit or "")
        pipelines.append(build_examples(request.spec, placement, step_args(request.spec.beam)))
        return pipelines[-1]

    try:
        outcome = run_locally(request, console, build)
    except UserError as error:
        say(str(error), console)
        return ExitCode.ROOT_IN_USE if isinstance(error, LockHeld) else ExitCode.MISTAKE
    if outcome.record.status in ("failed", "stopped"):
        say(f"{outcome.record.error}\nlog: {outcome.log}", console)
        # A normal exit would wait for Beam's threads, which may still work on the failed step.
        os._exit(outcome.exit_code)
    write_whole(Path(output), _examples_of(pipelines[-1], outcome.record.run).model_dump_json(indent=2))
    return ExitCode.DONE


def _examples_of(pipeline: Any, run: str) -> Examples:
    from sangam.components.examples.listing import read_listing
    from sangam.components.reports.artifact_files import read_ingestion
    from sangam.pipelines.local.recorded_run import read_recorded
    from sangam.pipelines.local.runner import metadata_of

    with metadata_of(pipeline) as handle:
        recorded = read_recorded(handle, run)
    assert recorded
    transform = recorded.outputs["transform"]
    report: IngestionReport = read_ingestion(recorded.outputs["example_gen"]["examples"].uri)

    listing = read_listing(transform["transformed_examples"].uri)
    return Examples(
        run=run,
        train_files=tuple(map(os.path.abspath, listing.files(TRAIN))),
        validation_files=tuple(map(os.path.abspath, listing.files(VALIDATION))),
        transform_graph=os.path.abspath(transform["transform_graph"].uri),
        days=tuple(report.days.get(TRAIN, ())),
        num_train_examples=listing.rows(TRAIN),
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:6]))

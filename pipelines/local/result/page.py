"""Writes the page of a finished or failed run, and its results for TensorBoard."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary as Scalars
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from sangam.components.page.collect import collect
from sangam.components.page.facts import PageContext
from sangam.components.page.render import draw
from sangam.components.record.run import Artifact, RunRecord, Step
from sangam.components.registry.seal import SHA256
from sangam.pipelines.local.result.outcome import folders_of
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.host.files import tail

_LOG = logging.getLogger(__name__)
_TAIL_LINES = 40


def write_page(record: RunRecord, steps: Mapping[str, Step], log: Path) -> Path | None:
    """Writes `report.html` and the TensorBoard events into the run's folder; errors are logged and do not fail the run.

    Args:
        record: record of the run.
        steps: finished steps with their outputs.
        log: most relevant log about an error.

    Returns:
        The file; None if it could not be written, with the reason in the log.
    """
    # Of a mistake of the user the error says it all.
    needs_log = bool(record.error) and record.exit_code != ExitCode.MISTAKE
    try:
        facts = collect(folders_of(steps))
        trained: Mapping[str, Artifact] = steps["trainer"].outputs if "trainer" in steps else {}
        context = PageContext(
            checkpoint=trained["checkpoint"].uri if "checkpoint" in trained else None,
            model_sha256=trained["model"].properties.get(SHA256) if "model" in trained else None,
            log_tail=tail(log, _TAIL_LINES).splitlines() if needs_log else [],
        )
        page = draw(record, facts, context)
        write_events(record, facts.training["checkpoint"]["final_step"] if facts.training else 0)
    except Exception:  # noqa: BLE001 - a missing page does not fail the run
        _LOG.exception("event=page_failed")
        return None
    return page


def write_events(record: RunRecord, step: int) -> None:
    """Writes `evaluation/<metric>/<task>` at the training's last step; a full disk does not fail the run."""
    values = {
        f"evaluation/{metric}/{name}": value
        for name, task in record.tasks.items()
        for metric, value in task.metrics.items()
        if value is not None
    }
    if not values:
        return
    try:
        writer = EventFileWriter(str(RunFolder(Path(record.path)).logs))
        scalars = Scalars(value=[Scalars.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=scalars))
        writer.close()
    except OSError:
        _LOG.exception("event=events_failed")

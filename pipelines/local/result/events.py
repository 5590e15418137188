"""What TensorBoard shows of an evaluation, beside what the trainer has written of the training."""

import logging
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary as Scalars
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from pipelines.local.result.summary import Summary
from schemas.contracts.root import RunFolder

_LOG = logging.getLogger(__name__)


def write_events(summary: Summary, step: int) -> None:
    """Writes `evaluation/<metric>/<task>` at the training's last step; a full disk fails no run."""
    values = {
        f"evaluation/{metric}/{name}": value
        for name, task in summary.tasks.items()
        for metric, value in task.metrics.items()
        if value is not None
    }
    if not values:
        return
    try:
        writer = EventFileWriter(str(RunFolder(Path(summary.path)).logs))
        scalars = Scalars(value=[Scalars.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=scalars))
        writer.close()
    except OSError:
        _LOG.exception("event=events_failed")

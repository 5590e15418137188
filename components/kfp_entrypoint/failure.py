"""Writes the record and the page of a run that a step's failure ends: the reporter, its last step, will not run."""

import logging
from collections.abc import Mapping
from pathlib import Path

from sangam.components.record.run import RunRecord, read_reports
from sangam.components.record.store import write_record

_LOG = logging.getLogger(__name__)


def leave_failure(record: RunRecord, inputs: Mapping[str, Path]) -> None:
    """Writes record and page into the run's folder; errors are only logged.

    Args:
        record: record of the run, without the reports of its steps.
        inputs: folders of the failed step's input artifacts, by name.
    """
    try:
        # Charts take a second to import, and only failures need them.
        from sangam.components.page.collect import collect
        from sangam.components.page.render import draw

        Path(record.path).mkdir(parents=True, exist_ok=True)
        record = record.model_copy(update=read_reports(inputs).fields())
        write_record(record)
        draw(record, collect(inputs))
    except Exception:  # noqa: BLE001 - the step's own failure is what counts
        _LOG.exception("event=page_failed")

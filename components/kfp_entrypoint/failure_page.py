"""Draws the page of a run that a step's failure ends: the reporter, its last step, will not run."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from components.kfp_entrypoint.notify import RunInfo
from schemas.contracts.root import RunFolder
from schemas.host.files import write_whole

_LOG = logging.getLogger(__name__)
_LOGS = "the whole log is that of the step's pod, and of its task in Kubeflow's own interface"


def draw_failure(run: RunInfo, step: str, reason: str, inputs: Mapping[str, str], folder: RunFolder) -> None:
    """Writes the page with what the failed step was given; what cannot be drawn is only logged.

    Args:
        run: that failed.
        step: that failed.
        reason: why, in a sentence.
        inputs: folders of the step's input artifacts, by name.
        folder: of the run.
    """
    try:
        # Charts take a second to import, which no step that succeeds needs.
        from components.reports.page.collect import collect
        from components.reports.page.facts import Run
        from components.reports.page.render import render

        # In a task of several steps, an input's name begins with its step's.
        facts = collect({name.rpartition("__")[2]: Path(path) for name, path in inputs.items()})
        page = render(
            Run(
                ranker=run.pipeline,
                name=run.run,
                date=run.date or None,
                status="failed",
                error=f"{step}: {reason}",
                failed_step=step,
                advice=[
                    "Run the same date again once the cause is mended: steps that succeeded come from the cache.",
                    f"`sangam status {run.pipeline}` says which steps ran, and why this one failed; {_LOGS}.",
                ],
            ),
            facts,
        )
        os.makedirs(folder.path, exist_ok=True)
        write_whole(folder.page, page)
    except Exception:  # noqa: BLE001 - the step's own failure is what counts
        _LOG.exception("event=page_failed")

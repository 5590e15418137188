"""Finds out what a blessed model of the past can still be asked about today's examples."""

import logging
import os
from collections.abc import Collection
from typing import Any

from tfx.dsl.io import fileio
from tfx.utils import path_utils

from components.registry import seal
from components.steps.evaluator.judge.judge import Baseline
from components.steps.evaluator.models import probe

_LOG = logging.getLogger(__name__)

_MEND = "restore it from a backup, or remove it: then nothing is compared with it, and a note says so"
NO_BASELINE = Baseline(uri=None, tasks=frozenset(), problem="no blessed model yet")


def usable_baseline(uri: str | None, *, sealed: str, wanted: Collection[str], examples: Any, split: str) -> Baseline:
    """Returns for which of the `wanted` tasks the model at `uri` scores the examples.

    A few examples are scored first: features may have been renamed since, and a failure in the midst of Beam would
    stop the judging of every later model.

    Args:
        uri: of the model artifact.
        sealed: sha256 of its manifest; empty if its record is older than that.
        wanted: tasks.
        examples: artifact.
        split: of them.

    Raises:
        UserError: for a model that is not the one that was blessed.
    """
    if not uri or not wanted:
        return NO_BASELINE
    path = path_utils.serving_model_path(uri)
    if not fileio.exists(os.path.join(path, "saved_model.pb")):
        return Baseline(uri=None, tasks=frozenset(), problem=f"the blessed model {uri} is gone")
    if sealed:
        seal.refuse_changed(path, sealed, _MEND)
    try:
        outputs = frozenset(probe.score(path, probe.first_examples(examples, split)))
    except probe.MISFITS as error:
        _LOG.warning("baseline=%s unusable=%r", uri, error)
        problem = f"the blessed model {uri} cannot score today's examples ({probe.in_short(error)})"
        return Baseline(uri=None, tasks=frozenset(), problem=problem)
    tasks = frozenset(wanted) & outputs
    if not tasks:
        return Baseline(uri=None, tasks=tasks, problem=f"the blessed model {uri} has none of the tasks")
    return Baseline(uri=uri, tasks=tasks, problem="")

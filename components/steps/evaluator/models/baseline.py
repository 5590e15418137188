"""Checks which tasks an earlier blessed model can still score on the current examples."""

import logging
import os
from collections.abc import Collection
from typing import Any

from tfx.dsl.io import fileio
from tfx.utils import path_utils

from sangam.components.registry import seal
from sangam.components.steps.evaluator.judge.judge import Baseline
from sangam.components.steps.evaluator.models import probe
from sangam.schemas.contracts.export import MODEL_FILE

_LOG = logging.getLogger(__name__)

_FIX = "restore it from a backup, or remove it: then the candidate is not compared, and a note says so"
NO_BASELINE = Baseline(uri=None, tasks=frozenset(), problem="no blessed model yet")


def usable_baseline(uri: str | None, *, sealed: str, wanted: Collection[str], examples: Any, split: str) -> Baseline:
    """Returns the baseline, with the `wanted` tasks that it can score.

    It first scores a few examples: features may have been renamed since it was blessed, and a failure within Beam would
    keep every later model from being judged.

    Args:
        uri: URI of the model artifact.
        sealed: SHA-256 of its manifest.
        wanted: tasks.
        examples: artifact.
        split: split of the examples.

    Raises:
        UserError: if the model was changed after it was blessed.
    """
    if not uri or not wanted:
        return NO_BASELINE
    path = path_utils.serving_model_path(uri)
    if not fileio.exists(os.path.join(path, MODEL_FILE)):
        return Baseline(uri=None, tasks=frozenset(), problem=f"the blessed model {uri} is gone")
    seal.refuse_changed(path, sealed, _FIX)
    rows = probe.first_examples(examples, split)
    if rows is None:
        return NO_BASELINE  # `judge` refuses an evaluation without examples.
    try:
        outputs = frozenset(probe.score(path, rows))
    except probe.MISFITS as error:
        _LOG.warning("baseline=%s unusable=%r", uri, error)
        problem = f"the blessed model {uri} cannot score today's examples ({probe.in_short(error)})"
        return Baseline(uri=None, tasks=frozenset(), problem=problem)
    tasks = frozenset(wanted) & outputs
    if not tasks:
        return Baseline(uri=None, tasks=tasks, problem=f"the blessed model {uri} has none of the tasks")
    return Baseline(uri=uri, tasks=tasks, problem="")

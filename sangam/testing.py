"""Checks of parts of your own: one call runs all that the product's own kinds are held to.

def test_my_loss() -> None:
    check_part(MyLoss(kind="my_loss"))
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.schemas.parts.judging import AlertTarget, Metric, NegativeSampler, Slice
from sangam.schemas.parts.kinds import Part

__all__ = ["check_part"]

_ROWS = 48


def check_part(part: Part, rows: Sequence[dict[str, list[Any]]] | None = None, *, seed: int = 0) -> dict[str, str]:
    """Checks a part in a small ranker around it, in this process; one that judges, samples or sends alone.

    finite: losses and gradients, also of no example, one example and no values; determinism: equal calls give equal
    numbers; gradient: it is the slope of the loss, by differences in the part's weights, all weights and the
    embeddings, where tf.stop_gradient holds what it is given; ranks: losses and gradients of two halves of a batch add
    up to the whole's, which is what ranks rely on; bfloat16: logits near float32's; resume: a step after saving and
    restoring is the step without; export: the exported model gives the trainer's scores, also for a request whose
    candidates share the user's row. trial, of a metric, slice, sampler or receiver of alerts alone: results have their
    shapes, and those of an example do not depend on others.

    Args:
        part: an object of your class.
        rows: rows of logs, {column: values}, for a feature that needs real ones; None: drawn by its columns.
        seed: seed of the drawn rows.

    Returns:
        What each check has seen, by its name.

    Raises:
        AssertionError: a check does not hold; with the class's file and line.
        UserError: the part is wrong before anything is computed.
    """
    if isinstance(part, AlertTarget | Metric | NegativeSampler | Slice):
        from sangam.components.trials import try_part

        try_part(part)
        return {"trial": "called on a few values"}
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    from sangam.pipelines.kit.around import rows_for, spec_around
    from sangam.pipelines.kit.oracles import Oracles
    from sangam.pipelines.kit.world import World

    spec = spec_around(part)
    drawn = rows_for(spec, len(rows) if rows else _ROWS, seed)
    used = [{**row, **own} for row, own in zip(drawn, rows or [{}] * len(drawn), strict=True)]
    with tempfile.TemporaryDirectory(prefix="sangam-part-") as folder:
        return Oracles(part, World(spec, Path(folder)), used, Path(folder)).all()

"""Applies a spec's retention rule at the end of a run."""

import logging
from collections.abc import Sequence

from rich.console import Console

from sangam.pipelines.console import say
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.retention.cleaning import Cleaning, clean
from sangam.pipelines.local.retention.rule import Decision
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import shown_bytes

_LOG = logging.getLogger(__name__)


def clean_after_run(request: RunRequest, console: Console) -> None:
    """Removes files by the spec's `keep`, under the run's lock, and prints a line.

    The run has ended and its summary is written: a failure here is printed and does not change the result.
    """
    if request.spec.keep is None:
        return
    try:
        cleaning = clean(request.layout, request.spec.name, request.spec.keep, request.spec)
    except (OSError, UserError) as error:
        say(f"keep: nothing was removed (got {error}); `sangam clean` tries again", console)
        return
    for decision in cleaning.gone:
        _LOG.info("event=removed kind=%s path=%s why='%s'", decision.kind, decision.path, decision.why)
    if cleaning.gone:
        say(f"removed: {told(cleaning)}, as `keep` says", console)
    for decision, reason in cleaning.failed:
        say(f"not removed: {decision.path} (got {reason}); `sangam clean` tries again", console)


def told(cleaning: Cleaning) -> str:
    """Returns the removal in one line: counts by kind, and bytes."""
    return f"{counted(cleaning.gone)}, {shown_bytes(sum(map(cleaning.size, cleaning.gone)))}"


def counted(decisions: Sequence[Decision]) -> str:
    """Returns the number of items of each kind, as text."""
    kinds = list(dict.fromkeys(decision.kind for decision in decisions))
    numbers = {kind: sum(decision.kind == kind for decision in decisions) for kind in kinds}
    return ", ".join(
        f"{number} {_PLURALS.get(kind, kind + 's') if number > 1 else kind}" for kind, number in numbers.items()
    )


_PLURALS = {"examples": "days of examples", "trials": "searches' trials"}

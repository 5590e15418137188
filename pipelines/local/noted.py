"""What a run's folder says of it at a glance."""

import json
from dataclasses import dataclass

from schemas.contracts.root import RunFolder


@dataclass(frozen=True)
class Noted:
    """Of a run.

    Attributes:
        ranker: name; None: neither summary nor spec says it, as of a run on Kubeflow.
        date: YYYY-MM-DD; empty for logs without days, and until a run has ended.
        base: checkpoint that it started from; empty without one.
        is_good: it has succeeded, whatever the gates say.
    """

    run: RunFolder
    ranker: str | None = None
    date: str = ""
    base: str = ""
    is_good: bool = False


def noted(run: RunFolder) -> Noted:
    """Reads the summary, or the spec where there is none yet."""
    for file in (run.summary, run.spec):
        try:
            document = json.loads(file.read_bytes())
            date, base = document.get("date") or "", document.get("base") or ""
            return Noted(run, str(document["name"]), str(date), str(base), document.get("status") == "succeeded")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return Noted(run)

"""Mistakes in `push.after: shadow`: nothing scores in the shadow, or nothing says what its scores are worth."""

from collections.abc import Iterator

from sangam.schemas.derived.sources import origins
from sangam.schemas.problems import Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import ServedLogs
from sangam.schemas.spec.release import DirectoryPush


def shadow_problems(spec: Spec, push: DirectoryPush) -> Iterator[Problem]:
    """Yields the mistakes of a push into the shadow."""
    loc = ("push", "after")
    if push.is_on_store:
        yield Problem(
            loc, f"needs a folder below the pipeline root (got path '{push.path}')", "push there, or leave `after` out"
        )
    if not isinstance(spec.data, ServedLogs):
        yield Problem(
            loc,
            f"needs the log of requests with its actions (got data.kind '{spec.data.kind}')",
            "train on the log with data.kind served, or leave `after` out",
        )
        return
    if spec.serving.log is None:
        yield Problem(loc, "needs `serving.log` (got none)", "add it: the log has what both versions predicted")
    elif spec.serving.shadow is None:
        yield Problem(
            loc,
            "needs `serving.shadow` (got none)",
            f"add the share of requests that it scores, for example shadow: {{share: {spec.serving.log.share:g}}}",
        )
    joined = origins(spec.logs)
    if not any(spec.label_of(task) in joined for task in spec.tasks):
        yield Problem(
            loc,
            f"needs a task whose label comes from actions (got tasks {listed(list(spec.tasks))})",
            "take a label from a source of kind actions",
        )

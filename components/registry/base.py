"""Which blessed checkpoint an incremental training starts from.

Loads without TFX: reports name a base.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from components.registry.blessed import BlessedModel

FULL, INCREMENTAL = "full", "incremental"
"""The values of training.mode."""


class Base(BaseModel):
    """A checkpoint to start from.

    Attributes:
        checkpoint_uri: of the checkpoint artifact.
        days: that it has learned from, its own bases' included, oldest first.
        transform_graph_uri: of Transform's graph that its weights belong to.
        inputs_digest: of the declaration that the graph was made from.
        checkpoint_sha256: of the checkpoint's manifest; empty in records older than it, as the next is.
        transform_graph_sha256: of the graph's manifest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_uri: str
    days: tuple[str, ...]
    transform_graph_uri: str
    inputs_digest: str
    checkpoint_sha256: str = ""
    transform_graph_sha256: str = ""

    @property
    def last_day(self) -> str:
        """The newest day that it has learned from."""
        return self.days[-1]


@dataclass(frozen=True)
class Choice:
    """The base of a run, if any, and what its user should know about it."""

    base: Base | None
    notes: tuple[str, ...]


def base_for(models: "Sequence[BlessedModel]", *, before: str, is_there: Callable[[str], bool]) -> Choice:
    """Returns the blessed checkpoint that has come furthest, all of its days before the day `before`.

    So the base of a date stays the same when the date is run again, and a rejected model is never one: it has no
    record. Nor is one that was rolled back. Of checkpoints that have come equally far, the one blessed last.

    Args:
        models: the ranker's blessings, oldest first.
        before: the newest day to train on: a base that knows it already leaves nothing to learn.
        is_there: says whether a checkpoint still exists.
    """
    notes: list[str] = []
    fitting = [model for model in models if model.checkpoint_uri and model.days and model.days[-1] < before]
    # Sorting is stable: the one blessed last stays last.
    for model in reversed(sorted(fitting, key=lambda found: found.days[-1])):
        if model.is_withdrawn:
            notes.append(f"the blessed checkpoint of {model.days[-1]} was rolled back ({model.pushed}): passed over")
            continue
        if is_there(model.checkpoint_uri):
            base = Base(
                checkpoint_uri=model.checkpoint_uri,
                days=model.days,
                transform_graph_uri=model.transform_graph_uri,
                inputs_digest=model.inputs_digest,
                checkpoint_sha256=model.checkpoint_sha256,
                transform_graph_sha256=model.transform_graph_sha256,
            )
            return Choice(base, tuple(notes))
        notes.append(f"the blessed checkpoint {model.checkpoint_uri} of {model.days[-1]} is gone: it was passed over")
    notes.append(f"no blessed checkpoint from before {before}: trained from nothing on the whole window")
    return Choice(None, tuple(notes))

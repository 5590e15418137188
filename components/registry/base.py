"""Chooses the blessed checkpoint that an incremental training starts from.

Loads without TFX: reports contain a base.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from sangam.components.registry.blessed import BlessedModel

FULL, INCREMENTAL = "full", "incremental"
"""The values of training.mode."""


class Base(BaseModel):
    """A checkpoint to start from.

    Attributes:
        checkpoint_uri: address of the checkpoint artifact.
        model_uri: address of the artifact of the model exported from it.
        days: days that it was trained on, including those of its own bases, oldest first.
        transform_graph_uri: address of the Transform graph of its weights.
        inputs_digest: digest of the inputs of the graph.
        checkpoint_sha256: sha256 of the checkpoint's manifest.
        transform_graph_sha256: sha256 of the graph's manifest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_uri: str
    model_uri: str
    days: tuple[str, ...]
    transform_graph_uri: str
    inputs_digest: str
    checkpoint_sha256: str
    transform_graph_sha256: str

    @property
    def last_day(self) -> str:
        """The newest day of its training."""
        return self.days[-1]


@dataclass(frozen=True)
class Choice:
    """The base of a run, if any, and notes for the user."""

    base: Base | None
    notes: tuple[str, ...]


def base_for(models: "Sequence[BlessedModel]", *, before: str, exists: Callable[[str], bool]) -> Choice:
    """Returns the blessed checkpoint with the newest last day before `before`; of several, the one blessed last.

    The base of a date thus stays the same when the date is run again. Models that were refused (they have no record)
    or rolled back are never a base, nor is one that waits in the shadow.

    Args:
        models: the ranker's blessings, oldest first.
        before: the newest day to train on: a base that was trained on it leaves nothing to train on.
        exists: returns whether a checkpoint still exists.
    """
    notes: list[str] = []
    candidates = [model for model in models if model.days and model.days[-1] < before]
    # Sorting is stable: the one blessed last stays last.
    for model in reversed(sorted(candidates, key=lambda candidate: candidate.days[-1])):
        if model.is_withdrawn:
            notes.append(f"the blessed checkpoint of {model.days[-1]} was rolled back ({model.pushed}): skipped")
            continue
        if model.is_waiting:
            notes.append(f"the blessed checkpoint of {model.days[-1]} waits in the shadow ({model.pushed}): skipped")
            continue
        if exists(model.checkpoint_uri):
            base = Base(
                checkpoint_uri=model.checkpoint_uri,
                model_uri=model.model_uri,
                days=model.days,
                transform_graph_uri=model.transform_graph_uri,
                inputs_digest=model.inputs_digest,
                checkpoint_sha256=model.checkpoint_sha256,
                transform_graph_sha256=model.transform_graph_sha256,
            )
            return Choice(base, tuple(notes))
        notes.append(f"the blessed checkpoint {model.checkpoint_uri} of {model.days[-1]} is gone: skipped")
    notes.append(f"no blessed checkpoint from before {before}: trained from scratch on the whole window")
    return Choice(None, tuple(notes))

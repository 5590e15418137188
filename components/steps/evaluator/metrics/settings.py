"""The spec's settings for the measurement of every task."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sangam.schemas.derived.columns import features_of_new_ids
from sangam.schemas.parts import judging
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.metrics import declared_for
from sangam.schemas.spec.release import Confidence, Evaluation, Gate, Grouping, Listing, Metric

Slice = tuple[tuple[str, str | int | None], ...]
"""Features and keys by name, each with the value that is measured; None: every value."""


class Settings(FrozenModel):
    """Settings for the measurement of every task.

    Attributes:
        confidence: settings of the bootstrap.
        group: grouping for GAUC.
        list: listing for metrics at k.
        least_examples: smaller slices get no intervals, as no gate judges them.
        columns: columns of the features and keys by which examples are sliced, grouped or drawn, by name.
        masked: tasks that mask examples, each with the column that must be 1; None: examples without a label are
            masked.
        weights: column of the example weights, by task.
        declared: metrics that the spec declares, by task and name.
        sliced_by: slices of parts of others, by name.
    """

    confidence: Confidence
    group: Grouping | None = None
    list: Listing | None = None
    least_examples: int = 1
    columns: dict[str, str]
    masked: dict[str, str | None] = Field(default_factory=dict)
    weights: dict[str, str] = Field(default_factory=dict)
    declared: dict[str, dict[str, Metric]] = Field(default_factory=dict)
    sliced_by: dict[str, Annotated[judging.Slice, AnyKind(judging.Slice)]] = Field(default_factory=dict)


def settings_of(inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate]) -> Settings:
    """Derives the settings from a spec."""
    names = [name for slice_ in slices_of(evaluation, gates) for name, _ in slice_]
    parts = (evaluation.group, evaluation.list, evaluation.confidence)
    names += [part.by for part in parts if part is not None and part.by is not None]
    return Settings(
        confidence=evaluation.confidence,
        group=evaluation.group,
        list=evaluation.list,
        least_examples=evaluation.min_slice_examples,
        columns={name: inputs.column_of(name) for name in sorted(set(names) - evaluation.sliced_by.keys())},
        masked={
            name: task.only_where
            for name, task in inputs.tasks.items()
            if task.only_where is not None or task.missing_label == "mask"
        },
        weights={name: task.example_weight for name, task in inputs.tasks.items() if task.example_weight},
        declared={name: declared_for(task, evaluation.metrics) for name, task in inputs.tasks.items()},
        sliced_by=evaluation.sliced_by,
    )


def slices_of(evaluation: Evaluation, gates: Sequence[Gate]) -> list[Slice]:
    """Returns each slice once: the spec's slices for every value, then those that only gates name."""
    every = [*evaluation.slice_names, *(gate.each for gate in gates if gate.each)]
    slices: dict[Slice, None] = {tuple((name, None) for name in sorted(names)): None for names in every}
    for gate in gates:
        if gate.slice and tuple((name, None) for name in sorted(gate.slice)) not in slices:
            slices[tuple(sorted(gate.slice.items()))] = None
    return list(slices)


def new_id_features(inputs: Inputs, evaluation: Evaluation) -> list[str]:
    """Returns the features whose new ids form a slice: the spec's, by default every feature of ids."""
    return features_of_new_ids(inputs) if evaluation.new_ids is None else list(evaluation.new_ids)

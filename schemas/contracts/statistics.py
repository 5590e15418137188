"""Transform's statistics of each feature over the training rows: plain data, in one file beside the graph.

A later training keeps the statistics of every feature that has not changed, because weights are trained for inputs of
one scale, and rows for buckets of one range.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.features import BucketsFeature, NumericFeature, OneNumber, RateFeature

FILE_NAME = "statistics.json"
"""File in the folder of the Transform graph."""
FORMAT: Literal[1] = 1

_REMEDY = "train from scratch with training.mode: full"

_INPUT_FIELDS: dict[str, tuple[str, ...]] = {
    "numeric": ("clip", "log", "normalize", "missing", "encoding"),
    "age": ("since", "at", "unit", "clip", "log", "normalize", "missing", "encoding"),
    "buckets": ("num_buckets", "missing"),
    "rate": ("by", "days", "task", "smoothing", "prior", "clip", "log", "normalize", "encoding"),
    "count": ("by", "days", "clip", "log", "normalize", "encoding"),
}
"""The fields of the spec that a feature's floats or buckets depend on, besides its column; not the table's name. An
encoding counts as a whole: weights learned for its floats are void once these change their meaning."""


class _Closed(BaseModel):
    # The mean of a column without numbers is NaN.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True, ser_json_inf_nan="constants")


class Scale(_Closed):
    """Subtracts `offset`, then divides by `width`: mean and deviation, or minimum and range."""

    kind: Literal["scale"] = "scale"
    offset: float
    width: float


class Boundaries(_Closed):
    """The lowest number of each bucket except the first, ascending."""

    kind: Literal["boundaries"] = "boundaries"
    lowest: tuple[float, ...]


class Bins(_Closed):
    """The ends of bins, ascending: the lowest number, where each bin but the first begins, and the highest number.

    Less than two: there are no two different numbers, and so no bin.
    """

    kind: Literal["bins"] = "bins"
    ends: tuple[float, ...]


Analyzed = Annotated[Scale | Boundaries | Bins, Field(discriminator="kind")]


class FeatureStatistics(_Closed):
    """One feature.

    Attributes:
        spec: the part of its spec that its values depend on.
        analyzed: statistics over the training rows; None for a number that is not normalized.
    """

    spec: dict[str, Any]
    analyzed: Analyzed | None = None


class Statistics(_Closed):
    """All numeric features.

    Attributes:
        format: format of the file.
        code: digest of the code that analyzed them.
        features: statistics by feature.
        changed: features of the base whose values have changed their meaning, which voids the weights learned for them.
    """

    format: Literal[1] = FORMAT
    code: str
    features: dict[str, FeatureStatistics]
    changed: tuple[str, ...] = ()


def parse_statistics(file: str, content: bytes) -> Statistics:
    """Returns the statistics in a file.

    Args:
        file: name of the file in errors.
        content: content of the file.

    Raises:
        UserError: it has another format, or is damaged: guessed statistics would not fit the trained weights.
    """
    try:
        refuse_other_format(file, json.loads(content), FORMAT, f"another version has written it: {_REMEDY}")
        return Statistics.model_validate_json(content)
    except ValueError as error:  # Also pydantic's.
        raise UserError(
            f"{file}: is damaged (got {str(error).splitlines()[0]}); restore it from a backup, or {_REMEDY}"
        ) from error


@dataclass(frozen=True)
class Comparison:
    """Which of a base's statistics a spec keeps, by feature.

    Attributes:
        kept: features with the same spec as in the base.
        new: features that the base does not have.
        changed: the differences from the base, as text.
        dropped: features that only the base has.
        lost: reason why nothing can be kept, or "".
    """

    kept: dict[str, FeatureStatistics]
    new: tuple[str, ...]
    changed: dict[str, str]
    dropped: tuple[str, ...]
    lost: str = ""

    def notes(self, inputs: Inputs) -> tuple[str, ...]:
        """Returns notes for the user, one sentence each; none if everything is kept."""
        fresh = "over the new days only; what the base has learned of their values starts fresh"
        if self.lost:
            names = [name for name in self.changed if is_analyzed(inputs, name)]
            return (f"{self.lost}: statistics of {listed(names)} were analyzed again, {fresh}",) if names else ()
        notes = []
        if self.changed:
            what = "; ".join(f"{name}: {difference}" for name, difference in self.changed.items())
            notes.append(
                f"features have changed since the base was trained ({what}): they were analyzed again, {fresh}"
            )
        if new := [name for name in self.new if is_analyzed(inputs, name)]:
            notes.append(f"new features were analyzed over the new days only: {listed(new)}")
        return tuple(notes)


def spec_of(inputs: Inputs, name: str) -> dict[str, Any] | None:
    """Returns the part of a feature's spec that its values depend on, or None for a feature without numbers."""
    feature = inputs.features[name]
    if not isinstance(feature, OneNumber | BucketsFeature):
        return None
    fields = feature.model_dump(mode="json")
    # Bins are not normalized, and the standard encoding is not written.
    found = {"kind": feature.kind} | {field: fields[field] for field in _INPUT_FIELDS[feature.kind] if field in fields}
    if isinstance(feature, NumericFeature | BucketsFeature):
        return found | {"column": feature.column or name}
    if isinstance(feature, RateFeature):
        return found | {"label": inputs.label_of(feature.task), "only_where": inputs.tasks[feature.task].only_where}
    return found


def is_analyzed(inputs: Inputs, name: str) -> bool:
    """Says whether a feature needs statistics over the training rows."""
    feature = inputs.features[name]
    return isinstance(feature, BucketsFeature) or (
        isinstance(feature, OneNumber) and (feature.is_scaled or feature.is_binned)
    )


def without_analysis(inputs: Inputs) -> dict[str, FeatureStatistics]:
    """Returns the numeric features, without statistics."""
    specs = {name: spec_of(inputs, name) for name in inputs.features}
    return {name: FeatureStatistics(spec=fields) for name, fields in specs.items() if fields is not None}


def completed(
    inputs: Inputs, known: Mapping[str, FeatureStatistics], analyzed: Mapping[str, Analyzed]
) -> dict[str, FeatureStatistics]:
    """Returns all numeric features: the known ones, and the others with their new statistics."""
    features = without_analysis(inputs) | dict(known)
    new = {name: FeatureStatistics(spec=features[name].spec, analyzed=each) for name, each in analyzed.items()}
    return features | new


def compared(inputs: Inputs, base: Statistics | None, *, code: str, lost: str = "") -> Comparison:
    """Compares a spec with its base's statistics.

    Args:
        inputs: inputs of the new spec.
        base: the base's statistics; None if they are lost.
        code: digest of the code that analyzes now.
        lost: reason why they are lost, or "".
    """
    now = without_analysis(inputs)
    if base is not None and base.code != code:
        lost = "the code of Transform, or a library that it runs on, has changed since the base was trained"
    if base is None or lost:
        held = set(base.features) if base else set(now)
        return Comparison(
            kept={},
            new=tuple(name for name in now if name not in held),
            changed={name: lost for name in now if name in held},
            dropped=tuple(sorted(held - set(now))),
            lost=lost,
        )
    kept, changed, new = {}, {}, []
    for name, feature in now.items():
        before = base.features.get(name)
        if before is None:
            new.append(name)
        elif before.spec == feature.spec:
            kept[name] = before
        else:
            changed[name] = _difference(before.spec, feature.spec)
    return Comparison(kept, tuple(new), changed, tuple(sorted(set(base.features) - set(now))))


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    fields = (field for field in dict.fromkeys([*after, *before]) if before.get(field) != after.get(field))
    return ", ".join(f"{field} was {_shown(before.get(field))}, is {_shown(after.get(field))}" for field in fields)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {each}" for key, each in value.items()) + "}"
    return "not given" if value is None else str(value)


def to_analyze(inputs: Inputs, known: Iterable[str]) -> tuple[str, ...]:
    """Returns the features that need statistics and have none, in the spec's order."""
    have = set(known)
    return tuple(name for name in inputs.features if is_analyzed(inputs, name) and name not in have)

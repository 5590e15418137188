"""The rate of a ranker on a GPU, predicted from two measured parts of a step: the dense layers, and all the rest.

The dense part grows with the multiply-adds, which are proportional to the dense weights; the rest (look-ups, copies,
updates of rows) with the ids. Both are scaled from the measured batch that is nearest.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sangam.schemas.derived.process_memory import most_ids
from sangam.schemas.derived.sizes import dense_parameters
from sangam.schemas.spec import RankerSpec

_Positive = Annotated[float, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class MeasuredStep(_Part):
    """A step of the workload, as `bench.gpu.training` writes it."""

    dense: Literal["accelerator", "host"]
    rows: Literal["host", "device"]
    precision: str
    batch: Annotated[int, Field(gt=0)]
    median_s: _Positive


class MeasuredDense(_Part):
    """The dense part of the workload's step, as `bench.gpu.dense` writes it; no time where it could not run."""

    precision: str
    batch: Annotated[int, Field(gt=0)]
    xla: bool
    median_ms: _Positive | None


class Workload(_Part):
    """Sizes of the workload that was measured."""

    ids_per_example: Annotated[int, Field(gt=0)]
    dense_weights: Annotated[int, Field(gt=0)]


class Training(_Part):
    """training.json of infra/gpu."""

    accelerator: str
    workload: Workload
    results: tuple[MeasuredStep, ...]


class Dense(_Part):
    """dense.json of infra/gpu."""

    results: tuple[MeasuredDense, ...]


@dataclass(frozen=True)
class Rate:
    """The predicted rate of one rank.

    Attributes:
        precision: the fastest one of those allowed.
        dense_s, rest_s: seconds of a step.
        samples_per_s: examples of a batch over both.
    """

    precision: str
    dense_s: float
    rest_s: float
    samples_per_s: float


def predicted(ranker: RankerSpec, training: Training, dense: Dense, *, place: Literal["host", "device"]) -> Rate | None:
    """Returns the rate of one rank with its rows in a place; None where that was not measured.

    Args:
        ranker: the spec.
        training: steps of the workload.
        dense: their dense part.
        place: memory of the rows.
    """
    batch = ranker.training.batch_size_per_rank
    wanted = ranker.training.dense_precision
    allowed = ("tf32", "bfloat16") if wanted == "auto" else (wanted,)
    steps = [each for each in training.results if each.dense == "accelerator" and each.rows == place]
    rates = []
    for step in (each for each in steps if each.precision in allowed):
        part = next((each for each in dense.results if _is_of(each, step)), None)
        if part is not None and part.median_ms is not None:
            rates.append((abs(step.batch - batch), _rate(ranker, training.workload, step, part.median_ms / 1e3)))
    if not rates:
        return None
    nearest = min(distance for distance, _ in rates)
    return max((rate for distance, rate in rates if distance == nearest), key=lambda rate: rate.samples_per_s)


def _is_of(part: MeasuredDense, step: MeasuredStep) -> bool:
    return (part.precision, part.batch, part.xla) == (step.precision, step.batch, False)


def _rate(ranker: RankerSpec, workload: Workload, step: MeasuredStep, dense_s: float) -> Rate:
    batches = ranker.training.batch_size_per_rank / step.batch
    rest_s = max(step.median_s - dense_s, 0.0) * batches * _ids_per_example(ranker) / workload.ids_per_example
    dense_s = dense_s * batches * dense_parameters(ranker) * ranker.model.members / workload.dense_weights
    return Rate(step.precision, dense_s, rest_s, ranker.training.batch_size_per_rank / (dense_s + rest_s))


def _ids_per_example(ranker: RankerSpec) -> int:
    """Returns the most ids of an example: lists are counted full."""
    return sum(most_ids(feature) * len(ranker.tables_of(name)) for name, feature in ranker.features.items())

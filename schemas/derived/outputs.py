"""The named outputs of Transform: the contract between Transform, trainer and serving."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from sangam.schemas.derived.columns import (
    EVENT_TIME,
    at_of,
    event_of,
    example_weight_of,
    is_bias,
    serving_of,
    times_of,
    weights_of,
)
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.features import Feature, IdsFeature, SequenceFeature


class Output(NamedTuple):
    """One output of Transform for a batch of B examples.

    Attributes:
        name: a feature, a task, `EVENT_TIME`, or a result of `weights_of`, `event_of`, `times_of`, `at_of`,
            `serving_of` or `example_weight_of`.
        type: `float`: float32; `key`: int64, the key of an embedding row or a time.
        width: floats per example: shape [B] for 1, otherwise [B, width].
        is_list: any number of values per example: sparse [B, values].
    """

    name: str
    type: Literal["float", "key"]
    width: int = 1
    is_list: bool = False


def outputs(inputs: Inputs) -> list[Output]:
    """Returns all outputs: of the features in their order, then labels, example weights and the event's time."""
    named = []
    for name, feature in inputs.features.items():
        own = _own(name, feature)
        named.append(own)
        if isinstance(feature, IdsFeature) and feature.weights:
            named.append(Output(weights_of(name), "float", is_list=True))
        if isinstance(feature, SequenceFeature):
            named += _of_events(name, feature)
        if is_bias(feature):
            named.append(own._replace(name=serving_of(name)))
    named += [Output(task, "float") for task in inputs.tasks]
    named += [Output(example_weight_of(name), "float") for name, task in inputs.tasks.items() if task.example_weight]
    if inputs.event_time:
        named.append(Output(EVENT_TIME, "key"))
    return named


def _of_events(name: str, feature: SequenceFeature) -> Iterator[Output]:
    for part, each in feature.beside.items():
        yield Output(event_of(name, part), "key" if isinstance(each, EventId) else "float", is_list=True)
    if feature.times:
        yield Output(times_of(name), "key", is_list=True)
        yield Output(at_of(name), "key")


def _own(name: str, feature: Feature) -> Output:
    if feature.table_name() is None:
        return Output(name, "float", width=feature.width())
    return Output(name, "key", is_list=feature.is_list())

"""The vectors of the events of a sequence, before its encoder."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import tensorflow as tf

from sangam.schemas.spec.events import EventAmount, EventId
from sangam.schemas.spec.features import SequenceFeature
from sangam.trainer_module.dense.weights import Weights
from sangam.trainer_module.encoders.lists import Lists
from sangam.trainer_module.encoders.relative import number_buckets

# Shape suffixes: n events of all lists in a row, D dimension.


class Beside(NamedTuple):
    """What is known of events besides their ids and ages, by name in the spec.

    Attributes:
        rows: rows of further ids, [n, D] each.
        amounts: float32, [n] each.
    """

    rows: Mapping[str, tf.Tensor]
    amounts: Mapping[str, tf.Tensor]


class EventVectors:
    """The sum of an event's rows and of the vectors of its buckets, in the order of the spec's keys."""

    def __init__(self, name: str, feature: SequenceFeature):
        self._name, self._feature = f"events/{name}", feature

    def __call__(self, weights: Weights, lists: Lists, beside: Beside) -> Lists:
        """Returns lists with vectors in place of the rows of ids.

        Args:
            weights: weights by name.
            lists: rows of the ids, with the ages of the events if they have times.
            beside: what the spec names in `beside`.
        """
        x_nD = lists.values_nD
        for part, each in self._feature.beside.items():
            match each:
                case EventId():
                    x_nD += beside.rows[part]
                case EventAmount(unit=unit):
                    x_nD += tf.gather(
                        weights[f"{self._name}/amounts/{part}"], number_buckets(beside.amounts[part] / unit)
                    )
        if lists.ages_n is not None:
            x_nD += tf.gather(weights[f"{self._name}/ages"], number_buckets(lists.ages_n))
        if self._feature.positions:
            _, position_n = lists.positions()
            x_nD += tf.gather(weights[f"{self._name}/positions"], number_buckets(tf.cast(position_n, tf.float32)))
        return replace(lists, values_nD=x_nD)

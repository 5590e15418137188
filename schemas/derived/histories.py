"""What encoders of histories cost: memory of a training step, work of an example, time of a request.

For the longest list that the spec allows, each; `bench.histories` measures them.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from sangam.schemas.derived.sizes import FLOAT_BYTES, dense_parts
from sangam.schemas.parts import roles
from sangam.schemas.quantities import shown_bytes, shown_count
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.encoders import (
    CandidateEncoder,
    DinEncoder,
    HstuEncoder,
    MeanEncoder,
    PositionalEncoder,
    TargetTransformerEncoder,
    TransformerEncoder,
)
from sangam.schemas.spec.features import SequenceFeature

CANDIDATES = 200
"""Candidates of the request whose time is told."""
MOST_FLOATS_AT_A_TIME = 1 << 22
"""Most floats of padded lists in a tensor, where lists are padded some at a time; a longer list is alone."""
_PRODUCTS_PER_S, _LOGITS_PER_S = 16e9, 300e6
"""Of one core with AVX-512, measured by `bench.histories serving`: a logit passes a softmax or silu, and is masked."""
_TENSORS_OF_PAIRS = 10
"""Tensors of all pairs of a list's events that backward holds at once; measured."""


class _Work(NamedTuple):
    """Multiply-adds, and numbers that pass a softmax or silu."""

    products: float = 0
    logits: float = 0

    def times(self, number: float) -> "_Work":
        """Returns so many of it."""
        return _Work(self.products * number, self.logits * number)

    def plus(self, other: "_Work") -> "_Work":
        """Returns the sum."""
        return _Work(self.products + other.products, self.logits + other.logits)

    @property
    def seconds(self) -> float:
        """Time on one core."""
        return self.products / _PRODUCTS_PER_S + self.logits / _LOGITS_PER_S


class HistoryCost(NamedTuple):
    """The cost of one sequence's encoder.

    Attributes:
        feature: the sequence.
        encoder: its kind.
        events: its longest list.
        products: multiply-adds of an example, forward; backward has about twice as many.
        share: theirs of all dense multiply-adds.
        training_bytes: what a training step of full lists holds for it beside the events' rows.
        request_s: one core's time for a request of `CANDIDATES` candidates.
    """

    feature: str
    encoder: str
    events: int
    products: float
    share: float
    training_bytes: float
    request_s: float

    def text(self) -> str:
        """Returns one line."""
        return (
            f"{self.feature}, {self.encoder} of {self.events:,} events: {shown_count(round(self.products))} "
            f"multiply-adds an example, {self.share:.0%} of all; a step of full lists holds "
            f"{shown_bytes(self.training_bytes)} for it; a request of {CANDIDATES} candidates takes about "
            f"{self.request_s * 1e3:.2g} ms of a core for it"
        )


def history_costs(ranker: RankerSpec) -> list[HistoryCost]:
    """Returns the cost of each sequence that one of the product's encoders with products of its own reads."""
    found = list(_works(ranker))
    parts = dense_parts(ranker)
    others = sum(number for part, number in parts.items() if part not in ("encoders", "events"))
    total = others + sum(once.plus(each).products for _, _, once, each in found)
    costs = []
    for name, feature, once, each in found:
        of_example = once.plus(each).products
        dim = ranker.tables[feature.table].dim
        held = _held_floats(feature.encoder, dim, feature.max_length, ranker.training.batch_size_per_rank)
        seconds = once.plus(each.times(CANDIDATES)).seconds
        shown = of_example, of_example / total, held * FLOAT_BYTES, seconds
        costs.append(HistoryCost(name, feature.encoder.kind, feature.max_length, *shown))
    return costs


def _works(ranker: RankerSpec) -> Iterator[tuple[str, SequenceFeature, _Work, _Work]]:
    """Yields each such sequence with the work of its list, once a request, and of each candidate."""
    for name, feature in ranker.features.items():
        if not isinstance(feature, SequenceFeature) or isinstance(feature.encoder, MeanEncoder | PositionalEncoder):
            continue
        if feature.encoder.is_ours:
            yield name, feature, *_work(feature.encoder, ranker.tables[feature.table].dim, feature.max_length)


def _work(encoder: roles.Encoder, dim: int, events: int) -> tuple[_Work, _Work]:
    none = _Work()
    match encoder:
        case DinEncoder(units=units):
            mlp = sum(one * other for one, other in itertools.pairwise([dim + 1, *units, 1]))
            return none, _Work(events * (mlp + dim))
        case TransformerEncoder():
            rows = 4 * dim**2 + 2 * dim * encoder.feed_forward_units
            pairs = _Work(2 * dim * events**2, encoder.num_heads * events**2)
            return _Work(rows * events).plus(pairs).times(encoder.num_layers), none
        case CandidateEncoder():
            return _of_candidates(encoder, dim, events)
        case _:
            raise TypeError(f"encoder: no work is known (got {encoder.kind})")


def _of_candidates(encoder: CandidateEncoder, dim: int, events: int) -> tuple[_Work, _Work]:
    own = (3 if isinstance(encoder, HstuEncoder) else 2) * dim**2
    if isinstance(encoder, TargetTransformerEncoder):
        own += 2 * dim * encoder.feed_forward_units
    keys_values, heads, layers = 2 * dim**2, encoder.num_heads, encoder.num_layers
    # An event attends to itself and older ones; of the last layer only keys and values are read.
    older = events * (events + 1) / 2
    inner = _Work((keys_values + own) * events + 2 * dim * older, heads * older)
    once = inner.times(layers - 1).plus(_Work(keys_values * events))
    each = _Work(keys_values + own + 2 * dim * (events + 1), heads * (events + 1)).times(layers)
    return once, each


def _held_floats(encoder: roles.Encoder, dim: int, events: int, batch: int) -> float:
    """Returns the floats that a step of full lists holds at most, forward and backward."""
    rows = batch * events
    match encoder:
        case DinEncoder(units=units):
            return rows * (6 * dim + 3 * sum(units))
        case TransformerEncoder():
            pairs = 4 * batch * encoder.num_heads * events**2
            return pairs + rows * encoder.num_layers * (12 * dim + 2 * encoder.feed_forward_units)
        case CandidateEncoder():
            wide = encoder.feed_forward_units if isinstance(encoder, TargetTransformerEncoder) else 0
            inner = encoder.num_layers - 1
            of_list = events * encoder.num_heads * (events * 5 / 8 if inner else 1)
            at_a_time = max(min(MOST_FLOATS_AT_A_TIME, batch * of_list), of_list)
            of_rows = rows * dim * (8 + 18 * inner) + 2 * rows * wide * inner
            return at_a_time * _TENSORS_OF_PAIRS + of_rows
        case _:
            raise TypeError(f"encoder: no memory is known (got {encoder.kind})")

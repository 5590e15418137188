"""The dense weights of a ranker: the one declaration that the layers of `trainer_module` and memory plans use."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from sangam.schemas.derived.encodings import EncodedTogether, encoded_together
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.model_inputs import FeatureOrder, model_inputs
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.roles import Interaction
from sangam.schemas.parts.weight import Blocks, Weight, under, weight
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.buckets import NUM_BUCKETS
from sangam.schemas.spec.encodings import PeriodicEncoding
from sangam.schemas.spec.events import EventAmount, num_position_buckets
from sangam.schemas.spec.features import SequenceFeature
from sangam.schemas.spec.models import Model
from sangam.schemas.spec.training import UncertaintyBalance

Weights = Iterator[Weight]

OUTSIDE_MODEL = "model/"
"""Prefix of the weights of an architecture of others: its names collide with none of ours."""


def dense_weights(ranker: RankerSpec) -> list[Weight]:
    """Returns all dense weights, in the order of their flat vector."""
    weights = model_weights(ranker.model, model_inputs(ranker), tuple(ranker.tasks))
    order = FeatureOrder(ranker)
    for group in groups_of(ranker):
        for name in order.encoded[group]:
            feature = ranker.features[name]
            assert isinstance(feature, SequenceFeature)
            dim = ranker.tables[feature.table].dim
            weights += [*encoder_weights(name, feature, dim), *event_weights(name, feature, dim)]
    for each in encoded_together(ranker):
        weights += _numbers(each)
    return [*weights, *balance_weights(ranker)]


def model_weights(model: Model, inputs: ModelInputs, tasks: Sequence[str]) -> list[Weight]:
    """Returns the weights of an architecture, its interaction and its ensemble included."""
    before, seen = interaction_weights(model.interaction, inputs)
    return list(_of_members([*before, *_of_model(model, seen, tasks)], model.members))


def _of_model(model: Model, inputs: Blocks, tasks: Sequence[str]) -> Weights:
    return under("" if model.is_ours else OUTSIDE_MODEL, model.weights(inputs, tasks))


def _of_members(weights: Iterable[Weight], members: int) -> Weights:
    """Yields the weights of an ensemble: two factors behind each matrix, and each member's own biases.

    Factors of features start as random signs: otherwise the members would stay equal.
    """
    if members == 1:
        yield from weights
        return
    own: Blocks = tuple((f"members/{number}", 1) for number in range(members))
    for each in weights:
        axes = [block or size for block, size in itertools.zip_longest(each.blocks, each.shape)]
        if len(axes) == 1:
            yield weight(each.name, own, *axes, start=each.start)
            continue
        *experts, inputs, outputs = axes
        if experts and not isinstance(outputs, int):
            # The last product of mixed crosses sums over the experts.
            experts, inputs = [], math.prod(each.shape[:-1])
        yield each
        yield weight(f"{each.name}/r", *experts, own, inputs, start="ones" if isinstance(inputs, int) else "signs")
        yield weight(f"{each.name}/s", *experts, own, outputs, start="ones")


def interaction_weights(interaction: Interaction | None, inputs: ModelInputs) -> tuple[list[Weight], Blocks]:
    """Returns the weights of an interaction, and the blocks of its result. No feature's name has a slash."""
    if interaction is None:
        return [], inputs.blocks
    return list(under("interaction/", interaction.weights(inputs))), interaction.outputs(inputs)


def _numbers(together: EncodedTogether) -> Weights:
    name, encoding = together.name, together.encoding
    features = tuple((feature, 1) for feature in together.features)
    if isinstance(encoding, PeriodicEncoding):
        yield weight(f"{name}/frequencies", features, encoding.frequencies, start="normal", deviation=encoding.sigma)
    yield weight(f"{name}/w", features, together.num_inputs, encoding.dim)
    yield weight(f"{name}/b", features, encoding.dim, start="zeros")


def encoder_weights(name: str, feature: SequenceFeature, dim: int) -> Weights:
    """Yields the weights of a sequence's encoder."""
    of_ages = feature.encoder.age_weights() if feature.times else ()
    return under(f"encoders/{name}/", itertools.chain(feature.encoder.weights(dim, feature.max_length), of_ages))


def event_weights(name: str, feature: SequenceFeature, dim: int) -> Weights:
    """Yields the vectors of the buckets of a sequence's events. They start as zeros: then only rows count."""
    for part, each in feature.beside.items():
        if isinstance(each, EventAmount):
            yield weight(f"events/{name}/amounts/{part}", NUM_BUCKETS, dim, start="zeros")
    if feature.times:
        yield weight(f"events/{name}/ages", NUM_BUCKETS, dim, start="zeros")
    if feature.positions:
        yield weight(f"events/{name}/positions", num_position_buckets(feature.max_length), dim, start="zeros")


def balance_weights(ranker: RankerSpec) -> list[Weight]:
    """Returns the weights that balancing learns: each task's s = log sigma^2 with uncertainties, else none."""
    if not isinstance(ranker.training.loss_balance, UncertaintyBalance):
        return []
    return [weight(f"loss_balance/{task}", 1, start="zeros") for task in ranker.tasks]

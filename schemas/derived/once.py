"""What a served ranker computes once a request for columns of one row, and what for each candidate, and why."""

from collections.abc import Iterator
from typing import NamedTuple

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.model_inputs import FeatureOrder, model_inputs
from sangam.schemas.derived.weights import interaction_weights
from sangam.schemas.parts.roles import Encoder
from sangam.schemas.parts.weight import Blocks, Weight
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.encoders import DinEncoder
from sangam.schemas.spec.features import SequenceFeature
from sangam.schemas.spec.models import DcnV2

_NARROW = 4
"""Least inputs for each number of a candidate."""
_ROUNDED = "a sum of two products is rounded otherwise in bfloat16"
_OWN_CODE = "own code reads whole rows"
_SHOWN = 4
"""Most matrices that are named."""


class Once(NamedTuple):
    """What signature `rank` computes once a request for the columns of which it has one row.

    Attributes:
        matrices: names of the matrices of whose product the part of these columns is computed once.
        encoders: sequences that are encoded once.
        each: what is computed for each candidate although these columns are in it, and why.
    """

    matrices: tuple[str, ...]
    encoders: tuple[str, ...]
    each: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """Returns all of it as one line."""
        steps = ["transform", "look-ups", "pooling", *(f"encoder {name}" for name in self.encoders)]
        names = [name.removesuffix("/w") for name in self.matrices]
        more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        if names:
            steps.append(f"their products with {' '.join([', '.join(names[:_SHOWN]), *more])}")
        each = "; ".join(["all later layers", *(f"{what} ({why})" for what, why in self.each)])
        return f"rank: columns of one row, once a request: {', '.join(steps)}; for each candidate: {each}"


def are_narrow(crosses: DcnV2, inputs: int) -> bool:
    """Returns whether crosses leave columns of the user linear in a few numbers of a candidate, U's inputs.

    Those of all crosses are then columns of the next product in place of the user's; the bound keeps them few.
    """
    if crosses.rank is None:
        return False
    return _NARROW * crosses.num_layers * crosses.num_experts * crosses.rank <= inputs


def once_a_request(ranker: RankerSpec) -> Once:
    """Returns what the exported ranker computes once a request."""
    order = FeatureOrder(ranker)
    encoders = {}
    for group in groups_of(ranker):
        for name in order.encoded[group]:
            feature = ranker.features[name]
            assert isinstance(feature, SequenceFeature)
            encoders[name] = feature.encoder
    each = []
    for name, encoder in encoders.items():
        target = encoder.attends_to()
        if target and _encodes_lists(encoder):
            each.append((f"encoder {name} of {target}", "the list is encoded once, and attends to no candidate"))
        elif target:
            each.append((f"encoder {name}", f"attends to {target}"))
    why = _why_whole(ranker)
    return Once(
        matrices=() if why else tuple(weight.name for weight in _first(ranker)),
        encoders=tuple(name for name, encoder in encoders.items() if _encodes_lists(encoder)),
        each=tuple([*each, *why, *_later(ranker)]),
    )


def _encodes_lists(encoder: Encoder) -> bool:
    """Returns whether an encoder works on a list without its targets; DIN takes each list once, but does not."""
    return not encoder.attends_to() or (encoder.keeps_lists and not isinstance(encoder, DinEncoder))


def _why_whole(ranker: RankerSpec) -> list[tuple[str, str]]:
    """Returns what needs every column of every candidate before the first product; nothing where none does."""
    model = ranker.model
    if ranker.training.dense_precision == "bfloat16":
        return [("all products", _ROUNDED)]
    if model.interaction is None:
        return [] if model.is_ours else [(f"model {model.kind}", _OWN_CODE)]
    if not model.interaction.is_ours:
        return [(f"interaction {model.interaction.kind}", _OWN_CODE)]
    return (
        [] if isinstance(model.interaction, DcnV2) else [(f"interaction {model.interaction.kind}", "of whole vectors")]
    )


def _first(ranker: RankerSpec) -> Iterator[Weight]:
    """Yields the matrices that the features are multiplied with, themselves or crossed."""
    inputs, model = model_inputs(ranker), ranker.model
    of_interaction, outputs = interaction_weights(model.interaction, inputs)
    is_narrow = _has_narrow_crosses(ranker)
    yield from (
        each for each in of_interaction if _inputs_of(each) == inputs.blocks and (is_narrow or not _is_later(each.name))
    )
    if model.is_ours and (model.interaction is None or is_narrow):
        yield from (each for each in model.weights(outputs, tuple(ranker.tasks)) if _inputs_of(each) == outputs)


def _inputs_of(weight: Weight) -> Blocks | None:
    return weight.blocks[-2] if len(weight.blocks) > 1 else None


def _is_later(name: str) -> bool:
    """Returns whether a weight of an interaction reads what an earlier cross has made."""
    return name.startswith("interaction/cross/") and not name.startswith("interaction/cross/0/")


def _later(ranker: RankerSpec) -> Iterator[tuple[str, str]]:
    if ranker.training.dense_precision == "auto":
        yield "all products where a training chooses bfloat16", _ROUNDED
    if isinstance(ranker.model.interaction, DcnV2) and not _has_narrow_crosses(ranker):
        yield "what follows a cross", "it multiplies columns of the user with those of the candidate"
    elif isinstance(ranker.model.interaction, DcnV2) and not ranker.model.is_ours:
        yield f"model {ranker.model.kind}", _OWN_CODE


def _has_narrow_crosses(ranker: RankerSpec) -> bool:
    crosses = ranker.model.interaction
    return isinstance(crosses, DcnV2) and ranker.model.members == 1 and are_narrow(crosses, model_inputs(ranker).width)

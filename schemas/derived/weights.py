"""The dense weights of a ranker: the one declaration that the layers of `trainer_module` and memory plans use."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from sangam.schemas.derived.encodings import EncodedTogether, encoded_together
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.model_inputs import FeatureOrder, ModelInputs, model_inputs
from sangam.schemas.derived.weight import Axis, Blocks, Weight, weight
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.encoders import DinEncoder, MeanEncoder, PositionalEncoder, TransformerEncoder
from sangam.schemas.spec.encodings import PeriodicEncoding
from sangam.schemas.spec.features import SequenceFeature
from sangam.schemas.spec.models import Aitm, DcnV2, Dlrm, Esmm, Interaction, Mmoe, Model, Ple, SharedBottom, SingleTask
from sangam.schemas.spec.training import UncertaintyBalance

Weights = Iterator[Weight]

SHARED = "shared"
"""The group of the experts of all tasks in PLE."""


def dense_weights(ranker: RankerSpec) -> list[Weight]:
    """Returns all dense weights, in the order of their flat vector."""
    weights = model_weights(ranker.model, model_inputs(ranker), tuple(ranker.tasks))
    order = FeatureOrder(ranker)
    for group in groups_of(ranker):
        for name in order.encoded[group]:
            feature = ranker.features[name]
            assert isinstance(feature, SequenceFeature)
            weights += encoder_weights(name, feature, ranker.tables[feature.table].dim)
    for each in encoded_together(ranker):
        weights += _numbers(each)
    return [*weights, *balance_weights(ranker)]


def model_weights(model: Model, inputs: ModelInputs, tasks: Sequence[str]) -> list[Weight]:
    """Returns the weights of an architecture, its interaction and its ensemble included."""
    before, seen = interaction_weights(model.interaction, inputs)
    return list(_of_members([*before, *_task_heads(model, seen, tasks)], model.members))


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


def _dense(name: str, inputs: Axis, units: Axis, columns: int = 1) -> Weights:
    yield weight(f"{name}/w", inputs, units, columns=columns)
    yield weight(f"{name}/b", units, start="zeros")


def _mlp(name: str, inputs: Axis, units: Sequence[int]) -> Weights:
    widths: list[Axis] = [inputs, *units]
    for position, (before, after) in enumerate(itertools.pairwise(widths)):
        yield from _dense(f"{name}/{position}", before, after)


def _side_by_side(name: str, inputs: Axis, units: Sequence[int], networks: int | Sequence[str]) -> Weights:
    """Yields several MLPs whose first layers are one matrix; a warm start matches named networks."""
    names = [str(number) for number in range(networks)] if isinstance(networks, int) else list(networks)
    columns: Axis = len(names) * units[0]
    if not isinstance(networks, int):
        columns = tuple((network, units[0]) for network in names)
    yield from _dense(f"{name}/first", inputs, columns, columns=len(names))
    for network in names:
        yield from _mlp(f"{name}/{network}", units[0], units[1:])


def _heads(tasks: Sequence[str], inputs: int) -> Weights:
    for task in tasks:
        yield from _dense(f"heads/{task}", inputs, 1)


def _towers(tasks: Sequence[str], inputs: int, units: Sequence[int]) -> Weights:
    for task in tasks:
        yield from _mlp(f"towers/{task}", inputs, units)
    yield from _heads(tasks, units[-1])


def interaction_weights(interaction: Interaction | None, inputs: ModelInputs) -> tuple[list[Weight], Blocks]:
    """Returns the weights of an interaction, and the blocks of its result."""
    match interaction:
        case None:
            return [], inputs.blocks
        case DcnV2():
            crosses = [
                each
                for number in range(interaction.num_layers)
                for each in _cross(f"interaction/cross/{number}", interaction, inputs.blocks)
            ]
            if not interaction.deep_units:
                return crosses, inputs.blocks
            # No feature's name has a slash.
            deep = _mlp("interaction/deep", inputs.blocks, interaction.deep_units)
            return [*crosses, *deep], (*inputs.blocks, ("interaction/deep", interaction.deep_units[-1]))
        case Dlrm():
            return _dlrm(interaction, inputs)
        case _:
            assert_never(interaction)


def _cross(name: str, dcn: DcnV2, inputs: Blocks) -> Weights:
    rank, experts = dcn.rank, dcn.num_experts
    if rank is None:
        yield from _dense(name, inputs, inputs)
    elif experts == 1:
        yield weight(f"{name}/v", inputs, rank)
        yield weight(f"{name}/u", rank, inputs)
        yield weight(f"{name}/b", inputs, start="zeros")
    else:
        yield weight(f"{name}/v", inputs, experts * rank, columns=experts)
        yield weight(f"{name}/c", experts, rank, rank)
        yield weight(f"{name}/u", experts, rank, inputs)
        yield weight(f"{name}/b", inputs, start="zeros")
        yield from _dense(f"{name}/expert_gate", inputs, experts)


def _dlrm(dlrm: Dlrm, inputs: ModelInputs) -> tuple[list[Weight], Blocks]:
    bottom, dim = "interaction/bottom", inputs.embeddings[0][1]
    names = [*([bottom] if inputs.floats else []), *(name for name, _ in inputs.embeddings)]
    pairs = tuple((f"{names[i]} {names[j]}", 1) for i in range(len(names)) for j in range(i))
    if not inputs.floats:
        return [], pairs
    before: Axis = dlrm.bottom_units[-1] if dlrm.bottom_units else inputs.floats
    weights = [*_mlp(bottom, inputs.floats, dlrm.bottom_units), *_dense(f"{bottom}/last", before, dim)]
    return weights, ((bottom, dim), *pairs)


def _task_heads(model: Model, inputs: Blocks, tasks: Sequence[str]) -> Weights:
    towers = model.tower_units
    match model:
        case SingleTask() | Esmm():
            chain = model.chain if isinstance(model, Esmm) else tasks
            yield from _side_by_side("towers", inputs, towers, chain)
            yield from _heads(chain, towers[-1])
        case SharedBottom():
            yield from _side_by_side("bottom", inputs, model.bottom_units, 1)
            yield from _towers(tasks, model.bottom_units[-1], towers)
        case Mmoe():
            yield from _side_by_side("experts", inputs, model.expert_units, model.num_experts)
            yield from _dense("expert_gates", inputs, tuple((task, model.num_experts) for task in tasks))
            yield from _towers(tasks, model.expert_units[-1], towers)
        case Ple():
            yield from _ple(model, inputs, tasks)
        case Aitm():
            width = towers[-1]
            yield from _side_by_side("towers", inputs, towers, model.chain)
            for task in model.chain[:-1]:
                yield from _dense(f"transfers/{task}", width, width)
            for task in model.chain[1:]:
                yield weight(f"attentions/{task}/w", width, 3 * width, columns=3)
            yield from _heads(model.chain, width)
        case _:
            assert_never(model)


def ple_experts(model: Ple, tasks: Sequence[str]) -> dict[str, int]:
    """Returns the number of experts of each group in a level: the tasks', `tasks/<task>`, then the `shared` ones."""
    return {f"tasks/{task}": model.task_experts for task in tasks} | {SHARED: model.shared_experts}


def ple_choices(model: Ple, tasks: Sequence[str], level: int) -> dict[str, Blocks]:
    """Returns the groups that each gate of a level mixes, with their numbers of experts."""
    every = tuple(ple_experts(model, tasks).items())
    choices: dict[str, Blocks] = {group: ((group, count), every[-1]) for group, count in every[:-1]}
    # Nothing reads the shared mixture of the last level.
    return choices if level == model.num_levels - 1 else choices | {SHARED: every}


def _ple(model: Ple, inputs: Blocks, tasks: Sequence[str]) -> Weights:
    width = model.expert_units[-1]
    for level in range(model.num_levels):
        name, experts, choices = f"levels/{level}", ple_experts(model, tasks), ple_choices(model, tasks, level)
        if level == 0:
            networks = [f"{group}/{each}" for group, count in experts.items() for each in range(count)]
            yield from _side_by_side(f"{name}/experts", inputs, model.expert_units, networks)
            gates = tuple((f"{group} of {each}", size) for group, chosen in choices.items() for each, size in chosen)
            yield from _dense(f"{name}/expert_gates", inputs, gates)
            continue
        for group, count in experts.items():
            yield from _side_by_side(f"{name}/experts/{group}", width, model.expert_units, count)
        for group, chosen in choices.items():
            yield from _dense(f"{name}/expert_gates/{group}", width, chosen)
    yield from _towers(tasks, width, model.tower_units)


def _numbers(together: EncodedTogether) -> Weights:
    name, encoding = together.name, together.encoding
    features = tuple((feature, 1) for feature in together.features)
    if isinstance(encoding, PeriodicEncoding):
        yield weight(f"{name}/frequencies", features, encoding.frequencies, start="normal", deviation=encoding.sigma)
    yield weight(f"{name}/w", features, together.num_inputs, encoding.dim)
    yield weight(f"{name}/b", features, encoding.dim, start="zeros")


def encoder_weights(name: str, feature: SequenceFeature, dim: int) -> Weights:
    """Yields the weights of a sequence's encoder."""
    prefix = f"encoders/{name}"
    match feature.encoder:
        case MeanEncoder():
            return
        case PositionalEncoder():
            yield weight(f"positions/{name}", feature.max_length, start="zeros")
        case DinEncoder(units=units):
            yield from _dense(f"{prefix}/first", 3 * dim, units[0])
            yield from _mlp(f"{prefix}/rest", units[0], units[1:])
            yield from _dense(f"{prefix}/head", units[-1], 1)
        case TransformerEncoder(num_layers=layers, feed_forward_units=wide):
            yield weight(f"{prefix}/positions", feature.max_length, dim, start="zeros")
            for layer in range(layers):
                for part in ("queries", "keys", "values", "mixed"):
                    yield from _dense(f"{prefix}/{layer}/{part}", dim, dim)
                yield from _dense(f"{prefix}/{layer}/wide", dim, wide)
                yield from _dense(f"{prefix}/{layer}/narrow", wide, dim)
                for norm in (1, 2):
                    yield weight(f"{prefix}/{layer}/norm_{norm}/gain", dim, start="zeros")
                    yield weight(f"{prefix}/{layer}/norm_{norm}/bias", dim, start="zeros")
        case _:
            assert_never(feature.encoder)


def balance_weights(ranker: RankerSpec) -> list[Weight]:
    """Returns the weights that balancing learns: each task's s = log sigma^2 with uncertainties, else none."""
    if not isinstance(ranker.training.loss_balance, UncertaintyBalance):
        return []
    return [weight(f"loss_balance/{task}", 1, start="zeros") for task in ranker.tasks]

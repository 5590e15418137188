"""The dense weights of a ranker by name: their shapes, and which slices of an axis belong to which feature or task.

The same weights as the layers of `trainer_module` create, without TensorFlow: for memory plans, and to compare a spec
with its base. A test compares both for every architecture.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import assert_never

from schemas.derived.encodings import EncodedTogether, encoded_together, float_inputs
from schemas.derived.groups import groups_of
from schemas.derived.outputs import outputs
from schemas.spec import RankerSpec
from schemas.spec.encoders import DinEncoder, MeanEncoder, PositionalEncoder, TransformerEncoder
from schemas.spec.encodings import PeriodicEncoding
from schemas.spec.features import IdsFeature, SequenceFeature
from schemas.spec.models import Aitm, DcnV2, Dlrm, Esmm, Interaction, Mmoe, Model, Ple, SharedBottom, SingleTask
from schemas.spec.training import UncertaintyBalance

Blocks = tuple[tuple[str, int], ...]
"""Named slices of an axis, with their sizes."""
Axis = int | Blocks
Weights = Iterator["DenseWeight"]

_SHARED = "shared"


@dataclass(frozen=True)
class DenseWeight:
    """One weight; see `trainer_module.dense.weights.Weight`."""

    name: str
    shape: tuple[int, ...]
    blocks: tuple[Blocks | None, ...] = ()


def dense_weights(ranker: RankerSpec) -> list[DenseWeight]:
    """Returns the weights in the order in which `trainer_module` creates them."""
    floats, embeddings = _inputs(ranker)
    tasks = tuple(ranker.tasks)
    before, seen = _interaction(ranker.model.interaction, floats, embeddings)
    weights = _of_members([*before, *_task_heads(ranker.model, seen, tasks)], ranker.model.members)
    for name in _encoded(ranker):
        weights += _encoder(name, ranker)
    for each in encoded_together(ranker):
        weights += _numbers(each)
    if isinstance(ranker.training.loss_balance, UncertaintyBalance):
        weights += [DenseWeight(f"loss_balance/{task}", (1,)) for task in tasks]
    return weights


def _of_members(weights: list[DenseWeight], members: int) -> list[DenseWeight]:
    """Returns the weights of an ensemble: two factors behind each matrix, and each member's own biases."""
    if members == 1:
        return weights
    own: Blocks = tuple((f"members/{number}", 1) for number in range(members))
    found: list[DenseWeight] = []
    for weight in weights:
        axes = [block or size for block, size in itertools.zip_longest(weight.blocks, weight.shape)]
        if len(axes) == 1:
            found.append(_weight(weight.name, own, *axes))
            continue
        *experts, inputs, outputs = axes
        if experts and not isinstance(outputs, int):
            # The last product of mixed crosses sums over the experts.
            experts, inputs = [], math.prod(weight.shape[:-1])
        factors = (
            _weight(f"{weight.name}/{name}", *experts, own, axis) for name, axis in (("r", inputs), ("s", outputs))
        )
        found += [weight, *factors]
    return found


def width_of(axis: Axis) -> int:
    """Returns the length of an axis."""
    return axis if isinstance(axis, int) else sum(size for _, size in axis)


def _inputs(ranker: RankerSpec) -> tuple[Blocks, Blocks]:
    """Returns the parts of the model's input: floats, then the vectors of each group of tables."""
    own = {output.name: output for output in outputs(ranker) if output.name in ranker.features}
    embeddings: list[tuple[str, int]] = []
    for group in groups_of(ranker).values():
        members = [name for name in own if ranker.table_of(name) in group.tables]
        # Features of one id, then lists without weights, lists with weights, and encoded sequences.
        members.sort(key=lambda name: _input_order(ranker, name) if own[name].is_list else 0)
        embeddings += [(name, group.dim) for name in members]
    return float_inputs(ranker), tuple(embeddings)


def _input_order(ranker: RankerSpec, name: str) -> int:
    feature = ranker.features[name]
    if isinstance(feature, SequenceFeature) and not isinstance(feature.encoder, MeanEncoder):
        return 3
    return 2 if isinstance(feature, IdsFeature) and feature.weights else 1


def _encoded(ranker: RankerSpec) -> list[str]:
    """Returns the features with an encoder of their own, group by group."""
    return [name for name, _ in _inputs(ranker)[1] if _input_order(ranker, name) == 3]


def _weight(name: str, *axes: Axis) -> DenseWeight:
    blocks = tuple(None if isinstance(axis, int) else axis for axis in axes)
    return DenseWeight(name, tuple(map(width_of, axes)), blocks if any(blocks) else ())


def _dense(name: str, inputs: Axis, units: Axis) -> Weights:
    yield _weight(f"{name}/w", inputs, units)
    yield _weight(f"{name}/b", units)


def _mlp(name: str, inputs: Axis, units: Sequence[int]) -> Weights:
    widths: list[Axis] = [inputs, *units]
    for position, (before, after) in enumerate(itertools.pairwise(widths)):
        yield from _dense(f"{name}/{position}", before, after)


def _side_by_side(name: str, inputs: Axis, units: Sequence[int], networks: int | Sequence[str]) -> Weights:
    """Yields several MLPs whose first layers are one matrix."""
    names = [str(number) for number in range(networks)] if isinstance(networks, int) else list(networks)
    columns: Axis = len(names) * units[0]
    if not isinstance(networks, int):
        columns = tuple((network, units[0]) for network in names)
    yield from _dense(f"{name}/first", inputs, columns)
    for network in names:
        yield from _mlp(f"{name}/{network}", units[0], units[1:])


def _heads(tasks: Sequence[str], inputs: int) -> Weights:
    for task in tasks:
        yield from _dense(f"heads/{task}", inputs, 1)


def _towers(tasks: Sequence[str], inputs: int, units: Sequence[int]) -> Weights:
    for task in tasks:
        yield from _mlp(f"towers/{task}", inputs, units)
    yield from _heads(tasks, units[-1])


def _interaction(
    interaction: Interaction | None, floats: Blocks, embeddings: Blocks
) -> tuple[list[DenseWeight], Blocks]:
    """Returns the weights before the task heads, and the heads' inputs."""
    inputs = (*floats, *embeddings)
    match interaction:
        case None:
            return [], inputs
        case DcnV2():
            crosses = [
                weight
                for number in range(interaction.num_layers)
                for weight in _cross(f"interaction/cross/{number}", interaction, inputs)
            ]
            if not interaction.deep_units:
                return crosses, inputs
            deep = _mlp("interaction/deep", inputs, interaction.deep_units)
            return [*crosses, *deep], (*inputs, ("interaction/deep", interaction.deep_units[-1]))
        case Dlrm():
            return _dlrm(interaction, floats, embeddings)
        case _:
            assert_never(interaction)


def _cross(name: str, dcn: DcnV2, inputs: Blocks) -> Weights:
    rank, experts = dcn.rank, dcn.num_experts
    if rank is None:
        yield from _dense(name, inputs, inputs)
    elif experts == 1:
        yield _weight(f"{name}/v", inputs, rank)
        yield _weight(f"{name}/u", rank, inputs)
        yield _weight(f"{name}/b", inputs)
    else:
        yield _weight(f"{name}/v", inputs, experts * rank)
        yield _weight(f"{name}/c", experts, rank, rank)
        yield _weight(f"{name}/u", experts, rank, inputs)
        yield _weight(f"{name}/b", inputs)
        yield from _dense(f"{name}/expert_gate", inputs, experts)


def _dlrm(dlrm: Dlrm, floats: Blocks, embeddings: Blocks) -> tuple[list[DenseWeight], Blocks]:
    bottom, dim = "interaction/bottom", embeddings[0][1]
    names = [*([bottom] if floats else []), *(name for name, _ in embeddings)]
    pairs = tuple((f"{names[i]} {names[j]}", 1) for i in range(len(names)) for j in range(i))
    if not floats:
        return [], pairs
    before: Axis = dlrm.bottom_units[-1] if dlrm.bottom_units else floats
    weights = [*_mlp(bottom, floats, dlrm.bottom_units), *_dense(f"{bottom}/last", before, dim)]
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
                yield _weight(f"attentions/{task}/w", width, 3 * width)
            yield from _heads(model.chain, width)
        case _:
            assert_never(model)


def _ple(model: Ple, inputs: Blocks, tasks: Sequence[str]) -> Weights:
    experts = {f"tasks/{task}": model.task_experts for task in tasks} | {_SHARED: model.shared_experts}
    width = model.expert_units[-1]
    for number in range(model.num_levels):
        name = f"levels/{number}"
        mixed: dict[str, Blocks] = {
            group: ((group, count), (_SHARED, model.shared_experts)) for group, count in experts.items()
        } | {_SHARED: tuple(experts.items())}
        if number == model.num_levels - 1:
            # Nothing reads the shared mixture of the last level.
            del mixed[_SHARED]
        if number == 0:
            networks = [f"{group}/{each}" for group, count in experts.items() for each in range(count)]
            yield from _side_by_side(f"{name}/experts", inputs, model.expert_units, networks)
            gates = tuple((f"{group} of {chosen}", size) for group, of in mixed.items() for chosen, size in of)
            yield from _dense(f"{name}/expert_gates", inputs, gates)
            continue
        for group, count in experts.items():
            yield from _side_by_side(f"{name}/experts/{group}", width, model.expert_units, count)
        for group, chosen_of in mixed.items():
            yield from _dense(f"{name}/expert_gates/{group}", width, chosen_of)
    yield from _towers(tasks, width, model.tower_units)


def _numbers(together: EncodedTogether) -> Weights:
    features = tuple((feature, 1) for feature in together.features)
    if isinstance(together.encoding, PeriodicEncoding):
        yield _weight(f"{together.name}/frequencies", features, together.encoding.frequencies)
    yield _weight(f"{together.name}/w", features, together.num_inputs, together.encoding.dim)
    yield _weight(f"{together.name}/b", features, together.encoding.dim)


def _encoder(name: str, ranker: RankerSpec) -> Weights:
    feature = ranker.features[name]
    assert isinstance(feature, SequenceFeature)
    dim, prefix = ranker.tables[feature.table].dim, f"encoders/{name}"
    match feature.encoder:
        case MeanEncoder():
            return
        case PositionalEncoder():
            yield _weight(f"positions/{name}", feature.max_length)
        case DinEncoder(units=units):
            yield from _dense(f"{prefix}/first", 3 * dim, units[0])
            yield from _mlp(f"{prefix}/rest", units[0], units[1:])
            yield from _dense(f"{prefix}/head", units[-1], 1)
        case TransformerEncoder(num_layers=layers, feed_forward_units=wide):
            yield _weight(f"{prefix}/positions", feature.max_length, dim)
            for layer in range(layers):
                for part in ("queries", "keys", "values", "mixed"):
                    yield from _dense(f"{prefix}/{layer}/{part}", dim, dim)
                yield from _dense(f"{prefix}/{layer}/wide", dim, wide)
                yield from _dense(f"{prefix}/{layer}/narrow", wide, dim)
                for norm in (1, 2):
                    yield _weight(f"{prefix}/{layer}/norm_{norm}/gain", dim)
                    yield _weight(f"{prefix}/{layer}/norm_{norm}/bias", dim)
        case _:
            assert_never(feature.encoder)

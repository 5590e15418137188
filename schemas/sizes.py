"""What each part of a trained ranker takes in memory: a row, its place in the index, the dense weights.

The engine's own numbers (`trainer_module/embedding/row_store.py`); a test compares them with the engine.
"""

import itertools
import math

from typing_extensions import assert_never

from schemas.encoders import DinEncoder, MeanEncoder, PositionalEncoder, TransformerEncoder
from schemas.features import SequenceFeature
from schemas.groups import Group
from schemas.models import Aitm, DcnV2, Dlrm, Esmm, Interaction, Mmoe, Model, Ple, SharedBottom, SingleTask
from schemas.outputs import outputs
from schemas.spec import Ranker
from schemas.training import UncertaintyBalance

FLOAT_BYTES = 4
KEY_BYTES = 8
"""A row's key."""
INDEX_BYTES_PER_SLOT = 18
"""libcuckoo: buckets of four slots, each slot 16 bytes of key and row number, a byte of the hash, a byte of use."""
INDEX_ROOM = 9 / 8
"""Slots that a restored index asks for, per row. A growing one is filled to 0.95; this is the larger of both."""
INDEX_FIXED_BYTES = 13_000_000
"""Its 65,536 locks and their predecessors; measured."""
MIN_ROWS = 1 << 14
"""Room of an empty table; what is not written is not taken, except in the index."""
COUNTER_BYTES = 16
"""Four rows of int32 in a count-min sketch."""
PROCESS_BYTES = 700_000_000
"""A rank or a data worker before it holds rows: TensorFlow, TFRA and Horovod loaded, and what malloc keeps of small
buffers that were freed; measured."""
DEVIATIONS = 6
"""Keys go to ranks by a mixed hash, so a rank's share is binomial: one rank in a billion is so many standard
deviations over the mean."""


def stored_bytes(group: Group) -> int:
    """Returns what a row of a group and its key take without the index."""
    return group.width * FLOAT_BYTES + KEY_BYTES


def high_share(rows: int, ranks: int) -> float:
    """Returns the rows of a rank that got `DEVIATIONS` standard deviations more than its even share."""
    mean = rows / ranks
    return min(rows, mean + DEVIATIONS * math.sqrt(mean * (1 - 1 / ranks)))


def index_bytes(rows: float) -> int:
    """Returns what the index of one rank's group takes for so many rows: the slots are a power of two."""
    slots = 1 << math.ceil(math.log2(max(rows * INDEX_ROOM, MIN_ROWS)))
    return slots * INDEX_BYTES_PER_SLOT + INDEX_FIXED_BYTES


def dense_parameters(ranker: Ranker) -> int:
    """Returns the number of dense weights."""
    return sum(dense_parts(ranker).values())


def dense_parts(ranker: Ranker) -> dict[str, int]:
    """Returns the number of dense weights by what they belong to, from the features to the tasks; no zeros."""
    floats, embeddings = _input_widths(ranker)
    inputs, parts = _interaction(ranker.model.interaction, floats, embeddings)
    parts |= _tasks_part(ranker.model, inputs, len(ranker.tasks))
    parts["encoders"] = sum(
        _encoder(feature, ranker.tables[feature.table].dim)
        for feature in ranker.features.values()
        if isinstance(feature, SequenceFeature)
    )
    parts["loss_balance"] = len(ranker.tasks) * isinstance(ranker.training.loss_balance, UncertaintyBalance)
    return {part: number for part, number in parts.items() if number}


def _input_widths(ranker: Ranker) -> tuple[list[int], list[int]]:
    """Returns the widths of the features that are floats, and those of the embedded ones."""
    widths = {output.name: output.width for output in outputs(ranker)}
    tables = {name: ranker.table_of(name) for name in ranker.features}
    floats = [widths[name] for name, table in tables.items() if not table]
    return floats, [ranker.tables[table].dim for table in tables.values() if table]


def _interaction(declared: Interaction | None, floats: list[int], embeddings: list[int]) -> tuple[int, dict[str, int]]:
    """Returns how wide the input of the tasks' part is, and the weights before it."""
    width = sum(floats) + sum(embeddings)
    match declared:
        case None:
            return width, {}
        case DcnV2():
            deep = _mlp(width, *declared.deep_units) if declared.deep_units else 0
            outputs = width + (declared.deep_units[-1] if declared.deep_units else 0)
            return outputs, {"interaction": declared.num_layers * _cross(declared, width) + deep}
        case Dlrm():
            vectors = len(embeddings) + bool(floats)
            dots = vectors * (vectors - 1) // 2
            if not floats:
                return dots, {}
            return embeddings[0] + dots, {"interaction": _mlp(sum(floats), *declared.bottom_units, embeddings[0])}
        case _:
            assert_never(declared)


def _cross(declared: DcnV2, width: int) -> int:
    rank, experts = declared.rank, declared.num_experts
    if rank is None:
        return width * width + width
    if experts == 1:
        return 2 * width * rank + width
    return experts * (2 * width * rank + rank * rank) + width + _mlp(width, experts)


def _tasks_part(model: Model, inputs: int, tasks: int) -> dict[str, int]:
    towers = model.tower_units
    match model:
        case SingleTask() | Esmm():
            return {"towers": tasks * _mlp(inputs, *towers, 1)}
        case SharedBottom():
            bottom = model.bottom_units
            return {"bottom": _mlp(inputs, *bottom), "towers": tasks * _mlp(bottom[-1], *towers, 1)}
        case Mmoe():
            return {
                "experts": model.num_experts * _mlp(inputs, *model.expert_units),
                "expert_gates": tasks * _mlp(inputs, model.num_experts),
                "towers": tasks * _mlp(model.expert_units[-1], *towers, 1),
            }
        case Ple():
            return _ple(model, inputs, tasks)
        case Aitm():
            width, steps = towers[-1], tasks - 1
            transfer = _mlp(width, width) + 3 * width * width
            return {"towers": tasks * _mlp(inputs, *towers, 1), "transfers": steps * transfer}
        case _:
            assert_never(model)


def _ple(model: Ple, inputs: int, tasks: int) -> dict[str, int]:
    width = model.expert_units[-1]
    num_experts = tasks * model.task_experts + model.shared_experts
    experts = gates = 0
    for level in range(model.num_levels):
        seen = width if level else inputs
        experts += num_experts * _mlp(seen, *model.expert_units)
        gates += tasks * _mlp(seen, model.task_experts + model.shared_experts)
        # Nothing sees what the shared experts of the last level would mix.
        gates += _mlp(seen, num_experts) if level < model.num_levels - 1 else 0
    return {"experts": experts, "expert_gates": gates, "towers": tasks * _mlp(width, *model.tower_units, 1)}


def _encoder(feature: SequenceFeature, dim: int) -> int:
    match feature.encoder:
        case MeanEncoder():
            return 0
        case PositionalEncoder():
            return feature.max_length
        case DinEncoder(units=units):
            return _mlp(3 * dim, *units, 1)
        case TransformerEncoder(num_layers=layers, feed_forward_units=units):
            # Queries, keys, values and what mixes the heads; the feed-forward part; two norms with gain and bias.
            return feature.max_length * dim + layers * (4 * _mlp(dim, dim) + _mlp(dim, units, dim) + 4 * dim)
        case _:
            assert_never(feature.encoder)


def _mlp(*widths: int) -> int:
    return sum((before + 1) * after for before, after in itertools.pairwise(widths))

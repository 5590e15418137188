"""What each part of a trained ranker takes in memory: a row, its place in the index, the dense weights.

The engine's own numbers (`trainer_module/embedding/row_store.py`); a test compares them with the engine.
"""

import itertools
import math

from schemas.encoders import PositionalEncoder
from schemas.features import NumericFeature, SequenceFeature
from schemas.groups import Group
from schemas.models import Mmoe
from schemas.spec import Ranker

FLOAT_BYTES = 4
KEY_BYTES = 9
"""A row's key, and whether it was touched since the last export."""
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
    features = ranker.features.values()
    inputs = sum(1 if isinstance(feature, NumericFeature) else ranker.tables[feature.table].dim for feature in features)
    positions = sum(
        feature.max_length
        for feature in features
        if isinstance(feature, SequenceFeature) and isinstance(feature.encoder, PositionalEncoder)
    )
    return _mmoe_parameters(ranker.model, inputs, len(ranker.tasks)) + positions


def _mmoe_parameters(model: Mmoe, inputs: int, tasks: int) -> int:
    expert = _mlp_parameters(inputs, *model.expert_units)
    tower = _mlp_parameters(model.expert_units[-1], *model.tower_units, 1)
    gate = _mlp_parameters(inputs, model.num_experts)
    return model.num_experts * expert + tasks * (tower + gate)


def _mlp_parameters(*widths: int) -> int:
    return sum((before + 1) * after for before, after in itertools.pairwise(widths))

"""The workload of the benchmarks: 20 id features, 10 million Zipf-popular ids, 13 numbers, 3 tasks, all in memory."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.dimensions import (
    BATCH_SIZE_PER_RANK,
    DIM,
    EXPERT_UNITS,
    NUM_EXPERTS,
    NUM_FLOATS,
    NUM_IDS,
    NUM_TASKS,
    TOTAL_IDS,
    TOWER_UNITS,
    cardinalities,
)
from sangam.schemas.host.splitmix64 import mix64
from sangam.schemas.spec import RankerSpec

_ID_BITS = 52  # of a key; the table's tag lies above: trainer_module/transforms/keys.py
_ZIPF_EXPONENT = 1.05


@dataclass(frozen=True)
class Pool:
    """Examples of one rank.

    Attributes:
        keys: keys [examples, ids] int64.
        floats: numbers [examples, numbers] float32.
        labels: labels [examples, tasks] float32, 0 or 1, learnable from ids and numbers.
    """

    keys: NDArray[Any]
    floats: NDArray[Any]
    labels: NDArray[Any]


def ranker(*, is_plain: bool = True, place: str = "host", **training: object) -> RankerSpec:
    """Returns the declaration, one table for each feature.

    Args:
        is_plain: numbers enter as they are and no average of the weights is kept, as with every rival; otherwise both
            are as by default.
        place: memory of the rows.
        training: replaces fields of its training.
    """
    features: dict[str, object] = {
        f"id_{n:02}": {"kind": "id", "type": "int", "table": f"table_{n:02}"} for n in range(NUM_IDS)
    }
    number = {"kind": "numeric", "encoding": {"kind": "standard"}} if is_plain else {"kind": "numeric"}
    features |= {f"x_{n:02}": number for n in range(NUM_FLOATS)}
    document = {
        "name": "bench",
        "tables": {f"table_{n:02}": {"dim": DIM, "place": place} for n in range(NUM_IDS)},
        "features": features,
        "tasks": {f"y_{n}": {"kind": "binary"} for n in range(NUM_TASKS)},
        "model": {
            "kind": "mmoe",
            "num_experts": NUM_EXPERTS,
            "expert_units": EXPERT_UNITS,
            "tower_units": TOWER_UNITS,
        },
        "training": {
            "batch_size_per_rank": BATCH_SIZE_PER_RANK,
            "shuffle_buffer": 1,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
            "embedding_optimizer": {"kind": "adam", "learning_rate": 0.001},
            **({"average": None} if is_plain else {}),
            **training,
        },
        "cluster": {"ranks": 1, "data_workers": 0},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def pool(num_examples: int, *, num_ids: int = TOTAL_IDS, seed: int) -> Pool:
    """Returns examples whose ids are drawn from `num_ids` by a bounded power law.

    The labels' dependence on keys and numbers is the same for every seed.
    """
    generator = np.random.default_rng(seed)
    numbers = np.stack([zipf(generator, num_examples, count) for count in cardinalities(num_ids)], 1)
    keys = keys_of(numbers)
    floats = generator.standard_normal((num_examples, NUM_FLOATS)).astype(np.float32)
    slopes = np.random.default_rng(1234).standard_normal((NUM_FLOATS, NUM_TASKS)) * 0.3
    effects = ((keys[:, :6, None] >> (np.arange(NUM_TASKS) * 8 + 3)) % 1000) / 1000.0 - 0.5
    logits = floats @ slopes + 1.2 * effects.sum(1) - 1.0
    labels = (generator.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))).astype(np.float32)
    return Pool(keys, floats, labels)


def keys_of(numbers: NDArray[Any], *, first: int = 0) -> NDArray[Any]:
    """Returns keys as Transform makes them: the tag of the feature's table, and a hash of the id below it.

    Args:
        numbers: [examples, features] int64, of the ids, from 0 within their feature.
        first: the feature of the first column; the others follow.
    """
    tags = first + np.arange(1, numbers.shape[1] + 1, dtype=np.int64)[None, :]
    return (tags << _ID_BITS) | (_mixed(numbers + (tags << 40)) & ((1 << _ID_BITS) - 1))


def _mixed(numbers: NDArray[Any]) -> NDArray[Any]:
    """Returns SplitMix64's finalizer of each number, as a non-negative int64."""
    return (mix64(numbers.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)


def zipf(generator: np.random.Generator, size: int, count: int, exponent: float = _ZIPF_EXPONENT) -> NDArray[Any]:
    """Returns numbers 0 .. count - 1, of which the r-th is drawn in proportion to r ** -exponent."""
    rest = 1.0 - exponent
    drawn = ((count**rest - 1.0) * generator.random(size) + 1.0) ** (1.0 / rest)
    return np.minimum(drawn.astype(np.int64) - 1, count - 1)

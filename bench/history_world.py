"""A made-up world in which the order of a history matters, for `bench.histories`.

An event is a topic and an action, liked or skipped. A click depends on the action of the newest event of the
candidate's topic, whatever was done on it before; on how the topic of the newest event of all leads to the candidate's;
and on the item. So old events are out of date, and which ones are, the others say.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from sangam.schemas.derived.groups import KEY_ID_BITS
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker

_TOPICS, _ITEMS_OF_TOPIC, _LENGTHS = 8, 20, (3, 40)
_OF_ACTION, _OF_LEADING, _OF_ITEM, _ALWAYS = 2.0, 1.5, 0.5, -0.3
ROWS = {"train": 48_000, "validation": 16_000, "test": 32_000}
_BATCH = 512


class Rows(NamedTuple):
    """Rows of the world: candidates, events newest first, labels."""

    items: NDArray[np.int64]
    events: NDArray[np.int64]
    actions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.float32]
    logits: NDArray[np.float64]

    @staticmethod
    def drawn(generator: np.random.Generator, lengths: NDArray[np.int64]) -> "Rows":
        """Returns rows without any meaning."""
        rows, events = len(lengths), int(lengths.sum())
        topics, actions = generator.integers(0, _TOPICS, events), generator.integers(0, 2, events)
        labels = generator.integers(0, 2, rows).astype(np.float32)
        return Rows(generator.integers(0, _TOPICS, rows), topics, actions, lengths, labels, np.zeros(rows))


def world(seed: int, rows_of: Mapping[str, int] = ROWS) -> dict[str, Rows]:
    """Returns so many rows of each split."""
    generator = np.random.default_rng(seed)
    leads = generator.normal(size=[_TOPICS, _TOPICS])
    liking = generator.normal(scale=_OF_ITEM, size=_TOPICS * _ITEMS_OF_TOPIC)
    return {split: _split(generator, rows, leads, liking) for split, rows in rows_of.items()}


def _split(generator: np.random.Generator, rows: int, leads: NDArray[Any], liking: NDArray[Any]) -> Rows:
    lengths = generator.integers(_LENGTHS[0], _LENGTHS[1] + 1, rows)
    of_event = np.repeat(np.arange(rows), lengths)
    interests = generator.dirichlet([0.4] * _TOPICS, rows).cumsum(1)

    def drawn(row: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = (generator.random(len(row))[:, None] > interests[row]).sum(1).clip(0, _TOPICS - 1)
        return found

    events, actions = drawn(of_event), generator.integers(0, 2, len(of_event))
    is_liked = generator.random(rows) < 0.5
    topics = np.where(is_liked, drawn(np.arange(rows)), generator.integers(0, _TOPICS, rows))
    items = topics * _ITEMS_OF_TOPIC + generator.integers(0, _ITEMS_OF_TOPIC, rows)
    starts = np.cumsum(lengths) - lengths
    same = np.flatnonzero(events == topics[of_event])
    newest = np.full(rows, -1)
    newest[of_event[same[::-1]]] = same[::-1]  # Of several of a row the last one is assigned: the newest.
    state = np.where(newest >= 0, 2 * actions[newest] - 1, 0)
    logits = _ALWAYS + liking[items] + _OF_ACTION * state + _OF_LEADING * leads[events[starts], topics]
    labels = generator.random(rows) < 1 / (1 + np.exp(-logits))
    return Rows(items, events, actions, lengths, labels.astype(np.float32), logits)


def declared(
    encoder: Mapping[str, Any], max_length: int, *, rate: float = 0.005, dim: int = 16, positions: bool = True
) -> RankerSpec:
    """Returns a ranker of a candidate, its topic, and a history of topics and actions."""
    training = {f"{part}_optimizer": {"kind": "adam", "learning_rate": rate} for part in ("dense", "embedding")}
    history = {
        "kind": "sequence",
        "type": "int",
        "table": "topics",
        "max_length": max_length,
        "encoder": encoder,
        "beside": {"action": {"kind": "id", "type": "int", "table": "actions"}},
        "positions": positions,
    }
    document = {
        "name": "histories",
        "tables": {table: {"dim": dim} for table in ("items", "topics", "actions")},
        "features": {
            "item": {"kind": "id", "type": "int", "table": "items"},
            "topic": {"kind": "id", "type": "int", "table": "topics"},
            "history": history,
        },
        "tasks": {"click": {"kind": "binary"}},
        "model": {"kind": "single_task", "tower_units": [64, 32]},
        "training": {"batch_size_per_rank": _BATCH, **training},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def batches(ranker: Ranker, rows: Rows, size: int, order: NDArray[Any] | None = None) -> Iterator[Batch]:
    """Yields the rows as batches."""
    tags = {table: np.int64(tag) << KEY_ID_BITS for table, tag in ranker.spec.table_tags().items()}
    of_rows = {"item": tags["items"] | rows.items, "topic": tags["topics"] | rows.items // _ITEMS_OF_TOPIC}
    of_events = {name: tags["actions"] | rows.actions for name in ranker.layout.all_lists}
    of_events |= {"history": tags["topics"] | rows.events}
    ids = np.stack([of_rows[name] for name in ranker.layout.all_ids], 1)
    starts = np.cumsum(rows.lengths) - rows.lengths
    order = np.arange(len(rows.items)) if order is None else order
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        lengths = rows.lengths[chosen]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        event = np.repeat(starts[chosen], lengths) + within
        yield {
            "ids": tf.constant(ids[chosen]),
            "lists": tf.constant(np.concatenate([of_events[name][event] for name in ranker.layout.all_lists])),
            "lengths": tf.constant(np.stack([lengths] * len(of_events))),
            "labels": tf.constant(rows.labels[chosen][:, None]),
        }


def auc_of(trainer: InStepTrainer, ranker: Ranker, rows: Rows) -> float:
    """Returns the AUC of a ranker's scores of a split."""
    return auc(rows, np.concatenate([trainer.logits(batch).numpy()[:, 0] for batch in batches(ranker, rows, 4_000)]))


def auc(rows: Rows, scores: NDArray[Any]) -> float:
    """Returns the AUC of scores."""
    return float(roc_auc_score(rows.labels, scores))

"""Encoders of histories: `python -m bench.histories [quality] [serving] [training]`.

`quality`: test AUC on a made-up world, mean and range over seeds, at the epoch of the best validation AUC; all encoders
have the same settings. A click depends on how the topics of the three newest events lead to the candidate's, the newest
most, and on how often its topic was seen before. `serving`: 200 candidates of one user with 1,024 events, by the
exported signature, beside the same ranker without the history, in turn. `training`: examples per second of processor
time, by the length of the lists.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bench import results
from bench.serving import request_for
from bench.user_once import call_of, in_turn, served, wide
from sangam.schemas.derived.groups import KEY_ID_BITS
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker

_TARGET = {"target": "item", "num_heads": 2}
ENCODERS: Mapping[str, dict[str, Any]] = {
    "mean": {"kind": "mean"},
    "din": {"kind": "din", "target": "item"},
    "transformer": {"kind": "transformer"},
    "target_transformer": {"kind": "target_transformer", **_TARGET},
    "hstu": {"kind": "hstu", **_TARGET},
    "hstu, 2 layers": {"kind": "hstu", "num_layers": 2, **_TARGET},
}
_ITEMS, _TOPICS, _NEWEST = 600, 12, (1.0, 0.5, 0.25)
_ROWS = {"train": 32_000, "validation": 8_000, "test": 16_000}
_EPOCHS, _BATCH = 3, 512
_LENGTHS, _EVENTS, _STEPS = (64, 256, 1_024, 4_096), 1 << 16, 3
_QUADRATIC = ("transformer", 1_024)
"""The encoder whose memory has the square of the lengths of all lists, and the longest that is tried."""
_CANDIDATES, _HISTORY = 200, 1_024


class Rows(NamedTuple):
    """Rows of the world: candidates, histories newest first, labels."""

    items: NDArray[np.int64]
    history: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.float32]


def world(seed: int) -> dict[str, Rows]:
    """Returns rows by split."""
    generator = np.random.default_rng(seed)
    topics = generator.integers(0, _TOPICS, _ITEMS)
    leads, liking = generator.normal(size=[_TOPICS, _TOPICS]), generator.normal(scale=0.5, size=_ITEMS)
    by_topic = [np.flatnonzero(topics == topic) for topic in range(_TOPICS)]

    def of_split(rows: int) -> Rows:
        interests = generator.dirichlet([0.4] * _TOPICS, rows).cumsum(1)
        lengths = generator.integers(len(_NEWEST), 41, rows)
        of_event = np.repeat(np.arange(rows), lengths)
        drawn = (generator.random(len(of_event))[:, None] > interests[of_event]).sum(1).clip(0, _TOPICS - 1)
        history = np.array([by_topic[topic][draw % len(by_topic[topic])] for topic, draw in _draws(drawn, generator)])
        items = generator.integers(0, _ITEMS, rows)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        logits = liking[items] - 0.5
        for position, weight in enumerate(_NEWEST):
            logits += 1.5 * weight * leads[topics[history[starts + position]], topics[items]]
        seen = np.bincount(of_event, topics[history] == topics[items][of_event]) / lengths
        labels = generator.random(rows) < 1 / (1 + np.exp(-(logits + 2 * seen)))
        return Rows(items, history, lengths, labels.astype(np.float32))

    return {split: of_split(rows) for split, rows in _ROWS.items()}


def _draws(topics: NDArray[Any], generator: np.random.Generator) -> Iterator[tuple[int, int]]:
    return zip(topics.tolist(), generator.integers(0, 1 << 30, len(topics)).tolist(), strict=True)


def declared(encoder: Mapping[str, Any], max_length: int) -> RankerSpec:
    """Returns a ranker of a candidate and a history."""
    training = {f"{part}_optimizer": {"kind": "adam", "learning_rate": 0.005} for part in ("dense", "embedding")}
    history = {"kind": "sequence", "type": "int", "table": "items", "max_length": max_length, "encoder": encoder}
    document = {
        "name": "histories",
        "tables": {"items": {"dim": 16}},
        "features": {"item": {"kind": "id", "type": "int", "table": "items"}, "history": history},
        "tasks": {"click": {"kind": "binary"}},
        "model": {"kind": "single_task", "tower_units": [64, 32]},
        "training": {"batch_size_per_rank": _BATCH, **training},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def batches(rows: Rows, size: int, order: NDArray[Any] | None = None) -> Iterator[Batch]:
    """Yields the rows as batches."""
    tag, ends = np.int64(1) << KEY_ID_BITS, np.cumsum(rows.lengths)
    order = np.arange(len(rows.items)) if order is None else order
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        lists = [
            rows.history[end - length : end] for end, length in zip(ends[chosen], rows.lengths[chosen], strict=True)
        ]
        yield {
            "ids": tf.constant(tag | rows.items[chosen][:, None]),
            "lists": tf.constant(tag | np.concatenate(lists)),
            "lengths": tf.constant(rows.lengths[chosen][None]),
            "labels": tf.constant(rows.labels[chosen][:, None]),
        }


def auc_of(trainer: InStepTrainer, rows: Rows) -> float:
    """Returns the AUC of a split."""
    scores = np.concatenate([trainer.logits(batch).numpy()[:, 0] for batch in batches(rows, 4_000)])
    return float(roc_auc_score(rows.labels, scores))


def quality(seeds: Sequence[int]) -> dict[str, list[float]]:
    """Returns the test AUCs of each encoder."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        rows = world(seed)
        for name, encoder in ENCODERS.items():
            trainer = InStepTrainer(Ranker(declared(encoder, 40)), rank=0, ranks=1)
            of_epochs = []
            for epoch in range(_EPOCHS):
                order = np.random.default_rng(epoch).permutation(len(rows["train"].items))
                for _ in trainer.steps(batches(rows["train"], _BATCH, order)):
                    pass
                of_epochs.append((auc_of(trainer, rows["validation"]), auc_of(trainer, rows["test"])))
            found.setdefault(name, []).append(max(of_epochs)[1])
            print(f"seed {seed}, {name}: validation and test of each epoch {of_epochs}", flush=True)
    return found


def serving(seconds: float) -> list[dict[str, Any]]:
    """Returns the times of each encoder beside those without the history."""
    found = []
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        without = call_of(served(Ranker(_with_history(None)), Path(folder, "without")))
        for name, encoder in ENCODERS.items():
            call = call_of(served(Ranker(_with_history(encoder)), Path(folder, "with")))
            context = {column.removesuffix("_length") for column in call.inputs if column[0] in "uh"}
            requests = [request_for(call.inputs, context=context, candidates=_CANDIDATES, seed=s) for s in range(8)]
            for number, request in enumerate(requests):
                drawn = np.random.default_rng(number).integers(0, 1_000, [1, _HISTORY])
                request |= {"history": drawn, "history_length": np.array([_HISTORY])}
            calls = {"without": lambda request: without({k: request[k] for k in without.inputs}), name: call}
            taken = in_turn(calls, requests, seconds)
            found.append({"encoder": name, "without_ms": taken["without"]["p50_ms"], "with_ms": taken[name]["p50_ms"]})
            found[-1] |= {"ratio": 1 / taken[name]["without over it"], "cpu": 1 / taken[name]["without over it, cpu"]}
            print(found[-1], flush=True)
    return found


def _with_history(encoder: Mapping[str, Any] | None) -> RankerSpec:
    """Returns the wide ranker of `bench.user_once`, with another encoder of its history or without the history."""
    document = wide().model_dump(mode="json", exclude_unset=True)
    if encoder is None:
        del document["features"]["history"]
    else:
        target = {"target": "p0"} if "target" in encoder else {}
        document["features"]["history"] |= {"max_length": _HISTORY, "encoder": {**encoder, **target}}
    return RankerSpec.model_validate_json(json.dumps(document))


def training() -> dict[str, dict[int, float | None]]:
    """Returns examples per second of processor time, by encoder and length; None: not tried."""
    found: dict[str, dict[int, float | None]] = {}
    for name, encoder in ENCODERS.items():
        trainer = InStepTrainer(Ranker(declared(encoder, max(_LENGTHS))), rank=0, ranks=1)
        found[name] = {}
        for length in _LENGTHS:
            if name == _QUADRATIC[0] and length > _QUADRATIC[1]:
                found[name][length] = None
                continue
            size = _EVENTS // length
            generator, taken = np.random.default_rng(length), []
            for _ in range(_STEPS + 1):
                items, events = (generator.integers(0, _ITEMS, number) for number in (size, _EVENTS))
                labels = generator.integers(0, 2, size).astype(np.float32)
                [batch] = batches(Rows(items, events, np.full(size, length), labels), size)
                before = time.process_time()
                [result] = trainer.steps([batch])
                result.losses_T.numpy()
                taken.append(time.process_time() - before)
            found[name][length] = size / statistics.median(taken[1:])
        print(name, found[name], flush=True)
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["quality", "serving", "training"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=4, help="of each case of serving")
    parser.add_argument("--output", type=Path, default=Path("runs/histories.json"), help="all numbers")
    arguments = parser.parse_args()
    document: dict[str, Any] = {"commit": results.commit()}
    # As a process of a server has; and processor time does not depend on what else runs.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    collectives.start()
    if "serving" in arguments.parts:
        document["serving"] = serving(arguments.seconds)
        header = ("encoder", "without ms", "with ms", "ratio of times", "of processor time")
        told = [[each["encoder"], *(f"{each[key]:.2f}" for key in list(each)[1:])] for each in document["serving"]]
        print(results.table(header, told))
    if "quality" in arguments.parts:
        document["quality"] = aucs = quality(arguments.seeds)
        rows = [
            [name, f"{np.mean(each):.4f}", f"{min(each):.4f} to {max(each):.4f}", _over(each, aucs["din"])]
            for name, each in aucs.items()
        ]
        print(results.table(("encoder", "AUC", "from seed to seed", "over DIN, same seed"), rows))
    if "training" in arguments.parts:
        document["training"] = training()
        rows = [
            [name, *("" if each[length] is None else f"{each[length]:,.0f}" for length in _LENGTHS)]
            for name, each in document["training"].items()
        ]
        print(results.table(("encoder", *(f"{length:,} events" for length in _LENGTHS)), rows))
    results.write(arguments.output, document)


def _over(found: Sequence[float], others: Sequence[float]) -> str:
    differences = [one - other for one, other in zip(found, others, strict=True)]
    return f"{min(differences):+.4f} to {max(differences):+.4f}"


if __name__ == "__main__":
    main()

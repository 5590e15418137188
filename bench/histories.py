"""Encoders of histories: `python -m bench.histories [quality] [demo] [serving] [several] [training]`.

`quality`: test AUC on a made-up world (`bench.history_world`), mean and range over seeds; each encoder with the rate
and dimension of the best validation AUC on another seed, the same trials for all, at the epoch of the best one.
`demo`: mean AUC of the demo's tasks on its evaluated day, its history read by other encoders, all else as declared.
`serving`: 200 candidates of one user with 1,024 events, by the exported signature, beside the same ranker without the
history, in turn. `several`: eight such requests in one call, with a feature that reads the history beside the
candidates' ids, and without it. `training`: examples per second of processor time, by the length of the lists.
"""

import argparse
import datetime
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bench import results
from bench.history_world import ROWS, Rows, auc, auc_of, batches, declared, world
from bench.quality.changes import merged
from bench.quality.examples import examples
from bench.quality.training import trained
from bench.serving import request_for
from bench.user_once import call_of, in_turn, served, wide
from sangam.components.server.session import ModelSession
from sangam.components.server.signature import signatures_of
from sangam.pipelines.synthetic import generate
from sangam.schemas.contracts.export import RANK, RANK_SEVERAL
from sangam.schemas.derived.rank_inputs import REQUEST_NUMBER
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import RankerSpec, Spec
from sangam.schemas.spec.features import SequenceFeature
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.serving.signatures import ServedRanker

_TARGET = {"target": "topic", "num_heads": 2}
ENCODERS: Mapping[str, dict[str, Any]] = {
    "mean": {"kind": "mean"},
    "din": {"kind": "din", "target": "topic"},
    "transformer": {"kind": "transformer"},
    "target_transformer": {"kind": "target_transformer", **_TARGET},
    "hstu": {"kind": "hstu", **_TARGET},
    "hstu, 2 layers": {"kind": "hstu", "num_layers": 2, **_TARGET},
}
WITHOUT_POSITIONS = "din, without positions"
_TUNED = ("din", "mean", WITHOUT_POSITIONS, "transformer", "target_transformer", "hstu")
_TRIALS = ((0.005, 16), (0.01, 16), (0.005, 32))
"""Rates and dimensions that are tried for each encoder."""
_TUNED_ON = 0
"""Seed of the world on whose validation rows they are."""
_EPOCHS = 5
_LENGTHS, _EVENTS, _STEPS = (16, 64, 256, 1_024, 4_096), 1 << 14, 3
_QUADRATIC = ("transformer", 1_024)
"""The encoder whose memory has the square of the lengths of all lists, and the longest that is tried."""
_CANDIDATES, _HISTORY, _REQUESTS = 200, 1_024, 8
_DEMO = Path("sangam/pipelines/specs/short_video.yaml")


def quality(seeds: Sequence[int], names: Sequence[str] = _TUNED, rows_of: Mapping[str, int] = ROWS) -> dict[str, Any]:
    """Returns the settings of each encoder, and its test AUCs by seed.

    Args:
        seeds: of the worlds.
        names: encoders; the ones of `ENCODERS`, or `WITHOUT_POSITIONS`.
        rows_of: rows by split.
    """
    encoders = {name: ENCODERS["din" if name == WITHOUT_POSITIONS else name] for name in names}
    rows, settings = world(_TUNED_ON, rows_of), {}
    for name, encoder in encoders.items():
        tried = {trial: _aucs(name, encoder, rows, *trial)[0] for trial in _TRIALS}
        settings[name] = max(tried, key=lambda trial: tried[trial])
        print(f"{name}: validation by rate and dimension {tried}", flush=True)
    found: dict[str, list[float]] = {"oracle": []}
    for seed in seeds:
        rows = world(seed, rows_of)
        found["oracle"].append(auc(rows["test"], rows["test"].logits))
        for name, encoder in encoders.items():
            found.setdefault(name, []).append(_aucs(name, encoder, rows, *settings[name])[1])
            print(f"seed {seed}, {name}: {found[name][-1]:.4f}", flush=True)
    return {"settings": settings, "aucs": found}


def _aucs(
    name: str, encoder: Mapping[str, Any], rows: Mapping[str, Rows], rate: float, dim: int
) -> tuple[float, float]:
    """Returns the validation and test AUC at the epoch of the best validation AUC."""
    spec = declared(encoder, 40, rate=rate, dim=dim, positions=name != WITHOUT_POSITIONS)
    ranker, size = Ranker(spec), spec.training.batch_size_per_rank
    trainer, of_epochs = InStepTrainer(ranker, rank=0, ranks=1), []
    for epoch in range(_EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(rows["train"].items))
        for _ in trainer.steps(batches(ranker, rows["train"], size, order)):
            pass
        of_epochs.append((auc_of(trainer, ranker, rows["validation"]), auc_of(trainer, ranker, rows["test"])))
    return max(of_epochs)


def demo(seeds: Sequence[int]) -> dict[str, list[float]]:
    """Returns the mean AUC of the demo's tasks by encoder and seed; the first encoder is the demo's own."""
    spec = load_spec(_DEMO)
    own = spec.features["history"]
    assert isinstance(own, SequenceFeature)
    of_posts = {"target": "post"}
    encoders = {own.encoder.kind: {}, **{name: ENCODERS[name] | of_posts for name in ("target_transformer", "hstu")}}
    found: dict[str, list[float]] = {name: [] for name in encoders}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        first, days = datetime.date(2024, 3, 1), 7
        sizes = {"rows_per_day": 20_000, "num_users": 2_000, "num_posts": 5_000}  # As `sangam demo` has.
        generate(Path(folder, "logs"), first_day=first, num_days=days, seed=1, **sizes)
        last = first + datetime.timedelta(days=days - 1)
        splits = examples(spec, str(last), Path(folder, "logs"), Path(folder, "examples"))
        plain = spec.model_dump(mode="json", exclude_unset=True)
        for (name, encoder), seed in itertools.product(encoders.items(), seeds):
            change = {"features": {"history": {"encoder": encoder}}} if encoder else {}
            changed = Spec.model_validate_json(json.dumps(merged(plain, change)))
            of_tasks = trained(changed.ranker(), splits["train"], splits["eval"], seed=seed).aucs
            found[name].append(float(np.mean(list(of_tasks.values()))))
            print(f"seed {seed}, {name}: {found[name][-1]:.4f} {of_tasks}", flush=True)
    return found


def serving(
    seconds: float, names: Sequence[str] = tuple(ENCODERS), *, by_session: bool = False
) -> list[dict[str, Any]]:
    """Returns the times of each encoder beside those without the history.

    Args:
        seconds: of each encoder.
        names: encoders.
        by_session: whether the exported models are called as `sangam serve` calls them, in the caller's thread.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:

        def called(encoder: Mapping[str, Any] | None, name: str) -> Any:
            model = served(Ranker(_with_history(encoder)), Path(folder, "with" if encoder else "without"))
            return _session_call(model, Path(folder, f"model of {name}")) if by_session else call_of(model)

        without = called(None, "none")
        for name, encoder in ((name, ENCODERS[name]) for name in names):
            call = called(encoder, name)
            context = {column.removesuffix("_length") for column in call.inputs if column[0] in "uh"}
            requests = [request_for(call.inputs, context=context, candidates=_CANDIDATES, seed=s) for s in range(8)]
            for number, request in enumerate(requests):
                drawn = np.random.default_rng(number).integers(0, 1_000, [1, _HISTORY])
                request |= {"history": drawn, "history_length": np.array([_HISTORY])}
            calls = {"without": lambda request: without({k: request[k] for k in without.inputs}), name: call}
            taken = in_turn(calls, requests, seconds)
            found.append({"encoder": name, "without_ms": taken["without"]["p50_ms"], "with_ms": taken[name]["p50_ms"]})
            found[-1] |= {"ratio": 1 / taken[name]["without over it"], "cpu": 1 / taken[name]["without over it, cpu"]}
            found[-1] |= {"p99": taken[name]["p99_ms"] / taken["without"]["p99_ms"]}
            print(found[-1], flush=True)
    return found


def _session_call(model: ServedRanker, folder: Path) -> Any:
    """Returns `call_of` a model that is exported, and loaded by a server's session."""
    signatures = model.signatures()
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(model, str(folder), signatures=signatures, options=options)
    rank = signatures_of(ModelSession(folder, {}))[RANK]

    def call(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return rank.call(arrays)

    call.inputs = signatures[RANK].input_signature[0]  # type: ignore[attr-defined]
    return call


def several(seconds: float, names: Sequence[str] = tuple(ENCODERS)) -> list[dict[str, Any]]:
    """Returns the times of each encoder for several requests in one call, with and without a match."""
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
            models = {
                what: served(Ranker(_with_history(ENCODERS[name], match=what == "matched")), Path(folder, what))
                for what in ("matched", "plain")
            }
            calls = {what: call_of(model, RANK_SEVERAL) for what, model in models.items()}
            inputs = {key: each for key, each in calls["plain"].inputs.items() if key != REQUEST_NUMBER}
            context = {column.removesuffix("_length") for column in inputs if column[0] in "uh"}
            request = request_for(inputs, context=context, candidates=_CANDIDATES, seed=0)
            joined = {
                key: np.concatenate([rows] * _REQUESTS)
                for key, rows in request.items()
                if not key.startswith("history")
            }
            drawn = np.random.default_rng(0).integers(0, 1_000, [_REQUESTS, _HISTORY])
            joined |= {"history": drawn, "history_length": np.full(_REQUESTS, _HISTORY)}
            joined[REQUEST_NUMBER] = np.repeat(np.arange(_REQUESTS, dtype=np.int32), _CANDIDATES)
            taken = in_turn(calls, [joined], seconds)
        found.append({"encoder": name, **{f"{what}_ms": taken[what]["p50_ms"] for what in ("plain", "matched")}})
        print(found[-1], flush=True)
    return found


def _with_history(encoder: Mapping[str, Any] | None, *, match: bool = False) -> RankerSpec:
    """Returns the wide ranker of `bench.user_once`, with another encoder of its history or without the history."""
    document = wide().model_dump(mode="json", exclude_unset=True)
    if match:
        document["features"]["seen"] = {"kind": "match", "column": "p0", "among": "history", "type": "int"}
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
        ranker = Ranker(declared(encoder, max(_LENGTHS)))
        trainer = InStepTrainer(ranker, rank=0, ranks=1)
        found[name] = {}
        for length in _LENGTHS:
            if name == _QUADRATIC[0] and length > _QUADRATIC[1]:
                found[name][length] = None
                continue
            size = _EVENTS // length
            generator, taken = np.random.default_rng(length), []
            for _ in range(_STEPS + 1):
                [batch] = batches(ranker, Rows.drawn(generator, np.full(size, length)), size)
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
    parser.add_argument("parts", nargs="*", default=["quality", "demo", "serving", "several", "training"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--encoders", nargs="+", help="of quality, beside din, and of serving; by default all")
    parser.add_argument("--seconds", type=float, default=4, help="of each case of serving")
    parser.add_argument("--session", action="store_true", help="serving as `sangam serve` calls models")
    parser.add_argument("--output", type=Path, default=Path("runs/histories.json"), help="all numbers")
    arguments = parser.parse_args()
    document: dict[str, Any] = {"commit": results.commit()}
    # As a process of a server has; and processor time does not depend on what else runs.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    collectives.start()
    if "serving" in arguments.parts:
        names = tuple(arguments.encoders or ENCODERS)
        document["serving"] = serving(arguments.seconds, names, by_session=arguments.session)
        header = ("encoder", "without ms", "with ms", "ratio of times", "of processor time", "of p99")
        told = [[each["encoder"], *(f"{each[key]:.2f}" for key in list(each)[1:])] for each in document["serving"]]
        print(results.table(header, told))
    if "several" in arguments.parts:
        document["several"] = several(arguments.seconds, arguments.encoders or tuple(ENCODERS))
        told = [[each["encoder"], *(f"{ms:.1f}" for ms in list(each.values())[1:])] for each in document["several"]]
        print(results.table(("encoder", "without match ms", "with ms"), told))
    if "quality" in arguments.parts:
        tuned = tuple(dict.fromkeys(["din", *arguments.encoders])) if arguments.encoders else _TUNED
        document["quality"] = quality(arguments.seeds, tuned)
        aucs = document["quality"]["aucs"]
        rows = [
            [name, f"{np.mean(each):.4f}", f"{min(each):.4f} to {max(each):.4f}", _over(each, aucs["din"])]
            for name, each in aucs.items()
        ]
        print(results.table(("encoder", "AUC", "from seed to seed", "over DIN, same seed"), rows))
    if "demo" in arguments.parts:
        document["demo"] = of_demo = demo(arguments.seeds)
        [own, *_] = of_demo.values()
        rows = [
            [name, f"{np.mean(each):.4f}", f"{min(each):.4f} to {max(each):.4f}", _over(each, own)]
            for name, each in of_demo.items()
        ]
        print(results.table(("encoder", "mean AUC", "from seed to seed", "over its own"), rows))
    if "training" in arguments.parts:
        document["training"] = rates = training()
        rows = [
            [name, *(_rate(each[length], rates["mean"][length]) for length in _LENGTHS)] for name, each in rates.items()
        ]
        print(results.table(("encoder", *(f"{length:,} events" for length in _LENGTHS)), rows))
    results.write(arguments.output, document)


def _over(found: Sequence[float], others: Sequence[float]) -> str:
    differences = [one - other for one, other in zip(found, others, strict=True)]
    return f"{min(differences):+.4f} to {max(differences):+.4f}"


def _rate(rate: float | None, of_mean: float | None) -> str:
    return f"{rate:,.0f} ({rate / of_mean:.2f})" if rate and of_mean else ""


if __name__ == "__main__":
    main()

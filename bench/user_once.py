"""What it gains to compute the user's part of the first products once a request: `python -m bench.user_once`.

Two forms of `rank` of one ranker, with the same weights and rows, are called in turn in one process, arrays in and
arrays out: as it is exported, and with every column repeated for each candidate before the dense layers. For the demo's
spec and for a wide one: 20 features of the user beside a history, experts of 256 and 128 units.

With `--joined N` the requests of N users in one call: each user's columns once, and repeated for each candidate. With
`--models` exported models, as a server calls them, on one thread.
"""

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from bench import results
from bench.serving import request_for
from bench.workload_files import write_transform
from sangam.components.server.session import ModelSession
from sangam.components.server.signature import signatures_of
from sangam.schemas.contracts.export import RANK, RANK_SEVERAL
from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.rank_inputs import REQUEST_NUMBER
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense.split import whole
from sangam.trainer_module.ranker import Ranker
from sangam.trainer_module.serving.signatures import ServedRanker
from sangam.trainer_module.serving.stock_table import StockTable
from sangam.trainer_module.serving.trained_rows import TrainedRows
from sangam.trainer_module.transforms.graph import TransformGraph
from sangam.trainer_module.transforms.keys import id_keys

_DEMO = Path("sangam/pipelines/specs/short_video.yaml")
_DEMO_CONTEXT = {"user_id", "language", "tab", "recent_posts", "network_mbps", "hour"}
_IDS, _KINDS = 1000, {"int": pa.int64(), "float": pa.float32(), "string": pa.large_binary()}
_CANDIDATES, _WARM, _REQUESTS = (200, 2_000), 10, 8
Call = Callable[[Mapping[str, Any]], dict[str, Any]]


class Whole(Ranker):
    """A ranker whose layers see every column of every candidate."""

    def logits_of_inputs(self, weights: Any, x_BI: Any) -> tf.Tensor:
        """See `Ranker`."""
        return super().logits_of_inputs(weights, whole(x_BI))


def wide(**model: Any) -> RankerSpec:
    """Returns a ranker with 15 ids, 5 numbers and a history of the user, and 5 ids and 3 numbers of a candidate."""
    of_user = {f"u{n:02}": {"kind": "id", "type": "int", "table": f"u{n:02}"} for n in range(15)}
    of_user |= {f"ux{n}": {"kind": "numeric"} for n in range(5)}
    of_post = {f"p{n}": {"kind": "id", "type": "int", "table": f"p{n}"} for n in range(5)}
    of_post |= {f"px{n}": {"kind": "numeric"} for n in range(3)}
    encoder = {"kind": "din", "target": "p0"} if model.pop("din", False) else {"kind": "positional"}
    history = {"kind": "sequence", "type": "int", "table": "p0", "max_length": 50, "encoder": encoder}
    tables = [feature["table"] for feature in (of_user | of_post).values() if "table" in feature]
    training = {f"{part}_optimizer": {"kind": "adam", "learning_rate": 0.001} for part in ("dense", "embedding")}
    document = {
        "name": "wide",
        "tables": {str(table): {"dim": 16} for table in tables},
        "features": of_user | of_post | {"history": history},
        "tasks": {"like": {"kind": "binary"}, "share": {"kind": "binary"}},
        "model": {"kind": "mmoe", "expert_units": [256, 128], "tower_units": [64], **model},
        "training": {"batch_size_per_rank": 4096, **training},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


SPECS: Mapping[str, tuple[Callable[[], RankerSpec], Callable[[str], bool]]] = {
    "demo": (lambda: load_spec(_DEMO).ranker(), lambda column: column in _DEMO_CONTEXT),
    "wide": (wide, lambda column: column[0] in "uh"),
    "wide, low-rank crosses": (
        functools.partial(wide, interaction={"kind": "dcn_v2", "rank": 32, "deep_units": [256]}),
        lambda column: column[0] in "uh",
    ),
    "wide, full crosses": (functools.partial(wide, interaction={"kind": "dcn_v2"}), lambda column: column[0] in "uh"),
}


def served(ranker: Ranker, folder: Path) -> ServedRanker:
    """Returns a ranker with made-up weights and a row for each of a thousand ids of each feature."""
    declared, read = ranker.spec, columns(ranker.spec)
    if not folder.exists():
        numbers = [
            pa.array([[n] for n in range(200)], pa.list_(_KINDS[each.type]))
            if each.type != "string"
            else pa.array([[b"x"]] * 200, pa.list_(_KINDS[each.type]))
            for each in read
        ]
        write_transform(declared.inputs(), str(folder), pa.RecordBatch.from_arrays(numbers, [c.name for c in read]))
    tables, tags, generator = {}, declared.table_tags(), np.random.default_rng(1)
    types = {column.name: column.type for column in read}
    for name, group in ranker.groups.items():
        keys = [np.zeros(0, np.int64)]
        for feature in ranker.layout.features(name):
            column = declared.column_of(feature)
            texts = [f"{column}_{n}" if types[column] == "string" else str(n) for n in range(_IDS)]
            keys.append(id_keys(tags[str(declared.table_of(feature))], tf.constant(texts)).numpy())
        unique = np.unique(np.concatenate(keys))
        rows = generator.normal(size=[len(unique), group.dim]).astype(np.float32)
        tables[name] = StockTable(group, "float32", TrainedRows(unique, lambda rows=rows: iter([rows])))
    flat = ranker.weights.initial(seed=1) + generator.normal(scale=0.01, size=ranker.weights.size).astype(np.float32)
    return ServedRanker(ranker, TransformGraph(str(folder)), flat, tables)


def in_turn(calls: Mapping[str, Call], requests: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Returns medians of each form's milliseconds, wall and of the processors, p99, and the first one's over each's."""
    for call in calls.values():
        for number in range(_WARM):
            call(requests[number % len(requests)])
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for name in sorted(calls, reverse=bool(number % 2)):
            before, begun = time.process_time(), time.perf_counter()
            calls[name](requests[number % len(requests)])
            wall[name].append((time.perf_counter() - begun) * 1e3)
            cpu[name].append((time.process_time() - before) * 1e3)
        number += 1
    [first, *_] = calls
    return {
        "pairs": number,
        **{
            name: {
                "p50_ms": statistics.median(wall[name]),
                "p99_ms": float(np.percentile(wall[name], 99)),
                "cpu_ms": statistics.median(cpu[name]),
                f"{first} over it": statistics.median(a / b for a, b in zip(wall[first], wall[name], strict=True)),
                f"{first} over it, cpu": statistics.median(cpu[first]) / statistics.median(cpu[name]),
            }
            for name in calls
        },
    }


def call_of(model: ServedRanker, signature: str = RANK) -> Any:
    """Returns a signature as a function of arrays, with its `inputs`."""
    rank = model.signatures()[signature]
    concrete = rank.get_concrete_function()  # type: ignore[attr-defined]

    def call(arrays: Mapping[str, Any]) -> dict[str, Any]:
        tensors = {name: tf.constant(values) for name, values in arrays.items()}
        return {name: scores.numpy() for name, scores in concrete(tensors).items()}

    call.inputs = rank.input_signature[0]  # type: ignore[attr-defined]
    return call


def _joined(requests: list[dict[str, Any]], context: set[str]) -> dict[str, Any]:
    """Returns requests as one for `RANK_SEVERAL`."""
    rows = [max(map(len, request.values())) for request in requests]
    joined = {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}
    number = np.repeat(np.arange(len(requests), dtype=np.int32), rows)
    assert all(
        len(joined[name]) == (len(requests) if name.removesuffix("_length") in context else len(number))
        for name in joined
    )
    return joined | {REQUEST_NUMBER: number}


def _repeated(joined: Mapping[str, Any], context: set[str]) -> dict[str, Any]:
    """Returns the same for `RANK`, with every column repeated for each candidate."""
    number = joined[REQUEST_NUMBER]
    return {
        name: values[number] if name.removesuffix("_length") in context else values
        for name, values in joined.items()
        if name != REQUEST_NUMBER
    }


def _of_specs(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in arguments.specs:
        declare, is_context = SPECS[name]
        declared = declare()
        with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
            model = served(Ranker(declared), Path(folder, "graph"))
            once = call_of(model)
            inputs = once.inputs  # type: ignore[attr-defined]
            context = {
                column.removesuffix("_length") for column in inputs if is_context(column.removesuffix("_length"))
            }
            if arguments.joined:
                several = call_of(model, RANK_SEVERAL)
                calls: dict[str, Call] = {
                    "repeated": lambda request, once=once: once(request["repeated"]),
                    "joined": lambda request, several=several: several(request["joined"]),
                }
            else:
                calls = {"whole": call_of(served(Whole(declared), Path(folder, "graph"))), "once": once}
            for candidates in arguments.candidates:
                asked_of = context if not arguments.repeated else set()
                requests = [
                    request_for(inputs, context=asked_of, candidates=candidates, seed=seed)
                    for seed in range(_REQUESTS * max(arguments.joined, 1))
                ]
                if arguments.joined:
                    starts = range(0, len(requests), arguments.joined)
                    joined = [_joined(requests[start : start + arguments.joined], context) for start in starts]
                    requests = [{"joined": each, "repeated": _repeated(each, context)} for each in joined]
                one, other = (call(requests[0]) for call in calls.values())
                difference = max(float(np.abs(one[task] - other[task]).max()) for task in one)
                row = {"spec": name, "candidates": candidates, "joined": arguments.joined, "difference": difference}
                yield row | in_turn(calls, requests, arguments.seconds)


def _of_models(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    ranks = {str(model): signatures_of(ModelSession(model, {}))[RANK] for model in arguments.models}
    first = next(iter(ranks.values()))
    specs = {name: tf.TensorSpec(each.lengths, each.dtype) for name, each in first.inputs.items()}
    for candidates in arguments.candidates:
        requests = [
            request_for(specs, context=_DEMO_CONTEXT, candidates=candidates, seed=seed) for seed in range(_REQUESTS)
        ]
        calls: dict[str, Call] = {name: rank.call for name, rank in ranks.items()}
        yield {"candidates": candidates} | in_turn(calls, requests, arguments.seconds)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="of each case")
    parser.add_argument("--specs", nargs="+", default=list(SPECS), choices=list(SPECS))
    parser.add_argument("--candidates", nargs="+", type=int, default=list(_CANDIDATES))
    parser.add_argument("--repeated", action="store_true", help="the user's columns too have a row for each candidate")
    parser.add_argument("--joined", type=int, default=0, help="requests in a call")
    parser.add_argument("--models", nargs="+", type=Path, help="exported models of the demo, in place of specs")
    parser.add_argument("--output", type=Path, default=Path("runs/user_once.json"), help="all numbers")
    arguments = parser.parse_args()
    found: list[dict[str, Any]] = []
    for case in _of_models(arguments) if arguments.models else _of_specs(arguments):
        found.append(case)
        print(json.dumps(case), flush=True)
    results.write(arguments.output, {"commit": results.commit(), "cases": found})


if __name__ == "__main__":
    main()

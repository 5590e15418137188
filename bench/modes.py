"""Trains one job in every mode, undisturbed, with slow calls, with a slow rank, with a slow exchange.

    python -m bench.modes FOLDER --repeats 3

Two ranks of one thread, one parameter server, one data worker; the model of `workload`, random rows. Every job trains
one epoch to warm up, then those that are measured: `examples` over `seconds` of the epoch in training.json. Epochs with
a slow rank or a slow exchange take turns with undisturbed ones in one job. FOLDER gets `modes.json`.
"""

import argparse
import functools
import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import results, slow_rank, workload
from bench.jobs import job_in
from bench.workload_files import ROWS_AT_ONCE, Written, write_rows
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.launch import launcher
from sangam.trainer_module.launch.rank_group import RankGroup
from sangam.trainer_module.parameter_server import delay

_SYNC: dict[str, dict[str, Any]] = {
    "sync": {"kind": "sync", "transport": "horovod"},
    "stale 0": {"kind": "stale", "staleness": 0},
    "stale 1": {"kind": "stale", "staleness": 1},
    "stale 4": {"kind": "stale", "staleness": 4},
    "shadow": {"kind": "shadow", "staleness": 4},
    "async": {"kind": "async", "staleness": 4},
}
_SERVED = ("stale 0", "stale 1", "stale 4", "shadow", "async")
_PLAIN, _CALLS, _RANK, _EXCHANGE = "undisturbed", "slow calls", "slow rank", "slow exchange"
_BESIDE = "beside slow exchange"
"""Undisturbed epochs of the job whose others have a slow exchange."""
_SLOWED = ("sync", "stale 4", "shadow", "async")
"""Modes whose job has epochs with a slow rank too."""
_JOBS = (
    *((mode, _PLAIN) for mode in _SYNC),
    *((mode, _CALLS) for mode in ("stale 0", "stale 1", "stale 4")),
    ("shadow", _EXCHANGE),
)
_RATIOS = (
    (("stale 4", _CALLS), ("stale 0", _CALLS), 1.5),
    (("shadow", _RANK), ("sync", _RANK), 1.5),
    (("async", _RANK), ("sync", _RANK), None),
    *(((mode, _PLAIN), ("sync", _PLAIN), None) for mode in _SERVED),
)
_RANKS, _BATCH_SIZE = 2, 512
_CALL_MS, _SLEEP_MS = 20.0, 150.0
"""Lateness of slow calls; mean sleep after a step of the slow rank."""


class _Run(NamedTuple):
    """An epoch in training.json.

    Attributes:
        examples_per_s: speed of all ranks.
        step_s: the median step of a rank, the mean of the ranks; without the sleep of a slow one.
        report: report of the exchange, over all epochs.
    """

    examples_per_s: float
    step_s: float
    report: dict[str, Any]


def _ranker(mode: str, epochs: int) -> RankerSpec:
    declared = workload.ranker(
        batch_size_per_rank=_BATCH_SIZE, epochs=epochs, sync=_SYNC[mode], checkpoint={"every_steps": 1_000_000}
    )
    servers = None if mode == "sync" else 1
    cluster = declared.cluster.model_copy(update={"ranks": _RANKS, "data_workers": 1, "parameter_servers": servers})
    return declared.model_copy(update={"cluster": cluster})


def _trained(folder: Path, written: Written, ranker: RankerSpec, disturbance: Mapping[str, str]) -> list[_Run]:
    """Returns the epochs after the first."""
    file, job = job_in(
        folder,
        ranker,
        train_files=written.files["ahead"],
        transform_graph=written.graph,
    )
    os.environ.update(disturbance)
    try:
        if code := launcher.main(str(file), str(os.getppid())):
            raise SystemExit(code)
    finally:
        for variable in disturbance:
            del os.environ[variable]
    document = json.loads(job.report_file.read_text())
    of_ranks = [json.loads(slow_rank.steps_file(job, rank).read_text()) for rank in range(_RANKS)]
    return [
        _Run(epoch["examples"] / epoch["seconds"], statistics.mean(medians), document["sync"])
        for epoch, *medians in list(zip(document["epochs"], *of_ranks, strict=True))[1:]
    ]


def _document(runs: Mapping[tuple[str, str], list[_Run]]) -> list[dict[str, Any]]:
    return [
        {"mode": mode, "disturbance": kind, "runs": [run._asdict() for run in of]} for (mode, kind), of in runs.items()
    ]


def _pool(seed: int) -> workload.Pool:
    """Returns random rows: every id as often, labels that nothing predicts."""
    generator = np.random.default_rng(seed)
    keys = generator.integers(0, 100_000, (ROWS_AT_ONCE, workload.NUM_IDS))
    floats = generator.random((ROWS_AT_ONCE, workload.NUM_FLOATS), np.float32)
    return workload.Pool(keys, floats, generator.integers(0, 2, (ROWS_AT_ONCE, workload.NUM_TASKS)))


def _print(runs: Mapping[tuple[str, str], list[_Run]]) -> None:
    rows = []
    for (mode, kind), repeats in runs.items():
        speeds, last = [run.examples_per_s for run in repeats], repeats[-1].report
        staleness = {int(key): times for key, times in last.get("staleness", {}).items()}
        mean = f"{sum(k * n for k, n in staleness.items()) / sum(staleness.values()):.2f}" if staleness else ""
        step_ms = statistics.median(run.step_s for run in repeats) * 1e3
        numbers = [f"{statistics.median(speeds):,.0f}", f"{min(speeds):,.0f}-{max(speeds):,.0f}", f"{step_ms:.1f}"]
        rows.append([mode, kind, *numbers, mean, str(last.get("gap_steps", {}).get("mean", ""))])
    header = ["mode", "disturbance", "examples/s", "least-most", "a rank's step, ms", "staleness, mean", "gap, steps"]
    print(results.table(header, rows))
    rows = [
        _ratio(
            f"{', '.join(above)} / {', '.join(below)}", [a.examples_per_s / b.examples_per_s for a, b in pairs], bound
        )
        for above, below, bound in _RATIOS
        if (pairs := list(zip(runs.get(above, ()), runs.get(below, ()), strict=False)))
    ]
    pairs = list(zip(runs.get(("shadow", _EXCHANGE), ()), runs.get(("shadow", _BESIDE), ()), strict=True))
    if pairs:
        name = f"a step's time: shadow, {_EXCHANGE} / {_BESIDE}"
        rows.append(_ratio(name, [above.step_s / below.step_s for above, below in pairs], 1.1))
    print("\n" + results.table(["ratio of examples/s", "median", "least-most", "wanted"], rows))


def _ratio(name: str, ratios: list[float], wanted: float | None) -> list[str]:
    return [name, f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}-{max(ratios):.2f}", str(wanted or "")]


def main() -> None:
    """Trains in every mode, repeatedly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="to be made")
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--modes", nargs="+", default=list(_SYNC), choices=list(_SYNC))
    choices = [_PLAIN, _CALLS, _EXCHANGE]
    parser.add_argument(
        "--disturbances", nargs="+", default=choices, choices=choices, help="undisturbed: a slow rank too"
    )
    arguments = parser.parse_args()
    launcher.RankGroup = functools.partial(RankGroup, module=slow_rank.__name__)  # type: ignore[attr-defined]
    folder = arguments.folder
    folder.mkdir(parents=True)
    written = write_rows(_ranker("sync", 1), folder / "rows", arguments.examples, _pool)
    runs: dict[tuple[str, str], list[_Run]] = {}
    for mode, kind in _JOBS:
        if mode not in arguments.modes or kind not in arguments.disturbances:
            continue
        disturbance: dict[str, str] = {}
        kinds: tuple[str, ...] = (kind,)
        if kind == _CALLS:
            disturbance = {delay.VARIABLE: str(_CALL_MS)}
        elif kind == _EXCHANGE:
            disturbance, kinds = {slow_rank.EXCHANGE: "10"}, (_BESIDE, _EXCHANGE)
        elif mode in _SLOWED:
            disturbance, kinds = {slow_rank.SLEEP: f"{_RANKS - 1}:{_SLEEP_MS}"}, (_PLAIN, _RANK)
        name = f"job-{mode}-{kind}".replace(" ", "-")
        ranker = _ranker(mode, 1 + len(kinds) * arguments.repeats)
        every = _trained(folder / name, written, ranker, disturbance)
        for index, of_kind in enumerate(kinds):
            runs[mode, of_kind] = every[index :: len(kinds)]
            speeds = [round(run.examples_per_s) for run in runs[mode, of_kind]]
            print(f"{mode}, {of_kind}: {speeds} examples/s {disturbance}", flush=True)
        results.write(folder / "modes.json", _document(runs))
    _print(runs)


if __name__ == "__main__":
    main()

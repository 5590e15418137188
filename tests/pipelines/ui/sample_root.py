"""A root as runs, a search and a backfill leave it: five days of a ranker, two of them with the outputs of steps."""

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.page.facts import Facts
from sangam.components.page.render import render
from sangam.components.record import store
from sangam.components.record.journal import Journal
from sangam.components.record.run import Pushed, Step
from sangam.components.reports.curves import CURVE_COLUMN
from sangam.components.reports.evaluation import TaskVerdict
from sangam.pipelines.backfill.record import DateRecord, MetricValue, Record, write_dates, write_record
from sangam.schemas.contracts.root import Root
from tests.components.record.sample_records import gate, record

RANKER = "small"
FIRST = datetime.date(2024, 3, 4)
AUCS = (0.7312, 0.7344, 0.7301, None, 0.7398)
STEPS = ("example_gen", "statistics_gen", "transform", "trainer", "evaluator", "infra_validator", "pusher")
OLD, REFUSED, FAILED, NEW = 1, 2, 3, 4
"""Runs by their number: two that were pushed and have outputs, one that a gate refused, one that failed."""
SEARCH = "1f2e3d4c"


def run_id(number: int) -> str:
    """Returns the id of a run, which starts the night after its day."""
    return f"{FIRST + datetime.timedelta(days=number + 1):%Y%m%d}T020000-1a2b3c4d"


def day(number: int) -> str:
    """Returns the day that a run is for."""
    return str(FIRST + datetime.timedelta(days=number))


def write_runs(folder: Path) -> Root:
    """Writes five runs into a new root, and returns it."""
    root = Root(str(folder))
    for number in range(len(AUCS)):
        _write_run(root, number)
    _write_outputs(root)
    return root


def _write_run(root: Root, number: int) -> None:
    folder, auc = root.run(run_id(number)).path, AUCS[number]
    (folder / "logs").mkdir(parents=True)
    is_refused, is_failed = number == REFUSED, number == FAILED
    days = [str(FIRST + datetime.timedelta(days=number - back)) for back in (3, 2, 1)]
    told: dict[str, Any] = {
        "run": run_id(number),
        "path": str(folder),
        "name": RANKER,
        "date": day(number),
        "days": {"train": days, "eval": [day(number)]},
        "missing_days": ["2024-03-02"] if number == OLD else [],
        "rows": {
            "train": {
                "num_files": 1,
                "read": 30_000 + 10 * number,
                "written": 29_800,
                "dropped": {"label missing: like": 3 * number},
            }
        },
        "steps": {step: _step(number, place) for place, step in enumerate(STEPS[: 4 if is_failed else 7])},
        "total_seconds": 412.0 + 10 * number,
        "git_commit": f"{number}c0ffee",
        "data": "/logs",
        "exit_code": 1 if is_failed else 3 if is_refused else 0,
    }
    if is_failed:
        (folder / "logs" / "trainer.log").write_text("step 1,200\nrank 1 says: no memory\n")
        error = "training: rank 1 was killed for its memory (got 12.0 GB)\nAll logs: here"
        told |= {"status": "failed", "failed_step": "trainer", "error": error, "blessed": None}
    else:
        assert auc is not None
        verdict = gate(not is_refused, f"auc {auc:.4f} is {'below' if is_refused else 'above'} the bound")
        like = {"auc": auc, "log_loss": 1 - auc, "calibration": 1.04 - 0.01 * number, "num_examples": 9_800.0}
        tasks = {"like": TaskVerdict(metrics=like, gates=[verdict])}
        tasks["share"] = TaskVerdict(metrics={"auc": auc - 0.05}, gates=[])
        version = f"{day(number).replace('-', '')}001"
        place = root.path / "serving" / RANKER / version
        told |= {"tasks": tasks, "blessed": not is_refused}
        if not is_refused:
            place.mkdir(parents=True)
            told["pushed"] = Pushed(version=version, path=str(place))
    ended = record(**told)
    store.write_record(ended)
    spec = {"name": RANKER, "training": {"epochs": 2 + number // 4, "dense_optimizer": {"learning_rate": 0.01}}}
    (folder / "spec.json").write_text(json.dumps(spec))
    if number != FAILED:
        (folder / "report.html").write_text(render(ended, Facts()))


def _step(number: int, place: int) -> Step:
    is_failed, is_cached = (number, place) == (FAILED, 3), (number, place) == (NEW, 0)
    state = "failed" if is_failed else "cached" if is_cached else "ran"
    memory = (300 + 700 * (place == 3)) * 10**6
    return Step(STEPS[place], state, 20.0 + 200 * (place == 3) + number, memory, cpu_seconds=30.0)


def _write_outputs(root: Root) -> None:
    """Writes the outputs of two runs' trainer and evaluator, and the ML Metadata that names them."""
    from ml_metadata import MetadataStore
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    config: Any = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = str(root.metadata)
    config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    store = MetadataStore(config)
    kinds = {
        "context": store.put_context_type(mlmd.ContextType(name="pipeline_run")),
        "execution": store.put_execution_type(mlmd.ExecutionType(name="step")),
        "artifact": store.put_artifact_type(mlmd.ArtifactType(name="output")),
    }
    store.put_context_type(mlmd.ContextType(name="pipeline"))
    for number in (OLD, NEW):
        context = mlmd.Context(type_id=kinds["context"], name=run_id(number))
        for step, key in (("trainer", "training"), ("evaluator", "evaluation")):
            place = root.artifacts / step / key / str(number)
            (_write_training if key == "training" else _write_evaluation)(place, number)
            artifact = mlmd.Artifact(type_id=kinds["artifact"], uri=str(place), state=mlmd.Artifact.LIVE)
            event: Any = mlmd.Event(type=mlmd.Event.OUTPUT)
            execution = mlmd.Execution(type_id=kinds["execution"], last_known_state=mlmd.Execution.COMPLETE)
            store.put_execution(execution, [(artifact, event)], [context], reuse_context_if_already_exist=True)


def _write_training(folder: Path, number: int) -> None:
    folder.mkdir(parents=True)
    steps = np.arange(400)[:, None]
    noise = np.random.default_rng(number).normal(0, 0.01, [400, 2])
    losses = (0.45 + 0.25 * np.exp(-steps / (60 + 20 * number)) + noise + [[0, 0.1]]).astype(np.float32)
    np.save(folder / "losses.npy", losses)
    epochs = [
        {
            "mean_loss": {"like": 0.5, "share": 0.6},
            "validation": {"like": {"auc": 0.7 + 0.01 * epoch + 0.002 * number}, "share": {"auc": 0.65}},
        }
        for epoch in range(3)
    ]
    (folder / "training.json").write_text(json.dumps({"epochs": epochs}))


def _write_evaluation(folder: Path, number: int) -> None:
    folder.mkdir(parents=True)
    rate = np.linspace(0, 1, 50)
    curve = {
        "false_positive_rate": rate.tolist(),
        "true_positive_rate": (rate ** (0.4 - 0.03 * number)).tolist(),
        "precision": (1 - rate / 2).tolist(),
        "score_edges": [0.1, 0.5, 0.9],
        "negatives": [5.0, 3.0],
        "positives": [2.0, 4.0],
    }
    rows = [{"model": "candidate", "task": "like", "metric": "auc", CURVE_COLUMN: json.dumps(curve)}]
    pq.write_table(pa.Table.from_pylist(rows), folder / "metrics.parquet")


def write_running(root: Root, run: str, *, now: float, num_points: int = 60) -> Path:
    """Writes what a run has left that trains just now; returns its folder. Whoever holds the root's lock runs it."""
    folder = root.run(run).path
    (folder / "logs").mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"name": RANKER}))
    ago_s = 90.0
    log = Journal(clock=lambda: now - ago_s)
    log.opened(folder, date="2024-03-09")
    log.planned(STEPS)
    for step in STEPS[:3]:
        log.step_started(step)
        ago_s -= 30
        log.step_ended(Step(step, "ran", 25.0, 300 * 10**6))
    ago_s = 20.0
    log.step_started("trainer")
    with (folder / "logs" / "progress.jsonl").open("w") as file:
        for number in range(1, num_points + 1):
            file.write(json.dumps(progress_line(number)) + "\n")
    return folder


def progress_line(number: int, expected: int = 100_000) -> dict[str, Any]:
    """Returns a line of a training's progress, 20 steps of 1,000 examples in all after the line before."""
    losses = {"like": 0.45 + 0.25 * 0.96**number, "share": 0.55 + 0.2 * 0.97**number}
    done = {"step": 20 * number, "examples": 1000 * number, "expected": expected}
    return {**done, "loss": sum(losses.values()), "examples_per_s": 4000.0 + number, "losses": losses}


def write_search(root: Root) -> Path:
    """Writes a search of six trials, the last of them not ended; returns its folder."""
    folder = root.tune(RANKER) / SEARCH
    folder.mkdir(parents=True)
    rate, dim = "training.dense_optimizer.learning_rate", "tables.users.dim"
    rows: list[list[object]] = [
        ["trial", "state", "like auc", "epoch", "seconds", "starts", "like.auc", rate, dim, "reason"],
        [0, "done", 0.71, 2, 41.2, 1, 0.71, 0.01, 8, ""],
        [1, "done", 0.724, 3, 55.0, 1, 0.724, 0.003, 16, ""],
        [2, "pruned", 0.69, 1, 12.5, 1, 0.69, 0.1, 8, ""],
        [3, "failed", "", "", 3.0, 1, "", 0.5, 8, "losses were not finite"],
        [4, "done", 0.719, 2, 44.8, 1, 0.719, 0.005, 16, ""],
        [5, "unfinished", "", "", "", 1, "", 0.004, 32, ""],
    ]
    with (folder / "trials.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    (folder / "best.yaml").write_text("name: small\n")
    logs = folder / "trials" / "0005" / "logs"
    logs.mkdir(parents=True)
    (logs / "progress.jsonl").write_text(json.dumps(progress_line(40)) + "\n")
    return folder


def write_backfill(root: Root) -> Path:
    """Writes a backfill of five dates, four of them done; returns its folder."""
    folder = root.backfill(RANKER)
    folder.mkdir(parents=True)
    record = Record(name=RANKER)
    for number, state in enumerate(("blessed", "blessed", "refused", "skipped")):
        is_run = state != "skipped"
        done = DateRecord(
            date=day(number),
            state=state,  # type: ignore[arg-type]
            identity="i",
            num_train_days=3 if is_run else 0,
            base_last_day=day(number - 1) if number else None,
            tasks={"like": MetricValue(metric="auc", value=AUCS[number])} if is_run else {},
            seconds=400.0 if is_run else 0.0,
            trainer_seconds=200.0 if is_run else 0.0,
            summary=str(root.run(run_id(number)).summary) if is_run else None,
        )
        record = record.with_date(done)
    write_dates(folder, map(day, range(5)))
    write_record(folder, record)
    return folder

"""The record of a run, for people and programs: `<root>/runs/<run>/summary.json`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from components.reports.evaluation import GateVerdict, Intervals
from components.reports.serving import Check, ServingVerdict
from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.root import SUMMARY_FILE, Root, RunFolder
from schemas.host.files import write_whole
from schemas.spec.serving import Load

_RESERVED_FILE, _RESERVED_BYTES = ".reserved", 256 * 1024


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowsSummary(_Record):
    """Rows of a split: read, written, dropped by reason, and negatives that sampling left out.

    `ignored`: values treated as missing, clipped or truncated, by reason and column. `joined`: rows on both sides of a
    join, by source and what happened to them.
    """

    read: int
    written: int
    dropped: dict[str, int]
    ignored: dict[str, int] = {}
    negatives_sampled_out: int = 0
    joined: dict[str, dict[str, int]] = {}


class TaskSummary(_Record):
    """Metrics and gates of a task, over all evaluation examples."""

    auc: float | None
    rmse: float | None
    metrics: dict[str, float | None]
    intervals: Intervals = {}
    gates: list[GateVerdict]


class ServingSummary(_Record):
    """The result of the serving check.

    Attributes:
        blessed: every check passed.
        model_bytes: size of all files.
        load_s: time until a server was ready; None if none ever was.
        p50_ms: latency under load; None if it was not measured.
        p99_ms: likewise.
        load: the load of the measurement.
        checks: every check with its reason.
    """

    blessed: bool
    model_bytes: int
    load_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    load: Load
    checks: list[Check]


def serving_summary(verdict: ServingVerdict) -> ServingSummary:
    """Returns the part of the verdict that a run's summary holds; its notes join the run's."""
    return ServingSummary(
        blessed=verdict.blessed,
        model_bytes=verdict.model_bytes,
        load_s=verdict.load_s,
        p50_ms=verdict.latency.p50_ms if verdict.latency else None,
        p99_ms=verdict.latency.p99_ms if verdict.latency else None,
        load=verdict.load,
        checks=verdict.checks,
    )


class PushedSummary(_Record):
    """The version that this run's model was pushed as, by this run or by an earlier one."""

    version: str
    path: str


class LiveSummary(_Record):
    """The version that servers take at the end of a run.

    Attributes:
        version: the newest in the folder; null if there is none.
        folder: the folder of versions.
        withdrawn: why the version of this run's model was withdrawn; null if it was not.
    """

    version: str | None
    folder: str
    withdrawn: str | None = None


class TableSummary(BaseModel):
    """A table after training, over all ranks; the counts are of this training.

    `load_max_over_mean` is the fullest rank's rows over the mean, `unique_share` unique ids over all ids of a batch.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    rows: int
    bytes: int
    admitted: int
    rejected: int
    evicted: int
    expired: int
    load_max_over_mean: float | None
    unique_share: float | None


class WarmStartSummary(BaseModel):
    """What training loaded from the base: tables and weights by name; parts of weights if only parts fit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    base_days: list[str]
    loaded: list[str]
    new: list[str]
    dropped: list[str]


class EarlyStoppingSummary(BaseModel):
    """The epoch that the model is of, and the metric by which it was the best."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    metric: str
    best_epoch: int
    best: float
    reason: str | None


class CheckpointSummary(BaseModel):
    """Checkpoints that were given up because the disk was full, and damaged ones that were skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    given_up: int = 0
    passed_over: list[str] = []


class RefitSummary(BaseModel):
    """The validation days that the model was trained on after its epoch was chosen, and the number of passes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    days: list[str]
    passes: int


class TrainingSummary(BaseModel):
    """The whole training, however often it was resumed. Read from training.json.

    `input_wait` is the share of its time that the ranks waited for batches.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    examples: int
    examples_per_s: float
    input_wait: float = 0.0
    skipped_steps: int
    resumed_from_step: list[int]
    checkpoint: CheckpointSummary = CheckpointSummary()
    warm_start: WarmStartSummary | None
    early_stopping: EarlyStoppingSummary | None = None
    notes: list[str] = []
    refit: RefitSummary | None = None
    tables: dict[str, TableSummary]


class CostSummary(_Record):
    """What the run has cost by the prices of its spec; see `schemas.derived.cost.RunCost`."""

    currency: str
    by_step: dict[str, float]
    total: float
    per_million_examples: float | None
    training_per_billion_samples: float | None


class StepSummary(_Record):
    """One step; `cpu_seconds` and `peak_memory_bytes` cover all processes of the run while the step ran."""

    state: Literal["ran", "cached", "failed", "stopped"]
    cached: bool
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int


class Summary(_Record):
    """A run, however it ended. What a failed run did not reach is null or empty.

    `base` is the checkpoint that training started from, if any, and `base_last_day` the last day that it was trained
    on; `days` then has the days of this run alone. `live` is null if the spec pushes nothing. `blessed` is the verdict
    of the quality gates and the serving check; null if one of them is missing and none rejected the model. `data`, the
    folder of the logs, and `exit_code` are null in summaries from before them.
    """

    run: str
    path: str
    name: str
    status: Literal["succeeded", "failed", "stopped"]
    error: str | None
    failed_step: str | None
    date: str | None
    mode: Literal["full", "incremental"] = "full"
    base: str | None = None
    base_last_day: str | None = None
    days: dict[str, list[str]]
    missing_days: list[str]
    rows: dict[str, RowsSummary]
    training: TrainingSummary | None = None
    tasks: dict[str, TaskSummary]
    serving: ServingSummary | None = None
    notes: list[str]
    blessed: bool | None
    baseline: str | None
    pushed: PushedSummary | None
    live: LiveSummary | None = None
    steps: dict[str, StepSummary]
    total_seconds: float
    cost: CostSummary | None = None
    spec_digest: str
    git_commit: str | None
    data: str | None = None
    exit_code: int | None = None


def read_summaries(root: Root) -> Iterator[tuple[RunFolder, Summary]]:
    """Yields the runs of a root that have ended, in any order; those of another version are left out."""
    for folder in root.run_folders():
        try:
            yield folder, Summary.model_validate_json(folder.summary.read_bytes())
        except (OSError, ValueError):
            continue


def reserve(run_folder: Path) -> None:
    """Reserves disk space for the summary: a run that fails on a full disk must be able to report it."""
    with (run_folder / _RESERVED_FILE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _RESERVED_BYTES)


def write_summary(summary: Summary) -> Path:
    """Writes the summary into the run's folder, whole or not at all, and returns the file's path."""
    path = Path(summary.path) / SUMMARY_FILE
    path.with_name(_RESERVED_FILE).unlink(missing_ok=True)
    write_whole(path, summary.model_dump_json(indent=2) + "\n")
    return path


def exit_code(summary: Summary, stop_code: int, *, is_mistake: bool = False) -> int:
    """Returns the exit code of a run.

    Args:
        summary: of the run.
        stop_code: exit code of a run that was stopped by a signal.
        is_mistake: a failed run failed because the spec, an option or the logs are wrong.
    """
    match summary.status:
        case "succeeded":
            return ExitCode.DONE if summary.blessed else ExitCode.REJECTED
        case "failed":
            return ExitCode.MISTAKE if is_mistake else ExitCode.FAILED
        case "stopped":
            return stop_code

"""The record of a run, for people and programs: `<root>/runs/<run>/summary.json`."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

import pydantic.dataclasses
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, field_validator

from sangam.components.reports import drift, evaluation, ingestion, serving
from sangam.components.reports.evaluation import TaskVerdict, Verdict
from sangam.components.reports.ingestion import IngestionReport, SplitReport
from sangam.components.reports.serving import ServingVerdict
from sangam.components.reports.training import TrainingReport
from sangam.schemas.contracts.training_job import REPORT_FILE
from sangam.schemas.quantities import readable

Status = Literal["pushed", "blessed", "refused", "ended", "failed", "stopped"]
"""End of a run. `pushed`: every gate passed, and the model is a version; `blessed`: the same, with `push.kind: none`;
`refused`: a gate refused the model; `ended`: without a verdict, as the run made examples for a search; `failed`;
`stopped`: by a signal."""
_Report = TypeVar("_Report", bound=BaseModel)

Seconds = Annotated[float, Field(ge=0, le=1e9)]
Time = Annotated[float, Field(ge=0, le=32_503_680_000)]
"""Seconds since 1970, up to the year 3000: later values indicate damage."""


def _day(text: str) -> str:
    datetime.date.fromisoformat(text)
    return text


Day = Annotated[str, AfterValidator(_day)]
"""YYYY-MM-DD."""


@pydantic.dataclasses.dataclass(frozen=True)
class Artifact:
    """One output of a step: its URI, and the custom properties that its component set."""

    uri: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@pydantic.dataclasses.dataclass(frozen=True)
class Step:
    """A step of a run.

    Attributes:
        state: `waiting` and `running`; then `ran`: it completed; `cached`: an earlier run's outputs are used; `failed`;
            `stopped`: by a signal. Kubeflow's own states for a run that Kubeflow reports.
        seconds: wall time; None until it has ended.
        peak_memory_bytes: peak memory of all processes of the run during the step; 0: unknown.
        outputs: artifacts by output key; empty unless the step succeeded.
        cpu_seconds: processor time of the same processes.
        started_at: seconds since 1970; None: not started, or unknown.
        error: reason of the failure.
        waits_since: time since which its pod waits to start, seconds since 1970; None: not waiting.
    """

    name: str
    state: str
    seconds: Seconds | None = None
    peak_memory_bytes: Annotated[int, Field(ge=0, lt=2**63)] = 0
    outputs: Mapping[str, Artifact] = field(default_factory=dict)
    cpu_seconds: Seconds = 0.0
    started_at: Time | None = None
    error: str = ""
    waits_since: Time | None = None

    def took(self, now: float) -> float | None:
        """Returns the seconds from its start to its end, or to `now`; None: not started."""
        if self.seconds is not None or self.started_at is None:
            return self.seconds
        return max(0.0, now - self.started_at)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def cached(self) -> bool:
        """Whether an earlier run's outputs are used."""
        return self.state == "cached"


class Observer(Protocol):
    """Receives the start and the end of every step."""

    def step_started(self, name: str) -> None:
        """Called before the step starts."""

    def step_ended(self, step: Step) -> None:
        """Called after the step, also after a failure."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pushed(_Part):
    """The version that this run's model was pushed as, by this run or by an earlier one.

    Attributes:
        version: number.
        path: folder that it has once it is live.
        shadow_of: live version in whose shadow it was put; empty: it was live at once.
    """

    version: str
    path: str
    shadow_of: str = ""


class Live(_Part):
    """The version that servers load at the end of a run.

    Attributes:
        version: newest version in the folder; null if there is none.
        folder: folder of versions.
        withdrawn: reason for the withdrawal of the version of this run's model; null if it was not withdrawn.
    """

    version: str | None
    folder: str
    withdrawn: str | None = None


class CostReport(_Part):
    """The cost of a run by the prices of its spec; see `sangam.schemas.derived.cost.RunCost`."""

    currency: str
    by_step: dict[str, float]
    total: float
    per_million_examples: float | None
    training_per_billion_samples: float | None
    serving_per_million_candidates: float | None = None
    live_per_million_candidates: float | None = None


class RunRecord(_Part):
    """The record of an ended run. Results that a failed run did not reach are null or empty.

    Attributes:
        base: the checkpoint that training started from, if any; `days` then has only the days of this run.
        base_last_day: last training day of the base.
        rows: rows by split, from ingestion's report.
        tasks: results by task, from the evaluation's report; the file omits slices and calibration buckets.
        warnings: sentences on what no gate refuses: drift, calibration, slices, a metric worse than the last model's.
        blessed: verdict of the quality gates and the serving check; null if one is missing and none refused the model.
        live: version that servers load; null if the spec pushes nothing.
        data: folder of the logs; null on Kubeflow.
        exit_code: exit code of the process; null on Kubeflow.
        runner: runner of the steps.
        started_at: seconds since 1970; null for local runs, whose id contains it.
    """

    run: str
    path: str
    name: str
    status: Status
    error: str | None = None
    failed_step: str | None = None
    date: Day | None = None
    mode: Literal["full", "incremental"] = "full"
    base: str | None = None
    base_last_day: str | None = None
    days: dict[str, list[str]] = {}
    missing_days: list[str] = []
    rows: dict[str, SplitReport] = {}
    training: TrainingReport | None = None
    tasks: dict[str, TaskVerdict] = {}
    serving: ServingVerdict | None = None
    notes: list[str] = []
    warnings: list[str] = []
    blessed: bool | None = None
    baseline: str | None = None
    pushed: Pushed | None = None
    live: Live | None = None
    steps: dict[str, Step] = {}
    total_seconds: Seconds
    cost: CostReport | None = None
    spec_digest: str = ""
    git_commit: str | None = None
    data: str | None = None
    exit_code: int | None = None
    runner: Literal["local", "kubeflow"] = "local"
    started_at: Time | None = None

    @field_validator("steps", mode="before")
    @classmethod
    def _named(cls, steps: Any) -> Any:
        """Sets each step's name from its key in the file."""
        if not isinstance(steps, dict):
            return steps
        return {name: {**step, "name": name} if isinstance(step, dict) else step for name, step in steps.items()}

    def text(self) -> str:
        """Returns the content of the file."""
        parts = {"slices": True, "slice_intervals": True, "calibration_buckets": True}
        left_out: Any = {
            "tasks": {"__all__": parts},
            "steps": {"__all__": {"name", "outputs", "started_at", "error", "waits_since"}},
        }
        document = readable(self.model_dump(mode="json", exclude=left_out))
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Reports:
    """The reports of a run's steps; None: the run did not reach the step.

    Attributes:
        drift: sentences on distances beyond their bounds.
    """

    ingestion: IngestionReport | None = None
    training: TrainingReport | None = None
    evaluation: Verdict | None = None
    serving: ServingVerdict | None = None
    drift: tuple[str, ...] = ()

    def fields(self, other_notes: list[str] | None = None) -> dict[str, Any]:
        """Returns the fields of a record that come from the reports.

        Args:
            other_notes: notes of the steps between ingestion and training.
        """
        given, judged = self.ingestion, self.evaluation
        own, others = [each.notes for each in (self.training, judged, self.serving) if each], other_notes or []
        warnings = [*self.drift, *(judged.warnings if judged else ())]
        notes = [*(given.notes if given else ()), *others, *(note for notes in own for note in notes)]
        fields: dict[str, Any] = {
            "training": self.training,
            "serving": self.serving,
            "notes": [note for note in notes if note not in warnings],
            "warnings": warnings,
            "blessed": _both([each.blessed if each else None for each in (judged, self.serving)]),
        }
        if given:
            fields |= {"days": given.days, "missing_days": given.missing_days, "rows": given.splits}
            if given.base:
                fields |= {"base": given.base.checkpoint_uri, "base_last_day": given.base.last_day}
        if judged:
            fields |= {"tasks": judged.tasks, "baseline": judged.baseline}
        return fields


def read_reports(folders: Mapping[str, Path]) -> Reports:
    """Reads the reports of a run.

    Args:
        folders: folders of the outputs `examples`, `anomalies`, `training`, `evaluation` and `infra_blessing`, where
            they exist.
    """

    def read(name: str, file: str, kind: type[_Report]) -> _Report | None:
        path = folders[name] / file if name in folders else None
        return kind.model_validate_json(path.read_bytes()) if path and path.is_file() else None

    return Reports(
        read("examples", ingestion.FILE_NAME, IngestionReport),
        read("training", REPORT_FILE, TrainingReport),
        read("evaluation", evaluation.FILE_NAME, Verdict),
        read("infra_blessing", serving.FILE_NAME, ServingVerdict),
        tuple(drift.beyond_bounds(folders["anomalies"] / drift.FILE_NAME)) if "anomalies" in folders else (),
    )


def status_of(blessed: bool | None, pushed: Pushed | None) -> Status:
    """Returns the end of a run whose steps have all ended well."""
    if blessed is None:
        return "ended"
    return "refused" if not blessed else "pushed" if pushed else "blessed"


def _both(blessings: list[bool | None]) -> bool | None:
    """Returns False if any verdict is a rejection, None if one is missing, else True."""
    if False in blessings:
        return False
    return None if None in blessings else True

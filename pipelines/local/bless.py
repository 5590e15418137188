"""`sangam bless`: a person blesses a model that a quality gate has refused.

Every action is idempotent: after an interruption, the same command completes the blessing.
"""

import datetime
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sangam.components.record.lock import locked
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import ALLOWED, StoredRun, find_run
from sangam.components.registry import shadow
from sangam.schemas.contracts.export import MODEL_FILE
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

FOLDER = "manual_blessing"
"""Folder below the root's artifacts, with a subfolder for each run that was blessed by hand."""


@dataclass(frozen=True)
class Blessed:
    """The result of the command.

    Attributes:
        run: id of the run.
        by: person who blessed it.
        when: time of the blessing, UTC, ISO 8601.
        because: reason of the person.
        overridden: sentences, one for each gate that refused the model.
        was_there: whether an earlier command had blessed it.
        version: the pushed version; None if the spec pushes nothing.
        path: path of that version.
    """

    run: str
    by: str
    when: str
    because: str
    overridden: tuple[str, ...]
    was_there: bool
    version: str | None
    path: str | None

    def pushed_line(self) -> str:
        """Returns the line to print about the pushed version."""
        if self.version is None or self.path is None:
            return "pushed: nothing, push.kind is none"
        place = shadow.place_of(Path(self.path))
        gone = "" if place.is_dir() else ", which has been withdrawn or removed since"
        return f"pushed: version {self.version} in {place}{gone}"


def bless(run: Path, *, because: str, by: str, now: datetime.datetime) -> Blessed:
    """Blesses the model of a run, registers it as the next baseline, and pushes it.

    Args:
        run: path of the run, as the user gave it.
        because: reason to record.
        by: person to record.
        now: present time, UTC.

    Raises:
        UserError: there is no such run, or it cannot be blessed: it failed, is blessed already, or its model cannot be
            served; the reason is empty; the root is in use.
    """
    if not because.strip():
        raise UserError(f"--because: needs a reason (got '{because}'); say why: the reason is kept with the model")
    root = find_run(run).root
    with locked(root.path):
        found = find_run(run)
        _check(found)
        return _bless(root, found.id, " ".join(because.split()), by, now)


def _check(run: StoredRun) -> None:
    """Rejects a run that has no verdict to override."""
    if run.record is None:
        raise UserError(f"{run.id}: {outcome_of(run).sentence}, so there is no verdict to override; run it again")
    if run.record.runner == "kubeflow":
        raise UserError(
            f"{run.id}: ran on Kubeflow (got {run.folder.path}); only a model of this machine can be blessed"
        )
    if not run.root.metadata.is_file():
        raise UserError(f"RUN: is no run of a root (got {run.folder.path}, without {run.root.metadata}); {ALLOWED}")
    if run.record.status in ("failed", "stopped"):
        raise UserError(
            f"{run.id}: {run.state}, so there is no verdict to override (got step {run.record.failed_step}: "
            f"{run.record.error}); run it again"
        )


def _bless(layout: Root, run: str, because: str, by: str, now: datetime.datetime) -> Blessed:
    from tfx.orchestration import metadata

    from sangam.components.registry import blessed as registry
    from sangam.components.steps.evaluator.judge import manual
    from sangam.pipelines.local.recorded_run import read_recorded

    with metadata.Metadata(metadata.sqlite_metadata_connection_config(str(layout.metadata))) as handle:
        found = read_recorded(handle, run)
        if found is None:
            raise UserError(
                f"{run}: {layout.metadata.name} has no such run (got {layout.uri}); give the folder that it ran in"
            )
        verdict = _overridable(run, found.outputs)
        model = found.outputs["trainer"]["model"]
        earlier = manual.find(handle, run)
        blessings = layout.blessed(str(found.parameters["pusher"]["name"]))
        if earlier is None:
            _refuse_blessed(run, model.uri, registry.read_all(blessings))
        given = (
            earlier.blessing
            if earlier
            else manual.ManualBlessing(reason=because, who=by, when=now.isoformat(timespec="seconds"), run=run)
        )
        amended = verdict.blessed_by_hand(because=given.reason, by=given.who, when=given.when)
        written = _write(layout.artifacts / FOLDER / run, amended, found.outputs)
        recorded = earlier or manual.record(
            handle,
            given,
            inputs={"model": model, "evaluation": found.outputs["evaluator"]["evaluation"]},
            blessing=written["blessing"],
            contexts=found.contexts,
        )
        pushed = recorded.pushed or _push(found.outputs, found.parameters["pusher"], written)
        if pushed.get_int_custom_property("pushed") and recorded.pushed is None:
            manual.record_push(handle, recorded, pushed, found.contexts)
    return Blessed(
        run=run,
        by=given.who,
        when=given.when,
        because=given.reason,
        overridden=tuple(verdict.refusals()),
        was_there=earlier is not None,
        version=pushed.get_string_custom_property("version") or None,
        path=pushed.get_string_custom_property("path") or None,
    )


def _overridable(run: str, outputs: Mapping[str, Any]) -> Any:
    """Returns the verdict of a run whose model was refused only for its quality."""
    from tfx.components.util import model_utils
    from tfx.utils import path_utils

    from sangam.components.reports import evaluation as verdicts
    from sangam.components.reports import serving as infra_verdicts

    infra = outputs.get("infra_validator", {}).get("blessing")
    if infra is None:
        raise UserError(f"{run}: has no serving check (got steps {', '.join(outputs)}); run it again")
    evaluation = Path(outputs["evaluator"]["evaluation"].uri)
    verdict = verdicts.Verdict.model_validate_json((evaluation / verdicts.FILE_NAME).read_bytes())
    if not model_utils.is_infra_validated(infra):
        text = (Path(infra.uri) / infra_verdicts.FILE_NAME).read_bytes()
        checks = infra_verdicts.ServingVerdict.model_validate_json(text).checks
        reasons = "; ".join(check.reason for check in checks if not check.passed)
        raise UserError(
            f"{run}: the serving check refused the model (got: {reasons}); this cannot be overridden: fix the model, "
            "or the bounds of `serving` in the spec, and run again"
        )
    if verdict.blessed:
        raise UserError(f"{run}: is blessed already: every gate passed (got {evaluation}); nothing to override")
    never = verdict.refusals(verdicts.NEVER_BY_HAND)
    if never:
        raise UserError(
            f"{run}: the model gives no usable scores (got {'; '.join(never)}); this cannot be overridden: fix the "
            "model and run again"
        )
    model = path_utils.serving_model_path(outputs["trainer"]["model"].uri)
    if not (Path(model) / MODEL_FILE).is_file():
        raise UserError(f"{run}: its model is gone (got {model}); run it again")
    return verdict


def _refuse_blessed(run: str, model_uri: str, known: list[Any]) -> None:
    for entry in known:
        if entry.model_uri == model_uri:
            how = f"by {entry.by}, because {entry.because}" if entry.because else "by the gates of another run"
            raise UserError(
                f"{run}: its model is blessed already, {how} (got {model_uri}, {entry.blessed_at:%Y-%m-%d %H:%M} UTC); "
                "there is nothing to override"
            )


def _write(folder: Path, verdict: Any, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the blessing and the overridden verdict in the pusher's format; returns the pusher's artifacts."""
    from tfx.types import standard_artifacts as kinds

    from sangam.components.reports import evaluation as verdicts
    from sangam.components.reports.curves import METRICS_FILE
    from sangam.components.steps.evaluator.judge import blessing as blessings

    kind = {"blessing": kinds.ModelBlessing, "evaluation": kinds.ModelEvaluation, "pushed_model": kinds.PushedModel}
    artifacts = {}
    for name in kind:
        artifacts[name] = kind[name]()
        artifacts[name].uri = str(folder / name)
        (folder / name).mkdir(parents=True, exist_ok=True)
    model, evaluation = outputs["trainer"]["model"], Path(outputs["evaluator"]["evaluation"].uri)
    blessings.mark(artifacts["blessing"], model=model, baseline_uri=verdict.baseline, is_blessed=True)
    artifacts["blessing"].set_string_custom_property("because", verdict.because)
    artifacts["blessing"].set_string_custom_property("by", verdict.by)
    (folder / "evaluation" / verdicts.FILE_NAME).write_text(verdict.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / "evaluation" / verdicts.TEXT_FILE).write_text(verdict.text(), encoding="utf-8")
    if (evaluation / METRICS_FILE).is_file():
        shutil.copyfile(evaluation / METRICS_FILE, folder / "evaluation" / METRICS_FILE)
    return artifacts


def _push(outputs: Mapping[str, Any], parameters: Mapping[str, Any], written: Mapping[str, Any]) -> Any:
    """Runs the pusher with the run's parameters on the overridden verdict; returns its output artifact."""
    from sangam.components.steps.pusher.executor import Executor

    inputs = {
        "examples": outputs["example_gen"]["examples"],
        "statistics": outputs["statistics_gen"]["statistics"],
        "model": outputs["trainer"]["model"],
        "infra_blessing": outputs["infra_validator"]["blessing"],
        "checkpoint": outputs["trainer"]["checkpoint"],
        "blessing": written["blessing"],
        "evaluation": written["evaluation"],
    }
    Executor().Do(
        {key: [artifact] for key, artifact in inputs.items()},
        {"pushed_model": [written["pushed_model"]]},
        dict(parameters),
    )
    return written["pushed_model"]

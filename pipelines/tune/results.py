"""The results of a search: the best spec, and a table and a page of all trials."""

import copy
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from sangam.pipelines.tune.records import Objective, Trial, ranked
from sangam.pipelines.tune.request import SearchRequest
from sangam.schemas.host.files import write_whole
from sangam.schemas.loading import load_spec
from sangam.schemas.loading.documents import whole, with_values
from sangam.schemas.loading.tuning_ranges import changes
from sangam.schemas.quantities import readable, shown_seconds

BEST_FILE, TABLE_FILE, PAGE_FILE, PLOT_FILE = "best.yaml", "trials.csv", "trials.md", "trials.png"


def write_best(request: SearchRequest, best: Trial, objective: Objective) -> Path:
    """Writes the best trial's complete spec, with the order and comments of the original; returns its path.

    The section `tune` is omitted: its ranges may contradict the new values.
    """
    written = copy.deepcopy(request.parsed.written)
    del written["tune"]
    values = {**request.prepared.changes, **changes(best.values, request.tune.ranges)}
    made = with_values(
        written, whole(request.parsed.spec), {path: _on_one_line(value) for path, value in values.items()}
    )
    yaml = YAML(typ="rt")
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(made, text)
    value = f"{objective.name} {best.objective:.4f} on the validation split"
    head = f"# Trial {best.number} of `sangam tune` on {request.spec_path.name}: {value}.\n"
    path = request.folder / BEST_FILE
    write_whole(path, head + text.getvalue())
    # Fail here if `sangam run` would reject the file.
    load_spec(path)
    return path


def write_table(folder: Path, trials: Sequence[Trial], objective: Objective) -> Path:
    """Writes all trials in order, one per line; returns the file's path."""
    paths, metrics = _columns(trials)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "state", objective.name, "epoch", "seconds", "starts", *metrics, *paths, "reason"])
    for trial in trials:
        known = readable([trial.number, trial.state, trial.objective, trial.epoch, trial.seconds, trial.starts])
        values = [_value(trial.values[path]) if path in trial.values else "" for path in paths]
        measured = readable([metrics_of(trial).get(metric, "") for metric in metrics])
        table.writerow([*known, *measured, *values, trial.reason])
    path = folder / TABLE_FILE
    write_whole(path, text.getvalue())
    return path


def write_page(request: SearchRequest, trials: Sequence[Trial], objective: Objective) -> Path:
    """Writes all trials as a Markdown page, best first; returns the file's path."""
    paths, metrics = _columns(trials)
    counts = {state: sum(trial.state == state for trial in trials) for state in ("done", "pruned", "failed")}
    better = "larger" if objective.is_larger_better else "smaller"
    lines = [
        f"# Search for {request.parsed.spec.name}",
        "",
        f"By {objective.name} on the validation split, the {better} the better. {len(trials)} trials: "
        + ", ".join(f"{number} {state}" for state, number in counts.items())
        + f". Seed {request.tune.seed}, {request.jobs} at a time.",
        "",
        f"![All trials]({PLOT_FILE})",
        "",
        _row(["trial", objective.name, *metrics, "epoch", "time", *paths, ""]),
        _row(["---"] * (5 + len(metrics) + len(paths))),
    ]
    for trial in ranked(trials, objective):
        measured = [_number(metrics_of(trial).get(metric)) for metric in metrics]
        values = [shown(trial.values[path]) if path in trial.values else "" for path in paths]
        note = "the spec as it is" if trial.is_spec else ""
        note = " ".join(filter(None, [trial.state if trial.state != "done" else "", note, trial.reason]))
        known = [str(trial.epoch or ""), shown_seconds(trial.seconds) if trial.seconds is not None else ""]
        lines.append(_row([str(trial.number), _number(trial.objective), *measured, *known, *values, note]))
    path = request.folder / PAGE_FILE
    write_whole(path, "\n".join(lines) + "\n")
    return path


def _on_one_line(value: Any) -> Any:
    """Returns a value in ruamel.yaml's flow style, which specs use for short values."""
    written: CommentedMap | CommentedSeq
    if isinstance(value, Mapping):
        written = CommentedMap({key: _on_one_line(child) for key, child in value.items()})
    elif isinstance(value, list | tuple):
        written = CommentedSeq([_on_one_line(child) for child in value])
    else:
        return value
    written.fa.set_flow_style()
    return written


def metrics_of(trial: Trial) -> dict[str, float]:
    """Returns a trial's metrics by `task.metric`."""
    return {f"{task}.{name}": value for task, found in trial.validation.items() for name, value in found.items()}


def shown(value: Any) -> str:
    """Returns a value as printable text."""
    return f"{value:.4g}" if isinstance(value, float) else _value(value)


def _columns(trials: Sequence[Trial]) -> tuple[list[str], list[str]]:
    """Returns the paths and the metrics of all trials, in order."""
    paths = {path: None for trial in trials for path in trial.values}
    metrics = {metric: None for trial in trials for metric in metrics_of(trial)}
    return list(paths), list(metrics)


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping | list | tuple) else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

"""Writes `MODEL_CARD.md`, which describes a pushed version for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sangam.components.reports.evaluation import TaskVerdict, Verdict, calibrated, shown_value
from sangam.components.reports.serving import ServingVerdict
from sangam.components.steps.pusher.manifest import Provenance
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.export import Description
from sangam.schemas.derived.cost import per_million_candidates, serving_price
from sangam.schemas.quantities import listed_counts, shown_bytes, shown_seconds
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.cost import Cost
from sangam.schemas.spec.data import VALIDATION
from sangam.schemas.spec.release import Evaluation

WORST_SLICES = 3
"""Number of slices listed for each task."""


@dataclass(frozen=True)
class Rows:
    """The rows of a split.

    Attributes:
        written: number of examples.
        left_out: number of other rows, by reason.
        joined: by source of a join, numbers of rows on both sides, by outcome.
    """

    written: int
    left_out: Mapping[str, int]
    joined: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class CardFacts:
    """The facts of a card.

    Attributes:
        provenance: provenance, as in the manifest.
        rows: rows by split.
        verdict: verdict of the quality gates.
        serving: verdict of the serving gate.
        evaluation: how the metrics were computed.
        intended_use: intended use from the spec; may be empty.
        model: the exported model's description; None if it has none.
        cost: prices, if the spec has one of serving.
        meaning: what predictions and metrics mean; by default as usual.
    """

    provenance: Provenance
    rows: Mapping[str, Rows]
    verdict: Verdict
    serving: ServingVerdict
    evaluation: Evaluation
    intended_use: str
    model: Description | None
    cost: Cost | None = None
    meaning: Sequence[str] = ()


def model_card(version: str, facts: CardFacts) -> str:
    """Returns the card as Markdown."""
    title = f"# {facts.provenance.name}, version {version}"
    use = facts.intended_use or "Not stated: the spec has no `intended_use`."
    parts = [
        [title],
        ["## Intended use", use],
        ["## Data", *_data(facts)],
        ["## Quality", *_quality(facts)],
        ["## Gates", *_gates(facts.verdict)],
        ["## Slices worth knowing", *_slices(facts)],
        ["## Serving", *_serving(facts.serving, facts.cost)],
        ["## Not judged", *_not_judged(facts)],
        ["## Origin", *_origin(facts)],
    ]
    return "\n\n".join("\n\n".join(part) for part in parts) + "\n"


def _data(facts: CardFacts) -> Iterator[str]:
    provenance = facts.provenance
    rows = []
    for split, split_rows in facts.rows.items():
        left_out = listed_counts(split_rows.left_out) or "none"
        rows.append((split, _periods(provenance.days.get(split, [])), f"{split_rows.written:,}", left_out))
    yield _table(("split", "days", "rows", "rows left out"), rows)
    joined = [
        (split, source, listed_counts(counts) or "none")
        for split, split_rows in facts.rows.items()
        for source, counts in split_rows.joined.items()
    ]
    if joined:
        yield "Logs that were joined to the rows:"
        yield _table(("split", "source", "rows of both sides"), joined)
    if provenance.missing_days:
        yield f"Days without logs: {_periods(provenance.missing_days)}."
    if provenance.refit_days:
        yield (
            f"After the best epoch was chosen on the validation days {_periods(provenance.refit_days)}, the model was "
            "trained on them as well."
        )
    elif facts.model and not provenance.days and facts.model.ranker.training.refits and VALIDATION in facts.rows:
        yield "After the best epoch was chosen on the validation split, the model was trained on it as well."
    if facts.model and facts.model.history_as_of:
        yield f"Features of kind rate and count know what happened before {facts.model.history_as_of}, and not later."
    if provenance.base_days:
        yield f"Training continued a checkpoint that was trained on {_periods(provenance.base_days)}."
    else:
        yield "Training started from scratch."


def _quality(facts: CardFacts) -> Iterator[str]:
    confidence = facts.evaluation.confidence
    tasks = facts.verdict.tasks
    if any(task.intervals for task in tasks.values()):
        drawn = f"all examples of a {confidence.by} together" if confidence.by else "examples one by one"
        made = f"bootstrap of {confidence.replicates} replicates, drawing {drawn}"
        yield f"On the eval split. Intervals: {100 * confidence.level:g} %, {made}."
    else:
        yield "On the eval split, without confidence intervals."
    for note in facts.meaning:
        yield _plain(f"{note[0].upper()}{note[1:]}.")
    metrics = dict.fromkeys(metric for task in tasks.values() for metric in task.metrics)
    rows = [(metric, *(_with_interval(metric, task) for task in tasks.values())) for metric in metrics]
    yield _table(("metric", *tasks), rows)
    for task, served in facts.model.tasks.items() if facts.model else ():
        if served.calibration is not None:
            yield _calibrated(task, served.calibration, tasks.get(task))


def _calibrated(task: str, fitted: Calibration, verdict: TaskVerdict | None) -> str:
    """Returns a sentence on a task's calibration: method, examples and effect."""
    if fitted.problem:
        return _plain(f"{task} is not calibrated ({fitted.kind}): {fitted.problem}.")
    seen = f"{fitted.examples:,} examples ({fitted.positives:,} positives) of the validation split"
    days = f", {_periods(fitted.days)}" if fitted.days else ""
    effect = calibrated(verdict.metrics) if verdict else ""
    return _plain(f"{task} is calibrated ({fitted.kind}), fitted on {seen}{days}{f': {effect}' if effect else ''}.")


def _with_interval(metric: str, task: TaskVerdict) -> str:
    if metric not in task.metrics:
        return ""
    return f"{shown_value(metric, task.metrics[metric])} {_interval(task.intervals.get(metric))}".rstrip()


def _gates(verdict: Verdict) -> Iterator[str]:
    if verdict.because:
        yield f"**Blessed by hand** by {_plain(verdict.by)}, because: {_plain(verdict.because)}"
    rows = [
        (name, gate.slice or "all examples", _passed(gate.passed), gate.reason)
        for name, task in verdict.tasks.items()
        for gate in task.gates
    ]
    yield _table(("task", "on", "verdict", "reason"), rows) if rows else "The spec has none."
    yield (
        f"Compared with the blessed model {verdict.baseline}." if verdict.baseline else "Compared with no other model."
    )


def _slices(facts: CardFacts) -> Iterator[str]:
    rows = [row for name, task in facts.verdict.tasks.items() for row in _worst(name, task, facts.evaluation)]
    if rows:
        yield f"The worst of each task, of slices with at least {facts.evaluation.min_slice_examples} examples."
        yield _table(("task", "slice", "examples", "metric", "value", "interval", "all examples"), rows)
    else:
        yield "None were measured."


def _worst(name: str, task: TaskVerdict, evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    metric = "rmse" if "rmse" in task.metrics else "auc"
    large = {
        slice_: metrics[metric]
        for slice_, metrics in task.slices.items()
        if metrics.get(metric) is not None and (metrics.get("num_examples") or 0) >= evaluation.min_slice_examples
    }
    sign = 1 if metric == "rmse" else -1
    for slice_ in sorted(large, key=lambda name_: (-sign * (large[name_] or 0), name_))[:WORST_SLICES]:
        examples = shown_value("num_examples", task.slices[slice_].get("num_examples"))
        interval = _interval(task.slice_intervals.get(slice_, {}).get(metric))
        shown, overall = shown_value(metric, large[slice_]), shown_value(metric, task.metrics.get(metric))
        yield name, slice_, examples, metric, shown, interval, overall


def _serving(serving: ServingVerdict, cost: Cost | None) -> Iterator[str]:
    once = f", given once: {', '.join(map(_plain, serving.once))}" if serving.once else ""
    load = f"{serving.load.candidates} candidates a request{once}; clients: {serving.load.clients}"
    sentences = [f"Size: {shown_bytes(serving.model_bytes)}."]
    if serving.load_s is not None:
        sentences.append(f"A server is ready after {shown_seconds(serving.load_s)}.")
    if serving.p50_ms is not None and serving.p99_ms is not None:
        times = f"p50 {serving.p50_ms:.3g} ms, p99 {serving.p99_ms:.3g} ms"
        sentences.append(f"Latency: {times} of {serving.requests:,} requests ({load}).")
    if cost and (price := per_million_candidates(cost, serving.candidates_per_core_s)) is not None:
        live = per_million_candidates(cost, serving.live_candidates_per_core_s)
        told = serving_price(cost.currency, price, live)
        at = f"{serving.candidates_per_core_s:,.0f} candidates a second of a core"
        sentences.append(_plain(f"Price: {told}, at {at}."))

    yield " ".join(sentences)
    rows = [(check.name, _passed(check.passed), check.reason) for check in serving.checks]
    yield _table(("check", "verdict", "reason"), rows)


def _not_judged(facts: CardFacts) -> Iterator[str]:
    notes = [*facts.verdict.notes, *facts.serving.notes]
    yield "\n".join(f"- {_plain(note)}" for note in notes) if notes else "Everything in the spec was judged."


def _origin(facts: CardFacts) -> Iterator[str]:
    provenance, model = facts.provenance, facts.model
    lines = [
        f"- spec digest: `{provenance.spec_digest}`",
        f"- git commit of the code: {f'`{provenance.git_commit}`' if provenance.git_commit else 'not known'}",
        *([f"- training: {_mode(model.ranker)}", f"- form: {model.form}, rows: {model.rows}"] if model else []),
        *(f"- {library} {number}" for library, number in (model.versions if model else {}).items()),
    ]
    yield "\n".join(lines)
    yield "Checksums of all files, this one included, are in `manifest.json`."


def _mode(ranker: RankerSpec) -> str:
    """Returns `stale (staleness 4, wire float32, ...), 2 ranks, 1 parameter servers`."""
    settings = ranker.training.sync.model_dump(exclude={"kind"}, exclude_none=True)
    shown = ", ".join(f"{name} {value}" for name, value in settings.items())
    servers = f", {ranker.num_parameter_servers} parameter servers" if ranker.num_parameter_servers else ""
    return f"{ranker.training.sync.kind}{f' ({shown})' if shown else ''}, {ranker.cluster.ranks} ranks{servers}"


def _periods(days: Sequence[str]) -> str:
    """Returns `2024-03-01 to 2024-03-06 (6)`, with one period for each run of consecutive days."""
    if not days:
        return "no dates"
    runs: list[list[date]] = []
    for day in sorted(map(date.fromisoformat, days)):
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return f"{', '.join(shown)} ({len(days)})" if len(days) > 1 else shown[0]


def _interval(ends: tuple[float, float] | None) -> str:
    return f"[{ends[0]:.4f}, {ends[1]:.4f}]" if ends else ""


def _passed(passed: bool) -> str:
    return "pass" if passed else "**fail**"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Returns a text as one line, with Markdown escaped: names of slices contain ids from the logs."""
    line = " ".join(text.split())
    return "".join(f"\\{character}" if character in "\\|<`" else character for character in line)

"""The draft as YAML: short flow mappings, a line for each feature, and the reason behind it."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sangam.pipelines.drafting.calibrating import (
    band,
    days_to_tune,
    eval_rows,
    held_out_days,
    held_out_share,
    is_calibrated,
)
from sangam.pipelines.drafting.crosses import pairs_of_ids
from sangam.pipelines.drafting.guesses import Guess
from sangam.pipelines.drafting.guessing import Guesses
from sangam.pipelines.drafting.layout import Layout
from sangam.pipelines.drafting.positives import PER_POSITIVE
from sangam.pipelines.drafting.sample import Sample
from sangam.pipelines.drafting.yaml_lines import WIDTH, Aside, Lines, entry, flow, section
from sangam.schemas.loading.editors import FIRST_LINE
from sangam.schemas.spec.cluster import Cluster
from sangam.schemas.spec.data import MOST_DAYS
from sangam.schemas.spec.encodings import PiecewiseLinearEncoding

MOST_ROWS = 2_000_000
"""Most rows to train on in a first run."""
MOST_EVAL_DAYS, DAYS_FOR_EACH_EVAL_DAY = 7, 10
_BATCHES = (256, 128, 64, 32)
EVAL_FRACTION = 0.1
MIN_STEPS, MOST_EPOCHS, MOST_EPOCHS_OF_IDS = 1000, 8, 2
FEWEST_EPOCHS_TRIED, SCORES_PER_EPOCH = 2, 4
"""With days to score on, training tries a second pass at least, and ends after a quarter of one without gain."""
MOST_FULL_INPUTS, RANK = 512, 64
"""Most inputs of a model whose cross layers have full matrices; with more, their products would take the most time."""
_DIM_OF_NUMBER = PiecewiseLinearEncoding(kind="piecewise_linear").dim
ROWS_OF_ID = 100
"""Fewest rows per id of a table; with fewer, its rows overfit after a few epochs."""
ROWS_FOR_ADAM, SAMPLED_FOR_ADAM = 40, 10
"""Fewest rows per id, of the logs and of the sample, for Adam: it moves rows by little, so that ids with fewer stay
unlearned. The sample has fewer ids than large logs, so that the first alone would be too high."""
_PURPOSE = "they decide how long to train, and calibrate; then trained on too"
_HELD_OUT = f"of the train days the newest: {_PURPOSE}"


def written(name: str, layout: Layout, sample: Sample, guesses: Guesses) -> str:
    """Returns the text of a spec.

    Args:
        name: name of the ranker.
        layout: layout of the logs.
        sample: sample of the logs.
        guesses: roles of the sample's columns.
    """
    features = [(each.name, each.settings, each.why) for each in guesses.features]
    sections: list[Iterable[str]] = [
        [*_head(sample, layout), *entry("name", name, "")],
        _data(layout, sample, guesses),
        _event_time(guesses),
        [
            *section("tables", [(table, each.settings, each.why) for table, each in guesses.tables.items()]),
            *_tables_of_left_out(guesses),
        ],
        # The section lists left-out columns as comments: an uncommented one is a feature.
        [*section("features", features), *_left_out(guesses)],
        _tasks(layout, sample, guesses),
        _model(guesses),
        _training(layout, sample, guesses),
        _evaluation(guesses),
        _gates(layout, sample, guesses),
        entry("push", {"kind": "directory", "path": f"serving/{name}"}, ""),
    ]
    return "\n\n".join(text for lines in sections if (text := "\n".join(lines))) + "\n"


def read(sample: Sample, layout: Layout) -> str:
    """Returns the share of the logs that was read, in words."""
    of_all = "all of them" if sample.is_whole else f"of about {sample.num_rows_of_logs:,}"
    return f"{sample.num_rows:,} rows, {of_all}, in {sample.num_files:,} of {len(layout.files):,} files"


def eval_days(layout: Layout) -> int:
    """Returns the number of evaluation days of a first run: a tenth of all days, from 1 to 7."""
    span = (layout.days[-1] - layout.days[0]).days + 1
    return max(1, min(MOST_EVAL_DAYS, span // DAYS_FOR_EACH_EVAL_DAY))


def train_days(layout: Layout, sample: Sample) -> int:
    """Returns the number of train days of a first run: all, up to MOST_DAYS and MOST_ROWS."""
    span = (layout.days[-1] - layout.days[0]).days + 1
    days = min(span - eval_days(layout), MOST_DAYS, MOST_ROWS * span // sample.num_rows_of_logs)
    # At least one day with logs.
    first_eval = layout.days[-1] - datetime.timedelta(days=eval_days(layout) - 1)
    newest = max((day for day in layout.days if day < first_eval), default=layout.days[0])
    return max(days, (first_eval - newest).days)


def held_out(layout: Layout, sample: Sample, guesses: Guesses) -> float:
    """Returns the number of the newest train days that calibrate the model first; without days, the share of rows."""
    if layout.is_by_day:
        return held_out_days(layout, sample, guesses, train_days(layout, sample))
    return held_out_share(layout, sample, guesses, EVAL_FRACTION)


def _head(sample: Sample, layout: Layout) -> Iterator[str]:
    yield FIRST_LINE
    yield "# A draft by `sangam init`. Lines are guesses with their reasons; begin with those marked `check`."
    yield f"# docs/first_spec.md has the rules. Read: {read(sample, layout)}."


def _data(layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[str]:
    yield "data:"
    read = list(_reading(sample, guesses))
    if layout.is_table:
        entries: list[tuple[str, Any, str]] = [
            ("kind", "table", ""),
            ("format", layout.format, ""),
            ("pattern", layout.patterns["table"], layout.note),
            *read,
            *_table_splits(layout, sample, guesses),
        ]
        for key, value, why in entries:
            yield from entry(key, value, why, 2)
        return
    if not layout.is_by_day:
        splits: dict[str, Any] = dict(layout.patterns)
        note = "by their names" + ("; validation is scored after every epoch" if "validation" in splits else "")
        if share := held_out(layout, sample, guesses):
            splits["validation"] = {"fraction": share}
            note = f"by their names; of the train rows a share: {_PURPOSE}"
        to_tune = (
            [] if "validation" in splits else _to_tune("validation", {"fraction": EVAL_FRACTION}, is_refitted=False)
        )
        splits = Lines(splits) if to_tune else splits
        for key, value, why in [("kind", "splits", ""), ("format", layout.format, ""), *read, ("splits", splits, note)]:
            yield from entry(key, value, why, 2)
        for key, value, why in to_tune:
            yield from entry(key, value, why, 4)
        return
    days, evaluated, trained = layout.days, eval_days(layout), train_days(layout, sample)
    first = days[-1] - datetime.timedelta(days=evaluated + trained - 1)
    missing = evaluated + trained - sum(day >= first for day in days)
    rows = sample.num_rows_of_logs * sum(first <= day for day in days) // len(days)
    entries = [
        ("kind", "days", ""),
        ("format", layout.format, ""),
        ("pattern", layout.patterns["days"], layout.note),
        *read,
        ("train_days", trained, f"of {days[0]} to {days[-1]}; about {rows:,} rows, those to evaluate on included"),
        *_validation_days("validation_days", layout, sample, guesses),
        ("eval_days", evaluated, "the newest days, which end with the date of the run"),
    ]
    if missing:
        entries.append(("missing_days", "skip", f"check: {missing} days of these have no files"))
    for key, value, why in entries:
        yield from entry(key, value, why, 2)


def _reading(sample: Sample, guesses: Guesses) -> Iterator[tuple[str, Any, str]]:
    """Yields how cells and columns are read."""
    dialect: dict[str, Any] = {}
    if sample.dialect.separator != ",":
        dialect["separator"] = sample.dialect.separator
    if guesses.absent:
        dialect["missing"] = sorted(guesses.absent)
    if sample.dialect.header:
        dialect["header"] = list(sample.dialect.header)
    if dialect:
        why = (
            "check: the files have no names of columns; write them here" if sample.dialect.header else "as in the files"
        )
        yield "csv", dialect, why
    if guesses.list_separator:
        yield "list_separator", guesses.list_separator, "between the values of a cell; check"
    if guesses.positives:
        yield "negatives", guesses.positives.settings, guesses.positives.why
    if guesses.forms:
        zones = "; check the zones" if any("zone" in form for form in guesses.forms.values()) else ""
        yield "columns", Lines(guesses.forms), f"forms of columns in the files{zones}"


def _table_splits(layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[tuple[str, Any, str]]:
    """Yields how the rows of a table are split."""
    if guesses.event_time is None:
        by = guesses.user and next(each.column for each in guesses.features if each.name == guesses.user)
        yield "eval", {"fraction": EVAL_FRACTION}, "by a hash: no column is a time, by which a split would be better"
        if by:
            yield "by", by, "all rows of one are on one side"
        yield from _validation_share(layout, sample, guesses, "by the hash")
        return
    yield "time", guesses.event_time.column, guesses.event_time.why
    if not layout.days:
        yield "eval", {"fraction": EVAL_FRACTION}, "the newest rows"
        yield from _validation_share(layout, sample, guesses, "the newest")
        return
    days, trained = layout.days, train_days(layout, sample)
    yield "train_days", trained, f"of {days[0]} to {days[-1]}"
    for key, held, why in _validation_days("validation", layout, sample, guesses):
        yield key, {"days": held}, why
    yield "eval", {"days": eval_days(layout)}, "the newest days, which end with the date of the run"


def _validation_share(layout: Layout, sample: Sample, guesses: Guesses, which: str) -> Iterator[tuple[str, Any, str]]:
    if share := held_out(layout, sample, guesses):
        yield "validation", {"fraction": share}, f"of the train rows, {which}: {_PURPOSE}"
    else:
        is_refitted = guesses.event_time is not None and not guesses.positives
        yield from _to_tune("validation", {"fraction": EVAL_FRACTION}, is_refitted=is_refitted)


def _validation_days(key: str, layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[tuple[str, Any, str]]:
    if held := held_out(layout, sample, guesses):
        yield key, held, _HELD_OUT
    elif days := days_to_tune(layout, train_days(layout, sample), eval_days(layout)):
        yield from _to_tune(key, days, is_refitted=not guesses.positives)


def _to_tune(key: str, value: Any, *, is_refitted: bool) -> list[tuple[str, Any, str]]:
    """Returns as a comment the validation split that a draft without one needs for `tune`."""
    then = "its best spec is trained on these rows too" if is_refitted else "they are not trained on"
    return [(Aside(key), value, f"for `tune: auto` to compare by; {then}")]


def _event_time(guesses: Guesses) -> Iterator[str]:
    """Yields the event's time as a comment: specs may name it only with joined logs, expiring rows or `online`."""
    if guesses.event_time:
        yield f"# {guesses.event_time.why}; for data.sources, a table with expire_after_days, or online:"
        yield f"# {flow({'event_time': guesses.event_time.column})[1:-1]}"


def _left_out(guesses: Guesses) -> Iterator[str]:
    if guesses.left_out:
        yield "  # Left out. To use one, remove the first # of its line, for ids here and under tables."
    for each in guesses.left_out:
        text = flow({each.name: each.settings})[1:-1] if each.settings else " ".join(each.column.split())
        yield from _commented(text, each)


def _tables_of_left_out(guesses: Guesses) -> Iterator[str]:
    """Yields as comments the tables that left-out features need."""
    others = {each.settings["table"]: each.name for each in guesses.left_out if "table" in each.settings}
    for table, feature in others.items():
        if table not in guesses.tables:
            yield f"  # {flow({table: {'dim': 8}})[1:-1]}  # for feature {feature}, which is left out"


def _commented(text: str, guess: Guess) -> Iterator[str]:
    line = f"  # {text}  # {guess.why}"
    if len(line) <= WIDTH:
        yield line
    else:
        yield f"  # {guess.why}"
        yield f"  # {text}"


def _tasks(layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[str]:
    calibrated = is_calibrated(layout, sample, guesses, held_out(layout, sample, guesses))
    entries: list[tuple[str, Mapping[str, Any], str]] = []
    for label in guesses.labels:
        settings = _task(label)
        if calibrated and label.column in guesses.rates:
            settings["calibration"] = {"kind": "platt"}
        entries.append((label.name, settings, label.why))
    yield from section("tasks", entries)


def _task(label: Guess) -> dict[str, Any]:
    settings = dict(label.settings)
    if label.name != label.column:
        settings = {"kind": settings.pop("kind"), "label": label.column, **settings}
    return settings


def _model(guesses: Guesses) -> Iterator[str]:
    settings: dict[str, Any] = {"kind": "shared_bottom", "bottom_units": [64, 32], "tower_units": [16]}
    if len(guesses.labels) > 1:
        settings = {"kind": "mmoe", "num_experts": 4, "expert_units": [64, 32], "tower_units": [16]}
    why = ""
    if guesses.positives or guesses.id_rates:
        settings["interaction"] = {"kind": "dcn_v2", "num_layers": 2}
        if _num_inputs(guesses) > MOST_FULL_INPUTS:
            settings["interaction"]["rank"] = RANK
        why = "which items a user takes depends on both together" if guesses.positives else "rates count together"
    yield from entry("model", settings, why)


def _num_inputs(guesses: Guesses) -> int:
    """Returns about how many floats the model reads: rows, vectors, and numbers as they are encoded."""
    rows = [guesses.tables[table].settings["dim"] for each in guesses.features if (table := each.settings.get("table"))]
    others = [each.settings.get("dim", _DIM_OF_NUMBER) for each in guesses.features if "table" not in each.settings]
    return sum(rows) + sum(others)


def _training(layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[str]:
    rows = sample.num_rows_of_logs
    if layout.is_by_day:
        rows = min(rows, MOST_ROWS)
    if guesses.positives:
        rows *= 1 + PER_POSITIVE
    has_many = any(rows < ROWS_OF_ID * table.num_ids for table in guesses.tables.values())
    most = MOST_EPOCHS_OF_IDS if has_many else MOST_EPOCHS
    # With few rows, large batches give too few steps.
    batch = next((size for size in _BATCHES if most * rows >= MIN_STEPS * size * Cluster().ranks), _BATCHES[-1])
    steps = max(1, rows // (batch * Cluster().ranks))
    epochs = max(1, min(most, -(-MIN_STEPS // steps)))
    stops_early = held_out(layout, sample, guesses) > 0
    if pairs_of_ids(guesses.features):
        epochs, why = 1, f"about {steps:,} steps; a second pass would meet rows of pairs that know its labels"
    elif stops_early:
        epochs = max(epochs, FEWEST_EPOCHS_TRIED)
        why = f"about {epochs * steps:,} steps at most"
    else:
        why = f"about {epochs * steps:,} steps" + ("; ids with few rows overfit after few passes" if has_many else "")
    yield "training:"
    if layout.is_by_day:
        yield "  # mode: incremental  # once it runs every day: docs/incremental.md"
    yield from entry("epochs", epochs, why, 2)
    if stops_early:
        settings = {"refit": True} if epochs == 1 else {"per_epoch": SCORES_PER_EPOCH, "refit": True}
        held = "the newest days" if layout.is_by_day else "the validation rows"
        why = f"ends without gain; then trained on {held} as often"
        why = f"first without {held}, to calibrate; then with them" if epochs == 1 else why
        yield from entry("early_stopping", settings, why, 2)
    yield from entry("batch_size_per_rank", batch, "", 2)
    yield from entry("dense_optimizer", {"kind": "adam", "learning_rate": 0.001}, "", 2)
    yield from _rows_optimizer(rows, sample, guesses)


def _rows_optimizer(rows: int, sample: Sample, guesses: Guesses) -> Iterator[str]:
    settings, why = {"kind": "adagrad", "learning_rate": 0.1}, ""
    most_ids = max(
        (guesses.tables[each.settings["table"]].num_ids for each in guesses.features if each.kind == "id"), default=0
    )
    if guesses.id_rates and rows >= ROWS_FOR_ADAM * most_ids and sample.num_rows >= SAMPLED_FOR_ADAM * most_ids:
        column, shown = next(iter(guesses.id_rates.items()))
        settings = {"kind": "adam", "learning_rate": 0.002}
        why = f"rows move little beside rates of ids: {column} is one of {shown}"
    yield from entry("embedding_optimizer", settings, why, 2)


def _evaluation(guesses: Guesses) -> Iterator[str]:
    if guesses.positives:
        yield from entry("keys", {guesses.positives.list_column: {"type": "int"}}, "")
        yield ""
        evaluation = {"list": {"by": guesses.positives.list_column, "k": [10]}}
        yield from entry("evaluation", evaluation, "how high the chosen item is among the sampled ones")
    elif guesses.user:
        why = f"AUC within each {guesses.user}, and intervals that draw all rows of one together"
        yield from entry("evaluation", {"group": {"by": guesses.user}, "confidence": {"by": guesses.user}}, why)


def _gates(layout: Layout, sample: Sample, guesses: Guesses) -> Iterator[str]:
    days = eval_days(layout) if layout.is_by_day else 1
    rows = eval_rows(layout, sample, days, EVAL_FRACTION)
    yield "# Low bounds: raise them to the values of the model. max_drop and max_rise compare it with the last one."
    yield "gates:"
    for label in guesses.labels:
        gate: dict[str, Any] = {"task": label.name, "metric": "auc", "at_least": 0.55, "max_drop": 0.01}
        if label.settings["kind"] != "binary":
            # The error of a model that predicts the mean label.
            most = float(f"{guesses.deviations[label.column]:.3g}")
            gate = {"task": label.name, "metric": "rmse", "at_most": most, "max_rise": float(f"{0.02 * most:.1g}")}
        yield f"  - {flow(gate)}"
        rate = guesses.rates.get(label.column)
        if ends := rate and band(rate, rows, days):
            calibration = {"task": label.name, "metric": "calibration", "at_least": ends[0], "at_most": ends[1]}
            yield f"  - {flow(calibration)}  # predicted over observed"

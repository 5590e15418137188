"""From a sample to the roles of its columns, and the tables of the ids."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sangam.pipelines.drafting.codes import signs_of
from sangam.pipelines.drafting.events import of_one
from sangam.pipelines.drafting.features import finished, named
from sangam.pipelines.drafting.guesses import ColumnFacts, Guess, Settings, by_signs, guess_single
from sangam.pipelines.drafting.id_rates import rates_of_ids
from sangam.pipelines.drafting.labels import coded, find_labels, require_label
from sangam.pipelines.drafting.leaks import leak_of
from sangam.pipelines.drafting.lists import guess_list, split_lists
from sangam.pipelines.drafting.names import name_of, words_of
from sangam.pipelines.drafting.passing import DAY_S, MOSTLY_NEW, NEVER, Days, Earlier, returning
from sangam.pipelines.drafting.positives import Positives, label_of, positives_of
from sangam.pipelines.drafting.progress import Track, untracked
from sangam.pipelines.drafting.rates import Rate, deviations_of, rates_of
from sangam.pipelines.drafting.sample import Sample
from sangam.pipelines.drafting.tables import Table, tables_of, user_of, with_table, with_tables
from sangam.pipelines.drafting.times import Times, find_times, share_after
from sangam.pipelines.drafting.values import Values
from sangam.schemas.errors import UserError

MOST_TABLES = 1000
"""Most tables of ids that are drafted; a spec may have twice as many."""
_MANY = f"more than {MOST_TABLES} columns of ids: let some share a table, and take others in"
SKEWED = 2.0
"""Standard deviations per median from which a label of at least 0, such as money, is predicted by its logarithm."""


@dataclass(frozen=True)
class Guesses:
    """Roles of the columns of the logs.

    Attributes:
        labels: labels with the settings of their tasks.
        deviations: standard deviation of each label that is not 0 or 1, by its column.
        rates: how often each other label is 1, by its column.
        id_rates: numbers that are rates of an id, by their column, each with what shows it.
        event_time: column of the event's time; None without one.
        features: features in the order of the spec, with names and tables.
        left_out: columns that no feature reads.
        tables: tables by name.
        user: feature whose ids are users with several rows each.
        list_separator: separator of lists in CSV.
        forms: forms of columns in the files.
        absent: texts of the files that stand for no value.
        positives: columns of a log of positives alone; None of others.
    """

    labels: tuple[Guess, ...]
    deviations: Mapping[str, float]
    rates: Mapping[str, Rate]
    id_rates: Mapping[str, str]
    event_time: Guess | None
    features: tuple[Guess, ...]
    left_out: tuple[Guess, ...]
    tables: Mapping[str, Table]
    user: str | None
    list_separator: str | None
    forms: Mapping[str, Mapping[str, Any]]
    absent: frozenset[str]
    positives: Positives | None


def guess(
    sample: Sample,
    given_labels: Sequence[str],
    *,
    is_csv: bool,
    earlier: Earlier | None = None,
    track: Track = untracked,
) -> Guesses:
    """Returns the role of each column of a sample.

    Args:
        sample: sample of the logs.
        given_labels: columns that the user names; if empty, they are guessed.
        is_csv: whether types are inferred from the cells that were read.
        earlier: looks for ids in the logs of earlier days, where the sample has some of their rows.
        track: shows progress.

    Raises:
        UserError: no column is a label, or none is a feature.
    """
    separator, columns = split_lists(sample.columns) if is_csv else (None, dict(sample.columns))
    columns = coded(columns, given_labels)
    labels = find_labels(columns, sample.refused, given_labels)
    positives = positives_of(columns, sample.refused) if not labels.tasks else None
    if positives is None:
        require_label(labels, columns)
    times = find_times(columns, sample.day_starts)
    refused = {**sample.refused, **labels.left_out}
    inputs = {name: values for name, values in columns.items() if name not in labels.tasks and name != times.event}
    compared = track(inputs, "comparing columns with the labels")
    refused |= {name: why for name in compared if (why := _leak(columns[name], columns, labels.tasks))}
    facts = {name: ColumnFacts(is_csv, name in sample.complete) for name in inputs}
    made = _guesses(inputs, facts, columns, times, labels.tasks, refused, track)
    ids = {name: inputs[name] for name, one in made.items() if one.kind == "id" and name not in refused}
    days = _days(sample, columns, times)
    known = Days(days if sample.is_whole or earlier else None, earlier, sample.day_starts is not None)
    shares = returning(ids, known)
    made |= {name: _mostly_new(made[name], share) for name, share in shares.items() if NEVER < share < MOSTLY_NEW}
    refused |= _passing(shares, positives)
    refused |= dict.fromkeys([name for name in ids if name not in refused][MOST_TABLES:], _MANY)
    kept = [one for one in made.values() if one.column not in refused and one.kind != "left out"]
    features, matches = finished(kept, columns, times, labels.tasks, known)
    if not features:
        raise UserError("--label: no column remains as a feature (all are labels or left out); name fewer labels")
    tasks = [_label(name, why, columns[name], name in sample.complete) for name, why in labels.tasks.items()]
    return Guesses(
        labels=(label_of(positives),) if positives else tuple(tasks),
        deviations=deviations_of(labels.tasks, columns),
        rates=rates_of(labels.tasks, columns, days),
        id_rates=rates_of_ids(features, labels.tasks, columns, days),
        event_time=Guess(times.event, "event_time", times.why) if times.event else None,
        features=tuple(features),
        left_out=(*_all_left_out(sample, made, refused, {*(one.name for one in features), *labels.tasks}), *matches),
        tables=tables_of(features, columns),
        user=user_of(features, columns),
        list_separator=separator,
        positives=positives,
        forms={name: values.form for name, values in columns.items() if values.form},
        absent=frozenset(text for values in columns.values() for text in values.absent),
    )


def _days(sample: Sample, columns: Mapping[str, Values], times: Times) -> Any:
    """Returns the day of each row; None without days."""
    if sample.day_starts is not None:
        return sample.day_starts // DAY_S
    return columns[times.event].numbers // DAY_S if times.event else None


def _guesses(
    inputs: Mapping[str, Values],
    facts: Mapping[str, ColumnFacts],
    columns: Mapping[str, Values],
    times: Times,
    labels: Mapping[str, str],
    refused: Container[str],
    track: Track,
) -> dict[str, Guess]:
    """Returns a guess for each column, also for those that are left out; ids have names and tables."""
    made = {
        name: _single(name, values, facts[name], columns, times)
        for name, values in inputs.items()
        if not values.is_list
    }
    numbers = [
        name
        for name, one in made.items()
        if one.kind == "numeric" and "at_serving" not in one.settings and name not in refused
    ]
    for name in track(numbers, "telling codes from amounts"):
        made[name] = by_signs(made[name], inputs[name], facts[name], signs_of(name, columns, labels))
    ids = [one for one in made.values() if one.kind == "id" and one.column not in refused]
    ids = with_tables(named(ids, set(labels)))
    made |= {one.column: one for one in ids}
    lists = {name: values for name, values in inputs.items() if values.is_list}
    guessed = {name: guess_list(name, values, facts[name], columns, ids) for name, values in lists.items()}
    kept = {name: guess for name, guess in guessed.items() if name not in refused}
    return made | {name: guessed[name] for name in lists if name in refused} | of_one(kept, columns, times.event)


def _all_left_out(
    sample: Sample, made: Mapping[str, Guess], refused: Mapping[str, str], taken: set[str]
) -> tuple[Guess, ...]:
    return tuple(
        _left_out(made.get(name, Guess(name, "", "")), refused.get(name), taken)
        for name in [*sample.columns, *sample.refused]
        if name in refused or (name in made and made[name].kind in ("left out", "weights"))
    )


def _left_out(made: Guess, why: str | None, taken: set[str]) -> Guess:
    """Returns the guess for a left-out column, with the settings of a possible numeric feature."""
    kind = made.kind if made.kind == "weights" else "left out"
    if not made.settings:
        return Guess(made.column, kind, why or made.why)
    [could_be] = named([made], taken)
    if could_be.settings["kind"] == "id" and "table" not in could_be.settings:
        could_be = with_table(could_be, could_be.name)
    return replace(could_be, kind=kind, why=why or made.why)


def _single(name: str, values: Values, facts: ColumnFacts, columns: Mapping[str, Values], times: Times) -> Guess:
    if name not in times.others:
        return guess_single(name, values, facts)
    if not times.event:
        return Guess(name, "left out", "a time, and no column is that of the event: an age needs both")
    later = share_after(values, columns[times.event])
    if later > 0.01:
        why = f"later than the event in {later:.0%} of the rows: known only after it?"
        return Guess(name, "left out", why)
    settings: Settings = {"kind": "age", "since": name, "at": times.event}
    if not facts.is_complete:
        settings["missing"] = "learned"
    stem = "_".join(word for word in words_of(name) if word not in ("at", "time", "ts", "timestamp"))
    return Guess(name, "age", "seconds since 1970, earlier than the event", f"{stem or name}_age", settings)


def _passing(shares: Mapping[str, float], positives: Positives | None) -> dict[str, str]:
    """Returns the columns of ids that never return, with the reason; not the two by which rows are sampled."""
    needed = {positives.settings["user"], positives.settings["item"]} if positives else set()
    never = {name: share for name, share in shares.items() if share <= NEVER and name not in needed}
    return {name: f"{_of_newest(share)}: nothing to learn" for name, share in never.items()}


def _mostly_new(made: Guess, share: float) -> Guess:
    return replace(made, why=f"{made.why}; mostly new: {_of_newest(share)}", is_mostly_new=True)


def _of_newest(share: float) -> str:
    return f"{share:.1%} of the newest day's rows have one of an earlier day"


def _leak(values: Values, columns: Mapping[str, Values], labels: Mapping[str, str]) -> str:
    told = ((leak_of(values, columns[label]), label) for label in labels)
    return next((f"leak: {why.format(label=f'label {label}')}" for why, label in told if why), "")


def _units(numbers: Any) -> Settings:
    """Returns the loss of a regression, and the center and scale of its labels."""
    is_skewed = numbers.min() >= 0 and numbers.std() > SKEWED * np.median(numbers)
    used = np.log1p(numbers) if is_skewed else numbers
    loss: Settings = {"loss": {"kind": "log"}} if is_skewed else {}
    return {**loss, "center": float(f"{used.mean():.3g}"), "scale": float(f"{used.std() or 1.0:.3g}")}


def _label(name: str, why: str, values: Values, is_complete: bool) -> Guess:
    settings: Settings = {"kind": "binary" if values.is_binary else "regression"}
    if not values.is_binary:
        settings |= _units(values.present_numbers)
    if not is_complete:
        # By default, rows without the label are dropped, and the run stops if they are too many.
        settings["missing_label"] = "mask"
    if values.num_missing:
        why += f"; {values.num_missing / len(values.is_present):.1%} of the rows have none"
    return Guess(name, "label", why, name_of(name), settings)

"""Mistakes in `data.negatives`: columns that do not fit, tasks and settings that sampled rows would distort."""

from collections.abc import Iterator

from sangam.schemas.derived.columns import columns, feature_columns
from sangam.schemas.derived.history import history_features
from sangam.schemas.derived.sources import origins
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import Loc, Problem, listed
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import SplitLogs
from sangam.schemas.spec.models import Aitm, Esmm
from sangam.schemas.spec.negatives import Negatives
from sangam.schemas.spec.tasks import BinaryTask, CrossEntropy

_PLACE: Loc = ("data", "negatives")


def negatives_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    negatives = spec.data.negatives
    if negatives is None:
        return
    yield from _label(spec, negatives)
    for name in spec.tasks:
        yield from _task(spec, negatives, name)
    yield from _columns(spec, negatives)
    yield from _created(spec, negatives)
    yield from _numbers(spec, negatives)
    yield from _elsewhere(spec)


def _label(spec: Spec, negatives: Negatives) -> Iterator[Problem]:
    of_label = [name for name in spec.tasks if spec.label_of(name) == negatives.label]
    if not of_label:
        labels = [spec.label_of(name) for name, task in spec.tasks.items() if isinstance(task, BinaryTask)]
        yield Problem(
            (*_PLACE, "label"),
            f"no task has this label (got '{negatives.label}')",
            f"the label of a binary task: {listed(labels)}",
        )
    for name in of_label:
        if not isinstance(spec.tasks[name], BinaryTask):
            yield Problem(
                (*_PLACE, "label"),
                f"is the label of a task of kind {spec.tasks[name].kind} (got '{negatives.label}')",
                "name the label of a binary task",
            )
    if len(of_label) > 1:
        yield Problem(
            (*_PLACE, "label"), f"is the label of several tasks (got {listed(of_label)})", "declare one task with it"
        )


def _task(spec: Spec, negatives: Negatives, name: str) -> Iterator[Problem]:
    task, loc = spec.tasks[name], ("tasks", name)
    if isinstance(task, BinaryTask) and task.keep_negatives is not None:
        yield Problem(
            (*loc, "keep_negatives"),
            f"the logs have positives only (got {task.keep_negatives:g} with data.negatives)",
            "remove it: data.negatives.per_positive sets the number of negatives",
        )
    if spec.label_of(name) != negatives.label:
        if task.missing_label != "mask":
            yield Problem(
                loc,
                "sampled rows have no label of this task (got missing_label drop)",
                "declare missing_label: mask, and they are not in this task",
            )
        return
    if task.only_where is not None:
        yield Problem(
            (*loc, "only_where"),
            f"every row of the logs is a positive (got '{task.only_where}')",
            "remove it, or remove data.negatives",
        )
    if "missing_label" in task.model_fields_set:
        yield Problem(
            (*loc, "missing_label"),
            f"has no effect: ingestion creates the label (got {task.missing_label})",
            "remove it",
        )
    if not isinstance(task, BinaryTask) or negatives.kept is None:
        return
    got = f"(got per_positive {negatives.per_positive} of judged_per_positive {negatives.judged_per_positive})"
    if not isinstance(task.loss, CrossEntropy) or task.loss.label_smoothing:
        yield Problem(
            (*loc, "loss"),
            f"the logit's correction for sampled rows is exact only for plain cross-entropy {got}",
            "use it, or declare equal numbers in data.negatives",
        )
    if isinstance(spec.model, Esmm | Aitm) and name in spec.model.chain:
        yield Problem(
            ("model", "kind"),
            f"{spec.model.kind} multiplies or compares the tasks' probabilities, and that of '{name}' is corrected "
            f"afterwards {got}",
            "use another model, or declare equal numbers in data.negatives",
        )
    if spec.training.refits:
        yield Problem(
            ("training", "early_stopping", "refit"),
            f"would train on the validation days' candidates, which are more per positive than those of the other days "
            f"{got}",
            "remove it, or declare equal numbers in data.negatives",
        )


def _columns(spec: Spec, negatives: Negatives) -> Iterator[Problem]:
    read = {column.name: column for column in columns(spec)}
    ids: list[tuple[Loc, str]] = [(("item",), negatives.item), (("user",), negatives.user)]
    ids += [(("within", position), name) for position, name in enumerate(negatives.within)]
    values: list[tuple[Loc, str]] = [
        (("item_columns", position), name) for position, name in enumerate(negatives.item_columns)
    ]
    seen: dict[str, Loc] = {}
    for place, name in (*ids, *values):
        loc, column = (*_PLACE, *place), read.get(name)
        # The same value for all candidates may well be one of the item, such as its category.
        first = seen.setdefault(name, place)
        if first != place and {first[0], place[0]} != {"within", "item_columns"}:
            yield Problem(loc, f"is named twice (got '{name}')", "name each column once")
        if column is None:
            yield Problem(
                loc,
                f"no feature, task or key reads this column (got '{name}')",
                "read it by a feature, or by a key that evaluation groups by",
            )
        elif problem := _problem(column, spec, is_id=(place, name) in ids):
            yield Problem(loc, f"{problem} (got '{name}')", "name another column")


def _problem(column: Column, spec: Spec, *, is_id: bool) -> str:
    if column.is_after_event:
        return "is known only after the event"
    if column.name == spec.event_time:
        return "is event_time, which a sampled row has from its positive"
    if is_id and (column.is_list or column.type == "float"):
        return f"is read as {'a list' if column.is_list else 'a float'}, and must be one id"
    return ""


def _created(spec: Spec, negatives: Negatives) -> Iterator[Problem]:
    of = origins(spec.logs)
    for name in negatives.created:
        if name in of:
            yield Problem(
                ("data", "sources", of[name], "columns", name),
                f"is a column that data.negatives creates (got '{name}')",
                "give one of them another name",
            )
    column = negatives.list_column
    if column is None:
        return
    loc = (*_PLACE, "list_column")
    if not any((key.column or name) == column and key.type == "int" for name, key in spec.keys.items()):
        yield Problem(
            loc, f"has no effect: no key reads it (got '{column}')", f"declare a key of type int with column {column}"
        )
    if column in (*negatives.read, negatives.label, spec.event_time):
        yield Problem(loc, f"is another column of the spec (got '{column}')", "give it a name of its own")
    for name in spec.features:
        if any(each.name == column for each in feature_columns(spec, name)):
            yield Problem(
                ("features", name), f"reads a column that ingestion creates (got '{column}')", "name another column"
            )


def _numbers(spec: Spec, negatives: Negatives) -> Iterator[Problem]:
    if negatives.per_positive > negatives.judged_per_positive:
        yield Problem(
            (*_PLACE, "judged_per_positive"),
            f"is less than per_positive (got {negatives.judged_per_positive}, {negatives.per_positive})",
            "judge on at least as many candidates as are trained on",
        )
    if isinstance(spec.logs, SplitLogs) and "days" in negatives.model_fields_set:
        yield Problem(
            (*_PLACE, "days"),
            f"has no effect: candidates are the items of the split (got {negatives.days} with data of kind "
            f"{spec.data.kind})",
            "remove it",
        )
    if isinstance(spec.data, SplitLogs) and spec.data.splits.held_out:
        yield Problem(
            ("data", "splits", "validation"),
            f"would sample candidates of the train rows' own files (got fraction {spec.data.splits.held_out:g} with "
            "data.negatives)",
            "give validation files of its own, or remove it",
        )
    joined = [name for name in negatives.read if name in origins(spec.logs)]
    if negatives.days > 1 and joined:
        yield Problem(
            (*_PLACE, "days"),
            f"columns of earlier days are read without the sources that supply {listed(joined)} (got {negatives.days})",
            "use 1, or columns of the logs themselves",
        )


def _elsewhere(spec: Spec) -> Iterator[Problem]:
    if features := history_features(spec):
        yield Problem(
            ("features", next(iter(features))),
            f"would count sampled rows, of which splits have different numbers (got {listed(list(features))} with "
            "data.negatives)",
            "remove it, or data.negatives",
        )
    if spec.online is not None:
        yield Problem(
            ("online",), "has no sampled rows for rows as they arrive (got data.negatives)", "remove one of them"
        )

"""Choice of labels: columns that the user names, or binary columns that look like user actions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.pipelines.drafting.leaks import leak_of
from sangam.pipelines.drafting.names import entity_of, is_action, is_flag
from sangam.pipelines.drafting.values import Values
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed

MOST_UNDECIDED = 4
"""Largest number of similar binary columns that become labels; more probably encode one choice."""
_SHOWN = 20
_TWINS = 64
"""About as many pairs of rows of one id disprove that a column is its property."""


@dataclass
class Labels:
    """Decisions on the binary columns.

    Attributes:
        tasks: reason why a column is a label, by its name.
        left_out: reason why a column is neither label nor feature, by its name.
    """

    tasks: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def coded(columns: Mapping[str, Values], given: Sequence[str]) -> dict[str, Values]:
    """Returns the columns with labels of two texts, or of -1 and 1, as 0 and 1; the rarer text is 1."""
    made = dict(columns)
    for name in given:
        values = columns.get(name)
        if values is None or values.is_list or values.num_different != 2:
            continue
        different = sorted(values.counts, key=lambda each: (-values.counts[each], str(each)))
        if values.kind == "int" and set(different) == {-1, 1}:
            different = [-1, 1]
        elif values.kind != "string":
            continue
        codes = {str(text): number for number, text in enumerate(different)}
        ones = pc.cast(pc.equal(values.values, pa.scalar(different[1], values.values.type)), pa.int64())
        made[name] = replace(values, kind="int", values=ones, form={"kind": "codes", "values": codes})
    return made


def find_labels(columns: Mapping[str, Values], refused: Mapping[str, str], given: Sequence[str]) -> Labels:
    """Chooses the labels.

    Args:
        columns: columns of the sample.
        refused: columns that no spec reads, with the reasons.
        given: names of labels; if empty, they are guessed.

    Raises:
        UserError: a given name is not a column that can be a label.
    """
    binary = {name: values for name, values in columns.items() if values.is_binary}
    if given:
        return _given(columns, refused, binary, given)
    ids = _ids(columns)
    found, undecided = Labels(), []
    for name, values in binary.items():
        # A flag is known before the event: it is a feature.
        if values.num_different < 2 or is_flag(name):
            continue
        if is_action(name):
            found.tasks[name] = f"check: 0 or 1, named as an action; {_share(values)}"
        elif not _is_of_an_id(values, ids):
            undecided.append(name)
    if len(undecided) <= MOST_UNDECIDED:
        found.tasks |= {name: f"check: 0 or 1, may be a label; {_share(binary[name])}" for name in undecided}
    else:
        found.left_out |= {name: "check: 0 or 1, a label or known before the event?" for name in undecided}
    _leave_out_repeated(found, binary)
    return found


def require_label(found: Labels, columns: Mapping[str, Values]) -> None:
    """Refuses logs without a label.

    Raises:
        UserError: no column looks like one.
    """
    if not found.tasks:
        raise UserError(
            f"--label: is missing, and no column looks like a label (got columns {_some(columns)}); name what to "
            "predict with --label, such as a column of 0 and 1 for a click; or, if each row is a choice, name columns "
            "user_id and item_id"
        )


def _given(
    columns: Mapping[str, Values], refused: Mapping[str, str], binary: Mapping[str, Values], given: Sequence[str]
) -> Labels:
    found = Labels()
    for name in dict.fromkeys(given):
        if name in refused:
            raise UserError(f"--label: cannot be read (got '{name}': {refused[name]}); write it as integers 0 and 1")
        if name not in columns:
            raise UserError(f"--label: no such column (got '{name}'); columns: {_some(columns)}")
        values = columns[name]
        if values.is_list or values.kind == "string":
            what = "lists" if values.is_list else f"{values.num_different} different texts"
            raise UserError(
                f"--label: is no number (got '{name}', a column of {what}); give each text its number under "
                "data.columns, as {kind: codes, values: {good: 1, bad: 0}}"
            )
        if values.num_different < 2:
            only = next(iter(values.counts), "no value")
            raise UserError(
                f"--label: has one value (got '{name}', {only} in all rows read): a model learns from what differs; "
                "name another, or leave --label out if each row is a choice: docs/data.md, data.negatives"
            )
        found.tasks[name] = f"named by --label; {_share(values) if name in binary else 'a number'}"
    ids = _ids(columns)
    for name, values in binary.items():
        if name in found.tasks or values.num_different < 2 or is_flag(name) or _is_of_an_id(values, ids):
            continue
        action = "named as an action, so known after the event" if is_action(name) else "maybe known after the event"
        found.left_out[name] = f"check: 0 or 1, {action}; another label?"
    return found


def _leave_out_repeated(found: Labels, binary: Mapping[str, Values]) -> None:
    """Leaves out labels that equal an earlier one or its negation."""
    kept: list[str] = []
    for name in list(found.tasks):
        for other in kept:
            told = leak_of(binary[name], binary[other])
            if told.startswith(("equals", "is {label} negated")):
                found.left_out[name] = told.format(label=f"label '{other}'")
                del found.tasks[name]
                break
        else:
            kept.append(name)


@dataclass(frozen=True)
class _Ids:
    """A column of ids, which other columns may be properties of.

    Attributes:
        values: the ids.
        first: some rows.
        second: for each of these another row of the same id.
    """

    values: Values
    first: Any
    second: Any


def _ids(columns: Mapping[str, Values]) -> list[_Ids]:
    found = []
    for name, values in columns.items():
        # Not numbers: one that determines a label, such as an amount, is known only after the event.
        if values.is_list or not (values.kind == "string" or (values.kind == "int" and entity_of(name))):
            continue
        if values.num_different > len(values.values) / 2:
            continue
        order = np.argsort(values.codes, kind="stable")
        of_row = values.codes[order]
        twins = np.flatnonzero((of_row[1:] == of_row[:-1]) & (of_row[1:] >= 0))
        twins = twins[:: max(1, len(twins) // _TWINS)]
        found.append(_Ids(values, order[twins], order[twins + 1]))
    return found


def _is_of_an_id(values: Values, ids: Sequence[_Ids]) -> bool:
    """Returns whether all rows of each id of some column have the same 0 or 1: a property of the id, not an outcome."""
    return any(_is_of(values, each) for each in ids)


def _is_of(values: Values, ids: _Ids) -> bool:
    # An id with both values disproves it. Mostly a few rows show one; all rows of thousands of columns take minutes.
    if (values.numbers[ids.first] + values.numbers[ids.second] == 1).any():
        return False
    known = ids.values.is_present & values.is_present
    codes = ids.values.codes[known]
    number = np.bincount(codes)
    ones = np.bincount(codes, values.numbers[known])
    repeated: Any = number > 1
    # A few ids could agree by chance.
    if repeated.sum() < 10 or not ((ones == 0) | (ones == number))[repeated].all():
        return False
    both = ones[repeated] > 0
    return bool(both.any() and not both.all())


def _share(values: Values) -> str:
    present = values.present_numbers
    return f"{present.mean():.1%} are 1" if len(present) else "no value in the sample"


def _some(columns: Mapping[str, Values]) -> str:
    names = list(columns)
    return listed(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")

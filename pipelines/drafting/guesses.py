"""Roles of columns of single values: an id, a number, or none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from sangam.pipelines.drafting.codes import FEW_BINS, Signs
from sangam.pipelines.drafting.names import (
    AGGREGATES,
    CATEGORIES,
    EVENTS,
    IDS,
    ITEMS,
    POSITIONS,
    USERS,
    entity_of,
    is_action,
    words_of,
)
from sangam.pipelines.drafting.values import Values

Settings = dict[str, Any]

_WEIGHT = re.compile(r"(instance|sample|example|row)_weight")
_FREE_TEXT_CHARACTERS, _FREE_TEXT_SHARE = 40, 0.5
_ONE_PER_ROW, _MIN_ROWS = 0.98, 1000
_FEW = 1000
_HASH = 2**40
"""Smallest integer that counts as a hash or a random id."""


@dataclass(frozen=True)
class Guess:
    """The role of a column.

    Attributes:
        column: column of the logs.
        kind: kind of the feature, or `label`, `event_time`, `left out`.
        why: reason, and advice on what to check.
        name: name in the spec.
        settings: settings of the feature; for a left-out column, its possible settings.
        is_mostly_new: whether most rows of the newest day have an id that no earlier day has.
    """

    column: str
    kind: str
    why: str
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_mostly_new: bool = False


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about the logs that a guess depends on.

    Attributes:
        is_csv: whether types are inferred from the cells that were read.
        is_complete: whether every row of the logs has a value, as far as is known.
    """

    is_csv: bool
    is_complete: bool


def guess_single(column: str, values: Values, facts: ColumnFacts) -> Guess:
    """Returns the role of a column of single values; an id has no table yet. A left-out column has the settings of the
    feature that it could be."""
    made = _feature(column, values, facts)
    why = _why_left_out(column, values, made)
    if why and made.kind == "id" and values.kind == "float":
        return Guess(column, "left out", why)  # No feature reads floats as ids.
    return replace(made, kind="left out", why=why) if why else made


def _feature(column: str, values: Values, facts: ColumnFacts) -> Guess:
    if values.kind == "string" or ((values.present_numbers % 1 == 0).all() and _is_id(column, values)):
        return _id(column, values, facts, _why_id(column, values))
    why = f"{'integers' if values.kind == 'int' else 'numbers'} {_range(values)}{_missing(values)}"
    settings = _number(values, facts)
    if values.kind == "int" and words_of(column)[-1:] and words_of(column)[-1] in POSITIONS:
        settings["at_serving"] = int(values.present_numbers.min())
        why += "; check: a bias by its name, which predictions replace by at_serving"
    elif is_action(column) or AGGREGATES & set(words_of(column)):
        why += "; check: known before the event?"
    return Guess(column, "numeric", why, "", settings)


def by_signs(made: Guess, values: Values, facts: ColumnFacts, signs: Signs) -> Guess:
    """Returns the role of a number by its signs: an id if it is a code, few bins if it may be one."""
    told = ", ".join(signs.of_code)
    if signs.is_code and values.kind == "int":
        return _id(made.column, values, facts, f"{_why_id(made.column, values)}, a code: {told}; check")
    if not (signs.is_code or signs.may_be_code):
        return made
    advice = "; for an id write integers or texts" if values.kind == "float" else ""
    encoding = {"kind": "piecewise_linear", "bins": FEW_BINS}
    why = f"{made.why}; few bins, check: a code? {told}{advice}"
    return replace(made, why=why, settings={**made.settings, "encoding": encoding})


def _why_left_out(column: str, values: Values, made: Guess) -> str:
    """Returns why a column should be no feature; empty if it should be one."""
    if values.num_different == 1 and not values.num_missing:
        return f"one value in all rows read ({_shown(values)}): it has no information"
    if made.kind != "id":
        is_weight = _WEIGHT.fullmatch("_".join(words_of(column)))
        return "a weight by its name: for tasks, as example_weight" if is_weight else ""
    if values.kind == "float":
        return "ids written as floats: write them as integers or texts"
    present = int(values.is_present.sum())
    share = values.num_different / max(1, present)
    if values.kind == "string":
        length = pc.mean(pc.utf8_length(values.different[:_FEW])).as_py()
        if length > _FREE_TEXT_CHARACTERS and share > _FREE_TEXT_SHARE:
            return "free text with almost no repeats: write its words as a list in the logs"
    if share > _ONE_PER_ROW and present >= _MIN_ROWS and not (USERS | ITEMS) & set(words_of(column)):
        what = "text" if values.kind == "string" else "id"
        return f"another {what} in each row: nothing to learn; as a key it can group examples"
    return ""


def _is_id(column: str, values: Values) -> bool:
    """Returns whether integers are ids and not amounts."""
    words = words_of(column)
    last = words[-1] if words else ""
    if last in IDS or (len(words) == 1 and last in USERS | ITEMS) or (last in EVENTS and values.num_different > _FEW):
        return True
    if last in CATEGORIES and values.num_different <= _FEW and len(words) <= 3:
        return True
    return len(values.present_numbers) > 0 and float(np.abs(values.present_numbers).max()) >= _HASH


def _why_id(column: str, values: Values) -> str:
    what = "different texts" if values.kind == "string" else "different integers"
    named = ", named as an id" if entity_of(column) else ""
    return f"{values.num_different:,} {what}{named}{_missing(values)}"


def _id(column: str, values: Values, facts: ColumnFacts, why: str) -> Guess:
    # Later cells of a CSV may have other characters than digits.
    settings: Settings = {"kind": "id", "type": "int" if values.kind == "int" and not facts.is_csv else "string"}
    if not facts.is_complete:
        settings["missing_row"] = True
    return Guess(column, "id", why, entity_of(column), settings)


def _number(values: Values, facts: ColumnFacts) -> Settings:
    settings: Settings = {"kind": "numeric"}
    if values.kind == "int" and not facts.is_csv:
        settings["type"] = "int"
    if not facts.is_complete:
        settings["missing"] = "learned"
    return settings


def _range(values: Values) -> str:
    present = values.present_numbers
    return f"from {present.min():.6g} to {present.max():.6g}" if len(present) else "without a value in the sample"


def _missing(values: Values) -> str:
    share = values.num_missing / max(1, len(values.is_present))
    return f", {share:.1%} missing" if values.num_missing else ""


def _shown(values: Values) -> str:
    text = " ".join(str(values.different[0].as_py()).split())
    return text if len(text) <= 20 else f"{text[:17]}..."

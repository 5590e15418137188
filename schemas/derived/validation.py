"""The place in a spec where validation is declared."""

from dataclasses import dataclass

from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import SplitLogs, TableLogs


@dataclass(frozen=True)
class ValidationPlace:
    """Where a spec declares the examples that are neither trained on nor judged.

    Attributes:
        key: path of the setting.
        remedy: a declaration to write there.
    """

    key: str
    remedy: str


def validation_place(spec: Spec) -> ValidationPlace:
    """Returns the place for the kind of a spec's logs."""
    match spec.data:
        case TableLogs():
            share = "{days: 1}" if spec.data.is_by_day else "{fraction: 0.1}"
            return ValidationPlace("data.validation", f"data.validation: {share}")
        case SplitLogs():
            key = "data.splits.validation"
            return ValidationPlace(key, f"{key}: {{fraction: 0.1}}, a share of the train rows, or files of its own")
        case _:
            return ValidationPlace("data.validation_days", "data.validation_days: 1 or more")

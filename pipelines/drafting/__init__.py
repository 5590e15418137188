"""Drafts a spec from logs: how they lie, what a sample of their rows has in each column, and the YAML with the reasons.

`layout` finds the files, `sample` reads rows of some, `guessing` says what each column becomes, `document` writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.drafting.document import read, written
from pipelines.drafting.guessing import Guesses, guess
from pipelines.drafting.layout import layout_of
from pipelines.drafting.sample import read_sample
from schemas.derived.days import Day


@dataclass(frozen=True)
class Draft:
    """A spec for logs that are known by a sample.

    Attributes:
        text: YAML.
        guesses: what the columns become.
        read: how much of the logs was read.
        newest_day: the date of a first run; None for logs without days.
    """

    text: str
    guesses: Guesses
    read: str
    newest_day: Day | None


def draft(data: Path, name: str, labels: Sequence[str]) -> Draft:
    """Drafts a spec.

    Args:
        data: folder of the logs.
        name: of the ranker.
        labels: columns of what to predict; without them they are guessed.

    Raises:
        UserError: the logs cannot be read, no spec describes how they lie, or nothing is a label.
    """
    layout = layout_of(data)
    sample = read_sample(data, layout)
    guesses = guess(sample, labels, is_csv=layout.format == "csv")
    text = written(name, layout, sample, guesses)
    return Draft(text, guesses, read(sample, layout), layout.days[-1] if layout.is_by_day else None)

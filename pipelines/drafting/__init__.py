"""Drafts a spec from logs: the layout of the files, the columns of a sample of rows, and the YAML with its reasons.

`layout` lists the files, `sample` reads rows of some, `guessing` assigns each column a role, `document` writes the
YAML.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sangam.pipelines.drafting.document import read, written
from sangam.pipelines.drafting.earlier_days import look_back
from sangam.pipelines.drafting.guessing import Guesses, guess
from sangam.pipelines.drafting.layout import layout_of
from sangam.pipelines.drafting.progress import Track, untracked
from sangam.pipelines.drafting.rows_of_table import days_of_table, with_labels
from sangam.pipelines.drafting.sample import read_sample
from sangam.schemas.derived.days import Day


@dataclass(frozen=True)
class Draft:
    """A spec drafted from a sample of logs.

    Attributes:
        text: YAML.
        guesses: roles of the columns.
        read: share of the logs that was read, in words.
        newest_day: date of a first run; None for logs without days.
        data: folder or address that the spec's patterns are relative to.
        ignored: files that are left out, and why; may be empty.
    """

    text: str
    guesses: Guesses
    read: str
    newest_day: Day | None
    data: str
    ignored: str = ""


def draft(data: str | Path, name: str, labels: Sequence[str], track: Track = untracked) -> Draft:
    """Drafts a spec.

    Args:
        data: folder of the logs, or a single file, or the address of one.
        name: name of the ranker.
        labels: columns to predict; if empty, they are guessed.
        track: shows progress.

    Raises:
        UserError: the logs cannot be read, no spec describes their layout, or no column is a label.
    """
    layout, labels, ignored = with_labels(layout_of(data), labels)
    sample = read_sample(layout.root, layout, track=track)
    guesses = guess(sample, labels, is_csv=layout.format == "csv", earlier=look_back(layout, sample), track=track)
    if layout.is_table and guesses.event_time:
        layout = replace(layout, days_of_rows=days_of_table(layout, sample, guesses))
    text = written(name, layout, sample, guesses)
    newest = layout.days[-1] if layout.is_by_day else None
    return Draft(text, guesses, read(sample, layout), newest, layout.root, ignored)

"""docs/first_spec.md has the numbers and the options that `sangam init` has."""

from pathlib import Path

import pytest
from typer.main import get_command

from sangam.pipelines.cli import app
from sangam.pipelines.drafting import (
    calibrating,
    document,
    draft,
    earlier_days,
    labels,
    leaks,
    passing,
    reading,
    sample,
    tables,
)
from tests.first_hours.shapes import bank


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return " ".join((repository / "docs" / "first_spec.md").read_text().split())


def test_the_example_is_drafted_as_the_page_has_it(tmp_path: Path, repository: Path) -> None:
    text = (repository / "docs" / "first_spec.md").read_text()
    file = bank(tmp_path)
    made = draft(file, "bank", ["y"])
    printed = made.text[made.text.index("data:\n") : made.text.index("\n\n# times")]
    assert printed in text
    guesses = made.guesses
    rows = [*guesses.labels, guesses.event_time, *guesses.features, *guesses.left_out]
    assert all(each.why in text for each in rows if each)
    assert "\n".join(file.read_text("utf-8-sig").splitlines()[:2]) in text
    assert f"--date {made.newest_day}" in text


def test_every_option_has_its_line(page: str) -> None:
    command = get_command(app).commands["init"]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert options == {"--output", "--label", "--name", "--force", "--json"}
    assert not [option for option in options if option not in page]


def test_the_numbers_are_those_of_the_rules(page: str) -> None:
    told = [
        f"At most {sample.MAX_ROWS:,} rows and {sample.MAX_MEGABYTES} MB",
        f"up to {sample.MAX_GROUPS} days",
        f"up to {sample.MAX_FILES_OF_GROUP} files",
        f"Of up to {sample.MAX_FOOTERS} Parquet files",
        f"One day in {'ten' if document.DAYS_FOR_EACH_EVAL_DAY == 10 else '?'}",
        f"from 1 to {document.MOST_EVAL_DAYS}",
        f"up to {document.MOST_ROWS // 10**6} million rows",
        f"at most {labels.MOST_UNDECIDED} columns",
        f"is {leaks.NEARLY_ALONE} or more",
        f"up to {tables.FEW_IDS} ids in the sample, 8 up to {tables.MANY_IDS:,}",
        f"about {document.MIN_STEPS:,} steps, in at most {document.MOST_EPOCHS} epochs; at most "
        f"{document.MOST_EPOCHS_OF_IDS} where an id of a table has fewer than {document.ROWS_OF_ID} rows",
        f"at most {100 * passing.NEVER:g} % of the newest day's rows have one of an earlier day. Below "
        f"{100 * passing.MOSTLY_NEW:g} % the line says",
        f"up to {earlier_days.MOST_ROWS // 10**6} million rows and {earlier_days.MOST_MEGABYTES} MB",
        f"have {calibrating.FEWEST_OF_LABEL:,} rows of each label, if that is at most a "
        f"{'tenth' if calibrating.TRAIN_DAYS_FOR_EACH == 10 else '?'} of",
        f"from {1 - calibrating.SLACK:g} to {1 + calibrating.SLACK:g}, or within {calibrating.DEVIATIONS:g} standard "
        f"deviations of the evaluated rate by its number of rows and as the days differ, without a gate beyond "
        f"{calibrating.MOST_SLACK:g}",
    ]
    assert not [text for text in told if text not in page]
    assert reading.PLACES == 3

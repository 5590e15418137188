import pytest

from sangam.components.logs.files.listing import FileFacts
from sangam.components.logs.files.resolve import DataFile, Files
from sangam.components.logs.rows.counts import FileCounts, refuse_errors, summed
from sangam.components.reports.ingestion import IngestionReport
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from tests.components.logs.sample_logs import day_logs
from tests.errors import place_and_value

COLUMNS = [Column("like", "int", is_label=True), Column("n", "int")]
FACTS = FileFacts(size_bytes=1, mtime_ns=1)
FILES = Files(
    date="2024-03-01",
    splits=("train", "eval"),
    files=(
        DataFile("a", "train", "2024-02-28", FACTS),
        DataFile("b", "train", "2024-02-29", FACTS),
        DataFile("c", "eval", "2024-03-01", FACTS),
    ),
)
BOTH = ["like", "n"]


def counted(*files: FileCounts, max_dropped_fraction: float = 0.1) -> IngestionReport:
    return summed(FILES, files, day_logs(max_dropped_fraction=max_dropped_fraction), COLUMNS)


def test_files_are_summed_by_split() -> None:
    dropped = {"label missing: like": 1}
    report = counted(
        FileCounts(split="train", path="a", rows_read=10, rows_written=9, dropped=dropped, columns=BOTH),
        FileCounts(split="train", path="b", rows_read=20, rows_written=19, dropped=dropped, columns=BOTH),
        FileCounts(split="eval", path="c", rows_read=5, rows_written=5, ignored={"not finite: x": 2}, columns=BOTH),
    )
    train = report.splits["train"]
    assert (train.num_files, train.read, train.written) == (2, 30, 28)
    assert train.dropped == {"label missing: like": 2}
    assert report.splits["eval"].ignored == {"not finite: x": 2}
    assert report.days == {"train": ["2024-02-28", "2024-02-29"], "eval": ["2024-03-01"]}
    assert IngestionReport.model_validate_json(report.model_dump_json()) == report


def test_too_many_dropped_rows_are_an_error_with_their_reasons() -> None:
    text = r"data.max_dropped_fraction: 2 of 10 rows of split 'eval' .*: label missing: like \(2\) \(got 0.2\); at most"
    with pytest.raises(UserError, match=text):
        counted(
            FileCounts(split="train", path="a", rows_read=9, rows_written=9, columns=BOTH),
            FileCounts(split="train", path="b", rows_read=9, rows_written=9, columns=BOTH),
            FileCounts(
                split="eval", path="c", rows_read=10, rows_written=8, dropped={"label missing: like": 2}, columns=BOTH
            ),
        )


def test_negatives_sampled_out_are_told_and_are_no_dropped_rows() -> None:
    sampled = {"negatives": 8, "negatives_sampled_out": 6}
    report = counted(
        FileCounts(split="train", path="a", rows_read=10, rows_written=4, columns=BOTH, **sampled),
        FileCounts(split="train", path="b", rows_read=2, rows_written=2, columns=BOTH),
        FileCounts(split="eval", path="c", rows_read=5, rows_written=5, columns=BOTH),
    )
    assert report.splits["train"].kept_negatives == 0.25
    [(reason, count)] = report.splits["train"].left_out.items()
    assert ("(kept 0.25 of 8)" in reason, count) == (True, 6)
    assert report.splits["eval"].kept_negatives is None
    assert report.splits["eval"].left_out == {}


def test_a_split_of_which_sampling_leaves_nothing_is_an_error() -> None:
    none = FileCounts(split="train", path="a", rows_read=3, columns=BOTH, negatives=3, negatives_sampled_out=3)
    with pytest.raises(UserError, match=place_and_value("data", "(got 3 negatives sampled out of 3 rows")):
        counted(
            none,
            FileCounts(split="train", path="b", columns=BOTH),
            FileCounts(split="eval", path="c", rows_read=5, rows_written=5, columns=BOTH),
        )


def test_exactly_the_allowed_share_may_be_dropped() -> None:
    report = counted(
        FileCounts(split="train", path="a", rows_read=8, rows_written=8, columns=BOTH),
        FileCounts(split="train", path="b", rows_read=8, rows_written=8, columns=BOTH),
        FileCounts(split="eval", path="c", rows_read=8, rows_written=6, dropped={"r": 2}, columns=BOTH),
        max_dropped_fraction=0.25,
    )
    assert report.splits["eval"].written == 6


def test_a_column_that_no_record_of_a_split_has_is_an_error() -> None:
    with pytest.raises(UserError, match=place_and_value("a: column 'n'", "(got like)")):
        counted(
            FileCounts(split="train", path="a", rows_read=1, rows_written=1, columns=["like"]),
            FileCounts(split="train", path="b", rows_read=1, rows_written=1, columns=["like"]),
            FileCounts(split="eval", path="c", rows_read=1, rows_written=1, columns=BOTH),
        )


READ = [(file.split, file.path) for file in FILES.files]


def test_errors_of_files_stand_in_the_order_of_the_days() -> None:
    with pytest.raises(UserError) as error:
        refuse_errors(
            READ,
            [
                FileCounts(split="eval", path="c", error="c: late"),
                FileCounts(split="train", path="a", rows_read=1, rows_written=1, columns=BOTH),
                FileCounts(split="train", path="b", error="b: early"),
            ],
        )
    assert str(error.value) == "b: early\nc: late"


def test_a_file_that_was_not_read_is_never_passed_over() -> None:
    with pytest.raises(RuntimeError, match="no counts of 1 files"):
        refuse_errors(
            READ,
            [
                FileCounts(split="train", path="a", rows_read=1, rows_written=1, columns=BOTH),
                FileCounts(split="eval", path="c", rows_read=1, rows_written=1, columns=BOTH),
            ],
        )

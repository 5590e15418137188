"""The benchmark of quality: its specs, its rows and its books."""

from pathlib import Path

import pytest

from bench.quality import ids, report
from bench.quality.changes import merged
from bench.quality.experiments import SPECS, TABLES, Table
from bench.quality.results import Result, mean_and_deviation, read, rows
from bench.results import add_line
from sangam.schemas.checks import find_problems
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest

_COUNTS = {"user_id": 1000, "post_id": 500, "author_id": 50}


@pytest.fixture(autouse=True)
def _no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of generated logs need the number of their ids alone."""
    monkeypatch.setattr(ids, "logs", lambda folder: _COUNTS)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_is_a_valid_ranker_of_its_own(table: Table) -> None:
    assert find_problems(load_spec(SPECS / table.spec)) == []
    specs = table.specs()
    assert [problem for spec in specs.values() for problem in find_problems(spec)] == []
    assert len({digest(spec.ranker()) for spec in specs.values()}) == len(specs)
    assert set(table.goals) <= set(next(iter(specs.values())).tasks)


@pytest.mark.slow
def test_hashed_and_collisionless_ids_have_as_many_rows() -> None:
    table = next(each for each in TABLES if each.name == "hash_trick")
    capped = table.specs()["collisionless, rows for 1 in 4 ids"]
    limits = {name: capped.tables[name].capacity for name in ("users", "posts", "authors")}
    assert {name: limit.rows for name, limit in limits.items() if limit} == {"users": 250, "posts": 125, "authors": 12}
    hashed = table.specs()["hashed, rows for 1 in 4 ids"]
    assert [hashed.column_of(name) for name in ("user", "history")] == ["user_id_bucket_4", "recent_posts_bucket_4"]
    assert hashed.table_of("history") == hashed.table_of("post") == "posts"


def test_a_change_reaches_into_members_replaces_kinds_and_takes_away() -> None:
    plain = {"a": {"x": 1, "y": 2}, "model": {"kind": "mmoe", "num_experts": 4}, "gone": 1}
    change = {"a": {"y": 3}, "model": {"kind": "single_task"}, "gone": None, "new": {"kind": "id"}}
    expected = {"a": {"x": 1, "y": 3}, "model": {"kind": "single_task"}, "new": {"kind": "id"}}
    assert merged(plain, change) == expected
    assert plain["gone"] == 1


@pytest.mark.parametrize("path", sorted(SPECS.glob("plain_*.yaml")), ids=lambda path: path.stem)
def test_a_plain_spec_is_valid(path: Path) -> None:
    assert find_problems(load_spec(path)) == []


def _result(row: str, seed: int, auc: float, digest: str = "d", commit: str = "c1") -> Result:
    return Result("table", row, seed, digest, commit, {"like": auc}, 2.0)


def test_what_was_measured_anew_replaces_what_was_measured_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    assert read(path) == []
    for result in (_result("a", 1, 0.5), _result("a", 2, 0.6), _result("a", 1, 0.7, digest="other")):
        add_line(path, result._asdict())
    assert read(path) == [_result("a", 1, 0.7, digest="other"), _result("a", 2, 0.6)]
    assert list(rows(read(path), "table")) == ["a"]
    assert rows(read(path), "none") == {}


def test_the_deviation_is_that_of_a_sample() -> None:
    assert mean_and_deviation([0.9, 0.91, 0.92]) == "0.9100 ± 0.0100"
    assert mean_and_deviation([0.93149]) == "0.9315 (1 seed)"


def test_a_goal_is_missed_where_the_mean_is_below_it_by_four_decimals() -> None:
    table = Table("table", "short_video.yaml", Path(), dict, goals={"like": 0.95})
    found = rows(
        [
            _result("a", 1, 0.94993),
            _result("a", 2, 0.94998, commit="c2"),
            _result("b", 1, 0.9499)._replace(epoch_cpu_s=2.5),
        ],
        "table",
    )
    assert report.markdown(table, found).splitlines()[2:] == [
        "| wanted | 0.9500 |  |  |  |",
        "| a | 0.9500 ± 0.0000 | 2 | 2.0 | c1, c2 |",
        "| b | 0.9499 (1 seed) (missed) | 1 | 2.5 | c1 |",
    ]


def test_a_table_that_was_not_measured_stays_as_it_is(tmp_path: Path) -> None:
    document = tmp_path / "quality.md"
    document.write_text(
        "before\n<!-- one -->\nold\n<!-- end of one -->\nafter\n<!-- two -->\nkept\n<!-- end of two -->\n"
    )
    report.put(document, "one", "new")
    expected = "before\n<!-- one -->\n\nnew\n\n<!-- end of one -->\nafter\n<!-- two -->\nkept\n<!-- end of two -->\n"
    assert document.read_text() == expected
    report.write(document, [Table("two", "short_video.yaml", Path(), dict)], [])
    assert document.read_text() == expected


def test_the_document_has_a_place_for_every_table(repository: Path) -> None:
    text = (repository / "docs" / "quality.md").read_text()
    for name in [table.name for table in TABLES]:
        assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1

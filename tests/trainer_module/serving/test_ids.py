"""The ids that an export keeps of its rows."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.contracts.export import IDS_REPORT_FILE, IdsReport, ids_file
from sangam.schemas.contracts.training_job import TrainJob

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")


def _job(directory: Path, world: Path, **fields: Any) -> TrainJob:
    from tests.trainer_module.serving.sample_training import declared, job_of

    ranker = declared()
    kept = ranker.model_copy(update={"export": ranker.export.model_copy(update={"ids": True})})
    return job_of(directory, world, kept).model_copy(update=fields)


def _kept(model: Path, table: str) -> list[Any]:
    from sangam.components.examples.reading import batches

    return [value for batch in batches(str(model / ids_file(table))) for value in batch.column(0).flatten().to_pylist()]


def _seen() -> dict[str, set[Any]]:
    """Returns the ids of the examples that have a row, and those that the spec declares."""
    from tests.trainer_module.serving.sample_training import NUM_EXAMPLES, POSTS, TAGS, USERS, rows

    found: dict[str, set[Any]] = {"users": {"u3"}, "posts": set(), "tags": set()}
    for row in rows(NUM_EXAMPLES, seed=1):
        found["users"] |= {*row["User ID"], *row["friend"]} & set(USERS)
        found["posts"] |= {*row["post-id"], *row["history"]} & set(POSTS)
        found["tags"] |= {*row["tags"]} & set(TAGS)
    return found


def test_ids_with_a_row_are_kept_once_and_those_of_the_base_with_them(served_world: Path, tmp_path: Path) -> None:
    from sangam.trainer_module.serving.ids import write_ids

    examples = (str(served_world / "examples.blocks"),)
    write_ids(_job(tmp_path, served_world, id_files=examples), tmp_path / "first")
    expected = _seen()
    for table, ids in expected.items():
        kept = [each.decode() if isinstance(each, bytes) else each for each in _kept(tmp_path / "first", table)]
        assert sorted(kept) == sorted(ids)
    report = IdsReport.model_validate_json((tmp_path / "first" / IDS_REPORT_FILE).read_bytes())
    assert {name: (each.type, each.ids, each.rows) for name, each in report.tables.items()} == {
        "users": ("string", len(expected["users"]), 40),
        "posts": ("int", len(expected["posts"]), 80),
        "tags": ("string", len(expected["tags"]), 20),
    }
    # Without any logs, the base's ids are there. Ids of another table have no row here, wherever they come from.
    base = tmp_path / "first"
    (base / ids_file("tags")).write_bytes((base / ids_file("users")).read_bytes())
    write_ids(_job(tmp_path, served_world, base_model=str(base)), tmp_path / "second")
    assert sorted(_kept(tmp_path / "second", "posts")) == sorted(expected["posts"])
    assert _kept(tmp_path / "second", "tags") == []

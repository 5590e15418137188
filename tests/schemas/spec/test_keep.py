"""The section `keep`: what it may say, and that it changes no digest."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.problems import SpecError
from sangam.schemas.spec import digest
from tests.schemas.sample_specs import loaded


def test_what_stays_changes_no_digest(tmp_path: Path) -> None:
    plain, kept = loaded(tmp_path), loaded(tmp_path, {"keep": {"runs": 30, "models": 5, "checkpoints": 2}})
    assert kept.keep
    assert (kept.keep.runs, kept.keep.models, kept.keep.checkpoints) == (30, 5, 2)
    assert digest(kept) == digest(plain)
    assert digest(kept.ranker()) == digest(plain.ranker())


def test_a_spec_without_the_section_keeps_everything(tmp_path: Path) -> None:
    assert loaded(tmp_path).keep is None


@pytest.mark.parametrize(
    ("section", "place"),
    [
        # A rollback needs the one before.
        ({"models": 1}, "keep.models: not allowed (got 1)"),
        ({"checkpoints": 1}, "keep.checkpoints: not allowed (got 1)"),
        ({"runs": 0}, "keep.runs: not allowed (got 0)"),
        ({"days": 3}, "keep.days: unknown key"),
        ({}, "keep: "),
    ],
)
def test_what_is_refused(tmp_path: Path, section: dict[str, Any], place: str) -> None:
    with pytest.raises(SpecError) as refused:
        loaded(tmp_path, {"keep": section})
    assert place in str(refused.value)

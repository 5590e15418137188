"""The page of a run, from its summary and those of the runs before it."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.record.run import RunRecord
from sangam.components.record.store import write_record
from sangam.components.reports.spec_file import write_spec
from sangam.pipelines.local.result.page import write_page
from sangam.schemas.contracts.root import Root
from sangam.schemas.loading import load_spec
from tests.components.record.sample_records import record
from tests.schemas.sample_specs import changed, write

pytestmark = pytest.mark.slow  # TensorBoard's writer of events imports TensorFlow.

_TASK: dict[str, Any] = {"metrics": {"auc": 0.7}, "gates": []}


def _ended(root: Root, run: str, date: str, changes: dict[str, Any], **more: Any) -> RunRecord:
    folder = root.run(run).path
    folder.mkdir(parents=True)
    write_spec(folder, load_spec(write(folder / "given.yaml", changed(changes))))
    fields: dict[str, Any] = {"run": run, "path": str(folder), "name": "sample", "date": date, "tasks": {"like": _TASK}}
    ended = record(**{**fields, **more})
    write_record(ended)
    return ended


def _root(folder: Path) -> Root:
    root = Root(str(folder))
    root.metadata.touch()
    return root


def test_the_page_has_the_days_before_and_what_changed_in_the_spec(tmp_path: Path) -> None:
    root = _root(tmp_path)
    _ended(root, "20260301T000000-a", "2026-03-01", {})
    _ended(root, "20260302T000000-a", "2026-03-02", {"tasks.like.weight": 2.0})
    ended = _ended(root, "20260303T000000-a", "2026-03-03", {"tasks.like.weight": 3.0})
    page = write_page(ended, {}, tmp_path / "none.log")
    assert page == root.run(ended.run).path / "report.html"
    text = page.read_text()
    assert '<th scope="row">tasks.like.weight</th><td><code>2.0</code></td><td><code>3.0</code></td>' in text
    assert "weight: 3.0" in text


def test_a_failed_run_has_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "step.log").write_text("".join(f"line {number}\n" for number in range(100)))
    failed = {"status": "failed", "error": "disk <full>", "failed_step": "trainer", "blessed": None, "tasks": {}}
    ended = _ended(_root(tmp_path), "20260301T000000-a", "2026-03-01", {}, **failed)
    page = write_page(ended, {}, tmp_path / "step.log")
    assert page is not None
    text = page.read_text()
    assert "disk &lt;full&gt;" in text
    assert "line 99" in text
    assert "line 50" not in text
    assert f"the same command resumes after the last finished step: sangam run {ended.path}/spec.json" in text


def test_the_page_of_a_mistake_has_the_mistake_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "step.log").write_text("Traceback (most recent call last):\n")
    failed = {"status": "failed", "error": "a.csv: wrong", "exit_code": 2, "failed_step": "example_gen", "tasks": {}}
    ended = _ended(_root(tmp_path), "20260301T000000-a", "2026-03-01", {}, **failed)
    page = write_page(ended, {}, tmp_path / "step.log")
    assert page is not None
    assert "a.csv: wrong" in page.read_text()
    assert "Traceback" not in page.read_text()


def test_a_page_that_cannot_be_made_fails_no_run(tmp_path: Path) -> None:
    ended = _ended(_root(tmp_path), "20260301T000000-a", "2026-03-01", {})
    (Path(ended.path) / "spec.json").write_text("{")
    assert write_page(ended, {}, tmp_path / "none.log") is None

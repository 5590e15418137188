"""The steps of a run as they go: the same lines in memory and in the run's folder."""

from pathlib import Path

from sangam.components.record.journal import Journal, read_journal
from sangam.components.record.run import Artifact, Step
from sangam.schemas.contracts.root import RunFolder

LOGS = {"examples": Artifact("/examples", {"note": "a\nb", "pushed": 1})}


def written(folder: Path) -> Journal:
    """Notes a step that came from the cache, one under way, and one to come."""
    journal = Journal(clock=lambda: 5.0)
    journal.opened(folder, "c0ffee", "2024-03-05")
    journal.planned(["a", "b", "c"])
    journal.step_started("a")
    journal.step_ended(Step("a", "cached", 0.5, 10, LOGS, 0.25))
    journal.step_started("b")
    return journal


def test_steps_are_read_as_far_as_they_are_written(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert (read_journal(run).steps, read_journal(run).date) == ({}, "")
    run.logs.mkdir()
    journal = written(tmp_path)
    assert journal.read() == read_journal(run)
    with run.steps.open("a") as file:
        file.write('no json\n{"step": {"name": "b"}}\n["a"]\n' + "[" * 5000 + '\n{"step": {"name": "b", "sta')
    noted = read_journal(run)
    assert noted == journal.read()
    assert (noted.folder, noted.commit, noted.date) == (tmp_path, "c0ffee", "2024-03-05")
    assert noted.steps == {
        "a": Step("a", "cached", 0.5, 10, LOGS, 0.25, started_at=5.0),
        "b": Step("b", "running", started_at=5.0),
        "c": Step("c", "waiting"),
    }


def test_a_full_disk_silences_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "no" / "folder"
    journal = written(folder)
    assert not folder.exists()
    assert read_journal(RunFolder(folder)).steps == {}
    assert list(journal.read().steps) == ["a", "b", "c"]


def test_of_a_run_that_was_killed_the_step_under_way_has_ended_and_none_is_to_come(tmp_path: Path) -> None:
    ended = written(tmp_path).read().ended("failed", now=8.0)
    assert {name: (step.state, step.seconds) for name, step in ended.items()} == {
        "a": ("cached", 0.5),
        "b": ("failed", 3.0),
    }

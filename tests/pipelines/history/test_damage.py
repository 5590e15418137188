"""A damaged run is a row that says so: it hides no other, in no command and on no page."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sangam.components.record.store import read_runs
from sangam.pipelines.cli import app
from sangam.schemas.contracts.root import Root, RunFolder
from tests.pipelines.ui.sample_root import NEW, OLD, run_id, write_runs
from tests.pipelines.ui.test_application import answers

pytestmark = pytest.mark.slow

BAD = run_id(OLD)


def changed(**fields: Any) -> Callable[[Path], None]:
    """Returns what puts other values into a record."""

    def damage(file: Path) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))

    return damage


def written(content: bytes) -> Callable[[Path], object]:
    """Returns what puts other bytes into a file."""
    return lambda file: file.write_bytes(content)


def replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Returns what puts something else into a file's place."""

    def damage(file: Path) -> None:
        file.unlink()
        make(file)

    return damage


def huge(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(2**31)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "nested": written(b'{"run": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "folder": replaced(lambda file: file.mkdir()),
    "loop of links": replaced(lambda file: file.symlink_to(file)),
    "link to nowhere": replaced(lambda file: file.symlink_to("/no/such")),
    "pipe": replaced(lambda file: os.mkfifo(file)),
    "not UTF-8": written(b"\xff\xfe\x00"),
    "empty": written(b""),
    "truncated": lambda file: file.write_text(file.read_text()[:200]),
    "huge": huge,
    "no object": written(b"[]"),
    "date of no day": changed(date="2024-13-45"),
    "year out of range": changed(date="99999-01-01"),
    "start out of range": changed(started_at=1e300),
    "duration out of range": changed(total_seconds=1e300),
    "endless duration": changed(total_seconds=float("inf")),
    "number of a thousand digits": changed(rows={"train": {"num_files": 10**999, "read": 1, "written": 1}}),
    "wrong type": changed(steps=["trainer"]),
    "step of a wrong type": changed(steps={"trainer": 7}),
    "name of a wrong type": changed(name=7),
    "other keys": changed(other=1),
    "half a character": changed(name="\ud800"),
    "markup": changed(name="[/x]", status="[bold]"),
}


def sangam(*arguments: str) -> Result:
    """Runs a command that must succeed."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "250"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Five runs, no ML Metadata."""
    root = write_runs(tmp_path_factory.mktemp("sample"))
    root.metadata.unlink()
    return root


@pytest.fixture
def root(sample: Root, tmp_path: Path) -> Root:
    return Root(str(shutil.copytree(sample.path, tmp_path / "root")))


@pytest.fixture(scope="module")
def damaged(sample: Root, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A root with a run of each kind of damage beside the five, by kind."""
    root = Root(str(shutil.copytree(sample.path, tmp_path_factory.mktemp("damaged") / "root")))
    runs = {
        kind: root.run(f"202403{20 + place // 24:02}T{place % 24:02}0000-1a2b3c4d") for place, kind in enumerate(DAMAGE)
    }
    for kind, run in runs.items():
        shutil.copytree(root.run(BAD).path, run.path)
        run.page.unlink()
        DAMAGE[kind](run.summary)
    return runs


def state_of(kind: str) -> str:
    """Returns the state of a run with this damage: a link to nowhere is as if no record were there."""
    return "killed" if kind == "link to nowhere" else "unreadable"


def test_every_damaged_run_is_a_row_among_the_others(damaged: dict[str, RunFolder]) -> None:
    root = damaged["empty"].path.parents[1]
    told = json.loads(sangam("runs", str(root), "--last", "100", "--json").stdout)
    assert [run["state"] for run in told[-5:]] == ["pushed", "failed", "refused", "pushed", "pushed"]
    states = {run.path.name: state_of(kind) for kind, run in damaged.items()}
    assert {run["id"]: run["state"] for run in told[:-5]} == states
    assert all(run["error"] for run in told[:-5] if run["state"] == "unreadable")
    printed = [line.split() for line in sangam("runs", str(root), "--last", "100").stdout.splitlines()[1:]]
    assert len(printed) == len(told)
    pages = answers(Root(str(root)), "/", "/overview", "/compare")
    assert [status for status, *_ in pages] == [200] * 3
    for _, text, _ in pages:
        assert text.count("unreadable") >= len(DAMAGE) - 1
        assert all(run in text for run in states if states[run] == "unreadable")


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_run_says_so(damaged: dict[str, RunFolder], kind: str) -> None:
    run, state = damaged[kind], state_of(kind)
    other = run.path.parent / run_id(NEW)
    assert sangam("show", str(run.path)).stdout.startswith(f"{state}: ")
    assert json.loads(sangam("show", str(run.path), "--json").stdout)["summary"] is None
    assert sangam("why", str(run.path)).stdout.startswith(f"{run.path.name} {state}: ")
    assert json.loads(sangam("why", str(run.path), "--json").stdout)["state"] == state
    assert f"-> {state}" in sangam("diff", str(other), str(run.path)).stdout


@pytest.mark.long
def test_every_page_of_a_damaged_run_says_so(damaged: dict[str, RunFolder]) -> None:
    paths = [path for run in damaged.values() for path in pages_of(run.path.name)]
    states = [state_of(kind) for kind in damaged for _ in range(3)]
    root = Root(str(damaged["empty"].path.parents[1]))
    for path, state, (status, text, _) in zip(paths, states, answers(root, *paths), strict=True):
        assert (path, status, state in text) == (path, 200, True)


def pages_of(run: str) -> tuple[str, str, str]:
    """Returns the pages that show a run."""
    return f"/runs/{run}", f"/runs/{run}/live", f"/compare?a={run}&b={run_id(NEW)}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["nested", "folder", "loop of links", "not UTF-8", "empty"])
def test_other_damage_in_runs_folders_hides_no_run_either(root: Root, kind: str) -> None:
    files = ("spec.json", "logs", "logs/steps.jsonl", "logs/progress.jsonl", "report.html")
    folders = [root.run(run_id(number)) for number in range(len(files))]
    for folder, file in zip(folders, files, strict=True):
        path = folder.path / file
        if file == "logs":
            shutil.rmtree(path)
        if not path.exists():
            path.write_text("{}")
        DAMAGE[kind](path)
    assert len(sangam("runs", str(root.path)).stdout.splitlines()) == 6
    for folder in folders:
        sangam("show", str(folder.path))
        sangam("why", str(folder.path))
        sangam("diff", str(folders[NEW].path), str(folder.path))
    paths = ["/", *(path for folder in folders for path in pages_of(folder.path.name))]
    assert {
        path: status for path, (status, *_) in zip(paths, answers(root, *paths), strict=True) if status != 200
    } == {}


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to(path)])
def test_what_is_no_folder_of_a_run_says_so(root: Root, make: Callable[[Path], object]) -> None:
    make(root.runs / "20240401T000000-1a2b3c4d")
    make(root.runs / "99990101T000000-1a2b3c4d")
    newest, *others = read_runs(root.path)
    assert (newest.id, len(others)) == ("20240401T000000-1a2b3c4d", 5)
    assert newest.state in ("killed", "unreadable")
    assert newest.state in sangam("why", str(root.path)).stdout
    sangam("runs", str(root.path))
    assert [status for status, *_ in answers(root, "/")] == [200]

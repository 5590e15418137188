"""docs/python.md, the examples of the API's docstrings and the notebook run as they are written, on one run."""

import contextlib
import doctest
import functools
import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import pytest
import tensorflow as tf
from nbclient import NotebookClient

import sangam
from sangam.pipelines.api import client, root, run, running, spec
from sangam.pipelines.history.show import read_shown
from tests.components.server.server_process import wait_until
from tests.paths import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

ADDRESS = "127.0.0.1:8501"
MODULES = (spec, running, run, root, client)
COMMAND = [sys.executable, "-m", "sangam.pipelines.cli"]


@pytest.fixture(scope="module")
def page() -> str:
    return (REPOSITORY / "docs" / "python.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder, in which everything runs."""
    made = tmp_path_factory.mktemp("python")
    with contextlib.chdir(made):
        yield made


@pytest.fixture(scope="module")
def names(page: str, folder: Path) -> dict[str, Any]:
    """The names that the page has defined before it serves the model, and what it has printed as `printed`."""
    found: dict[str, Any] = {}
    before = page.partition("## Scores of a server")[0]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for block in re.findall(r"```python\n(.*?)```", before, re.DOTALL):
            exec(compile(block, "docs/python.md", "exec"), found)
    return found | {"printed": printed.getvalue()}


@pytest.fixture(scope="module")
def address(page: str, folder: Path, names: dict[str, Any]) -> Iterator[str]:
    """The address of the server that the page starts, on free ports."""
    [line] = re.findall(r"```sh\n(.*)\n```", page)
    program, *arguments = line.split()
    assert program == "sangam"
    file = folder / "served.json"
    ports = ["--rest-port", "0", "--grpc-port", "0", "--address-file", str(file)]
    server = subprocess.Popen([*COMMAND, *arguments, *ports], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: file.exists() or server.poll() is not None, "the model is served")
        yield json.loads(file.read_text())["rest"]
    finally:
        server.terminate()
        server.wait()


def test_the_page_runs_as_it_is_written(page: str, names: dict[str, Any], address: str) -> None:
    printed, ran = names["printed"], names["run"]
    assert ran.state == "pushed", ran.why()
    for told in ("model.kind: ", "(got 'mmo')", f"run {ran.id}, logs in", repr(ran), "example_gen", str(ran.model)):
        assert told in printed
    scored, [block] = (
        dict(names),
        re.findall(r"```python\n(.*?)```", page.partition("## Scores of a server")[2], re.DOTALL),
    )
    exec(block.replace(ADDRESS, address), scored)
    # It has learned the taste that the page made up.
    frame = names["frame"].tail(200)
    assert np.corrcoef(scored["scores"].clicked, names["taste"].tail(200))[0, 1] > 0.7
    assert (scored["scores"].index == frame.index).all()
    np.testing.assert_allclose(scored["here"].clicked, scored["scores"].clicked, atol=1e-6)


def test_rows_are_scored_as_the_ranks_have_scored_them(names: dict[str, Any], address: str) -> None:
    [training] = [output.path for output in read_shown(names["run"]._stored).outputs if output.key == "training"]
    examples = list(tf.data.TFRecordDataset(str(training / "check_examples.tfrecord")).as_numpy_iterator())
    rows = []
    for example in examples:
        features = tf.train.Example.FromString(example).features.feature
        kinds = {name: getattr(each, each.WhichOneof("kind")).value for name, each in features.items()}
        rows.append({name: (values[0] if values else None) for name, values in kinds.items()})
    rows = [{name: each.decode() if isinstance(each, bytes) else each for name, each in row.items()} for row in rows]
    with sangam.client(address) as connected:
        scores = connected.score(rows)
    expected = np.load(training / "check_scores.npz")["clicked"][: len(rows), 0]
    assert len(rows) > 100
    np.testing.assert_allclose(scores.clicked, expected, atol=1e-5)


def _documented(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the public definitions of a module, and of its classes."""
    for name, found in vars(module).items():
        if name.startswith("_") or getattr(found, "__module__", "") != module.__name__ or not inspect.getdoc(found):
            continue
        if inspect.isclass(found) or inspect.isfunction(found):
            yield name, found
        for member, value in vars(found).items() if inspect.isclass(found) else ():
            value = getattr(value, "__func__", value)
            is_own = inspect.isroutine(value) or isinstance(value, property | functools.cached_property)
            if is_own and not member.startswith("_"):
                yield f"{name}.{member}", value


def _examples() -> dict[str, str]:
    return {name: inspect.getdoc(found) or "" for module in MODULES for name, found in _documented(module)}


INTERNAL = {"spec_of"}


@pytest.mark.parametrize("name", sorted(_examples().keys() - INTERNAL))
def test_the_example_of(name: str, names: dict[str, Any], address: str) -> None:
    text = _examples()[name].replace(ADDRESS, address)
    known = {key: value for key, value in names.items() if not key.startswith("__")} | {"sangam": sangam, "Path": Path}
    with sangam.client(address) as connected:
        test = doctest.DocTestParser().get_doctest(text, {**known, "client": connected}, name, None, 0)
        assert test.examples
        told = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(test, out=told.write).failed == 0, told.getvalue()


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    names: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the page's folder: the steps of its run, which is the page's, are taken from the cache."""
    notebook = nbformat.read(REPOSITORY / "examples" / "first_ranker.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)  # They would be another run's.
    program = tmp_path / "sangam"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sangam.pipelines.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=550, kernel_name="python3", resources=resources).execute()
    shown = [json.dumps(cell.outputs) for cell in cells]
    assert any("pushed, after" in text and "9 of 9 steps cached" in text for text in shown)
    assert any("text/html" in text and "<iframe sandbox" in text for text in shown)
    assert "score" in shown[-2]
    assert shown[-1].count("execute_result") == 1

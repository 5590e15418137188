"""A real server that follows deltas while it is asked: no request fails, and it goes back when told to."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.training_job import TrainJob
from tests.components.server.server_process import running, wait_until
from tests.trainer_module.serving.sample_deltas import LINEAGE, publish, push

pytestmark = pytest.mark.processes
tf = pytest.importorskip("tensorflow")

Exported = Callable[[str, str], TrainJob]


def _keys(count: int) -> np.ndarray:
    from sangam.trainer_module.transforms.keys import id_keys
    from tests.trainer_module.serving.sample_training import declared

    ids = tf.constant([f"u{number}" for number in range(count)])
    keys: np.ndarray = id_keys(declared().table_tags()["users"], ids).numpy()
    return keys


def _rollback(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sangam.pipelines.cli", "rollback", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class _Load:
    """Asks a server without a pause; remembers its scores and what went wrong."""

    def __init__(self, server: Any):
        from tests.trainer_module.serving.sample_training import encoded, rows

        self._server, self._stop = server, threading.Event()
        self._examples = [encoded(row | {"User ID": ["u1"]}) for row in rows(8, seed=3)]
        self.wrong: list[str] = []
        self.num_answers = 0
        self._thread = threading.Thread(target=self._ask)

    def scores(self) -> list[float]:
        """Returns the scores now."""
        import base64

        body = {"inputs": {"examples": [{"b64": base64.b64encode(each).decode()} for each in self._examples]}}
        answer = self._server.post(body, "/v1/models/served:predict")
        assert answer.status_code == 200, answer.text
        like: list[list[float]] = answer.json()["outputs"]["like"]
        return [value for [value] in like]

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self.scores()
                self.num_answers += 1
            except BaseException as error:  # noqa: BLE001 Whatever it is, it must not be.
                self.wrong.append(repr(error))

    def __enter__(self) -> "_Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.long
def test_a_server_follows_deltas_under_load_goes_back_and_forth_and_starts_where_it_was(
    exported: Exported, tmp_path: Path
) -> None:
    versions, scratch = tmp_path / "versions", tmp_path / "scratch"
    scratch.mkdir()
    push(Path(exported("stock", "float32").model_dir), versions)
    keys = _keys(500)

    def delta(number: int) -> None:
        rows = np.random.default_rng(number).normal(size=(500, 8)).astype(np.float32)
        publish(versions, number, {"adagrad_8": (keys, rows)})

    with running(versions, scratch, "--poll-s", "0.1", "--name", "served") as server:

        def served() -> Any:
            return json.loads(server.get("/deltas").text)

        with _Load(server) as load:
            scores = {0: load.scores()}
            assert (served()["lineage"], served()["delta"], served()["problem"]) == (LINEAGE, 0, None)
            for number in (1, 2, 3):
                delta(number)
                wait_until(lambda wanted=number: served()["delta"] == wanted, "the delta is served")
                scores[number] = load.scores()
            assert len({tuple(each) for each in scores.values()}) == 4
            assert (server.metric("sangam_delta"), server.metric("sangam_delta_rows")) == (3.0, 1500.0)
            assert served()["rows_applied"] == 1500

            done = _rollback(str(versions), "--to", f"{LINEAGE}+2", "--because", "likes fell")
            assert (done.returncode, done.stderr) == (0, "")
            wait_until(lambda: served()["delta"] == 2, "the server has gone back")
            assert load.scores() == scores[2]
            delta(4)
            assert _rollback(str(versions), "--release", LINEAGE).returncode == 0
            wait_until(lambda: served()["delta"] == 4, "the server goes on")
            scores[4] = load.scores()
            asked = load.num_answers
            wait_until(lambda: load.num_answers > asked + 20, "the load goes on")
        assert load.wrong == []
    with running(versions, scratch, "--name", "served") as server:
        assert json.loads(server.get("/deltas").text)["delta"] == 4
        assert _Load(server).scores() == scores[4]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (("--to", f"{LINEAGE}+9", "--because", "x"), "--to"),
        (("--to", f"{LINEAGE}+x", "--because", "x"), "--to"),
        (("--to", f"{LINEAGE}+1"), "--because"),
        (("--release", LINEAGE), "--release"),
    ],
)
def test_a_hold_that_cannot_be_is_refused(
    exported: Exported, tmp_path: Path, options: tuple[str, ...], place: str
) -> None:
    from typer.testing import CliRunner

    from sangam.pipelines.cli import app
    from sangam.schemas.errors import UserError

    versions = tmp_path / "versions"
    push(Path(exported("stock", "float32").model_dir), versions)
    publish(versions, 1, {"adagrad_8": (_keys(2), np.zeros([2, 8], np.float32))})
    result = CliRunner().invoke(app, ["rollback", str(versions), *options])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(f"{place}:")
    assert not list(versions.glob("deltas/*/hold.json"))

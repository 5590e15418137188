"""What a step sends to Flink's REST service, and how its job ends: before a stand-in of the service."""

import os
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sangam.components.beam.job import EngineError
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.pipelines.beam import engine_args
from sangam.schemas.errors import UserError
from sangam.schemas.spec.beam import Flink
from tests.components.beam.fake_flink import JOB, FakeFlink, fake_flink
from tests.components.beam.sample_steps import Sleeping, executor
from tests.engines.servers import free_port
from tests.errors import place_and_value

pytestmark = [pytest.mark.processes, pytest.mark.long]

CANCELLED = f"PATCH /v1/jobs/{JOB}?mode=cancel"


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's shell: nobody listens at its proxy, and an engine is within the cluster."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with fake_flink() as fake:
        yield fake


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "job-server.jar"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return path


def step(master: str, jar: Path, timeout_s: int = 60) -> Sleeping:
    args = engine_args(Flink(runner="flink", master=master, jar="/opt/sangam/x.jar", timeout_s=timeout_s))
    return executor([word.replace("/opt/sangam/x.jar", str(jar)) for word in args], Sleeping)


def test_a_job_that_takes_too_long_is_cancelled_by_its_id(flink: FakeFlink, jar: Path) -> None:
    with pytest.raises(EngineError, match=place_and_value("beam.timeout_s", "(got 8 s)")) as error:
        step(flink.address, jar, timeout_s=8).Do({}, {}, {"seconds": 1})
    assert not error.value.is_mistake
    assert flink.asked[:3] == ["POST /v1/jars/upload", "POST /v1/jars/x_beam.jar/run", CANCELLED]


def test_a_stopped_step_cancels_its_job(flink: FakeFlink, jar: Path) -> None:
    def stop() -> None:
        while len(flink.asked) < 2:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    with StopSignals() as signals, pytest.raises(Stopped), signals.raised():
        step(flink.address, jar).Do({}, {}, {"seconds": 1})
    assert flink.asked.count(CANCELLED) == 1


def test_a_job_that_is_still_being_submitted_when_the_step_ends_is_cancelled(flink: FakeFlink, jar: Path) -> None:
    answer = flink.answer

    def slow(method: str, path: str) -> object:
        if path.endswith("/run"):
            time.sleep(3)
        return answer(method, path)

    flink.answer = slow  # type: ignore[method-assign,assignment]
    with pytest.raises(EngineError, match=place_and_value("beam.timeout_s", "(got 1 s)")):
        step(flink.address, jar, timeout_s=1).Do({}, {}, {"seconds": 1})
    assert CANCELLED in flink.asked


def test_a_job_that_somebody_else_cancels_fails_and_is_not_cancelled_again(flink: FakeFlink, jar: Path) -> None:
    threading.Timer(3, lambda: setattr(flink, "state", "CANCELED")).start()
    with pytest.raises(EngineError, match=place_and_value("beam", "(got ... CANCELLED")):
        step(flink.address, jar).Do({}, {}, {"seconds": 1})
    assert CANCELLED not in flink.asked


def test_the_last_cause_of_a_refused_submission_is_told(flink: FakeFlink, jar: Path) -> None:
    flink.refusal = (
        "<Exception on server side:\norg.apache.flink.X: The main method caused an error\n\tat a.b(C.java:1)\nCaused "
        "by: java.lang.RuntimeException: outer\nCaused by: java.lang.IllegalArgumentException: never produced\n\tat d"
    )
    with pytest.raises(EngineError, match=place_and_value("beam", "(got java.lang.IllegalArgumentException: never")):
        step(flink.address, jar).Do({}, {}, {"seconds": 1})


def test_a_cluster_that_does_not_answer_is_named(jar: Path) -> None:
    with pytest.raises(EngineError, match=place_and_value("beam", "flink does not answer ... refused")):
        step(f"localhost:{free_port()}", jar).Do({}, {}, {"seconds": 1})


def test_a_missing_jar_is_refused_and_never_downloaded(flink: FakeFlink, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("beam.jar", f"(got {tmp_path / 'none.jar'})")) as error:
        step(flink.address, tmp_path / "none.jar").Do({}, {}, {"seconds": 1})
    assert error.value.is_mistake
    assert flink.asked == []

"""The serving check with real servers: a good model is blessed, a bad one refused for what is wrong with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from sangam.components.registry import seal
from sangam.schemas.errors import UserError
from sangam.schemas.spec.release import Evaluation, SkewGate
from sangam.schemas.spec.serving import Load, Serving
from tests.components.logs.sample_sources import INPUTS
from tests.components.skew.sample_tables import LOGS
from tests.errors import mentions, place_and_value, tells
from tests.trainer_module.launch.warm import forked_groups

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _forked_servers() -> Iterator[None]:
    """Servers without the seconds of their start; the one that its executor's death ends starts as it does in a run."""
    with forked_groups():
        yield


LOAD = Load(candidates=50, seconds=0.3)
SERVING = Serving(max_model_size="10MB", max_p99_ms=10_000, load=LOAD, timeout_s=120)
BY_USER = Evaluation.model_validate_json('{"group": {"by": "user"}}')


def judged(folder: Path, defect: Any = "none", serving: Serving = SERVING, *, rows: str = "float32") -> Any:
    """Makes a model and returns the check's verdict on it."""
    from tests.components.steps.infra_validator.sample_models import make

    return judged_made(make(folder, defect, rows=rows), serving, folder / "log")


def judged_made(made: Any, serving: Serving, log: Path) -> Any:
    from sangam.components.steps.infra_validator.executor import judge_model

    verdict = judge_model(
        model_dir=made.model, training_dir=made.training, serving=serving, evaluation=BY_USER, log=log
    )
    assert servers_of(made.model) == []
    return verdict


def servers_of(model: Path) -> list[int]:
    """Returns the processes that have a model in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(model) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def failures(verdict: Any) -> dict[str, str]:
    return {check.name: check.reason for check in verdict.checks if not check.passed}


def test_a_good_model_is_blessed_with_a_reason_for_every_check(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.blessed
    assert failures(verdict) == {}
    assert verdict.once == ["user_id"]
    assert verdict.requests > 0
    assert 0 < verdict.p50_ms <= verdict.p99_ms
    assert verdict.load_s > 0
    assert [check.name for check in verdict.checks] == [
        "size",
        "load",
        "serving_default outputs",
        "serving_default finite",
        "scores",
        "rank outputs",
        "rank finite",
        "rank",
        "broadcast",
        "hostile: unknown ids",
        "hostile: missing features",
        "hostile: empty list",
        "hostile: wrong type",
        "hostile: 10 MB",
        "hostile: NaN",
        "tables",
        "latency",
    ]
    assert verdict.notes == []
    assert all(check.reason for check in verdict.checks)


def test_a_price_is_measured_beside_the_live_version_and_bounded(tmp_path: Path) -> None:
    from sangam.components.steps.infra_validator.executor import Comparison, judge_model
    from sangam.components.steps.infra_validator.price import Live, Price, price_check
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path, "none")
    live = Live("20240307001", made.model)
    verdict = judge_model(
        model_dir=made.model,
        training_dir=made.training,
        serving=SERVING.model_copy(update={"max_p99_ms": None}),
        evaluation=BY_USER,
        log=tmp_path / "log",
        comparison=Comparison(live, max_increase=100.0),
    )
    assert verdict.blessed
    assert verdict.checks[-1].name == "price"
    assert verdict.live == "20240307001"
    # The same model on both sides, in milliseconds of processor time counted in hundredths of a second.
    assert 0.2 < verdict.candidates_per_core_s / verdict.live_candidates_per_core_s < 5
    assert servers_of(made.model) == []

    bounds = {0.24: False, 0.25: True, None: None}
    for max_increase, passes in bounds.items():
        check = price_check(Price(rate=80_000, live_rate=100_000), live, max_increase)
        assert (check and check.passed) is passes
        if check:
            assert mentions(check.reason, "+25.0% ... 20240307001 ... max_increase ... 80,000 and 100,000")
    assert price_check(Price(rate=80_000), live, 0.1) is None
    assert price_check(Price(rate=80_000), None, 0.1) is None


@pytest.mark.parametrize(
    ("defect", "reasons"),
    [
        (
            "nan",
            {
                "serving_default finite": "42 of like, 42 of watch, of 64",
                "rank finite": "42 of like, 42 of watch",
            },
        ),
        ("nan of new ids", {"hostile: unknown ids": "not finite"}),
        ("shape", {"serving_default outputs": "like ... [64] ... [64, 1]"}),
        ("skew", {"scores": "task watch ... 0.00", "rank": "trainer"}),
        ("rank differs", {"rank": "rank ... 64 ... trainer"}),
        ("one row differs", {"broadcast": "one context row"}),
        ("inserts", {"tables": "{'users': 11} ... {'users': 16}"}),
        ("crashes", {"hostile requests": "unknown ids, serving_default: ... (SIGABRT)"}),
    ],
)
def test_a_broken_model_is_refused_for_what_is_wrong_with_it(
    defect: str, reasons: dict[str, str], tmp_path: Path
) -> None:
    verdict = judged(tmp_path, defect)
    assert not verdict.blessed
    found = failures(verdict)
    for name, reason in reasons.items():
        assert mentions(found[name], reason)
    if defect in ("rank differs", "one row differs", "inserts", "crashes", "nan of new ids"):
        assert set(found) == set(reasons)


@pytest.mark.long
def test_a_slow_and_too_big_model_is_refused_for_both(tmp_path: Path) -> None:
    serving = Serving(max_model_size="1kB", max_p99_ms=50, load=Load(candidates=50, clients=2, seconds=0.1))
    verdict = judged(tmp_path, "slow", serving)
    found = failures(verdict)
    assert set(found) == {"size", "latency"}
    assert "above serving.max_model_size 1.00 kB" in found["size"]
    assert mentions(found["latency"], "3 measurements ... above serving.max_p99_ms 50 (50 ... clients: 2)")


def test_a_model_that_cannot_be_loaded_is_refused_with_the_servers_own_words(tmp_path: Path) -> None:
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path)
    (made.model / "saved_model.pb").write_bytes(b"no graph")
    verdict = judged_made(made, Serving(load=LOAD), tmp_path / "log")
    [failure] = verdict.checks
    assert (failure.name, failure.passed) == ("load", False)
    assert tells(failure.reason, str(made.model), "(OSError: ")
    size, latency, _ = verdict.notes
    assert mentions(size, "serving.max_model_size ... not judged")
    assert mentions(latency, "serving.max_p99_ms ... not judged")


def test_reduced_rows_are_compared_with_the_exports_own_scores_and_that_is_said(tmp_path: Path) -> None:
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path, rows="int8")
    with np.load(made.training / "check_scores.npz") as trained:
        scores = dict(trained)
    np.savez(made.training / "served_scores.npz", **scores)
    np.savez(made.training / "check_scores.npz", **{task: values + 0.01 for task, values in scores.items()})
    verdict = judged_made(made, SERVING, tmp_path / "log")
    assert verdict.blessed
    [scores_check] = [check for check in verdict.checks if check.name == "scores"]
    assert mentions(scores_check.reason, "export ... int8 ... trainer ... 0.0")


def test_a_model_that_says_nothing_of_itself_is_refused(tmp_path: Path) -> None:
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path)
    (made.model / "assets.extra" / "ranker.json").unlink()
    failed = failures(judged_made(made, SERVING, tmp_path / "log"))
    assert set(failed) == {"load"}
    assert failed["load"].startswith("assets.extra/ranker.json is missing")


def test_a_server_that_another_model_would_not_help_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path)
    monkeypatch.setattr(
        "sangam.components.steps.infra_validator.server_process.MODULE",
        "tests.components.steps.infra_validator.fake_killed_server",
    )
    with pytest.raises(UserError, match=place_and_value("infra_validator", "(got SIGKILL)")):
        judged_made(made, SERVING, tmp_path / "log")


def test_an_executor_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path)
    program = (
        "import sys; from pathlib import Path\n"
        "from sangam.components.steps.infra_validator.server_process import serve\n"
        "from sangam.schemas.spec.serving import Load\n"
        "with serve(Path(sys.argv[1]), log=Path(sys.argv[2]), load=Load(), timeout_s=60) as server:\n"
        "    print('ready', flush=True)\n    input()\n"
    )
    executor = subprocess.Popen(
        [sys.executable, "-c", program, str(made.model), str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert executor.stdout
    assert executor.stdin
    assert executor.stdout.readline() == b"ready\n"
    assert [pid for pid in servers_of(made.model) if pid != executor.pid]
    os.kill(executor.pid, signal.SIGTERM)
    executor.wait(timeout=60)
    deadline = time.monotonic() + 60
    while servers_of(made.model) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert servers_of(made.model) == []
    executor.stdout.close()
    executor.stdin.close()


def test_the_executor_writes_the_verdict_and_tfxs_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfx.components.util import model_utils
    from tfx.types import standard_artifacts

    from sangam.components.steps.infra_validator.executor import Executor
    from sangam.components.steps.infra_validator.skew import Declared
    from tests.components.steps.infra_validator.sample_models import make

    made = make(tmp_path)
    monkeypatch.setenv("SANGAM_LOG_DIR", str(tmp_path / "logs"))
    model, training = standard_artifacts.Model(), standard_artifacts.ModelRun()
    model.uri, training.uri = str(made.model.parent), str(made.training)
    model.set_string_custom_property(seal.SHA256, seal.seal(str(made.model)))
    blessing = standard_artifacts.InfraBlessing()
    blessing.uri = str(tmp_path / "blessing")
    serving = Serving(max_model_size="1kB", load=LOAD)
    gate = SkewGate(skew="scores", at_most=0.0, log="requests")
    given = Declared(gates=(gate,), inputs=INPUTS, logs=LOGS, redacted=(), versions="serving")
    Executor().Do(
        {"model": [model], "training": [training]},
        {"blessing": [blessing]},
        {
            "serving": serving.model_dump_json(),
            "evaluation": BY_USER.model_dump_json(),
            "name": "tiny",
            "price": "",
            "code": "c",
            "skew": given.model_dump_json(),
            "date": "2024-03-08",
            "data_root": str(tmp_path),
            "pipeline_root": str(tmp_path),
        },
    )
    assert not model_utils.is_infra_validated(blessing)
    assert sorted(path.name for path in Path(blessing.uri).iterdir()) == ["INFRA_NOT_BLESSED", "infra_verdict.json"]
    verdict = json.loads((Path(blessing.uri) / "infra_verdict.json").read_text())
    assert not verdict["blessed"]
    assert [check["name"] for check in verdict["checks"] if not check["passed"]] == ["size"]
    assert "serving.max_p99_ms" in verdict["notes"][0]
    assert mentions(verdict["notes"][-1], "skew of scores ... requests ... 2024-03-08")
    assert blessing.get_string_custom_property("model_uri") == model.uri
    assert "serving candidate: gRPC 127.0.0.1:" in (tmp_path / "logs" / "serving_check.log").read_text()


def test_a_refusal_changes_the_cache_key_of_its_model_alone(tmp_path: Path) -> None:
    from ml_metadata.proto import metadata_store_pb2
    from tfx.orchestration import metadata
    from tfx.orchestration.portable import data_types
    from tfx.types import standard_artifacts

    from sangam.components.steps.infra_validator.driver import Driver

    kind = metadata_store_pb2.ArtifactType(name="InfraBlessing")
    connection = metadata.Metadata(metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.sqlite")))

    def refusals(uri: str) -> int:
        model = standard_artifacts.Model()
        model.uri = uri
        asked = data_types.ExecutionInfo(input_dict={"model": [model]}, exec_properties={"name": "tiny"})
        # As TFX's launcher calls it: the connection is not open.
        found = Driver(connection).run(asked).exec_properties
        assert found["name"].string_value == "tiny"
        return int(found["refusals"].int_value)

    def judge(uri: str, *, blessed: bool) -> None:
        with connection as handle:
            artifact = metadata_store_pb2.Artifact(type_id=handle.store.put_artifact_type(kind), uri="unused")
            artifact.custom_properties["model_uri"].string_value = uri
            artifact.custom_properties["blessed"].int_value = int(blessed)
            handle.store.put_artifacts([artifact])

    assert refusals("model/1") == 0
    judge("model/1", blessed=True)
    judge("model/2", blessed=False)
    assert refusals("model/1") == 0
    judge("model/1", blessed=False)
    assert refusals("model/1") == 1


@pytest.mark.parametrize(
    ("sizes", "count"), [([3 * 2**20] * 4, 2), ([2**20] * 8, 8), ([9 * 2**20], 1), ([10] * 512, 512)]
)
def test_a_request_of_examples_fits_into_a_message(sizes: list[int], count: int) -> None:
    from sangam.components.steps.infra_validator.executor import num_in_message

    assert num_in_message([bytes(size) for size in sizes]) == count

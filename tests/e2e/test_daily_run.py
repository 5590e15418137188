"""The whole pipeline, from logs to a pushed model, as its user meets it. The tests build on one another, in order."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sangam import Root as PythonRoot
from sangam.components.record.journal import read_journal
from sangam.schemas.contracts.drift_reference import read_reference
from sangam.schemas.contracts.export import read_description
from sangam.schemas.contracts.root import RunFolder
from tests import outside
from tests.e2e.user_run import DATE, ONE_RANK, STEPS, World, environment, sangam, start, states, wait_until
from tests.errors import mentions
from tests.odd_shell import ODD_SHELL

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

TASKS = ["like", "share", "download", "long_watch"]

# A process that knows TensorFlow and nothing of ours or of TFRA.
SCORE_ALONE = """
import os, sys
import numpy as np, tensorflow as tf
model, examples, scores = sys.argv[1:]
os.chdir(model)  # TensorFlow takes brackets in a path for a pattern.
signature = tf.saved_model.load(".").signatures["serving_default"]
raw = list(tf.data.TFRecordDataset(examples).as_numpy_iterator())
served, expected = signature(examples=tf.constant(raw)), dict(np.load(scores))
assert set(served) == set(expected), (set(served), set(expected))
assert not {"tensorflow_recommenders_addons", "horovod", "sangam"} & set(sys.modules)
print(len(raw), max(float(np.abs(served[t].numpy() - expected[t]).max()) for t in expected))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("daily [v1] #2 100% {x}"), demo_spec_path)
    made.generate()
    return made


@pytest.fixture(scope="module")
def first_run(world: World) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    with outside.told(world.directory / "outside.txt"):
        return world.run(world.spec("first", {}), is_cold=True, variables=ODD_SHELL)


def _summary(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return document


def _number(folder: Path) -> int:
    return int(folder.name)


def _check_scores(rest: str, training: Path) -> None:
    """Asks a server for the examples that the ranks have scored, and compares."""
    raw = list(tf.data.TFRecordDataset(str(training / "check_examples.tfrecord")).take(3).as_numpy_iterator())
    body = {"instances": [{"examples": {"b64": base64.b64encode(example).decode()}} for example in raw]}
    answer = httpx.post(f"{rest}/v1/models/short_video:predict", json=body).json()
    scores = dict(np.load(training / "check_scores.npz"))
    for task in TASKS:
        served = [row[task][0] for row in answer["predictions"]]
        np.testing.assert_allclose(served, scores[task][:3, 0], atol=1e-5)


def test_a_first_run_is_blessed_and_pushed_and_says_that_there_was_no_baseline(world: World, first_run: Any) -> None:
    done, summary = first_run
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary["status"] == "pushed"
    assert summary["date"] == DATE
    assert summary["days"] == {"train": [f"2026-03-0{day}" for day in range(1, 5)], "eval": [DATE]}
    assert {split: rows["written"] for split, rows in summary["rows"].items()} == {"train": 12000, "eval": 3000}
    assert set(states(summary)) == set(STEPS)
    assert list(summary["tasks"]) == TASKS
    for task in TASKS:
        finite, gate = summary["tasks"][task]["gates"]
        assert (finite["kind"], finite["passed"]) == ("finite", True)
        assert (gate["kind"], gate["bound"], gate["passed"]) == ("value", 0.3, True)
        assert gate["lower"] < gate["value"] < gate["upper"]
        assert gate["value"] == summary["tasks"][task]["auc"]
    assert [note for note in summary["notes"] if mentions(note, "no blessed model ... like auc max_drop")]
    assert summary["blessed"]
    assert summary["baseline"] is None
    assert world.versions() == ["20260305001"] == [summary["pushed"]["version"]]
    assert all(step["peak_memory_bytes"] > 2**28 for step in summary["steps"].values())
    # A user sees the table, the verdicts and where the model is; no library's chatter.
    for word in [*TASKS, "blessed", summary["pushed"]["path"]]:
        assert word in done.stdout
    assert len(done.stdout.splitlines()) < 60
    assert "WARNING" not in done.stdout + done.stderr


def test_whoever_watches_is_told_each_step_and_the_examples_at_the_end(first_run: Any) -> None:
    run = RunFolder(Path(first_run[1]["path"]))
    noted = read_journal(run)
    assert {step.name: step.state for step in noted.steps.values()} == states(first_run[1])
    assert noted.date == DATE
    lines = [json.loads(line) for line in (run.logs / "progress.jsonl").read_text().splitlines()]
    told = [line for line in lines if "step" in line]
    assert {line["expected"] for line in told} == {first_run[1]["training"]["examples"]}
    assert list(told[-1]["losses"]) == TASKS


def test_tensorboard_shows_the_run_from_its_first_loss_to_its_evaluation(first_run: Any) -> None:
    events = EventAccumulator(str(Path(first_run[1]["path"]) / "logs"), {"tensors": 0, "scalars": 0})
    events.Reload()
    for task in TASKS:
        assert events.Tensors(f"loss/{task}")
        [auc] = events.Scalars(f"evaluation/auc/{task}")
        assert auc.value == pytest.approx(first_run[1]["tasks"][task]["auc"], rel=1e-5)
    assert events.Tensors("tables/users/norm")


def test_python_reads_the_run_as_its_summary_has_it_with_its_slices(world: World, first_run: Any) -> None:
    _, summary = first_run
    run = PythonRoot(world.root).run(summary["run"])
    assert (run.state, run.model, run.page) == ("pushed", summary["pushed"]["path"], run.folder / "report.html")
    assert run.spec.digest == summary["spec_digest"]
    overall = run.metrics.query("slice == 'all'").set_index(["task", "metric"]).value
    written = {task: summary["tasks"][task]["auc"] for task in TASKS}
    assert {task: overall[task, "auc"] for task in TASKS} == pytest.approx(written, abs=1e-6)
    assert run.metrics["slice"].nunique() > 5
    assert run.gates.passed.all()
    assert dict(zip(run.steps.step, run.steps.state, strict=True)) == states(summary)
    assert run.tables.set_index("table").rows.to_dict() == {
        name: table["rows"] for name, table in summary["training"]["tables"].items()
    }


def test_the_pushed_model_is_whole_and_its_manifest_knows_it(world: World, first_run: Any) -> None:
    version = Path(first_run[1]["pushed"]["path"])
    manifest = json.loads((version / "manifest.json").read_text())
    assert manifest["spec_digest"] == first_run[1]["spec_digest"]
    assert manifest["days"] == first_run[1]["days"]
    files = {str(path.relative_to(version)) for path in version.rglob("*") if path.is_file()} - {"manifest.json"}
    assert "saved_model.pb" in files
    assert set(manifest["files"]) == files
    for name, recorded in manifest["files"].items():
        assert hashlib.sha256((version / name).read_bytes()).hexdigest() == recorded["sha256"]


def test_what_was_trained_on_goes_with_the_version_for_servers_to_compare(first_run: Any) -> None:
    version = Path(first_run[1]["pushed"]["path"])
    reference = read_reference("it", (version / "drift_reference.json").read_bytes())
    described = read_description("it", (version / "assets.extra/ranker.json").read_bytes())
    assert reference.columns.keys() == described.columns.keys()
    assert reference.scores.keys() == described.tasks.keys()
    parts = [part for column in reference.columns.values() for part in (column.numbers, column.lengths) if part]
    for part in [*parts, *reference.scores.values()]:
        assert sum(part.shares) == pytest.approx(1.0)


def test_the_served_model_scores_evaluation_rows_as_the_ranks_do_in_a_process_without_our_code(
    world: World, first_run: Any, tmp_path: Path
) -> None:
    [training] = (world.root / "artifacts" / "trainer" / "training").iterdir()
    files = [str(training / name) for name in ("check_examples.tfrecord", "check_scores.npz")]
    script = tmp_path / "score.py"
    script.write_text(SCORE_ALONE)
    done = subprocess.run(
        [sys.executable, str(script), first_run[1]["pushed"]["path"], *files],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={key: value for key, value in environment().items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    number, difference = done.stdout.split()
    assert int(number) == 512
    assert float(difference) <= 1e-5


def test_training_saw_every_example_every_epoch_and_learned(world: World, first_run: Any) -> None:
    [training] = (world.root / "artifacts" / "trainer" / "training").iterdir()
    report = json.loads((training / "training.json").read_text())
    assert report["ranks"] == 2
    assert [epoch["examples"] for epoch in report["epochs"]] == [12000, 12000]
    first, last = (epoch["mean_loss"] for epoch in report["epochs"])
    assert all(last[task] < first[task] for task in TASKS)


def test_no_step_asks_for_another_machine(world: World, first_run: Any) -> None:
    asked = world.directory / "outside.txt"
    assert not asked.exists(), asked.read_text()


def test_a_rerun_is_cached_quick_and_pushes_nothing_twice(world: World, first_run: Any) -> None:
    done, summary = world.run(world.spec("first", {}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(states(summary).values()) == {"cached"}
    assert sum(step["seconds"] for step in summary["steps"].values()) < 10
    assert summary["tasks"] == first_run[1]["tasks"]
    assert summary["pushed"] == first_run[1]["pushed"]
    assert world.versions() == ["20260305001"]


def test_one_task_below_its_bound_stops_the_release_though_the_mean_is_fine_and_nothing_is_trained_again(
    world: World, first_run: Any
) -> None:
    aucs = {task: first_run[1]["tasks"][task]["auc"] for task in TASKS}
    changes: dict[tuple[str | int, ...], Any] = {("gates", 1, "at_least"): 0.999}
    done, summary = world.run(world.spec("one_task", changes))
    assert done.returncode == 3, done.stdout + done.stderr
    assert summary["status"] == "refused"
    assert not summary["blessed"]
    assert summary["pushed"] is None
    ran = {name for name, state in states(summary).items() if state == "ran"}
    assert ran == {"evaluator", "pusher"}
    verdicts = {task: summary["tasks"][task]["gates"][1] for task in TASKS}
    assert {task for task, gate in verdicts.items() if not gate["passed"]} == {"share"}
    assert mentions(verdicts["share"]["reason"], f"auc {aucs['share']:.4f} ... below ... 0.9990")
    assert sum(aucs.values()) / 4 > 0.3
    assert "share" in done.stdout
    assert "not blessed" in done.stdout
    reason = verdicts["share"]["reason"]
    page = (Path(summary["path"]) / "report.html").read_text()
    assert f"a gate refused the model: share: {reason}" in html.unescape(page)
    assert world.versions() == ["20260305001"]


def test_a_worse_candidate_is_refused_against_the_blessed_model(world: World, first_run: Any) -> None:
    changes: dict[tuple[str | int, ...], Any] = {
        **ONE_RANK,
        ("training", "epochs"): 1,
        ("training", "dense_optimizer", "learning_rate"): 1e-9,
        ("training", "embedding_optimizer", "learning_rate"): 1e-9,
        ("gates", 0, "at_least"): 0.0,
        ("gates", 1, "at_least"): 0.0,
        ("gates", 2, "at_least"): 0.0,
        ("gates", 3, "at_least"): 0.0,
    }
    done, summary = world.run(world.spec("worse", changes))
    assert done.returncode == 3, done.stdout + done.stderr
    assert summary["baseline"] is not None
    gates = {gate["kind"]: gate for gate in summary["tasks"]["long_watch"]["gates"]}
    assert gates["value"]["passed"]
    assert not gates["change"]["passed"]
    assert "blessed model's" in gates["change"]["reason"]
    assert "more than max_drop 0.0200" in gates["change"]["reason"]
    assert world.versions() == ["20260305001"]
    cached = {name for name, state in states(summary).items() if state == "cached"}
    assert cached == {"example_gen", "schema_gen", "statistics_gen", "example_validator", "transform"}


def test_a_person_answers_for_the_refused_model_and_it_is_pushed(world: World, first_run: Any) -> None:
    run = max(path for path in world.runs() if _summary(path)["blessed"] is False)
    done = sangam("bless", str(run), "--because", "an experiment", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["version"], told["was_there"]) == (run.name, "20260305002", False)
    assert mentions(sangam("show", str(run)).stdout.splitlines()[0], "blessed by hand by ... 20260305002 ... refused")
    assert "because an experiment" in sangam("lineage", str(world.root / "serving/short_video/20260305002")).stdout
    assert world.versions() == ["20260305001", "20260305002"]
    pushed = world.root / "serving" / "short_video" / "20260305002"
    assert "an experiment" in (pushed / "MODEL_CARD.md").read_text()
    assert [note for note in json.loads((pushed / "manifest.json").read_text())["notes"] if "an experiment" in note]


def test_a_server_follows_what_is_pushed_and_what_is_rolled_back(world: World, first_run: Any) -> None:
    folder = world.root / "serving" / "short_video"
    addresses = world.directory / "addresses.json"
    options = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(addresses), "--poll-s", "0.2"]
    server = start(["serve", str(folder), *options], world.directory / "serve.txt")
    try:
        wait_until(lambda: addresses.exists() or server.poll() is not None, "the server is ready", 60)
        rest = f"http://{json.loads(addresses.read_text())['rest']}"
        # Of the blessed model and of the worse one.
        older, newer = sorted((world.root / "artifacts" / "trainer" / "training").iterdir(), key=_number)

        def served() -> str:
            status = httpx.get(f"{rest}/v1/models/short_video").json()["model_version_status"]
            return next(one["version"] for one in status if one["state"] == "AVAILABLE")

        assert served() == "20260305002"
        _check_scores(rest, newer)
        compared = re.compile(r'sangam_drift_columns\{hour="\w+"\} 12\.0')
        wait_until(lambda: bool(compared.search(httpx.get(f"{rest}/metrics").text)), "12 columns are compared", 30)
        withdrawn = sangam("rollback", str(folder), "--because", "likes fell", "--json")
        assert withdrawn.returncode == 0, withdrawn.stderr
        told = json.loads(withdrawn.stdout)
        assert (told["withdrawn"], told["newest"], told["held"]) == (["20260305002"], "20260305001", None)
        wait_until(lambda: served() == "20260305001", "the older version is served", 30)
        _check_scores(rest, older)
    finally:
        server.terminate()
        assert server.wait(30) == 0
    assert world.versions() == ["20260305001"]

"""The entry point as a process: what it gives, what it says, how it ends, whom it tells."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sangam.components.kfp_entrypoint.members import MEMBERS, Member
from sangam.components.record.kubeflow import read_steps
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import read_runs
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict, Verdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec.serving import Load
from tests.errors import tells
from tests.fakes.webhook import Webhook, webhook
from tests.paths import REPOSITORY

pytestmark = pytest.mark.slow

RUN = "minio://mlpipeline/v2/short-video/run-1"
KEY = "0123456789abcdef0123"
GROUP = ["evaluator", "pusher", "reporter"]
ONCE_MORE = json.dumps({"count": 1, "backoff_s": 1})


class Pod:
    """One pod of a step: a folder for its disk, and the command."""

    def __init__(self, folder: Path, step: str = "example_gen", **parameters: str):
        folder.mkdir(parents=True)
        self.folder, self.step = folder, step
        self.root = folder.parent / "root"
        self.parameters = {"sangam_root": str(self.root), **parameters}
        self.inputs: dict[str, str] = {}
        self.retries = json.dumps({"count": 0})
        self.more: list[str] = []
        self.environment: dict[str, str] = {}
        self.outputs = ["examples"]
        self.tfx: list[str] = []
        self.alerts = ["--alerts", "{}"]

    def asked(self) -> dict[str, Any]:
        """Returns the ExecutorInput."""
        task = self.step.replace("_", "-")
        inputs = {key: {"artifacts": [{"name": "1", "uri": uri}]} for key, uri in self.inputs.items()}
        kind = {"instanceSchema": "title: tfx.Examples"}
        outputs = {key: {"artifacts": [{"uri": f"{RUN}/{task}/salt/{key}", "type": kind}]} for key in self.outputs}
        return {
            "inputs": {"parameterValues": self.parameters, "artifacts": inputs},
            "outputs": {
                "artifacts": outputs,
                "outputFile": str(self.folder / "output_metadata.json"),
            },
        }

    def command(self) -> list[str]:
        """Returns the words."""
        declared = {"artifacts": {key: {"artifactType": {"schemaTitle": f"tfx.{key}"}} for key in self.inputs}}
        options = ["--pipeline", "short_video", "--step", self.step, "--retries", self.retries]
        options += self.more
        if self.environment:
            options += self.alerts
        tfx = ["python", "-m", "tests.components.kfp_entrypoint.fake_executor"]
        tfx += ["--json_serialized_invocation_args", json.dumps(self.asked())]
        tfx += ["--json_serialized_inputs_spec_args", json.dumps(declared), *self.tfx]
        return [sys.executable, "-m", "sangam.components.kfp_entrypoint", *options, "--", *tfx]

    def start(self) -> "subprocess.Popen[str]":
        """Starts the process."""
        return subprocess.Popen(
            self.command(),
            cwd=REPOSITORY,
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> tuple[int, str]:
        """Runs to the end and returns the exit code and what was said."""
        process = self.start()
        said, _ = process.communicate(timeout=60)
        return process.returncode, said

    def told(self, hook: Webhook) -> "Pod":
        """Declares alerts."""
        self.environment = {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": KEY}
        return self

    def seen(self) -> dict[str, Any]:
        """Returns what the executor was given."""
        seen: dict[str, Any] = json.loads((self.folder / "seen.json").read_text())
        return seen

    def output(self) -> Path:
        """Returns the folder of the output."""
        return (
            self.root
            / "artifacts/minio/mlpipeline/v2/short-video/run-1"
            / self.step.replace("_", "-")
            / "salt/examples"
        )


def bodies(hook: Webhook) -> list[dict[str, Any]]:
    """Returns what the receiver was told."""
    return [json.loads(received.body) for received in hook.received]


def test_a_step_works_on_the_root_and_hands_back_the_backends_addresses(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod", date="", sangam_created="2024-03-08T02:00:00Z")
    pod.inputs = {"schema": f"{RUN}/schema-gen/salt/schema"}
    assert pod.run()[0] == 0
    asked = pod.seen()["asked"]
    assert asked["inputs"]["parameterValues"] == {"date": "2024-03-07"}
    (schema,) = asked["inputs"]["artifacts"]["schema"]["artifacts"]
    assert schema["uri"].startswith(str(tmp_path / "root" / "artifacts" / "minio"))
    assert schema["type"] == {"schemaTitle": "tfx.schema"}
    assert asked["outputs"]["artifacts"]["examples"]["artifacts"][0]["uri"] == str(pod.output())
    assert (pod.output() / "half.txt").exists()
    written = json.loads((pod.folder / "output_metadata.json").read_text())
    assert written["artifacts"]["examples"]["artifacts"][0]["uri"] == f"{RUN}/example-gen/salt/examples"


@pytest.mark.parametrize("created", ["{{$.pipeline_job_create_time_utc}}", ""])
def test_a_try_after_midnight_has_the_day_of_the_first_and_none_of_its_rubbish(tmp_path: Path, created: str) -> None:
    first = Pod(tmp_path / "first", ending="error", date="", sangam_created=created)
    assert first.run()[0] == 1
    day = first.seen()["asked"]["inputs"]["parameterValues"]["date"]
    note = first.output().parents[2] / ".sangam" / "date"
    assert note.read_text() == day
    note.write_text("2024-03-07")
    second = Pod(tmp_path / "second", date="", sangam_created=created)
    assert second.run()[0] == 0
    assert second.seen()["asked"]["inputs"]["parameterValues"]["date"] == "2024-03-07"
    assert second.seen()["found"] == {"examples": []}


@pytest.mark.long
def test_a_try_that_adopts_a_training_job_leaves_it_what_it_has_written(tmp_path: Path) -> None:
    first = Pod(tmp_path / "first", step="trainer", launch="{}", ending="error")
    first.run()
    second = Pod(tmp_path / "second", step="trainer", launch="{}")
    assert second.run()[0] == 0
    assert second.seen()["found"] == {"examples": ["half.txt"]}


def test_a_mistake_is_one_line_and_is_told_once(tmp_path: Path) -> None:
    with webhook() as hook:
        for attempt in range(3):
            pod = Pod(tmp_path / str(attempt), ending="mistake", date="2024-03-07", sangam_created="").told(hook)
            pod.retries = json.dumps({"count": 2})
            code, said = pod.run()
            assert code == 2
            assert [line for line in said.splitlines() if line.startswith("error: ")] == [
                "error: example_gen: data: is wrong (got this); write that"
            ]
            assert "Traceback" not in said
    (alert,) = bodies(hook)
    assert (alert["kind"], alert["pipeline"], alert["step"]) == ("failed", "short_video", "example_gen")
    assert (alert["date"], alert["run"]) == ("2024-03-07", "run-1")
    assert tells(alert["reason"], "data", "(got this)")


@pytest.mark.long
def test_another_failure_is_told_when_all_tries_have_failed_also_in_a_form_of_others(tmp_path: Path) -> None:
    chat = json.dumps({"format": {"kind": "chat", "room": "ml"}})
    with webhook() as hook:
        for attempt in range(2):
            pod = Pod(tmp_path / str(attempt), step="transform", ending="error").told(hook)
            pod.retries = ONCE_MORE
            pod.alerts = ["--alerts", chat, "--parts", "tests.components.sample_parts"]
            code, said = pod.run()
            assert code == 1
            assert said.count("error: transform: ValueError: no such thing") == 1
            # The second pod is the backend's own retry of what has no try left.
            assert said.count("Traceback") == (0 if attempt else 2)
            assert (pod.folder / "seen.json").exists() != bool(attempt)
    (alert,) = bodies(hook)
    assert alert["room"] == "ml"
    assert alert["text"].startswith("short_video failed: ValueError: no such thing")


def test_a_step_that_fails_is_tried_again_in_its_pod_and_nobody_is_told(tmp_path: Path) -> None:
    with webhook() as hook:
        pod = Pod(tmp_path / "pod", step="transform", ending="error once").told(hook)
        pod.retries = ONCE_MORE
        code, said = pod.run()
    assert (code, hook.received) == (0, [])
    assert "event=try_failed step=transform try=1 of=2 next_s=1 reason='ValueError: no such thing'" in said
    # As for the first try: nothing of the failed one is left.
    assert pod.seen()["found"] == {"examples": []}
    assert [step.state for step in read_steps(Root(str(pod.root)).run("run-1")).values()] == ["ran"]


@pytest.mark.long
def test_a_try_ends_at_its_time_limit_and_says_so(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod", step="transform", ending="late")
    pod.more = ["--timeout-s", "3"]
    code, said = pod.run()
    assert code == 1
    assert "error: transform: took longer than 3 s; raise cluster.steps.transform.timeout_s" in said


@pytest.mark.long
def test_a_failure_leaves_its_reason_in_the_folder_of_the_run_and_a_success_takes_it_back(tmp_path: Path) -> None:
    for number, (ending, state) in enumerate([("error", "failed"), ("killed", "failed"), ("", "ran")]):
        pod = Pod(tmp_path / str(number), step="transform", ending=ending)
        _, said = pod.run()
        run = Root(str(pod.root)).run("run-1")
        [step] = read_steps(run).values()
        assert (step.name, step.state) == ("transform", state)
        if ending:
            assert f"error: transform: {step.error}" in said
            assert "no such thing" in run.page.read_text() or ending == "killed"
            [found] = read_runs(pod.root)
            assert (found.id, found.state, found.ranker) == ("run-1", "failed", "short_video")
            assert outcome_of(found).sentence == f"failed in transform: {step.error.splitlines()[0]}"


def test_a_mistake_before_the_step_begins_leaves_its_reason_too(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod", date="7 March", sangam_created="")
    assert pod.run()[0] == 2
    assert tells(read_steps(Root(str(pod.root)).run("run-1"))["example_gen"].error, "date", "(got '7 March')")


def test_a_root_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod")
    pod.root.write_text("a file, not a folder")
    code, said = pod.run()
    assert code == 2
    assert tells(said, "error: example_gen: pipeline_root", f"(got {pod.root}: ")


@pytest.mark.long
def test_a_step_killed_for_memory_says_what_may_help(tmp_path: Path) -> None:
    code, said = Pod(tmp_path / "pod", ending="killed").run()
    assert code == 137
    assert tells(said, "error: example_gen", "SIGKILL ... cluster.steps.example_gen.memory")


def test_a_step_that_is_stopped_tidies_up_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod", ending="hangs")
    process = pod.start()
    deadline = time.monotonic() + 30
    while not (pod.folder / "hangs").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    assert tells(said, "error: example_gen", "SIGTERM")
    assert (pod.folder / "tidied").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((pod.folder / "hangs").read_text()), 0)


def pusher(folder: Path, *, blessed: bool) -> Pod:
    """Returns a pusher whose inputs hold verdicts."""
    pod = Pod(folder / "pod", step="pusher")
    gate = GateVerdict(kind="value", metric="auc", bound=0.6, value=0.5, passed=blessed, reason="auc 0.5 is below 0.6")
    tasks = {"like": TaskVerdict(metrics={}, slices={}, gates=[gate])}
    verdict = Verdict(blessed=blessed, baseline=None, notes=[], tasks=tasks)
    check = Check(name="load", passed=True, reason="the server was ready")
    serving = ServingVerdict(blessed=True, model_bytes=1, load=Load(), checks=[check], notes=[])
    for key, name, said in (("evaluation", "verdict.json", verdict), ("infra_blessing", "infra_verdict.json", serving)):
        place = pod.root / "artifacts/minio/mlpipeline" / key
        place.mkdir(parents=True)
        (place / name).write_text(said.model_dump_json())
        pod.inputs[key] = f"minio://mlpipeline/{key}"
    return pod


@pytest.mark.parametrize("blessed", [True, False])
def test_a_refused_model_is_told_of_and_no_other(tmp_path: Path, blessed: bool) -> None:
    with webhook() as hook:
        pod = pusher(tmp_path, blessed=blessed).told(hook)
        assert pod.run()[0] == 0
    if blessed:
        assert hook.received == []
        return
    (alert,) = bodies(hook)
    assert (alert["kind"], alert["step"], alert["run"]) == ("refused", "evaluator", "run-1")
    assert alert["reason"] == "like: auc 0.5 is below 0.6"


@pytest.mark.long
def test_alerts_that_cannot_be_sent_change_nothing(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "pod", step="transform", ending="mistake")
    pod.environment = {"SANGAM_ALERT_URL": "https://127.0.0.1:9/", "SANGAM_ALERT_KEY": "short"}
    code, said = pod.run()
    assert code == 2
    assert tells(said, "alerts.key_env", "SANGAM_ALERT_KEY")
    assert "short\n" not in said


def test_an_address_of_alerts_that_would_be_refused_ends_the_run_in_its_first_step(tmp_path: Path) -> None:
    """When the pipeline is compiled, only the name of the Secret is known."""
    pod = Pod(tmp_path / "pod", date="2024-03-07", sangam_created="")
    pod.environment = {"SANGAM_ALERT_URL": "http://alerts.example/hook", "SANGAM_ALERT_KEY": KEY}
    code, said = pod.run()
    assert code == 2
    assert tells(said, "error: example_gen: alerts.url_env", "(got http://alerts.example)")
    assert not (pod.folder / "seen.json").exists()


def test_requests_of_a_step_are_not_logged_one_by_one(tmp_path: Path) -> None:
    code, said = Pod(tmp_path / "pod", ending="logs").run()
    assert code == 0
    assert "a line of the step" in said
    assert "HTTP Request" not in said


def group(folder: Path, second: str) -> Pod:
    """Returns a pod of a task of three steps, the second of which ends in some way."""
    pod = Pod(folder, step="reporter")
    pod.outputs = ["evaluator__evaluation", "pusher__pushed_model", "reporter__page"]
    endings = {"evaluator": "", "pusher": second, "reporter": ""}
    members = [Member(step=step, executor=end, inputs_spec={}, made_before={}) for step, end in endings.items()]
    pod.tfx, pod.retries = [MEMBERS, json.dumps([member.model_dump() for member in members])], ONCE_MORE
    return pod


def test_another_try_of_a_group_goes_on_after_its_last_complete_step(tmp_path: Path) -> None:
    pod = group(tmp_path / "0", "error once")
    code, said = pod.run()
    assert code == 0, said
    assert "event=try_failed step=pusher try=1 of=2" in said
    assert [said.count(f"step={step}\n") for step in GROUP] == [1, 2, 1]
    steps = read_steps(Root(str(pod.root)).run("run-1"))
    assert {name: step.state for name, step in steps.items()} == dict.fromkeys(GROUP, "ran")
    written = json.loads((pod.folder / "output_metadata.json").read_text())
    assert sorted(written["artifacts"]) == pod.outputs
    # Another task of the same name: what it is given differs.
    other = group(tmp_path / "1", "")
    other.parameters["evaluator__spec"] = "changed"
    said = other.run()[1]
    assert [said.count(f"step={step}\n") for step in GROUP] == [1, 1, 1]


def test_a_group_that_fails_names_its_step_to_all_who_ask(tmp_path: Path) -> None:
    with webhook() as hook:
        pod = group(tmp_path / "0", "error").told(hook)
        code, said = pod.run()
    assert code == 1
    assert "error: pusher: ValueError: no such thing" in said
    assert said.count("step=evaluator\n") == 1
    (alert,) = bodies(hook)
    assert (alert["step"], alert["reason"]) == ("pusher", "ValueError: no such thing")
    steps = read_steps(Root(str(pod.root)).run("run-1"))
    assert {name: step.state for name, step in steps.items()} == {"evaluator": "ran", "pusher": "failed"}

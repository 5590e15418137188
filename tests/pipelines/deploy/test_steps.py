"""Which step waits for a pod, among tasks that do not say whose child they are."""

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sangam.pipelines.deploy.looks import look_s
from sangam.pipelines.deploy.steps import steps_of, waits_since

START = datetime.datetime(2024, 3, 8, 2, 0, tzinfo=datetime.UTC)
YEAR_1 = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)


def at(minutes: float) -> datetime.datetime:
    return START + datetime.timedelta(minutes=minutes)


def task(name: str, state: str | None, begin: float, end: float | None = None, children: int = 0) -> Any:
    end_time = YEAR_1 if end is None else at(end)
    child_tasks = [SimpleNamespace(pod_name=f"{name}-{number}") for number in range(children)]
    return SimpleNamespace(
        display_name=name, state=state, start_time=at(begin), end_time=end_time, error=None, child_tasks=child_tasks
    )


def test_a_second_try_that_waits_is_not_taken_for_that_of_a_step_that_began_later() -> None:
    tasks = [
        task("root", "RUNNING", 0, children=1),
        task("executor(1)", "PENDING", 40),
        task("executor(0)", "RUNNING", 20),
        task("executor(0)", "FAILED", 10, 35),
        task("executor", "RUNNING", 10, children=2),
        task("executor", "RUNNING", 20, children=1),
        task("transform", "RUNNING", 10, children=1),
        task("example-validator", "RUNNING", 20, children=1),
    ]
    validator, transform = steps_of(tasks, is_finished=False)
    assert (validator.name, validator.state, validator.waits_since) == ("example-validator", "running", None)
    assert (transform.name, transform.state, transform.waits_since) == ("transform", "pending", at(40).timestamp())
    assert transform.took(at(50).timestamp()) == 40 * 60
    assert waits_since(tasks) == at(40)


def test_a_step_without_retries_has_one_pod() -> None:
    tasks = [task("trainer", "RUNNING", 5, children=1), task("executor", "PENDING", 5)]
    (trainer,) = steps_of(tasks, is_finished=False)
    assert (trainer.state, trainer.waits_since) == ("pending", at(5).timestamp())


@pytest.mark.parametrize("state", [None, "RUNTIME_STATE_UNSPECIFIED"])
def test_a_step_that_argo_omits_does_not_wait(state: str | None) -> None:
    tasks = [task("trainer", "RUNNING", 5, children=1), task("pusher-driver", state, 9, 9)]
    assert [step.name for step in steps_of(tasks, is_finished=False)] == ["trainer"]
    assert waits_since(tasks) is None


def test_nothing_waits_once_the_run_has_finished() -> None:
    """Argo leaves the pod of a run that was terminated as it was."""
    tasks = [task("trainer", "FAILED", 5, 9, children=1), task("executor", "PENDING", 5), task("pusher", None, 9, 9)]
    trainer, pusher = steps_of(tasks, is_finished=True)
    assert (trainer.state, trainer.waits_since, trainer.took(at(99).timestamp())) == ("failed", None, 240)
    assert (pusher.state, pusher.took(at(99).timestamp())) == ("not run", None)


def test_with_tries_of_every_node_a_drivers_pod_and_its_step_are_found() -> None:
    """Kubeflow Pipelines 2.17: each template has a retry strategy."""
    tasks = [
        task("transform", "SUCCEEDED", 1, 5, children=1),
        task("trainer-driver", "RUNNING", 5, children=1),
        task("trainer-driver(0)", "PENDING", 5),
    ]
    transform, trainer = steps_of(tasks, is_finished=False)
    assert (transform.state, trainer.name, trainer.state) == ("succeeded", "trainer", "pending")
    assert trainer.waits_since == at(5).timestamp()
    assert waits_since(tasks) == at(5)


def test_a_step_that_ends_as_it_begins_had_no_pod() -> None:
    tasks = [task("transform", "SUCCEEDED", 5, 5, children=1), task("trainer", "SUCCEEDED", 5, 5.05, children=1)]
    assert [step.state for step in steps_of(tasks, is_finished=True)] == ["cached", "succeeded"]


@pytest.mark.parametrize(("look", "found"), [(8.0, 8.0), (1.0, 1.0)])
def test_how_long_argo_leaves_an_ended_pod_alone_is_the_wait_after_a_driver(look: float, found: float) -> None:
    tasks = []
    for number, step in enumerate(["example-gen", "transform", "trainer"]):
        ended = 10.0 * number + 1
        # The node with the tries of a driver ends when its step begins (Kubeflow Pipelines 2.17).
        tasks += [
            task(f"{step}-driver", "SUCCEEDED", ended - 1, ended + look / 60, children=1),
            task(f"{step}-driver(0)", "SUCCEEDED", ended - 1, ended),
            task(step, "SUCCEEDED", ended + look / 60, ended + 5, children=1),
        ]
    assert look_s(tasks) == pytest.approx(found)
    assert look_s(tasks[:6]) is None

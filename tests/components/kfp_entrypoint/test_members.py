"""Steps that share a process: what each is given, and what the alert on a refused model reads."""

from typing import Any

from sangam.components.kfp_entrypoint.__main__ import _inputs_of
from sangam.components.kfp_entrypoint.invocation import Command
from sangam.components.kfp_entrypoint.members import Member
from sangam.components.kfp_entrypoint.task import Task
from sangam.components.kfp_entrypoint.uris import UriMapping

PUSHER = Member(
    step="pusher", executor="x.Executor", inputs_spec={}, made_before={"infra_blessing": "infra_validator__blessing"}
)
BLESSING = {"uri": "/out/infra", "type": {"schemaTitle": "tfx.InfraBlessing"}}
TASK: dict[str, Any] = {
    "inputs": {
        "parameterValues": {"pusher__push": "p", "infra_validator__serving": "s"},
        "artifacts": {"pusher__model": {"artifacts": [{"uri": "/in/model"}]}},
    },
    "outputs": {
        "artifacts": {
            "infra_validator__blessing": {"artifacts": [BLESSING]},
            "pusher__pushed_model": {"artifacts": [{"uri": "/out/pushed"}]},
        },
        "outputFile": "/out/o.json",
    },
}


def test_a_step_is_given_its_own_part_and_what_earlier_ones_made() -> None:
    made = {"infra_validator__blessing": {"uri": "/out/infra", "metadata": {"blessed": 1.0}}}
    assert PUSHER.executor_input(TASK, made) == {
        "inputs": {
            "parameterValues": {"push": "p"},
            "artifacts": {
                "model": {"artifacts": [{"uri": "/in/model"}]},
                "infra_blessing": {"artifacts": [BLESSING | {"metadata": {"blessed": 1.0}}]},
            },
        },
        "outputs": {
            "artifacts": {"pushed_model": {"artifacts": [{"uri": "/out/pushed"}]}},
            "outputFile": "/out/o.json",
        },
    }


def _step(local: dict[str, Any], name: str = "pusher", *members: Member) -> Task:
    command = Command("sangam.components.kfp_entrypoint.executors", ())
    return Task(name, command, local, UriMapping("/root"), run="r", date="", pods=1, notes=None, members=members)


def test_the_alert_of_a_shared_pusher_reads_the_verdicts_of_its_own_inputs() -> None:
    assert _inputs_of(_step(TASK, "reporter", PUSHER), "pusher") == {
        "model": "/in/model",
        "infra_blessing": "/out/infra",
    }


def test_the_alert_of_a_pusher_alone_reads_its_inputs() -> None:
    local = {"inputs": {"artifacts": {"evaluation": {"artifacts": [{"uri": "/in/e"}]}}}, "outputs": {"artifacts": {}}}
    assert _inputs_of(_step(local), "pusher") == {"evaluation": "/in/e"}


def test_no_other_task_alerts_on_a_refused_model() -> None:
    assert _inputs_of(_step(TASK, "trainer"), "pusher") is None

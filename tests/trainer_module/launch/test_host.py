"""A host that ends its ranks alone says so: the coordinator that answers again must not wait for them."""

from pathlib import Path
from typing import Any

import pytest

from sangam.trainer_module.launch import host as module
from sangam.trainer_module.launch.host import Host
from sangam.trainer_module.launch.hosts import Hosts
from sangam.trainer_module.launch.messages import Command, Heartbeat


class Ranks:
    """Ranks that run until they are ended."""

    children: tuple[Any, ...] = ()

    def are_done(self) -> bool:
        return False

    def end(self, *, grace_s: float) -> None:
        """Ends them; none had failed."""


class SilentForATime:
    """A coordinator whose second reply is lost for longer than its hosts wait."""

    def __init__(self) -> None:
        self.heard: list[Heartbeat] = []

    def send(self, heartbeat: Heartbeat) -> Command | None:
        self.heard.append(heartbeat)
        if heartbeat.failure is not None:
            return Command(action="failed", alone_s=0.1)
        return Command(action="train", attempt="a-0", hosts=4, alone_s=0.1) if len(self.heard) == 1 else None

    def hold(self, lifeline: Any) -> None:
        """Needs no lifeline."""


def test_a_host_that_ended_its_ranks_alone_tells_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_S", 0.05)
    monkeypatch.setattr(Host, "_ranks", lambda self, command: Ranks())
    link: Any = SilentForATime()
    job: Any = None
    Host(Path("job.json"), job, link, index=3, interface="lo").follow(patience_s=5)
    last = link.heard[-1]
    assert (last.attempt, last.state, last.failure.cause) == ("a-0", "idle", "lost")
    assert last.failure.brief.startswith("host 3 had no reply for ")


def test_a_coordinator_waits_until_its_hosts_have_heard_that_the_job_is_over() -> None:
    hosts = Hosts(1, service="", lost_after_s=60.0)

    def send(*, leaves: bool = False) -> Command:
        heartbeat = Heartbeat(index=0, incarnation="a", leaves=leaves)
        return Command.model_validate_json(hosts.answer(heartbeat.model_dump_json().encode()))

    send()
    hosts.close(is_done=False)
    assert send().action == "failed"
    assert not hosts.have_applied()  # The reply may be lost.
    assert send(leaves=True).action == "failed"
    assert hosts.have_applied()
    assert hosts.are_all_here()

"""The shipped Deployments of trainer and server with a real broker: each row is learned once, whatever is lost."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.cluster.demo import Demo
from tests.cluster.node import Node
from tests.cluster.online import TRAINER, Online, online
from tests.cluster.serving import PREDICT, REQUEST, ask, ended
from tests.kafka.broker import require

pytestmark = [pytest.mark.node, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def running(demo: Demo, cluster_node: Node) -> Iterator[Online]:
    """Trainer and server, ready, and nothing produced yet."""
    require()
    with online(demo, cluster_node.image) as made:
        yield made


def test_what_is_produced_is_learned_and_served(running: Online) -> None:
    base = running.served()
    assert (base["delta"], base["problem"]) == (0, None)

    def scores() -> object:
        return json.loads(ask(running.team, PREDICT, REQUEST))["outputs"]

    before = scores()
    running.produce(400)
    running.flush()
    began = time.monotonic()
    running.until(lambda: running.served()["delta"] > 0, "a delta is served")
    print(f"online: {time.monotonic() - began:.1f} s from a row to a delta that a pod is served")
    running.until_learned()
    # The first delta may be of a segment without examples, and what is learned is published a second later.
    running.until(lambda: scores() != before, "what was learned is served")
    served = running.served()
    assert (served["lineage"], served["problem"]) == (base["lineage"], None)
    pod = running.pod()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert "serviceAccountToken" not in json.dumps(pod["spec"]["volumes"])


def test_a_killed_pod_is_replaced_waits_for_the_broker_and_loses_and_repeats_nothing(running: Online) -> None:
    running.produce(200)
    running.flush()
    lost = running.pod()["metadata"]["name"]
    running.until(lambda: running.state()["examples"] > running.produced - 200, "the first of them are learned")
    running.broker.kill()
    running.team.kubectl("delete", "pod", lost, "--force", "--grace-period=0")
    before = running.state()["written"]
    running.produce(200)
    running.until(lambda: running.state()["written"] > before + 10, "the trainer is back")
    assert running.pod()["metadata"]["name"] != lost
    running.broker.start()
    running.flush()
    running.until_learned()
    assert running.state()["examples"] == running.produced


def test_a_deleted_pod_publishes_what_it_has_learned_and_ends_in_time(running: Online) -> None:
    running.produce(100)
    running.flush()
    running.until_learned()
    lineage = running.served()["lineage"]
    running.until(lambda: running.served()["version"] != int(lineage), "a full version is served")
    pod = running.pod()
    code, took_s, log = ended(running.team, pod["metadata"]["name"])
    print(f"online: ended after {took_s:.1f} s")
    assert (code, took_s < pod["spec"]["terminationGracePeriodSeconds"]) == (143, True), (took_s, log)
    assert "cluster.launcher of kind mpijob is for the daily run" in log
    running.team.kubectl("scale", f"deployment/{TRAINER}", "--replicas=0")
    last = running.state()
    assert (last["examples"], last["segment"], last["held"]) == (running.produced, last["newest_segment"], "")
    running.until(lambda: running.served()["delta"] == last["delta"], "what was published at the end is served")
    committed, ends = running.committed()
    assert committed == ends == [running.produced // 2] * 2
    assert not [*(running.root / "online" / "short_video" / "joining").glob("dead_letters/*")]
    served = running.served()
    assert (served["lineage"], served["problem"]) == (lineage, None)

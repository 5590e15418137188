"""A server whose log is a topic of a real broker, which hangs, is killed and comes back."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from sangam.schemas.spec.serving import RequestLog
from tests.components.server.logged_models import put_logged
from tests.components.server.sample_models import candidates
from tests.components.server.server_process import TIMEOUT_S, running, wait_until
from tests.kafka.broker import Broker, require

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.long]

TOPIC = "requests"
_MESSAGE_TIMEOUT_S = 10


def test_a_broker_that_is_away_fails_no_request_and_every_one_is_in_the_topic_or_counted(
    models: dict[int, Path], scratch: Path
) -> None:
    require()
    put_logged(models[1], scratch / "versions", 1, RequestLog(share=1.0))
    config = scratch / "kafka"
    config.write_text(f"message.timeout.ms={1000 * _MESSAGE_TIMEOUT_S}\n")
    with Broker(scratch / "broker") as broker:
        broker.create_topic(TOPIC)
        options = ("--log", f"kafka://{broker.address}/{TOPIC}", "--log-kafka-config", str(config))
        with running(scratch / "versions", scratch, *options) as server:

            def ask(*request_ids: str) -> None:
                request = server.client.request("rank", candidates(3))
                for each in request_ids:
                    assert server.client.send_as(request, TIMEOUT_S, each)[1] == each

            def counted(name: str, **labels: str) -> float:
                return server.metric(f"sangam_request_log_{name}", **labels)

            ask("before")
            wait_until(lambda: counted("written_total") == 1, "the broker has it")
            with broker.hung():
                ask("hung-0", "hung-1")
                wait_until(lambda: counted("waiting") == 2, "they wait for the broker")
            wait_until(lambda: counted("written_total") == 3, "what waited is there")
            broker.kill()
            ask("killed-0", "killed-1", "killed-2")
            wait_until(lambda: counted("dropped_total", reason="broker") == 3, "the time of all is over")
            broker.start()
            ask("after")
            wait_until(lambda: counted("written_total") == 4, "the broker has the next one")
            assert counted("chosen_total") == 7
            assert counted("dropped_total") == 3
        assert _request_ids(broker, 4) == ["before", "hung-0", "hung-1", "after"]


def _request_ids(broker: Broker, number: int) -> list[str]:
    """Returns the ids of all messages of the topic, at least so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([TOPIC])
    found: list[str] = []
    try:
        while (message := consumer.poll(TIMEOUT_S)) is not None:
            if message.error() is None:
                found.append(json.loads(message.value())["request_id"])
            elif len(found) >= number:  # The end of the only partition.
                return found
        return found
    finally:
        consumer.close()

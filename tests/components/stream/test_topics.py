"""The joiner on topics of a real broker: the examples of the batch joiner, each once, whoever is killed."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.contracts.joining_job import JoiningJob
from tests.components.examples.sample_files import read_examples
from tests.components.steps.example_gen.sample_logs import run_executor
from tests.components.steps.example_gen.sample_sources import logs, properties_of, write_logs
from tests.components.stream.sample_stream import as_texts, examples_of
from tests.components.stream.sample_topics import Writer, kafka_job, rows_of, topics_of
from tests.kafka.broker import Broker, running

pytestmark = pytest.mark.slow

_DAY_S = 86_400
_LATE = 3 * _DAY_S


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[str, Any]], list[str]]:
    """The rows of all logs, and what ingestion makes of them."""
    root = tmp_path_factory.mktemp("batch") / "logs"
    write_logs(root)
    examples = run_executor(properties_of(logs(), root), root.parent / "out")
    return rows_of(root), as_texts([row for split in ("train", "eval") for row in read_examples(examples.uri, split)])


def _joiner(job: JoiningJob) -> Any:
    from components.stream.joiner import Joiner

    return Joiner(job)


def _step_until(joiner: Any, condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, joiner.source()
        joiner.step(is_last=True)


def _messages(joiner: Any) -> int:
    return joiner.source()["counts"].get("messages", 0)


def _read_all(joiner: Any, messages: int) -> None:
    """Steps until so many messages have landed, and are read."""
    _step_until(joiner, lambda: _messages(joiner) >= messages and not joiner.source()["behind"])
    joiner.step(is_last=True)


@pytest.mark.parametrize("seed", range(3))
def test_examples_are_those_of_the_batch_joiner_over_restarts_and_kills_of_the_broker(
    broker: Broker, batch: tuple[list[tuple[str, Any]], list[str]], tmp_path: Path, seed: int
) -> None:
    rows, expected = batch
    chance = random.Random(seed)
    rows = chance.sample(rows, len(rows))
    topics = topics_of(broker, f"batch{seed}")
    writer, job = Writer(broker, topics, seed), kafka_job(tmp_path, broker, topics, lateness_s=_LATE, segment_rows=7)
    joiner, written = _joiner(job), 0
    # The broker is killed in one of the cases, as it takes seconds to start.
    killed_at = chance.randrange(40, 150) if seed == 0 else len(rows)
    while written < len(rows):
        part = rows[written : written + chance.randint(1, 40)]
        writer.write(part)
        if written <= killed_at < written + len(part):
            broker.kill()
            joiner.step()
            broker.start()
        written += len(part)
        writer.flush()
        for _ in range(chance.randint(0, 4)):
            joiner.step()
        if chance.random() < 0.5:
            joiner.close()
            joiner = _joiner(job)  # As after a kill: only what has landed, and what was sealed, counts.
    _read_all(joiner, len(rows))
    joiner.close()
    last = _joiner(kafka_job(tmp_path, broker, topics, lateness_s=_LATE, segment_rows=7, idle_s=0.001))
    _step_until(last, lambda: last.counts["examples"] >= len(expected))
    assert as_texts(examples_of(job)) == expected
    assert (_messages(last), last.counts["rows late"]) == (len(rows), 0)
    assert not (tmp_path / "dead").exists()
    last.close()

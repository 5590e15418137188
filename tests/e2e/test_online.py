"""Online training as its user meets it: log files appear, servers follow, whatever is killed in between."""

import datetime
import itertools
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sangam.components.registry.blessed import read_all, record
from sangam.components.steps.pusher import directory, manifest
from sangam.components.steps.pusher.manifest import Provenance
from sangam.schemas.contracts.root import Root
from tests.e2e.user_run import DATE, LEAN, World, processes_naming, sangam, start, wait_until
from tests.fakes.webhook import webhook
from tests.kafka.broker import Broker, running

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

_BASE = "20260305001"
_PARTS = 12
_QUICK = {
    "sync": {"rows_every_s": 0.5, "dense_every_s": 1.5, "full_every": 6},
    "checkpoint_every_s": 1,
    "joining": {"settle_s": 0.1, "segment_every_s": 0.2, "idle_s": 1, "lateness_s": 0},
    "guards": [{"task": "like", "metric": "auc", "at_least": 0.3}],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("online"), demo_spec_path)
    made.generate()
    before = {"kind": "count", "by": {"user_id": "string", "author_id": "int"}, "log": True}
    changes = {**LEAN, ("features", "user_and_author_before"): before, ("event_time",): "event_time"}
    spec = made.spec("online", {**changes, ("online",): _QUICK})
    done, summary = made.run(spec)
    assert done.returncode == 0, done.stdout + done.stderr
    assert summary["pushed"]["version"] == _BASE
    return made


@contextmanager
def _served(world: World) -> Iterator[str]:
    """Starts a server; yields the address of its REST interface."""
    addresses = world.directory / "addresses.json"
    addresses.unlink(missing_ok=True)
    options = ["--grpc-port", "0", "--rest-port", "0", "--address-file", str(addresses), "--poll-s", "0.2"]
    server = start(["serve", str(world.root / "serving" / "short_video"), *options], world.directory / "serve.txt")
    try:
        wait_until(lambda: addresses.exists() or server.poll() is not None, "the server is ready")
        yield f"http://{json.loads(addresses.read_text())['rest']}"
    finally:
        server.terminate()
        assert server.wait(30) == 0


def _kill(module: str, world: World) -> None:
    """Kills the processes of a module that work below the root."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if module in words and any(str(world.root) in word for word in words):
            os.kill(process.pid, signal.SIGKILL)


def test_what_arrives_is_learned_once_and_served_whatever_is_killed_and_a_stop_loses_nothing(world: World) -> None:
    stream, log = world.directory / "stream", world.directory / "online.txt"
    day = pa.concat_tables([pq.read_table(file) for file in sorted((world.logs / DATE).glob("*.parquet"))])
    (stream / DATE).mkdir(parents=True)
    command = ["online", str(world.directory / "online.yaml"), "--source", str(stream), "--root", str(world.root)]
    logs = world.root / "online" / "short_video" / "training" / _BASE / "logs"

    def state() -> dict[str, Any]:
        file = logs / "online.json"
        return json.loads(file.read_text()) if file.exists() else {"examples": 0, "delta": 0}

    with _served(world) as rest:

        def served() -> Any:
            return httpx.get(f"{rest}/deltas").json()

        assert (served()["lineage"], served()["delta"]) == (_BASE, 0)
        online = start(command, log)
        try:
            for part in range(_PARTS):
                rows = day.slice(part * day.num_rows // _PARTS, day.num_rows // _PARTS)
                aside = stream / DATE / f"_part-{part:03d}.parquet"
                pq.write_table(rows, aside)
                aside.rename(stream / DATE / f"part-{part:03d}.parquet")
                arrived = (part + 1) * day.num_rows // _PARTS
                wait_until(lambda wanted=arrived: state()["examples"] >= wanted, "what has arrived is learned")
                # Ranks alone are killed in the next test.
                if part in (3, 7):
                    _kill("sangam.components.stream", world)
                if part == 7:
                    _kill("sangam.trainer_module", world)
            wait_until(lambda: served()["delta"] == state()["delta"] >= 6, "the last delta is served")
            wait_until(lambda: served()["version"] != int(_BASE), "a full version is served")
            assert served()["problem"] is None
            assert sangam("online", *command[1:]).returncode == 4  # One at a time.
        finally:
            online.terminate()
            code = online.wait(150)
        assert code == 143, log.read_text()
        assert processes_naming(world.root / "online") == []
        last = state()
        assert (last["examples"], last["segment"], last["held"]) == (day.num_rows, last["newest_segment"], "")
        assert 0.3 < last["judged"]["like"]["auc"] < 1
        wait_until(lambda: served()["delta"] == last["delta"], "what was published at the end is served", 30)
        assert "was lost" in log.read_text()


def _offsets(broker: Broker, topic: str, group: str) -> tuple[list[int], list[int]]:
    """Returns what a group has committed of two partitions, and where they end."""
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    partitions = [TopicPartition(topic, number) for number in range(2)]
    ends = [reader.get_watermark_offsets(each, timeout=60)[1] for each in partitions]
    committed = [each.offset for each in reader.committed(partitions, timeout=60)]
    reader.close()
    return committed, ends


def test_topics_are_learned_once_whoever_is_killed_and_the_group_has_the_offsets_of_the_checkpoint(
    world: World,
) -> None:
    log = world.directory / "kafka.txt"
    online_file = world.root / "online" / "short_video" / "training" / _BASE / "logs" / "online.json"
    rows = pq.read_table(next((world.logs / DATE).glob("*.parquet"))).slice(0, 600).to_pylist()
    before = json.loads(online_file.read_text())["examples"] if online_file.exists() else 0

    def learned() -> int:
        return json.loads(online_file.read_text())["examples"] - before if online_file.exists() else 0

    with running(world.directory / "broker") as broker:
        broker.create_topic("rows", 2)
        source = ["--source", f"kafka://{broker.address}", "--topic", "rows", "--group", "learners"]
        online = start(["online", str(world.directory / "online.yaml"), *source, "--root", str(world.root)], log)
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})
        try:
            for part in range(3):
                producer.produce("rows", value=b"{", partition=part % 2)
                for number, row in enumerate(rows[200 * part : 200 * part + 200]):
                    row["event_time"] += 86_400
                    producer.produce("rows", value=json.dumps(row).encode(), partition=number % 2)
                if part == 1:
                    broker.kill()
                    _kill("sangam.components.stream", world)
                    broker.start()
                assert producer.flush(60) == 0
                wait_until(lambda wanted=200 * part + 200: learned() >= wanted, "what has arrived is learned")
                if part == 0:
                    _kill("sangam.trainer_module", world)
        finally:
            online.terminate()
            code = online.wait(90)
        assert code == 143, log.read_text()
        assert learned() == 600
        committed, ends = _offsets(broker, "rows", "learners")
        assert committed == ends == [302, 301]
    letters = list((world.root / "online" / "short_video" / "joining" / "dead_letters").glob("*.jsonl"))
    poison = [json.loads(line) for file in letters for line in file.read_text().splitlines()]
    assert sorted((each["partition"], each["text"]) for each in poison) == [(0, "{"), (0, "{"), (1, "{")]


def _bless_again(world: World, day: str) -> str:
    """Pushes the base's model once more, as one that has also learned from a day; returns its version."""
    root = Root(str(world.root))
    target, base = world.root / "serving" / "short_video", world.directory / "again"
    shutil.copytree(target / _BASE, base)
    described = manifest.read_manifest("manifest.json", (base / manifest.FILE_NAME).read_bytes())
    for name in (manifest.FILE_NAME, manifest.CARD_FILE):
        (base / name).unlink()
    provenance = Provenance.model_validate({name: getattr(described, name) for name in Provenance.model_fields})
    now = datetime.datetime.now(datetime.UTC)
    pushed = directory.push(
        model=base, target=target, day=day.replace("-", ""), provenance=provenance, card=lambda _: "card", now=now
    )
    [blessed] = read_all(root.blessed("short_video"))
    changes = {"days": (*blessed.days, day), "pushed": f"serving/short_video/{pushed.version}", "blessed_at": now}
    record(root.blessed("short_video"), blessed.model_copy(update=changes))
    return pushed.version


def test_a_crossed_guard_holds_deltas_and_alerts_once_and_a_new_base_is_followed_with_what_came_after_it(
    world: World,
) -> None:
    stream, log = world.directory / "stream", world.directory / "guarded.txt"
    guard = {"task": "like", "metric": "auc", "at_least": 0.9999, "minutes": 10_000, "least_examples": 400}
    online_section = {**_QUICK, "guards": [guard]}
    spec = world.spec("guarded", {**LEAN, ("event_time",): "event_time", ("online",): online_section, ("alerts",): {}})
    day = pq.read_table(next((world.logs / DATE).glob("*.parquet")))
    versions, training = world.root / "serving" / "short_video", world.root / "online" / "short_video" / "training"

    firsts = itertools.count(1000, 450)  # Rows that came before, under whatever name, are not read again.

    def arrive(days: int, rows: int) -> None:
        """Lets rows appear, so many days after the base's last one."""
        date = str(datetime.date.fromisoformat(DATE) + datetime.timedelta(days=days))
        (stream / date).mkdir(parents=True, exist_ok=True)
        part = day.slice(next(firsts), rows)
        times = pa.array([time_s + 86_400 * days for time_s in part["event_time"].to_pylist()])
        part = part.set_column(part.schema.get_field_index("event_time"), "event_time", times)
        number = len(list((stream / date).iterdir()))
        pq.write_table(part, stream / date / f"_{number}")
        (stream / date / f"_{number}").rename(stream / date / f"more-{number}.parquet")

    def state(lineage: str) -> dict[str, Any]:
        file = training / lineage / "logs" / "online.json"
        return json.loads(file.read_text()) if file.exists() else {"examples": 0, "delta": 0, "written": 0}

    before = state(_BASE)["examples"]
    stream.mkdir(exist_ok=True)
    with _served(world) as rest, webhook() as hook:

        def served() -> Any:
            return httpx.get(f"{rest}/deltas").json()

        environment = {"SANGAM_ALERT_URL": hook.url, "SANGAM_ALERT_KEY": "0123456789abcdef"}
        online = start(["online", str(spec), "--source", str(stream), "--root", str(world.root)], log, environment)
        try:
            arrive(1, 450)
            wait_until(
                lambda: state(_BASE)["examples"] == before + 450 and bool(state(_BASE)["held"]), "deltas are held"
            )
            held = state(_BASE)
            assert held["held"].startswith("like: auc of the last 10000 minutes is less than 0.9999 (got 0.")
            arrive(2, 300)
            wait_until(lambda: state(_BASE)["examples"] == before + 750, "training goes on")
            assert state(_BASE)["delta"] == held["delta"]
            wait_until(lambda: bool(hook.received), "somebody is told")

            lineage = _bless_again(world, "2026-03-06")
            wait_until(lambda: state(lineage)["examples"] == 300, "what came after the new base is learned")
            assert state(_BASE)["examples"] == before + 750
            wait_until(lambda: served()["lineage"] == lineage and served()["delta"] >= 1, "its deltas are served")
            assert state(lineage)["held"] == ""  # Too few of its examples are judged.
            wait_until(lambda: served()["delta"] == state(lineage)["delta"], "the last delta is served")
            assert (state(lineage)["examples"], served()["problem"]) == (300, None)

            done = sangam("rollback", str(versions), "--to", f"{lineage}+0", "--because", "likes fell")
            assert done.returncode == 0, done.stderr
            wait_until(lambda: served()["delta"] == 0, "servers have gone back")
            wait_until(lambda: "likes fell" in state(lineage)["held"], "the trainer holds its deltas")
            wait_until(lambda: len(hook.received) == 2, "somebody is told of the hold, too", 30)
            assert sangam("rollback", str(versions), "--release", lineage).returncode == 0
            wait_until(lambda: served()["delta"] == state(lineage)["delta"] > 0, "servers go on")
        finally:
            online.terminate()
            assert online.wait(150) == 143, log.read_text()
    told = [json.loads(each.body) for each in hook.received]
    assert [(each["kind"], each["step"]) for each in told] == [("refused", "online")] * 2
    assert told[0]["run"] == f"{_BASE}+{held['delta']}"
    assert f"sangam rollback {versions} --to {_BASE}+NUMBER" in told[0]["reason"]
    assert "likes fell" in told[1]["reason"]
    assert "deltas go out again" in log.read_text()

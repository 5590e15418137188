"""The options that say where rows come from."""

from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.online.source import source_of
from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.components.logs.sample_sources import logs
from tests.errors import place_and_value
from tests.schemas.checks.test_served import SERVED
from tests.schemas.sample_specs import loaded

_ALL = ["shown", "likes=liked", "items=things"]
_BROKER = "kafka://127.0.0.1:9"


@pytest.fixture(scope="module")
def spec(demo_spec_path: Path) -> Spec:
    """A spec with the sources `likes` and `items`."""
    return load_spec(demo_spec_path).model_copy(update={"data": logs()})


def _source(spec: Spec, source: str, topics: Any = (), properties: Path | None = None) -> Path | Kafka:
    return source_of(spec, source, topics, None, properties)


def test_a_folder_stays_one_and_topics_have_a_group_of_the_rankers_name(spec: Spec, tmp_path: Path) -> None:
    assert _source(spec, str(tmp_path)) == tmp_path.resolve()
    topics = {"": "shown", "likes": "liked", "items": "things"}
    assert _source(spec, "kafka://a:1,[::1]:2", _ALL) == Kafka(
        servers="a:1,[::1]:2", group="sangam-short_video", topics=topics
    )


def test_files_of_requests_that_come_after_their_actions_are_over_are_refused(tmp_path: Path) -> None:
    quick = {"online": {"joining": {"lateness_s": 11}}, "serving": {"log": {"share": 1, "file_every_s": 10}}}
    assert _source(loaded(tmp_path, SERVED | quick), str(tmp_path)) == tmp_path.resolve()
    default = loaded(tmp_path, SERVED | {"online": {}})
    with pytest.raises(UserError, match=place_and_value("online.joining.lateness_s", "(got 10, 300 and 1)")):
        _source(default, str(tmp_path))
    assert isinstance(_source(default, _BROKER, ["requests", "clicks=clicks"]), Kafka)


@pytest.mark.parametrize(
    ("source", "topics", "place", "value"),
    [
        ("kafka://", _ALL, "--source", "(got '')"),
        ("kafka://host", _ALL, "--source", "(got 'host')"),
        ("kafka://a:1,b", _ALL, "--source", "(got 'b')"),
        ("kafka://user:word@a:1", _ALL, "--source", "HOST:PORT"),
        ("nowhere", [], "--source", "(got nowhere)"),
        (".", ["shown"], "--topic", "(got --source .)"),
        (_BROKER, [], "--topic", "main log ... (got 0 topics)"),
        (_BROKER, _ALL[:2], "--topic", "'items' ... (got 2 topics)"),
        (_BROKER, [*_ALL, "clicks=c"], "--topic", "(got clicks=c) ... likes=TOPIC"),
        (_BROKER, [*_ALL, "other"], "--topic", "(got shown, other)"),
        (_BROKER, ["shown", "likes=shown", "items=things"], "--topic", "(got shown)"),
        (_BROKER, ["sh own", *_ALL[1:]], "--topic", "(got sh own)"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    spec: Spec, source: str, topics: list[str], place: str, value: str
) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        _source(spec, source, topics)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("enable.auto.commit=true", "(got enable.auto.commit)"),
        ("group.id = mine", "(got group.id)"),
        ("bootstrap.servers=a:1", "(got bootstrap.servers)"),
        ("security.protocol", "without '='"),
        ("client.rack=a\nclient.rack=b", "(got client.rack)"),
    ],
)
def test_properties_that_would_break_a_promise_are_refused_by_line(
    spec: Spec, tmp_path: Path, line: str, value: str
) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(f"# TLS\n\n{line}\n")
    number = 3 + line.count("\n")
    with pytest.raises(UserError, match=place_and_value(f"--kafka-config: {file}:{number}", value)):
        _source(spec, _BROKER, _ALL, file)


def test_properties_that_librdkafka_does_not_know_are_named_without_their_values(spec: Spec, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    for line, name in (("sasl.pasword=geheim", "sasl.pasword"), ("security.protocol=geheim", "security.protocol")):
        file.write_text(line)
        with pytest.raises(UserError, match=place_and_value(str(file), f"(got {name})")) as caught:
            _source(spec, _BROKER, _ALL, file)
        assert "geheim" not in str(caught.value)
    with pytest.raises(UserError, match=place_and_value("--kafka-config", "nothing-there")):
        _source(spec, _BROKER, _ALL, tmp_path / "nothing-there")


def test_properties_of_the_user_reach_the_client(spec: Spec, tmp_path: Path) -> None:
    from sangam.components.stream.kafka_client import properties_of

    file = tmp_path / "kafka.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b=c\n")
    kafka = _source(spec, _BROKER, _ALL, file)
    assert isinstance(kafka, Kafka)
    assert properties_of(kafka)["sasl.password"] == "b=c"
    assert "b=c" not in kafka.model_dump_json()

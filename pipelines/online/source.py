"""The source of rows and actions from the options of the command: a folder, or topics of Kafka."""

import re
from collections.abc import Sequence
from pathlib import Path

from sangam.components.stream.arrivals import MAIN
from sangam.components.stream.kafka_client import reader_of
from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs, ServedLogs

_KAFKA = "kafka://"
_SERVER = re.compile(r"[^\s/:,\[\]]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def source_of(
    spec: Spec, source: str, topics: Sequence[str], group: str | None, properties: Path | None
) -> Path | Kafka:
    """Returns the folder, or the topics.

    Args:
        spec: spec of the ranker.
        source: FOLDER or kafka://HOST:PORT[,HOST:PORT].
        topics: TOPIC of the main log, and SOURCE=TOPIC of each other source.
        group: group whose offsets are committed; None: named after the ranker.
        properties: file with properties of librdkafka.

    Raises:
        UserError: the options contradict each other or the spec.
    """
    if not source.startswith(_KAFKA):
        _refuse_late_requests(spec)
        return _folder(source, {"--topic": bool(topics), "--group": bool(group), "--kafka-config": bool(properties)})
    servers = source.removeprefix(_KAFKA)
    wrong = [server for server in servers.split(",") if not _SERVER.fullmatch(server)]
    if wrong:
        raise UserError(f"--source: is no address of a broker (got '{wrong[0]}'); give {_KAFKA}HOST:PORT[,HOST:PORT]")
    kafka = Kafka(
        servers=servers,
        group=group or f"sangam-{spec.name}",
        topics=_topics(spec, topics),
        properties=str(properties.resolve()) if properties else None,
    )
    reader_of(kafka).close()  # Raises an error for invalid properties.
    return kafka


def _refuse_late_requests(spec: Spec) -> None:
    """Refuses files of requests that are sealed so late that their actions are no longer kept."""
    if not isinstance(spec.data, ServedLogs) or spec.serving.log is None or spec.online is None:
        return
    joining, every_s = spec.online.joining, spec.serving.log.file_every_s
    if joining.lateness_s < every_s + joining.settle_s:
        raise UserError(
            f"online.joining.lateness_s: is less than a request may come after its actions: serving.log.file_every_s "
            f"and settle_s (got {joining.lateness_s}, {every_s:g} and {joining.settle_s:g}); raise it, or lower "
            "file_every_s: labels would be lost"
        )


def _folder(source: str, options: dict[str, bool]) -> Path:
    for option, is_given in options.items():
        if is_given:
            raise UserError(f"{option}: is for topics (got --source {source}); remove it, or give --source {_KAFKA}...")
    folder = Path(source).resolve()
    if not folder.is_dir():
        raise UserError(
            f"--source: no such folder (got {source}); give the folder in which log files appear, the one that "
            f"the spec's file patterns are relative to, or {_KAFKA}HOST:PORT"
        )
    return folder


def _topics(spec: Spec, given: Sequence[str]) -> dict[str, str]:
    assert isinstance(spec.logs, DayLogs)
    sources = [MAIN, *spec.logs.sources]
    found: dict[str, str] = {}
    for each in given:
        name, _, topic = each.rpartition("=")
        if name not in sources:
            known = ", ".join(f"{source}=TOPIC" for source in spec.logs.sources) or "TOPIC alone, as it has none"
            raise UserError(f"--topic: no such source in the spec (got {each}); give {known}")
        if not _TOPIC.fullmatch(topic):
            raise UserError(f"--topic: is no name of a topic (got {each}); letters, digits, '.', '_' and '-'")
        if name in found:
            raise UserError(f"--topic: {_named(name)} has two topics (got {found[name]}, {topic}); give one")
        if topic in found.values():
            raise UserError(f"--topic: is given twice (got {topic}); each log has a topic of its own")
        found[name] = topic
    if missing := [source for source in sources if source not in found]:
        option = f"--topic {missing[0]}=TOPIC" if missing[0] else "--topic TOPIC"
        raise UserError(f"--topic: {_named(missing[0])} has no topic (got {len(given)} topics); add {option}")
    return found


def _named(source: str) -> str:
    return f"source '{source}'" if source else "the main log"

"""The job of a joiner: its inputs, and the folder of its segments."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.host.files import write_whole
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from sangam.schemas.spec.online import Joining

FORMAT: Literal[1] = 1
JOB_FILE, STATUS_FILE = "joining.json", "status.json"
_SILENT_S = 60.0
_REMEDY = "another version has written it: start the online training again with this one"


class Kafka(FrozenModel):
    """Topics in place of folders.

    Attributes:
        servers: HOST:PORT of the first brokers to contact, separated by commas.
        group: consumer group whose committed offsets mark the learned messages.
        topics: topics by source; the main log's has an empty name.
        properties: file with properties of librdkafka; its secrets stay there.
    """

    servers: str
    group: str
    topics: dict[str, str]
    properties: str | None = None


class JoiningJob(FrozenModel):
    """The inputs and outputs of a joiner. All paths are absolute.

    Attributes:
        logs: the spec's data section.
        inputs: features, tasks and keys of the spec.
        settings: settings of the joiner.
        data_root: folder in which log files appear; the patterns of `logs` are relative to it. With topics, the folder
            in which messages land.
        first_day: YYYY-MM-DD; files of earlier days of the main log are left out.
        segments: folder of the joined examples.
        dead_letters: folder of messages and files that cannot be read.
        status_file: JSON file with the joiner's progress, written about once a second.
        kafka: topics of the rows and actions; None: files.
    """

    format: Literal[1] = FORMAT
    logs: DayLogs
    inputs: Inputs
    settings: Joining
    data_root: str
    first_day: str
    segments: str
    dead_letters: str
    status_file: str
    kafka: Kafka | None = None


@dataclass(frozen=True)
class Stalled:
    """Whether a joiner makes examples.

    Attributes:
        seconds: seconds since its last example, while rows arrive.
        reason: why none comes; empty while they come.
    """

    seconds: float = 0.0
    reason: str = ""


def read_stalled(status_file: Path, now: float) -> Stalled:
    """Reads the joiner's status file; one that is not written any more is a stall too.

    Args:
        status_file: file that the joiner writes about once a second.
        now: seconds since 1970.
    """
    try:
        status = json.loads(status_file.read_bytes())
        silent_s = now - float(status["written"])
        seconds, reason = float(status["stalled_s"]), str(status["stalled"])
    except (OSError, ValueError, LookupError, TypeError):
        return Stalled()  # It has not begun.
    if silent_s <= _SILENT_S:
        return Stalled(seconds, reason)
    return Stalled(seconds + silent_s, reason or f"the joiner has written no status for {silent_s:.0f} s, see its log")


def write_joining_job(path: Path, job: JoiningJob) -> None:
    """Writes a job file atomically."""
    write_whole(path, job.model_dump_json(indent=2))


def read_joining_job(path: Path) -> JoiningJob:
    """Reads a job file.

    Raises:
        UserError: it has another format.
    """
    content = path.read_bytes()
    refuse_other_format(path, json.loads(content), FORMAT, _REMEDY)
    return JoiningJob.model_validate_json(content)

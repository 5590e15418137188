"""The options of a server, parsed from the command line of `python -m sangam.components.server`."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from sangam.schemas.contracts.request_log import KAFKA
from sangam.schemas.errors import UserError
from sangam.schemas.host.cgroup import usable_cores

GRPC_PORT, REST_PORT = 8500, 8501
"""TensorFlow Serving's ports."""
LOG_STOP_S = 12.0
"""Longest time in which what waits is scored in the shadow and logged after the last request."""
_PATHS = ("address_file", "metrics_target", "control", "log_key", "log_kafka_config")


@dataclass(frozen=True)
class Options:
    """The options of a server.

    Attributes:
        directory: folder of versions, or one SavedModel.
        name: name of the model in requests; empty: the name in ranker.json, or the folder's.
        host: host to listen on.
        grpc_port: 0: any free port.
        rest_port: 0: any free port.
        address_file: where to write the addresses as JSON when the server is ready.
        metrics_target: file by which Prometheus finds /metrics while the server serves.
        processes: processes that serve, each with threads and limits of its own; with several, tables are mapped.
        threads: requests that run at once in a process; 0: its share of the cores, one at least.
        threads_per_request: threads of one matrix product; rankers' are too small for a second thread to pay off.
        poll_s: interval between checks of the folder.
        max_message_bytes: maximum size of a request.
        max_rows: maximum rows of a request.
        max_batch_rows: maximum rows of one call of joined requests; 0: one call for each request.
        max_queued: requests that may wait.
        rest_timeout_s: time for a REST request to arrive and to wait for a slot.
        max_connections: maximum connections of the REST interface.
        grace_s: time for running requests when the server is stopped.
        allow_updates: whether upsert and remove may be called.
        map_tables: whether tables of 16 MiB or more stay in their files, mapped into memory.
        parent_pid: process with which the server ends; 0: none.
        as_json: whether to print events as lines of JSON.
        control: socket of one of several processes, which its supervisor chooses; None: the only one.
        log: folder of the log of requests, or kafka://HOST:PORT/TOPIC; empty: none.
        log_key: file with the key of hashed columns of the log.
        log_kafka_config: file with properties of librdkafka, where the log is a topic.
    """

    directory: Path
    name: str = ""
    host: str = "127.0.0.1"
    grpc_port: int = GRPC_PORT
    rest_port: int = REST_PORT
    address_file: Path | None = None
    metrics_target: Path | None = None
    processes: int = 1
    threads: int = 0
    threads_per_request: int = 1
    poll_s: float = 2.0
    max_message_bytes: int = 16 * 2**20
    max_rows: int = 10_000
    max_batch_rows: int = 4_096
    max_queued: int = 32
    rest_timeout_s: float = 30.0
    max_connections: int = 512
    grace_s: float = 30.0
    allow_updates: bool = False
    map_tables: bool = False
    parent_pid: int = 0
    as_json: bool = False
    control: Path | None = None
    log: str = ""
    log_key: Path | None = None
    log_kafka_config: Path | None = None

    def __post_init__(self) -> None:
        if not self.directory.is_dir():
            raise UserError(
                f"DIR: no such folder (got {self.directory}); give a folder of versions or one SavedModel's"
            )
        if self.log_key and not self.log:
            raise UserError(f"--log-key: has no effect without --log (got {self.log_key}); remove it, or give --log")
        if self.log_kafka_config and not self.log.startswith(KAFKA):
            raise UserError(
                f"--log-kafka-config: is for a topic (got --log '{self.log}'); remove it, or give {KAFKA}..."
            )
        for name in ("grpc_port", "rest_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise UserError(
                    f"{flag(name)}: is not a port (got {getattr(self, name)}); 0 to 65535, 0 for any free one"
                )
        for name in (
            "processes",
            "threads_per_request",
            "poll_s",
            "max_message_bytes",
            "max_rows",
            "rest_timeout_s",
            "max_connections",
        ):
            if not getattr(self, name) > 0:
                raise UserError(f"{flag(name)}: too small (got {getattr(self, name)}); more than 0 is needed")
        for name in ("threads", "max_batch_rows", "max_queued", "grace_s", "parent_pid"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{flag(name)}: too small (got {getattr(self, name)}); 0 or more is needed")
        if self.allow_updates and self.processes > 1:
            raise UserError(
                f"--allow-updates: a client would change one process alone (got --processes {self.processes}); give "
                "--processes 1, or publish deltas, which every process applies"
            )

    @property
    def num_threads(self) -> int:
        """The number of threads of a process, by default its share of the cores that they may use."""
        return self.threads or math.ceil(usable_cores() / self.processes)

    def address(self, port: int) -> str:
        """Returns host:port."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def flag(name: str) -> str:
    """Returns an option's name on the command line."""
    return "--" + name.replace("_", "-")


def parse(arguments: Sequence[str]) -> Options:
    """Reads the command line that `arguments_of` returns: DIR, and an option for each attribute of Options."""
    parser = argparse.ArgumentParser(
        prog="python -m sangam.components.server", description="Serves a model; see `sangam serve`."
    )
    parser.add_argument("directory", metavar="DIR", type=Path)
    for field in fields(Options)[1:]:
        if isinstance(field.default, bool):
            parser.add_argument(flag(field.name), action="store_true")
        else:
            kind = Path if field.name in _PATHS else type(field.default)
            parser.add_argument(flag(field.name), type=kind, default=field.default)
    return Options(**vars(parser.parse_args(arguments)))


def arguments_of(options: Options) -> list[str]:
    """Returns the command line of options."""
    arguments = [str(options.directory)]
    for field in fields(options)[1:]:
        value = getattr(options, field.name)
        if value is True:
            arguments.append(flag(field.name))
        elif value != field.default:
            arguments.append(f"{flag(field.name)}={value}")
    return arguments

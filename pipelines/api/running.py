"""A whole local run from Python: `sangam run` as a child process."""

import datetime
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from sangam.components.record.store import read_run
from sangam.pipelines.api.root import RunFailed
from sangam.pipelines.api.run import Run
from sangam.pipelines.api.spec import GivenSpec, spec_of
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.errors import UserError
from sangam.schemas.host.parent_process import end_with_parent
from sangam.schemas.host.plain_text import UTF8_OUTPUT

_MODULE = "sangam.pipelines.cli"
_WITHOUT_MODEL = ("refused", "failed", "stopped", "killed", "unreadable")


def run(
    spec: GivenSpec,
    *,
    data: "str | os.PathLike[str]",
    root: "str | os.PathLike[str]",
    date: str | datetime.date | None = None,
    reread: bool = False,
    check: bool = False,
) -> Run:
    """Runs the whole pipeline on this machine, as `sangam run` does, and prints its progress.

    The run is a child process: it ends with this one, and Ctrl-C, or interrupting the notebook, stops it.

    >>> try:
    ...     run = sangam.run(spec, date="2024-05-20", data="log", root="root")  # a run takes a minute: data="logs"
    ... except sangam.UserError as error:
    ...     print(error)
    --data: no such folder (got .../log); give the folder that the spec's file patterns are relative to

    Args:
        spec: a spec, the path of its file, or plain data.
        data: folder of the logs, or its address; the spec's file patterns are relative to it.
        root: folder for everything that runs write; created if it does not exist.
        date: last day to evaluate on; None for logs without days.
        reread: whether to read every log file again, even if its size and time are the same.
        check: whether to raise an error unless the model is blessed.

    Returns:
        The run. Its state says whether it failed, or a gate refused the model.

    Raises:
        UserError: the spec, an argument or the logs are wrong; arguments are named as the command's options.
        RunFailed: with `check`, the run failed or a gate refused its model.
        KeyboardInterrupt: after Ctrl-C, once the run has ended.
    """
    from sangam.pipelines.local.request import check_request  # Its readers of logs take half a second.

    given = spec_of(spec)
    day = None if date is None else str(date)
    request = check_request(given.declared, day, os.fspath(data), Path(root))
    with tempfile.TemporaryDirectory(prefix="sangam-") as folder:
        file, summary = Path(folder, "spec.yaml"), Path(folder, "summary.json")
        file.write_text(given.text, encoding="utf-8")
        options = {"--date": day, "--data": request.data_root, "--root": str(request.root)}
        pairs = [part for option, value in options.items() if value is not None for part in (option, value)]
        flags = ["--json", *(["--reread"] if reread else [])]
        ended = _command(["run", str(file), *pairs, *flags], summary)
    ran = _run_of(ended)
    if check and ran.state in _WITHOUT_MODEL:
        raise RunFailed(ran)
    return ran


class _Ended(NamedTuple):
    """A command that has ended: its exit code, what it has told on the way, and its document."""

    code: int
    told: str
    document: str


def _run_of(ended: _Ended) -> Run:
    """Returns the run of a command.

    Raises:
        UserError: it is a mistake of the user, or no run came to be.
    """
    if not ended.document:
        raise UserError(_reason(ended))
    document = json.loads(ended.document)
    if ended.code == ExitCode.MISTAKE:
        raise UserError(document["error"])
    return Run(read_run(RunFolder(Path(document["path"]))))


def _reason(ended: _Ended) -> str:
    """Returns why a command began no run."""
    if ended.code < 0 or not ended.told.strip():
        return f"run: its process left no summary (got exit code {ended.code}); run again: it resumes"
    last = ended.told.splitlines()[-1]
    try:
        return str(json.loads(last)["error"])
    except (ValueError, TypeError, KeyError):
        return ended.told.strip()


def _command(arguments: Sequence[str], document: Path) -> _Ended:
    """Runs a command in a session of its own, and prints what it tells until it ends.

    Args:
        arguments: of `sangam`, with `--json`.
        document: file for standard output.

    Raises:
        KeyboardInterrupt: once the command, told so too, has ended.
    """
    with document.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, *arguments],
            env=os.environ | UTF8_OUTPUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
            preexec_fn=functools.partial(end_with_parent, os.getpid(), signal.SIGTERM),
        )
    told: list[str] = []
    try:
        _print(_lines(process), told)
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        _print(_lines(process), told)
        process.wait()
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return _Ended(code, "".join(told), document.read_text(encoding="utf-8"))


def _lines(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stderr is not None
    return process.stderr


def _print(lines: Iterable[str], told: list[str]) -> None:
    for line in lines:
        told.append(line)
        print(line, end="", flush=True)  # sys.stdout, not its descriptor: a notebook shows it below the cell.

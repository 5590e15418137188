"""Runs `sangam` in this process, whose start would take a second: output, errors and exit code are those of `main`."""

import contextlib
import io
import os
import subprocess
from unittest import mock

from sangam.pipelines.cli import main


def sangam(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command that starts no process; those of `run` have to be started as users do."""
    command = ["sangam", *arguments]
    output, errors = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch("sys.argv", command),
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int)
    return subprocess.CompletedProcess(command, code or 0, output.getvalue(), errors.getvalue())

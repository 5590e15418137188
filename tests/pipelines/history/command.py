"""Runs a command in this process."""

from click.testing import Result
from typer.testing import CliRunner

from sangam.pipelines.cli import app


def sangam(*arguments: str) -> Result:
    """Runs a command that must succeed."""
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done

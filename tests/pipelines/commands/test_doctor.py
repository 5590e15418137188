"""The command `sangam doctor`."""

import json

import pytest
from typer.testing import CliRunner

from sangam.pipelines.cli import app


@pytest.mark.slow
def test_the_findings_for_programs() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    findings = json.loads(done.stdout)
    assert {"python", "horovod", "memory"} <= {finding["name"] for finding in findings}
    assert done.exit_code == (0 if all(finding["is_ok"] for finding in findings) else 1)
    assert all(finding["fix"] for finding in findings if not finding["is_ok"])

"""`sangam schedule print` shows a timer that runs a spec, and finds at once what would fail at night."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sangam.pipelines.commands import schedule as commands
from sangam.schemas.errors import UserError
from tests.paths import SPECS

KEY = "0123456789abcdef"


class Place:
    """A spec, and folders with odd names."""

    def __init__(self, folder: Path):
        self.spec = folder / "the spec 100%.yaml"
        self.spec.write_text((SPECS / "short_video.yaml").read_text())
        self.folders = ("--data", str(folder / "data $HOME"), "--root", str(folder / "root 'x'"))

    def print(self, *options: str, at: str = "02:30") -> Result:
        arguments = ["print", str(self.spec), "--at", at, *self.folders, *options]
        return CliRunner().invoke(commands.app, arguments)

    def refusal(self, *options: str, at: str = "02:30") -> str:
        result = self.print(*options, at=at)
        assert isinstance(result.exception, UserError)
        assert result.stdout == ""
        return str(result.exception)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_units_are_printed_with_the_way_to_enable_them_and_nothing_is_written(place: Place, tmp_path: Path) -> None:
    result = place.print()
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "# ~/.config/systemd/user/sangam-short_video.service"
    assert "# ~/.config/systemd/user/sangam-short_video.timer" in lines
    assert "OnCalendar=*-*-* 02:30:00 UTC" in lines
    assert "#   systemctl --user enable --now sangam-short_video.timer" in lines
    assert f'"{tmp_path}/data $$HOME"' in result.stdout
    assert list(tmp_path.iterdir()) == [place.spec]


def test_programs_are_told_the_same_text(place: Place) -> None:
    told = json.loads(place.print("--json").stdout)
    assert told == {"name": "short_video", "at": "02:30", "format": "systemd", "text": place.print().stdout}


def test_the_line_of_cron_is_printed_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # This machine's own clock may change with the season.
    monkeypatch.setattr(commands, "machine_time", lambda at, year: "11:30")
    result = place.print("--format", "cron")
    assert result.exit_code == 0, result.stderr
    *comments, line = result.stdout.splitlines()
    assert comments[0] == "# Sangam: daily run of short_video at 02:30 UTC (11:30 on this machine's clock)."
    assert "crontab -e" in comments[1]
    assert line.startswith("30 11 * * * ")
    assert "the spec 100\\%.yaml" in line


def test_what_would_fail_at_night_is_found_at_once(place: Place, tmp_path: Path) -> None:
    assert place.refusal(at="2:30").startswith("--at: ")
    place.spec.write_text(place.spec.read_text() + "\nalerts: {}\n")
    assert place.refusal().startswith("--environment: is missing")
    variables = tmp_path / "env"
    variables.write_text(f"SANGAM_ALERT_URL=http://a.example/x\nSANGAM_ALERT_KEY={KEY}\n")
    variables.chmod(0o600)
    assert "(got http://a.example)" in place.refusal("--environment", str(variables))
    variables.write_text(f"SANGAM_ALERT_URL=https://a.example/x\nSANGAM_ALERT_KEY={KEY}\n")
    result = place.print("--environment", str(variables))
    assert f'"--environment" "{variables}"' in result.stdout
    assert KEY not in result.stdout


@pytest.mark.parametrize("command", ["run", "print"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(commands.app, [command, "--help"]).stdout
    assert f"Example: sangam schedule {command}" in shown
    assert "Exit codes:" in shown

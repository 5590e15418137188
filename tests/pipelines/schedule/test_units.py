"""Units and lines that start the right command at the right time, whatever its paths look like."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sangam.pipelines.schedule import units
from sangam.pipelines.schedule.environment import read_environment
from sangam.schemas.errors import UserError
from tests.errors import place_and_value, tells

ODD = '/srv/a b/50%/$HOME/"it\'s"/${x}/%n/ä'
PLAIN = units.run_command(Path("/srv/spec.yaml"), Path("/srv/data"), Path("/srv/root"), None)
ODD_PATHS = units.run_command(Path(ODD), Path(f"{ODD}/d"), Path(f"{ODD}/r"), Path(f"{ODD}/e"))
paths = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\\"), min_size=1, max_size=30
).filter(str.isprintable)


def unquoted(line: str) -> list[str]:
    """Reads a command line as systemd does: words in double quotes, escapes, %% and $$ (systemd.service(5))."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    assert " ".join(f'"{word}"' for word in words) == line
    read = []
    for word in words:
        plain = re.sub(r"\\(.)", r"\1", word)
        assert not re.search(r"(?<!%)(%%)*%(?!%)", plain)
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", plain)
        read.append(plain.replace("%%", "%").replace("$$", "$"))
    return read


def exec_start(command: list[str]) -> str:
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(units.service_unit("ranker", command))
    return unit["Service"]["ExecStart"]


def test_the_command_is_that_of_a_run_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = str(Path(sys.executable).parent / "sangam")
    assert [program, "schedule", "run", "/srv/spec.yaml", "--data", "/srv/data", "--root", "/srv/root"] == PLAIN
    assert ODD_PATHS[-2:] == ["--environment", f"{ODD}/e"]
    monkeypatch.chdir(tmp_path)
    assert units.run_command(Path("s"), Path("d"), Path("r"), None)[3:] == [
        *(f"{tmp_path}/s", "--data", f"{tmp_path}/d", "--root", f"{tmp_path}/r")
    ]
    assert units.run_command(Path("s"), "s3://bucket/d", Path("r"), None)[5] == "s3://bucket/d"


@pytest.mark.parametrize("command", [PLAIN, ODD_PATHS], ids=["plain", "odd paths"])
def test_the_service_starts_the_command_word_by_word(command: list[str]) -> None:
    assert unquoted(exec_start(command)) == command


@given(paths)
@settings(deadline=None, max_examples=50)
def test_any_path_comes_through_systemd(path: str) -> None:
    assert unquoted(units.systemd_word(f"/{path}")) == [f"/{path}"]


def through_cron(line: str) -> list[str]:
    """Reads a command as cron does (an unescaped % ends it), and has the shell print its words."""
    assert not re.search(r"(?<!\\)%", line)
    program = f'{sys.executable} -c "import json, sys; print(json.dumps(sys.argv[1:]))" '
    done = subprocess.run(["/bin/sh", "-c", program + line.replace("\\%", "%")], capture_output=True, check=True)
    words: list[str] = json.loads(done.stdout)
    return words


def test_odd_paths_come_through_cron() -> None:
    *comments, line = units.cron_text("ranker", "02:05", ODD_PATHS, "11:35").splitlines()
    assert all(comment.startswith("# ") for comment in comments)
    assert line.startswith("35 11 * * * ")
    assert line.endswith(" >/dev/null")
    assert through_cron(line.removeprefix("35 11 * * * ").removesuffix(" >/dev/null")) == ODD_PATHS


@pytest.mark.parametrize("command", [PLAIN, ODD_PATHS], ids=["plain", "odd paths"])
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, command: list[str]) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine: its own check of the units cannot be made")
    service, timer = tmp_path / "sangam-ranker.service", tmp_path / "sangam-ranker.timer"
    text = units.systemd_text("ranker", "02:05", command)
    # As a user does it: each file from the line with its path on.
    first, second = text.split("# ~/.config/systemd/user/sangam-ranker.timer\n")
    assert first.startswith("# ~/.config/systemd/user/sangam-ranker.service\n")
    service.write_text(first)
    timer.write_text(second)
    done = subprocess.run(["systemd-analyze", "verify", str(service), str(timer)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # The check is worth something.
    service.write_text(first.replace("KillMode=mixed", "KillMode=mixd"))
    done = subprocess.run(["systemd-analyze", "verify", str(service)], capture_output=True, text=True)
    assert "mixd" in done.stderr


def test_systemd_quotes_the_program_itself_so_that_it_is_found(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine: its own check of the units cannot be made")
    program = tmp_path / "a b%n $x" / "sangam"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "sangam-x.service"
    unit.write_text(f"[Service]\nType=oneshot\nExecStart={units.systemd_word(str(program), is_program=True)}\n")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_timer_fires_once_a_day_in_utc_and_makes_up_for_nothing() -> None:
    lines = units.timer_unit("ranker", "02:05").splitlines()
    for line in ("OnCalendar=*-*-* 02:05:00 UTC", "Persistent=false", "RandomizedDelaySec=0"):
        assert line in lines
    assert "TimeoutStopSec=90" in units.service_unit("ranker", PLAIN).splitlines()


def test_a_command_that_cron_would_cut_is_refused() -> None:
    with pytest.raises(UserError, match=place_and_value("--format cron", "too long")):
        units.cron_text("ranker", "02:05", ["sangam", "r" * units.MAX_CRON_COMMAND], "02:05")


@pytest.mark.parametrize(
    ("spec", "data", "place"), [("/a\\b", "/d", "SPEC"), ("/s", "/a\nb", "--data"), ("/s", "/a\u2028b", "--data")]
)
def test_a_path_that_cannot_be_written_into_a_line_is_refused(spec: str, data: str, place: str) -> None:
    with pytest.raises(UserError) as caught:
        units.run_command(Path(spec), Path(data), Path("/r"), None)
    assert tells(str(caught.value), str(place), "(got ")


def test_variables_are_read_from_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# alerts\n\nSANGAM_ALERT_URL=https://a.example/x?y=z#w\nEMPTY=\nSPACED= a b \n")
    file.chmod(0o600)
    assert read_environment(file) == {"SANGAM_ALERT_URL": "https://a.example/x?y=z#w", "EMPTY": "", "SPACED": " a b "}


@pytest.mark.parametrize(
    ("content", "mode", "place", "value"),
    [
        ("A=s3cret", 0o640, "--environment", "(got mode 640"),
        ("A=x\nexport B=s3cret", 0o600, "line 2", "NAME=VALUE (not shown)"),
        ("A='s3cret'", 0o600, "line 1", "quotes (not shown)"),
    ],
)
def test_a_file_of_variables_that_is_none_is_refused(
    tmp_path: Path, content: str, mode: int, place: str, value: str
) -> None:
    file = tmp_path / "env"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(UserError) as caught:
        read_environment(file)
    assert tells(str(caught.value), place, value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(UserError, match=place_and_value("--environment", "No such file")):
        read_environment(tmp_path / "none")
    with pytest.raises(UserError, match=place_and_value("--environment", "65536")):
        read_environment(tmp_path)

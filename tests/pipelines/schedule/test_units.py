"""Units and lines that start the right command at the right time, whatever its paths look like."""

import configparser
import datetime
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.schedule import cron
from pipelines.schedule import units as systemd
from pipelines.schedule.cron import Cron, local_time
from pipelines.schedule.declared import UTC, Schedule, checked, date_of, executable, next_start
from pipelines.schedule.environment import read_environment
from schemas.errors import UserError

ODD = '/srv/a b/50%/$HOME/"it\'s"/${x}/%n/ä'
PLAIN = Schedule(name="ranker", at="02:05", spec="/srv/spec.yaml", data="/srv/data", root="/srv/root")
ODD_PATHS = PLAIN.model_copy(update={"spec": ODD, "data": f"{ODD}/d", "root": f"{ODD}/r", "environment": f"{ODD}/e"})
ZONES = Path("/usr/share/zoneinfo")
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


def exec_start(schedule: Schedule) -> str:
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(systemd.service_unit(schedule))
    return unit["Service"]["ExecStart"]


@pytest.mark.parametrize("schedule", [PLAIN, ODD_PATHS], ids=["plain", "odd paths"])
def test_the_service_starts_the_command_word_by_word(schedule: Schedule) -> None:
    command = [sys.executable.replace("python", "sangam"), "schedule", "run", schedule.spec]
    command += ["--data", schedule.data, "--root", schedule.root]
    assert executable() == str(Path(sys.executable).parent / "sangam")
    command[0] = executable()
    if schedule.environment:
        command += ["--environment", schedule.environment]
    assert unquoted(exec_start(schedule)) == command


@given(paths)
@settings(deadline=None, max_examples=50)
def test_any_path_comes_through_systemd(path: str) -> None:
    assert unquoted(systemd.quoted(f"/{path}")) == [f"/{path}"]


def through_cron(line: str) -> list[str]:
    """Reads a command as cron does (an unescaped % ends it), and has the shell print its words."""
    assert not re.search(r"(?<!\\)%", line)
    program = f'{sys.executable} -c "import json, sys; print(json.dumps(sys.argv[1:]))" '
    done = subprocess.run(["/bin/sh", "-c", program + line.replace("\\%", "%")], capture_output=True, check=True)
    words: list[str] = json.loads(done.stdout)
    return words


def test_odd_paths_come_through_cron() -> None:
    line = Cron(2024, ZONES / "UTC").rendered(ODD_PATHS).splitlines()[1]
    assert line.startswith("5 2 * * * ")
    assert line.endswith(" >/dev/null")
    assert through_cron(line.removeprefix("5 2 * * * ").removesuffix(" >/dev/null")) == ODD_PATHS.command()


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine: its own check of the units cannot be made")
    for schedule in (PLAIN, ODD_PATHS, PLAIN.model_copy(update={"run_as": "daemon"})):
        names = [tmp_path / f"sangam-{schedule.name}.{kind}" for kind in ("service", "timer")]
        for path, text in zip(names, [systemd.service_unit(schedule), systemd.timer_unit(schedule)], strict=True):
            path.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", *map(str, names)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    # The check is worth something.
    names[0].write_text(names[0].read_text().replace("KillMode=mixed", "KillMode=mixd"))
    done = subprocess.run(["systemd-analyze", "verify", str(names[0])], capture_output=True, text=True)
    assert "mixd" in done.stderr


def test_systemd_quotes_the_program_itself_so_that_it_is_found(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine: its own check of the units cannot be made")
    program = tmp_path / "a b%n $x" / "sangam"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "sangam-x.service"
    unit.write_text(f"[Service]\nType=oneshot\nExecStart={systemd.quoted(str(program), is_program=True)}\n")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_timer_fires_once_a_day_in_utc_and_makes_up_for_nothing() -> None:
    lines = systemd.timer_unit(PLAIN).splitlines()
    for line in ("OnCalendar=*-*-* 02:05:00 UTC", "Persistent=false", "RandomizedDelaySec=0"):
        assert line in lines
    service = systemd.service_unit(PLAIN).splitlines()
    assert "TimeoutStopSec=90" in service
    assert "User=alice" in systemd.service_unit(PLAIN.model_copy(update={"run_as": "alice"}))


@pytest.mark.parametrize(
    ("zone", "local"), [("UTC", "02:05"), ("Asia/Kolkata", "07:35"), ("Etc/GMT+5", "21:05"), ("Asia/Tokyo", "11:05")]
)
def test_cron_is_told_the_time_on_its_own_clock(zone: str, local: str) -> None:
    assert f"{local_time(datetime.time(2, 5), ZONES / zone, year=2024):%H:%M}" == local


def test_a_clock_that_changes_with_the_season_is_no_clock_for_cron(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        local_time(datetime.time(2, 5), ZONES / "Europe/Berlin", year=2024)
    assert "changes with the season (got 02:05 UTC, 03:05 and 04:05 here); use --systemd, or" in str(caught.value)
    assert local_time(datetime.time(2, 5), tmp_path / "none", year=2024) == datetime.time(2, 5)


def test_a_command_that_cron_would_cut_is_refused() -> None:
    long = PLAIN.model_copy(update={"root": "/" + "r" * cron.MAX_COMMAND})
    with pytest.raises(UserError, match="--cron: the command is too long"):
        Cron(2024, ZONES / "UTC").rendered(long)


def utc(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "start"),
    [
        ("2024-02-28 02:04:59", "2024-02-28 02:05"),
        ("2024-02-28 02:05:00", "2024-02-29 02:05"),
        ("2024-02-29 23:59:59", "2024-03-01 02:05"),
        ("2024-12-31 12:00:00", "2025-01-01 02:05"),
    ],
)
def test_the_next_start_is_later_than_now(now: str, start: str) -> None:
    assert next_start(PLAIN.time(), utc(now)) == utc(start)


def test_date_and_start_go_by_utc_whatever_the_clock_of_whoever_asks() -> None:
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    # 01:00 on 1 March in Tokyo is 16:00 on 29 February in UTC.
    now = datetime.datetime(2024, 3, 1, 1, 0, tzinfo=tokyo)
    assert date_of(now) == datetime.date(2024, 2, 28)
    assert next_start(PLAIN.time(), now) == utc("2024-03-01 02:05")
    assert date_of(utc("2024-03-01 00:00")) == datetime.date(2024, 2, 29)
    assert date_of(utc("2024-03-01 23:59")) == datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("at", "24:00", "--at: cannot be used (got '24:00'); a time of day in UTC as HH:MM"),
        ("at", "2:30", "--at: cannot be used (got '2:30')"),
        ("at", "02:30\n", "--at: cannot be used"),
        ("at", "02:30; rm", "--at: cannot be used"),
        ("root", "relative", "--root: cannot be used (got 'relative'); an absolute path without control characters"),
        ("data", "/a\nb", "--data: cannot be used"),
        ("spec", "/a\\b", "--spec: cannot be used"),
        ("run_as", "a b", "--run-as: cannot be used (got 'a b'); the name of a user"),
        ("run_as", "root\nExecStart=/bin/x", "--run-as: cannot be used"),
    ],
)
def test_what_cannot_be_written_into_a_line_is_refused(field: str, value: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(**(PLAIN.model_dump() | {field: value}))
    assert str(caught.value).startswith(text)


def test_variables_are_read_from_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# alerts\n\nSANGAM_ALERT_URL=https://a.example/x?y=z#w\nEMPTY=\nSPACED= a b \n")
    file.chmod(0o600)
    assert read_environment(file) == {"SANGAM_ALERT_URL": "https://a.example/x?y=z#w", "EMPTY": "", "SPACED": " a b "}


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        ("A=s3cret", 0o640, "--environment: other users may read it (got mode 640"),
        ("A=x\nexport B=s3cret", 0o600, "line 2: is no NAME=VALUE (not shown)"),
        ("A='s3cret'", 0o600, "line 1: A has quotes (not shown); write the value as it is"),
    ],
)
def test_a_file_of_variables_that_is_none_is_refused(tmp_path: Path, content: str, mode: int, text: str) -> None:
    file = tmp_path / "env"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(UserError) as caught:
        read_environment(file)
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(UserError, match=r"--environment: cannot be read .*No such file"):
        read_environment(tmp_path / "none")
    with pytest.raises(UserError, match="--environment: is no small file"):
        read_environment(tmp_path)

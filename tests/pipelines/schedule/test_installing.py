"""Schedules come, stay the same when asked for again, and go, with nothing else changed."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from pipelines.schedule.commands import app
from pipelines.schedule.cron import LOCAL_TIME, local_time
from schemas.errors import UserError
from tests.paths import SPECS
from tests.pipelines.schedule.fake_timers import FakeTimers

KEY = "0123456789abcdef"
OTHERS = "MAILTO=me\n# mine\n*/5 * * * * /usr/bin/true 100\\%\n"


def _has_one_clock() -> bool:
    try:
        local_time(datetime.time(2), LOCAL_TIME, year=datetime.date.today().year)
    except UserError:
        return False
    return True


needs_one_clock = pytest.mark.skipif(
    not _has_one_clock(), reason="this machine's clock changes with the season, which cron is refused for"
)


class Done(NamedTuple):
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


class Place:
    """A spec, folders with odd names, and timers that are none."""

    def __init__(self, folder: Path, timers: FakeTimers):
        self.timers = timers
        self.spec = folder / "the spec 100%.yaml"
        self.spec.write_text((SPECS / "short_video.yaml").read_text())
        self.data, self.root = folder / "data $HOME", folder / "root 'x'"
        self.data.mkdir()

    def sangam(self, *arguments: str) -> Done:
        """Runs `sangam schedule`; in this process, as each of its own would take a second."""
        result = CliRunner().invoke(app, arguments)
        if isinstance(result.exception, UserError):
            return Done(2, result.stdout, f"{result.exception}\n")
        return Done(result.exit_code, result.stdout, result.stderr)

    def install(self, *options: str, at: str = "02:30") -> Done:
        folders = ("--data", str(self.data), "--root", str(self.root))
        return self.sangam("install", str(self.spec), "--at", at, *folders, *options)

    def declare_alerts(self) -> None:
        self.spec.write_text(self.spec.read_text() + "\nalerts: {}\n")


@pytest.fixture
def make_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    def make(**commands: bool) -> Place:
        (tmp_path / "fake").mkdir()
        timers = FakeTimers(tmp_path / "fake", **commands)
        for name, value in timers.environment().items():
            monkeypatch.setenv(name, value)
        return Place(tmp_path, timers)

    return make


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


def test_systemd_units_are_written_started_and_removed(place: Place) -> None:
    done = place.install("--systemd", "--user")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("short_video runs every day at 02:30 UTC by systemd (user); output: ")
    assert "loginctl enable-linger" in done.stdout
    names = ["sangam-short_video.service", "sangam-short_video.timer"]
    assert sorted(path.name for path in place.timers.units.iterdir()) == names
    assert place.timers.calls() == [
        "--user show --property=Version",
        "--user daemon-reload",
        "--user enable sangam-short_video.timer",
        "--user restart sangam-short_video.timer",
    ]
    before = {path.name: path.read_text() for path in place.timers.units.iterdir()}
    assert place.install("--systemd", "--user").returncode == 0
    assert {path.name: path.read_text() for path in place.timers.units.iterdir()} == before
    assert place.install("--systemd", "--user", at="03:45").returncode == 0
    assert "OnCalendar=*-*-* 03:45:00 UTC" in (place.timers.units / names[1]).read_text()
    (place.timers.units / "other.service").write_text("[Service]\n")
    place.timers.calls()
    done = place.sangam("remove", "short_video")
    assert (done.returncode, done.stdout) == (0, "removed short_video from systemd (user)\n")
    assert [path.name for path in place.timers.units.iterdir()] == ["other.service"]
    assert place.timers.calls() == ["--user disable --now sangam-short_video.timer", "--user daemon-reload"]


@needs_one_clock
def test_a_line_of_cron_comes_and_goes_and_others_stay(place: Place) -> None:
    place.timers.crontab.write_text(OTHERS)
    assert place.install("--cron").returncode == 0
    first = place.timers.crontab.read_text()
    assert first.startswith(OTHERS)
    assert len(first.splitlines()) == 6
    assert place.install("--cron").returncode == 0
    assert place.timers.crontab.read_text() == first
    place.timers.crontab.write_text(first + "0 1 * * * /usr/bin/after\n")
    assert place.install("--cron", at="03:45").returncode == 0
    changed = place.timers.crontab.read_text()
    assert changed.startswith(OTHERS + "0 1 * * * /usr/bin/after\n# sangam begin short_video ")
    assert '"at":"03:45"' in changed
    assert changed.count("sangam begin") == 1
    assert place.sangam("remove", "short_video").returncode == 0
    assert place.timers.crontab.read_text() == OTHERS + "0 1 * * * /usr/bin/after\n"


@needs_one_clock
def test_without_any_crontab_a_new_one_is_made(place: Place) -> None:
    assert place.install("--cron").returncode == 0
    assert len(place.timers.crontab.read_text().splitlines()) == 3


@needs_one_clock
def test_what_was_changed_by_hand_is_not_guessed_at(place: Place) -> None:
    place.install("--cron")
    text = place.timers.crontab.read_text()
    place.timers.crontab.write_text(text.replace("# sangam end short_video\n", ""))
    done = place.install("--cron")
    assert done.returncode == 2
    assert "crontab: the lines of short_video are not as they were written (got 1 begins, and 0 ends)" in done.stderr
    place.timers.crontab.write_text("CRON_TZ=Asia/Tokyo\n")
    done = place.install("--cron")
    assert done.returncode == 2
    assert "--cron: the crontab sets a time zone of its own" in done.stderr
    assert place.timers.crontab.read_text() == "CRON_TZ=Asia/Tokyo\n"


@needs_one_clock
def test_a_schedule_is_not_installed_in_two_places(place: Place) -> None:
    assert place.install("--cron").returncode == 0
    done = place.install("--systemd", "--user")
    assert done.returncode == 2
    assert "short_video: would start twice a day (got it with systemd (user), and it is there with cron)" in done.stderr
    assert not place.timers.units.exists()


def test_units_that_systemd_does_not_take_are_taken_away_again(place: Place) -> None:
    place.timers.fail("enable")
    done = place.install("--systemd", "--user")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "systemctl enable sangam-short_video.timer: failed (got: it does not work); log in as this user"
    )
    assert list(place.timers.units.iterdir()) == []


@needs_one_clock
def test_where_systemd_does_not_answer_cron_is_taken(place: Place) -> None:
    place.timers.fail("show")
    done = place.install()
    assert done.returncode == 0, done.stderr
    assert "by cron" in done.stdout
    assert not place.timers.units.exists()


def test_without_systemd_and_cron_the_way_out_is_told(make_place: Callable[..., Place]) -> None:
    place = make_place(systemctl=False, crontab=False)
    done = place.install()
    assert done.returncode == 2
    label = "systemd" if os.geteuid() == 0 else "systemd (user)"
    assert done.stderr == (
        f"schedule: nothing here can start runs (got {label}: there is no systemctl; cron: there is no crontab); "
        "install cron, or have a scheduler of your own run once a day what `sangam schedule install ... --print` "
        "shows\n"
    )
    assert place.install("--cron").stderr.startswith("schedule: nothing here can start runs (got cron: there is no")
    shown = place.install("--print", "--systemd", "--user")
    assert shown.returncode == 0
    assert "OnCalendar=*-*-* 02:30:00 UTC" in shown.stdout
    assert not place.root.exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--cron", "--user"), "--cron: goes with none of --user, --system and --run-as"),
        (("--run-as", "x", "--user"), "--run-as: has no effect on the units of one user (got x); add --system"),
        (("--system", "--run-as", "no-such-user-x"), "--run-as: no such user (got no-such-user-x)"),
        (("--system", "--run-as", "daemon"), "--root: must be a folder of daemon, whose the runs are (got "),
    ],
)
def test_options_that_do_not_go_together_are_refused(place: Place, options: tuple[str, ...], text: str) -> None:
    done = place.install(*options)
    assert done.returncode == 2
    assert done.stderr.startswith(text)
    assert not place.root.exists()


def test_what_would_fail_at_night_is_found_at_once(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SANGAM_ALERT_URL", "SANGAM_ALERT_KEY"):
        monkeypatch.setenv(name, "")  # Put back when the test has ended.
    place.data.rmdir()
    done = place.install("--systemd", "--user")
    assert done.returncode == 2
    assert done.stderr.startswith("--data: no such folder (got ")
    place.data.mkdir()
    place.declare_alerts()
    done = place.install("--systemd", "--user")
    assert done.returncode == 2
    assert done.stderr.startswith("--environment: is missing; the spec declares alerts, and timers see none of your")
    variables = tmp_path / "env"
    variables.write_text(f"SANGAM_ALERT_URL=http://a.example/x\nSANGAM_ALERT_KEY={KEY}\n")
    variables.chmod(0o600)
    done = place.install("--systemd", "--user", "--environment", str(variables))
    assert done.returncode == 2
    assert "is not encrypted (got http://a.example)" in done.stderr
    assert not place.timers.units.exists()
    variables.write_text(f"SANGAM_ALERT_URL=https://a.example/x\nSANGAM_ALERT_KEY={KEY}\n")
    done = place.install("--systemd", "--user", "--environment", str(variables))
    assert (done.returncode, done.stderr) == (0, "")
    assert f'"--environment" "{variables}"' in (place.timers.units / "sangam-short_video.service").read_text()


def test_status_and_remove_say_what_is_there(place: Place) -> None:
    assert place.sangam("status").stdout == "no schedule is installed; see: sangam schedule install --help\n"
    done = place.sangam("remove", "short_video")
    assert (done.returncode, done.stderr) == (2, "short_video: no such schedule (got installed: none)\n")
    place.install("--systemd", "--user")
    [_, line] = place.sangam("status").stdout.splitlines()
    assert line.split()[:4] == ["short_video", "02:30", "systemd", "(user)"]
    assert line.rstrip().endswith("none yet")
    done = place.sangam("remove", "other")
    assert done.stderr == "other: no such schedule (got installed: short_video)\n"


@pytest.mark.parametrize("command", ["install", "remove", "status", "run"])
def test_every_command_has_help_with_an_example(place: Place, command: str) -> None:
    shown = place.sangam(command, "--help").stdout
    assert f"Example: sangam schedule {command}" in shown
    assert "Exit codes:" in shown

"""A line of the user's crontab, between two marks; all other lines stay as they are."""

import datetime
import re
import shlex
import shutil
import subprocess
import zoneinfo
from dataclasses import dataclass
from pathlib import Path

from pipelines.schedule.declared import UTC, Schedule, parsed
from schemas.errors import UserError

LOCAL_TIME = Path("/etc/localtime")
MAX_COMMAND = 900
"""Characters; cron of Debian and its relatives cuts a command after 998."""
_BEGIN = re.compile(r"# sangam begin ([a-z0-9_]+) (\{.*\})")
_ZONE = re.compile(r"\s*(CRON_TZ|TZ)\s*=")
_TIMEOUT_S = 60


def quoted(arguments: list[str]) -> str:
    """Returns a command for cron: words for the shell, and % (a line's end to cron) escaped.

    Reference: crontab(5).
    """
    return shlex.join(arguments).replace("%", "\\%")


def local_time(at: datetime.time, zone_file: Path = LOCAL_TIME, *, year: int) -> datetime.time:
    """Returns a time of day of UTC on this machine's clock, which is cron's.

    Raises:
        UserError: the clock is put forward and back, so that no line of cron means the same time all year.
    """
    if not zone_file.exists():
        return at
    with zone_file.open("rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    days = [datetime.datetime(year, month, 1, at.hour, at.minute, tzinfo=UTC) for month in range(1, 13)]
    times = {day.astimezone(zone).time() for day in days}
    if len(times) > 1:
        shown = " and ".join(sorted(f"{time:%H:%M}" for time in times))
        raise UserError(
            f"--cron: goes by this machine's clock, which changes with the season (got {at:%H:%M} UTC, {shown} here); "
            "use --systemd, or set the machine's time zone to UTC"
        )
    return times.pop()


@dataclass(frozen=True)
class Cron:
    """The crontab of this user.

    Attributes:
        zone_file: this machine's time zone.
        year: of whose clock times are.
    """

    year: int
    zone_file: Path = LOCAL_TIME

    @property
    def label(self) -> str:
        """In words."""
        return "cron"

    def problem(self) -> str | None:
        """Returns why it cannot be used here; None if it can."""
        return None if shutil.which("crontab") else "there is no crontab"

    def rendered(self, schedule: Schedule) -> str:
        """Returns the lines.

        Raises:
            UserError: the clock of this machine, or a command that is too long for cron.
        """
        local = local_time(schedule.time(), self.zone_file, year=self.year)
        command = quoted(schedule.command())
        if len(command) > MAX_COMMAND:
            raise UserError(
                f"--cron: the command is too long (got {len(command)} characters); at most {MAX_COMMAND}: "
                "use shorter paths, or --systemd"
            )
        return (
            f"# sangam begin {schedule.name} {schedule.model_dump_json()}\n"
            # What goes to the error stream is mailed, where the machine does that.
            f"{local.minute} {local.hour} * * * {command} >/dev/null\n"
            f"# sangam end {schedule.name}\n"
        )

    def install(self, schedule: Schedule) -> None:
        """Puts the lines at the end of the crontab, in the place of those of the same name.

        Raises:
            UserError: see `rendered`; a time zone in the crontab; crontab fails.
        """
        lines = self.rendered(schedule)
        others = _without(_read(), schedule.name)
        if any(_ZONE.match(line) for line in others):
            raise UserError(
                "--cron: the crontab sets a time zone of its own (got a line TZ= or CRON_TZ=), and not every cron "
                "goes by it; use --systemd, or take the line away"
            )
        _write("".join([*others, lines]))

    def installed(self) -> list[Schedule]:
        """Returns the schedules that are installed; none where there is no cron.

        Raises:
            UserError: lines that are none of this version.
        """
        if self.problem():
            return []
        begins = [_BEGIN.fullmatch(line.rstrip("\n")) for line in _read()]
        return [parsed(match[2], f"crontab: {match[1]}") for match in begins if match]

    def remove(self, name: str) -> None:
        """Takes the lines of a schedule away.

        Raises:
            UserError: crontab fails.
        """
        _write("".join(_without(_read(), name)))


def _read() -> list[str]:
    done = _crontab("-l")
    if done.returncode and "no crontab" not in done.stderr:
        raise UserError(f"crontab -l: failed (got: {' '.join(done.stderr.split())}); see who may use cron: crontab(1)")
    text = "" if done.returncode else done.stdout
    return (text if text.endswith("\n") or not text else f"{text}\n").splitlines(keepends=True)


def _without(lines: list[str], name: str) -> list[str]:
    """Returns the lines but for a schedule's."""
    starts = [at for at, line in enumerate(lines) if line.startswith(f"# sangam begin {name} ")]
    if not starts:
        return lines
    end = f"# sangam end {name}\n"
    if len(starts) > 1 or end not in lines[starts[0] :]:
        raise UserError(
            f"crontab: the lines of {name} are not as they were written (got {len(starts)} begins, and "
            f"{lines.count(end)} ends); take them away with `crontab -e`"
        )
    last = lines.index(end, starts[0])
    return lines[: starts[0]] + lines[last + 1 :]


def _write(text: str) -> None:
    done = _crontab("-", text)
    if done.returncode:
        raise UserError(f"crontab: failed (got: {' '.join(done.stderr.split())}); see who may use cron: crontab(1)")


def _crontab(argument: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["crontab", argument], check=False, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S
    )

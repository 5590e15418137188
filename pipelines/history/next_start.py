"""The next start of a ranker's daily run, as this machine's systemd or cron has it."""

import datetime
import itertools
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 2.0
_CRON = re.compile(r"([0-5]?\d) ([01]?\d|2[0-3]) \* \* \* (.+)")
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class NextStart:
    """The next start.

    Attributes:
        at: time of the start, UTC.
        by: program that starts it: the name of the timer, or `cron`.
    """

    at: datetime.datetime
    by: str


def next_start(ranker: str, root: Path, now: datetime.datetime) -> NextStart | None:
    """Returns the next start of a ranker's run in a root; None if no timer of this user or machine is known."""
    timer = f"sangam-{ranker}.timer"
    for scope in (["--user"], []):
        told = _asked(["systemctl", *scope, "show", timer, "--property=NextElapseUSecRealtime", "--value"])
        if (at := systemd_time(told)) is not None:
            return NextStart(at, timer)
    at = cron_time(_asked(["crontab", "-l"]), root, now.astimezone())
    return NextStart(at, "cron") if at else None


def _asked(command: list[str]) -> str:
    """Returns what a program prints; empty if it is not there, fails or hangs."""
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def systemd_time(told: str) -> datetime.datetime | None:
    """Returns the time in systemd's words, such as `Sat 2024-03-09 02:30:00 UTC`; None without one."""
    try:
        return datetime.datetime.strptime(told, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=datetime.UTC)
    except ValueError:
        return None


def cron_time(table: str, root: Path, now: datetime.datetime) -> datetime.datetime | None:
    """Returns the next daily start of `sangam schedule run` on a root in a crontab; None without one.

    Args:
        table: lines of the crontab.
        root: folder of the runs.
        now: present time on this machine's clock, by which cron goes.
    """
    found = []
    for line in table.splitlines():
        match = _CRON.fullmatch(line.strip())
        if match and _runs_on(match[3], root):
            today = now.replace(hour=int(match[2]), minute=int(match[1]), second=0, microsecond=0)
            found.append((today if today > now else today + _DAY).astimezone(datetime.UTC))
    return min(found, default=None)


def _runs_on(command: str, root: Path) -> bool:
    try:
        words = shlex.split(command.replace("\\%", "%"))
    except ValueError:
        return False
    pairs = list(itertools.pairwise(words))
    return ("schedule", "run") in pairs and any(
        option == "--root" and Path(value).resolve() == root.resolve() for option, value in pairs
    )

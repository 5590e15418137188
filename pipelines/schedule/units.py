"""A timer of systemd, and the service that it starts."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pipelines.local.child_run import CHILD_GRACE_S
from pipelines.schedule.declared import Schedule, parsed
from schemas.errors import UserError

SYSTEM_UNITS = Path("/etc/systemd/system")
STOP_TIMEOUT_S = 2 * CHILD_GRACE_S + 20
"""Longer than a run takes to stop; then systemd kills it."""
_MARK = "# sangam "
_TIMEOUT_S = 60


def quoted(argument: str, *, is_program: bool = False) -> str:
    """Returns a word of ExecStart=, without specifiers (%) and, but for the program's own path, variables ($).

    Reference: systemd.service(5), "Command lines".
    """
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text if is_program else text.replace("$", "$$")}"'


def service_unit(schedule: Schedule) -> str:
    """Returns the unit of one run."""
    program, *arguments = schedule.command()
    line = " ".join([quoted(program, is_program=True), *map(quoted, arguments)])
    user = [f"User={schedule.run_as}"] if schedule.run_as else []
    lines = [
        f"{_MARK}{schedule.model_dump_json()}",
        "[Unit]",
        f"Description=Sangam: daily run of {schedule.name}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=oneshot",
        *user,
        f"ExecStart={line}",
        # 3: a gate has refused the model. 130 and 143: somebody has stopped the run.
        "SuccessExitStatus=3 130 143",
        "TimeoutStartSec=infinity",
        f"TimeoutStopSec={STOP_TIMEOUT_S:g}",
        # Only the first process is asked to stop; it ends the others in order.
        "KillMode=mixed",
        "NoNewPrivileges=yes",
    ]
    return "\n".join(lines) + "\n"


def timer_unit(schedule: Schedule) -> str:
    """Returns the unit that starts the service once a day."""
    lines = [
        "[Unit]",
        f"Description=Sangam: starts the daily run of {schedule.name}",
        "",
        "[Timer]",
        f"OnCalendar=*-*-* {schedule.at}:00 UTC",
        # A day that was missed is not made up for: `sangam backfill` does that, in order.
        "Persistent=false",
        "RandomizedDelaySec=0",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Systemd:
    """The units of this user, or those of the whole machine.

    Attributes:
        is_user: this user's.
        folder: of the unit files.
    """

    is_user: bool
    folder: Path

    @property
    def label(self) -> str:
        """In words."""
        return "systemd (user)" if self.is_user else "systemd"

    def problem(self) -> str | None:
        """Returns why it cannot be used here; None if it can."""
        if shutil.which("systemctl") is None:
            return "there is no systemctl"
        done = self._systemctl("show", "--property=Version")
        return None if done.returncode == 0 else _said(done)

    def rendered(self, schedule: Schedule) -> str:
        """Returns both unit files."""
        return "\n".join(f"# {path}\n{text}" for path, text in self._units(schedule).items())

    def install(self, schedule: Schedule) -> None:
        """Writes the units and starts the timer; leaves nothing of it behind where that fails.

        Raises:
            UserError: files that cannot be written, or systemd does not take them.
        """
        units = self._units(schedule)
        new = [path for path in units if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path, text in units.items():
                fresh = path.with_name(f".{path.name}.{os.getpid()}")
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(path)
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written to ({error.strerror}); {self._way_out()}") from None
        timer = f"{_unit(schedule.name)}.timer"
        # Restarted, so that a changed time counts at once.
        for arguments in (["daemon-reload"], ["enable", timer], ["restart", timer]):
            done = self._systemctl(*arguments)
            if done.returncode:
                for path in new:
                    path.unlink(missing_ok=True)
                raise UserError(f"systemctl {' '.join(arguments)}: failed (got: {_said(done)}); {self._way_out()}")

    def installed(self) -> list[Schedule]:
        """Returns the schedules that are installed.

        Raises:
            UserError: a unit file that is none of this version.
        """
        found = []
        for path in sorted(self.folder.glob(f"{_unit('*')}.service")):
            first = path.read_text(encoding="utf-8").split("\n", 1)[0]
            found.append(parsed(first.removeprefix(_MARK), str(path)))
        return found

    def remove(self, name: str) -> None:
        """Stops the timer and removes both files. A run that goes on is not stopped.

        Raises:
            UserError: systemd does not stop the timer, or the files cannot be removed.
        """
        timer = f"{_unit(name)}.timer"
        done = self._systemctl("disable", "--now", timer)
        if done.returncode:
            raise UserError(f"systemctl disable --now {timer}: failed (got: {_said(done)}); {self._way_out()}")
        try:
            for suffix in ("timer", "service"):
                (self.folder / f"{_unit(name)}.{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{self.folder}: cannot be written to ({error.strerror}); {self._way_out()}") from None
        self._systemctl("daemon-reload")

    def _units(self, schedule: Schedule) -> dict[Path, str]:
        name = _unit(schedule.name)
        return {
            self.folder / f"{name}.service": service_unit(schedule),
            self.folder / f"{name}.timer": timer_unit(schedule),
        }

    def _systemctl(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["systemctl", *(["--user"] if self.is_user else []), *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)

    def _way_out(self) -> str:
        if self.is_user:
            return "log in as this user (a session of its own, not su), or use --system as root, or --cron"
        return "do it as root, or use --user, or --cron"


def user_units() -> Path:
    """Returns the folder of this user's units."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user"


def _unit(name: str) -> str:
    return f"sangam-{name}"


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    return " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"

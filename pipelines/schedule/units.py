"""The text of a systemd timer with its service, and of a line of cron: pure functions, without installation."""

import shlex
import shutil
import sys
from pathlib import Path

from sangam.components.object_stores import is_stored
from sangam.pipelines.local.child_run import CHILD_GRACE_S
from sangam.schemas.contracts.exit_codes import WELL_ENDED
from sangam.schemas.errors import UserError

STOP_TIMEOUT_S = 2 * CHILD_GRACE_S + 20
"""Seconds before systemd kills a stopping run, more than the run needs."""
MAX_CRON_COMMAND = 900
"""Largest number of characters of a command; Debian's cron and its derivatives cut it after 998."""
_USER_UNITS = "~/.config/systemd/user"


def run_command(spec: Path, data: str | Path, root: Path, environment: Path | None) -> list[str]:
    """Returns the command of one daily run, all paths absolute.

    Raises:
        UserError: a path cannot be written into a unit or cron line, or `sangam` is not installed.
    """
    options = {"--data": data, "--root": root} | ({"--environment": environment} if environment else {})
    words = [_executable(), "schedule", "run", _line_path("SPEC", spec)]
    for option, path in options.items():
        words += [option, _line_path(option, path)]
    return words


def systemd_text(name: str, at: str, command: list[str]) -> str:
    """Returns both unit files, each below its path, and the commands that enable them."""
    unit = f"sangam-{name}"
    return (
        f"# {_USER_UNITS}/{unit}.service\n{service_unit(name, command)}\n"
        f"# {_USER_UNITS}/{unit}.timer\n{timer_unit(name, at)}\n"
        "# Then:\n"
        "#   systemctl --user daemon-reload\n"
        f"#   systemctl --user enable --now {unit}.timer\n"
        "#   loginctl enable-linger    # keeps it running while you are not logged in\n"
    )


def service_unit(name: str, command: list[str]) -> str:
    """Returns the service, which is one run."""
    program, *arguments = command
    line = " ".join([systemd_word(program, is_program=True), *map(systemd_word, arguments)])
    lines = [
        "[Unit]",
        f"Description=Sangam: daily run of {name}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={line}",
        "# 3: a gate refused the model. 130, 143: someone stopped the run.",
        f"SuccessExitStatus={' '.join(str(int(code)) for code in WELL_ENDED if code)}",
        "TimeoutStartSec=infinity",
        f"TimeoutStopSec={STOP_TIMEOUT_S:g}",
        "# SIGTERM goes to the first process only; it stops the others in order.",
        "KillMode=mixed",
        "NoNewPrivileges=yes",
    ]
    return "\n".join(lines) + "\n"


def timer_unit(name: str, at: str) -> str:
    """Returns the timer, which starts the service once a day."""
    lines = [
        "[Unit]",
        f"Description=Sangam: starts the daily run of {name}",
        "",
        "[Timer]",
        f"OnCalendar=*-*-* {at}:00 UTC",
        "# Missed days are left to `sangam backfill`, which runs them in order.",
        "Persistent=false",
        "RandomizedDelaySec=0",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


def cron_text(name: str, at: str, command: list[str], local: str) -> str:
    """Returns the line for `crontab -e`.

    Args:
        name: name of the ranker.
        at: time of the run, HH:MM, UTC.
        command: command of the run.
        local: the same time on this machine's clock, for cron.

    Raises:
        UserError: the command is too long for cron.
    """
    text = cron_command(command)
    if len(text) > MAX_CRON_COMMAND:
        raise UserError(
            f"--format cron: the command is too long (got {len(text)} characters); at most {MAX_CRON_COMMAND}: "
            "use shorter paths, or --format systemd"
        )
    hours, minutes = map(int, local.split(":"))
    return (
        f"# Sangam: daily run of {name} at {at} UTC ({local} on this machine's clock).\n"
        "# Add it with `crontab -e`, above any line TZ= or CRON_TZ=. cron mails the error stream.\n"
        f"{minutes} {hours} * * * {text} >/dev/null\n"
    )


def systemd_word(argument: str, *, is_program: bool = False) -> str:
    """Returns a word of ExecStart=, without specifiers (%) and, but for the program's own path, variables ($).

    Reference: systemd.service(5), "Command lines".
    """
    text = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text if is_program else text.replace("$", "$$")}"'


def cron_command(arguments: list[str]) -> str:
    """Returns a command for cron: quoted for the shell, with % escaped, because cron ends the line there.

    Reference: crontab(5).
    """
    return shlex.join(arguments).replace("%", "\\%")


def _line_path(option: str, path: str | Path) -> str:
    text = str(path) if is_stored(str(path)) else str(Path(path).absolute())
    # systemd and cron read backslashes differently.
    if not text.isprintable() or "\\" in text:
        raise UserError(
            f"{option}: cannot be written into a timer (got {text!r}); use a path without control characters and "
            "backslashes"
        )
    return text


def _executable() -> str:
    """Returns the absolute path of the command `sangam` of this installation."""
    folder = Path(sys.executable).absolute().parent
    path = shutil.which("sangam", path=str(folder))
    if path is None:
        raise UserError(f"{folder}/sangam: no such command; install the package, as `make setup` does")
    return path

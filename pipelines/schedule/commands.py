"""The commands `sangam schedule install|remove|status|run`."""

import datetime
import os
import pwd
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from components.alerts import target_of
from pipelines.local.request import check_request
from pipelines.schedule.cron import Cron
from pipelines.schedule.daily import due, folder_of, last_run, run_daily
from pipelines.schedule.declared import UTC, Schedule, Timers, checked, date_of, next_start
from pipelines.schedule.environment import read_environment
from pipelines.schedule.units import SYSTEM_UNITS, Systemd, user_units
from schemas.errors import UserError
from schemas.loading import load_spec
from schemas.spec import Spec
from schemas.spec.data import DayLogs

app = typer.Typer(no_args_is_help=True, help="Runs a spec every day on this machine, by systemd or cron.")

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")]
Data = Annotated[Path, typer.Option(help="Folder of the logs; the spec's file patterns are relative to it.")]
Root = Annotated[Path, typer.Option(help="Folder for everything the runs leave; created where it does not exist.")]
Environment = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Lines NAME=VALUE for the runs, such as address and key of alerts; only its owner may read it.",
    ),
]


@app.command(
    epilog="Example: sangam schedule install pipelines/specs/short_video.yaml --at 02:30 --data logs --root runs\n\n"
    "Exit codes: 0 done; 2 the command was given something wrong, or neither systemd nor cron can be used."
)
def install(
    spec: SpecArgument,
    at: Annotated[str, typer.Option(metavar="HH:MM", help="Time of day, UTC. A run is for the day before (UTC).")],
    data: Data,
    root: Root,
    environment: Environment = None,
    by: Annotated[
        bool | None, typer.Option("--systemd/--cron", help="Left out: systemd where it answers, else cron.")
    ] = None,
    user: Annotated[
        bool | None, typer.Option("--user/--system", help="Units of this user. Left out: unless you are root.")
    ] = None,
    run_as: Annotated[str | None, typer.Option(metavar="USER", help="With --system: whose the runs are.")] = None,
    print_: Annotated[bool, typer.Option("--print", help="Show what would be written, and change nothing.")] = False,
) -> None:
    """Has a spec run once a day. The same command again changes nothing; another time or folder takes its place.

    The spec is read anew for every run. Days that were missed are not made up for: `sangam backfill` does that.
    """
    loaded = load_spec(spec)
    paths = {"spec": spec, "data": data, "root": root, "environment": environment}
    absolute = {name: str(path.absolute()) if path else None for name, path in paths.items()}
    schedule = checked(name=loaded.name, at=at, run_as=run_as, **absolute)
    timers = _timers(by, user, run_as, must_answer=not print_)
    if print_:
        print(timers.rendered(schedule), end="")
        return
    _check_runs(loaded, schedule)
    for other in _all_timers():
        if other != timers and any(found.name == schedule.name for found in other.installed()):
            raise UserError(
                f"{schedule.name}: would start twice a day (got it with {timers.label}, and it is there with "
                f"{other.label}); first do: sangam schedule remove {schedule.name}"
            )
    timers.install(schedule)
    _say(f"{schedule.name} runs every day at {at} UTC by {timers.label}; output: {folder_of(root, loaded.name)}")
    if isinstance(timers, Systemd) and timers.is_user:
        _say("so that it runs while you are not logged in: loginctl enable-linger")


@app.command(
    epilog="Example: sangam schedule remove short_video\n\nExit codes: 0 done; 2 there is no such schedule, or it "
    "cannot be removed."
)
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="Of the ranker.")]) -> None:
    """Removes a schedule. A run that goes on is not stopped; what runs have left stays."""
    known: list[str] = []
    is_removed = False
    for timers in _all_timers():
        names = [schedule.name for schedule in timers.installed()]
        known += names
        if name in names:
            timers.remove(name)
            is_removed = True
            _say(f"removed {name} from {timers.label}")
    if not is_removed:
        raise UserError(f"{name}: no such schedule (got installed: {', '.join(sorted(known)) or 'none'})")


@app.command(epilog="Example: sangam schedule status\n\nExit codes: 0.")
def status() -> None:
    """Shows every schedule: when it starts next, and what became of its last run."""
    table = Table("name", "at (UTC)", "by", "next start", "last run", box=None, pad_edge=False)
    for timers in _all_timers():
        for schedule in timers.installed():
            start = next_start(schedule.time(), _now())
            last = last_run(folder_of(Path(schedule.root), schedule.name))
            shown = str(last) if last else "none yet"
            table.add_row(schedule.name, schedule.at, timers.label, f"{start:%Y-%m-%d %H:%M}", shown)
    if not table.row_count:
        _say("no schedule is installed; see: sangam schedule install --help")
        return
    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(table)


@app.command(
    epilog="Example: sangam schedule run pipelines/specs/short_video.yaml --data logs --root runs\n\n"
    "Exit codes: those of `sangam run`, 4 if another run is using the root; 128 and the signal's number if the run was "
    "killed."
)
def run(spec: SpecArgument, data: Data, root: Root, environment: Environment = None) -> None:
    """Runs a spec for yesterday (UTC) as the timer does: with a log of its own in ROOT/schedule/NAME."""
    if environment:
        os.environ.update(read_environment(environment))
    loaded, now = load_spec(spec), _now()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 200)
    raise typer.Exit(run_daily(due(spec, loaded, data, root, now), now, console))


def _timers(by: bool | None, user: bool | None, run_as: str | None, *, must_answer: bool) -> Timers:
    """Returns who is to start runs.

    Raises:
        UserError: options that do not go together, or nobody can be used.
    """
    is_user = os.geteuid() != 0 if user is None else user
    systemd, cron = _systemd(is_user=is_user), Cron(_now().year)
    if by is False and (user is not None or run_as):
        raise UserError("--cron: goes with none of --user, --system and --run-as; it is this user's crontab")
    if run_as and is_user:
        raise UserError(f"--run-as: has no effect on the units of one user (got {run_as}); add --system, as root")
    is_open = by is None and user is None and run_as is None
    chosen: list[Timers] = [systemd, cron] if is_open else [cron if by is False else systemd]
    if not must_answer:
        return chosen[0]
    problems = []
    for timers in chosen:
        problem = timers.problem()
        if problem is None:
            return timers
        problems.append(f"{timers.label}: {problem}")
    raise UserError(
        f"schedule: nothing here can start runs (got {'; '.join(problems)}); install cron, or have a scheduler of your "
        "own run once a day what `sangam schedule install ... --print` shows"
    )


def _check_runs(spec: Spec, schedule: Schedule) -> None:
    """Finds now what would make every run fail at night."""
    if spec.alerts:
        if schedule.environment is None:
            raise UserError(
                "--environment: is missing; the spec declares alerts, and timers see none of your shell's variables: "
                f"give a file with {spec.alerts.url_env}=... and {spec.alerts.key_env}=..., readable by you alone"
            )
        variables = read_environment(Path(schedule.environment))
        target_of(spec.alerts, variables)
        os.environ.update(variables)
    elif schedule.environment:
        read_environment(Path(schedule.environment))
    if schedule.run_as:
        _require_own_root(schedule.run_as, Path(schedule.root))
    date = date_of(_now()).isoformat() if isinstance(spec.data, DayLogs) else None
    check_request(spec, date, Path(schedule.data), Path(schedule.root))


def _require_own_root(user: str, root: Path) -> None:
    """Refuses a folder that the runs of another user could not write to, such as one that root would make now."""
    try:
        user_id = pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UserError(f"--run-as: no such user (got {user})") from None
    if not root.is_dir() or root.stat().st_uid != user_id:
        what = "which is of another user" if root.exists() else "which is not there"
        raise UserError(
            f"--root: must be a folder of {user}, whose the runs are (got {root}, {what}); "
            f"do `install -d -o {user} {root}`"
        )


def _all_timers() -> list[Timers]:
    return [_systemd(is_user=True), _systemd(is_user=False), Cron(_now().year)]


def _systemd(*, is_user: bool) -> Systemd:
    return Systemd(is_user, user_units() if is_user else SYSTEM_UNITS)


def _now() -> datetime.datetime:
    return datetime.datetime.now(UTC)


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)

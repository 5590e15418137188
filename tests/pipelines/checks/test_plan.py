"""`sangam plan`: what it prints, and when it refuses."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sangam.pipelines.checks.plan import MemoryLimit, MemoryLimits, given, print_plan, refuse_unfit, this_machine
from sangam.schemas.derived.plan import Plan, plan
from sangam.schemas.errors import UserError
from sangam.schemas.host.cgroup import Cgroup
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.sync import Stale
from sangam.trainer_module.launch.memory import available_bytes
from tests.errors import mentions, place_and_value, tells
from tests.paths import REPOSITORY, SPECS
from tests.pipelines.command_line import sangam

SPEC = SPECS / "short_video.yaml"
ROWS = {"users": 80_000_000, "posts": 55_000_000, "authors": 10**6, "hashtags": 10**6, "contexts": 1000}
HUGE = "{dim: 1024, capacity: {rows: 2000000000, evict: least_frequent}}"
ROWS_TEXT = "users=80e6,posts=55M,authors=1e6,hashtags=1e6,contexts=1000"


def planned(ranks: int = 8) -> Plan:
    return plan(load_spec(SPEC), rows=ROWS, ranks=ranks)


def served(servers: int = 4) -> Plan:
    spec = load_spec(SPEC)
    training = spec.training.model_copy(update={"sync": Stale(kind="stale")})
    return plan(spec.model_copy(update={"training": training}), rows=ROWS, ranks=2, servers=servers)


def room(per_rank: float, per_server: float | None = None) -> MemoryLimits:
    limits = [None if size is None else MemoryLimit(int(size), "given") for size in (per_rank, per_server)]
    return MemoryLimits(*limits)


def printed(made: Plan, limits: MemoryLimits, ranks_per_host: int | None = None) -> list[str]:
    shown = io.StringIO()
    print_plan(made, limits, Console(file=shown, width=200), ranks_per_host)
    return [" ".join(line.split()) for line in shown.getvalue().splitlines()]


def test_the_plan_is_printed_by_table_and_by_rank() -> None:
    lines = printed(planned(), room(64e9), ranks_per_host=4)
    assert lines[0] == "table dim optimizer rows embedding slots usage key index bytes/row total"
    assert lines[5] == "users 16 adagrad 80,000,000 64 64 0 8 36 172 13.8 GB"
    assert "each of 8 ranks mean mean + 6 sigma" in lines
    assert "rows 17,125,125 17,161,621" in lines
    assert any(mentions(line, "copy ... checkpoint ... 2.63 GB 2.63 GB") for line in lines)
    assert any(tells(line, "parameters", "2.18 billion ... 2.18 billion ... 45.8 thousand") for line in lines)
    by_part = "numbers 2,080, experts 39,552, expert gates 1,952, towers 2,180, encoders 20"
    assert f"dense parameters: 45,784 ({by_part})" in lines
    assert any(tells(line, "memory per rank", "64.0 GB") for line in lines)
    peak = planned().ranks.high.peak
    assert any(tells(line, "a host of 4 ranks", f"{4 * peak / 1e9:.1f} GB") for line in lines)


def test_what_does_not_fit_is_refused_with_a_number_of_ranks_that_would() -> None:
    made = planned(ranks=2)
    with pytest.raises(UserError, match=place_and_value("plan", "(got 33. ... GB ... 10.0 GB given)")) as caught:
        refuse_unfit(made, room(10e9))
    ranks = int(str(caught.value).split("about ")[1].split()[0])
    refuse_unfit(planned(ranks), room(10e9))
    with pytest.raises(UserError):
        refuse_unfit(planned(ranks - 2), room(10e9))


def test_no_number_of_ranks_is_named_where_none_would_do() -> None:
    with pytest.raises(UserError, match=place_and_value("plan", "optimizer")):
        refuse_unfit(planned(), room(1e8))


def test_the_peak_itself_fits() -> None:
    made = planned()
    refuse_unfit(made, room(made.ranks.high.peak + 1))
    with pytest.raises(UserError):
        refuse_unfit(made, room(made.ranks.high.peak - 1))


def test_this_machine_is_shared_by_its_ranks() -> None:
    alone, shared = (this_machine(planned(ranks)).rank.bytes for ranks in (1, 4))
    assert shared == pytest.approx(alone / 4, rel=0.1)


def test_servers_share_what_the_ranks_leave() -> None:
    made = served(servers=4)
    limits = this_machine(made)
    assert limits.server is not None
    left = available_bytes() - 2 * made.ranks.high.peak
    assert limits.server.bytes == pytest.approx(max(0, left) / 4, rel=0.1)
    elsewhere = this_machine(made, ranks_per_host=2).server
    assert elsewhere is not None
    assert elsewhere.bytes == pytest.approx(available_bytes(), rel=0.1)


def test_the_plan_of_parameter_servers_has_the_rows_there_and_batches_in_flight_on_both_sides() -> None:
    lines = printed(served(), room(64e9, 64e9))
    head = "mean mean + 6 sigma"
    ranks, servers = lines.index(f"each of 2 ranks {head}"), lines.index(f"each of 4 parameter servers {head}")
    # Lines of zeros are left out.
    assert not any(line.startswith(("rows", "copy while the largest group")) for line in lines[ranks:servers])
    assert sum(line.startswith("batches in flight ") for line in lines) == 2
    assert any(line.startswith("rows 34,250,250 ") for line in lines[servers:])
    assert any(tells(line, "memory per parameter server", "64.0 GB (given)") for line in lines)


def test_servers_that_do_not_fit_are_refused_with_a_number_that_would() -> None:
    made = served(servers=2)
    limits = room(64e9, 10e9)
    with pytest.raises(UserError, match=place_and_value("plan", "parameter server ... 10.0 GB given)")) as caught:
        refuse_unfit(made, limits)
    servers = int(str(caught.value).split("about ")[1].split()[0])
    refuse_unfit(served(servers), limits)
    with pytest.raises(UserError):
        refuse_unfit(served(servers - 2), limits)


def test_a_rank_without_rows_is_not_told_to_hold_fewer() -> None:
    with pytest.raises(UserError, match=place_and_value("plan", "a rank ... 100 MB given) ... staleness")) as caught:
        refuse_unfit(served(), room(1e8, 64e9))
    assert "capacity" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "per_rank", "per_server", "place", "value"),
    [
        (planned, "64GB", "64GB", "--memory-per-server", "(got '64GB')"),
        (planned, None, "64GB", "--memory-per-server", "(got '64GB')"),
        (served, "64GB", None, "--memory-per-server", "is missing"),
        (served, None, "64GB", "--memory-per-rank", "is missing"),
        (served, "64GB", "64", "--memory-per-server", "(got '64')"),
    ],
)
def test_limits_that_do_not_fit_the_mode_are_refused(
    made: Callable[[], Plan], per_rank: str | None, per_server: str | None, place: str, value: str
) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        given(made(), per_rank, per_server)


def test_limits_are_those_given_or_none() -> None:
    assert given(planned(), None, None) is None
    assert given(served(), None, None) is None
    assert given(served(), "1GB", "2GB") == MemoryLimits(
        MemoryLimit(10**9, "given as --memory-per-rank"), MemoryLimit(2 * 10**9, "given as --memory-per-server")
    )


def test_the_command_plans_and_says_that_it_fits() -> None:
    done = sangam("plan", str(SPEC), "--rows", ROWS_TEXT, "--ranks", "8", "--memory-per-rank", "64GB")
    assert done.returncode == 0, done.stderr
    assert "users" in done.stdout
    assert "rank: columns of one row, once a request: " in done.stdout
    assert done.stdout.splitlines()[-1] == "it fits"


def test_the_command_refuses_what_does_not_fit_after_showing_the_plan() -> None:
    done = sangam("plan", str(SPEC), "--rows", ROWS_TEXT, "--ranks", "1", "--memory-per-rank", "16GB")
    assert done.returncode == 2
    assert "13." in done.stdout
    assert done.stderr.startswith("plan: ")
    assert tells(done.stderr, "plan", "(got ")
    assert "it fits" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "place", "value"),
    [
        (("--rows", "users=80e6"), "--rows", "(got none for authors"),
        (("--rows", "user=80e6"), "--rows", "(got 'user')"),
        (("--rows", "users=many"), "--rows", "(got 'many')"),
        (("--rows", ROWS_TEXT, "--parameter-servers", "2"), "--parameter-servers", "(got 2)"),
        (("--rows", ROWS_TEXT, "--memory-per-rank", "64"), "--memory-per-rank", "(got '64')"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], place: str, value: str) -> None:
    done = sangam("plan", str(SPEC), *arguments)
    assert done.returncode == 2
    assert tells(done.stderr, place, value)
    assert len(done.stderr.splitlines()) == 1


def _cgroup(folder: Path, limit: str, used: int, inactive_file: int) -> list[Cgroup]:
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive_file}\n")
    return [Cgroup(folder)]


def test_a_containers_limit_leaves_what_is_not_used_and_the_cache_of_files(tmp_path: Path) -> None:
    assert available_bytes(_cgroup(tmp_path, "1000", 700, 100)) == 400
    assert available_bytes(_cgroup(tmp_path, "1000", 1200, 100)) == 0


def test_without_a_containers_limit_the_machines_memory_counts(tmp_path: Path) -> None:
    without = available_bytes([Cgroup(tmp_path / "none")])
    assert without > 10**8
    assert available_bytes(_cgroup(tmp_path, "max", 700, 0)) == pytest.approx(without, rel=0.2)


@pytest.mark.processes
def test_a_run_whose_tables_cannot_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.read_text().replace("hashtags: {dim: 8}", f"hashtags: {HUGE}"))
    command = [sys.executable, "-m", "sangam.pipelines.cli", "run", str(spec), "--date", "2024-03-07"]
    command += ["--data", str(tmp_path), "--root", str(tmp_path.parent / "never")]
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert tells(done.stderr, "tables", "(got hashtags: ")
    assert not (tmp_path.parent / "never").exists()

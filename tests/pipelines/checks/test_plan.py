"""`sangam plan`: what it prints, and when it refuses."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.checks.plan import MemoryLimit, print_plan, refuse_unfit, this_machine
from schemas.cgroup import Cgroup
from schemas.derived.plan import Plan, plan
from schemas.errors import UserError
from schemas.loading import load_spec
from tests.errors import mentions, place_and_value, tells
from tests.paths import REPOSITORY, SPECS
from trainer_module.launch.memory import available_bytes

SPEC = SPECS / "short_video.yaml"
ROWS = {"users": 80_000_000, "posts": 55_000_000, "authors": 10**6, "hashtags": 10**6, "contexts": 1000}
HUGE = "{dim: 1024, capacity: {rows: 1000000000000, evict: least_frequent}}"
ROWS_TEXT = "users=80e6,posts=55M,authors=1e6,hashtags=1e6,contexts=1000"


def planned(ranks: int = 8) -> Plan:
    return plan(load_spec(SPEC), rows=ROWS, ranks=ranks)


def sangam(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.cli", "plan", *arguments]
    return subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)


def test_the_plan_is_printed_by_table_and_by_rank() -> None:
    shown = io.StringIO()
    print_plan(planned(), MemoryLimit(64 * 10**9, "given"), Console(file=shown, width=200), ranks_per_host=4)
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert lines[0] == "table dim optimizer rows embedding slots usage key index bytes/row total"
    assert lines[5] == "users 16 adagrad 80,000,000 64 64 0 8 36 172 13.8 GB"
    assert "each of 8 ranks mean mean + 6 sigma" in lines
    assert "rows 17,125,125 17,161,621" in lines
    assert any(mentions(line, "copy ... checkpoint ... 2.63 GB 2.63 GB") for line in lines)
    assert any(tells(line, "parameters", "2.18 billion ... 2.18 billion ... 36.1 thousand") for line in lines)
    by_part = "experts 32,384, expert gates 1,504, towers 2,180, encoders 20"
    assert f"dense parameters: 36,088 ({by_part})" in lines
    assert any(tells(line, "memory per rank", "64.0 GB") for line in lines)
    peak = planned().high.peak
    assert any(tells(line, "a host of 4 ranks", f"{4 * peak / 1e9:.1f} GB") for line in lines)


def test_what_does_not_fit_is_refused_with_a_number_of_ranks_that_would() -> None:
    made = planned(ranks=2)
    room = MemoryLimit(10 * 10**9, "given")
    with pytest.raises(UserError, match=place_and_value("plan", "(got 33. ... GB ... 10.0 GB given)")) as caught:
        refuse_unfit(made, room)
    ranks = int(str(caught.value).split("about ")[1].split()[0])
    refuse_unfit(planned(ranks), room)
    with pytest.raises(UserError):
        refuse_unfit(planned(ranks - 2), room)


def test_no_number_of_ranks_is_named_where_none_would_do() -> None:
    with pytest.raises(UserError, match=place_and_value("plan", "optimizer")):
        refuse_unfit(planned(), MemoryLimit(10**8, "given"))


def test_the_peak_itself_fits() -> None:
    made = planned()
    refuse_unfit(made, MemoryLimit(int(made.high.peak) + 1, "given"))
    with pytest.raises(UserError):
        refuse_unfit(made, MemoryLimit(int(made.high.peak) - 1, "given"))


def test_this_machine_is_shared_by_its_ranks() -> None:
    alone, shared = this_machine(1).per_rank_bytes, this_machine(4).per_rank_bytes
    assert shared == pytest.approx(alone / 4, rel=0.1)


def test_the_command_plans_and_says_that_it_fits() -> None:
    done = sangam(str(SPEC), "--rows", ROWS_TEXT, "--ranks", "8", "--memory-per-rank", "64GB")
    assert done.returncode == 0, done.stderr
    assert "users" in done.stdout
    assert done.stdout.splitlines()[-1] == "it fits"


def test_the_command_refuses_what_does_not_fit_after_showing_the_plan() -> None:
    done = sangam(str(SPEC), "--rows", ROWS_TEXT, "--ranks", "1", "--memory-per-rank", "16GB")
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
        (("--rows", ROWS_TEXT, "--memory-per-rank", "64"), "--memory-per-rank", "(got '64')"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], place: str, value: str) -> None:
    done = sangam(str(SPEC), *arguments)
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


def test_a_run_whose_tables_cannot_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.read_text().replace("hashtags: {dim: 8}", f"hashtags: {HUGE}"))
    command = [sys.executable, "-m", "pipelines.cli", "run", str(spec), "--date", "2024-03-07"]
    command += ["--data", str(tmp_path), "--root", str(tmp_path.parent / "never")]
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert tells(done.stderr, "tables", "(got hashtags: ")
    assert not (tmp_path.parent / "never").exists()

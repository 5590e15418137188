"""What is read of cgroups, from folders as two kernels lay them out: version 1 and version 2."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sangam.schemas.host.cgroup import Cgroup, OomWatch, own_cgroups, usable_cores

LIMIT = 314572800
_UNLIMITED = 9223372036854771712


def version_1(folder: Path, *, limit: int | None = LIMIT, used: int = 100_000_000, kills: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit or _UNLIMITED}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text("cache 7\ninactive_file 1\ntotal_cache 7\ntotal_inactive_file 5000000\n")
    (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n")
    return folder


def version_2(folder: Path, *, limit: int | None = LIMIT, used: int = 100_000_000, kills: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit or 'max'}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text("anon 95000000\nfile 7\ninactive_file 5000000\n")
    (folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 31\noom 2\noom_kill {kills}\noom_group_kill 0\n")
    return folder


BOTH = pytest.mark.parametrize("layout", [version_1, version_2])
Layout = Callable[..., Path]


@BOTH
def test_a_kill_since_the_watch_began_is_told_with_the_smallest_limit(tmp_path: Path, layout: Layout) -> None:
    outer, inner = layout(tmp_path, limit=LIMIT), layout(tmp_path / "inner", limit=2 * LIMIT, kills=3)
    watch = OomWatch([Cgroup(inner), Cgroup(outer)])
    assert watch.out_of_memory() is None
    layout(tmp_path / "inner", limit=2 * LIMIT, kills=4)
    found = watch.out_of_memory()
    assert found
    assert found.limit_bytes == LIMIT
    assert "(got 315 MB)" in str(found)


@BOTH
def test_a_kill_without_a_limit_is_the_machines(tmp_path: Path, layout: Layout) -> None:
    watch = OomWatch([Cgroup(layout(tmp_path, limit=None))])
    layout(tmp_path, limit=None, kills=1)
    found = watch.out_of_memory()
    assert found
    assert found.limit_bytes is None
    assert "machine" in str(found)


def test_where_no_cgroup_counts_the_machine_does(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 10\noom_kill 2\n")
    watch = OomWatch([Cgroup(tmp_path / "none")], vmstat)
    assert watch.out_of_memory() is None
    vmstat.write_text("nr_free_pages 10\noom_kill 3\n")
    assert watch.out_of_memory()


def test_where_nothing_counts_nothing_is_told(tmp_path: Path) -> None:
    assert OomWatch([], tmp_path / "none").out_of_memory() is None


@BOTH
def test_what_is_left_of_a_limit_is_what_is_not_used_and_the_cache_of_files(tmp_path: Path, layout: Layout) -> None:
    assert Cgroup(layout(tmp_path)).left_bytes() == LIMIT - 100_000_000 + 5_000_000
    assert Cgroup(layout(tmp_path, limit=None)).left_bytes() is None


@pytest.mark.parametrize(
    ("layout", "own", "folders"),
    [
        (version_1, "5:cpu,cpuacct:/\n4:memory:/kubepods/pod-a\n0::/\n", ["memory/kubepods/pod-a"]),
        (version_1, "4:memory:/on/the/node\n0::/\n", ["memory"]),
        (version_2, "0::/user.slice/app.scope\n", ["user.slice/app.scope"]),
        (version_2, "0::/\n", ["."]),
        (version_2, "0::/on/the/node\n", ["."]),
    ],
)
def test_the_own_cgroup_comes_first(tmp_path: Path, layout: Layout, own: str, folders: list[str]) -> None:
    layout(tmp_path / folders[0], kills=5)
    (tmp_path / "own").write_text(own)
    assert own_cgroups(tmp_path, tmp_path / "own")[0].kills() == 5


def test_the_cgroups_of_this_process_are_read() -> None:
    assert OomWatch().out_of_memory() is None
    assert OomWatch()._before is not None


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/pod/main\n", {"pod/main/cpu.max": "150000 100000", "pod/cpu.max": "50000 100000"}, 0.5),
        ("0::/pod/main\n", {"pod/main/cpu.max": "25000 100000", "pod/cpu.max": "max 100000"}, 0.25),
        ("0::/on/the/node\n", {"cpu.max": "30000 100000"}, 0.3),
        ("5:cpu,cpuacct:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"}, 0.5),
        ("5:cpu,cpuacct:/a\n0::/\n", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/\n", {}, None),
    ],
)
def test_the_cores_are_those_of_the_affinity_within_the_smallest_quota(
    tmp_path: Path, own: str, files: dict[str, str], cores: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "own").write_text(own)
    of_affinity = float(len(os.sched_getaffinity(0)))
    assert usable_cores(tmp_path, tmp_path / "own") == (of_affinity if cores is None else cores)

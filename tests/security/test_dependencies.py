"""What is installed: by hash alone, and under licenses that somebody has allowed."""

import csv
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

LOCKS = (
    "requirements.lock",
    "requirements.runtime.lock",
    "requirements.build.lock",
    "requirements.gpu.lock",
    "infra/uv.lock.txt",
)
_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(\[[\w,-]+\])?==(?P<version>\S+)")


def entries_of(text: str) -> list[str]:
    """Returns a line for each package of a lock file."""
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip() and line[0] != "#"]


def problems_of(text: str) -> list[str]:
    """Returns the lines of a lock file that would install something unknown."""
    return [
        line
        for line in entries_of(text)
        if not _ENTRY.match(line) or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line) or "://" in line
    ]


def packages_of(text: str) -> dict[str, str]:
    """Returns name to version."""
    found = [_ENTRY.match(line) for line in entries_of(text)]
    return {_plain(entry["name"]): entry["version"] for entry in found if entry}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def not_allowed(rows: list[dict[str, str]], allowed: set[str]) -> list[str]:
    """Returns the packages whose license is not among the allowed ones."""
    return [
        f"{row['Name']}: {row['License']}"
        for row in rows
        if not {row["License"], f"{row['License']} {row['Name']}"} & (allowed - {"UNKNOWN"})
    ]


def test_a_wheel_brings_the_uv_that_builds_a_checkout(repository: Path) -> None:
    declared = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["dependencies"]
    version = packages_of((repository / "infra/uv.lock.txt").read_text())["uv"]
    assert f"uv=={version}" in declared


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_locked_by_hash_and_by_no_address(repository: Path, lock: str) -> None:
    text = (repository / lock).read_text()
    assert problems_of(text) == []
    assert "://" not in text


@pytest.mark.parametrize(
    "line",
    [
        "numpy==1.26.4",
        "numpy>=1.26 --hash=sha256:" + "0" * 64,
        "--extra-index-url https://example.org",
        "numpy @ https://example.org/numpy.whl --hash=sha256:" + "0" * 64,
        "-e .",
        "numpy==1.26.4 --hash=md5:" + "0" * 32,
    ],
)
def test_a_line_that_installs_something_unknown_is_found(line: str) -> None:
    assert problems_of(f"a==1 \\\n    --hash=sha256:{'1' * 64}\n{line}\n") == [line]


def test_images_get_what_the_project_declares_and_no_tools(repository: Path) -> None:
    everything = packages_of((repository / LOCKS[0]).read_text())
    shipped = packages_of((repository / LOCKS[1]).read_text())
    assert shipped.items() <= everything.items()
    assert not shipped.keys() & {"pytest", "ruff", "mypy", "hypothesis", "pre-commit", "cyclonedx-bom", "pip-licenses"}
    assert {"tensorflow", "horovod", "tfx", "lightkube", "pydantic"} <= shipped.keys()


def test_what_horovod_is_compiled_with_is_locked_and_what_it_runs_with(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["uv"]
    declared = project["extra-build-dependencies"]["horovod"]
    names = {re.match(r"[\w-]+", entry if isinstance(entry, str) else entry["requirement"])[0] for entry in declared}  # type: ignore[index]
    lines = (repository / "infra" / "horovod-build.in").read_text().splitlines()
    asked = {re.match(r"[\w-]+", line)[0] for line in lines if line[0] != "#"}  # type: ignore[index]
    locked = packages_of((repository / "requirements.build.lock").read_text())
    assert names == asked
    assert asked <= locked.keys()
    shipped = packages_of((repository / LOCKS[1]).read_text())
    assert {name for name in locked.keys() & shipped.keys() if locked[name] != shipped[name]} == {"setuptools"}


def test_an_installation_compiles_nothing_with_packages_without_hashes(repository: Path) -> None:
    syncs = [
        line
        for line in (repository / "infra" / "setup.sh").read_text().replace("\\\n", " ").splitlines()
        if "pip sync" in line
    ]
    assert syncs
    assert all("--require-hashes" in line and "--build-constraints requirements.build.lock" in line for line in syncs)


def test_licenses_are_listed_for_what_the_images_get(repository: Path) -> None:
    listed = {_plain(row["Name"]): row["Version"] for row in _table(repository / "infra/sbom/licenses.csv")}
    # Otherwise the list is old: `make sbom`.
    assert listed == packages_of((repository / LOCKS[1]).read_text())


def test_every_license_is_allowed(repository: Path) -> None:
    allowed = {row["License"]: row["Why"] for row in _table(repository / "infra/sbom/allowed.csv")}
    assert not_allowed(_table(repository / "infra/sbom/licenses.csv"), set(allowed)) == []
    assert all(why.startswith(("permissive", "care: ")) for why in allowed.values())


@pytest.mark.parametrize(
    "license", ["GPL-3.0-only", "LGPL-2.1", "AGPL-3.0", "UNKNOWN", "Other/Proprietary License", ""]
)
def test_another_license_is_refused(repository: Path, license: str) -> None:
    allowed = {row["License"] for row in _table(repository / "infra/sbom/allowed.csv")}
    assert not_allowed([{"Name": "new", "License": license}], allowed) == [f"new: {license}"]


def _checked(database: Path | str) -> tuple[int, list[str]]:
    command = [sys.executable, "infra/sbom/osv.py", str(database)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def _record(record_id: str, name: str, events: list[dict[str, str]], **more: object) -> dict[str, object]:
    affected = {"package": {"ecosystem": "PyPI", "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": record_id, "affected": [affected], **more}


def test_known_vulnerabilities_of_the_locks_are_found_unless_accepted(tmp_path: Path, repository: Path) -> None:
    packages = packages_of((repository / LOCKS[1]).read_text())
    horovod, build = packages["horovod"], packages_of((repository / LOCKS[2]).read_text())
    [only_build] = sorted(build.keys() - packages_of((repository / LOCKS[0]).read_text()).keys())[:1]
    always: list[dict[str, str]] = [{"introduced": "0"}]
    known = [
        _record("OSV-1", "Horovod", [*always, {"last_affected": horovod}], summary="runs code"),
        _record("OSV-2", "horovod", [*always, {"fixed": horovod}]),
        _record("OSV-3", "horovod", [{"introduced": "99"}]),
        _record("OSV-4", "horovod", always, withdrawn="2024-01-01T00:00:00Z"),
        _record("OSV-5", "pyarrow", [{"introduced": "0.14.0"}, {"fixed": "14.0.1"}], aliases=["CVE-2023-47248"]),
        _record("OSV-6", only_build, always),
        _record("OSV-7", "not-locked-anywhere", always),
        {"id": "OSV-8", "affected": [{"package": {"ecosystem": "PyPI", "name": "horovod"}, "versions": [horovod]}]},
        {"id": "OSV-9", "affected": [{"package": {"ecosystem": "npm", "name": "horovod"}, "versions": [horovod]}]},
    ]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for record in known:
            archive.writestr(f"{record['id']}.json", json.dumps(record))
            (tmp_path / f"{record['id']}.json").write_text(json.dumps(record))
    code, lines = _checked(tmp_path / "all.zip")
    assert code == 1
    assert lines[:-1] == sorted(
        [
            f"vulnerabilities: horovod {horovod}: OSV-1 runs code",
            f"vulnerabilities: {only_build} {build[only_build]}: OSV-6",
            f"vulnerabilities: horovod {horovod}: OSV-8",
        ]
    )
    assert _checked(tmp_path) == (code, lines)
    for number in (1, 6, 8):
        (tmp_path / f"OSV-{number}.json").unlink()
    assert _checked(tmp_path)[0] == 0


@pytest.mark.parametrize("database", ["", "no-such-file.zip"])
def test_a_check_without_the_records_says_so_in_one_line(database: str) -> None:
    code, lines = _checked(database)
    assert (code, len(lines)) == (0, 1)
    assert "NOT CHECKED" in lines[0]

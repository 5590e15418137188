"""Compares the locked packages with the records of known vulnerabilities that https://osv.dev publishes for PyPI.

`python infra/sbom/osv.py DATABASE`, from the root of the repository: DATABASE is the archive of PyPI's records
(all.zip) or a folder of them (.json). Exits with 1 for a vulnerability that infra/sbom/accepted.csv does not list.
"""

import csv
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

LOCKS = ("requirements.lock", "requirements.runtime.lock", "requirements.build.lock", "requirements.gpu.lock")
ACCEPTED = "infra/sbom/accepted.csv"
_ENTRY = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", re.MULTILINE)


def plain(name: str) -> str:
    """Returns a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(locks: Iterable[Path]) -> set[tuple[str, str]]:
    """Returns name and version of every package of the locks."""
    return {(plain(name), version) for lock in locks for name, version in _ENTRY.findall(lock.read_text())}


def records(database: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the records of an archive or a folder that have not been withdrawn."""
    if database.is_dir():
        contents: Iterator[bytes] = (path.read_bytes() for path in sorted(database.rglob("*.json")))
    else:
        archive = zipfile.ZipFile(database)
        contents = (archive.read(name) for name in sorted(archive.namelist()) if name.endswith(".json"))
    return (record for record in map(json.loads, contents) if not record.get("withdrawn"))


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Returns whether a version is in the list or a range of a record."""
    if version in affected.get("versions", ()):
        return True
    events = [each["events"] for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM"]
    return any(_is_within(Version(version), each) for each in events)


def _is_within(version: Version, events: Sequence[Mapping[str, str]]) -> bool:
    found = False
    for kind, at in sorted((item for event in events for item in event.items()), key=lambda item: _parsed(item[1])):
        if kind == "introduced" and _parsed(at) <= version:
            found = True
        elif (kind == "fixed" and _parsed(at) <= version) or (kind == "last_affected" and _parsed(at) < version):
            found = False
    return found


def _parsed(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def found(packages: set[tuple[str, str]], known: Iterable[Mapping[str, Any]]) -> dict[str, tuple[set[str], str]]:
    """Returns by record all its names, and a line that describes it."""
    versions: dict[str, set[str]] = {}
    for name, version in packages:
        versions.setdefault(name, set()).add(version)
    result = {}
    for record in known:
        for affected in record.get("affected", ()):
            package = affected.get("package", {})
            if package.get("ecosystem") != "PyPI":
                continue
            name = plain(package["name"])
            for version in sorted(versions.get(name, ())):
                if is_affected(version, affected):
                    line = f"{name} {version}: {record['id']} {record.get('summary', '')}".rstrip()
                    result[record["id"]] = {record["id"], *record.get("aliases", ())}, line
    return result


def main(arguments: Sequence[str]) -> int:
    """Prints what was found, and returns the exit code."""
    database = Path(arguments[0]) if arguments and arguments[0] else None
    if database is None or not database.exists():
        print(
            "vulnerabilities: NOT CHECKED: no records of osv.dev for PyPI "
            f"(got {database or 'no path'}); make vulnerabilities OSV=all.zip"
        )
        return 0
    with Path(ACCEPTED).open(newline="", encoding="utf-8") as file:
        accepted = {row["Id"] for row in csv.DictReader(file)}
    packages = locked(map(Path, LOCKS))
    vulnerable = found(packages, records(database))
    new = [line for names, line in vulnerable.values() if not names & accepted]
    print(*(f"vulnerabilities: {line}" for line in sorted(new)), sep="\n", end="\n" if new else "")
    print(f"vulnerabilities: {len(packages)} packages, {len(vulnerable)} known, {len(new)} not in {ACCEPTED}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

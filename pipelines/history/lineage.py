"""The lineage of a model: its days, run, bases, checkpoint and blessing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sangam.components.object_stores import is_stored
from sangam.components.record.store import StoredRun, find_run, read_run
from sangam.components.registry import shadow, versions
from sangam.components.registry.record import BlessedModel, read_records
from sangam.components.steps.pusher.manifest import Manifest, read_manifest
from sangam.pipelines.console import say
from sangam.pipelines.local.outputs import Output, read_outputs
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.example_files import LISTING_FILE, digest_of
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

_BASE = "base"
_GIVE = "give the folder of a pushed version, ROOT/serving/NAME/VERSION, or a run, ROOT/runs/RUN"


@dataclass(frozen=True)
class Day:
    """A day that the run has read.

    Attributes:
        split: split of the day.
        digest: hash of its log files, the part of the spec that examples depend on, and the code; empty if unknown.
    """

    split: str
    day: str
    digest: str = ""


@dataclass(frozen=True)
class Link:
    """A checkpoint in the chain of bases.

    Attributes:
        checkpoint: folder of the checkpoint.
        is_there: whether the folder exists.
        run: run that trained it; empty if unknown.
        days: days that it has learned, including those of its own bases; empty if unknown.
        version: pushed version; empty if there is none, or if unknown.
    """

    checkpoint: str
    is_there: bool
    run: str = ""
    days: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True)
class Lineage:
    """The origin of a model.

    Attributes:
        version: folder of the pushed version; None: not pushed, or removed.
        run: first run that trained the model; None if its folder was removed.
        manifest: manifest of the version.
        blessing: record of the blessing; None: the model was refused.
        days: days that the run has read.
        chain: the model's own checkpoint, then its base, and so on.
        online: VERSION+DELTA of a model from online training; all other fields are those of the version.
    """

    ranker: str
    version: Path | str | None
    run: StoredRun | None
    manifest: Manifest | None
    blessing: BlessedModel | None
    days: tuple[Day, ...] = ()
    chain: tuple[Link, ...] = ()
    online: str = ""

    @property
    def spec_digest(self) -> str:
        """Digest of the run's whole spec."""
        record = self.run.record if self.run else None
        return self.manifest.spec_digest if self.manifest else record.spec_digest if record else ""

    @property
    def commit(self) -> str:
        """Git commit of the code."""
        record = self.run.record if self.run else None
        return (self.manifest.git_commit if self.manifest else record.git_commit if record else "") or ""

    @property
    def blessed_by(self) -> str:
        """The person or the gates that blessed the model, as text."""
        if self.blessing is None:
            return "no one: the gates refused it" if self.run and self.run.state == "refused" else "not known"
        when = f" at {self.blessing.blessed_at:%Y-%m-%d %H:%M} UTC"
        if self.blessing.because:
            return f"{self.blessing.by}{when}, because {self.blessing.because}"
        return f"the gates{when}"

    def document(self) -> dict[str, Any]:
        """Returns the lineage as JSON, for programs."""
        return {
            "ranker": self.ranker,
            "version": str(self.version) if self.version else None,
            "run": self.run.id if self.run else None,
            "spec_digest": self.spec_digest or None,
            "git_commit": self.commit or None,
            "blessed_by": self.blessed_by,
            "online": self.online or None,
            "days": [{"split": each.split, "day": each.day, "digest": each.digest or None} for each in self.days],
            "chain": [
                {
                    "checkpoint": link.checkpoint,
                    "there": link.is_there,
                    "run": link.run or None,
                    "days": list(link.days),
                    "version": link.version or None,
                }
                for link in self.chain
            ],
        }


def lineage_of(given: Path) -> Lineage:
    """Returns the lineage of the model of a version or of a run.

    Raises:
        UserError: the folder is neither, or the run trained no model.
    """
    if (given / versions.MANIFEST_FILE).is_file():
        return _of_version(given.resolve())
    run = find_run(given)
    outputs = read_outputs(run.root).outputs
    models = [each for each in outputs if run.id in each.runs and (each.step, each.key) == ("trainer", "model")]
    if not models or run.ranker is None:
        raise UserError(f"MODEL: the run has trained no model (got {given}: {run.state}); {_GIVE}")
    records = read_records(run.root.path, run.ranker)
    of_model = [record for record in records if record.model_uri == str(models[-1].path)]
    blessing = of_model[-1] if of_model else None
    pushed = blessing.pushed if blessing else ""
    version = pushed if is_stored(pushed) else shadow.place_of(run.root.path / pushed) if pushed else None
    manifest = _manifest(version) if isinstance(version, Path) and version.is_dir() else None
    return _with_chain(run.ranker, version, run, manifest, blessing, records, outputs)


def _of_version(version: Path) -> Lineage:
    manifest = _manifest(version)
    root = next((Root(str(parent)) for parent in version.parents if (parent / "blessed").is_dir()), None)
    if root is None:
        raise UserError(f"MODEL: is below no pipeline root (got {version}); {_GIVE}")
    records = read_records(root.path, manifest.name)
    place = deltas.lineage_of(version)
    start = place.lineage if place else version.name
    is_aside = version.parent.name in (versions.WITHDRAWN, versions.SHADOW)
    folder = version.parent.parent if is_aside else version.parent
    name = str((folder / start).relative_to(root.path))
    pushes = [record for record in records if record.pushed == name]
    blessing = pushes[-1] if pushes else None
    outputs = read_outputs(root).outputs
    run = _first_run(root, blessing, outputs)
    made = _with_chain(manifest.name, version, run, manifest, blessing, records, outputs)
    return replace(made, online=f"{start}+{place.number}") if place and place.number else made


def _manifest(version: Path) -> Manifest:
    file = version / versions.MANIFEST_FILE
    try:
        return read_manifest(str(file), file.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: is no manifest of a push (got {str(error).splitlines()[0]}); {_GIVE}") from error


def _first_run(root: Root, blessing: BlessedModel | None, outputs: tuple[Output, ...]) -> StoredRun | None:
    """Returns the run that trained a model; later runs took it from the cache."""
    ids = sorted(run for each in outputs if blessing and str(each.path) == blessing.model_uri for run in each.runs)
    if not ids or not root.run(ids[0]).path.is_dir():
        return None
    return read_run(root.run(ids[0]))


def _with_chain(
    ranker: str,
    version: Path | str | None,
    run: StoredRun | None,
    manifest: Manifest | None,
    blessing: BlessedModel | None,
    records: list[BlessedModel],
    outputs: tuple[Output, ...],
) -> Lineage:
    start = blessing.checkpoint_uri if blessing else ""
    if not start and run:
        own = [each for each in outputs if run.id in each.runs and each.key == "checkpoint"]
        start = str(own[-1].path) if own else ""
    chain = tuple(_chain(start, records, outputs))
    return Lineage(ranker, version, run, manifest, blessing, tuple(_days(run, manifest, outputs)), chain)


def _chain(checkpoint: str, records: list[BlessedModel], outputs: tuple[Output, ...]) -> Iterator[Link]:
    by_path = {str(each.path): each for each in outputs}
    by_checkpoint = {record.checkpoint_uri: record for record in records}
    seen: set[str] = set()
    while checkpoint and checkpoint not in seen:
        seen.add(checkpoint)
        output, record = by_path.get(checkpoint), by_checkpoint.get(checkpoint)
        properties = output.properties if output else {}
        days = record.days if record else tuple(json.loads(properties.get("days") or "[]"))
        yield Link(
            checkpoint,
            Path(checkpoint).is_dir(),
            min(output.runs, default="") if output else "",
            days,
            record.pushed.rpartition("/")[2] if record else "",
        )
        checkpoint = str(properties.get(_BASE) or "")


def _days(run: StoredRun | None, manifest: Manifest | None, outputs: tuple[Output, ...]) -> Iterator[Day]:
    """Yields the days of a run from its list of examples; without digests if the list is missing."""
    listing = [each.path / LISTING_FILE for each in outputs if run and run.id in each.runs and each.key == "examples"]
    if listing and listing[-1].is_file():
        for split, days in json.loads(listing[-1].read_bytes())["splits"].items():
            for day in days:
                yield Day(split, day["day"] or "", digest_of(day["folder"]))
        return
    known = manifest.days if manifest else run.record.days if run and run.record else {}
    yield from (Day(split, day) for split, days in known.items() for day in days)


def print_lineage(lineage: Lineage, console: Console) -> None:
    """Prints the lineage, from the days to the model."""
    run, manifest = lineage.run, lineage.manifest
    for each in lineage.days:
        digest = f"  digest {each.digest}" if each.digest else ""
        say(f"{each.split:<10} {each.day or 'all'}{digest}", console)
    say(f"spec       {lineage.spec_digest or 'not known'}", console)
    say(f"code       {lineage.commit or 'not known'}", console)
    say(f"run        {run.folder.path if run else 'its folder is gone'}", console)
    for depth, link in enumerate(lineage.chain):
        days = f", trained on {link.days[0]} to {link.days[-1]} ({len(link.days)} in all)" if link.days else ""
        gone = "" if link.is_there else ", removed"
        of_run = f", of run {link.run}" if link.run else ""
        version = f", version {link.version}" if link.version and depth else ""
        say(f"{'base' if depth else 'checkpoint':<10} {link.checkpoint}{gone}{days}{of_run}{version}", console)
    if lineage.chain and len(lineage.chain) == 1:
        base_days = manifest.base_days if manifest else []
        told = (
            f"trained on {base_days[0]} to {base_days[-1]}, not known any more" if base_days else "none: from nothing"
        )
        say(f"base       {told}", console)
    say(f"blessed by {lineage.blessed_by}", console)
    if lineage.online:
        say(f"online     trained on from version {lineage.online.replace('+', ', up to delta ')}", console)
    say(f"model      {lineage.version or 'not pushed'}", console)

"""Versions in the shadow of the live one: how one is made live or dropped, and the record that says why.

`<folder>/shadow/<number>/` waits; `<folder>/shadow/<number>.json` is the record of its decision, and stays. The model
card tells it, too. Loads without TensorFlow and TFX.
"""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from sangam.components.registry import moving, seal, versions
from sangam.components.registry.versions import CARD_FILE, MANIFEST_FILE, SHADOW
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import refuse_links, refuse_links_within, write_whole

_SECTION = "\n## Shadow\n"


class Decision(BaseModel):
    """The record of what became of a version in the shadow.

    Attributes:
        version: number.
        live: version that answered meanwhile.
        verdict: whether it was made live.
        because: reason in words.
        measured: a line for each task that was compared.
        by: the person who decided; empty: the rule of the spec.
        at: UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    live: str
    verdict: Literal["promoted", "dropped"]
    because: str
    measured: list[str] = []
    by: str = ""
    at: datetime.datetime

    @property
    def sentence(self) -> str:
        """The decision in a sentence."""
        who = f" by {self.by}" if self.by else ""
        what = "made live" if self.verdict == "promoted" else "dropped"
        return f"{what}{who} at {self.at:%Y-%m-%d %H:%M} UTC after the shadow of {self.live}, because {self.because}"

    def lines(self) -> list[str]:
        """Returns the decision, and what was measured."""
        return [f"{self.sentence[0].upper()}{self.sentence[1:]}.", *self.measured]


class Waiting(BaseModel):
    """A version that waits.

    Attributes:
        version: number.
        live: newest live version.
        lineage: the version as which that one began; online training pushes more full versions of it.
        since: time of its push, UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    live: str
    lineage: str
    since: datetime.datetime


def waiting(folder: Path) -> Waiting | None:
    """Returns the newest version that waits; None without any.

    Raises:
        UserError: it has no readable manifest, or nothing is live.
    """
    version, live = versions.shadow(folder), versions.versions(folder)
    if version is None:
        return None
    if not live:
        raise UserError(
            f"{folder}: nothing is live (got {version} in the shadow); put a version back: sangam rollback {folder} "
            "--restore VERSION"
        )
    file = folder / SHADOW / version / MANIFEST_FILE
    try:
        since = datetime.datetime.fromisoformat(json.loads(file.read_bytes())["created"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: is no manifest of a push (got {error}); push the version again") from error
    place = deltas.lineage_of(folder / live[-1])
    lineage = place.lineage if place else live[-1]
    return Waiting(version=version, live=live[-1], lineage=lineage, since=since.astimezone(datetime.UTC))


def promote(folder: Path, decision: Decision) -> None:
    """Makes a waiting version live; a promotion that was killed is completed.

    Raises:
        UserError: it does not wait any more, is damaged, or has a link; or a newer version is live.
    """
    with versions.locked(folder):
        versions.finish_moves(folder)
        source, live = _waiting(folder, decision.version), versions.versions(folder)
        if live and int(live[-1]) > int(decision.version):
            raise UserError(
                f"{folder}: version {live[-1]} is newer and live (got {decision.version} to promote); drop it"
            )
        _tell(source, decision.lines())
        if problem := versions.damage(source):
            raise UserError(f"{source}: is damaged (got {problem}); drop it: sangam promote --drop --because REASON")
        _record(folder, decision)
        moving.move_whole(source, folder / decision.version)


def drop(folder: Path, decision: Decision) -> None:
    """Withdraws a waiting version, with the reason.

    Raises:
        UserError: it does not wait any more, or has a link.
    """
    with versions.locked(folder):
        versions.finish_moves(folder)
        source = _waiting(folder, decision.version)
        _tell(source, decision.lines())
        _record(folder, decision)
        versions.put_away(folder, decision.version, because=decision.because, now=decision.at)


def supersede(folder: Path, *, now: datetime.datetime) -> list[str]:
    """Withdraws all waiting versions but the newest, and returns them; call it under the lock."""
    *older, newest = versions.versions(folder / SHADOW) or [""]
    live = versions.versions(folder)
    for version in older:
        because = f"version {newest} was pushed into the shadow"
        decision = Decision(
            version=version, live=live[-1] if live else "none", verdict="dropped", because=because, at=now
        )
        _tell(_waiting(folder, version), decision.lines())
        _record(folder, decision)
        versions.put_away(folder, version, because=because, now=now)
    return older


def decision_on(folder: Path, version: str) -> Decision | None:
    """Returns the record of a version that has left the shadow; None without a readable one."""
    if is_waiting(folder, version):
        return None
    try:
        return Decision.model_validate_json((folder / SHADOW / f"{version}.json").read_bytes())
    except (OSError, ValueError):
        return None


def is_dropped(folder: Path, version: str) -> bool:
    """Returns whether a version was dropped from the shadow, and was not put back since."""
    decision = decision_on(folder, version)
    is_withdrawn = (folder / versions.WITHDRAWN / version).is_dir()
    return decision is not None and decision.verdict == "dropped" and is_withdrawn


def is_waiting(folder: Path, version: str) -> bool:
    """Returns whether a version waits in the shadow."""
    return version in versions.versions(folder / SHADOW)


def place_of(path: Path) -> Path:
    """Returns where a version that belongs at a path lies: there, or in the shadow beside."""
    aside = path.parent / SHADOW / path.name
    return aside if not path.is_dir() and aside.is_dir() else path


def waits_text(live: str, hours: float | None = None) -> str:
    """Returns what a version waits for."""
    after = f", {hours:g} hours after the push or when it is beyond doubt" if hours is not None else ""
    return f"waits in the shadow of {live}; `sangam promote` makes it live or drops it{after}"


def with_section(card: str, lines: Sequence[str]) -> str:
    """Returns a model card that ends with what is said of the shadow."""
    before, mark, _ = card.rpartition(_SECTION)
    return f"{(before if mark else card).rstrip()}\n{_SECTION}\n" + "\n\n".join(map(_plain, lines)) + "\n"


def _plain(text: str) -> str:
    """Returns a line with Markdown escaped: reasons are typed by people."""
    line = " ".join(text.split())
    return "".join(f"\\{character}" if character in "\\|<" else character for character in line)


def _waiting(folder: Path, version: str) -> Path:
    """Returns where a version waits; refuses one that does not, or that has a link."""
    if not is_waiting(folder, version):
        names = ", ".join(versions.versions(folder / SHADOW)) or "none"
        raise UserError(f"{folder}: does not wait in the shadow (got {version}); waiting are: {names}")
    source = folder / SHADOW / version
    refuse_links(source, folder)
    refuse_links_within(source)
    return source


def _record(folder: Path, decision: Decision) -> None:
    write_whole(folder / SHADOW / f"{decision.version}.json", decision.model_dump_json(indent=2) + "\n")


def _tell(version: Path, lines: Sequence[str]) -> None:
    """Writes the end of the model card, and its checksum into the manifest.

    A kill between the two leaves a version that is damaged until this is done again, which its promotion does.
    """
    card, file = version / CARD_FILE, version / MANIFEST_FILE
    if not (card.is_file() and file.is_file()):
        return
    write_whole(card, with_section(card.read_text(encoding="utf-8"), lines))
    manifest = json.loads(file.read_bytes())
    manifest["files"][CARD_FILE] = seal.FileEntry(sha256=seal.sha256_of(card), bytes=card.stat().st_size).model_dump()
    write_whole(file, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")

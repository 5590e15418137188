"""Versions in the shadow of the live one, looked at every hour until they are made live or dropped."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.loop import spec
from bench.loop.programs import Program

_DROPPED, _HELD = 3, 4
HOURS = 4.0
_BOUNDS = {"max_auc_drop": 0.01, "max_calibration_error": 0.5, "least_users": 50, "least_positives": 50}
"""Both versions learn from the same rows while one waits. The standard error of the difference is about 0.01 after four
hours of this world: a closer bound would decide by chance."""


def sections() -> dict[str, Any]:
    """Returns the sections of the spec that let a version wait in the shadow."""
    return {
        "serving": spec.SERVING | {"shadow": {"share": 0.5}},
        "push": spec.PUSH | {"after": "shadow", "hours": HOURS, "lateness_s": 1800} | _BOUNDS,
        "evaluation": {"group": {"by": "user"}, "confidence": {"by": "user"}},
    }


@dataclass
class Promotion:
    """What became of one version: the decision, its reason, and the hours from the push until then."""

    version: str
    decision: str
    because: str
    hours: float
    auc: Mapping[str, float] = field(default_factory=dict)


class Promoter:
    """Looks at the version in the shadow.

    Attributes:
        promotions: what became of each.
        looks: number of looks.
    """

    def __init__(self, folder: Path, now: Callable[[], float]):
        """Takes the folder of the week, and its clock."""
        self._folder, self._now = folder, now
        self._look: Program | None = None
        self._pushed_s: dict[str, float] = {}
        self.promotions: list[Promotion] = []
        self.looks = 0

    def waits(self, version: str) -> None:
        """Notes that a version waits from now on."""
        self._pushed_s[version] = self._now()

    def look(self) -> None:
        """Starts a look, where a version waits."""
        if self._look is None and self._pushed_s:
            file = spec.write(self._folder / "promote.yaml", spec.document(**sections()))
            words = ["promote", str(file), "--data", str(self._folder / "data"), "--root", str(self._folder / "root")]
            self._look, self.looks = Program([*words, "--json"], self._folder / "logs" / "promote.log"), self.looks + 1

    def check(self) -> None:
        """Reads what a look has said, once it has ended.

        Raises:
            RuntimeError: it failed.
        """
        if self._look is None or (code := self._look.code()) is None:
            return
        look, self._look = self._look, None
        if code == _HELD:  # By the push of a run, or by online training: the next look will do.
            return
        if code not in (0, _DROPPED):
            raise RuntimeError(f"sangam promote ended with {code}:\n{look.said()[-3000:]}")
        told = json.loads(look.log.read_text())
        version = told["version"]
        if version is None or not told["is_done"]:
            return
        hours = (self._now() - self._pushed_s.pop(version, self._now())) / 3600
        tasks = (told["comparison"] or {"tasks": []})["tasks"]
        auc = tasks[0]["auc"] if tasks and tasks[0]["auc"] else {}
        self.promotions.append(Promotion(version, told["decision"], told["because"], round(hours, 1), auc))

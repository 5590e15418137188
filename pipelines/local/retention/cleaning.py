"""One cleaning of one ranker: read, decide, remove."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.local.retention.inventory import take_inventory
from pipelines.local.retention.removal import remove, size_of
from pipelines.local.retention.rule import Decision, decide, newest_train_day
from schemas.contracts.root import Root
from schemas.spec import Spec
from schemas.spec.keep import Keep


@dataclass(frozen=True)
class Cleaning:
    """What a cleaning came to, or would come to.

    Attributes:
        ranker: whose it was.
        decided: on everything that the rule limits.
        failed: what could not be removed, with the reason.
        sizes: bytes by path.
    """

    ranker: str
    decided: tuple[Decision, ...]
    failed: tuple[tuple[Decision, str], ...] = ()
    sizes: Mapping[Path, int] = field(default_factory=dict)

    @property
    def gone(self) -> tuple[Decision, ...]:
        """What was removed, or would be."""
        failed = {decision.path for decision, _ in self.failed}
        return tuple(each for each in self.decided if not each.stays and each.path not in failed)

    @property
    def stays(self) -> tuple[Decision, ...]:
        """What stays."""
        return tuple(decision for decision in self.decided if decision.stays)

    def size(self, decision: Decision) -> int:
        """Returns the bytes of a thing."""
        return self.sizes.get(decision.path, 0)


def clean(root: Root, ranker: str, keep: Keep, spec: Spec | None, *, is_dry_run: bool = False) -> Cleaning:
    """Removes what a rule lets go of a ranker, under the root's lock.

    Args:
        root: an absolute path.
        ranker: name.
        keep: the rule.
        spec: of the ranker's newest run; None: not known, and trainings that were given up stay.
        is_dry_run: removes nothing; needs no lock, and measures what stays, too.

    Raises:
        UserError: a record of a blessing cannot be read.
    """
    there = take_inventory(root, ranker, spec)
    day = newest_train_day(spec, there.dates) if spec else ""
    decided = tuple(decide(keep, there, next_train_day=day))
    sizes = {each.path: size_of(each.path) for each in decided if is_dry_run or not each.stays}
    if is_dry_run:
        return Cleaning(ranker, decided, sizes=sizes)
    return Cleaning(ranker, decided, remove(root, decided, there.lost).failed, sizes)

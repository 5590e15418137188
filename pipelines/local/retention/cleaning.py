"""One cleanup of one ranker: read, decide, remove."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sangam.pipelines.local.retention.inventory import take_inventory
from sangam.pipelines.local.retention.removal import remove, size_of
from sangam.pipelines.local.retention.rule import Decision, decide, newest_train_day
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec import Spec
from sangam.schemas.spec.keep import Keep


@dataclass(frozen=True)
class Cleaning:
    """The result of a cleanup, or of a dry run.

    Attributes:
        ranker: name of the ranker.
        decided: decisions on all items that the rule limits.
        failed: items that could not be removed, with the reason.
        sizes: bytes by path.
    """

    ranker: str
    decided: tuple[Decision, ...]
    failed: tuple[tuple[Decision, str], ...] = ()
    sizes: Mapping[Path, int] = field(default_factory=dict)

    @property
    def gone(self) -> tuple[Decision, ...]:
        """The removed items; in a dry run, the items to remove."""
        failed = {decision.path for decision, _ in self.failed}
        return tuple(each for each in self.decided if not each.stays and each.path not in failed)

    @property
    def stays(self) -> tuple[Decision, ...]:
        """The kept items."""
        return tuple(decision for decision in self.decided if decision.stays)

    def size(self, decision: Decision) -> int:
        """Returns the bytes of an item."""
        return self.sizes.get(decision.path, 0)


def clean(root: Root, ranker: str, keep: Keep, spec: Spec | None, *, is_dry_run: bool = False) -> Cleaning:
    """Removes a ranker's files by a rule, under the root's lock.

    Args:
        root: root with an absolute path.
        ranker: name of the ranker.
        keep: rule to apply.
        spec: spec of the ranker's newest run; None if unknown: abandoned trainings stay.
        is_dry_run: whether to remove nothing, without a lock, and to measure the kept items, too.

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

"""What online training trains beside the live version."""

from sangam.schemas.derived.plan import Plan
from sangam.schemas.quantities import shown_bytes
from sangam.schemas.spec import Spec
from sangam.schemas.spec.release import DirectoryPush


def trains_shadow(spec: Spec) -> bool:
    """Returns whether online training also trains the version that waits in the shadow of the live one."""
    is_pushed_there = isinstance(spec.push, DirectoryPush) and spec.push.after == "shadow"
    return spec.online is not None and spec.online.shadow and is_pushed_there


def trainings(spec: Spec) -> int:
    """Returns how many trainings `sangam online` runs at most, each with the spec's ranks."""
    return 2 if trains_shadow(spec) else 1


def shadow_text(spec: Spec, plan: Plan) -> str:
    """Returns what the version in the shadow needs in online training; empty if it is not trained."""
    if not trains_shadow(spec):
        return ""
    ranks = plan.ranks
    return (
        f"sangam online, while a version waits in the shadow: {ranks.number} more ranks, "
        f"{shown_bytes(ranks.number * ranks.high.peak)} at their peak (online.shadow)"
    )

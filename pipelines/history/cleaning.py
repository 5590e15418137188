"""`sangam clean`: the retention rule of each ranker in a root, and the output."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from sangam.components.record.lock import locked
from sangam.components.record.store import all_runs
from sangam.components.reports.spec_file import read_spec
from sangam.pipelines.console import say
from sangam.pipelines.local.retention.after_run import told
from sangam.pipelines.local.retention.cleaning import Cleaning, clean
from sangam.pipelines.local.retention.inventory import rankers_of
from sangam.pipelines.local.retention.rule import Decision
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import shown_bytes
from sangam.schemas.spec import Spec
from sangam.schemas.spec.keep import Keep


def clean_root(folder: Path, options: Mapping[str, int], name: str | None, *, is_dry_run: bool) -> list[Cleaning]:
    """Applies the rules of all rankers in a root, or of one.

    Args:
        folder: the root.
        options: members of `keep` that replace those of the specs.
        name: name of the ranker; None: all rankers.
        is_dry_run: whether to remove nothing.

    Raises:
        UserError: the folder is not a root of local runs, has no such ranker, or no rule is known.
        RootInUse: a run uses the root.
    """
    root = Root(str(folder.resolve()))
    if not root.metadata.is_file():
        raise UserError(
            f"ROOT: is no root of runs on this machine (got {folder}, without {root.metadata.name}); give the --root "
            "of `sangam run`"
        )
    rankers = rankers_of(root)
    if name is not None and name not in rankers:
        raise UserError(
            f"--name: has no run in {folder} (got {name}); rankers with runs: {', '.join(rankers) or 'none'}"
        )
    with contextlib.nullcontext() if is_dry_run else locked(root.path):
        rules = {ranker: _rule(root, ranker, options) for ranker in ([name] if name else rankers)}
        found = {ranker: (keep, spec) for ranker, (keep, spec) in rules.items() if keep}
        if not found:
            raise UserError(
                f"keep: is in no spec of the newest runs (got rankers {', '.join(rules) or 'none'}); give --runs, "
                "--models or --checkpoints, or declare `keep` in the spec"
            )
        return [
            clean(root, ranker, keep, spec, is_dry_run=is_dry_run) for ranker, (keep, spec) in found.items() if keep
        ]


def _rule(root: Root, ranker: str, options: Mapping[str, int]) -> tuple[Keep | None, Spec | None]:
    """Returns the rule of a ranker and the spec of its newest run; None where unknown."""
    newest = next((run for run in all_runs(root)[::-1] if run.ranker == ranker), None)
    spec = read_spec(newest.folder) if newest else None
    declared = spec.keep.model_dump() if spec and spec.keep else {}
    members = {**declared, **options}
    return (Keep.model_validate(members) if members else None), spec


def print_cleaning(cleaning: Cleaning, console: Console, *, is_dry_run: bool) -> None:
    """Prints each removed item with its bytes and reason, and counts the kept ones by reason."""
    would = "would remove" if is_dry_run else "removed"
    for decision in cleaning.gone:
        what = f"{decision.kind} {decision.path}"
        say(f"{would} {shown_bytes(cleaning.size(decision)):>8}  {what}: {decision.why}", console)
    if is_dry_run:
        for (kind, why), decisions in _by_reason(cleaning.stays).items():
            size = shown_bytes(sum(map(cleaning.size, decisions)))
            say(f"stays        {size:>8}  {len(decisions)} of kind {kind}: {why}", console)
    say(f"{cleaning.ranker}: {would} {told(cleaning) if cleaning.gone else 'nothing'}", console)


def _by_reason(decisions: tuple[Decision, ...]) -> dict[tuple[str, str], list[Decision]]:
    found: dict[tuple[str, str], list[Decision]] = {}
    for decision in decisions:
        found.setdefault((decision.kind, decision.why), []).append(decision)
    return found


def document(cleaning: Cleaning) -> dict[str, Any]:
    """Returns a cleaning as JSON, for programs."""

    def entry(decision: Decision) -> dict[str, Any]:
        size = cleaning.sizes.get(decision.path)
        return {"kind": decision.kind, "path": str(decision.path), "bytes": size, "why": decision.why}

    return {
        "ranker": cleaning.ranker,
        "bytes": sum(map(cleaning.size, cleaning.gone)),
        "gone": [entry(decision) for decision in cleaning.gone],
        "stays": [entry(decision) for decision in cleaning.stays],
        "failed": [{"path": str(decision.path), "reason": reason} for decision, reason in cleaning.failed],
    }

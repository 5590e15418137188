"""The command `sangam promote`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sangam.pipelines.commands.options import DataOption, JsonOption, SpecArgument
from sangam.pipelines.console import print_json, quieten, say, table, terminal
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.user import current_user

if TYPE_CHECKING:
    from sangam.components.promotion.look import Look
    from sangam.components.reports.promotion import Comparison
    from sangam.schemas.spec import Spec
    from sangam.schemas.spec.release import DirectoryPush

EPILOG = (
    "Example, each hour: sangam promote ranker.yaml --data logs --root runs\n\n"
    "Exit codes: 0 it was made live, still waits, or none waits; 3 it was dropped; 2 the spec, an option or a file is "
    "wrong; 4 another process changes the versions."
)
_KEYS = ("version", "live", "decision", "because", "comparison")


def promote(
    spec: SpecArgument,
    data: DataOption,
    root: Annotated[Path, typer.Option("--root", help="Root of the runs: push.path is relative to it.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Make it live at once, on your responsibility.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop it at once.")] = False,
    because: Annotated[str, typer.Option(help="With --now or --drop: the reason; it is recorded.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Compares the version in the shadow with the live one, and makes it live, drops it, or lets it wait.

    Both are measured on what followed the answers of the live one, by task. The intervals hold at all looks together:
    run it every hour. What became of a version, and why, is in its model card, on the page of its run, in
    DIR/shadow/VERSION.json and in an alert.
    """
    quieten()
    from sangam.components.promotion.look import Look, act, look
    from sangam.components.registry.shadow import waiting
    from sangam.components.reports.promotion import Verdict
    from sangam.schemas.contracts.root import Root
    from sangam.schemas.loading import load_spec

    _refuse_wrong(now=now, drop=drop, because=because)
    loaded = load_spec(spec)
    push = _push(loaded, by_hand=now or drop)
    folder, time = root / push.folder, utc_now().replace(microsecond=0)
    found = waiting(folder)
    if found is None:
        if now or drop:
            raise UserError(f"{folder}: no version waits in the shadow (got none); push one with `after: shadow`")
        if as_json:
            print_json(dict.fromkeys(_KEYS) | {"is_done": False, "problems": []})
        else:
            say(f"no version waits in the shadow of {folder}")
        return
    if now or drop:
        seen = Look(found, None, Verdict(decision="drop" if drop else "promote", because=because), current_user())
    else:
        seen = look(loaded, push, found, data, time)
    is_done = seen.verdict.decision != "wait" and not dry_run
    problems = act(loaded, Root(str(root)), folder, seen, time) if is_done else []
    _tell(seen, problems, is_done=is_done, as_json=as_json)
    if seen.verdict.decision == "drop" and not drop:
        raise typer.Exit(ExitCode.REJECTED)


def _refuse_wrong(*, now: bool, drop: bool, because: str) -> None:
    if now and drop:
        raise UserError("--now: cannot be combined with --drop (got both); give one of them")
    if (now or drop) and not because.strip():
        raise UserError(f"--because: is empty (got '{because}'); give the reason, which is recorded with the version")
    if because and not (now or drop):
        raise UserError(f"--because: has no effect without --now or --drop (got '{because}'); leave it out")


def _push(spec: "Spec", *, by_hand: bool) -> "DirectoryPush":
    from sangam.schemas.spec.release import DirectoryPush

    push = spec.push
    if not isinstance(push, DirectoryPush) or push.is_on_store:
        got = push.path if isinstance(push, DirectoryPush) else push.kind
        raise UserError(f"push: has no folder below a root (got {got}); only there versions wait in the shadow")
    if push.after is None and not by_hand:
        raise UserError(
            "push.after: is missing (got none); add `after: shadow`, or decide by hand with --now or --drop"
        )
    return push


def _tell(seen: "Look", problems: list[str], *, is_done: bool, as_json: bool) -> None:
    if as_json:
        compared = seen.comparison and seen.comparison.model_dump()
        told = (seen.waiting.version, seen.waiting.live, *seen.verdict.model_dump().values(), compared)
        print_json(dict(zip(_KEYS, told, strict=True)) | {"is_done": is_done, "problems": problems})
        return
    if seen.comparison:
        _show(seen.comparison)
    what = {"promote": "made live", "drop": "dropped", "wait": "waits"}[seen.verdict.decision]
    would = "" if is_done or seen.verdict.decision == "wait" else "would be "
    say(f"version {seen.waiting.version} in the shadow of {seen.waiting.live}: {would}{what}: {seen.verdict.because}")
    for problem in problems:
        say(problem)


def _show(found: "Comparison") -> None:
    shown = table(
        "task", "users", "examples", "AUC live", "shadow", "difference", "predicted / observed live", "shadow"
    )
    for task in found.tasks:
        auc, calibration = task.auc, task.calibration
        shown.add_row(
            task.task,
            f"{task.users:,}",
            f"{task.examples:,}",
            *(
                (
                    f"{auc.live:.4f}",
                    f"{auc.shadow:.4f}",
                    f"{auc.difference:+.4f} ({auc.lower:+.4f} to {auc.upper:+.4f})",
                )
                if auc
                else ("", "", "" if task.is_enough else "too few")
            ),
            *((f"{calibration.live:.3f}", f"{calibration.shadow:.3f}") if calibration else ("", "")),
        )
    terminal().print(shown)
    for reason, number in found.left_out.items():
        say(f"left out  {number:,} candidates: {reason}")
    say(f"intervals by {found.by}, {found.level:.0%} for all tasks and all looks together")

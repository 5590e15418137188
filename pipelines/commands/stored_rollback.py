"""What `sangam rollback` does in a folder of versions on an object store."""

from sangam.components.registry import stored_versions as registry
from sangam.pipelines.times import utc_now
from sangam.schemas.errors import UserError


def on_store(
    folder: str, *, because: str, to: str | None, restore: str | None, release: str | None
) -> tuple[list[str], dict[str, object], str | None]:
    """Withdraws or restores; returns what to tell, for people and for programs, and the newest version.

    Raises:
        UserError: an option is wrong, or the store cannot be used.
    """
    folder = folder.rstrip("/")
    if release is not None or "+" in (to or ""):
        option = "--release" if release is not None else "--to"
        raise UserError(f"{option}: deltas are on a disk alone (got {release or to}); give a version")
    if restore is not None:
        if because or to is not None:
            raise UserError("--restore: cannot be combined with --because or --to (got both); give it alone")
        registry.restore(folder, restore)
        newest = _newest(folder)
        return [f"restored {restore}; the newest is {newest}"], {"restored": restore}, newest
    withdrawn = registry.withdraw(folder, because=because, now=utc_now().replace(microsecond=0), to=to)
    newest = _newest(folder)
    what = f"the newest is {newest}" if newest else "no version is left"
    told = [
        f"withdrew {', '.join(withdrawn)}; {what}",
        f"to undo: sangam rollback {folder} --restore {withdrawn[-1]}",
    ]
    return told, {"withdrawn": withdrawn}, newest


def _newest(folder: str) -> str | None:
    available = registry.versions(folder)
    return available[-1] if available else None

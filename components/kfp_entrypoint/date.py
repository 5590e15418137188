"""Which day a run is for, where its parameter leaves it open."""

import datetime

from schemas.derived.days import parse_day, yesterday
from schemas.errors import UserError


def resolve(*, given: str, noted: str, created: str, now: datetime.datetime) -> str:
    """Returns the run's date as YYYY-MM-DD.

    Args:
        given: the parameter; empty: yesterday.
        noted: what an earlier try of the run has taken; empty if this is the first.
        created: when the run was created, RFC 3339. Backends to 2.15, at least, leave the placeholder as it is.
        now: the time, with its zone.

    Raises:
        UserError: for a given date that is none.
    """
    if given:
        try:
            return parse_day(given).isoformat()
        except ValueError as error:
            raise UserError(f"date: {error}, or leave it empty for yesterday (UTC)") from None
    if noted:
        return noted
    moment = (_moment(created) or now).astimezone(datetime.timezone.utc)
    return yesterday(moment.date()).isoformat()


def _moment(text: str) -> datetime.datetime | None:
    """Returns the time that a text says; None if it says none, or not where on Earth."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else None

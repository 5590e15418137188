"""Resolves the date of a run: its parameter, or yesterday."""

import datetime

from sangam.schemas.derived.days import parse_day, yesterday
from sangam.schemas.errors import UserError


def resolve(*, given: str, noted: str, created: str, now: datetime.datetime) -> str:
    """Returns the run's date as YYYY-MM-DD.

    Args:
        given: the parameter; empty: yesterday.
        noted: the date of an earlier step or try of this run; empty if this is the first.
        created: when the run was created, RFC 3339. Kubeflow Pipelines 2.16.1 makes the placeholder empty, others leave
            it unchanged.
        now: present time, with a time zone.

    Raises:
        UserError: if `given` is not a date.
    """
    if given:
        try:
            return parse_day(given).isoformat()
        except ValueError as error:
            raise UserError(f"date: {error}, or leave it empty for yesterday (UTC)") from None
    if noted:
        return noted
    moment = (_moment(created) or now).astimezone(datetime.UTC)
    return yesterday(moment.date()).isoformat()


def _moment(text: str) -> datetime.datetime | None:
    """Parses a time; None if the text is not a time, or has no time zone."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else None

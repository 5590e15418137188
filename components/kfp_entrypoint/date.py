"""Resolves the date of a run: its parameter, or yesterday."""

import datetime

from sangam.components.kfp_entrypoint.invocation import CREATED
from sangam.schemas.derived.days import parse_day, yesterday
from sangam.schemas.errors import UserError


def resolve(*, given: str, noted: str, created: str, now: datetime.datetime) -> str:
    """Returns the run's date as YYYY-MM-DD.

    Args:
        given: the parameter; empty: yesterday.
        noted: the date of an earlier step or try of this run; empty if this is the first.
        created: when the run was created, RFC 3339 in UTC: from Kubeflow Pipelines 2.17. 2.16.1 makes the placeholder
            empty, earlier ones leave it as it is.
        now: present time, with a time zone: takes its place there.

    Raises:
        UserError: if `given` is not a date, or `created` neither a time nor the placeholder.
    """
    if given:
        try:
            return parse_day(given).isoformat()
        except ValueError as error:
            raise UserError(f"date: {error}, or leave it empty for yesterday (UTC)") from None
    if noted:
        return noted
    moment = now if _is_unresolved(created) else _moment(created)
    return yesterday(moment.astimezone(datetime.UTC).date()).isoformat()


def _is_unresolved(text: str) -> bool:
    return not text or text.startswith("{{")


def _moment(text: str) -> datetime.datetime:
    """Parses a time; one without a zone is in UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UserError(
            f"{CREATED}: is not the time at which the run was created (got '{text}'); give the run a `date`"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)

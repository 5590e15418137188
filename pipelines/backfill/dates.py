"""The dates of a backfill."""

import datetime

from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs


def check_dates(spec: Spec, first: str, last: str) -> tuple[Day, ...]:
    """Returns the dates of a period, in order.

    Raises:
        UserError: the spec reads no days, a date is invalid, or `last` is before `first`.
    """
    if not isinstance(spec.logs, DayLogs):
        raise UserError(f"backfill: needs logs by day (got spec '{spec.name}', which reads named splits); use `run`")
    bounds = []
    for option, text in (("--from", first), ("--to", last)):
        try:
            bounds.append(parse_day(text))
        except ValueError as error:
            raise UserError(f"{option}: {error}") from None
    if bounds[1] < bounds[0]:
        raise UserError(f"--to: is before --from (got {last}, --from {first}); give the first date and the last")
    number = (bounds[1] - bounds[0]).days + 1
    return tuple(bounds[0] + datetime.timedelta(days=offset) for offset in range(number))
